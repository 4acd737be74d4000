"""Stages of one head: q, k and v, scores, softmax, and its contribution to the residual stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from ..core.stages import Stage
from ..inference.capture_to_numpy import to_numpy
from .arrays import as_float32, head_of, row_of
from .layer_run import Part, Ran
from .softmax_stages import Row, row_stages


def head_stages(ran: Ran, part: Part, row: int) -> Iterator[Stage]:
    """Yield all stages of a head, from q, k, v to the projection (section 3.2)."""
    asked = _Asked(ran, part, row)
    yield asked.made()
    if ran.stack.rotary is not None and part.name == "self":
        yield asked.turned()
    yield from asked.scored()
    yield from row_stages(_row(ran, part, row, to_numpy(asked.scores)))
    yield from _mixed(ran, part, row)


@dataclass(frozen=True, eq=False)
class _Asked:
    """Queries, keys and scores of one head at one row."""

    ran: Ran
    part: Part
    row: int

    @property
    def head(self) -> int:
        assert self.ran.site.head is not None
        return self.ran.site.head

    @property
    def module(self) -> Any:
        return self.part.module

    def projected(self, name: str) -> np.ndarray | None:
        """Return q, k or v of all tokens ``[token, width]``, the output of its projection."""
        module = getattr(self.module, name)
        if module is None:
            return None
        return head_of(self.ran.calls.gave(module), self.head, self.module.heads)

    @property
    def scores(self) -> Tensor:
        """Output of the score function, before the mask: ``[key]``."""
        scores: Tensor = self.ran.calls.gave(self.module.score)[0, self.head, self.row]
        return scores

    @cached_property
    def compared(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Vector q of the row and k of all keys, the inputs of the score function."""
        q, k = self.ran.calls.of(self.module.score)[0][:2]
        keys = None if k is None else to_numpy(k[0, self.head])
        return to_numpy(q[0, self.head, self.row]), keys

    def made(self) -> Stage:
        """Return the stage of the projections."""
        given = self.ran.calls.given
        q = self.projected("query")
        assert q is not None
        arrays = {
            "x": row_of(given(self.module), self.row),
            "memory": to_numpy(given(self.module, 1)[0]),
            "q": as_float32(q[self.row]),
            "k": self.projected("key"),
            "v": self.projected("value"),
        }
        cross = self.part.name == "cross"
        made_from = "normed" if self.ran.transformer.config.norm == "pre" else "stream"
        options = {"made_from": "encoder" if cross else made_from}
        present = {name: array for name, array in arrays.items() if array is not None}
        return Stage("qkv", self.part.name, present, words=options)

    def turned(self) -> Stage:
        """Return the stage of rotary positions: q and k rotated (Su et al. 2021, section 3.2.2)."""
        module, calls, rotary = self.module, self.ran.calls, self.ran.stack.rotary
        assert rotary is not None
        turns = calls.between(rotary, module.value, module.score)
        angles = self.ran.capture.positions[f"rotary.{self.ran.site.stack}"]
        q, k = self.compared
        arrays = {
            "q_before": to_numpy(turns[0][0][0][0, self.head, self.row]),
            "angle": to_numpy(angles[self.row]),
            "q": q,
        }
        if k is not None:
            before = to_numpy(turns[1][0][0][0, self.head])
            arrays |= {"k_before": before, "k_angle": to_numpy(angles[: len(k)]), "k": k}
        return Stage("turn", self.part.name, arrays)

    def scored(self) -> Iterator[Stage]:
        """Yield the score of every key by the model's formula, and the scale if it has one."""
        kind = self.module.score.kind
        arrays_of = {
            "scaled_dot": self._scaled_dot,
            "dot": self._dot,
            "general": self._general,
            "additive": self._additive,
            "location": self._location,
        }
        arrays = {"q": self.compared[0]} | arrays_of[kind]()
        yield Stage("score", self.part.name, arrays, words={"score": kind})
        if kind == "scaled_dot":
            scaled = {"x": arrays["out"], "out": to_numpy(self.scores)}
            root = float(np.sqrt(len(arrays["q"])))
            yield Stage("scale", self.part.name, scaled, {"divisor": root})

    @property
    def weight(self) -> np.ndarray:
        """Weights of the score function for this head."""
        return to_numpy(self.module.score.weight[self.head])

    @property
    def keys(self) -> np.ndarray:
        keys = self.compared[1]
        assert keys is not None
        return keys

    def _scaled_dot(self) -> dict[str, np.ndarray]:
        product = self.keys.astype(np.float64) @ self.compared[0].astype(np.float64)
        return {"k": self.keys, "out": as_float32(product)}  # no tensor of the run contains it

    def _dot(self) -> dict[str, np.ndarray]:
        return {"k": self.keys, "out": to_numpy(self.scores)}

    def _general(self) -> dict[str, np.ndarray]:
        mapped = self.compared[0].astype(np.float64) @ self.weight
        return {"k": self.keys, "mapped": as_float32(mapped), "out": to_numpy(self.scores)}

    def _additive(self) -> dict[str, np.ndarray]:
        pairs = np.tanh(self.compared[0].astype(np.float64) + self.keys)
        return {
            "k": self.keys,
            "pairs": as_float32(pairs),
            "vector": as_float32(self.weight[:, 0]),
            "out": to_numpy(self.scores),
        }

    def _location(self) -> dict[str, np.ndarray]:
        scores = to_numpy(self.scores)
        return {"k": as_float32(self.weight[:, : len(scores)].T), "out": scores}


def _row(ran: Ran, part: Part, row: int, scores: np.ndarray) -> Row:
    """Return one row of a head's map, with its masks and edits."""
    head, record = ran.site.head, ran.record
    assert record.weights is not None and record.scores is not None and head is not None
    mask: Any = ran.calls.given(part.module, 2)
    own = mask[0, 0].expand(record.shape).cpu().numpy()
    return Row(
        site=ran.site,
        row=row,
        intervention=ran.intervention,
        given=scores,
        own=own,
        scores=to_numpy(record.scores[0, head, row]),
        weights=to_numpy(record.weights[0, head, row]),
    )


def _mixed(ran: Ran, part: Part, row: int) -> Iterator[Stage]:
    """Yield weights times v, the concatenation of all heads, and the output projection."""
    module: Any = part.module
    head, heads = ran.site.head or 0, module.heads
    assert ran.record.weights is not None
    weights = to_numpy(ran.record.weights[0, head, row])
    v = head_of(ran.calls.gave(module.value), head, heads)
    context = row_of(ran.calls.given(module.output), row)
    each = as_float32(context.reshape(heads, -1))
    yield mix_stage(part.name, weights, v, as_float32(each[head]))
    start, width = head * each.shape[1], each.shape[1]
    yield Stage(
        "concat",
        part.name,
        {"x": as_float32(each[head]), "heads": each, "out": context},
        {"start": float(start), "stop": float(start + width)},
    )
    yield _projected(ran, part, row, context, each)


def mix_stage(block: str, weights: np.ndarray, v: np.ndarray, out: np.ndarray) -> Stage:
    """Return the stage of each key's value times its weight, and their sum."""
    parts = weights.astype(np.float64)[:, None] * v
    return Stage("mix", block, {"x": weights, "v": v, "parts": as_float32(parts), "out": out})


def _projected(ran: Ran, part: Part, row: int, context: np.ndarray, each: np.ndarray) -> Stage:
    module: Any = part.module
    weight = to_numpy(module.output.weight).astype(np.float64)  # [d_model, heads x d_v]
    slices = weight.reshape(len(weight), *each.shape)
    arrays = {"x": context, "shares": as_float32(np.einsum("hv,mhv->hm", each, slices))}
    if module.output.bias is not None:
        arrays["bias"] = to_numpy(module.output.bias)
    arrays["out"] = row_of(ran.calls.gave(module), row)
    return Stage("project", part.name, arrays)
