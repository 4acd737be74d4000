# %% [markdown]
# # A PyTorch model of your own
#
# You wrote a Transformer yourself, in a file that this package has never seen. You will train one
# in seconds, see what its heads look at without changing a line of it, and test whether the
# picture is right by switching heads off.

# %%
import torch
from torch import nn
from torch.nn import functional as F

import transformer_viz as tv

LENGTH, SYMBOLS, WIDTH, HEADS = 7, 11, 32, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        def split(y):  # [batch, token, WIDTH] to [batch, head, token, WIDTH / HEADS]
            return y.unflatten(-1, (HEADS, -1)).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Reverser(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols, self.places = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention, self.says = Attention(), nn.Linear(WIDTH, SYMBOLS)

    def forward(self, ids):
        x = self.symbols(ids) + self.places(torch.arange(ids.shape[1]))
        return self.says(x + self.attention(x))


# %% [markdown]
# It is to write a list of symbols backwards. One layer can do that: word *i* has to look at word
# *6 - i*. Nobody tells it so.

# %%
torch.manual_seed(5)
model = Reverser()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


def right(model):
    ids = torch.randint(SYMBOLS, (500, LENGTH), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return (model(ids).argmax(-1) == ids.flip(1)).float().mean().item()


for step in range(401):
    if step % 100 == 0:
        print(f"update {step}: {right(model):.0%} of the symbols are right")
    ids = torch.randint(SYMBOLS, (64, LENGTH))
    loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# ## Watch it
#
# `tv.probe` goes around a call. It finds attention by what the module computes, not by its name,
# and the module itself is not touched.

# %%
model.eval()
ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])
with torch.inference_mode(), tv.probe(model) as run:
    model(ids)
found = run.attentions[0]
print("found in:", found.path, "- weights [batch, head, query, key]:", tuple(found.weights.shape))
backwards = found.weights[0].flip(-1).diagonal(dim1=-2, dim2=-1).mean(-1)
for head, share in enumerate(backwards):
    print(f"head {head}: {share:.0%} of its weight lies on the diagonal that runs backwards")

# %% [markdown]
# The same weights as a picture. `tv.from_attentions` takes any weights; a trace of them says that
# they were given, since here nothing was proved.

# %%
weights = found.weights[0].float().numpy()
names = [f"{place}: {symbol}" for place, symbol in enumerate(ids[0])]
given = tv.from_attentions(weights[None], names)
print(given.report.status)
tv.views.head_map(given, "encoder", layer=0, head=int(backwards.argmax()))

# %% [markdown]
# ## Is the picture right?
#
# If the heads do the work, nothing should be left without them. An edit goes into the same probe.
# By chance one symbol in eleven would be right.

# %%
print(f"as trained: {right(model):.0%}")
for gone in ([0], [1], [0, 1]):
    edits = ", ".join(
        f'{{"kind": "scale_head", "value": 0, "layer": 0, "head": {head}}}' for head in gone
    )
    with tv.probe(model, tv.Intervention.from_json(f'{{"edits": [{edits}]}}')):
        print(f"without head {' and '.join(map(str, gone))}: {right(model):.0%}")
print(f"chance: {1 / SYMBOLS:.0%}")
print(f"and as trained once more, since nothing was changed: {right(model):.0%}")

# %% [markdown]
# ## What to try next
#
# - `HEADS = 1`: does one head learn it as well? Then `HEADS = 4`.
# - Take `self.places` out of the sum. What can it still learn?
# - Put in `nn.MultiheadAttention` or `F.scaled_dot_product_attention`: the probe finds them too.
# - A whole checkpoint from disk: [Open your own model](../open-your-own.md).
# - Next notebook: [a model of the Hub](hub-model.md).
