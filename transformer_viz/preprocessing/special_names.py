"""Special tokens by name: padding, start, end, unknown word and mask in lists of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

#: Names of each role without brackets, the more usual ones first.
ROLES: dict[str, tuple[str, ...]] = {
    "pad": ("pad", "padding", "blank", "nil"),
    "bos": (
        *("bos", "s", "sos", "go", "start", "begin", "begin_of_text", "startoftext"),
        *("sentence_start", "cls"),
    ),
    "eos": (
        *("eos", "/s", "end", "stop", "end_of_text", "endoftext", "eot_id", "sentence_end"),
        *("sep",),
    ),
    "unk": ("unk", "unknown", "oov"),
    "mask": ("mask",),
}
IDS = {"pad": "pad_id", "bos": "bos_id", "eos": "eos_id"}  # field names of a `Model`
#: Names that also denote a role without brackets, as in ``SOS``.
BARE = ("PAD", "BOS", "SOS", "EOS", "UNK", "OOV")
BRACKETED = re.compile(r"<\|(.+)\|>|<(.+)>|\[(.+)\]|\{(.+)\}|__(.+)__|_+([A-Z]{2,4})_*")


def role_of(word: str) -> tuple[str, int] | None:
    """Return the role of a name in brackets, and the rank of the name; 0 is the most usual."""
    found = BRACKETED.fullmatch(word)
    if found is None:
        return None
    name = next(part for part in found.groups() if part).casefold()
    return next(((role, names.index(name)) for role, names in ROLES.items() if name in names), None)


def special_tokens(words: Iterable[str]) -> dict[str, int]:
    """Return the ids of the special tokens in a list of words, by role (``pad``, ``bos``, ...).

    Among several names for one role the more usual one is used, ``<bos>`` before ``[CLS]``. Names
    without brackets (``SOS``) are used only if no name has brackets.
    """
    found: dict[str, tuple[int, int]] = {}
    bare: dict[str, int] = {}
    for token, word in enumerate(words):
        if word[:1] in ("<", "[", "_", "{"):
            known = role_of(word)
            if known is not None and (known[1], token) < found.get(known[0], (len(ROLES) * 9, 0)):
                found[known[0]] = known[1], token
        elif word in BARE:
            role = next(role for role, names in ROLES.items() if word.lower() in names)
            bare.setdefault(role, token)
    return {role: token for role, (_, token) in found.items()} or bare


def model_ids(roles: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of roles under the field names of a model (``bos_id``).

    Other roles and negative ids are dropped.
    """
    found: dict[str, int] = {IDS[role]: roles[role] for role in IDS if is_id(roles.get(role))}
    if found.get("pad_id") == found.get("eos_id"):
        found.pop("pad_id", None)  # an end token inside a text must stay visible
    return found


def settle_ids(roles: Mapping[str, Any], ids: Mapping[str, Any]) -> dict[str, int]:
    """Return the special ids of a model, completed by those of the roles."""
    return {**model_ids(roles), **{w: ids[w] for w in IDS.values() if ids.get(w) is not None}}


def is_id(value: Any) -> bool:
    """Return True if a value is a token id."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
