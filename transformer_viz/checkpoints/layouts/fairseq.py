"""fairseq's translation models: ``checkpoint_best.pt`` with ``args`` or ``cfg``.

Positions count the tokens that are no padding, from the padding id on. The embeddings of padding in
the source become zero. A source ends with ``</s>``, and a target starts with it. A last norm of a
stack means pre-norm.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...model import ModelConfig, Transformer
from ...model.normalization import make_norm
from ...preprocessing.tokenizers import Tokenizer
from ...preprocessing.vocabularies import Vocabularies
from ..common.build_reference import (
    PLAIN,
    ReferencePlan,
    add,
    build_reference_model,
    same_matrix,
    settings,
    sidecar,
    typed_ids,
    widths,
)
from ..common.build_reference import WORDS as REFERENCE
from ..common.calibration import calibrated_heads
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.native import check_types
from ..common.provenance import resolve
from ..common.rename_keys import Table, layers, pattern, patterns, size, split, without
from ..common.stated import stated
from ..common.word_checks import refuse_unknown
from ..files.reading import CheckpointError, Weights
from ..vocabularies.dictionaries import fairseq_words

NAME = "fairseq"
LANGUAGES = ("source_lang", "target_lang")
FILE_WORDS = ("heads", "activation", "norm_eps", "dropout", "max_positions")
WORDS: tuple[str, ...] = (*REFERENCE, *LANGUAGES)
STACKS, SIDES = ("encoder", "decoder"), ("source", "target")
SHARING = ("share_decoder_input_output_embed", "share_all_embeddings")
OUTPUTS = ("decoder.output_projection.weight", "decoder.embed_out")  # the second before 2020
ATTENTION = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
BLOCKS = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}
FUSED = tuple(f"{{stack}}.layers.{{n}}.{block}.in_proj_{{part}}" for block in BLOCKS)
#: Norms of a layer, which had numbers in the oldest files.
NUMBERED = {
    "encoder": ("self_norm", "feed_forward_norm"),
    "decoder": ("self_norm", "cross_norm", "feed_forward_norm"),
}
TABLE: Table = (
    ("{stack}.embed_tokens.weight", "{stack}.embedding.tokens.weight"),
    ("{stack}.embed_positions.weight", "{stack}.embedding.table"),
    ("{stack}.layernorm_embedding.{part}", "{stack}.embedding.norm.{part}"),
    *(
        (
            f"{{stack}}.layers.{{n}}.{theirs}.{projection}.{{part}}",
            f"{{stack}}.layers.{{n}}.{ours}.{name}.{{part}}",
        )
        for theirs, ours in BLOCKS.items()
        for projection, name in ATTENTION.items()
    ),
    *(
        (
            f"{{stack}}.layers.{{n}}.{theirs}.in_proj_{{part}}[{name}]",
            f"{{stack}}.layers.{{n}}.{ours}.{name}.{{part}}",
        )
        for theirs, ours in BLOCKS.items()
        for name in ("query", "key", "value")
    ),
    *(
        (f"{{stack}}.layers.{{n}}.{theirs}.{{part}}", f"{{stack}}.layers.{{n}}.{ours}.{{part}}")
        for theirs, ours in {
            "self_attn_layer_norm": "self_norm",
            "encoder_attn_layer_norm": "cross_norm",
            "final_layer_norm": "feed_forward_norm",
            "fc1": "feed_forward.inner",
            "fc2": "feed_forward.outer",
        }.items()
    ),
    *(
        (
            f"{stack}.layers.{{n}}.layer_norms.{number}.{{part}}",
            f"{stack}.layers.{{n}}.{norm}.{{part}}",
        )
        for stack, norms in NUMBERED.items()
        for number, norm in enumerate(norms)
    ),
    ("{stack}.layer_norm.{part}", "{stack}.norm.{part}"),
    *((output, "output.weight") for output in OUTPUTS),
)
UNREAD = ("{stack}.version", "{stack}.embed_positions._float_tensor")
NAMES: tuple[str, ...] = (
    *patterns(TABLE),
    *(pattern(form).pattern for form in (*FUSED, *UNREAD)),
)
ACTIVATIONS = {
    **{name: name for name in ("relu", "gelu", "tanh")},
    **dict.fromkeys(("gelu_accurate", "gelu_fast"), "gelu_tanh"),
    "swish": "silu",
    "linear": "identity",
}
#: Fixed options of this code base.
ALWAYS = {"pad_id": 1, "bos_id": 2, "eos_id": 2}
#: Defaults of its options; guesses if the file does not hold its options.
USUAL = {"activation": "relu", "max_positions": 1024}
TYPED = (
    "No dictionary stands beside it (dict.LANG.txt for its two languages), so token ids are typed."
)


class CountedEmbedding(nn.Module):
    """Embeddings whose positions count the tokens that are no padding.

    The first such token has the position ``pad + 1``. Padding has the position ``pad``, whose row
    of the sinusoid is zero. Ids ``[batch, token]`` become ``[batch, token, d_model]``; with
    ``zeroed`` the rows of padding are zero after the norm.
    """

    table: Tensor | None

    def __init__(self, config: ModelConfig, vocabulary: int, learned: int, zeroed: bool):
        super().__init__()
        self.scale, self.pad, self.zeroed = config.embedding_scale, config.pad_id, zeroed
        self.tokens = nn.Embedding(vocabulary, config.d_model)
        self.norm = make_norm(config) if config.embedding_norm else None
        if config.positions == "learned":
            self.table = nn.Parameter(torch.empty(learned, config.d_model))
        elif config.positions == "none":
            self.table = None
        else:
            rows = config.max_positions + config.pad_id + 1
            table = sinusoid(rows, config.d_model, config.pad_id)
            self.register_buffer("table", table, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        kept = ids != self.pad
        x = self.tokens(ids) * self.scale
        if self.table is not None:
            x = x + F.embedding(kept.cumsum(1) * kept + self.pad, self.table)
        if self.norm is not None:
            x = self.norm(x)
        return x.masked_fill(~kept[..., None], 0.0) if self.zeroed else x


def sinusoid(rows: int, width: int, pad: int) -> Tensor:
    """Return the sinusoid ``[row, width]``: sines left, cosines right, last frequency exactly
    1/10000.

    tensor2tensor's form of Vaswani et al. 2017, section 3.5; the row of padding is zero.
    """
    half = width // 2
    frequency = torch.exp(torch.arange(half) * -(math.log(10000.0) / max(half - 1, 1)))
    angle = torch.arange(rows)[:, None] * frequency
    table = torch.zeros(rows, width)
    table[:, :half], table[:, half : 2 * half] = angle.sin(), angle.cos()
    if pad >= 0:
        table[pad] = 0.0
    return table


def recognise(found: Candidate) -> bool:
    """Return True if the names are fairseq's, in its newer spelling or in the fused one."""
    names = found.weights.tensors.keys()
    heads = ("q_proj.weight", "in_proj_weight")
    return "encoder.embed_tokens.weight" in names and any(
        f"decoder.layers.0.encoder_attn.{head}" in names for head in heads
    )


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by options and shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, weights or a dictionary do not fit, or
            the two stacks differ in an option that must be equal.
    """
    refuse_unknown(overrides, WORDS)
    weights = without(found.weights, *UNREAD)
    words, origins = _words(found, weights, overrides)
    rows = dict.fromkeys(("d_k", "d_v"), words["d_model"])
    if "heads" not in words:
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    add(words, origins, origins["heads"], widths(words["heads"], rows))
    langs = {word: words.pop(word, "") for word in LANGUAGES}
    notes: tuple[str, ...] = ()
    if tokenizer is None or isinstance(tokenizer, Vocabularies):
        sizes = (words["source_vocab"], words["target_vocab"])
        joined = words["tied"] in ("embeddings", "all")
        own = fairseq_words(found.folder, tuple(map(str, langs.values())), sizes, joined)
        notes = () if own or tokenizer else (TYPED,)
        read = own or typed_ids(words)
        tokenizer = read if tokenizer is None else tokenizer.fill(read)
    for fused in FUSED:
        weights = split(weights, fused)
    model = build_reference_model(
        found,
        ReferencePlan(
            NAME,
            words,
            origins,
            TABLE,
            weights=weights,
            tokenizer=tokenizer,
            make=lambda config: _counted(config, weights),
            notes=notes,
        ),
    )
    told = {word: lang for word, lang in langs.items() if lang}
    where = {word: origins[word] for word in told}
    return replace(model, config=model.config | told, provenance=model.provenance | where)


def _counted(config: ModelConfig, weights: Weights) -> Transformer:
    """Return the Transformer with fairseq's embeddings, and last norms if the file has them.

    Raises:
        CheckpointError: More positions are requested than the file's table has.
    """
    module = Transformer(config)
    for stack in STACKS:
        part = getattr(module, stack, None)
        if part is None:
            continue
        vocabulary = config.source_vocab if stack == "encoder" else config.target_vocab
        learned = weights.tensors.get(f"{stack}.embed_positions.weight")
        rows = 0 if learned is None else learned.shape[0]
        if learned is not None and rows < config.max_positions + config.pad_id + 1:
            raise CheckpointError(
                f"max_positions={config.max_positions} needs more rows than the {rows} of "
                f"{stack}.embed_positions.weight; give a smaller one, or leave it out."
            )
        part.embedding = CountedEmbedding(config, vocabulary, rows, zeroed=stack == "encoder")
        if f"{stack}.layer_norm.weight" not in weights.tensors:
            part.norm = None
    module.tie()
    return module


def _words(
    found: Candidate, weights: Weights, overrides: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return all known options; only the heads may be missing."""
    options = _options(weights)
    unsaid = "layout" if options else "convention"
    words, origins = resolve(
        overrides,
        ("shapes", _limit(weights)),
        ("file", _told(options, overrides)),
        *stated(found, FILE_WORDS, _measured(weights, options), sidecar(found, WORDS)),
        ("shapes", _measured(weights, options)),
        ("layout", ALWAYS),
        (unsaid, USUAL),
    )
    check_types(words)
    scale = 1.0 if options.get("no_scale_embedding") else math.sqrt(words["d_model"])
    said = "file" if "no_scale_embedding" in options else unsaid
    add(words, origins, said, {"embedding_scale": scale})
    add(words, origins, "layout", PLAIN)
    return words, origins


def _options(weights: Weights) -> dict[str, Any]:
    """Return the options of the training: ``args``, or the model's and task's part of ``cfg``."""
    args, cfg = settings(weights, "args"), settings(weights, "cfg")
    if args or not cfg:
        return args
    inner = replace(weights, extra=cfg)
    options = settings(inner, "task") | settings(inner, "model")
    for stack in STACKS:  # newer models keep each stack's options together
        own = settings(replace(weights, extra=options), stack)
        options |= {f"{stack}_{word}": value for word, value in own.items()}
    return options


def _told(options: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Return our options for the file's options.

    Raises:
        CheckpointError: The activation is unknown, or the two stacks differ.
    """
    words = {word: options[word] for word in ("dropout", *LANGUAGES) if options.get(word)}
    said = [options.get(f"max_{side}_positions") for side in SIDES]
    limits = [limit for limit in said if isinstance(limit, int)]
    if limits:
        words["max_positions"] = min(limits)
    if "encoder_attention_heads" in options:
        words["heads"] = _alike(options, "attention_heads")
    if "encoder_normalize_before" in options:
        words["norm"] = "pre" if _alike(options, "normalize_before") else "post"
    if options.get("no_token_positional_embeddings"):
        words["positions"] = "none"
    activation = str(options.get("activation_fn", "relu"))
    if activation not in ACTIVATIONS and "activation" not in overrides:
        raise CheckpointError(
            f"The file says activation_fn={activation!r}, which is not supported; known are "
            f"{', '.join(ACTIVATIONS)}. Override activation= to try another."
        )
    if "activation_fn" in options:
        words["activation"] = ACTIVATIONS.get(activation, activation)
    return words


def _alike(options: dict[str, Any], word: str) -> Any:
    """Return an option that must be equal in both stacks."""
    ours, theirs = (options.get(f"{stack}_{word}") for stack in STACKS)
    if theirs is not None and ours != theirs:
        raise CheckpointError(
            f"The file says encoder_{word}={ours!r} and decoder_{word}={theirs!r}; stacks that "
            "differ in it are not supported. Build the model with fairseq and give the module to "
            "load(module, tokenizer=...)."
        )
    return ours


def _limit(weights: Weights) -> dict[str, Any]:
    """Return the number of positions in learned tables; empty if positions are not learned."""
    tables = [f"{stack}.embed_positions.weight" for stack in STACKS]
    rows = [size(weights, name)[0] for name in tables if name in weights.tensors]
    if not rows:
        return {}
    return {"positions": "learned", "max_positions": min(rows) - ALWAYS["pad_id"] - 1}


def _measured(weights: Weights, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options given by names and shapes."""
    source_vocab, width = size(weights, "encoder.embed_tokens.weight")
    tensors = weights.tensors
    final = any(f"{stack}.layer_norm.weight" in tensors for stack in STACKS)
    return {
        "d_model": width,
        "source_vocab": source_vocab,
        "target_vocab": size(weights, "decoder.embed_tokens.weight")[0],
        "d_ff": size(weights, "encoder.layers.0.fc1.weight")[0],
        "encoder_layers": layers(weights, "encoder.layers.{n}.fc1.weight"),
        "decoder_layers": layers(weights, "decoder.layers.{n}.fc1.weight"),
        "positions": "sinusoidal_halves",
        "norm": "pre" if final else "post",
        "final_norm": final,
        "embedding_norm": "encoder.layernorm_embedding.weight" in tensors,
        "tied": _tied(weights, options),
    }


def _tied(weights: Weights, options: dict[str, Any]) -> str:
    """Return the tied tables: equal numbers, or an output that older files do not store."""
    table = "decoder.embed_tokens.weight"
    both = same_matrix(weights, table, "encoder.embed_tokens.weight")
    outputs = [own for own in OUTPUTS if own in weights.tensors]
    unstored = not options or any(options.get(word) for word in SHARING)
    output = same_matrix(weights, table, outputs[0]) if outputs else unstored
    if both and output:
        return "all"
    return "embeddings" if both else "output" if output else "none"
