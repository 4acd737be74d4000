"""Models whose heads are known because they were written by hand: W1 to W6.

Stock GPT-2 and BART with all weights 0 but a few. Residuals are blocks of one-hots ``u = [token,
position, previous, out]`` stored as ``[u; -u]``: every mean is 0 and every LayerNorm a constant
factor that its gain undoes. A match scores `SHARP` after scaling, so that all other keys together
weigh e^-40. ``seed`` permutes the heads of each layer; ``order`` of the witness says how.

| witness | function | what is known |
|---|---|---|
| W1 | `causal` | previous, duplicate, sink, uniform; induction, the same unwritten, self, uniform |
| W2 | `translator` | previous, next, self, duplicate; across: diagonal, shifted, on EOS, uniform |
| W3 | `ov_weights` | an OV circuit that copies, suppresses, shifts, or is random |
| W4 | `importance` | what the removal of each head costs, also where the gradient is 0 |
| W5 | `random_gpt2`, `twin` | other weights of one function |
| W6 | `decoy`, `random_model` | heads that have no role, though something looks like one |

W7, which is trained, is `tests.support.repeater`.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transformer_viz.model import ModelConfig, Transformer

VOCABULARY, POSITIONS, HEADS, WIDTH, BOS, EOS, PAD = 20, 64, 4, 96, 0, 2, 1
SHARP = 40.0
SIZE = 3 * VOCABULARY + POSITIONS
TOKEN, POSITION = 0, VOCABULARY  # where each block of u begins
PREVIOUS, OUT = VOCABULARY + POSITIONS, 2 * VOCABULARY + POSITIONS


@dataclass(frozen=True)
class Witness:
    """A module, and for each layer which written head stands at each place."""

    module: nn.Module
    order: tuple[tuple[int, ...], ...]

    def place(self, layer: int, head: int) -> int:
        """Where a written head stands now."""
        return self.order[layer].index(head)


def orders(layers: int, seed: int | None) -> tuple[tuple[int, ...], ...]:
    """For each layer the heads as they stand; without a seed as they are written."""
    if seed is None:
        return (tuple(range(HEADS)),) * layers
    generator = np.random.default_rng(seed)
    return tuple(tuple(map(int, generator.permutation(HEADS))) for _ in range(layers))


def write(row: Tensor, place: int, by: float = 1.0) -> None:
    """One one-hot of the residual, and its mirror."""
    row[place], row[SIZE + place] = by, -by


def links(name: str) -> list[tuple[str, int, int, float]]:
    """What a head of this name reads: ``(q or k, residual index, column of the head, weight)``."""
    words, places = range(VOCABULARY), range(POSITIONS)
    by_place = [("k", POSITION + i, i, 1.0) for i in places]
    if name.startswith("shift"):
        by = int(name.removeprefix("shift"))
        reach = [i for i in places if 0 <= i - by < POSITIONS]
        return [*by_place, *(("q", POSITION + i, i - by, SHARP) for i in reach)]
    if name.startswith("reversed"):
        last = int(name.removeprefix("reversed")) - 1
        reach = [i for i in places if last - i >= 0]
        return [*by_place, *(("q", POSITION + i, last - i, SHARP) for i in reach)]
    if name in ("sink", "on_eos"):
        token = BOS if name == "sink" else EOS
        return [("k", TOKEN + token, 0, 1.0), *(("q", TOKEN + t, 0, SHARP) for t in words)]
    if name == "duplicate":
        return [
            *(("q", TOKEN + t, t, SHARP) for t in words if t != BOS),
            *(("q", TOKEN + t, BOS, SHARP / 2) for t in words),
            *(("k", TOKEN + t, t, 1.0) for t in words),
            *(("q", POSITION + i, VOCABULARY + i, -2 * SHARP) for i in places),
            *(("k", POSITION + i, VOCABULARY + i, 1.0) for i in places),
        ]
    if name == "induction":
        return [
            *(("q", TOKEN + t, t, SHARP) for t in words if t != BOS),
            *(("q", TOKEN + t, BOS, SHARP / 2) for t in words),
            *(("k", PREVIOUS + t, t, 1.0) for t in words if t != BOS),
            ("k", TOKEN + BOS, BOS, 1.0),
        ]
    assert name == "uniform", name
    return []


def gpt2(
    layers: list[list[str]], gain: float = 20.0, seed: int | None = None, copies: int = 1
) -> Witness:
    """A causal witness: a list of head names a layer; ``previous`` is ``shift1``, ``self``
    ``shift0``. The first ``shift1`` of a layer writes what it reads to `PREVIOUS`, the first
    ``copies`` of ``induction`` to `OUT`, which the unembedding multiplies with ``gain``."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=POSITIONS,
        n_embd=HEADS * WIDTH,
        n_layer=len(layers),
        n_head=HEADS,
        tie_word_embeddings=False,
        bos_token_id=BOS,
        eos_token_id=BOS,
    )
    model = GPT2LMHeadModel(config).eval()
    body, order, written = model.transformer, orders(len(layers), seed), 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for token in range(VOCABULARY):
            write(body.wte.weight[token], TOKEN + token)
            model.lm_head.weight[token, OUT + token] = gain * (token != BOS)
        for place in range(POSITIONS):
            write(body.wpe.weight[place], POSITION + place)
        for layer, names in enumerate(layers):
            block = body.h[layer]
            outs = {"shift1": [PREVIOUS], "induction": [OUT] * copies}
            _gain(block.ln_1, 2 + written)
            for head, name in enumerate(names):
                place = order[layer].index(head)
                for what, read, column, by in links(name):
                    _gpt2_link(block.attn, place, what, read, column, by)
                if not outs.get(name):
                    continue
                out = outs[name].pop()
                for token in range(VOCABULARY):
                    _gpt2_link(block.attn, place, "v", TOKEN + token, token, 1.0)
                    write(block.attn.c_proj.weight[place * WIDTH + token], out + token)
            # what several heads write to one place is added: so many ones, squared
            written += sum(names.count(n) and (copies**2 if n == "induction" else 1) for n in outs)
            _gain(block.ln_2, 2 + written)
        _gain(body.ln_f, 2 + written)
    return Witness(model, order)


def _gain(norm: nn.Module, ones: int) -> None:
    norm.weight.fill_(math.sqrt(2 * ones / (HEADS * WIDTH) + norm.eps))


def _gpt2_link(
    attention: nn.Module, head: int, what: str, read: int, column: int, by: float
) -> None:
    first = "qkv".index(what) * HEADS * WIDTH + head * WIDTH
    scale = math.sqrt(WIDTH) if what == "q" else 1.0
    attention.c_attn.weight[read, first + column] += by * scale


def bart(
    encoder: list[str], cross: list[str], gain: float = 20.0, seed: int | None = None
) -> Witness:
    """An encoder-decoder witness of one layer each, post-norm; ``order`` is of encoder and cross.

    ``shift-1`` looks at the next token. The first ``shift0`` of the cross heads writes what it
    reads to `OUT`, so that the source comes back.
    """
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=POSITIONS,
        d_model=HEADS * WIDTH,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=2,
        decoder_ffn_dim=2,
        tie_word_embeddings=False,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    model = BartForConditionalGeneration(config).eval()
    stacks, order = (model.model.encoder, model.model.decoder), orders(2, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for token in range(VOCABULARY):
            model.lm_head.weight[token, OUT + token] = gain * (token not in (BOS, PAD))
        for stack in stacks:
            for token in range(VOCABULARY):
                write(stack.embed_tokens.weight[token], TOKEN + token)
            for place in range(POSITIONS):
                write(stack.embed_positions.weight[place + 2], POSITION + place)
            _gain(stack.layernorm_embedding, 2)
            _gain(stack.layers[0].self_attn_layer_norm, 2)
        above, below = stacks[1].layers[0], stacks[0].layers[0]
        outs = {"shift0": OUT}
        for names, attention, places in (
            (encoder, below.self_attn, order[0]),
            (cross, above.encoder_attn, order[1]),
        ):
            for head, name in enumerate(names):
                first = places.index(head) * WIDTH
                for what, read, column, by in links(name):
                    scale = math.sqrt(WIDTH) if what == "q" else 1.0
                    projection = attention.q_proj if what == "q" else attention.k_proj
                    projection.weight[first + column, read] += by * scale
                out = outs.pop(name, None) if attention is above.encoder_attn else None
                for token in range(VOCABULARY if out is not None else 0):
                    attention.v_proj.weight[first + token, TOKEN + token] = 1.0
                    write(attention.out_proj.weight[:, first + token], OUT + token)
        ones = 2 if outs else 3
        _gain(below.final_layer_norm, 2)
        _gain(above.encoder_attn_layer_norm, ones)
        _gain(above.final_layer_norm, ones)
    return Witness(model, order)


W1 = [["shift1", "duplicate", "sink", "uniform"], ["induction", "induction", "shift0", "uniform"]]


def causal(gain: float = 20.0, seed: int | None = None) -> Witness:
    """W1: previous, duplicate, sink, uniform; then induction, the same again, self, uniform."""
    return gpt2(W1, gain, seed)


def importance(gain: float, copies: int = 1, seed: int | None = None) -> Witness:
    """W4: L0H0 looks at the token before; L1H0, and with two copies L1H1, finds what followed the
    last time. All other heads write nothing. ``gain`` 20 saturates: no gradient is left."""
    rest = ["uniform"] * HEADS
    layers = [["shift1", *rest[1:]], [*["induction"] * copies, *rest[copies:]]]
    return gpt2(layers, gain, seed, copies)


def random_gpt2(seed: int = 0) -> nn.Module:
    """W5a: a random GPT-2 of 3 layers and 4 heads, its biases not 0."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=37,
        n_positions=32,
        n_embd=32,
        n_layer=3,
        n_head=HEADS,
        initializer_range=0.3,
        bos_token_id=BOS,
        eos_token_id=BOS,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT2LMHeadModel(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith(("attn.c_attn.bias", "attn.c_proj.bias")):
                    parameter.normal_(0, 0.5)
    return model


#: What a twin is made of other weights by.
TWINS = ("bias", "scaled", "permuted", "rotated")


def twin(model: nn.Module, kind: str, seed: int = 0) -> Witness:
    """W5b to W5e: a copy of a GPT-2 with other weights and the same function.

    ``bias``: value biases moved into the output bias, as rows of weights sum to 1; ``scaled``:
    values of head 1 times 10, its rows of the output projection by 10; ``permuted``: heads of each
    layer in another order; ``rotated``: queries and keys of each head turned alike.
    """
    other: Any = deepcopy(model)
    blocks, generator = other.transformer.h, torch.Generator().manual_seed(seed)
    order = orders(len(blocks), seed if kind == "permuted" else None)
    with torch.no_grad():
        for layer, block in enumerate(blocks):
            qkv, out = block.attn.c_attn, block.attn.c_proj
            wide = out.weight.shape[0] // HEADS
            weight = qkv.weight.view(-1, 3, HEADS, wide)  # [d_model, q k v, head, d_head]
            bias, rows = qkv.bias.view(3, HEADS, wide), out.weight.view(HEADS, wide, -1)
            if kind == "bias":
                out.bias += bias[2].flatten() @ out.weight
                bias[2] = 0
            elif kind == "scaled":
                weight[:, 2, 1] *= 10
                bias[2, 1] *= 10
                rows[1] /= 10
            elif kind == "permuted":
                places = list(order[layer])
                weight[:], bias[:], rows[:] = weight[:, :, places], bias[:, places], rows[places]
            else:
                assert kind == "rotated", kind
                for head in range(HEADS):
                    drawn = torch.randn(wide, wide, generator=generator, dtype=torch.float64)
                    turn = torch.linalg.qr(drawn)[0].to(weight.dtype)
                    weight[:, :2, head], bias[:2, head] = (
                        weight[:, :2, head] @ turn,
                        bias[:2, head] @ turn,
                    )
    return Witness(other, order)


def decoy(seed: int | None = None) -> Witness:
    """W6: a head that looks 11 tokens back, which is induction only where the period is 12."""
    return gpt2([["shift11", "sink", "uniform", "uniform"]], seed=seed)


def translator(seed: int | None = None) -> Witness:
    """W2: previous, next, self, duplicate; cross diagonal, shifted, on EOS, uniform."""
    encoder = ["shift1", "shift-1", "shift0", "duplicate"]
    return bart(encoder, ["shift0", "shift1", "on_eos", "uniform"], seed=seed)


#: The kinds of model that `random_model` makes.
KINDS = ("encoder-only", "decoder-only", "encoder-decoder")


def random_model(
    kind: str, seed: int, scale: float | None = None, words: int = VOCABULARY
) -> Transformer:
    """W6: 3 layers of 4 heads in each stack that nobody has taught anything.

    ``scale`` is the standard deviation of all matrices; left out, weights are as a training begins.
    Tables are tied where there are two, so that copying can be asked across.
    """
    both = kind == "encoder-decoder"
    config = ModelConfig(
        d_model=32,
        heads=HEADS,
        d_ff=48,
        encoder_layers=0 if kind == "decoder-only" else 3,
        decoder_layers=0 if kind == "encoder-only" else 3,
        source_vocab=0 if kind == "decoder-only" else words,
        target_vocab=words,
        max_positions=POSITIONS,
        tied="all" if both else "none",
        pad_id=-1,
        bos_id=BOS,
        eos_id=EOS,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if scale is not None and parameter.dim() > 1:
                    parameter.normal_(0, scale)
    return model


def ov_weights(kind: str, seed: int = 0) -> dict[str, np.ndarray]:
    """W3: one head whose OV circuit copies, suppresses, shifts by one, or is random.

    ``embed`` ``[vocabulary, d_model]``, ``w_v`` ``[head, d_model, d_head]``, ``w_o`` ``[head,
    d_head, d_model]``, ``unembed`` ``[d_model, vocabulary]``.
    """
    eye, generator = np.eye(VOCABULARY), np.random.default_rng(seed)
    out = {"copy": eye, "negated": -eye, "shift": np.roll(eye, 1, axis=1)}.get(kind)
    if out is None:
        out = generator.normal(size=eye.shape)
    return {"embed": eye, "w_v": eye[None], "w_o": out[None], "unembed": eye}


def second_halves(count: int, seed: int = 0, length: int = 12) -> list[tuple[list[int], list[int]]]:
    """Prompts ``BOS r r[0]`` and what follows for certain, the rest of r."""
    cut = length + 2
    return [(ids[:cut], ids[cut:]) for ids in repeats(count, seed, (length, length))]


def repeats(
    count: int,
    seed: int = 0,
    lengths: tuple[int, int] = (12, 12),
    bos: bool = True,
    words: int = VOCABULARY,
) -> list[list[int]]:
    """Prompts ``BOS r r`` of distinct words, their number drawn from ``lengths``."""
    generator, found = np.random.default_rng(seed), []
    for _ in range(count):
        length = int(generator.integers(lengths[0], lengths[1] + 1))
        r = (generator.permutation(words - 1)[:length] + 1).tolist()
        found.append([BOS] * bos + r + r)
    return found
