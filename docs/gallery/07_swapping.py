# %% [markdown]
# # Swapping: what carries the difference?
#
# *It* is the animal in one sentence and the street in another, and only one word differs. You will
# take parts of one run into the other, and find those that turn *es* into *sie*.

# %%
import numpy as np
import pandas as pd

import transformer_viz as tv

tired = "The animal didn't cross the street because it was too tired."
wide = "The animal didn't cross the street because it was too wide."
model = tv.load("en-de")
for sentence in (tired, wide):
    print(tv.translate(model, sentence)[0].text)

# %% [markdown]
# `tv.swap` runs the first sentence, with one part taken from a run of the other. 0: nothing
# changed. 1: the pair of words is as in the other sentence.

# %%
swap = tv.swap(model, tired, wide)
print("the outputs part at:", *swap.words)
lead = f"{swap.clean:+.2f} nats in the first, {swap.other:+.2f} in the other"
print(f"lead of “{swap.words[0]}”: {lead}")
for block, grid in swap.parts.items():
    layer, head = np.unravel_index(np.abs(grid).argmax(), grid.shape)
    print(f"{block}: most moves L{layer} H{head}, by {grid[layer, head]:+.2f}")

# %% [markdown]
# All heads of cross-attention:

# %%
cross = pd.DataFrame(swap.parts["cross"]).round(2)
cross.index.name, cross.columns.name = "layer", "head"
cross

# %% [markdown]
# ## Together
#
# The three largest as one edit, and what the model then writes of *tired*:

# %%
strongest = swap.best(3)
print(f"moved together: {swap.together(strongest):+.2f}")
print(tv.translate(model, tired, intervention=tv.Intervention(strongest))[0].text)

# %% [markdown]
# ## Where does the knowledge stand?
#
# The same with the encoder's stream instead of heads: what stands at one word, behind one layer,
# is taken over. Rows are layers, columns words.

# %%
stream = tv.swap(model, tired, wide, what="stream")
labels = tv.trace(model, tired, check=False).source.labels
encoder = pd.DataFrame(stream.parts["encoder"], columns=labels).round(2)
encoder.index.name = "behind layer"
encoder

# %%
last = encoder.iloc[-1]
print(f"behind the last layer: {last['it']:+.2f} stands at “it”, {last['tired']:+.2f} at “tired”.")

# %% [markdown]
# The head whose *it* looks at *animal* makes the famous picture. Whether it decides was measured
# [on sixty pairs](../it-head.md).
#
# ## What to try next
#
# - Other pairs: *The cup did not fit in the box because it was too big / too small.*
# - `words=("es", "sie")` and `target=` ask elsewhere; `swap.notes` says what was matched with
#   what.
# - In the app: page *Swap*, where one click keeps a swap.
# - Next notebook: [long texts](long-texts.md).
