"""The translator of PyTorch's tutorial "Language Translation with nn.Transformer".

Its file is a bare state dict of a ``Seq2SeqTransformer``; heads, norm and activation are not in it,
and neither is the vocabulary. Unknown 0, padding 1, start 2, end 3; unlike the reference
Transformer it hides padding in the target too, and a query that may see nothing gathers zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...model.transformer import ACTIVATIONS
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ..common import native
from ..common.build_reference import PLAIN, configured, sidecar, vocabulary
from ..common.calibration import calibrated_heads
from ..common.candidate import Candidate
from ..common.fill_weights import build
from ..common.model import Calls, Model
from ..common.provenance import resolve
from ..common.stated import REFERENCE, stated
from ..common.word_checks import refuse_unknown
from ..files.reading import CheckpointError
from . import torch_core
from .torch_core import Stack, core, hidden, later, sizes, stacks_of

NAME = "torch_tutorial_seq2seq"
PREFIX = "transformer."
SOURCE, TARGET = "src_tok_emb.embedding.weight", "tgt_tok_emb.embedding.weight"
POSITIONS = "positional_encoding.pos_embedding"
NAMES: tuple[str, ...] = (
    *(rf"transformer\.{name}" for name in torch_core.NAMES),
    r"(src|tgt)_tok_emb\.embedding\.weight",
    r"positional_encoding\.pos_embedding",
    r"generator\.(weight|bias)",
)
WORDS: tuple[str, ...] = (*torch_core.WORDS, *native.IDS)
TUTORIAL = {"output_bias": True}  # what its code always does
#: What the tutorial's code does; many share its classes with other arguments and vocabularies.
CUSTOMARY = torch_core.CUSTOMARY | {"pad_id": 1, "bos_id": 2, "eos_id": 3}
CLOSED = "The tutorial's vocabulary is not in its file, so token ids are typed."


class Embedding(nn.Module):
    """A vector for each token, scaled by sqrt(d_model)."""

    def __init__(self, tokens: int, width: int):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)


class Positions(nn.Module):
    """Adds the stored table ``[position, 1, d_model]`` to vectors ``[batch, token, d_model]``."""

    pos_embedding: Tensor

    def __init__(self, positions: int, width: int):
        super().__init__()
        self.register_buffer("pos_embedding", torch.empty(positions, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pos_embedding[: x.shape[1], 0]


class Seq2Seq(nn.Module):
    """Source and target ids ``[batch, token]`` give logits ``[batch, target token, vocabulary]``.

    ``source_mask`` is true where a source token may be seen, ``[batch, token]``.
    """

    def __init__(self, stacks: Mapping[str, Stack], settings: Mapping[str, Any]):
        super().__init__()
        width = settings["d_model"]
        transformer = core(stacks, settings)
        assert isinstance(transformer, nn.Transformer)
        self.transformer = transformer
        self.src_tok_emb = Embedding(settings["source_vocab"], width)
        self.tgt_tok_emb = Embedding(settings["target_vocab"], width)
        self.positional_encoding = Positions(settings["max_positions"], width)
        self.generator = nn.Linear(width, settings["target_vocab"])
        self.pad_id = settings["pad_id"]

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        x = self.positional_encoding(self.src_tok_emb(source))
        return self.transformer.encoder(x, src_key_padding_mask=hidden(source_mask))

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        x = self.positional_encoding(self.tgt_tok_emb(target))
        states = self.transformer.decoder(
            x,
            memory,
            tgt_mask=later(target.shape[1], target.device),
            tgt_key_padding_mask=target == self.pad_id,
            memory_key_padding_mask=hidden(source_mask),
        )
        return self.generator(states)


def recognise(found: Candidate) -> bool:
    """Whether the tutorial's names of embeddings and positions are there."""
    return {SOURCE, TARGET, POSITIONS} <= set(found.weights.tensors)


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """The tutorial's model with the file's weights.

    Raises:
        CheckpointError: words that are unknown or impossible; weights that do not fit.
    """
    refuse_unknown(overrides, WORDS)
    beside = sidecar(found, WORDS)
    stacks = _stacks(found)
    shapes = _sizes(found, stacks)
    told = stated(found, REFERENCE, shapes, beside, activations=tuple(ACTIVATIONS))
    if "heads" not in overrides and not any("heads" in given for _, given in told):
        rows = {"d_k": shapes["d_model"]}
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    words, origins = resolve(
        overrides,
        *told,
        ("shapes", shapes),
        ("layout", TUTORIAL | {"embedding_scale": math.sqrt(shapes["d_model"])}),
        ("convention", CUSTOMARY),
        ("layout", PLAIN),
    )
    torch_core.check(words, stacks, found)
    config = configured(words, found.weights)
    module = build(lambda: Seq2Seq(stacks, words), found.weights)
    assert isinstance(module, Seq2Seq)
    text = tokenizer or vocabulary(found.folder, config)
    ids = native.special_ids(words)
    followed = dict.fromkeys(("d_k", "d_v"), origins["heads"])
    return Model(
        name=native.name_of(found.path),
        module=module,
        kind="encoder-decoder",
        config=config.to_dict(),
        tokenizer=text or PlainIds(config.source_vocab, target_size=config.target_vocab, **ids),
        device="cpu",
        calls=make_calls(module),
        layout=NAME,
        max_tokens=config.max_positions,
        hash=found.hash,
        file_dtype=str(found.weights.tensors[SOURCE].dtype).removeprefix("torch."),
        folder=found.folder,
        title=str(found.config.get("title", "")),
        notes=() if text else (CLOSED,),
        provenance={
            word: origins.get(word, followed.get(word, "default")) for word in config.to_dict()
        },
        **ids,
    )


def make_calls(module: Seq2Seq) -> Calls:
    """How the tutorial's model is called; ``source_mask`` ``[batch, token]`` true = visible."""

    def encode(source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        return module.encode(
            source, source != module.pad_id if source_mask is None else source_mask
        )

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        assert target is not None
        mask = source != module.pad_id if source_mask is None else source_mask
        return module.decode(target, module.encode(source, mask), mask)

    def decode(target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        return module.decode(target, memory, source_mask)

    return Calls(forward, encode, decode)


def _stacks(found: Candidate) -> dict[str, Stack]:
    stacks = stacks_of(found.weights, PREFIX)
    looking = [name for name, stack in stacks.items() if stack.memory]
    if set(stacks) != {"encoder", "decoder"} or looking != ["decoder"]:
        raise CheckpointError(
            f"{found.path.name} lacks the weights of an encoder or a decoder; the tutorial's model "
            "has both. Save its whole state dict again."
        )
    return stacks


def _sizes(found: Candidate, stacks: Mapping[str, Stack]) -> dict[str, Any]:
    """The words that follow from the shapes."""
    tensors, shared = found.weights.tensors, sizes(stacks)
    for name, shape in ((SOURCE, "token"), (TARGET, "token"), (POSITIONS, "position, 1")):
        tensor = tensors.get(name)
        if tensor is None or tensor.dim() != 2 + shape.count(","):
            raise CheckpointError(
                f"{name} in {found.path.name} is "
                f"{'missing' if tensor is None else list(tensor.shape)}; expected "
                f"[{shape}, d_model]."
            )
    return {
        **{word: shared[word] for word in ("d_model", "d_ff", "encoder_layers", "decoder_layers")},
        "final_norm": shared["final_norm"],
        "attention_bias": shared["bias"],
        "source_vocab": tensors[SOURCE].shape[0],
        "target_vocab": tensors[TARGET].shape[0],
        "max_positions": tensors[POSITIONS].shape[0],
    }
