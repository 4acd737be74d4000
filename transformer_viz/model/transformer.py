"""The Transformer on one page: attention, feed-forward, two stacks, nothing else.

Vaswani et al., "Attention is all you need" (2017), sections 3.1 to 3.5. Choices that differ between
trainers are fields of :class:`ModelConfig`. The code is independent of the probe: attention is
written with an explicit softmax, and tests show that it equals PyTorch's fused attention.

Shape letters in the comments: B batch, T tokens (Q queries, K keys), D d_model, H heads, d one
head's width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .cache import DecoderCache, KeptKeys, LayerCache
from .config import ModelConfig
from .normalization import make_norm
from .positional_encoding import Rotary, make_positions

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "identity": lambda x: x,
}


class Score(nn.Module):
    """Compatibility of queries and keys, one number per pair.

    Queries ``[batch, head, query, d_k]`` and keys ``[batch, head, key, d_k]`` give scores
    ``[batch, head, query, key]``:

    - ``scaled_dot`` q·k / sqrt(d_k) (Vaswani et al. 2017, section 3.2.1)
    - ``dot`` q·k; ``general`` q·W·k; ``location`` W·q, which never uses the key (Luong et al. 2015,
      section 3.1)
    - ``additive`` v·tanh(q + k) (Bahdanau et al. 2015, appendix A.1.2; the projections that make q
      and k are its W and U)
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.kind = config.score
        heads, d_k = config.heads, config.d_k
        if self.kind == "general":
            self.weight = nn.Parameter(torch.empty(heads, d_k, d_k))
        elif self.kind == "additive":
            self.weight = nn.Parameter(torch.empty(heads, d_k, 1))
        elif self.kind == "location":
            self.weight = nn.Parameter(torch.empty(heads, d_k, config.max_positions))

    def forward(self, q: Tensor, k: Tensor | None, keys: int) -> Tensor:
        if self.kind == "location":
            return q @ self.weight[..., :keys]
        assert k is not None
        if self.kind == "additive":
            pairs = torch.tanh(q.unsqueeze(3) + k.unsqueeze(2))  # [B, H, Q, K, d]
            return (pairs @ self.weight.unsqueeze(1)).squeeze(-1)
        if self.kind == "general":
            q = q @ self.weight
        scores = q @ k.transpose(-2, -1)  # [B, H, Q, K]
        return scores / math.sqrt(q.shape[-1]) if self.kind == "scaled_dot" else scores


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2).

    Queries come from ``x`` ``[batch, query, d_model]``, keys and values from ``memory``
    ``[batch, key, d_model]``. ``mask`` is true for visible keys, broadcastable to
    ``[batch, head, query, key]``. ``kept`` holds keys and values of tokens read before. Returns
    ``[batch, query, d_model]``.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.heads, self.fill = config.heads, config.mask_fill
        bias = config.attention_bias
        self.query = nn.Linear(config.d_model, config.heads * config.d_k, bias=bias)
        self.key = (  # location scores use no key
            nn.Linear(config.d_model, config.heads * config.d_k, bias=bias)
            if config.score != "location"
            else None
        )
        self.value = nn.Linear(config.d_model, config.heads * config.d_v, bias=bias)
        self.output = nn.Linear(config.heads * config.d_v, config.d_model, bias=bias)
        self.score = Score(config)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)  # [B, T, H*d] -> [B, H, T, d]

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return keys (or None) and values of ``memory``, both ``[batch, head, key, width]``."""
        v = self.split(self.value(memory))
        return None if self.key is None else self.split(self.key(memory)), v

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor,
        rotary: Callable[..., Tensor] | None = None,
        kept: KeptKeys | None = None,
    ) -> Tensor:
        q = self.split(self.query(x))
        if kept is not None and kept.complete:
            k, v = kept.keys, kept.values
            assert v is not None
        else:
            k, v = self.keys_and_values(memory)
            if rotary is not None:
                first = 0 if kept is None else kept.length  # position of the new tokens
                q, k = rotary(q, first), None if k is None else rotary(k, first)
            if kept is not None:
                k, v = kept.add(k, v)
        scores = self.score(q, k, v.shape[2])  # [B, H, Q, K]
        context = self.weigh(scores, mask) @ v  # [B, H, Q, d]
        return self.output(context.transpose(1, 2).flatten(2))

    def weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return the attention weights: softmax over the visible keys."""
        return torch.softmax(scores.masked_fill(~mask, self.fill), dim=-1)  # [B, H, Q, K]


class FeedForward(nn.Module):
    """Position-wise feed-forward network (section 3.3)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.gate = nn.Linear(config.d_model, config.d_ff) if config.gated else None
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(self.inner(x))
        return self.outer(hidden if self.gate is None else hidden * self.gate(x))


class Layer(nn.Module):
    """Layer of a stack: self-attention, cross-attention in a decoder, feed-forward.

    Each sub-layer is added to the residual stream (section 3.1). The norm is applied before it
    (``pre``), after the sum (``post``), or to the query only (``query_only``).
    """

    def __init__(self, config: ModelConfig, cross: bool):
        super().__init__()
        self.norm = config.norm
        self.self_attention = Attention(config)
        self.self_norm = make_norm(config)
        if cross:
            self.cross_attention = Attention(config)
            self.cross_norm = make_norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = make_norm(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        rotary: Callable[..., Tensor] | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        own, cross = (None, None) if cache is None else (cache.own, cache.cross)
        y = self.before(self.self_norm, x)
        keys = x if self.norm == "query_only" else y
        attended = self.self_attention(y, keys, mask, rotary, own)
        x = self.after(self.self_norm, x + self.dropout(attended))
        if memory is not None:
            y = self.before(self.cross_norm, x)
            attended = self.cross_attention(y, memory, memory_mask, kept=cross)
            x = self.after(self.cross_norm, x + self.dropout(attended))
        y = self.before(self.feed_forward_norm, x)
        return self.after(self.feed_forward_norm, x + self.dropout(self.feed_forward(y)))

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        return x if self.norm == "post" else norm(x)

    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x) if self.norm == "post" else x


class Embedding(nn.Module):
    """Embedding of token ids with positions (sections 3.4 and 3.5).

    Ids ``[batch, token]``, or vectors ``[batch, token, d_model]`` without a vocabulary, become
    ``[batch, token, d_model]``. ``before`` ``[batch]`` is the number of columns before each text.
    """

    def __init__(self, config: ModelConfig, vocabulary: int):
        super().__init__()
        self.scale = config.embedding_scale
        self.tokens = nn.Embedding(vocabulary, config.d_model) if vocabulary else None
        self.positions = make_positions(config)
        self.norm = make_norm(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        if self.tokens is not None:
            x = self.tokens(x) * self.scale
        if self.positions is not None:
            x = self.positions(x, before)
        return self.dropout(x if self.norm is None else self.norm(x))


class Stack(nn.Module):
    """Sequence of layers, and a final norm if configured.

    With a ``cache`` the input is the whole text and the new rows of the mask; the output has the
    states of the new tokens only.
    """

    def __init__(self, config: ModelConfig, vocabulary: int, layers: int, cross: bool):
        super().__init__()
        unlimited = config.positions == "none" and config.score != "location"
        self.limit = None if unlimited else config.max_positions
        self.embedding = Embedding(config, vocabulary)
        self.layers = nn.ModuleList(Layer(config, cross) for _ in range(layers))
        self.norm = make_norm(config) if config.final_norm else None
        self.rotary = Rotary(config) if config.positions == "rotary" else None

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        if self.limit is not None and x.shape[1] > self.limit:
            raise ValueError(
                f"The input has {x.shape[1]} tokens; this model has {self.limit} positions. "
                "Shorten the text."
            )
        if cache is None:
            x = self.embedding(x)
            for layer in self.layers:
                x = layer(x, mask, memory, memory_mask, self.rotary)
        else:  # positions count over the whole text; the layers read only new tokens
            # Code bases with their own embeddings support no padding on the left.
            x = self.embedding(x) if cache.before is None else self.embedding(x, cache.before)
            x = x[:, -mask.shape[2] :]
            rotary = self.rotary and partial(self.rotary, before=cache.before)
            for layer, kept in zip(self.layers, cache.layers, strict=True):
                x = layer(x, mask, memory, memory_mask, rotary, kept)
        return x if self.norm is None else self.norm(x)


class Transformer(nn.Module):
    """A Transformer: encoder, decoder, or both, from one :class:`ModelConfig`.

    ``model(source, target)`` returns logits ``[batch, target token, vocabulary]`` (before the
    softmax). A decoder-only model takes its text as ``source`` and no target. An encoder-only model
    returns logits if it has an output layer, otherwise its last states ``[batch, token, d_model]``.
    ``source_mask`` ``[batch, 1, 1, token]``, true for visible source tokens, replaces the mask of
    the padding id.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        if config.encoder_layers:
            self.encoder = Stack(config, config.source_vocab, config.encoder_layers, cross=False)
        if config.decoder_layers:
            cross = bool(config.encoder_layers)
            self.decoder = Stack(config, config.target_vocab, config.decoder_layers, cross)
        if config.target_vocab:
            self.output = nn.Linear(config.d_model, config.target_vocab, bias=config.output_bias)
        self.tie()
        self.reset()

    def tie(self) -> None:
        """Share one matrix between tables according to the config (section 3.4)."""
        tied = self.config.tied
        if tied == "none":
            return
        stack = self.decoder if self.config.decoder_layers else self.encoder
        table = stack.embedding.tokens
        assert table is not None  # the config allows only existing tables to be tied
        if tied in ("embeddings", "all"):
            source = self.encoder.embedding.tokens
            assert source is not None
            source.weight = table.weight
        if tied in ("output", "all"):
            self.output.weight = table.weight

    def reset(self) -> None:
        """Initialize weights: Xavier for matrices; embeddings of unit length before their scale."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def padding_mask(self, ids: Tensor) -> Tensor:
        """Return a mask that is true for tokens other than padding, ``[batch, 1, 1, key]``."""
        if ids.dim() == 3:  # vectors have no padding id
            return torch.ones(ids.shape[0], 1, 1, ids.shape[1], dtype=torch.bool, device=ids.device)
        return (ids != self.config.pad_id)[:, None, None, :]

    def causal_mask(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return True except at padding and later tokens, ``[batch, 1, query, key]``."""
        length = ids.shape[1]
        past = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        return (self.padding_mask(ids) if mask is None else mask) & past

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Return encoder states ``[batch, token, d_model]`` of source ids ``[batch, token]``."""
        return self.encoder(source, source_mask)

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Return logits ``[batch, target token, vocabulary]`` of target ids and encoder states."""
        return self.logits(self.states(target, memory, source_mask))

    def states(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Return decoder states ``[batch, target token, d_model]`` of ids and encoder states."""
        return self.decoder(target, self.causal_mask(target), memory, source_mask)

    def extend(
        self,
        ids: Tensor,
        cache: DecoderCache,
        memory: Tensor | None = None,
        source_mask: Tensor | None = None,
        visible: Tensor | None = None,
    ) -> Tensor:
        """Return the decoder states of further tokens, equal to those of one pass over all tokens.

        Args:
            ids: Further tokens ``[batch, token]``.
            cache: Cache of earlier tokens, updated in place.
            memory: Encoder states ``[batch, source token, d_model]``, if there is an encoder.
            source_mask: ``[batch, 1, 1, source token]``, true for visible tokens.
            visible: ``[batch, token]``, false at padding; by default derived from the padding id.

        Returns:
            ``[batch, token, d_model]``.
        """
        text, seen = cache.read(ids, visible)
        mask = self.causal_mask(text, None if seen is None else seen[:, None, None, :])
        if cache.before is not None:
            columns = torch.arange(text.shape[1], device=text.device)
            mask = mask & (columns >= cache.before[:, None])[:, None, None, :]
        return self.decoder(text, mask[:, :, -ids.shape[1] :], memory, source_mask, cache)

    def logits(self, x: Tensor) -> Tensor:
        return self.output(x) * self.config.logit_scale

    def forward(
        self, source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        mask = self.padding_mask(source) if source_mask is None else source_mask
        if self.config.kind == "decoder-only":
            return self.logits(self.decoder(source, self.causal_mask(source, mask)))
        memory = self.encode(source, mask)
        if self.config.kind == "encoder-only":
            return self.logits(memory) if self.config.target_vocab else memory
        if target is None:
            raise ValueError("An encoder-decoder needs a target; give target ids beside source.")
        return self.decode(target, memory, mask)
