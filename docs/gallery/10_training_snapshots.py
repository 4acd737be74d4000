# %% [markdown]
# # A training, step by step
#
# Heads are not born with their habits. You will open the same model at eight moments of its
# training, and see when it learns to translate and when its heads begin to choose.

# %%
import json

import pandas as pd

import transformer_viz as tv
from transformer_viz.paths import ROOT

names = [f"en-de-small/step-{4**power}" for power in range(7)] + ["en-de-small"]
sentence = "The old man is reading a book."
models = {name: tv.load(name) for name in names}
for name, model in models.items():
    print(f"{name:22} “{tv.translate(model, sentence, max_tokens=12)[0].text}”")

# %% [markdown]
# ## The quality, measured when it was trained
#
# Loss and BLEU on sentences that it never saw. They stand in the box, and were not computed here.

# %%
file = ROOT / "pretrained" / "en-de-small" / "snapshots.json"
told = json.loads(file.read_text(encoding="utf-8"))
pd.DataFrame(told["snapshots"]).set_index("step")

# %% [markdown]
# ## When do heads begin to choose?
#
# All runs are held to the words that the finished model writes. The mean entropy of each block, in
# bits, and the largest share on the word before that any encoder head has:

# %%
finished = tv.trace(models["en-de-small"], sentence)
held = list(finished.target.ids), list(finished.produced.ids)
rows, runs = {}, {}
for name, model in models.items():
    run = tv.trace(model, sentence, target=held[0], produced=held[1], check=False)
    runs[name] = run
    place = run.heads["stack"].where(run.heads["block"] == "self", run.heads["block"])
    measured = tv.metrics(run).query("stack == 'encoder'")
    rows[name] = run.heads.groupby(place)["entropy"].mean().to_dict()
    rows[name]["previous, at most"] = measured["previous"].max()
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# ## One head, early and late
#
# How far is each head from what it becomes? `tv.compare` says it in bits: 0 is alike, 1 the
# opposite.

# %%
for name in names[:-1]:
    found = tv.compare(name, "en-de-small", sentence)
    print(f"{name:22} {found.heads['divergence'].mean():.2f} bits from the end, in the mean")

# %%
apart = tv.compare(names[0], "en-de-small", sentence).heads
latest = apart.sort_values("divergence", ascending=False).iloc[0]
place = latest["stack"] if latest["block"] == "self" else latest["block"]
print(f"{place} L{latest['layer']} H{latest['head']} changed most: {latest['divergence']:.2f} bits")
print("after one update:")
tv.views.head_map(runs[names[0]], place, int(latest["layer"]), int(latest["head"]))

# %%
print("at the end:")
tv.views.head_map(runs["en-de-small"], place, int(latest["layer"]), int(latest["head"]))

# %% [markdown]
# ## What to try next
#
# - A sentence with *it*, or one twice as long: do the same heads change most?
# - Your own training: save a `state_dict` now and then, and give the files to `tv.load`.
# - [What papers found, trained again here](../demonstrations.md): when induction heads appear.
# - Next notebook: [a corpus](corpus.md).
