"""Value and output projections of a model, which M8, M11 and M12 need.

They are read only from the reference Transformer, whose weights are known by name. For other
modules these three measures have no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from ...checkpoints.common.model import Model
from ...core.sites import Site
from ...core.trace_parts import Attention
from ...metrics.head_measures.values import ov_values
from ...model import Transformer

SOME = 1024  # vocabulary entries compared at a time


class OwnWeights:
    """Weights of a model's heads, as the arrays that `HeadRows` takes.

    Value biases are left out, so that measures do not depend on them. Where rows sum to 1, they
    could be moved into the output bias without changing the function. Logits and OV circuits are
    computed only for blocks that write to the residual stream of the output layer. The model must
    be pre-norm with a final norm, which is linear while its scale is held.
    """

    def __init__(self, model: Model):
        self.module = model.module if isinstance(model.module, Transformer) else None
        self.last = "decoder" if model.kind != "encoder-only" else "encoder"
        self._short: dict[tuple[Site, ...], tuple[np.ndarray, ...]] = {}

    def beside(self, attention: Attention, first: bool) -> dict[str, Any]:
        """Return ``values``, ``direct`` and ``ov`` of one block in one run, as far as available.

        ``ov`` needs no sentence, so it is returned only for the ``first`` one and counted once.
        """
        if self.module is None or attention.v is None:
            return {}
        block = self._block(attention.site)
        out = _heads(block.output, attention.weights.shape[0])
        bias = 0.0 if block.value.bias is None else _array(block.value.bias)
        v = attention.v - np.reshape(bias, (len(out), 1, -1)) if np.ndim(bias) else attention.v
        values = v @ out  # [head, key, d_model]
        found: dict[str, Any] = {"values": values}
        if self.says(attention.site):
            found["direct"] = self.direct(attention.weights @ values)
            if first:
                found["ov"] = self.ov.get((attention.site.block, attention.site.layer))
        return found

    def says(self, site: Site) -> bool:
        """Return True if the block's output reaches the logits through the last norm only."""
        return self._linear() and site.stack == self.last and self._same_words(site)

    def direct(self, x: np.ndarray) -> np.ndarray:
        """Return the logits ``[..., vocabulary]`` of a head output ``[..., d_model]``.

        The scale of the last norm is held.
        """
        return self._normed(x) @ self._unembed()

    @property
    def vocabulary(self) -> int:
        """Vocabulary size of the output layer."""
        assert self.module is not None
        return int(self.module.output.weight.shape[0])

    def among_first(self, x: np.ndarray, token: np.ndarray, top: int) -> np.ndarray:
        """Return True where fewer than ``top`` tokens beat ``token`` in the logits of `direct`.

        ``x`` is ``[some, d_model]``, ``token`` ``[some]``. Rows already beaten by ``top`` tokens
        are not multiplied with the rest of the vocabulary.
        """
        assert self.module is not None
        words = _array(self.module.output.weight)
        normed = self._normed(x)
        level = (normed * words[token]).sum(-1)
        above, left = np.zeros(len(x), np.int64), np.arange(len(x))
        for start in range(0, len(words), SOME):
            part = normed[left] @ words[start : start + SOME].T > level[left, None]
            own = token[left] - start
            there = np.flatnonzero((own >= 0) & (own < part.shape[1]))
            part[there, own[there]] = False
            above[left] += part.sum(-1)
            left = left[above[left] < top]
            if not len(left):
                break
        return above < top

    def written(self, site: Site, weights: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return a block's head outputs without value biases, ``[head, query, d_model]``."""
        block = self._block(site)
        out = _heads(block.output, len(weights))
        if block.value.bias is not None:
            v = v - _array(block.value.bias).reshape(len(out), 1, -1)
        return weights @ v @ out

    def short_values(self, sites: Sequence[Site], v: np.ndarray) -> np.ndarray:
        """Return d_v-dimensional vectors with the lengths and angles of the projected values.

        ``v`` ``[sentence, head, key, d_v]`` holds the blocks of ``sites``, concatenated; the result
        has the same shape. With ``W_O = R^T Q^T`` and orthonormal Q, ``v R^T`` has every length and
        angle of ``v W_O``.
        """
        key = tuple(sites)
        if key not in self._short:
            made = [self._short_of(site, v.shape[1] // len(sites)) for site in sites]
            self._short[key] = tuple(map(np.concatenate, zip(*made, strict=True)))
        bias, short = self._short[key]
        return (v - bias if bias.any() else v) @ short

    def _short_of(self, site: Site, heads: int) -> tuple[np.ndarray, np.ndarray]:
        """Return value bias ``[head, 1, d_v]`` and R^T ``[head, d_v, d_v]`` of a block."""
        block = self._block(site)
        out = _heads(block.output, heads)  # [head, d_v, d_model]
        wide = out.shape[1] >= out.shape[2]
        short = out if wide else np.linalg.qr(out.transpose(0, 2, 1))[1].transpose(0, 2, 1)
        bias = np.zeros((heads, 1, out.shape[1]), np.float32)
        if block.value.bias is not None:
            bias += _array(block.value.bias).reshape(heads, 1, -1)
        return bias, short

    def _linear(self) -> bool:
        """Return True if head outputs reach the logits through the last norm only."""
        if self.module is None or not self.module.config.target_vocab:
            return False
        config = self.module.config
        kinds = config.norm_kind in ("layer", "rms")
        return config.norm == "pre" and config.final_norm and kinds and not config.embedding_norm

    def _same_words(self, site: Site) -> bool:
        """Return True if the keys and the output layer share a vocabulary."""
        assert self.module is not None
        return site.block == "self" or self.module.config.tied in ("embeddings", "all")

    def _block(self, site: Site) -> Any:
        layer = getattr(self.module, site.stack).layers[site.layer]
        return layer.cross_attention if site.block == "cross" else layer.self_attention

    def _unembed(self) -> np.ndarray:
        assert self.module is not None
        return _array(self.module.output.weight).T  # [d_model, vocabulary]

    def _normed(self, x: np.ndarray) -> np.ndarray:
        return _gained(x, getattr(self.module, self.last).norm, self._centred())

    def _centred(self) -> bool:
        assert self.module is not None
        return self.module.config.norm_kind == "layer"

    @cached_property
    def ov(self) -> dict[tuple[str, int], np.ndarray]:
        """M12 of each self-attention of the last stack, ``[head]``; empty if not defined."""
        if self.module is None or not self._linear():
            return {}
        stack, found = getattr(self.module, self.last), {}
        embed, unembed = _array(stack.embedding.tokens.weight), self._unembed()
        for number, layer in enumerate(stack.layers):
            block = layer.self_attention
            read = _gained(embed, layer.self_norm, self._centred())
            w_v = _heads(block.value, block.heads, columns=True)
            w_o = self._normed(_heads(block.output, block.heads))
            found["self", number] = ov_values(read, w_v, w_o, unembed)
        return found


def _array(tensor: Any) -> np.ndarray:
    return cast(np.ndarray, tensor.detach().float().cpu().numpy())


def _heads(linear: Any, heads: int, columns: bool = False) -> np.ndarray:
    """Return an output projection by head, ``[head, d_v, d_model]``.

    With ``columns``, an input projection: ``[head, d_model, d_v]``.
    """
    weight = _array(linear.weight)
    if columns:
        return weight.reshape(heads, -1, weight.shape[-1]).transpose(0, 2, 1)
    return weight.T.reshape(heads, -1, weight.shape[0])


def _gained(x: np.ndarray, norm: Any, centred: bool) -> np.ndarray:
    """Apply a norm with its scale held at 1: center if it centers, multiply by gain; no bias."""
    return (x - x.mean(-1, keepdims=True) if centred else x) * _array(norm.weight)
