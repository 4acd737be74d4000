# %% [markdown]
# # What is lost without a head?
#
# A head that looks striking may do nothing. You will remove every head of a translator in turn,
# see what that costs, and find that what each costs alone does not add up.

# %%
import transformer_viz as tv
from transformer_viz.paths import ROOT

lines = (ROOT / "pretrained" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
pairs = [tuple(line.split("\t")[:2]) for line in lines[:30]]
model = tv.load("en-de-small")
ranking = tv.rank(model, pairs)
print(*ranking.notes, sep="\n")

# %% [markdown]
# `effect` is how many nats a word of the right translation costs more without the head (0.7 nats:
# half as probable), with a 95 % interval over sentences, and the places between which it stands.

# %%
columns = ["stack", "block", "layer", "head", "effect", "low", "high", "rank_low", "rank_high"]
ranking.table[columns].head(8).round(3)

# %%
surely = int(ranking.table["significant"].sum())
print(f"{surely} of {len(ranking.table)} heads cost something beyond doubt on these sentences.")

# %% [markdown]
# ## Does what is striking matter?
#
# The head of the lowest entropy makes the sharpest picture. Where does it stand in the ranking?

# %%
measured = tv.metrics(model, pairs)
places = ["stack", "block", "layer", "head"]
both = ranking.table.merge(measured, on=places)
sharpest = both.sort_values("entropy").iloc[0]
name = " ".join(str(sharpest[place]) for place in places[:2])
print(
    f"sharpest: {name} L{sharpest['layer']} H{sharpest['head']},"
    f" entropy {sharpest['entropy']:.2f} of 1;"
    f" without it {sharpest['effect']:+.3f} nats, place {sharpest['rank']} of {len(both)}"
)
relation = both["entropy"].corr(both["effect"], method="spearman")
print(f"rank correlation of entropy and cost over all heads: {relation:+.2f}")

# %% [markdown]
# ## Several at once
#
# Heads can cover for each other. All cross-attention heads of one layer, together and one by one:

# %%
for layer in range(3):
    heads = [("decoder", "cross", layer, head) for head in range(4)]
    group = ranking.group(heads)
    print(
        f"cross L{layer}: {group['effect']:+.3f} nats without all four,"
        f" {group['sum']:+.3f} if one adds what each costs alone"
    )

# %% [markdown]
# ## In one sentence
#
# The same as an edit, on a sentence. What does the model write without its costliest head?

# %%
first = ranking.table.iloc[0]
edit = {key: first[key] for key in ("block", "layer", "head")}
without = tv.Intervention.from_json(
    f'{{"edits": [{{"kind": "scale_head", "value": 0, "stack": "{first["stack"]}",'
    f' "block": "{edit["block"]}", "layer": {edit["layer"]}, "head": {edit["head"]}}}]}}'
)
print(without.describe())
for sentence in ("The old man is reading a book.", "She has never seen the sea."):
    print("as trained:", tv.translate(model, sentence)[0].text)
    print("without:   ", tv.translate(model, sentence, intervention=without)[0].text)

# %% [markdown]
# ## What to try next
#
# - `tv.rank(model, pairs, method="zero")`: what a removed head gives is a choice. Does the order
#   hold?
# - More sentences: with 200 the intervals shrink, and more heads are beyond doubt.
# - `ranking.curve("least")` removes the cheapest first: how many can go before anything is lost?
# - Next notebook: [why this word](why-this-word.md) asks about words instead of heads.
