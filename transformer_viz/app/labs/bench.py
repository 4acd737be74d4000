"""Bench of a lab: controls whose values are stored in the link, runs, and output elements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...core.interventions import Intervention
from ...core.trace import Trace
from ...i18n import say, spoken_language
from ...lessons.term_markup import explained
from ..cards import plotly_chart
from ..engine.query import DetailRequest, whole_maps
from ..session import visit, widget_sync
from ..session.scene import Scene, detail_request
from ..ui import layout
from ..ui.progress import run_with_progress
from . import lab_state

TYPED = 120  # characters of a typed text, which shares the link with the other settings


@dataclass(frozen=True, eq=False)
class Bench:
    """Scene, controls and runs of an experiment.

    Attributes:
        lab: Name of the lab.
        scene: The current scene.
        where: Container above the lab for progress bars.
    """

    lab: str
    scene: Scene
    where: DeltaGenerator

    @property
    def dark(self) -> bool:
        """True if charts are drawn for a dark background."""
        return visit.dark()

    # ---- controls: each returns its value and stores it in the link under `name`

    def choose(
        self, name: str, label: str, options: Mapping[str, str], default: str, **settings: Any
    ) -> str:
        """Return the choice of a segmented control; ``options`` maps link values to labels."""
        key = self._settle(name, list(options), default)
        st.segmented_control(
            label,
            list(options),
            key=key,
            format_func=options.__getitem__,
            required=True,
            **self._heard(name, key),
            **settings,
        )
        return str(st.session_state[key])

    def pick(
        self, name: str, label: str, options: Mapping[str, str], default: str, **settings: Any
    ) -> str:
        """Return the choice of a drop-down list; ``options`` as in `choose`."""
        key = self._settle(name, list(options), default)
        st.selectbox(
            label,
            list(options),
            key=key,
            format_func=options.__getitem__,
            **({"width": 220} | self._heard(name, key) | settings),
        )
        return str(st.session_state[key])

    def slide(
        self,
        name: str,
        label: str,
        steps: Sequence[float],
        default: float,
        shown: Callable[[str], str] = str,
        **settings: Any,
    ) -> float:
        """Return the value of a slider with given steps; ``shown`` formats the text of a step."""
        options = [f"{step:g}" for step in steps]
        key = self._settle(name, options, f"{default:g}")
        st.select_slider(
            label,
            options,
            key=key,
            format_func=shown,
            **({"width": 340} | self._heard(name, key) | settings),
        )
        return float(st.session_state[key])

    def switch(self, name: str, label: str, default: bool = False, **settings: Any) -> bool:
        """Return True if a toggle is on."""
        states = {"on": True, "off": False}
        default_text = "on" if default else "off"
        key = self._key(name)
        widget_sync.show({key: states[lab_state.valid_setting(name, list(states), default_text)]})
        write = {True: "on", False: "off"}
        st.toggle(label, key=key, on_change=_moved, args=(name, key, write), **settings)
        return bool(st.session_state[key])

    def press(self, name: str, label: str, **settings: Any) -> int:
        """Return the press count of a button, for use as a random seed."""
        count = lab_state.counted(name)
        st.button(
            label,
            key=self._key(name),
            on_click=lab_state.put,
            args=(name, str(count + 1)),
            **settings,
        )
        return count

    def write(self, name: str, label: str, default: str, **settings: Any) -> str:
        """Return the text of an input field; an empty field resets it to the default."""
        key = self._key(name)
        widget_sync.show({key: lab_state.written(name, default)})
        st.text_input(
            label, key=key, max_chars=TYPED, on_change=_typed, args=(name, key), **settings
        )
        return lab_state.written(name, default)

    def _key(self, name: str) -> str:
        """Return the widget key in this language, since browsers keep a widget's text by key."""
        return f"try-{self.lab}-{name}-{spoken_language()}"

    def _settle(self, name: str, allowed: Sequence[str], default: str) -> str:
        key = self._key(name)
        widget_sync.show({key: lab_state.valid_setting(name, allowed, default)})
        return key

    def _heard(self, name: str, key: str) -> dict[str, Any]:
        return {"on_change": _moved, "args": (name, key, {})}

    # ---- runs

    def ask(
        self,
        model: str,
        run: Callable[..., Any],
        *words: Hashable,
        says: str | None = None,
        stepped: bool = False,
    ) -> Any:
        """Return the result of ``run(model, *words)``; a progress bar is shown if it is slow.

        Args:
            model: Name of the model, such as the scene's, or ``labs/additive``.
            run: Plain function of a module, which imports architecture layers 1 and 2 inside.
            words: All other inputs of the result; they must be hashable.
            says: Label of the progress bar.
            stepped: True if the run also takes ``on_progress``, to report its progress.
        """
        return run_with_progress(
            lambda task: self.scene.engine.ask(
                model, run, *words, task=task, stepped=stepped, long=True
            ),
            key=f"lab-{self.lab}-{run.__name__}-{model}",
            label=says or say("Measuring ..."),
            about=words,
            where=self.where,
        )

    def whole(self, *blocks: str, under: Intervention | None = None) -> Trace:
        """Return the clean run, or one under edits, with all heads of some maps.

        For a long sentence the page's own run has the heads of the opened layer only.
        """
        scene, detail = self.scene, whole_maps(self.scene.before, *blocks)
        if under:
            return self.changed(under, detail)
        found: Trace = run_with_progress(
            lambda task: scene.engine.clean(scene.question, detail, task).trace,
            key=f"lab-{self.lab}-whole",
            label=say("Running the model ..."),
            about=(scene.question, detail),
            where=self.where,
        )
        return found

    def changed(self, intervention: Intervention, detail: DetailRequest | None = None) -> Trace:
        """Return the run of the scene's sentence under other edits, with the same target tokens."""
        scene = self.scene
        detail = detail or detail_request(scene.place, scene.look)
        if not intervention:
            return scene.before
        found: Trace = run_with_progress(
            lambda task: scene.engine.changed(
                scene.question, scene.answer, intervention, detail, task
            ),
            key=f"lab-{self.lab}-changed",
            label=say("Running the changed model ..."),
            about=(scene.question, intervention.to_json()),
            where=self.where,
        )
        return found

    def free(self, intervention: Intervention) -> str:
        """Return the text that the scene's model generates under these edits."""
        scene = self.scene
        found: str = run_with_progress(
            lambda task: scene.engine.free(scene.question, intervention, task),
            key=f"lab-{self.lab}-free",
            label=say("Translating ..."),
            about=(scene.question, intervention.to_json()),
            where=self.where,
        )
        return found

    # ---- output

    def chart(self, name: str, question: str, draw: Callable[[], Any]) -> None:
        """Draw a plotly figure of a view under its question, with its caption and its table."""
        plotly_chart.chart(f"lab-{self.lab}-{name}", question, draw)

    def tell(self, *sentences: str) -> None:
        """Draw running text; glossary terms in square brackets get an explanation."""
        st.html(f'<p class="tv-lab-text">{" ".join(map(explained, sentences))}</p>')

    def quiet(self, *sentences: str) -> None:
        """Draw a note on a measurement in small print."""
        layout.quiet(" ".join(map(escape, sentences)))

    def table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        marked: int | None = None,
        texts: Sequence[int] = (),
    ) -> None:
        """Draw a table of numbers.

        Args:
            heads: Titles of the columns.
            rows: Cells of each row; the first one names the row.
            marked: Index of the row to highlight.
            texts: Indices of columns with sentences, which may wrap.
        """
        st.html(table(heads, rows, marked, texts))


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    marked: int | None = None,
    texts: Sequence[int] = (),
) -> str:
    """Return a table as HTML with escaped cells; see `Bench.table`."""
    top = "".join(
        f'<th scope="col"{_kind(column in texts)}>{escape(head)}</th>'
        for column, head in enumerate(heads)
    )
    body = "".join(_row(row, number == marked, texts) for number, row in enumerate(rows))
    return (
        '<div class="tv-lab-scroll"><table class="tv-lab-table">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: Sequence[str], marked: bool, texts: Sequence[int]) -> str:
    first, *rest = map(escape, cells)
    mark = ' class="tv-lab-marked"' if marked else ""
    cells = [f"<td{_kind(place in texts)}>{cell}</td>" for place, cell in enumerate(rest, 1)]
    return f'<tr{mark}><th scope="row">{first}</th>{"".join(cells)}</tr>'


def _kind(text: bool) -> str:
    return ' class="tv-lab-sentence"' if text else ""


def _typed(name: str, key: str) -> None:
    """Store a typed text (callback), unless the browser repeats an overwritten value."""
    text = str(st.session_state[key])
    widget_sync.moved(key, lambda: lab_state.put_text(name, text))


def _moved(name: str, key: str, write: Mapping[object, str]) -> None:
    """Store a control's new value (callback), unless the browser repeats an overwritten one."""
    value = st.session_state[key]
    widget_sync.moved(key, lambda: lab_state.put(name, write.get(value, str(value))))
