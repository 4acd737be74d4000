# %% [markdown]
# # Why this word?
#
# The German for *it* is *es*, *er* or *sie*, and the model wrote one of them. What had the input
# to do with that? You will ask five methods, see that they disagree, and let a test judge them.

# %%
import pandas as pd

import transformer_viz as tv

sentence = "The animal didn't cross the street because it was too tired."
model = tv.load("en-de")
written = tv.translate(model, sentence)[0]
print(written.text)

removal = tv.explain(model, sentence, word=0, method="removal")
words = removal.explainer.question.words
word = words.index("es")
print("asked about:", words[word], f"(word {word})")

# %% [markdown]
# ## Take a word away
#
# The plainest answer: hide one word from the model, and see how many nats the answer loses.

# %%
removal = tv.explain(model, sentence, word=word, method="removal")
print(removal.caption)
removal.values.sort_values("value", ascending=False).head(6).round(2)

# %% [markdown]
# ## Five methods, one question
#
# Weights and rollout follow attention, contribution follows what each word adds to the stream,
# gradient and removal ask about this word's probability. The first three words of each:

# %%
found = {}
for method in ("weights", "rollout", "contribution", "gradient", "removal"):
    found[method] = tv.explain(model, sentence, word=word, method=method)
    ranked = found[method].values.query("not special").sort_values("value", ascending=False)
    first = [f"“{row.label}” {row.value:.2f}" for row in ranked.head(3).itertuples()]
    print(f"{method:13}", *first)

# %% [markdown]
# How far do two of them agree on the order of all words? 1 is the same order:

# %%
scores = pd.DataFrame({name: one.values["value"].to_numpy() for name, one in found.items()})
scores.corr(method="spearman").round(2)

# %% [markdown]
# ## Who is right?
#
# A deletion curve hides the words that a method names first. If they matter, the answer becomes
# improbable sooner than with as many words by chance.

# %%
for name, one in found.items():
    best = one.deletion().best
    print(f"{name:13} {best[name]:.2f} nats lost, against {best['random']:.2f} by chance")

# %% [markdown]
# On one sentence that is an anecdote. [Over a hundred sentences](../why-this-word.md) it is
# measured.
#
# ## Which parts of the model wrote it?
#
# The logit is a sum of what heads, feed-forward layers and biases add. It adds up, and here are
# the largest parts:

# %%
direct = tv.explain(model, sentence, word=word, method="logits")
print(f"the parts are off from the logit by {direct.complete:.1e}")
direct.values.sort_values("value", ascending=False).head(6).round(2)

# %% [markdown]
# ## Layer by layer
#
# What would it have said if it had to stop after each layer?

# %%
tv.explain(model, sentence, word=word, method="lens").values.round(3)

# %% [markdown]
# ## What to try next
#
# - Put *wide* in the place of *tired*, and ask about *sie*.
# - Ask about a noun: its own translation should matter most. Does it, by every method?
# - On the command line: `transformer-viz explain en-de "The cat sat." --word 1 --method removal`.
# - Next notebook: [what carries the difference](swapping.md) between *tired* and *wide*.
