"""Runs behind a widget: the clean one, and changed ones on the same target tokens."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..checkpoints.common.model import Model
from ..core.editing.edit_controls import padding
from ..core.interventions import Intervention
from ..core.tiles import LONG
from ..core.trace import Trace
from ..i18n import say
from ..inference.held_words import held_words
from ..inference.tracing import trace

KEEP = ("weights", "scores", "hidden")  # parts that the pictures need, as on the app's pages
PRODUCT = ("qkv",)  # additional parts for q·k
KEPT = 12  # changed runs that are cached, since users switch back and forth


class Runs:
    """Runs of one question to one model, made on demand, with the last few cached.

    Args:
        model: A result of `load`.
        source, target, image, masked: As in `trace`.
        check: Verify the clean run, as in `trace`.
    """

    def __init__(
        self,
        model: Model,
        source: Any,
        target: Any = None,
        *,
        image: Any = None,
        masked: Sequence[int] = (),
        check: bool | None = False,
    ) -> None:
        self.model, self.source = model, source
        self._target, self._image, self._masked = target, image, tuple(masked)
        self._check = check
        self._made: OrderedDict[tuple[str, bool], Trace] = OrderedDict()
        self._clean: dict[bool, Trace] = {}

    def clean(self, product: bool = False) -> Trace:
        """Return the run without edits; with queries and keys if ``product`` is True.

        Raises:
            ValueError: An input that the model cannot read, or one too long for whole maps.
        """
        if product not in self._clean:
            made = self._run(self._target, Intervention(), product, self._check)
            count = max(len(made.source), len(made.target or ()))
            if count > LONG:
                raise ValueError(
                    say(
                        "This text has {count:,} tokens and the widget takes at most {most:,}. "
                        "Shorten it, or look at it in the app.",
                        count=count,
                        most=LONG,
                    )
                )
            self._clean[product] = made
        return self._clean[product]

    def changed(self, changes: Intervention, product: bool = False) -> Trace:
        """Return the run with these edits on the clean target; without edits, the clean run.

        Raises:
            ValueError: An edit that the model does not accept; the message gives the reason.
        """
        if not changes:
            return self.clean(product)
        name = changes.to_json(), product
        if name not in self._made:
            held = held_words(self.model, self.clean(), changes)
            target = held.pop("target", self._target)
            self._made[name] = self._run(target, changes, product, False, **held)
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(name)
        return self._made[name]

    def remember(self, made: Trace) -> None:
        """Cache an existing run for its edits."""
        if made.intervention:
            self._made[made.intervention.to_json(), False] = made
        else:
            self._clean[False] = made

    def of_words(self, made: Trace) -> Runs:
        """Return the runs on the tokens of a trace of the same model.

        Raises:
            ValueError: A trace whose input cannot be reconstructed; the message suggests a remedy.
        """
        clean = self.clean()
        if self.model.takes != "text" or self._image is not None or _is_pair(self.source):
            raise ValueError(
                say(
                    "The input of that trace cannot be read again from the trace alone. Set the "
                    "widget's source instead, and then its intervention."
                )
            )
        target = None if clean.target is None or made.target is None else list(made.target.ids)
        found = Runs(self.model, list(_without_padding(made)), target, check=self._check)
        found.remember(made)
        return found

    def _run(
        self, target: Any, changes: Intervention, product: bool, check: bool | None, **held: Any
    ) -> Trace:
        return trace(
            self.model,
            self.source,
            target,
            image=self._image,
            intervention=changes,
            keep=KEEP + PRODUCT if product else KEEP,
            masked=self._masked,
            check=check,
            **held,
        )


def _is_pair(source: Any) -> bool:
    return isinstance(source, tuple) and all(isinstance(one, str) for one in source)


def _without_padding(made: Trace) -> tuple[int, ...]:
    """Return the source's ids without the padding that the trace's edits appended."""
    count, _ = padding(made.intervention)
    return made.source.ids[: len(made.source.ids) - count]


def same_words(one: Trace, other: Trace) -> bool:
    """Return True if two runs read the same tokens, apart from padding appended by their edits."""

    def target(made: Trace) -> tuple[int, ...] | None:
        return None if made.target is None else made.target.ids

    if not (one.source.ids and other.source.ids):
        return one.source.labels == other.source.labels
    return (_without_padding(one), target(one)) == (_without_padding(other), target(other))
