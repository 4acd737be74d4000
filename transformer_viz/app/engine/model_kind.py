"""What a model takes and gives, as far as pages ask: which boxes, which blocks, which outcome.

A kind is told by a folder's config.json before torch is there, or by the loaded model.
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

#: Languages that models of the box translate from.
LANGUAGES = (mark("English"), mark("German"))
#: Architectures of timm that are Vision Transformers, by how their names begin.
PICTURES = ("vit_", "deit")

USUAL = "The animal didn't cross the street because it was too tired."  # a visit's first text
LONG, MOST_WORDS = 6, 4  # words of an example for a translator, and for any other model
_known_examples: WeakKeyDictionary[Model, tuple[str, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Kind:
    """What a visitor gives a model, and what comes of it; the words are those of ``Model``.

    ``spelled`` is false where there is no vocabulary, so that a text is token ids; ``padded`` says
    whether there is a padding token; ``first`` is the text to begin with, where any would not do;
    ``eyes``: a picture may stand beside the text; ``examples`` are texts of words of its own list,
    where it cannot read the usual ones.
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
        """The unit of its scores: ``nats``, or ``logit`` for a regression."""
        return unit_of(self.task)

    @property
    def own(self) -> str:
        """What a visitor's own file is for it: a picture beside a text, or what it takes."""
        return "image" if self.eyes else self.takes

    @property
    def translates(self) -> bool:
        """Whether a target stands beside the source; a classifier's decoder reads that again."""
        return self.arrangement == "encoder-decoder" and self.gives not in ("classes", "spans")

    @property
    def continues(self) -> bool:
        """Whether it goes on with a text."""
        return self.arrangement == "decoder-only" and self.gives == "words"

    @property
    def writes(self) -> bool:
        """Whether it makes words by itself, one after the other."""
        reads = self.takes in ("text", "audio")
        return self.gives == "words" and reads and self.stacks != ("encoder",)

    @property
    def fills(self) -> bool:
        """Whether it says words at the places of its own source."""
        return self.arrangement == "encoder-only" and self.gives == "words"

    @property
    def thing(self) -> str:
        """What one token is, in a sentence; of a sound it may be a frame, or a word about it."""
        return {"image": "patch", "vectors": "vector", "audio": "vector"}.get(self.takes, "word")

    def asked(self, question: str) -> str:
        """A question about the words of a sentence, as it is asked of what this kind takes.

        Args:
            question: a marked text; one that speaks of words stands in ``QUESTIONS``.
        """
        return say(QUESTIONS.get(question, {}).get(self.thing, question))

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks that it has, of ``encoder`` and ``decoder``."""
        lone = {"encoder-only": STACKS[:1], "decoder-only": STACKS[1:]}
        return lone.get(self.arrangement, STACKS)

    @property
    def sentence(self) -> str:
        """What its source is called above the box where one types it."""
        if not self.spelled:
            return say("Token ids")
        if self.continues:
            return say("Text")
        if self.language:
            return say("{language} sentence", language=say(self.language))
        return say("Sentence")

    @property
    def language(self) -> str:
        """The English name of the language that it translates from, as far as its title says so."""
        name, told, _ = self.title.partition(" to ")
        return name if self.translates and told else ""


def of_config(config: Mapping[str, Any], spelled: bool) -> Kind | None:
    """The kind that a config.json tells; None where only the model itself can say.

    Args:
        config: its words.
        spelled: whether a vocabulary stands beside it.
    """
    title = str(config.get("title", ""))
    if str(config.get("architecture", "")).startswith(PICTURES):
        labels = tuple(map(str, config.get("label_names") or ()))
        task = task_of(int(config.get("num_classes") or len(labels) or 2))
        return Kind(
            "encoder-only", "image", "classes", padded=False, labels=labels, title=title, task=task
        )
    if "model_type" in config and "layout" not in config:
        return None  # Hugging Face's: BART and Whisper count their layers in our words
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
    """The kind of a loaded model."""
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
    """Texts of words of the model's own list, where it cannot read the usual first text."""
    from ...preprocessing.own_sentences import can_read, own_sentences

    if model not in _known_examples:
        room = (model.max_tokens or MOST_WORDS) - 2  # start and end
        length = min(LONG if model.kind == "encoder-decoder" else MOST_WORDS, max(room, 1))
        readable = can_read(model.tokenizer, USUAL)
        _known_examples[model] = () if readable else own_sentences(model.tokenizer, length)
    return _known_examples[model]


def _ids(config: Mapping[str, Any]) -> str:
    """A few ids that the vocabulary surely has, start, end and padding left out."""
    size = config.get("source_vocab") or config.get("target_vocab") or config.get("vocab_size")
    marks = {config.get(f"{name}_id") for name in ("pad", "bos", "eos")}
    known = [number for number in range(min(int(size or 12), 64)) if number not in marks]
    return " ".join(map(str, known[-6:]))
