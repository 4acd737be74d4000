"""Comparison of two sides: atlas of differences, one head, words, matched heads."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st

from ... import views
from ...core.sites import MAPS, called, map_name
from ...i18n import ENGLISH, join_words, mark, say, speaking
from ..session import notices, visit, widget_sync
from ..session.state import state
from ..session.url_values import quoted
from ..ui import layout
from .downloads import table_files
from .plotly_chart import chart, clicked

if TYPE_CHECKING:
    from ...metrics.comparison.comparing import Comparison, Place

TITLES = {
    "encoder": mark("Encoder: which heads look differently?"),
    "decoder": mark("Decoder: which heads look differently?"),
    "cross": mark("Cross-attention: which heads look differently?"),
}
HEAD = "compare-head"  # widget key
LISTED = 12  # pairs of the printed list


def told(found: Comparison, words: str) -> str:
    """Return sentences on the compared inputs, the number of rows, and the limits of the result."""
    said = [words, _of_words(found)]
    ours, theirs = (
        {
            one.name: [(block.layer, block.heads) for block in getattr(one, side)]
            for one in found.shared
        }
        for side in ("a", "b")
    )
    if ours != theirs:
        said.append(
            say(
                "The two sides have not the same layers and heads: a place that both have means "
                "the same number and no more. Put each head beside the most alike instead."
            )
        )
    silent = int((found.heads["rows"] == 0).sum())
    if silent:
        said.append(
            say("{count} heads could be asked in no row: they have no value.", count=silent)
        )
    said.append(say("Heads that look alike need not do the same: what they pass on may differ."))
    return " ".join(said)


def _of_words(found: Comparison) -> str:
    hows = {side.how for one in found.shared for side in (one.rows, one.columns)}
    if hows == {"tokens"}:
        return say("Both sides read the same tokens.")
    if "words" not in hows:
        return say(
            "Both sides read the same text in other pieces: it is cut where both cut it, weights "
            "of a word's pieces are added, its rows averaged."
        )
    lone = found.words[found.words["a"].isna() | found.words["b"].isna()]
    names = [str(row.a if isinstance(row.a, str) else row.b) for row in lone.itertuples()]
    if not names:
        return say("Every word of one side has a counterpart on the other.")
    return say(
        "Without a counterpart on the other side: {words}. Their rows are not asked, and what goes "
        "to them stands in the column “elsewhere”.",
        words=join_words(say("“{word}”", word=name) for name in names[:LISTED]),
    )


def opened(found: Comparison) -> tuple[str, Place]:
    """Return the map and the head that is open: from the URL, or the most different one."""
    matched = state.opposite == "match"
    known = {
        f"{one.name}.{layer}.{head}": (one.name, (layer, head))
        for one in found.shared
        for layer, head in found.pairs(one.name, matched)
    }
    if state.seen in known:
        return known[state.seen]
    bits = {name: found.divergence(*place, matched) for name, place in known.items()}
    best = max(
        bits, key=lambda name: (np.nan_to_num(bits[name], nan=-1.0), -list(bits).index(name))
    )
    if state.seen:
        notices.about_link(
            say(
                "In this comparison there is no head {head}; {shown} is shown.",
                head=quoted(state.seen),
                shown=best,
            )
        )
        state.seen = ""
    return known[best]


def atlases(found: Comparison, place: tuple[str, Place]) -> None:
    """Draw one atlas per map, side by side; a click opens a head."""
    matched = state.opposite == "match"
    with st.container(key="pictures-compare"):
        columns = st.columns(len(found.shared))
    for column, one in zip(columns, found.shared, strict=True):
        with column.container(border=True, height="stretch", key=f"card-compare-{one.name}"):
            at = place[1] if place[0] == one.name else None
            draw = partial(
                views.compared_atlas,
                found,
                one.name,
                matched=matched,
                opened=at,
                dark=visit.dark(),
            )
            key = f"compare-{one.name}"
            chart(key, say(TITLES[one.name]), draw, partial(_clicked, key, one.name))


def _clicked(key: str, name: str) -> None:
    chosen = clicked(key)
    if chosen:
        state.seen = f"{name}.{chosen[0]}.{chosen[1]}"


def head(found: Comparison, place: tuple[str, Place], titles: tuple[str, str]) -> None:
    """Show the chosen head on both sides and the change, on the words that both read."""
    name, own = place
    matched = state.opposite == "match"
    other = found.pairs(name, matched)[own]
    maps = found.maps(name, *own, other)
    shown = f"{called(name)} L{own[0]} H{own[1]}"
    beside = "" if own == other else f" · L{other[0]} H{other[1]}"
    bits = found.divergence(name, own, matched)
    value = "–" if np.isnan(bits) else say("{bits:.3f} bits", bits=bits)
    with layout.row("center", spread=True):
        layout.heading(f"{escape(shown + beside)}: {value}", 3, fit=True, what="compared-head")
        _chooser(found, place)
    layout.quiet(escape(_how_clear(found, name, own)))
    limits = {"a": None, "b": None, "difference": found.limit(matched)}
    questions = {
        "a": escape(titles[0]),
        "b": escape(titles[1]),
        "difference": say("what is more, what is less"),
    }
    with st.container(key="pictures-compared-head"):
        columns = st.columns(3)
    for column, (side, limit) in zip(columns, limits.items(), strict=True):
        with column:
            draw = partial(views.compared_map, maps, side, limit=limit, dark=visit.dark())
            chart(f"compared-{side}", questions[side], draw)


def _chooser(found: Comparison, place: tuple[str, Place]) -> None:
    """Show a list of all heads, the most different first, as an alternative to clicking."""
    matched = state.opposite == "match"
    bits = {
        f"{one.name}.{own[0]}.{own[1]}": found.divergence(one.name, own, matched)
        for one in found.shared
        for own in found.pairs(one.name, matched)
    }
    order = sorted(bits, key=lambda name: -np.nan_to_num(bits[name], nan=-1.0))
    widget_sync.show({HEAD: f"{place[0]}.{place[1][0]}.{place[1][1]}"})

    def named(name: str) -> str:
        block, layer, number = name.split(".")
        value = "–" if np.isnan(bits[name]) else f"{bits[name]:.2f}"
        return f"{called(block)} L{layer} H{number} · {value}"

    st.selectbox(
        say("head, the most different first"),
        order,
        key=HEAD,
        format_func=named,
        on_change=_chosen,
        width=280,
    )


def _chosen() -> None:
    name = str(st.session_state[HEAD])
    widget_sync.moved(HEAD, lambda: setattr(state, "seen", name))


def _how_clear(found: Comparison, name: str, own: Place) -> str:
    """Return a sentence on the most similar head of the other side, and the margin to the next."""
    row = _matched_row(found, name, own)
    if row is None or pd.isna(row["other_head"]):
        return say("No head of the second side is its counterpart.")
    margin = float(row["margin"])
    words: dict[str, Any] = {
        "place": f"L{row['other_layer']} H{row['other_head']}",
        "bits": float(row["divergence"]),
        "margin": margin,
    }
    if np.isnan(margin):
        return say("Its counterpart is {place} ({bits:.3f} bits), the only one.", **words)
    if margin < 0:
        return say(
            "Its counterpart, when all heads are paired, is {place} ({bits:.3f} bits); not a clear "
            "one: another head is {nearer:.3f} bits nearer, and goes with one that it is like.",
            nearer=-margin,
            **words,
        )
    if row["ambiguous"]:
        return say(
            "Its counterpart, when all heads are paired, is {place} ({bits:.3f} bits); not a clear "
            "one, as the next best is only {margin:.3f} bits farther.",
            **words,
        )
    return say(
        "Its counterpart, when all heads are paired, is {place} ({bits:.3f} bits); the next best "
        "is {margin:.3f} bits farther.",
        **words,
    )


def _matched_row(found: Comparison, name: str, own: Place) -> pd.Series | None:
    stack, block = MAPS[name]
    table = found.matched
    here = (
        (table["stack"] == stack)
        & (table["block"] == block)
        & (table["layer"] == own[0])
        & (table["head"] == own[1])
    )
    return table[here].iloc[0] if here.any() else None


def words(found: Comparison) -> None:
    """Show the words of both sides in two lines; words without a counterpart are dimmed."""
    layout.heading(say("Which word stands beside which?"), 3)
    for side, some in found.words.groupby("side", sort=False):
        cells = "".join(
            f'<td class="{_class(row)}"><span>{_word(row.a)}</span><br>{_word(row.b)}</td>'
            for row in some.itertuples()
        )
        st.html(
            f'<div class="tv-heads tv-aligned"><table data-what="words-{side}"><tbody><tr>'
            f"<th>{escape(called(str(side)))}</th>{cells}</tr></tbody></table></div>"
        )


def _word(text: object) -> str:
    return escape(text) if isinstance(text, str) else "·"


def _class(row: Any) -> str:
    if not (row.tokens_a and row.tokens_b):
        return "tv-dull"
    return "" if row.same else "tv-opened"


def pairs(found: Comparison) -> None:
    """List the matched pairs of heads, with their margins."""
    table = found.matched[found.matched["other_head"].notna()]
    layout.heading(say("Which head of the second side looks most alike?"), 3)
    layout.quiet(
        escape(
            say(
                "All heads of a map are paired one to one, so that the sum of divergences is "
                "least. {same} of {all} go with the head of their own place; {dull} pairs are not "
                "clear: the next best is less than 0.02 bits farther.",
                same=int(table["same"].sum()),
                all=len(table),
                dull=int(table["ambiguous"].sum()),
            )
        )
    )
    names = (say("head"), say("counterpart"), say("bits"), say("margin"), "")
    top = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(map(_pair_row, table.to_dict("records")))
    st.html(
        f'<div class="tv-heads" style="max-height: 340px"><table data-what="matched"><thead><tr>'
        f"{top}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _pair_row(row: dict[str, Any]) -> str:
    name = called(map_name(row["stack"], row["block"]))
    margin = "–" if np.isnan(row["margin"]) else f"{row['margin']:.3f}"
    note = say("not clear") if row["ambiguous"] else ""
    note = note or ("" if row["same"] else say("another place"))
    dull = ' class="tv-dull"' if row["ambiguous"] else ""
    return (
        f"<tr{dull}><th>{escape(name)} L{row['layer']} H{row['head']}</th>"
        f"<td>L{row['other_layer']} H{row['other_head']}</td><td>{row['divergence']:.3f}</td>"
        f"<td>{margin}</td><td>{escape(note)}</td></tr>"
    )


def take(found: Comparison) -> None:
    """Show every number, and the card of the comparison."""
    panel = layout.unfolding(say("all numbers"), "compare-numbers")
    if panel is None:
        return
    with speaking(ENGLISH):  # data are the same in every language
        counterpart = found.matched.rename(
            columns={"divergence": "matched_divergence", "same": "matched_same"}
        )
        table = found.heads.merge(counterpart, how="outer", on=["stack", "block", "layer", "head"])
    with panel:
        st.dataframe(table, hide_index=True, key="compare-table", height=280)
        table_files(table, found.card, "compare")
