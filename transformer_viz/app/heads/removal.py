"""Ranking of heads by removal, alone and together."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from ... import views
from ...core.interventions import Edit, MeanHead, ScaleHead, UniformHead
from ...core.sites import MAPS, Site
from ...i18n import join_words, mark, numeral, say
from ...metrics.head_measures.evidence import HeadEvidence
from ...views.charts.curves import Curve
from ...views.html.head_table import ROLE_TEXTS, removal_table
from ..cards.downloads import table_files
from ..cards.plotly_chart import chart
from ..session import visit
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..ui import layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.streamlit_private import is_in_fragment
from ..ui.text_format import escape_markdown, spoken
from . import sentences
from .jobs import Group, Item, Removals, Together, ranked, together
from .table import HEAD, addresses
from .verdict import scored

METHODS = {
    "mean": mark("its mean"),
    "zero": mark("nothing"),
    "resample": mark("what it gave elsewhere"),
    "uniform": mark("as if it looked everywhere"),
}
SAID = {
    "mean": mark(
        "Each head in turn gives its mean over these sentences, which keeps what is constant in it."
    ),
    "zero": mark(
        "Each head in turn gives nothing. That removes its constant part too, so the numbers "
        "depend on how the weights are written, not on the function alone."
    ),
    "resample": mark("Each head in turn gives what it gave in other sentences of like length."),
    "uniform": mark(
        "Each head in turn looks at all words alike: is it important where it looks? What it "
        "passes on stays."
    ),
}
#: Sentences of the first, quick ranking and of each later step; the last step uses all.
STEPS = (4, 16, 64, 256)
SHOWN = 20  # heads
CONSTANT = 8  # nearly constant heads to list


def known(
    scene: Scene, source: str, stored: sentences.Stored | None
) -> tuple[Removals | None, str]:
    """Return the ranking measured so far (first on a few sentences), or None and the reason.

    The reason is empty if the user stopped the run.
    """
    try:
        return _known(scene, source, stored), ""
    except Stopped:  # shows its own message and a button to resume
        return None, ""
    except (ValueError, LookupError) as error:
        return None, spoken(error)


def _known(scene: Scene, source: str, stored: sentences.Stored | None) -> Removals:
    if stored is not None and state.removal == "mean":
        return Removals(
            pd.DataFrame(stored.ranking["columns"]),
            stored.ranking["card"],
            tuple(stored.ranking["notes"]),
        )
    items = sentences.asked(scene, source)
    return _ranked(scene, items, _done(scene, items) or _steps(items)[0])


def _steps(items: tuple[Item, ...]) -> list[int]:
    """Return the increasing numbers of sentences to rank on."""
    return [*(step for step in STEPS if step < len(items)), len(items)]


def _about(scene: Scene, items: tuple[Item, ...]) -> object:
    return scene.question.model, hash(items), state.removal


def _done(scene: Scene, items: tuple[Item, ...]) -> int:
    return private.heads_ranked.get(_about(scene, items), 0)


def _ranked(scene: Scene, items: tuple[Item, ...], count: int, where: Any = None) -> Removals:
    method, some = state.removal, items[:count]  # the worker thread has no session
    found: Removals = run_with_progress(
        lambda task: scene.engine.ask(
            scene.question.model, ranked, some, method, task=task, stepped=True
        ),
        key="heads-removed" if where is None else "heads-sharpened",
        label=say("Removing one head after the other, on {count} sentences ...", count=count),
        about=(scene.question.model, some, method),
        where=where,
    )
    if count > _done(scene, items):
        private.heads_ranked = private.heads_ranked | {_about(scene, items): count}
    return found


def card(
    scene: Scene,
    source: str,
    stored: sentences.Stored | None,
    found: Removals | None,
    refused: str,
    evidence: HeadEvidence,
) -> Callable[[], None] | None:
    """Draw the ranking or the reason for its absence, and the cost of heads removed together.

    Returns:
        A function that refines the numbers after drawing, or None if all sentences are used.
    """
    layout.heading(escape(say("What happens without each head?")), 3)
    st.segmented_control(
        say("a removed head gives"),
        list(METHODS),
        key="removal",
        format_func=lambda name: say(METHODS[name]),
        required=True,
    )
    layout.quiet(escape(say(SAID[state.removal])))
    if found is None:
        if refused:
            st.info(escape_markdown(refused))
        return None
    _draw(scene, found)
    waiting = st.container(key="waiting-removal")
    _take(found)
    _together(scene, source, evidence)
    if stored is not None and state.removal == "mean":
        return None
    items = sentences.asked(scene, source)
    further = [step for step in _steps(items) if step > _done(scene, items)]
    return (lambda: _sharpen(scene, items, further[0], waiting)) if further else None


def _sharpen(scene: Scene, items: tuple[Item, ...], count: int, waiting: Any) -> None:
    """Rank on more sentences, and rerun the page with the result."""
    try:
        _ranked(scene, items, count, waiting)
    except Stopped:  # shows its own message and a button to resume
        return
    st.rerun(scope="fragment" if is_in_fragment() else "app")


def as_ranked(site: Site, found: Removals) -> Edit | None:
    """Return the edit that removes a head as this ranking did; None if there is no such edit."""
    at: Any = {"stack": site.stack, "block": site.block, "layer": site.layer, "head": site.head}
    method = str(found.card["method"])
    if method == "zero":
        return ScaleHead(value=0, **at)
    if method == "uniform":
        return UniformHead(**at)
    if found.means is not None:
        from ...inference.head_means import remember

        return MeanHead(mean=remember(found.means), **at)
    return MeanHead(mean=str(found.card["means"]), **at) if "means" in found.card else None


def said_of_switch(same: Edit | None, off: Edit) -> str:
    """Return a sentence on both switches, and their difference to the ranking."""
    if same is None:
        return say("Off, it gives nothing; what the ranking lets it give, no change can say.")
    if same == off:
        return say("Off, it gives nothing, as in the ranking.")
    if isinstance(same, MeanHead):
        return say(
            "Off, it gives nothing; in the ranking it gives its mean over these sentences, which "
            "disturbs less."
        )
    return say("Off, it gives nothing; in the ranking it looks at all words alike.")


def _draw(scene: Scene, found: Removals) -> None:
    here = Site(*MAPS[scene.place.map_name], scene.place.layer, scene.place.head)
    shown = found.table.head(SHOWN)
    links = addresses(Site(*head) for head in shown[HEAD].itertuples(index=False, name=None))
    st.html(removal_table(shown, here, links))
    layout.quiet(escape(_told(found)))


def _told(found: Removals) -> str:
    dull = int((~found.table["significant"]).sum())
    told = [
        say(
            "On {sentences} sentences, {rows} target tokens, teacher forced.",
            sentences=found.card["sentences"],
            rows=numeral(found.card["rows"], ","),
        )
    ]
    if len(found.table) > SHOWN:
        told.append(say("The strongest {shown} of {all} heads.", shown=SHOWN, all=len(found.table)))
    if found.card["sentences"] == 1:
        told.append(say("One sentence has no interval; more sentences tell how sure this is."))
    elif dull:
        told.append(
            say(
                "{dull} heads are not told from no effect on these sentences. That does not make "
                "them useless: others may cover for them.",
                dull=dull,
            )
        )
    hidden = found.card.get("constant")
    if hidden:
        told.append(
            say(
                "The output of {heads} hardly varies over these texts (by less than {part} of its "
                "length), so this method replaces it by nearly the same. Choose “nothing” to see "
                "what these heads do.",
                heads=join_words(hidden[:CONSTANT]) + (" …" if len(hidden) > CONSTANT else ""),
                part=numeral(0.1, ".0%"),
            )
        )
    return " ".join(told)


def _take(found: Removals) -> None:
    panel = layout.unfolding(say("all numbers"), "removal-numbers")
    if panel is None:
        return
    with panel:
        st.dataframe(found.table, hide_index=True, key="removal-table", height=280)
        table_files(found.table, found.card, "removal")
        if found.by_class is not None:
            layout.heading(escape(say("By class: the inputs of one class alone")), 3)
            st.dataframe(found.by_class, hide_index=True, key="removal-classes", height=280)
            table_files(found.by_class, found.card, "removal-classes")


def _together(scene: Scene, source: str, evidence: HeadEvidence) -> None:
    """Draw groups, pairs and curves; measured when the expander is open."""
    folded = st.expander(
        say("Several heads at once: groups, pairs, curves"), key="heads-together", on_change="rerun"
    )
    if not folded.open:
        return
    items = sentences.asked(scene, source)[: sentences.REMOVED_ON]
    with folded:
        if len(items) < 2:
            layout.quiet(
                escape(say("One sentence is too few for this; choose more sentences above."))
            )
            return
        method, groups = state.removal, _groups(evidence)
        found: Together = run_with_progress(
            lambda task: scene.engine.ask(
                scene.question.model, together, items, method, groups, task=task, stepped=True
            ),
            key="heads-together-run",
            label=say("Removing several heads at once ..."),
            about=(scene.question.model, items, method, groups),
        )
        _of_several(found)


def _groups(evidence: HeadEvidence) -> tuple[Group, ...]:
    """Return the heads of each role that at least two heads have."""
    table = evidence.table
    found = []
    for role in ROLE_TEXTS:
        own = table[[role in roles for roles in table["roles"]]]
        if len(own) > 1:
            found.append((role, tuple(own[HEAD].itertuples(index=False, name=None))))
    return tuple(found)


def _of_several(found: Together) -> None:
    layout.quiet(escape(say("Measured on {count} sentences.", count=found.card["sentences"])))
    chart(
        "removal-curves",
        say("What is left as more and more heads are removed?"),
        lambda: _curves(found),
    )
    orders = [curve.assign(order=order) for order, curve in found.curves.items()]
    table_files(pd.concat(orders, ignore_index=True), found.card, "removal-curves")
    layout.heading(escape(say("Groups: all heads of a role, block or layer at once")), 3)
    st.dataframe(_named(_rounded(found.groups)), hide_index=True, key="removal-groups")
    table_files(found.groups, found.card, "removal-groups")
    layout.heading(escape(say("Pairs of the twelve strongest")), 3)
    st.dataframe(_rounded(found.pairs), hide_index=True, key="removal-pairs", height=280)
    meaning = say(
        "Interaction above 0: one head does what the other did, so neither is missed "
        "alone. Below 0: both were links of one chain."
    )
    layout.quiet(escape(f"{meaning} {_in_unit(found.card)}"))
    table_files(found.pairs, found.card, "removal-pairs")


def _in_unit(card: dict[str, Any]) -> str:
    return say("In logits of the score.") if scored(card) else say("In nats per token.")


def _curves(found: Together) -> Any:
    """Return a chart: costliest first, cheapest first, and random order with its band."""
    names = {
        "most": say("costliest first"),
        "least": say("cheapest first"),
        "random": say("random order, mean of 20"),
    }
    lines = [
        Curve(names[order], curve["removed"].to_numpy(), curve["effect"].to_numpy())
        for order, curve in found.curves.items()
    ]
    random = found.curves["random"]
    lines += [
        Curve(name, random["removed"].to_numpy(), random[end].to_numpy(), dashed=True)
        for name, end in ((say("random, 2.5 %"), "low"), (say("random, 97.5 %"), "high"))
    ]
    return views.curves(
        lines,
        say("heads removed"),
        say("logits of the score") if scored(found.card) else say("nats per token"),
        say("More loss than at random: the ranking finds what matters, also together."),
        dark=visit.dark(),
    )


def _named(groups: pd.DataFrame) -> pd.DataFrame:
    """Return the groups with "all" for a missing block, layer or role."""
    names = [name for name in ("role", "stack", "block", "layer") if name in groups]
    return groups.assign(
        **{
            name: [say("all") if pd.isna(value) else str(value) for value in groups[name]]
            for name in names
        }
    )


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    numbers = table.select_dtypes(np.floating).columns
    return table.assign(**{name: table[name].round(4) for name in numbers})
