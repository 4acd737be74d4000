"""The bench of a lab: controls, whose values stand in the link, runs, and what is shown."""

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

TYPED = 120  # characters of a typed text; it has to fit into the link with the other settings


@dataclass(frozen=True, eq=False)
class Bench:
    """What an experiment works with: the class's scene, controls, and runs.

    ``where`` is the place above the lab at which waiting is shown.
    """

    lab: str
    scene: Scene
    where: DeltaGenerator

    @property
    def dark(self) -> bool:
        """Whether pictures are drawn for a dark background."""
        return visit.dark()

    # ---- controls: each gives its value, and keeps it in the link under `name`

    def choose(
        self, name: str, label: str, options: Mapping[str, str], default: str, **settings: Any
    ) -> str:
        """One of a few: ``options`` are values of the link to what is shown of them."""
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
        """One of many, from a list that folds out."""
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
        """A number on a slider of given steps; ``shown`` turns its text into what is read."""
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
        """On or off."""
        states = {"on": True, "off": False}
        default_text = "on" if default else "off"
        key = self._key(name)
        widget_sync.show({key: states[lab_state.valid_setting(name, list(states), default_text)]})
        write = {True: "on", False: "off"}
        st.toggle(label, key=key, on_change=_moved, args=(name, key, write), **settings)
        return bool(st.session_state[key])

    def press(self, name: str, label: str, **settings: Any) -> int:
        """A button that counts how often it was pressed: a seed for something drawn at random."""
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
        """A short text that is typed; emptied, it is the default again."""
        key = self._key(name)
        widget_sync.show({key: lab_state.written(name, default)})
        st.text_input(
            label, key=key, max_chars=TYPED, on_change=_typed, args=(name, key), **settings
        )
        return lab_state.written(name, default)

    def _key(self, name: str) -> str:
        """A key of its own for each language: the browser keeps the words of a widget."""
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
        """What ``run(model, *words)`` gives; waited for with a bar where it takes a while.

        Args:
            model: its name, such as that of the scene, or ``labs/additive``.
            run: a plain function of a module, which imports floors 1 and 2 inside.
            words: all that the answer depends on besides the model; they can be hashed.
            says: what stands beside the bar.
            stepped: whether the run is also given ``tell``, to say how far it is.
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
        """The clean run, or one under changes, with all heads of all layers of some maps.

        What the page shows of a long sentence are the heads of the opened layer alone.
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
        """The scene's sentence under other changes, asked about the same target words."""
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
        """What the scene's model writes by itself under these changes."""
        scene = self.scene
        found: str = run_with_progress(
            lambda task: scene.engine.free(scene.question, intervention, task),
            key=f"lab-{self.lab}-free",
            label=say("Translating ..."),
            about=(scene.question, intervention.to_json()),
            where=self.where,
        )
        return found

    # ---- what is shown

    def chart(self, name: str, question: str, draw: Callable[[], Any]) -> None:
        """A plotly figure of a view under its question, with its caption and its table."""
        plotly_chart.chart(f"lab-{self.lab}-{name}", question, draw)

    def tell(self, *sentences: str) -> None:
        """Sentences in running text; terms in square brackets explain themselves."""
        st.html(f'<p class="tv-lab-text">{" ".join(map(explained, sentences))}</p>')

    def quiet(self, *sentences: str) -> None:
        """What must be said of a measurement, small below it."""
        layout.quiet(" ".join(map(escape, sentences)))

    def table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        marked: int | None = None,
        texts: Sequence[int] = (),
    ) -> None:
        """Numbers in rows; the first column names the row, ``marked`` is a row to point out.

        ``texts`` are the columns that hold sentences, which may need several lines.
        """
        st.html(table(heads, rows, marked, texts))


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    marked: int | None = None,
    texts: Sequence[int] = (),
) -> str:
    """A table as HTML, its words escaped; see `Bench.table`."""
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
    """In a callback: a text was typed, unless the browser only repeats what was written over."""
    text = str(st.session_state[key])
    widget_sync.moved(key, lambda: lab_state.put_text(name, text))


def _moved(name: str, key: str, write: Mapping[object, str]) -> None:
    """In a callback: a control was moved, unless the browser only repeats what was written over."""
    value = st.session_state[key]
    widget_sync.moved(key, lambda: lab_state.put(name, write.get(value, str(value))))
