"""What a reader may do with an odd input: open it, or say one short sentence of ours; soon."""

from __future__ import annotations

import re
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

LONGEST = 400  # characters of a sentence
SECONDS = 10.0  # of the processor, for one input
MEMORY = 2**30  # bytes by which one input may raise the most that the process ever held
#: What only a library or the interpreter says.
FOREIGN = re.compile(
    r"has no attribute|not supported between|object is not|is not subscriptable|NoneType"
    r"|positional argument|keyword argument|unexpected keyword|unhashable|Traceback|<class"
    r"|invalid literal|list index|index out of range|cannot unpack|not enough values|codec can't"
    r"|takes no arguments|must be str, not|Error\(|\w+Error:|object at 0x|panicked|bytes-like"
    r"|too many values|could not convert|dimension out of range|not iterable|division by zero"
)


@dataclass(frozen=True)
class Verdict:
    """How a reader took an input: ``fault`` says what it should not have done, or is empty."""

    outcome: str  # opened, refused or fault
    said: str
    seconds: float
    fault: str = ""
    where: str = ""  # the innermost line of ours that a fault came through
    grown: int = 0  # bytes by which it raised the most that the process ever held


def judged(read: Callable[[], object]) -> Verdict:
    """Let a reader read, and judge what came of it."""
    before, start = most(), time.process_time()
    error: BaseException | None = None
    try:
        read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as caught:  # a panic of native code is no Exception
        error = caught
    seconds = time.process_time() - start
    said = "" if error is None else told(error)
    fault = "" if error is None else complaint(error)
    if seconds > SECONDS:
        fault = fault or f"took {seconds:.0f} s"
    grown = most() - before
    if grown > MEMORY:
        fault = fault or f"took {grown / 2**20:,.0f} MiB"
    outcome = "fault" if fault else "refused" if error else "opened"
    return Verdict(outcome, said, seconds, fault, _where(error) if fault and error else "", grown)


def _where(error: BaseException) -> str:
    """The innermost line of the package that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "transformer_viz/" in one.filename] or frames
    return f"{ours[-1].filename.rpartition('transformer_viz/')[2]}:{ours[-1].lineno}"


def told(error: BaseException) -> str:
    """What a visitor would read."""
    text = error.args[0] if error.args else type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}."
    return str(text)


def complaint(error: BaseException) -> str:
    """Why an error is none of ours; empty if it is a short sentence."""
    said, kind = told(error), type(error).__name__
    if not isinstance(error, ValueError | OSError | LookupError):
        return f"{kind} is no kind of error that a page explains"
    if type(error) in (KeyError, IndexError, UnicodeDecodeError, UnicodeEncodeError):
        return f"{kind} is the interpreter's"
    if FOREIGN.search(said):
        return f"the words of a library ({kind})"
    if not said.endswith("."):
        return f"no full stop ({kind})"
    if len(said) > LONGEST:
        return f"{len(said)} characters"
    if "\n" in said:
        return "more than one line"
    return ""


def most() -> int:
    """The most bytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
