"""Inputs and outputs of a model, as far as pages need them: input fields, maps, outcome.

A kind follows from config.json before torch is imported, or from the loaded model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...core.numerics import task_of, unit_of
from ...core.sites import STACKS
from ...i18n import mark, say
from .questions import QUESTIONS

if TYPE_CHECKING:
    from ...checkpoints import Model

#: Source languages of bundled translation models.
LANGUAGES = (mark("English"), mark("German"))
#: Prefixes of the names of Vision Transformers in timm.
PICTURES = ("vit_", "deit")

USUAL = "The animal didn't cross the street because it was too tired."  # default text of a session
LONG, MOST_WORDS = 6, 4  # words of an example for a translator, and for any other model
_known_examples: WeakKeyDictionary[Model, tuple[str, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Kind:
    """Inputs and outputs of a model; the terms are those of ``Model``.

    Attributes:
        spelled: False if there is no vocabulary, so that a text is token ids.
        padded: True if there is a padding token.
        first: Initial text, if the usual one cannot be used.
        examples: Texts of the model's vocabulary, if it cannot read the usual ones.
        eyes: True if a picture may stand beside the text.
    """

    arrangement: str = "encoder-decoder"
    takes: str = "text"
    gives: str = "words"
    spelled: bool = True
    pairs: bool = False
    padded: bool = True
    mask_id: int | None = None
    labels: tuple[str, ...] = ()
    title: str = ""
    first: str = ""
    examples: tuple[str, ...] = ()
    eyes: bool = False
    task: str = ""

    @property
    def unit(self) -> str:
        """Unit of the scores: ``nats``, or ``logit`` for a regression."""
        return unit_of(self.task)

    @property
    def own(self) -> str:
        """Kind of an uploaded input: ``image`` for a model with pictures beside text."""
        return "image" if self.eyes else self.takes

    @property
    def translates(self) -> bool:
        """True if there is a separate target. A classifier's decoder reads the source again."""
        return self.arrangement == "encoder-decoder" and self.gives not in ("classes", "spans")

    @property
    def continues(self) -> bool:
        """True if the model continues a text."""
        return self.arrangement == "decoder-only" and self.gives == "words"

    @property
    def writes(self) -> bool:
        """True if the model generates tokens one after the other."""
        reads = self.takes in ("text", "audio")
        return self.gives == "words" and reads and self.stacks != ("encoder",)

    @property
    def fills(self) -> bool:
        """True if the model predicts tokens at positions of the source."""
        return self.arrangement == "encoder-only" and self.gives == "words"

    @property
    def thing(self) -> str:
        """Name of one token in a sentence. For audio it may be a frame, or a word about it."""
        return {"image": "patch", "vectors": "vector", "audio": "vector"}.get(self.takes, "word")

    def asked(self, question: str) -> str:
        """Return a question about words, reworded for what this kind reads.

        Args:
            question: A marked text; questions about words are listed in ``QUESTIONS``.
        """
        return say(QUESTIONS.get(question, {}).get(self.thing, question))

    @property
    def stacks(self) -> tuple[str, ...]:
        """Stacks of the model, out of ``encoder`` and ``decoder``."""
        lone = {"encoder-only": STACKS[:1], "decoder-only": STACKS[1:]}
        return lone.get(self.arrangement, STACKS)

    @property
    def sentence(self) -> str:
        """Label of the source's input field."""
        if not self.spelled:
            return say("Token ids")
        if self.continues:
            return say("Text")
        if self.language:
            return say("{language} sentence", language=say(self.language))
        return say("Sentence")

    @property
    def language(self) -> str:
        """English name of the source language, if the title has it."""
        name, told, _ = self.title.partition(" to ")
        return name if self.translates and told else ""


def of_config(config: Mapping[str, Any], spelled: bool) -> Kind | None:
    """Return the kind that a config.json describes; None if only the model can determine it.

    Args:
        config: Entries of the file.
        spelled: True if a vocabulary is stored beside it.
    """
    title = str(config.get("title", ""))
    if str(config.get("architecture", "")).startswith(PICTURES):
        labels = tuple(map(str, config.get("label_names") or ()))
        task = task_of(int(config.get("num_classes") or len(labels) or 2))
        return Kind(
            "encoder-only", "image", "classes", padded=False, labels=labels, title=title, task=task
        )
    if "model_type" in config and "layout" not in config:
        return None  # Hugging Face: BART and Whisper name their layer counts as we do
    encoder, decoder = (config.get(f"{stack}_layers") for stack in STACKS)
    if config.get("layout", "transformer_viz") != "transformer_viz" or not (encoder or decoder):
        return None
    arrangement = "encoder-decoder"
    if not (encoder and decoder):
        arrangement = "encoder-only" if encoder else "decoder-only"
    takes = "text" if config.get("source_vocab") or not encoder else "vectors"
    gives = "words" if config.get("target_vocab") else "vectors"
    mask = config.get("mask_id")
    mask_id = mask if isinstance(mask, int) and arrangement == "encoder-only" else None
    padded = takes == "text" and config.get("pad_id", 0) is not None
    first = _ids(config) if takes == "text" and not spelled else ""
    return Kind(
        arrangement,
        takes,
        gives,
        spelled or takes != "text",
        padded=padded,
        mask_id=mask_id,
        title=title,
        first=first,
    )


def of_model(model: Model) -> Kind:
    """Return the kind of a loaded model."""
    from ...preprocessing.vocabularies import types_ids

    spelled = model.takes != "text" or not types_ids(model.tokenizer)
    examples = _examples(model) if spelled and model.takes == "text" else ()
    return Kind(
        arrangement=model.kind,
        takes=model.takes,
        gives=model.gives,
        spelled=spelled,
        pairs=model.pairs,
        padded=model.takes == "text" and model.pad_id is not None,
        mask_id=model.mask_id if model.kind == "encoder-only" else None,
        labels=model.labels,
        title=model.title,
        first=examples[0] if examples else "" if spelled else _ids(model.config),
        examples=examples,
        eyes=model.eyes is not None,
        task=model.task,
    )


def _examples(model: Model) -> tuple[str, ...]:
    """Return texts of the model's vocabulary if it cannot read the usual first text."""
    from ...preprocessing.own_sentences import can_read, own_sentences

    if model not in _known_examples:
        room = (model.max_tokens or MOST_WORDS) - 2  # start and end tokens
        length = min(LONG if model.kind == "encoder-decoder" else MOST_WORDS, max(room, 1))
        readable = can_read(model.tokenizer, USUAL)
        _known_examples[model] = () if readable else own_sentences(model.tokenizer, length)
    return _known_examples[model]


def _ids(config: Mapping[str, Any]) -> str:
    """Return a few ids of the vocabulary, without start, end and padding."""
    size = config.get("source_vocab") or config.get("target_vocab") or config.get("vocab_size")
    marks = {config.get(f"{name}_id") for name in ("pad", "bos", "eos")}
    known = [number for number in range(min(int(size or 12), 64)) if number not in marks]
    return " ".join(map(str, known[-6:]))
