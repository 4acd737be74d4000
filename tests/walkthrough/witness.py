"""The Transformer once more, in numpy and float64, from a file's tensors and the ids alone.

Nothing of the package is used: names of tensors and words of the config are read as they stand in
the files. What it writes down on the way is what Step inside shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Numbers = dict[tuple[str, str], Any]


@dataclass
class Witness:
    """One pass; ``run`` gives every number of one head and one row by (stage, array)."""

    tensors: Mapping[str, np.ndarray]
    words: Mapping[str, Any]
    notes: Numbers = field(default_factory=dict)
    here: tuple[str, str, int, int, int] = ("", "", 0, 0, 0)

    def run(
        self, source: list[int], target: list[int], here: tuple[str, str, int, int, int]
    ) -> Numbers:
        """``here`` is stack, block, layer, head and row."""
        self.notes, self.here = {}, here
        memory = None
        if self.words.get("encoder_layers"):
            visible = np.array([token != self.words["pad_id"] for token in source])[None]
            memory = self.stack("encoder", source, visible, None, None)
        if self.words.get("decoder_layers"):
            ids = target if memory is not None else source
            own = np.array([token != self.words["pad_id"] for token in ids])[None]
            own = own & np.tri(len(ids), dtype=bool)
            if memory is None:
                self.stack("decoder", ids, own, None, None)
            else:
                self.stack("decoder", ids, own, memory, visible)
        return self.notes

    # ---- small parts --------------------------------------------------------------------

    def w(self, name: str) -> np.ndarray:
        return self.tensors[name].astype(np.float64)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        out = x @ self.w(f"{name}.weight").T
        return out + self.w(f"{name}.bias") if f"{name}.bias" in self.tensors else out

    def note(self, stage: str, **arrays: Any) -> None:
        for name, array in arrays.items():
            self.notes[stage, name] = array

    def norm(self, x: np.ndarray, name: str, stage: str | None) -> np.ndarray:
        kind, eps, width = self.words["norm_kind"], self.words["norm_eps"], x.shape[-1]
        mean = np.zeros((len(x), 1)) if kind == "rms" else x.mean(-1, keepdims=True)
        ddof = 1 if kind == "annotated" else 0
        variance = ((x - mean) ** 2).sum(-1, keepdims=True) / (width - ddof)
        spread = np.sqrt(variance) + eps if kind == "annotated" else np.sqrt(variance + eps)
        gain = self.w(f"{name}.weight")
        bias = 0.0 if kind == "rms" else self.w(f"{name}.bias")
        out = (x - mean) / spread * gain + bias
        if stage is not None:
            row = self.here[4]
            self.note(
                stage,
                x=x[row],
                normal=((x - mean) / spread)[row],
                gain=gain,
                out=out[row],
                variance=variance[row, 0],
                spread=spread[row, 0],
            )
            if kind != "rms":
                self.note(stage, bias=bias, centred=(x - mean)[row], mean=mean[row, 0])
        return np.asarray(out)

    def activation(self, x: np.ndarray) -> np.ndarray:
        erf = np.vectorize(math.erf)
        return np.asarray(
            {
                "relu": lambda: np.maximum(x, 0),
                "gelu": lambda: x * 0.5 * (1 + erf(x / math.sqrt(2))),
                "gelu_tanh": lambda: (
                    0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
                ),
                "silu": lambda: x / (1 + np.exp(-x)),
                "sigmoid": lambda: 1 / (1 + np.exp(-x)),
                "tanh": lambda: np.tanh(x),
                "identity": lambda: x,
            }[self.words["activation"]]()
        )

    def positions(self, stack: str, length: int) -> np.ndarray | None:
        kind, width = self.words["positions"], self.words["d_model"]
        if kind in ("rotary", "none"):
            return None
        if kind == "learned":
            return self.w(f"{stack}.embedding.positions.table.weight")[:length]
        table = np.zeros((length, width))
        for place in range(length):
            for column in range(width):
                half = (width + 1) // 2
                pair, odd = (
                    (column % half, column >= half)
                    if kind == "sinusoidal_halves"
                    else divmod(column, 2)
                )
                angle = place / 10000 ** (2 * pair / width)
                table[place, column] = math.cos(angle) if odd else math.sin(angle)
        return table

    # ---- a stack ------------------------------------------------------------------------

    def stack(self, name, ids, mask, memory, memory_mask):
        mine = name == self.here[0]
        row = self.here[4] if mine else 0
        x = self.embedded(name, ids, row if mine else None)
        entered = []
        layers = self.words[f"{name}_layers"]
        for layer in range(layers):
            entered.append(x[row])
            at = mine and layer == self.here[2]
            if at and layer:
                streams = np.stack(entered)
                self.note(
                    "below.self",
                    x=streams[0],
                    layers=streams,
                    added=streams[-1] - streams[0],
                    out=streams[-1],
                )
            x = self.layer(f"{name}.layers.{layer}", x, mask, memory, memory_mask, at)
        if not self.words["final_norm"]:
            return x
        last = mine and self.here[2] == layers - 1
        return self.norm(x, f"{name}.norm", "norm.final" if last else None)

    def embedded(self, stack: str, ids: list[int], row: int | None) -> np.ndarray:
        """Row is None where nothing is to be noted."""
        name = f"{stack}.embedding.tokens.weight"
        if name not in self.tensors:  # tied
            name = "encoder.embedding.tokens.weight"
        tokens = self.w(name)[ids]
        x = tokens * self.words["embedding_scale"]
        if row is not None:
            self.note("embedding.embedding", token=tokens[row], out=x[row])
        table = self.positions(stack, len(ids))
        if table is not None:
            if row is not None:
                out = x[row] + table[row]
                self.note("position.embedding", x=x[row], table=table[row], out=out)
            x = x + table
        if self.words["embedding_norm"]:
            stage = None if row is None else "norm.embedding"
            x = self.norm(x, f"{stack}.embedding.norm", stage)
        return np.asarray(x)

    def layer(self, name, x, mask, memory, memory_mask, at):
        x = self.attending(name, "self", x, None, mask, at)
        if memory is not None:
            x = self.attending(name, "cross", x, memory, memory_mask, at)
        where, post, row = self.words["norm"], self.words["norm"] == "post", self.here[4]
        stage = "norm.feed_forward" if at else None
        y = x if post else self.norm(x, f"{name}.feed_forward_norm", stage)
        inner = self.linear(y, f"{name}.feed_forward.inner")
        hidden = self.activation(inner)
        if self.words["gated"]:
            gate = self.linear(y, f"{name}.feed_forward.gate")
            hidden = hidden * gate
        made = self.linear(hidden, f"{name}.feed_forward.outer")
        out = x + made
        if at:
            self.note("inner.feed_forward", x=y[row], inner=inner[row], out=hidden[row])
            if self.words["gated"]:
                self.note("inner.feed_forward", gate=gate[row])
            bias = self.w(f"{name}.feed_forward.outer.bias")
            self.note("outer.feed_forward", x=hidden[row], bias=bias, out=made[row])
            self.note("residual.feed_forward", x=x[row], added=made[row], out=out[row])
        assert where in ("pre", "post", "query_only")
        return self.norm(out, f"{name}.feed_forward_norm", stage) if post else out

    # ---- attention ----------------------------------------------------------------------

    def attending(self, layer, block, x, memory, mask, at):
        post, row = self.words["norm"] == "post", self.here[4]
        mine = at and block == self.here[1]
        stage = f"norm.{block}" if at and (mine or post) else None
        y = x if post else self.norm(x, f"{layer}.{block}_norm", stage)
        if memory is None:
            memory = x if self.words["norm"] == "query_only" else y
        made = self.heads(f"{layer}.{block}_attention", block, y, memory, mask, mine)
        out = x + made
        if at:
            kind = "residual" if mine else "beside"
            self.note(f"{kind}.{block}", x=x[row], added=made[row], out=out[row])
        return self.norm(out, f"{layer}.{block}_norm", stage) if post else out

    def heads(self, name, block, x, memory, mask, mine):
        contexts = []
        for head in range(self.words["heads"]):
            noted = mine and head == self.here[3]
            contexts.append(self.head(name, block, x, memory, mask, head, noted))
        together = np.concatenate(contexts, axis=-1)
        out = self.linear(together, f"{name}.output")
        if mine:
            row, head = self.here[4], self.here[3]
            each = np.stack([context[row] for context in contexts])
            self.note(f"concat.{block}", x=each[head], heads=each, out=together[row])
            weight, width = self.w(f"{name}.output.weight"), each.shape[1]
            shares = [
                weight[:, n * width : (n + 1) * width] @ each[n] for n in range(len(contexts))
            ]
            self.note(f"project.{block}", x=together[row], shares=np.stack(shares), out=out[row])
            if f"{name}.output.bias" in self.tensors:
                self.note(f"project.{block}", bias=self.w(f"{name}.output.bias"))
        return out

    def part(self, x: np.ndarray, name: str, head: int) -> np.ndarray:
        whole = self.linear(x, name)
        width = whole.shape[-1] // self.words["heads"]
        return whole[:, head * width : (head + 1) * width]

    def head(self, name, block, x, memory, mask, head, noted):
        row, located = self.here[4], self.words["score"] == "location"
        q = self.part(x, f"{name}.query", head)
        k = None if located else self.part(memory, f"{name}.key", head)
        v = self.part(memory, f"{name}.value", head)
        if noted:
            self.note(f"qkv.{block}", x=x[row], memory=memory, q=q[row], v=v)
            if k is not None:
                self.note(f"qkv.{block}", k=k)
        if self.words["positions"] == "rotary" and block == "self":
            before = q, k
            q, angle = turned(q)
            k = None if k is None else turned(k)[0]
            if noted:
                self.note(f"turn.{block}", q_before=before[0][row], angle=angle[row], q=q[row])
                if k is not None:
                    self.note(f"turn.{block}", k_before=before[1], k_angle=angle, k=k)
        scores = self.scores(name, block, q, k, len(memory), head, noted)
        seen = np.broadcast_to(mask, scores.shape)
        masked = np.where(seen, scores, float(self.words["mask_fill"]))
        parts = np.exp(masked - masked.max(-1, keepdims=True))
        weights = parts / parts.sum(-1, keepdims=True)
        out = weights @ v
        if noted:
            given, got = scores[row], masked[row]
            self.note(f"mask.{block}", x=given, seen=seen[row].astype(float), out=got)
            self.note(f"temperature.{block}", x=got, out=got)
            self.note(
                f"softmax.{block}",
                x=got,
                exponentials=parts[row],
                softmax=weights[row],
                out=weights[row],
                most=got.max(),
                total=parts[row].sum(),
            )
            self.note(f"mix.{block}", x=weights[row], v=v, parts=weights[row][:, None] * v)
            self.note(f"mix.{block}", out=out[row])
        return out

    def scores(self, name, block, q, k, keys, head, noted):
        """By the papers' formulas, one pair after another."""
        kind, row = self.words["score"], self.here[4] if noted else 0
        notes: dict[str, Any] = {"q": q[row], "k": k}
        table = None if kind in ("dot", "scaled_dot") else self.w(f"{name}.score.weight")[head]
        if kind == "location":
            notes["k"] = table[:, :keys].T
            scores = np.array([[a @ table[:, key] for key in range(keys)] for a in q])
        else:
            if kind == "additive":
                scores = np.array([[np.tanh(a + b) @ table[:, 0] for b in k] for a in q])
                notes |= {"pairs": np.tanh(q[row] + k), "vector": table[:, 0]}
            elif kind == "general":
                scores = np.array([[a @ table @ b for b in k] for a in q])
                notes["mapped"] = q[row] @ table
            else:
                scores = np.array([[a @ b for b in k] for a in q])
        if noted:
            self.note(f"score.{block}", out=scores[row], **notes)
        if kind == "scaled_dot":
            given, scores = scores, scores / math.sqrt(q.shape[-1])
            if noted:
                self.note(f"scale.{block}", x=given[row], out=scores[row])
        return scores


def turned(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each pair (i, i + half) as a complex number, turned by position times frequency."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] / 10000 ** (2 * np.arange(half) / x.shape[-1])
    pairs = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angle)
    return np.concatenate([pairs.real, pairs.imag], axis=-1), angle
