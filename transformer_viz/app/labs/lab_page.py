"""Page of the labs: a question, a prediction, an experiment, a reveal.

A lab is one file in `experiments/` with one `Lab` (its fields: `lab.py`), and one line in ``LABS``.
The page runs these steps:

1. The question is shown large, its options below. Nothing is measured or shown before an option or
   "show me" is chosen (``guess`` in the link's ``tried``).
2. ``experiment(bench)`` draws controls and live measurements, and returns the result, any frozen
   value. ``bench`` (`bench.py`) has the ``scene`` (clean run ``scene.before``, ``scene.question``,
   ``scene.place``, ``scene.kind``). Its controls store their values in the link (``choose``,
   ``pick``, ``slide``, ``switch``, ``press``, ``write``). Its runs are ``ask`` (a plain function of
   a model, cached), ``changed`` and ``free`` (under edits). Its outputs are ``chart`` (a figure of
   a view), ``table``, ``tell`` and ``quiet``. Other Streamlit elements may be used as on every
   page.
3. ``answer(found)`` returns the index of the option that the measurement supports, or None. It is
   computed, never written down.
4. ``reveal(bench, found)`` draws the explanation. The verdict on the prediction is shown above the
   experiment, beside the prediction, where the user looks after choosing.

A ValueError or LookupError inside is shown as a message in place of the result. If ``lacks(scene)``
returns a reason why the model cannot be used, only the question and the reason are drawn.

Texts: ``mark("...")`` in the fields of a Lab, ``say("...")`` elsewhere. Pictures for several labs:
``views.curves`` (lines over numbers), ``head_map.head`` (one head of any trace).
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
SHOW = "show"  # shown without a prediction


def body(scene: Scene, labs: Sequence[Lab]) -> None:
    """Draw the page of a scene: the list of labs, and the open lab."""
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
            said = st.container()  # reserved for the verdict, which follows the measurement
        waiting = st.container(key="waiting-lab")
        _measured(lab, guess, Bench(lab.name, scene, waiting), said)


def _beside(names: list[str], name: str) -> None:
    """Draw buttons for the previous and the next lab."""
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
    """Draw the options to predict; nothing else is shown before a choice."""
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
    """Draw the experiment, the verdict beside the prediction, and the explanation.

    Errors of the measurement are shown as messages in its place.
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
    """Return HTML that compares the prediction with the measurement."""
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
