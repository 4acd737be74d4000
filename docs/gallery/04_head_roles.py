# %% [markdown]
# # What is each head for?
#
# One sentence tells little about a head. You will ask every head the same questions over forty
# sentences, see which have a role by a rule that shuffled words do not pass, and how many have
# none.

# %%
import transformer_viz as tv
from transformer_viz.paths import ROOT

lines = (ROOT / "pretrained" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
pairs = [tuple(line.split("\t")[:2]) for line in lines[:40]]
print(len(pairs), "sentences that no model was trained on, such as:", pairs[0])

model = tv.load("en-de")
table = tv.metrics(model, pairs)
print(f"{len(table)} heads, {len(table.columns)} columns")

# %% [markdown]
# `previous` is the share of a head's weight on the word before. Beside it stand the rows that were
# asked, what a head would get that looks everywhere alike, and the 95 % interval over sentences:

# %%
columns = ["stack", "block", "layer", "head", "previous", "previous_rows", "previous_chance"]
columns += ["previous_low", "previous_high"]
table.sort_values("previous", ascending=False)[columns].head(5).round(2)

# %% [markdown]
# ## Roles
#
# A role wants a score of 0.5 from at least 20 rows, well above chance, and an interval that lies
# above the same question asked of shuffled words. Most heads have none, and that is an answer.

# %%
told = tv.roles(table)
named = told[told["roles"].map(len) > 0]
for head in named.itertuples():
    place = head.stack if head.block == "self" else head.block
    print(f"{place} L{head.layer} H{head.head}: {', '.join(head.roles)}")
print(f"no role found: {len(told) - len(named)} of {len(told)} heads")

# %% [markdown]
# ## Look at one
#
# The picture of the head that looks at the word before most of all. If the number is right, the
# cells left of the diagonal are dark.

# %%
best = table.query("stack == 'encoder'").sort_values("previous").iloc[-1]
trace = tv.trace(model, "The old man is reading a book on the train.")
print(f"encoder L{best['layer']} H{best['head']}: {best['previous']:.2f} over all sentences")
tv.views.head_map(trace, "encoder", layer=int(best["layer"]), head=int(best["head"]))

# %% [markdown]
# ## What goes together
#
# Does a head that looks at the word before look at itself too? The correlation over the heads of
# encoder and decoder:

# %%
asked = ["previous", "self", "next", "entropy", "distance"]
table.query("block == 'self'")[asked].corr().round(2)

# %% [markdown]
# ## What to try next
#
# - `tv.metrics(model, pairs, view="raw")`: special tokens are counted then. Which scores change
#   most?
# - The smaller `en-de-small`: how many of its heads have a role? And `en-lm`, which reads only
#   backwards: can a head of it look at the next word?
# - [Every measure with its formula](../measures.md); [the heads of all models in the
#   box](../heads.md).
# - A role is a habit, not a purpose. Next notebook: [what is lost without a head](removal.md).
