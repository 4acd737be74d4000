# %% [markdown]
# # A corpus
#
# Every head over as many sentences as you have, as a folder that can be stopped, resumed, spread
# over machines and asked later without the model. You will make a small one and ask it.

# %%
from pathlib import Path

import numpy as np

import transformer_viz as tv
from transformer_viz.corpus.engines import run
from transformer_viz.corpus.folder import open_atlas
from transformer_viz.corpus.plan import make_plan, settle_plan
from transformer_viz.paths import ROOT

lines = (ROOT / "pretrained" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
file, out = Path("pairs.tsv"), Path("atlas")
file.write_text("".join(line + "\n" for line in lines[:60]), encoding="utf-8")

model = tv.load("en-de", device="cpu")
plan = make_plan(model, file)
settle_plan(plan, out)
run(plan, file, out, model)
print(*sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()))

# %% [markdown]
# On the command line that is `transformer-viz atlas en-de pairs.tsv --out atlas`.
#
# ## What the folder says
#
# From here on no model is needed.

# %%
atlas = open_atlas(out)
print("sentences that are done, and all:", *atlas.progress)
told = tv.roles(atlas.table)
named = told[told["roles"].map(len) > 0]
print(f"{len(named)} of {len(told)} heads have a role")
named[["stack", "block", "layer", "head", "roles", "previous", "self", "next"]].round(2)

# %% [markdown]
# ## One head in many sentences
#
# Is it always so, or now and then? The mean of each sentence, for the encoder head that looks most
# at the word before:

# %%
encoder = told.query("stack == 'encoder'").sort_values("previous").iloc[-1]
head = ("encoder", "self", int(encoder["layer"]), int(encoder["head"]))
counts, edges = atlas.histogram(head, "previous")
tenths = np.histogram(np.repeat((edges[:-1] + edges[1:]) / 2, counts), bins=10, range=(0, 1))[0]
for start, count in zip(np.arange(10) / 10, tenths, strict=True):
    print(f"{start:.1f} to {start + 0.1:.1f}  {'█' * int(count)} {count}")

# %% [markdown]
# ## Sentences that show it
#
# The three where it does so most, and typical ones of each quarter of the range:

# %%
for example in atlas.examples(head, "previous"):
    print(f"{example.score:.2f}  {example.text}")

# %% [markdown]
# ## What to try next
#
# - A file of your own. What 2,000 sentences cost stands [here](../corpus.md#what-it-costs).
# - Stop it in the middle, and give the same command again: it goes on.
# - The page *Corpus* of the app opens the folder, with maps of the examples.
# - [What stands in the folder](../corpus.md#the-folder).
# - Next notebook: [a lesson plan](lesson-plan.md).
