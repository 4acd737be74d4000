"""PyTorch's tutorial "Language Modeling with nn.Transformer": an encoder stack under a causal mask.

Its file is a bare state dict with ``embedding``, ``pos_encoder``, ``transformer_encoder`` and
``linear``, without padding, start and end tokens. With ``names=`` it is the layout of any
nn.TransformerEncoder with an embedding: with a class head, a head for each token, or none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ....preprocessing.tokenizers import PlainIds, Tokenizer
from ....preprocessing.vocabularies import Tables
from ...common import native
from ...common.build_reference import PLAIN, configured, same_matrix, sidecar, special_ids
from ...common.calibration import calibrated_heads
from ...common.candidate import Candidate
from ...common.fill_weights import build
from ...common.model import Calls, Model
from ...common.provenance import resolve
from ...common.rename_keys import Table, map_names
from ...common.stated import REFERENCE, stated
from ...common.vocabularies import filled, settled
from ...common.word_checks import refuse_unknown
from ...files.reading import CheckpointError, Weights
from .. import torch_core
from ..torch_core import Stack, built_in, core, hidden, later, stacks_of
from .torch_embeddings import (
    COMPUTED,
    POOLING,
    Embedding,
    make_positions,
    pool,
    position_tables,
    position_words,
)

NAME = "torch_language_model"
PREFIX = "transformer_encoder."
TOKENS, OUTPUT = "embedding.weight", "linear.weight"
TABLES = {"source": "pos_encoder.pe"}
FIRST = f"{PREFIX}layers.0.self_attn.in_proj_weight"
STACK: tuple[str, ...] = (
    r"layers\.\d+\.self_attn\.(in_proj_(weight|bias)|out_proj\.(weight|bias))",
    r"layers\.\d+\.(linear[12]|norm[12])\.(weight|bias)",
    r"norm\.(weight|bias)",
)
OTHERS: tuple[str, ...] = (
    *(rf"transformer_encoder\.{name}" for name in STACK),
    r"embedding\.weight",
    r"linear\.(weight|bias)",
)
NAMES: tuple[str, ...] = (*OTHERS, r"pos_encoder\.pe")
#: Names of the file and of the reference Transformer, for name proposals.
ROLES: Table = (
    *(
        (f"{PREFIX}{theirs.removeprefix('{stack}.').removeprefix('encoder.')}", ours)
        for theirs, ours in torch_core.ROLES
        if not theirs.startswith("decoder.") and "multihead_attn" not in theirs
    ),
    (TOKENS, "encoder.embedding.tokens.weight"),
    (TABLES["source"], "encoder.embedding.positions.table"),
    ("linear.{part}", "output.{part}"),
)
KINDS = ("decoder-only", "encoder-only")
WORDS: tuple[str, ...] = (
    *torch_core.WORDS,
    *native.IDS,
    *("embedding_scale", "positions", "max_positions", "tied", "logit_scale", "kind", "pooling"),
)
#: Options of the tutorial's code that its file does not state.
TUTORIAL = dict.fromkeys(native.IDS, -1)
CLOSED = "No vocabulary is in the file, so token ids are typed."


class EncoderModel(nn.Module):
    """Encoder stack with embedding, positions and head.

    Ids ``[batch, token]`` become logits ``[batch, token, vocabulary]`` or ``[batch, class]``, or
    states ``[batch, token, d_model]``.
    """

    def __init__(self, stack: Stack, settings: Mapping[str, Any], shape: tuple[int, ...] | None):
        super().__init__()
        width, rows = settings["d_model"], settings["rows"]
        self.embedding = Embedding(settings["tokens"], width, settings["embedding_scale"])
        self.pos_encoder = make_positions(settings, shape)
        self.transformer_encoder = core({"": stack}, settings)
        self.linear = nn.Linear(width, rows, bias=settings["output_bias"]) if rows else None
        if self.linear is not None and settings["tied"] == "output":
            self.linear.weight = self.embedding.embedding.weight
        self.causal, self.pooling = settings["kind"] == "decoder-only", settings["pooling"]
        self.pad_id, self.logit_scale = settings["pad_id"], settings["logit_scale"]

    def forward(self, ids: Tensor, visible: Tensor | None = None) -> Tensor:
        x = self.embedding(ids)
        x = x if self.pos_encoder is None else self.pos_encoder(x)
        if visible is None and self.pad_id >= 0:
            visible = ids != self.pad_id
        mask = later(ids.shape[1], ids.device) if self.causal else None
        states = self.transformer_encoder(x, mask=mask, src_key_padding_mask=hidden(visible))
        if self.linear is None:
            return torch.as_tensor(states)
        if not self.causal:
            states = pool(states, visible, self.pooling)
        return torch.as_tensor(self.linear(states) * self.logit_scale)


def recognise(found: Candidate) -> bool:
    """Return True if the tutorial's names of the embedding and the stack exist."""
    return {TOKENS, FIRST} <= found.weights.tensors.keys()


def settled_words(weights: Weights) -> tuple[str, ...]:
    """Return the options that PyTorch's own layers fix, for mapped names of weights."""
    return built_in(weights)


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the embedding, PyTorch's encoder stack and the head, with the file's weights.

    Raises:
        CheckpointError: Options are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    beside, weights = sidecar(found, WORDS), found.weights
    stack, shapes = _measured(found)
    width = stack.width
    named = special_ids(found, tokenizer, shapes) | beside
    told = stated(found, REFERENCE, shapes, named, rows=width)
    if "heads" not in overrides and not any("heads" in given for _, given in told):
        rows = {"d_k": width}
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    tables = position_tables(weights, OTHERS, TABLES, width)
    stored = position_words(weights, tables, beside | overrides, width)
    words, origins = resolve(
        overrides,
        *told,
        ("file", _tied(weights)),
        ("shapes", shapes),
        ("file", stored),
        ("convention", COMPUTED | ({"pooling": "mean"} if _is_class_head(shapes) else {})),
        ("shapes", {"pooling": "tokens"}),
        # Many classes have these names; only the tutorial's table proves the tutorial.
        ("convention", torch_core.CUSTOMARY | {"kind": KINDS[0]}),
        ("layout" if tables else "convention", {"embedding_scale": math.sqrt(width)}),
        ("layout", TUTORIAL | PLAIN),
    )
    _check(words, found)
    torch_core.check(words, {"": stack}, found)
    tied = words["kind"] == "decoder-only" and OUTPUT not in weights.tensors
    rows = words["tokens"] if tied else words.pop("rows")
    if tied:
        words["tied"], origins["tied"] = "output", "convention"
    if words["positions"] == "none":
        kept = {n: t for n, t in weights.tensors.items() if n not in tables.values()}
        weights, tables = replace(weights, tensors=kept), {}
    config = configured(_config(words, stack.layers, rows), weights)
    name = tables.get("source")
    shape = None if name is None else tuple(weights.tensors[name].shape)
    table = (
        (TOKENS, "embedding.embedding.weight"),
        *(() if name is None else ((name, "pos_encoder.table"),)),
    )
    module = build(lambda: EncoderModel(stack, words | {"rows": rows}, shape), weights, table)
    assert isinstance(module, EncoderModel)
    ids = native.special_ids(words)
    given, note = filled(found, tokenizer)
    notes = [note] if note else [] if given is not None else [CLOSED]
    text, more = settled(given or PlainIds(words["tokens"], **ids), ids, Tables(words["tokens"]))
    followed = {"d_k": origins["heads"], "d_v": origins["heads"]}
    own = {word: words[word] for word in ("kind", "pooling")}
    return Model(
        name=native.name_of(found.path),
        module=module,
        kind=words["kind"],
        config=config.to_dict() | own,
        tokenizer=text,
        device="cpu",
        calls=make_calls(module),
        layout=NAME,
        max_tokens=None if config.positions == "none" else config.max_positions,
        hash=found.hash,
        file_dtype=weights.floats,
        folder=found.folder,
        title=str(found.config.get("title", "")),
        gives=_gives(words, rows),
        notes=(*notes, *more),
        provenance={
            word: origins.get(word, followed.get(word, "default"))
            for word in (*config.to_dict(), *own)
        },
        **ids,
    )


def make_calls(module: EncoderModel) -> Calls:
    """Return the calls of the module; ``source_mask`` ``[batch, token]`` true = visible."""

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        return torch.as_tensor(module(source, source_mask))

    return Calls(forward)


def _tied(weights: Weights) -> dict[str, str]:
    """Return the tie of output layer and embedding table, if both are stored."""
    if OUTPUT not in weights.tensors:
        return {}
    return {"tied": "output" if same_matrix(weights, TOKENS, OUTPUT) else "none"}


def _is_class_head(shapes: Mapping[str, Any]) -> bool:
    """Return True if the output layer has another number of rows than there are tokens."""
    return shapes["rows"] not in (0, shapes["tokens"])


def _gives(words: Mapping[str, Any], rows: int) -> str:
    """Return the kind of output, as in `Model.gives`."""
    if not rows:
        return "vectors"
    if words["kind"] == "decoder-only":
        return "words"
    if words["pooling"] != "tokens":
        return "classes"
    return "words" if rows == words["tokens"] else "tags"


def _config(words: Mapping[str, Any], layers: int, rows: int) -> dict[str, Any]:
    """Return the options of a ``ModelConfig``: a stack under a causal mask is a decoder."""
    left = {"kind", "pooling", "tokens", "rows"}
    shared = {word: value for word, value in words.items() if word not in left}
    tokens = words["tokens"]
    if words["kind"] == "decoder-only":
        return shared | {"decoder_layers": layers, "target_vocab": tokens, "encoder_layers": 0}
    target = rows if _gives(words, rows) == "words" else 0
    tied = words["tied"] if target else "none"
    return shared | {
        "encoder_layers": layers,
        "source_vocab": tokens,
        "target_vocab": target,
        "tied": tied,
    }


def _measured(found: Candidate) -> tuple[Stack, dict[str, Any]]:
    """Return the stack, and the options given by the shapes."""
    weights, tensors = found.weights, found.weights.tensors
    stack = stacks_of(weights, PREFIX).get("")
    if stack is None or stack.memory:
        raise CheckpointError(
            f"{found.path.name} lacks the weights of one nn.TransformerEncoder under {PREFIX}; "
            f"expected {FIRST}{map_names(weights)}."
        )
    for name in filter(tensors.__contains__, (TOKENS, OUTPUT)):
        if tensors[name].dim() != 2:
            raise CheckpointError(
                f"{name} in {found.path.name} is {list(tensors[name].shape)}; expected "
                "[rows, d_model]."
            )
    if TOKENS not in tensors:
        raise CheckpointError(
            f"{found.path.name} lacks the weight {TOKENS}; expected [token, d_model]"
            f"{map_names(weights)}."
        )
    tokens, rows = tensors[TOKENS].shape[0], 0
    if OUTPUT in tensors:
        rows = tensors[OUTPUT].shape[0]
    return stack, {
        "d_model": stack.width,
        "d_ff": stack.d_ff,
        "tokens": tokens,
        "rows": rows,
        "final_norm": stack.final_norm,
        "attention_bias": stack.bias,
        "output_bias": "linear.bias" in tensors,
        **({} if rows == tokens else {"kind": "encoder-only"}),
    }


def _check(words: Mapping[str, Any], found: Candidate) -> None:
    """Refuse a kind, a pooling or a tie that this layout does not have.

    Raises:
        CheckpointError: Names the option and its possible values.
    """
    for word, choices in (
        ("kind", KINDS),
        ("pooling", (*POOLING, "max")),
        ("tied", ("none", "output")),
    ):
        if words[word] not in choices:
            raise CheckpointError(
                f"There is no {word} {words[word]!r} in this layout; choose one of "
                f"{', '.join(choices)}."
            )
    rows, tokens = words["rows"], words["tokens"]
    if words["kind"] == "decoder-only" and rows not in (0, tokens):
        raise CheckpointError(
            f"kind='decoder-only' needs an output for each of {tokens} tokens, and {OUTPUT} in "
            f"{found.path.name} has {rows} rows. Say kind='encoder-only'."
        )
