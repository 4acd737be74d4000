"""The page of the labs: a question, a prediction, an experiment, a reveal.

A lab is one file in this folder with one `Lab` (its fields: `lab.py`), and one line in ``LABS``.
How the page goes through it:

1. The question stands large, its options below. Nothing is measured or shown before an option or
   "show me" is chosen (``guess`` in the link's ``tried``).
2. ``experiment(bench)`` draws controls and live measurements, and gives back what was found, any
   frozen value. ``bench`` (`bench.py`) has the class's ``scene`` (clean run ``scene.before``,
   ``scene.question``, ``scene.place``, ``scene.kind``), controls whose values stand in the link
   (``choose``, ``pick``, ``slide``, ``switch``, ``press``, ``write``), runs (``ask`` for a plain
   function of a model, cached; ``changed``, ``free`` under edits) and what shows (``chart`` for a
   figure of a view, ``table``, ``tell``, ``quiet``). Anything else of Streamlit is at hand as on
   every page.
3. ``answer(found)`` is the number of the option that the measurement bears out, None where it
   decides nothing. It is computed, never written down.
4. ``reveal(bench, found)`` draws why. Whether the prediction held is said above the experiment,
   beside the prediction: there the reader looks who has just chosen.

A ValueError or LookupError inside is read as a sentence in its place. ``lacks(scene)`` is the
sentence why the chosen model cannot serve the lab; then nothing else of it is drawn.
Texts: ``mark("...")`` in the fields of a Lab, ``say("...")`` elsewhere. Pictures for several labs:
``views.curves`` (lines over numbers), ``maps.head`` (one head of any trace).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...i18n import say
from ..session.notices import rewrite_widget
from ..session.scene import Scene
from ..ui import layout
from ..ui.progress import Stopped
from ..ui.text_format import escape_markdown, spoken
from . import lab_state
from .bench import Bench
from .lab import Lab

GUESS = "guess"  # in `tried`: the number of the chosen option
SHOW = "show"  # the visitor wants to see it without a prediction


def body(scene: Scene, labs: Sequence[Lab]) -> None:
    """The page for a scene: the list of labs, and the open one."""
    by_name = {lab.name: lab for lab in labs}
    lab = by_name[lab_state.opened(list(by_name))]
    with st.container(key="fold-labs"):
        _list(by_name)
    _open(scene, lab)
    _beside(list(by_name), lab.name)


def _open(scene: Scene, lab: Lab) -> None:
    with st.container(key="lab-open"):
        guess = lab_state.valid_setting(GUESS, [*_numbers(lab), SHOW, ""], "")
        asked = " tv-lab-asked" if guess else ""
        st.html(f'<h2 class="tv-lab-question{asked}">{escape(say(lab.question))}</h2>')
        why = lab.lacks(scene)
        if why is not None:
            st.info(escape_markdown(why))
            return
        if not guess:
            _options(lab)
            return
        with st.container(key="lab-predicted", gap="xsmall"):
            _predicted(lab, guess)
            said = st.container()  # its room is kept: it is known once it has been measured
        waiting = st.container(key="waiting-lab")
        _measured(lab, guess, Bench(lab.name, scene, waiting), said)


def _beside(names: list[str], name: str) -> None:
    """The lab before this one, and the one after it."""
    place = names.index(name)
    with layout.row(spread=True, key="lab-steps"):
        for key, label, at in (
            ("step-back", say("← previous lab"), place - 1),
            ("step-on", say("next lab →"), place + 1),
        ):
            there = 0 <= at < len(names)
            st.button(
                label,
                key=key,
                disabled=not there,
                on_click=lab_state.turn_to,
                args=(names[at] if there else name,),
                type="tertiary",
            )


def _list(labs: dict[str, Lab]) -> None:
    rewrite_widget(lab_state.LAB)
    st.pills(
        say("Labs"),
        list(labs),
        key=lab_state.LAB,
        format_func=lambda name: say(labs[name].title),
        required=True,
        on_change=lab_state.turn,
        label_visibility="collapsed",
        wrap=True,
    )


def _numbers(lab: Lab) -> list[str]:
    return [str(number) for number in range(len(lab.options))]


def _options(lab: Lab) -> None:
    """What one may predict; nothing else is shown before."""
    st.html(f'<p class="tv-lab-ask">{say("What do you think? Choose before you look.")}</p>')
    with st.container(key="lab-options"):
        for number, option in enumerate(lab.options):
            st.button(
                escape_markdown(say(option)),
                key=f"guess-{lab.name}-{number}",
                on_click=lab_state.put,
                args=(GUESS, str(number)),
                width="stretch",
            )
        st.button(
            say("show me"),
            key=f"guess-{lab.name}-show",
            on_click=lab_state.put,
            args=(GUESS, SHOW),
            type="tertiary",
        )


def _predicted(lab: Lab, guess: str) -> None:
    with layout.row("center", spread=True):
        said = (
            say("Shown without a prediction.")
            if guess == SHOW
            else say("Your prediction: {option}", option=say(lab.options[int(guess)]))
        )
        st.html(f'<p class="tv-lab-guess">{escape(said)}</p>', width="content")
        st.button(
            say("predict again"),
            key=f"again-{lab.name}",
            on_click=lab_state.put,
            args=(GUESS, None),
        )


def _measured(lab: Lab, guess: str, bench: Bench, said: DeltaGenerator) -> None:
    """The experiment, the verdict where the prediction stands, and why.

    What cannot be measured is said in its place.
    """
    try:
        with st.container(border=True, key="card-experiment"):
            found = lab.experiment(bench)
        said.html(verdict(lab, guess, found))
        with st.container(border=True, key="card-reveal"):
            lab.reveal(bench, found)
    except Stopped:
        raise
    except (ValueError, LookupError) as error:
        st.info(escape_markdown(spoken(error)))


def verdict(lab: Lab, guess: str, found: Any) -> str:
    """Whether the prediction held, as HTML."""
    right = lab.answer(found)
    if right is None:
        held, said = "open", say("This measurement does not decide it.")
    elif guess == SHOW:
        held, said = "shown", say("Measured: {option}", option=say(lab.options[right]))
    elif guess == str(right):
        held, said = "right", say("Your prediction holds: {option}", option=say(lab.options[right]))
    else:
        held = "wrong"
        said = say("It came out otherwise: {option}", option=say(lab.options[right]))
    return f'<p class="tv-lab-verdict" data-what="verdict" data-held="{held}">{escape(said)}</p>'
