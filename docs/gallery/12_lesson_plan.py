# %% [markdown]
# # A lesson plan
#
# An hour of class in ten stations, with the answers computed for *your* sentence. Change the
# sentence in the first cell, run all, print it: that is the sheet on your desk while the class
# guesses.

# %%
import numpy as np
import pandas as pd

import transformer_viz as tv
from transformer_viz.lessons import STATIONS

sentence = "The old man is reading a book on the train."
model = tv.load("en-de")
trace = tv.trace(model, sentence)
print("The class sees:", sentence)
print("The model says:", tv.translate(model, sentence)[0].text)

# %% [markdown]
# ## The hour

# %%
hour, begins = [], 0
for number, station in enumerate(STATIONS, 1):
    hour.append((number, station.title, f"{begins} to {begins + station.minutes}"))
    begins += station.minutes
plan = pd.DataFrame(hour, columns=["station", "about", "minutes"]).set_index("station")
print(f"{begins} minutes in all")
plan

# %% [markdown]
# ## Answers for this sentence
#
# **Station 1. Words become numbers.** How many tokens does the model read?

# %%
print(len(trace.source), "tokens:", *trace.source.labels)

# %% [markdown]
# **Station 2. Who looks at whom?** Each row is a word that looks. One row of cross-attention, the
# strongest link first:

# %%
cross = trace.heads.query("block == 'cross'").sort_values("entropy").iloc[0]
layer, head = int(cross["layer"]), int(cross["head"])
weights = trace.attention("cross", layer)[head]
for row, word in enumerate(trace.produced.labels[:4]):
    order = np.argsort(-weights[row])[:3]
    strongest = [f"“{trace.source.labels[key]}” {weights[row, key]:.2f}" for key in order]
    print(f"“{word}” looks at", *strongest)

# %% [markdown]
# **Station 4. Temperature.** What becomes of a row if nobody divides by √dₖ? That is a temperature
# of 1/√dₖ:

# %%
width = model.config["d_k"]
undivided = tv.Intervention.from_json(
    f'{{"edits": [{{"kind": "temperature", "value": {width**-0.5}, "block": "cross",'
    f' "layer": {layer}, "head": {head}}}]}}'
)
held = {"target": list(trace.target.ids), "produced": list(trace.produced.ids)}
sharp = tv.trace(model, sentence, intervention=undivided, **held)
print(f"dₖ is {width}. The largest weight of each row, in the mean:")
print(f"as trained {weights.max(-1).mean():.2f}")
print(f"undivided  {sharp.attention('cross', layer)[head].max(-1).mean():.2f}")

# %% [markdown]
# **Station 5. Many heads.** Which head looks at the word before?

# %%
encoder = tv.metrics(trace).query("stack == 'encoder'").sort_values("previous", ascending=False)
best = encoder.iloc[0]
share = f"{best['previous']:.0%} of its weight (chance: {best['previous_chance']:.0%})"
print(f"encoder L{best['layer']} H{best['head']}: {share}")
tv.views.head_map(trace, "encoder", int(best["layer"]), int(best["head"]))

# %% [markdown]
# **Station 6. Order.** What does it write of the mixed words, with and without positions?

# %%
mixed = " ".join(np.random.default_rng(1).permutation(sentence.rstrip(".").split())) + "."
nowhere = tv.Intervention.from_json('{"edits": [{"kind": "scale_positions", "value": 0}]}')
print("mixed:               ", mixed)
print("mixed, as trained:   ", tv.translate(model, mixed)[0].text)
print("mixed, no positions: ", tv.translate(model, mixed, intervention=nowhere)[0].text)
print("sentence, no positions:", tv.translate(model, sentence, intervention=nowhere)[0].text)

# %% [markdown]
# **Station 10. What attention does not tell.** Every cross-attention head off, one at a time. How
# many change a word of the translation?

# %%
plain = tv.translate(model, sentence)[0].text
layers, heads = trace.attention("cross").shape[:2]
changed = []
for layer in range(layers):
    for head in range(heads):
        off = tv.Intervention.from_json(
            '{"edits": [{"kind": "scale_head", "value": 0, "block": "cross",'
            f' "layer": {layer}, "head": {head}}}]}}'
        )
        text = tv.translate(model, sentence, intervention=off)[0].text
        if text != plain:
            changed.append((f"L{layer} H{head}", text))
print(f"{len(changed)} of {layers * heads} heads change the translation when they are off.")
for place, text in changed[:5]:
    print(place, text)

# %% [markdown]
# ## What to try next
#
# - The pupils' worksheet to print comes from the page *Lessons* of the app, with all ten
#   questions.
# - [An hour of class](../teaching.md): what to say at each station, and what pupils get wrong.
# - `transformer-viz app --host 0.0.0.0 --no-uploads`, and the code under *Share* for the class.
# - Back to [the first look](first-look.md).
