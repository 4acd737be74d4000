"""Download of a model of the Hugging Face Hub: its size, and a button."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...i18n import say
from ..engine import hub_models, model_names
from ..engine.engine import Engine
from ..session.keys import private
from ..ui import layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import escape_markdown, spoken

if TYPE_CHECKING:
    from ...checkpoints.hub.ids import HubId
    from ...checkpoints.hub.plan import Plan

BOX = "checkpoint-hub"


def box(look: Callable[[str], None]) -> None:
    """Draw the input for an id, with the error of the last one."""
    layout.heading(say("Or a model of the Hugging Face Hub"), 3)
    st.text_input(
        say("Id on the Hub"),
        key=BOX,
        placeholder="owner/name",
        on_change=_typed,
        args=(look,),
        label_visibility="collapsed",
    )
    kind, sentence = private.upload_error
    if kind == "hub":
        st.error(escape_markdown(sentence))
    layout.quiet(
        escape(
            say(
                "Its name there, with @revision for another branch, tag or commit. The size is "
                "said before anything is fetched."
            )
        )
    )


def _typed(look: Callable[[str], None]) -> None:
    text = st.session_state[BOX].strip()
    if not text:
        return
    try:
        look(hub_models.name_of(text))
    except ValueError as error:
        private.upload_error = ("hub", spoken(error))


def offered(engine: Engine, name: str, waiting: DeltaGenerator) -> bool:
    """Draw the download plan of a model, or download it. Return True if that fills the page."""
    wanted = hub_models.id_of(name)
    if wanted is None or _is_here(engine, name):
        return False
    layout.heading(escape(str(wanted)), what="checkpoint")
    try:
        hub_models.require_allowed(wanted)
        plan = _plan(name, wanted, waiting)
        if private.hub_begun == name:
            _fetch(name, plan, waiting)
            return True
    except Stopped:  # shows its own message, with a button to go on
        return True
    except (ValueError, OSError) as error:
        del private.hub_plan, private.hub_begun
        st.error(escape_markdown(spoken(error)))
        st.button(say("Try again"), key="hub-again")
        return True
    st.html(f'<p class="tv-say">{escape(plan.sentence)}</p>')
    named = say("Fetch {model}", model=escape_markdown(str(wanted)))
    st.button(named, key="hub-fetch", type="primary", on_click=_begin, args=(name,))
    return True


def _is_here(engine: Engine, name: str) -> bool:
    return engine.shelf.get(model_names.parted(name)[0]) is not None


def _begin(name: str) -> None:
    private.hub_begun = name


def _plan(name: str, wanted: HubId, waiting: DeltaGenerator) -> Plan:
    """Return the download plan of a model, requested once per visit of the page."""
    known, before = private.hub_plan
    if known == name and before is not None:
        kept: Plan = before
        return kept
    found: Plan = run_with_progress(
        lambda task: hub_models.look(wanted),
        key="hub-look",
        label=say("Asking the Hub ..."),
        about=name,
        where=waiting,
    )
    private.hub_plan = (name, found)
    return found


def _fetch(name: str, plan: Plan, waiting: DeltaGenerator) -> None:
    """Download the model, then draw the page again."""
    st.html(f'<p class="tv-say">{escape(plan.sentence)}</p>')
    run_with_progress(
        lambda task: hub_models.fetch(plan, task),
        key="hub-fetching",
        label=say("Fetching {model} ...", model=str(plan.source.id)),
        about=name,
        where=waiting,
    )
    del private.hub_plan, private.hub_begun
    st.rerun()
