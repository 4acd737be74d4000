"""Terminal input and output: line by line, errors in a sentence, progress on stderr."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from unicodedata import category

import click

from ..core.errors import is_fault, visible
from ..core.guesses import KEY, guess_mark, guess_values, guesses_in

if TYPE_CHECKING:
    from ..inference.inspection import Inspection, Word

BAD_INPUT = 2
GUESSES = "transformer_viz.guesses"  # in the context of a command: guessed values of its models
CONTROLS = ("Cc", "Zl", "Zp")  # Unicode categories: control characters and invisible line ends
STOPPED = 130  # exit code that shells expect of a program ended by Ctrl-C


class OneSentence(click.Group):
    """Group of commands that reports errors with one sentence on stderr and exit code 2.

    ``--debug`` anywhere before ``--`` shows the traceback instead.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit with its code."""
        words, debug = _without_debug(sys.argv[1:] if args is None else list(args))
        try:
            code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            click.echo("Stopped.", err=True)
            sys.exit(STOPPED)
        except BrokenPipeError:
            # The reader of our output closed it (| head); the final flush must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except BaseException as error:
            if debug or not is_fault(error):
                raise
            click.echo(sentence(error), err=True)
            sys.exit(BAD_INPUT)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and then note guessed values of its models on stderr."""
        given = super().invoke(ctx)
        _tell_guesses(guesses_in(*ctx.meta.get(GUESSES, ())))
        return given


def _without_debug(words: list[str]) -> tuple[list[str], bool]:
    end = words.index("--") if "--" in words else len(words)
    debug = "--debug" in words[:end]
    return [word for word in words[:end] if word != "--debug"] + words[end:], debug


def sentence(error: BaseException) -> str:
    """Return the message of an error on one line; an error without one is named."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        text = f"{error.format_message()} Try: {error.ctx.command_path} --help"
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    elif isinstance(error, KeyError) and error.args:
        text = str(error.args[0])  # its str() adds quotation marks
    elif isinstance(error, ValueError | LookupError) and str(error):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}; --debug shows where."
    return visible(" ".join(text.split()))  # names in a file may contain control characters


@contextmanager
def after_a_second(doing: str) -> Iterator[None]:
    """Print the current activity, if it takes longer than a second."""
    timer = threading.Timer(1.0, lambda: tell(f"{doing} …", err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Counter:
    """Progress of a stream of lines: silent for a second, then a line at intervals.

    A terminal gets one line that is overwritten each second; a file or pipe one every ten.
    """

    def __init__(self, noun: str):
        self.noun, self.count = noun, 0
        self.start = self.told = time.monotonic()
        self.live = sys.stderr.isatty()

    def tell(self, count: int) -> None:
        """Report that ``count`` items are done."""
        self.count, now = count, time.monotonic()
        first = self.told == self.start
        if now - self.told > (1 if first or self.live else 10):
            self.told = now
            text = f"{count} {self.noun}, {count / (now - self.start):.1f} a second"
            click.echo(f"\r{text}\x1b[K" if self.live else text, err=True, nl=not self.live)

    def close(self) -> None:
        """End the overwritten line."""
        if self.live and self.told > self.start:
            click.echo(err=True)


#: Returns one text for each text; calls the function with the number done.
Answer = Callable[[list[str], Callable[[int], None]], list[str]]


def line_by_line(noun: str, answer: Answer) -> None:
    """Answer each line of stdin with a line of stdout; a blank line with a blank one."""
    counter = Counter(noun)
    for first, lines in _arriving():
        try:
            _reply(lines, answer, counter)
        except ValueError:
            # Answer one by one: lines before the invalid one are answered, and the error names it.
            for number, line in enumerate(lines, first):
                try:
                    _reply([line], answer, counter)
                except ValueError as error:
                    raise ValueError(f"Line {number}: {error}") from error
    counter.close()


def _reply(lines: list[str], answer: Answer, counter: Counter) -> None:
    before = counter.count
    texts = [line for line in lines if line]
    answers = iter(answer(texts, lambda done: counter.tell(before + done)) if texts else ())
    for line in lines:
        tell(" ".join(next(answers).split()) if line else "")


def _arriving() -> Iterator[tuple[int, list[str]]]:
    """Yield the available lines of stdin as they arrive, with the number of the first.

    A file is thus answered in batches, and a program that waits for each answer gets it.
    """
    if sys.stdin.isatty():
        click.echo("One text a line; end with Ctrl-D.", err=True)
    stream = cast(io.BufferedReader, sys.stdin.buffer)
    number, rest = 1, b""
    while block := stream.read1(1 << 16):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield number, [_text(line, number + i) for i, line in enumerate(lines)]
            number += len(lines)
    if rest:
        yield number, [_text(rest, number)]


def _text(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Line {number} is not UTF-8 ({error.reason}); convert it first."
        ) from error


def inspected(found: Inspection) -> Iterator[str]:
    """Yield the lines of an inspection: model, config, parameters, capture report."""
    yield visible(f"{found.name}: {found.title}" if found.title else found.name)
    yield f"layout {found.layout}, {found.kind}, takes {found.takes}, gives {found.gives}"
    yield (
        f"{found.parameters:,} parameters; file of {found.size:,} bytes in "
        f"{found.file_dtype or found.dtype}, computed in {found.dtype} on {found.device}"
    )
    yield f"SHA-256 {found.hash or 'none: it is in memory'}"
    yield from (f"note: {visible(note)}" for note in (*found.notes, *found.unwrapped))
    yield from _section(
        "config",
        ((row.word, _short(row.value), _origin(row)) for row in found.config),
    )
    yield from _section(
        "parameters", ((block.label, f"{block.count:>14,}", "") for block in found.blocks)
    )
    yield from _vocabulary(found)
    yield "; ".join(filter(None, (f"\ncapture report: {found.status}", guess_mark(found.guessed))))
    for finding in found.findings:
        yield f"  {finding.status:<9} {finding.sentence}"
        yield from (f"            {line}" for line in finding.details if line.startswith("not "))
    yield from _section(
        "attention",
        (
            (f"{site.stack} {site.block} L{site.layer}", f"{site.heads} heads", "")
            for site in found.sites
        ),
    )


def _origin(row: Word) -> str:
    """Return the origin of a value, marked if it is a guess."""
    return f"a guess: {row.meaning}" if row.guess else row.meaning or "not said"


def _section(title: str, rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a title and its rows in three columns; nothing without rows."""
    shown = list(rows)
    if shown:
        yield f"\n{title}"
    first = max((len(name) for name, _, _ in shown), default=0)
    second = max((len(value) for _, value, _ in shown), default=0)
    for name, value, more in shown:
        yield f"  {name:<{first}}  {value:<{second}}  {more}".rstrip()


def _vocabulary(found: Inspection) -> Iterator[str]:
    words = found.vocabulary
    if found.takes not in ("text", "audio") or not words.size:
        return
    yield "\nvocabulary"
    if words.typed:
        yield f"  none beside the weights: ids are typed as numbers, {words.size:,} are known"
    else:
        yield f"  {words.size:,} pieces, such as {' '.join(map(visible, words.sample[::4]))}"
    yield from (f"  {role:<8} {token:>6}  {visible(piece)}" for role, token, piece in words.special)


def inert(text: str) -> str:
    """Return text for a terminal, with control characters escaped except newlines and tabs.

    Bidirectional marks stay, since Arabic and Hebrew texts need them.
    """
    return "".join(c if c in "\n\t" or category(c) not in CONTROLS else visible(c) for c in text)


def tell(text: str = "", nl: bool = True, err: bool = False) -> None:
    """Print text that may contain strings of a model, a file or a user."""
    click.echo(inert(text), nl=nl, err=err)


def note_guesses(guesses: Mapping[str, Any]) -> None:
    """Note guessed values, printed after success only, so that a failure prints one line."""
    context = click.get_current_context(silent=True)
    if guesses and context is not None:
        context.meta.setdefault(GUESSES, []).append({KEY: guesses})


def _tell_guesses(guesses: Mapping[str, Any]) -> None:
    """Print the mark to stderr, with the options that set the values."""
    if guesses:
        tell(
            f"{guess_mark(guesses)}. No file says {guess_values(guesses)}; a wrong value shows "
            f"wrong maps. Say the right value: {' '.join(f'--set {word}=' for word in guesses)}",
            err=True,
        )


def _short(value: Any) -> str:
    text = visible(str(value))
    return text if len(text) <= 40 else f"{text[:39]}…"
