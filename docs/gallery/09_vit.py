# %% [markdown]
# # A Vision Transformer
#
# A small ViT reads handwritten digits of 8 x 8 pixels as sixteen patches. You will see what its
# class token looks at, what the model doubts, and which patches it needs.

# %%
import numpy as np

import transformer_viz as tv
from transformer_viz.paths import ROOT

model = tv.load("digits")
examples = ROOT / "pretrained" / "digits" / "examples"
picture = examples / "hard-three.png"
trace = tv.trace(model, picture)
print("tokens:", *trace.source.labels)
print("verdict:", trace.report.status)

# %%
names = model.labels


def guesses(run, count=3):
    chances = np.exp(run.logits.ravel() - run.logits.max())
    chances /= chances.sum()
    return ", ".join(f"{names[id]} {chances[id]:.0%}" for id in np.argsort(-chances)[:count])


print("a three that is hard to read:", guesses(trace))
for name in ("three", "eight", "nine"):
    print(f"{name}:", guesses(tv.trace(model, examples / f"{name}.png")))

# %% [markdown]
# ## What the class token looks at
#
# Token 0 stands for the whole picture. Its row of one head of the last layer, laid over the
# pixels:

# %%
shown = model.image.shown(model.image.pixels(picture))
last = trace.heads.query("layer == 3").sort_values("entropy").iloc[0]
head = int(last["head"])
print(f"L3 H{head} chooses most clearly in the last layer: {last['entropy']:.2f} bits")
tv.views.over_image(trace, "encoder", 3, head, query=0, shown=shown)

# %% [markdown]
# ## Which patches does it need?
#
# A patch that is looked at is not yet one that is needed. Each is hidden once, and the model asked
# again: how much of the first guess's chance goes?

# %%
why = tv.explain(model, picture, method="removal")
print("asked about:", why.word)
print(why.caption)
needed = why.values.query("not special").sort_values("value", ascending=False)
needed[["label", "value"]].head(5).round(3)

# %%
looked = trace.attention("encoder", 3)[head, 0, 1:]
lost = why.values.query("not special")["value"].to_numpy()
print(
    f"correlation of what is looked at and what is needed: {np.corrcoef(looked, lost)[0, 1]:+.2f}"
)

# %% [markdown]
# ## What to try next
#
# - The other heads of the last layer, and the other layers: do their pictures agree?
# - A digit of your own: any picture is brought to 8 x 8 pixels.
# - A ViT or DeiT of timm or Hugging Face: `tv.load("google/vit-base-patch16-224")`.
# - Next notebook: [a training, step by step](training-snapshots.md).
