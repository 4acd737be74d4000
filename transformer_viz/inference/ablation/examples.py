"""Examples for ablation: inputs, the output rows to score, and their reference tokens.

Everything is teacher forced: tokens before a row come from the reference, not from the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...checkpoints.common.model import Model
from ...core.interventions import Intervention
from ...core.numerics import MULTI_LABEL, REGRESSION, SINGLE_LABEL, best_span
from ...preprocessing.typed_text import TypedText
from ..generation import translate_lines
from ..model_inputs import read_source
from ..outputs import JUDGED
from ..token_ids import source_ids, target_ids, target_pieces, vocabulary_ids

MASKED = 0.15  # share of a sentence's tokens masked for a masked model (Devlin et al. 2019)
TOGETHER = 32  # sentences decoded together

#: Called between steps of a long preparation; an exception that it raises aborts.
Pause = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Example:
    """Inputs of a sentence without batch axis, with its scored ``rows`` and their ``wanted`` ids.

    ``source`` holds ids ``[token]`` or the model's other input; ``target`` the decoder's input ids.
    """

    source: Tensor
    target: Tensor | None
    rows: tuple[int, ...]
    wanted: tuple[int, ...]
    segments: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape that two examples must share to be batched without padding."""
        target = () if self.target is None else tuple(self.target.shape)
        return (*self.source.shape, *target)


@dataclass(frozen=True)
class Examples:
    """All examples, and a description of the origin of the reference tokens."""

    items: tuple[Example, ...]
    reference: str

    def __len__(self) -> int:
        return len(self.items)

    @property
    def counts(self) -> np.ndarray:
        """Number of scored rows per example, ``[sentence]``."""
        return np.array([len(item.rows) for item in self.items], np.int64)


def read_examples(model: Model, pairs: Sequence[Any], seed: int, pause: Pause) -> Examples:
    """Return sentences or pairs as model inputs.

    Raises:
        ValueError: The list is empty, an item has no row to score, or the model has no output that
            can be compared.
    """
    if isinstance(pairs, str) or not len(pairs) or isinstance(pairs[0], int):
        got = "one text" if isinstance(pairs, str) else "one list of ids" if len(pairs) else "none"
        raise ValueError(
            "Heads are ranked on a list of sentences, or of (source, target) pairs; got "
            f"{got}. Give a few dozen at least: an interval needs many."
        )
    if model.takes == "vectors" or model.gives == "vectors":
        raise ValueError(
            f"The model {model.name!r} ends in vectors and says no word or class, so there is no "
            "loss that a removal could raise. Rank a model with an output layer."
        )
    if model.takes == "audio":
        raise ValueError(
            f"The model {model.name!r} hears sounds; heads are ranked on texts and pictures."
        )
    if model.gives in JUDGED:
        return _judged(model, pairs, pause)
    if model.kind == "encoder-decoder":
        return _translated(model, pairs, pause)
    if model.kind == "decoder-only":
        return Examples(tuple(_continued(model, item) for item in pairs), _given(model, pairs))
    if model.mask_id is None:
        raise ValueError(
            f"The model {model.name!r} has no decoder and no mask token, so none of its rows has "
            "a word to guess. Rank a model that translates, goes on, fills in or judges; a module "
            "whose rows predict the next token is loaded with kind='decoder-only'."
        )
    generator = np.random.default_rng(seed)
    items = tuple(_hidden(model, item, generator) for item in pairs)
    share = f"{MASKED:.0%} of each sentence's tokens, masked (seed {seed})"
    return Examples(items, share)


def _reference(model: Model, target: Any) -> list[int]:
    """Return reference ids as in training, including characters that cannot be typed."""
    tokenizer = model.tokenizer
    if isinstance(target, str) and isinstance(tokenizer, TypedText):
        target = tokenizer.plain.target_ids(target)
    return target_ids(model, target)


def two(item: Any) -> bool:
    """Return True if an item is a pair of source and reference, and not only ids."""
    return isinstance(item, tuple) and len(item) == 2 and not isinstance(item[0], int)


def _given(model: Model, pairs: Sequence[Any]) -> str:
    alone = sum(not two(item) for item in pairs)
    if not alone:
        return "the second text of each pair"
    return "the sentences themselves" if alone == len(pairs) else "sentences and second texts"


def _translated(model: Model, pairs: Sequence[Any], pause: Pause) -> Examples:
    """Return examples with source and target; a missing target is decoded greedily."""
    found: dict[int, list[int]] = {}
    alone = [number for number, item in enumerate(pairs) if not two(item)]
    alone.sort(key=lambda number: len(pairs[number]))
    for start in range(0, len(alone), TOGETHER):
        pause()
        some = alone[start : start + TOGETHER]
        best = translate_lines(model, [pairs[n] for n in some], beam=1, batch=TOGETHER)
        found |= {n: list(one.ids) for n, one in zip(some, best, strict=True)}
    items = []
    for number, item in enumerate(pairs):
        source, target = item if two(item) else (item, None)
        read = [model.bos_id or 0, *found[number]] if target is None else _reference(model, target)
        start, wanted = read[0], read[1:]
        if isinstance(target, str) and model.eos_id is not None:
            wanted.append(model.eos_id)
        _some(wanted, number)
        ids = torch.tensor([start, *wanted[:-1]], device="cpu")
        rows = tuple(range(len(wanted)))
        items.append(Example(_ids(source_ids(model, source)), ids, rows, tuple(wanted)))
    own = "the model's own greedy output of the clean run"
    if not alone:
        return Examples(tuple(items), "the targets of the pairs")
    mixed = len(alone) < len(pairs)
    return Examples(tuple(items), f"the targets of the pairs, else {own}" if mixed else own)


def _continued(model: Model, item: Any) -> Example:
    """Return an example that scores all tokens after the first, or the second text of a pair."""
    first, second = item if two(item) else (item, None)
    ids = source_ids(model, first)
    known = 1 if second is None else len(ids)
    if isinstance(second, str):
        ids = [*ids, *target_pieces(model, second)]
    elif second is not None:
        ids = [*ids, *vocabulary_ids(model, "target", second)]
    ids = source_ids(model, ids)  # checks the length as well
    _some(ids[known:], item)
    rows = tuple(range(known - 1, len(ids) - 1))
    return Example(_ids(ids), None, rows, tuple(ids[known:]))


def _hidden(model: Model, item: Any, generator: np.random.Generator) -> Example:
    """Return a sentence with some tokens masked, which are to be predicted."""
    read = read_source(model, item, None, Intervention(), None)
    ids = read.tensors[0][0].tolist()
    free = [n for n, special in enumerate(read.source.special) if not special]
    _some(free, item)
    count = max(1, round(MASKED * len(free)))
    rows = tuple(sorted(generator.choice(free, count, replace=False).tolist()))
    assert model.mask_id is not None
    shown = [model.mask_id if n in rows else token for n, token in enumerate(ids)]
    segments = None if read.segments is None else read.segments[0].cpu()
    return Example(_ids(shown), None, rows, tuple(ids[n] for n in rows), segments)


def _judged(model: Model, pairs: Sequence[Any], pause: Pause) -> Examples:
    """Return examples with classes or answer spans: those given in pairs, else the model's own."""
    items, own, paired = [], 0, 0
    for number, item in enumerate(pairs):
        labelled = two(item) and not (model.pairs and _text(model, item[1]))
        if two(item) and not labelled:
            _is_second_text(model, item[1])
            paired += 1
        source, label = item if labelled else (item, None)
        read = read_source(model, source, None, Intervention(), None)
        if number % TOGETHER == 0:
            pause()
        if label is None:
            with torch.no_grad():
                wanted, own = _own(model, read.through(model)[0]), own + 1
        else:
            wanted = _classes(model, label)
        rows = _rows(model, len(read.source), wanted, number)
        target = None if read.tensors[1] is None else read.tensors[1][0].cpu()
        segments = None if read.segments is None else read.segments[0].cpu()
        items.append(Example(read.tensors[0][0].cpu(), target, rows, wanted, segments))
    said = OWN[model.task or model.gives] if own else "given classes"
    if not own and model.task == REGRESSION:
        said = "given outputs"
    if not own and model.gives == "spans":
        said = "given answers"
    said += f"; {paired} of the inputs were read as two texts" if paired else ""
    return Examples(tuple(items), said)


NO_OUTPUT = (
    "{!r} is no output of this model, which has {}; a ranking measures the change of the output "
    "itself and takes no score to compare with. Give the text alone."
)
#: Description of the reference where none was given, by task.
OWN = {
    SINGLE_LABEL: "the model's own most probable classes of the clean run",
    MULTI_LABEL: "the labels that the clean run finds more probable than not, else the likeliest",
    REGRESSION: "every output",
    "spans": "the model's own answers of the clean run",
}


def _own(model: Model, logits: Tensor) -> tuple[int, ...]:
    """Return the clean run's predicted ids: one per row, or several for a classifier's one row."""
    if model.gives == "spans":
        return best_span(logits.float().cpu().numpy())
    if model.task == REGRESSION:
        count = logits.shape[-1]
        return tuple(range(count)) * (len(logits) if model.gives == "tags" else 1)
    if model.task == MULTI_LABEL and model.gives == "classes":
        present = (logits > 0).nonzero()[:, 0].tolist()
        return tuple(present) or (int(logits.argmax()),)
    return tuple(logits.argmax(-1).reshape(-1).tolist())


def _rows(model: Model, length: int, wanted: tuple[int, ...], number: int) -> tuple[int, ...]:
    """Return the output row for each wanted id.

    Raises:
        ValueError: The number of ids does not fit the model's output.
    """
    if model.gives == "classes":
        single = model.task not in (MULTI_LABEL, REGRESSION)
        if not wanted or (single and len(wanted) > 1):
            raise ValueError(
                f"Sentence {number + 1} comes with {len(wanted)} classes; give "
                + ("one, or none at all." if single else "one or more, or the text alone.")
            )
        return (0,) * len(wanted)
    if model.gives == "spans":
        if len(wanted) != 2 or max(wanted) >= length:
            raise ValueError(
                f"Sentence {number + 1} has {length} tokens and the answer {list(wanted)}; give "
                "its first and last token, or none at all."
            )
        return (0, 1)
    each = max(1, len(wanted) // max(1, length))
    if len(wanted) != each * length:
        raise ValueError(
            f"Sentence {number + 1} has {length} tokens and {len(wanted)} classes; "
            "give one a token, or none at all."
        )
    return tuple(row for row in range(length) for _ in range(each))


def _text(model: Model, second: Any) -> bool:
    """Return True if the second item of a pair is a text and not a class."""
    return isinstance(second, str) and second not in model.labels


def _is_second_text(model: Model, second: str) -> None:
    """Raise if the second item looks like a misspelled class.

    Read as a text, it would give a ranking too.
    """
    if len(second.split()) < 2:
        raise ValueError(
            f"There is no class {second!r}; this model knows "
            f"{', '.join(model.labels) or 'numbers from 0'}. If {second!r} is the second of two "
            "texts, give ((first, second), class)."
        )


def _classes(model: Model, label: Any) -> tuple[int, ...]:
    """Return the numbers of the classes, labels or outputs that came with an input."""
    given: list[Any] = [label] if np.ndim(label) == 0 else list(label)
    several = model.task == MULTI_LABEL and np.ndim(label) > 0
    if several and given and all(isinstance(one, float | np.floating) for one in given):
        given = [n for n, one in enumerate(given) if one > 0.5]  # as in the library's loss
    numbers: list[int] = []
    for one in given:
        number = model.labels.index(one) if one in model.labels else one
        whole = isinstance(number, int | np.integer)
        if not whole or not 0 <= number < (len(model.labels) or 2**62):
            has = ", ".join(model.labels)
            if model.task == REGRESSION:
                raise ValueError(NO_OUTPUT.format(one, has or "one"))
            raise ValueError(
                f"There is no class {one!r}; this model knows {has or 'numbers from 0'}."
            )
        numbers.append(int(number))
    return tuple(numbers)


def _some(wanted: Sequence[Any], item: Any) -> None:
    if not wanted:
        what = f"Sentence {item + 1}" if isinstance(item, int) else f"The sentence {item!r}"
        raise ValueError(f"{what} has no token that could be guessed; give a longer one.")


def _ids(ids: Sequence[int]) -> Tensor:
    return torch.tensor(list(ids), dtype=torch.long, device="cpu")
