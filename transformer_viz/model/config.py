"""Configuration of a Transformer: one field per choice of its training."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

CHOICES: dict[str, tuple[str, ...]] = {
    "norm": ("pre", "post", "query_only"),
    "norm_kind": ("layer", "annotated", "rms"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "identity"),
    "positions": ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "none"),
    "score": ("scaled_dot", "dot", "general", "additive", "location"),
    "tied": ("none", "embeddings", "output", "all"),
}
#: Minimum of each size.
SIZES = {
    **dict.fromkeys(("d_model", "heads", "d_ff", "max_positions"), 1),
    **dict.fromkeys(("d_k", "d_v", "encoder_layers", "decoder_layers"), 0),
    **dict.fromkeys(("source_vocab", "target_vocab"), 0),
}


MOST = 2**31  # upper bound of each size; torch counts the numbers of one tensor in 63 bits


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Complete description of a Transformer, except for its weights.

    Sizes
        ``d_model`` width of the residual stream; ``heads`` attention heads; ``d_k`` and ``d_v``
        width of one head's keys and values (0: ``d_model / heads``); ``d_ff`` feed-forward width;
        ``encoder_layers`` and ``decoder_layers`` (0: the model has no such stack); ``source_vocab``
        and ``target_vocab`` in tokens (0: the encoder's input are vectors; an encoder without
        decoder has an output layer exactly when ``target_vocab`` is given); ``max_positions`` in
        tokens.
    Choices
        ``norm`` position of the norm (before each sub-layer, after each residual sum, or on the
        query only); ``norm_kind``; ``norm_eps``; ``embedding_norm`` a norm on the embeddings;
        ``final_norm`` one after the last layer; ``activation``; ``gated`` multiplies a second
        projection into the feed-forward; ``positions``; ``score`` comparison of query and key;
        ``attention_bias`` and ``output_bias``; ``embedding_scale`` and ``logit_scale`` factors;
        ``tied`` tables that share one matrix; ``mask_fill`` the score of a masked cell; ``dropout``
        (training only); ``pad_id`` (-1: no padding), ``bos_id``, ``eos_id``.

    Raises:
        ValueError: An unsupported choice, or sizes that do not fit. The message names both.
    """

    d_model: int
    heads: int
    d_ff: int
    d_k: int = 0
    d_v: int = 0
    encoder_layers: int = 0
    decoder_layers: int = 0
    source_vocab: int = 0
    target_vocab: int = 0
    max_positions: int = 512
    norm: str = "pre"
    norm_kind: str = "layer"
    norm_eps: float = 1e-5
    embedding_norm: bool = False
    final_norm: bool = True
    activation: str = "relu"
    gated: bool = False
    positions: str = "sinusoidal"
    score: str = "scaled_dot"
    attention_bias: bool = True
    output_bias: bool = False
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    tied: str = "none"
    mask_fill: float = float("-inf")
    dropout: float = 0.0
    pad_id: int = 0
    bos_id: int = 2
    eos_id: int = 3

    def __post_init__(self) -> None:
        for word, allowed in CHOICES.items():
            if getattr(self, word) not in allowed:
                raise ValueError(
                    f"{word}={getattr(self, word)!r} is not supported; choose one of "
                    f"{', '.join(allowed)}."
                )
        for word, least in SIZES.items():
            value = getattr(self, word)
            if value < least:
                raise ValueError(f"{word}={value} is too small; give {least} or more.")
            if value >= MOST:
                raise ValueError(f"{word}={value} is too large; give less than {MOST:,}.")
        for word in ("d_k", "d_v"):
            if getattr(self, word) == 0:
                if self.d_model % self.heads:
                    raise ValueError(
                        f"d_model={self.d_model} cannot be split into heads={self.heads} equal "
                        f"parts; change one of them, or give {word}."
                    )
                object.__setattr__(self, word, self.d_model // self.heads)
        if self.encoder_layers == 0 and self.decoder_layers == 0:
            raise ValueError("A model needs encoder_layers or decoder_layers; both are 0.")
        if self.decoder_layers and not self.target_vocab:
            raise ValueError("A decoder needs target_vocab; it is 0. Give the vocabulary size.")
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(f"Rotary positions turn pairs of dimensions; d_k={self.d_k} is odd.")
        self._check_tables()

    def _check_tables(self) -> None:
        """Raise unless tables that share one matrix both exist and have equal sizes."""
        if self.tied == "none" or (self.tied == "output" and self.decoder_layers):
            return
        if self.tied != "output" and self.kind != "encoder-decoder":
            raise ValueError(
                f"tied={self.tied!r} needs an encoder and a decoder, and this model is "
                f"{self.kind}; say 'output' or 'none'."
            )
        if self.source_vocab != self.target_vocab or not self.source_vocab:
            raise ValueError(
                f"tied={self.tied!r} shares one table between source and target, but "
                f"source_vocab={self.source_vocab} and target_vocab={self.target_vocab}; make "
                "them equal, or say 'none'."
            )

    @property
    def kind(self) -> str:
        """Arrangement: ``encoder-decoder``, ``encoder-only`` or ``decoder-only``."""
        if self.encoder_layers and self.decoder_layers:
            return "encoder-decoder"
        return "encoder-only" if self.encoder_layers else "decoder-only"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable data (an infinite fill as ``"-inf"``)."""
        words = dataclasses.asdict(self)
        if words["mask_fill"] == float("-inf"):
            words["mask_fill"] = "-inf"
        return words

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> ModelConfig:
        """Return a config from the data of :meth:`to_dict`.

        Raises:
            ValueError: An unknown or a missing field. The message names it.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise ValueError(
                f"Unknown configuration word {unknown[0][:40]!r}; known are "
                f"{', '.join(sorted(known))}."
            )
        missing = [word for word in ("d_model", "heads", "d_ff") if word not in settings]
        if missing:
            there = sorted(settings)
            more = f" and {len(there) - 8} more" if len(there) > 8 else ""
            raise ValueError(f"The configuration lacks {missing[0]!r}; it has {there[:8]}{more}.")
        values = dict(settings)
        values["mask_fill"] = float(values.get("mask_fill", "-inf"))
        return cls(**values)
