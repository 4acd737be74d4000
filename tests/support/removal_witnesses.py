"""Models whose heads' worth is known: written by hand, or taught to repeat within seconds.

The hand-written ones are stock GPT-2s. Residuals are one-hots ``u`` stored as ``[u; -u]``, so that
every mean is 0 and every LayerNorm a constant factor, undone by its gain.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY, POSITIONS, HEADS, WIDTH, BOS = 20, 64, 4, 96, 0
SHARP = 40.0  # a score: all other keys together weigh e^-40
SIZE = 3 * VOCABULARY + POSITIONS
TOKEN, POSITION = 0, VOCABULARY  # where each block of u begins
PREVIOUS, OUT = VOCABULARY + POSITIONS, 2 * VOCABULARY + POSITIONS


def importance(gain: float, copies: int = 1) -> nn.Module:
    """W4: L0H0 looks at the token before; L1H0, and with two copies L1H1, finds what followed the
    last time. All other heads write nothing. ``gain`` stands in the unembedding; 20 saturates."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=POSITIONS,
        n_embd=HEADS * WIDTH,
        n_layer=2,
        n_head=HEADS,
        tie_word_embeddings=False,
        bos_token_id=BOS,
        eos_token_id=BOS,
    )
    model = GPT2LMHeadModel(config).eval()
    body, words = model.transformer, range(VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for token in words:
            _write(body.wte.weight[token], TOKEN + token)
            model.lm_head.weight[token, OUT + token] = gain * (token != BOS)
        for place in range(POSITIONS):
            _write(body.wpe.weight[place], POSITION + place)
        ones = {"h.0.ln_1": 2, "h.0.ln_2": 3, "h.1.ln_1": 3, "h.1.ln_2": 3, "ln_f": 3 + copies**2}
        for name, count in ones.items():
            norm = body.get_submodule(name)
            norm.weight.fill_(math.sqrt(2 * count / (HEADS * WIDTH) + norm.eps))
        first, second = body.h[0].attn, body.h[1].attn
        for place in range(POSITIONS):
            if place:
                _link(first, 0, "q", POSITION + place, place - 1, SHARP)
            _link(first, 0, "k", POSITION + place, place)
        for head in range(copies):
            for token in words:
                if token != BOS:
                    _link(second, head, "q", TOKEN + token, token, SHARP)
                    _link(second, head, "k", PREVIOUS + token, token)
                _link(second, head, "q", TOKEN + token, BOS, SHARP / 2)
            _link(second, head, "k", TOKEN + BOS, BOS)
        for attention, heads, out in ((first, (0,), PREVIOUS), (second, range(copies), OUT)):
            for head in heads:
                for token in words:
                    _link(attention, head, "v", TOKEN + token, token)
                    _write(attention.c_proj.weight[head * WIDTH + token], out + token)
    return model


def _write(row: Tensor, place: int) -> None:
    row[place], row[SIZE + place] = 1.0, -1.0


def _link(
    attention: nn.Module, head: int, what: str, read: int, column: int, by: float = 1
) -> None:
    """Let one number of the residual reach one column of a head's queries, keys or values."""
    first = "qkv".index(what) * HEADS * WIDTH + head * WIDTH
    scale = math.sqrt(WIDTH) if what == "q" else 1.0
    attention.c_attn.weight[read, first + column] += by * scale


def repeats(count: int, seed: int = 0, length: int = 12) -> list[tuple[list[int], list[int]]]:
    """Prompts ``BOS r r[0]`` and what follows for certain, the rest of r; distinct tokens."""
    generator, found = torch.Generator().manual_seed(seed), []
    for _ in range(count):
        r = (torch.randperm(VOCABULARY - 1, generator=generator)[:length] + 1).tolist()
        found.append(([BOS, *r, r[0]], r[1:]))
    return found


def random_gpt2(seed: int = 0) -> nn.Module:
    """W5a: a random GPT-2 of 3 layers and 4 heads, its biases not 0."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=37, n_positions=32, n_embd=32, n_layer=3, n_head=HEADS, initializer_range=0.3
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("attn.c_attn.bias", "attn.c_proj.bias")):
                parameter.normal_(0, 0.5)
    return model


def bias_moved(model: nn.Module) -> None:
    """W5b: the value bias moved into the output bias, in place; rows of weights sum to 1, so the
    function is the same."""
    with torch.no_grad():
        for block in model.transformer.h:
            attention = block.attn
            bias = attention.c_attn.bias[2 * attention.embed_dim :]
            attention.c_proj.bias += bias @ attention.c_proj.weight
            bias.zero_()


class Repeater(nn.Module):
    """W7: attention alone, two layers of four heads; ids ``[batch, token]`` to logits."""

    def __init__(self, vocabulary: int = 32, width: int = 64, layers: int = 2, heads: int = HEADS):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(40, width)
        self.layers = nn.ModuleList(_Attention(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.norm(x))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        scores = q @ k.transpose(-1, -2) / math.sqrt(k.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


def periodic(count: int, generator: torch.Generator, period: int) -> Tensor:
    """Random tokens that are said twice and then half once more: ``[sentence, token]``."""
    r = torch.rand(count, 32, generator=generator).argsort(1)[:, :period]
    return r.repeat(1, 3)[:, : 2 * period + period // 2]


def taught(steps: int = 900, seed: int = 0) -> Repeater:
    """W7 after its ten seconds of training, on periods from 8 to 16."""
    torch.manual_seed(seed)
    model, generator = Repeater(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step in range(steps):
        period = int(torch.randint(8, 17, (1,), generator=generator))
        ids = periodic(64, generator, period)[:, :40]
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits[:, period - 1 :].flatten(0, 1), ids[:, period:].flatten())
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 50) * min(1.0, 2 * (1 - step / steps))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
