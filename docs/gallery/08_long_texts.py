# %% [markdown]
# # Long texts
#
# A head's map of 8,192 words has 67 million cells. You will keep queries and keys in its place,
# compute any part of the map when it is looked at, and find the strongest links over far
# distances.

# %%
import numpy as np

import transformer_viz as tv
from transformer_viz.paths import ROOT

lines = (ROOT / "pretrained" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
text = " ".join(line.split("\t")[0] for line in lines[:70])
model = tv.load("en-lm")
trace = tv.trace(model, text, keep=("tiles",), check=False)
print(f"{len(text):,} letters, {len(trace.source):,} tokens, {len(trace.heads)} heads")

# %% [markdown]
# `check=False` leaves out the proof, which takes longer than the run itself on long texts. The
# first part of the text with it:

# %%
proved = tv.trace(model, text[:400])
print(f"{len(proved.source)} tokens: {proved.report.status}")

# %% [markdown]
# ## A part of a map, and the whole in small
#
# Against the matrix itself, which such a trace builds on demand:

# %%
layer, head = 2, 3
part = trace.tile("decoder", layer, head, rows=slice(300, 306), columns=slice(290, 306))
whole = trace.attention("decoder", layer)[head]
print("a tile:", part.shape, "of", whole.shape)
print(f"largest difference from the matrix: {np.abs(part - whole[300:306, 290:306]).max():.1e}")
small = trace.level("decoder", layer, head, cells=64)
print("the whole in at most 64 x 64 cells, each the largest weight in it:", small.shape)

# %% [markdown]
# ## Far links
#
# Which words look far back, and at what? The first token is left out, where heads park what they
# have no use for; `once=True` takes only the strongest link to each word.

# %%
trace.far_links("decoder", layer, head, distance=100, count=8, once=True).round(3)

# %% [markdown]
# How far do heads look in the mean? The nearest and the farthest:

# %%
distances = trace.heads.sort_values("distance")
for row in (distances.iloc[0], distances.iloc[-1]):
    print(f"L{row['layer']} H{row['head']}: {row['distance']:.0f} tokens in the mean")

# %% [markdown]
# ## Four thousand tokens
#
# No model in the box reads that much, so here is a GPT-2 with random weights and 4,096 places. Its
# fused attention never holds a matrix, and the trace need not either:

# %%
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(3)
sizes = {"vocab_size": 101, "n_positions": 4096, "n_embd": 32, "n_layer": 2, "n_head": 4}
config = GPT2Config(**sizes, bos_token_id=1, eos_token_id=2)
random = tv.load(GPT2LMHeadModel(config).eval())
ids = torch.randint(101, (4096,), generator=torch.Generator().manual_seed(7)).tolist()
long = tv.trace(random, ids)
tokens = len(long.source)
heads = len(long.heads)
matrices = 4 * heads * tokens**2
kept = 4 * tokens * heads * 2 * (config.n_embd // config.n_head)
print(f"{heads} matrices of {tokens:,} tokens would take {matrices / 1e6:,.0f} MB")
print(f"queries and keys take {kept / 1e6:,.1f} MB")
tile = long.tile("decoder", 1, 2, rows=slice(4000, 4002), columns=slice(0, 4002))
print("two rows near the end sum to", *(f"{row.sum():.6f}" for row in tile))

# %% [markdown]
# ## What to try next
#
# - A chapter of your own, with a model that reads it. In the app its map zooms like a street map.
# - `transformer-viz report ... --max-mb 10`: an offline page of a long text, down to single
#   weights.
# - [Texts of any length](../take-it-with-you.md#texts-of-any-length): limits and what is exact.
# - Next notebook: [a model that reads pictures](vit.md).
