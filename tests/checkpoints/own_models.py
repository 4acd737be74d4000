"""Models as people write them around PyTorch's layers, and what they attend to themselves.

The witness is the module's own forward pass: each nn.MultiheadAttention is asked for its weights by
hooks.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer_viz.checkpoints import load

from .rows import Row, compared

D, H, F, VS, VT, P = 12, 3, 20, 17, 19, 24


def sinusoid(rows: int = P, width: int = D) -> Tensor:
    """Return the paper's table ``[position, d_model]``."""
    at = torch.arange(rows)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([at.sin(), at.cos()], -1).flatten(1)[:, :width]


def fill(module: nn.Module) -> None:
    """Draw every weight anew, and leave training."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3)
    module.eval()


class Table(nn.Module):
    """A sinusoid as a buffer of some name and shape, stored or not."""

    def __init__(self, name: str, shape: tuple[int, ...], stored: bool):
        super().__init__()
        self.name = name
        self.register_buffer(name, sinusoid().reshape(shape), persistent=stored)

    def forward(self, x: Tensor) -> Tensor:
        return x + getattr(self, self.name).reshape(-1, D)[: x.shape[1]]


class Learned(nn.Module):
    """Learned positions in an nn.Embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(P, D)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.embed(torch.arange(x.shape[1]))


@dataclass
class Plan:
    """One way to write a translator; ``names`` are the fields of the module."""

    names: dict[str, str]
    positions: Callable[[], nn.Module] | None = None
    scale: float = 1.0
    batch_first: bool = True
    norm_first: bool = False
    activation: str = "relu"
    bias: bool = True
    shared: bool = False
    apart: bool = False
    two_tables: bool = False
    words: dict[str, Any] = field(default_factory=dict)


class Own(nn.Module):
    """A translator of one's own around nn.Transformer, or its two stacks apart."""

    def __init__(self, plan: Plan):
        super().__init__()
        self.plan, n = plan, plan.names
        words: dict[str, Any] = {"dropout": 0.0, "activation": plan.activation}
        words |= {"batch_first": plan.batch_first, "norm_first": plan.norm_first}
        source = nn.Embedding(VS, D)
        setattr(self, n["source"], source)
        setattr(self, n["target"], source if plan.shared else nn.Embedding(VT, D))
        if plan.positions is not None:
            setattr(self, n["positions"], plan.positions())
            if plan.two_tables:
                setattr(self, n["target positions"], plan.positions())
        with warnings.catch_warnings():  # of nested tensors, which eval does without
            warnings.simplefilter("ignore")
            core = nn.Transformer(D, H, 2, 2, F, **words)
        if plan.apart:
            core.encoder.norm = core.decoder.norm = None
            setattr(self, n["encoder"], core.encoder)
            setattr(self, n["decoder"], core.decoder)
        else:
            setattr(self, n["core"], core)
        setattr(self, n["output"], nn.Linear(D, VS if plan.shared else VT, bias=plan.bias))
        fill(self)

    def embed(self, ids: Tensor, side: str) -> Tensor:
        n = self.plan.names
        x = getattr(self, n[side])(ids) * self.plan.scale
        place = "target positions" if side == "target" and self.plan.two_tables else "positions"
        return x if self.plan.positions is None else getattr(self, n[place])(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        n = self.plan.names
        x, y = self.embed(source, "source"), self.embed(target, "target")
        if not self.plan.batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        if self.plan.apart:
            states = getattr(self, n["decoder"])(y, getattr(self, n["encoder"])(x), tgt_mask=mask)
        else:
            states = getattr(self, n["core"])(x, y, tgt_mask=mask)
        if not self.plan.batch_first:
            states = states.transpose(0, 1)
        return getattr(self, n["output"])(states)


@contextmanager
def attended(module: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Have every nn.MultiheadAttention give its weights ``[batch, head, query, key]``."""
    seen: list[tuple[str, Tensor]] = []

    def ask(layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    hooks = []
    for name, part in module.named_modules():
        if isinstance(part, nn.MultiheadAttention):
            hooks.append(part.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.append(
                part.register_forward_hook(
                    lambda layer, args, out, name=name: seen.append((name, out[1].detach()))
                )
            )
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def names(source: str, target: str, core: str, output: str, *more: str) -> dict[str, str]:
    """Return the fields of `Own`; ``more`` are positions, target positions, encoder, decoder."""
    found = {"source": source, "target": target, "core": core, "output": output}
    return found | dict(
        zip(("positions", "target positions", "encoder", "decoder"), more, strict=False)
    )


ROOT = math.sqrt(D)
PLANS = {
    "the journey: no position buffer, scaled": Plan(
        names("encoder_emb", "decoder_emb", "core", "fc_out", "pos"),
        lambda: Table("pe", (1, P, D), stored=False), scale=ROOT,
        words={"embedding_scale": ROOT, "positions": "sinusoidal"},
    ),
    "a stored table [1, position, d], not scaled": Plan(
        names("src_embedding", "trg_embedding", "transformer", "out", "positional_encoding"),
        lambda: Table("pe", (1, P, D), stored=True), words={"embedding_scale": 1.0},
    ),
    "a stored table [position, 1, d], sequence first, pre-norm, gelu": Plan(
        names("enc_embed", "dec_embed", "model", "linear", "pos_encoder"),
        lambda: Table("pe", (P, 1, D), stored=True),
        batch_first=False, norm_first=True, activation="gelu",
        words={"embedding_scale": 1.0, "norm": "pre", "activation": "gelu"},
    ),
    "learned positions on each side, no bias": Plan(
        names("src_word_embedding", "trg_word_embedding", "transformer", "fc_out",
              "src_position_embedding", "trg_position_embedding"),
        Learned, two_tables=True, bias=False, words={"embedding_scale": 1.0},
    ),
    "one embedding, learned positions, stacks apart": Plan(
        names("tok", "tok_out", "", "head", "pos_table", "", "enc", "dec"),
        Learned, shared=True, apart=True, scale=ROOT, words={"embedding_scale": ROOT},
    ),
    "no positions, a table [position, d] nowhere": Plan(
        names("embed_in", "embed_out", "seq2seq", "to_vocab"),
        words={"embedding_scale": 1.0, "positions": "none"},
    ),
}  # fmt: skip


class Block(nn.Module):
    """A layer of one's own around nn.MultiheadAttention, with its norms before."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_a, self.ln_b = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attention = nn.MultiheadAttention(D, H, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, F), nn.GELU(), nn.Linear(F, D))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.ln_a(x)
        x = x + self.attention(y, y, y, attn_mask=mask)[0]
        return x + self.mlp(self.ln_b(x))


class Blocks(nn.Module):
    """An encoder of one's own: causal words, a class of the mean or the first, a tag a token."""

    def __init__(self, rows: int, causal: bool, how: str, torch_layers: bool = False):
        super().__init__()
        self.causal, self.how = causal, how
        self.wte = nn.Embedding(VS, D)
        self.wpe = nn.Embedding(P, D)
        if torch_layers:
            layer = nn.TransformerEncoderLayer(D, H, F, 0.0, batch_first=True)
            self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        else:
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.ln_f = nn.LayerNorm(D)
        self.head = nn.Linear(D, rows)
        fill(self)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        length = ids.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1) if self.causal else None
        if isinstance(self.blocks, nn.ModuleList):
            for block in self.blocks:
                x = block(x, mask)
            x = self.ln_f(x)
        else:
            x = self.blocks(x, mask)
        if self.how == "mean":
            x = x.mean(1)
        elif self.how == "first":
            x = x[:, 0]
        return self.head(x)


class Handwritten(nn.Module):
    """Attention with a projection each for queries, keys, values and the output."""

    def __init__(self, bias: bool):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v = (nn.Linear(D, D, bias=bias) for _ in range(3))
        self.fc_o = nn.Linear(D, D)
        self.seen: Tensor | None = None

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.view(*y.shape[:2], H, -1).permute(0, 2, 1, 3)

        q, k, v = split(self.fc_q(x)), split(self.fc_k(memory)), split(self.fc_v(memory))
        energy = q @ k.permute(0, 1, 3, 2) / math.sqrt(D // H)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        self.seen = torch.softmax(energy, -1)
        return self.fc_o((self.seen @ v).permute(0, 2, 1, 3).flatten(2))


class Layer(nn.Module):
    """A layer of a translator after "Attention is all you need", norms after the sums."""

    def __init__(self, cross: bool):
        super().__init__()
        self.self_attn_layer_norm = nn.LayerNorm(D)
        if cross:
            self.enc_attn_layer_norm = nn.LayerNorm(D)
        self.ff_layer_norm = nn.LayerNorm(D)
        self.self_attention = Handwritten(True)
        if cross:
            self.encoder_attention = Handwritten(True)
        self.positionwise_feedforward = nn.ModuleDict(
            {"fc_1": nn.Linear(D, F), "fc_2": nn.Linear(F, D)}
        )

    def forward(self, x: Tensor, mask: Tensor | None, memory: Tensor | None) -> Tensor:
        x = self.self_attn_layer_norm(x + self.self_attention(x, x, mask))
        if memory is not None:
            x = self.enc_attn_layer_norm(x + self.encoder_attention(x, memory, None))
        inner, outer = self.positionwise_feedforward.values()
        return self.ff_layer_norm(x + outer(torch.relu(inner(x))))


class Side(nn.Module):
    """One stack with its tables, as tutorials of sequence-to-sequence models write it."""

    def __init__(self, tokens: int, cross: bool):
        super().__init__()
        self.tok_embedding, self.pos_embedding = nn.Embedding(tokens, D), nn.Embedding(P, D)
        self.layers = nn.ModuleList(Layer(cross) for _ in range(2))
        if cross:
            self.fc_out = nn.Linear(D, tokens)

    def forward(self, ids: Tensor, mask: Tensor | None, memory: Tensor | None = None) -> Tensor:
        at = torch.arange(ids.shape[1])
        x = self.tok_embedding(ids) * ROOT + self.pos_embedding(at)
        for layer in self.layers:
            x = layer(x, mask, memory)
        return x


class Translator(nn.Module):
    """Both sides, written out by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Side(VS, False), Side(VT, True)
        fill(self)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        length = target.shape[1]
        states = self.decoder(target, torch.ones(length, length).tril(), self.encoder(source, None))
        return self.decoder.fc_out(states)


class Gpt(nn.Module):
    """A small GPT by hand: no bias of q, k and v, norms before, a last norm."""

    def __init__(self) -> None:
        super().__init__()
        self.token_embedding_table = nn.Embedding(VS, D)
        self.position_embedding_table = nn.Embedding(P, D)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "sa": Handwritten(False),
                    "ffwd": nn.Sequential(nn.Linear(D, F), nn.ReLU(), nn.Linear(F, D)),
                    "ln1": nn.LayerNorm(D),
                    "ln2": nn.LayerNorm(D),
                }
            )
            for _ in range(2)
        )
        self.ln_f, self.lm_head = nn.LayerNorm(D), nn.Linear(D, VS)
        fill(self)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.token_embedding_table(ids) + self.position_embedding_table(torch.arange(length))
        mask = torch.ones(length, length).tril()
        for block in self.blocks:
            y = block["ln1"](x)
            x = x + block["sa"](y, y, mask)
            x = x + block["ffwd"](block["ln2"](x))
        return self.lm_head(self.ln_f(x))


def target_names(plan: Plan) -> dict[str, str]:
    """Return the table a person writes who knows both sides."""
    n = plan.names
    table = {
        f"{n['source']}.weight": "src_tok_emb.embedding.weight",
        f"{n['target']}.weight": "tgt_tok_emb.embedding.weight",
        f"{n['output']}.": "generator.",
    }
    if plan.apart:
        table |= {f"{n[side]}.": f"transformer.{side}." for side in ("encoder", "decoder")}
    elif n["core"] != "transformer":
        table[f"{n['core']}."] = "transformer."
    return table


BLOCK = {"wte.weight": "embedding.weight", "wpe.weight": "pos_encoder.pe", "head.": "linear."}
LAYER = {"ln_a.": "norm1.", "ln_b.": "norm2.", "attention.": "self_attn.", "mlp.0.": "linear1.",
         "mlp.2.": "linear2."}  # fmt: skip
HAND = BLOCK | {"ln_f.": "transformer_encoder.norm."}
HAND |= {
    f"blocks.{n}.{theirs}": f"transformer_encoder.layers.{n}.{ours}"
    for n in range(2)
    for theirs, ours in LAYER.items()
}
TORCH = BLOCK | {"blocks.": "transformer_encoder."}
PRE = {"norm": "pre", "activation": "gelu", "embedding_scale": 1.0}
POST = {"embedding_scale": 1.0}


def replaced(module: nn.Module, parts: dict[str, str]) -> dict[str, str]:
    """Return the table of a module: each part of its names, one by one."""
    table = {}
    for name in module.state_dict():
        table[name] = name
        for theirs, ours in parts.items():
            table[name] = table[name].replace(theirs, ours)
    return table


def hand_names(module: Translator) -> dict[str, str]:
    return replaced(module, {
        "tok_embedding.": "embedding.tokens.", "pos_embedding.weight": "embedding.positions.table",
        "self_attn_layer_norm.": "self_norm.", "enc_attn_layer_norm.": "cross_norm.",
        "ff_layer_norm.": "feed_forward_norm.", "encoder_attention.": "cross_attention.",
        "positionwise_feedforward.fc_1.": "feed_forward.inner.",
        "positionwise_feedforward.fc_2.": "feed_forward.outer.",
        "fc_q.": "query.", "fc_k.": "key.", "fc_v.": "value.", "fc_o.": "output.",
        "decoder.fc_out.": "output.",
    })  # fmt: skip


def gpt_names(gpt: Gpt) -> dict[str, str]:
    return replaced(gpt, {
        "blocks.": "decoder.layers.", "sa.fc_q": "self_attention.query",
        "sa.fc_k": "self_attention.key", "sa.fc_v": "self_attention.value",
        "sa.fc_o": "self_attention.output", "ffwd.0": "feed_forward.inner",
        "ffwd.2": "feed_forward.outer", "ln1": "self_norm", "ln2": "feed_forward_norm",
        "ln_f": "decoder.norm", "lm_head": "output",
        "token_embedding_table.": "decoder.embedding.tokens.",
        "position_embedding_table.weight": "decoder.embedding.positions.table",
    })  # fmt: skip


@cache
def rows() -> list[Row]:
    """Models of one's own under mapped names, against the modules that were saved."""
    source, target = torch.tensor([[4, 9, 2, 16, 3, 8]]), torch.tensor([[2, 7, 11, 5]])
    translator = "torch_tutorial_seq2seq"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = []
        for case, plan in PLANS.items():
            words = {"pad_id": -1, **plan.words}
            own = Own(plan)
            found.append(_row(translator, case, own, target_names(plan), words, source, target))
        for case, rows, how, words in (
            ("blocks of nn.MultiheadAttention, causal", VS, "causal", PRE),
            ("blocks of nn.MultiheadAttention, mean", 4, "mean", PRE | {"pooling": "mean"}),
        ):
            blocks = Blocks(rows, how == "causal", how)
            found.append(_row("torch_language_model", case, blocks, HAND, words, source))
        hand, gpt = Translator(), Gpt()
        case = "a translator by hand"
        found.append(_row("reference", case, hand, hand_names(hand), {}, source, target))
        case = "a GPT by hand, norms before"
        found.append(_row("reference", case, gpt, gpt_names(gpt), {}, source))
    return found


def _row(
    layout: str,
    variant: str,
    own: nn.Module,
    table: dict[str, str],
    words: dict[str, Any],
    *inputs: Tensor,
) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        torch.save(own.state_dict(), Path(folder) / "mine.pt")
        model = load(Path(folder) / "mine.pt", names=table, heads=H, device="cpu", **words)
        assert model.layout == layout
        with torch.inference_mode(), attended(own) as seen:
            logits = own(*inputs)
        hands = [part for part in own.modules() if isinstance(part, Handwritten)]
        maps = [weights for _, weights in seen] or [part.seen for part in hands]
        attention, output = compared(model, inputs, maps, logits)
    return Row(layout, variant, attention, output, "the module that was saved")
