"""Check that an untrusted regular expression runs in at most quadratic time of the text.

The engine behind ``tokenizer.json`` backtracks: a pattern of ten letters may take hours on a short
text, and cannot be interrupted. A pattern is refused by its shape, on the safe side: some harmless
ones are refused too.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 5_000  # characters of a pattern
DEEPEST = 8  # nested groups
WIDE = 8  # a repeat of more counts as endless
MOST_REPEATED = 6  # elements of one branch that are optional or repeated
MOST_CHOICES = 2  # groups of one branch that offer a choice
MOST_ENDLESS = 2  # elements of one branch without an end
REFERENCES = frozenset("0123456789kgKRX")  # after a backslash: back references and calls
MODES = frozenset("imsxa-")


class SlowPatternError(ValueError):
    """Pattern that may take very long."""


@dataclass
class Branch:
    """Counts of one branch between two ``|``; ``choices`` counts groups with several branches."""

    repeated: int = 0
    endless: int = 0
    choices: int = 0

    def add(self, inner: Branch) -> None:
        """Add a group that is not repeated: its elements belong to this branch."""
        self.repeated += inner.repeated
        self.endless += inner.endless
        self.choices += inner.choices


def is_cheap(pattern: str) -> bool:
    """Return True if an Oniguruma pattern costs at most the square of a text's length.

    A repeated group must hold neither a choice nor a repeat. At most two elements of a branch may
    have no end, and nothing that could fail may follow the second.
    """
    if len(pattern) > LONGEST:
        return False
    reader = _Reader(pattern)
    try:
        reader.choice(0)
    except (SlowPatternError, IndexError):  # or an incomplete pattern
        return False
    return reader.at == len(pattern)


class _Reader:
    """Reader of a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def more(self, sign: str = "") -> bool:
        """Return True if the pattern goes on, with this sign if one is given."""
        return self.at < len(self.pattern) and self.pattern.startswith(sign, self.at)

    def take(self, sign: str) -> bool:
        found = self.more(sign)
        self.at += len(sign) if found else 0
        return found

    def choice(self, depth: int) -> Branch:
        """Read branches up to the end of their group; return the worst of each count."""
        if depth > DEEPEST:
            raise SlowPatternError
        branches = [self.branch(depth)]
        while self.take("|"):
            branches.append(self.branch(depth))
        return Branch(
            max(one.repeated for one in branches),
            max(one.endless for one in branches),
            max(one.choices for one in branches) + (depth > 0 and len(branches) > 1),
        )

    def branch(self, depth: int) -> Branch:
        here = Branch()
        while self.more() and not self.more("|") and not self.more(")"):
            self.element(here, depth)
        if (
            here.repeated > MOST_REPEATED
            or here.choices > MOST_CHOICES
            or here.endless > MOST_ENDLESS
        ):
            raise SlowPatternError
        return here

    def element(self, here: Branch, depth: int) -> None:
        """Read one atom and its repeat count."""
        inner = self.atom(depth)
        least, most = self.count()
        if least >= 1 and here.endless >= MOST_ENDLESS:
            raise SlowPatternError  # it may fail after all ways of two that have no end
        if most > 1 and (inner.repeated or inner.choices):
            raise SlowPatternError
        here.add(inner)
        if least == most:  # there is one way only
            return
        here.repeated += 1
        here.endless += most > WIDE

    def count(self) -> tuple[int, int]:
        """Return the least and most of a repeat; 1 and 1 without one."""
        if self.take("*"):
            found = (0, WIDE + 1)
        elif self.take("+"):
            found = (1, WIDE + 1)
        elif self.take("?"):
            found = (0, 1)
        elif self.more("{") and (end := self.pattern.find("}", self.at)) > 0:
            first, comma, last = self.pattern[self.at + 1 : end].partition(",")
            if not (first + last).isdecimal() or not (first + last).isascii():
                return 1, 1  # a brace that stands for itself, read as the next atom
            self.at = end + 1
            least = int(first[:6] or 0)
            found = (least, int(last[:6]) if last else WIDE + 1 if comma else least)
        else:
            return 1, 1
        _ = self.take("?") or self.take("+")  # lazy or possessive
        if any(self.more(sign) for sign in "*+?{"):
            raise SlowPatternError  # a repeat of a repeat
        return found

    def atom(self, depth: int) -> Branch:
        """Read a character, a set or a group; return the content of a group."""
        sign = self.pattern[self.at]
        self.at += 1
        if sign == "[":
            self.set()
        elif sign == "\\":
            self.escape()
        elif sign == "(":
            return self.group(depth)
        return Branch()

    def escape(self) -> None:
        sign = self.pattern[self.at]
        self.at += 1
        if sign in REFERENCES:
            raise SlowPatternError
        if sign in "pPxu" and self.take("{"):
            while not self.take("}"):
                self.at += 1
                if not self.more():
                    raise SlowPatternError

    def set(self) -> None:
        """Read a set of characters, with nested sets."""
        self.take("^")
        self.take("]")
        while not self.take("]"):
            if self.take("["):
                self.set()
            else:
                self.at += 1 + self.take("\\")
            if self.at >= len(self.pattern):
                raise SlowPatternError

    def group(self, depth: int) -> Branch:
        kinds = (":", "=", "!", ">", "<=", "<!")
        if self.take("?") and not any(self.take(sign) for sign in kinds):
            start = self.at
            while self.more() and self.pattern[self.at] in MODES:
                self.at += 1
            if self.at == start:
                raise SlowPatternError  # a name, a condition, a call
            if self.take(")"):
                return Branch()
            if not self.take(":"):
                raise SlowPatternError
        inner = self.choice(depth + 1)
        if not self.take(")"):
            raise SlowPatternError
        return inner
