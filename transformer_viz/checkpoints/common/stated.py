"""Options that a checkpoint states about its model, under the names of its training script.

A file can hold its options under any key (``hyper_parameters``, ``args``, ``config``), nested or
not; others are in files beside it. :func:`stated` reads all of them before a layout guesses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...model.config import CHOICES
from ..files.stand_ins import named_values, plain_value
from .candidate import Candidate
from .synonyms import MEANINGS, SHORT, plain_name, value_of

DEEPEST = 4  # nested containers that are searched
MOST_WORDS = 1000  # of one container: a vocabulary has more
MOST_GROUPS = 500
FEWEST_PIECES = 8  # of a mapping that is a vocabulary; special tokens alone are fewer
LONGEST_NAME = 100  # characters
MOST_TEXT = 2**16  # characters of options kept as JSON in a text
#: Containers without options of the model.
PASSED_OVER = re.compile(
    r"optimi[sz]er.*|optim|.*scheduler.*|callbacks|loops|.*scaler|rng.*|.*vocab|.*2id(x)?"
    r"|id(x)?2.*|stoi|itos|state_dict|weight_map|param_groups|amp|.*tokenizer",
    re.I,
)
#: Parts of a path that mean the model itself (`OWN`), or another one (`OTHER`).
OWN = {"model", "modelargs", "modelconfig", "modelcfg", "modelparams", "modelkwargs", "network"}
OWN |= {"net", "transformer", "gpt", "student", "generator", "arch", "architecture", "initargs"}
OTHER = re.compile(r"teacher|discriminator|critic|ema|baseline|reference|draft|reward|old")
#: Options of a reference Transformer that a file may state; the shapes give the rest.
REFERENCE = ("heads", "activation", "norm", "norm_eps", "dropout", *("pad_id", "bos_id", "eos_id"))
#: The same for a code base that never hides padding.
UNPADDED = tuple(word for word in REFERENCE if word != "pad_id")
#: Options fixed by the shapes (`SIZES`), and options with an upper bound from them (`LIMITS`).
SIZES = ("d_model", "d_ff", "encoder_layers", "decoder_layers", "layers")
LIMITS = ("max_positions", "source_vocab", "target_vocab")
IDS = ("pad_id", "bos_id", "eos_id")


@dataclass(frozen=True)
class Statement:
    """Single value stated by a file: our option, the value, its path, and the rank of that path."""

    word: str
    value: Any
    name: str
    path: tuple[str, ...]
    given: Any

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Sort key; the lowest rank most likely refers to this model."""
        parts = [plain_name(part) for part in self.path]
        other = any(OTHER.match(part) for part in parts)
        return other, not OWN.intersection(parts), len(parts)

    def __str__(self) -> str:
        return f"{'.'.join((*self.path, self.name))}={str(self.given)[:40]}"


def stated(
    found: Candidate,
    words: Iterable[str],
    shapes: Mapping[str, Any],
    own: Mapping[str, Any] | None = None,
    *,
    rows: int | None = None,
    activations: Sequence[str] = CHOICES["activation"],
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return the options that the file and the files beside it state, for :func:`resolve`.

    A value that contradicts the shapes is left out, with a note. So is an option for which two
    places of the same rank state different values.

    Args:
        found: The checkpoint; the notes are added to its remarks.
        words: Options of the layout that a file may state.
        shapes: Options known from the shapes of the weights.
        own: Options of a file beside the weights under the layout's own names; not checked.
        rows: Rows that all heads share; None means ``d_model``.
        activations: Activations that the layout can compute.

    Returns:
        Pairs of an origin (``file``, ``sidecar``) and options.
    """
    words, rows = set(words), shapes.get("d_model", 0) if rows is None else rows
    sources: list[tuple[str, Mapping[str, Any]]] = []
    for origin, held in (("file", found.weights.extra), ("sidecar", found.beside)):
        taken = _chosen(found, list(statements(held)), shapes)
        width = taken.pop("head_width", None)
        if "heads" not in taken and width is not None and rows % width.value == 0:
            taken["heads"] = Statement("heads", rows // width.value, *_where(width))
        act = taken.get("activation")
        if act is not None and "activation" in words and act.value not in activations:
            del taken["activation"]
            found.remark(f"{act} is stated, and not known; known are {', '.join(activations)}.")
        sources.append((origin, _fitting(found, taken, words, shapes, rows)))
    return sources[0], ("sidecar", own or {}), sources[1]


def _where(statement: Statement) -> tuple[str, tuple[str, ...], Any]:
    return statement.name, statement.path, statement.given


def statements(content: Any, path: tuple[str, ...] = ()) -> Iterator[Statement]:
    """Yield each value in nested containers whose name is in the table."""
    waiting, groups = [(path, content)], 0
    while waiting and groups < MOST_GROUPS:
        place, held = waiting.pop(0)
        words = _words(held)
        if not 0 < len(words) <= MOST_WORDS:
            continue
        groups += 1
        named = [(key, value) for key, value in words.items() if _is_name(key)]
        names = {plain_name(re.split(r"[./]", key)[-1]) for key, _ in named}
        for key, value in named:
            *before, name = re.split(r"[./]", key)
            plain, value = plain_name(name), _value(value)
            if plain in SHORT and not names.intersection(SHORT[plain]):
                continue
            if plain not in MEANINGS:  # {"norm": {"eps": 1e-6}}
                above = plain_name((*place, *before, "")[-2]) if place or before else ""
                plain = above + plain
            word = MEANINGS.get(plain)
            read = None if word is None else value_of(word, plain, value)
            if word is not None and read is not None:
                yield Statement(word, read, name, (*place, *before), value)
            elif len(place) < DEEPEST and not PASSED_OVER.fullmatch(key):
                waiting.append(((*place, key), value))


def _is_name(key: Any) -> bool:
    return isinstance(key, str) and len(key) <= LONGEST_NAME


def _words(value: Any) -> Mapping[Any, Any]:
    """Return the names and values of a container; empty for other values."""
    if isinstance(value, str) and len(value) < MOST_TEXT and value.lstrip()[:1] == "{":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    held = named_values(value)
    return {} if _numbers_words(held) else held


def _numbers_words(held: Mapping[Any, Any]) -> bool:
    """Return True if a mapping is a vocabulary: its values count up from 0 or 1."""
    values = list(held.values())
    if len(values) < FEWEST_PIECES or not all(type(value) is int for value in values):
        return False
    first = min(values)
    return first in (0, 1) and sorted(values) == list(range(first, first + len(values)))


def _value(value: Any) -> Any:
    """Return the value inside a library's wrapper: a node, a member of an enum."""
    value = plain_value(value)
    if isinstance(value, Mapping) and "value" in value and set(value) <= {"value", "desc"}:
        return value["value"]  # as Weights & Biases writes its config.yaml
    return value


def _chosen(
    found: Candidate, given: list[Statement], shapes: Mapping[str, Any]
) -> dict[str, Statement]:
    """Return one statement for each option, from the path that most likely is the model's own."""
    taken: dict[str, Statement] = {}
    for word in dict.fromkeys(one.word for one in given):
        of_word = [one for one in given if one.word == word]
        best = min(one.rank for one in of_word)
        alike = [one for one in of_word if one.rank == best]
        if len({one.value for one in alike}) == 1:
            taken[word] = alike[0]
        elif word in ("heads", "activation", "norm", *IDS):
            said = " and ".join(str(one) for one in alike[:3])
            found.remark(f"Two values are stated for {word} ({said}), so that none was taken.")
    return taken


def _fitting(
    found: Candidate,
    taken: Mapping[str, Statement],
    words: set[str],
    shapes: Mapping[str, Any],
    rows: int,
) -> dict[str, Any]:
    """Return the values that the shapes allow, and add a remark about each other value."""
    fitting: dict[str, Any] = {}
    tokens = max(shapes.get("source_vocab", 0), shapes.get("target_vocab", 0))
    for word, one in taken.items():
        if word in SIZES or word in LIMITS:
            measured = _measured(word, shapes)
            wrong = one.value > max(measured, default=0) if word in LIMITS else True
            if measured and one.value not in measured and wrong:
                found.remark(f"{one} is stated, but the weights have {measured[0]}; they decide.")
        if word not in words or word in SIZES or word in shapes:
            continue
        if word == "heads" and (not rows or rows % one.value):
            found.remark(f"{one} is stated, but does not divide the {rows} rows of the weights.")
        elif word in IDS and tokens and one.value >= tokens:
            found.remark(f"{one} is stated, but the weights know tokens 0 to {tokens - 1}.")
        else:
            fitting[word] = one.value
    return fitting


def _measured(word: str, shapes: Mapping[str, Any]) -> list[int]:
    """Return the sizes that the shapes give for an option; ``layers`` may count either stack."""
    asked = ("encoder_layers", "decoder_layers") if word == "layers" else (word,)
    return [shapes[one] for one in asked if shapes.get(one)]
