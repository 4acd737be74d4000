"""Client of the killable process that runs the tokenizers of one checkpoint."""

from __future__ import annotations

import base64
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import settings
from ..checkpoints.files.errors import CheckpointError
from ..confinement.disk import remove_tree
from ..confinement.processes import Child, StoppedError
from ..i18n import say
from ..preprocessing.elsewhere import RemotePieces, RemoteTokenizer
from .places import MEGA, TOKENIZERS, begin
from .plain_data import decode

DISK = 64 * MEGA  # maximum bytes of tokenizers on disk
LIFE = 24 * 3600  # CPU seconds of a process; each call has its own limit


class Workshop:
    """Factory of tokenizers in another process; a `Maker`.

    The process is started on first use. After it was killed it is restarted, and all tokenizers are
    created again. Calls are serialized.
    """

    def __init__(self, readable: Sequence[str]) -> None:
        self._readable = tuple(readable)
        self._recipes: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._held: list[tuple[Child, Path]] = []
        weakref.finalize(self, _let_go, self._held)

    # ---- a Maker ---------------------------------------------------------------------------------

    def pieces(self, content: bytes) -> RemotePieces:
        made, answer = self._made({"make": "pieces", "content": base64.b64encode(content).decode()})
        return RemotePieces(partial(self.ask, made), answer)

    def library(self, folder: Path, size: int | None) -> tuple[RemoteTokenizer | None, str]:
        made, answer = self._made({"make": "library", "folder": str(folder), "size": size})
        note = str(answer.get("note", ""))[:400]
        if not isinstance(answer.get("facts"), dict):
            return None, note
        return RemoteTokenizer(partial(self.ask, made), answer["facts"]), note

    def byte_pairs(self, folder: Path, names: Sequence[str]) -> RemoteTokenizer:
        recipe = {"make": "byte_pairs", "folder": str(folder), "names": list(names)}
        made, answer = self._made(recipe)
        facts = answer.get("facts")
        return RemoteTokenizer(partial(self.ask, made), facts if isinstance(facts, dict) else {})

    def plain_pickle(self, path: Path) -> Any:
        return decode(self._made({"make": "plain_pickle", "file": str(path)})[1].get("content"), {})

    def vocabulary(self, path: Path) -> RemotePieces | RemoteTokenizer | dict[str, Any]:
        made, answer = self._made({"make": "vocabulary", "file": str(path)})
        if answer.get("form") == "pieces":
            return RemotePieces(partial(self.ask, made), answer)
        if answer.get("form") == "library":
            facts = answer.get("facts")
            return RemoteTokenizer(
                partial(self.ask, made), facts if isinstance(facts, dict) else {}
            )
        return answer

    # ---- the process -----------------------------------------------------------------------------

    @property
    def process(self) -> Child | None:
        """Current process, or None."""
        return self._held[0][0] if self._held else None

    def ask(self, made: int, do: str, **given: Any) -> dict[str, Any]:
        """Return the reply of a tokenizer, addressed by its number.

        Raises:
            ValueError: The call failed, took too long, or crashed; then the process is restarted.
        """
        request = {"do": do, "of": made, **given}
        with self._lock:
            fresh = not self._held
            try:
                answer = self._asked(request, settings.TOKENIZER_SECONDS.number)
            except StoppedError as error:
                if error.late or fresh:
                    raise _broken_off(error) from error
                try:  # the process may have ended between calls
                    answer = self._asked(request, settings.TOKENIZER_SECONDS.number)
                except StoppedError as again:
                    raise _broken_off(again) from again
        return _accepted(answer)

    def _made(self, recipe: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Create a tokenizer, and return its number and facts."""
        with self._lock:
            try:
                answer = _accepted(self._asked(recipe, settings.OPEN_SECONDS.number))
            except StoppedError as error:
                raise CheckpointError(str(_broken_off(error))) from error
            self._recipes.append(recipe)
            return len(self._recipes) - 1, answer

    def _asked(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the reply of the process, started if needed; stop it on failure."""
        try:
            if not self._held:
                memory = settings.OPEN_MB.number * MEGA
                self._held.append(begin(TOKENIZERS, LIFE, memory, self._readable, DISK))
                for recipe in self._recipes:
                    _accepted(self._held[0][0].ask(recipe, settings.OPEN_SECONDS.number))
            return self._held[0][0].ask(request, seconds)
        except (StoppedError, ValueError):
            _let_go(self._held)
            raise


def _let_go(held: list[tuple[Child, Path]]) -> None:
    """Stop the process and remove its folder."""
    while held:
        child, folder = held.pop()
        child.close()
        remove_tree(folder)


def _accepted(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a reply that is no error.

    Raises:
        ValueError: The message of the error.
    """
    if "memory" in answer:
        raise _broken_off(None)
    if "fault" in answer:
        raise ValueError(
            say(
                "The tokenizer of this model did not work ({reason}). Take another text, or type "
                "token ids as numbers.",
                reason=str(answer["fault"])[:100].rstrip(". "),
            )
        )
    if "refused" in answer:
        kind = CheckpointError if answer.get("known") else ValueError
        raise kind(str(answer["refused"])[:2_000])
    return answer


def _broken_off(error: StoppedError | None) -> ValueError:
    if error is not None and error.late:
        return ValueError(
            say(
                "The tokenizer of this model took more than {seconds} s for this text and was "
                "stopped. Take a shorter or another text.",
                seconds=settings.TOKENIZER_SECONDS.text,
            )
        )
    return ValueError(
        say(
            "The tokenizer of this model broke off at this text and was started anew. Take a "
            "shorter or another text."
        )
    )
