"""Table of heads: roles, measures with chance and interval, cost of removal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from ...core.numerics import LOGIT, NATS
from ...core.sites import Site
from ...i18n import mark, numeral, say
from ...metrics.head_measures.registry import MEASURE_BY_NAME
from .measure_cells import DASH, bar, measure_cell, unfolding

ROLE_TEXTS = {
    "previous": mark("looks at the word before"),
    "self": mark("looks at the word itself"),
    "next": mark("looks at the word after"),
    "positional": mark("looks at a fixed distance"),
    "duplicate": mark("finds the same word"),
    "induction": mark("finds what followed"),
    "copying": mark("copies"),
}
STATE_TEXTS = {
    "sink": mark("parks"),
    "spread": mark("looks everywhere"),
    "sharp": mark("looks at one word"),
}


@dataclass(frozen=True)
class Cost:
    """Cost of removing a head in ``unit``, and its rank, each with its interval."""

    effect: float
    low: float
    high: float
    rank: int
    rank_low: int
    rank_high: int
    dull: bool
    unit: str = NATS


@dataclass(frozen=True)
class Section:
    """Rows of a table under a title, as index labels in order."""

    title: str
    rows: tuple[int, ...]


def head_table(
    table: pd.DataFrame,
    measures: Sequence[str],
    costs: Mapping[Site, Cost] | None = None,
    *,
    opened: Site | None = None,
    addresses: Mapping[Site, str] | None = None,
    sections: Sequence[Section] | None = None,
) -> str:
    """Return the rows of a table of `roles`, in its order, as HTML.

    A measure's cell holds the value, a bar from 0 to 1 with a tick at chance, and a line for the 95
    % interval. A click shows these as numbers, with the count of rows measured; a dash means no
    such row. The bar of a removal begins at 0 and ends at the largest upper end.

    Args:
        table: Table of `metrics`, with `roles` and `states`.
        measures: Names of the registry, one column each.
        costs: Cost of removing each head; if omitted, there is no such column.
        opened: The head whose row is marked.
        addresses: Link target of each head's name.
        sections: Groups of rows, each under a title; a row may be in several.
    """
    largest = max((cost.high for cost in (costs or {}).values()), default=0.0)
    titles = [say("head"), say("role")]
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles)
    for name in measures:
        title, asks = say(MEASURE_BY_NAME[name].title), say(MEASURE_BY_NAME[name].question)
        heads += f'<th title="{escape(asks)}">{escape(title)}</th>'
    if costs is not None:
        lost = lost_title(next((cost.unit for cost in costs.values()), NATS))
        heads += f"<th>{escape(lost)}</th><th>{escape(say('rank'))}</th>"
    wide = 2 + len(measures) + 2 * (costs is not None)
    rows = []
    for label, row in _in_sections(table, sections):
        if row is None:
            rows.append(f'<tr class="tv-section"><th colspan="{wide}">{escape(label)}</th></tr>')
            continue
        site = Site(row["stack"], row["block"], int(row["layer"]), int(row["head"]))
        cells = f"<th>{_name(site, (addresses or {}).get(site))}</th>"
        cells += f'<td class="tv-roles">{roles_of(row)}</td>'
        cells += "".join(f"<td>{measure_cell(row, name)}</td>" for name in measures)
        if costs is not None:
            cells += _cost_cells(costs.get(site), largest)
        here = ' class="tv-opened"' if site == opened else ""
        rows.append(f'<tr data-head="{escape(str(site))}"{here}>{cells}</tr>')
    return (
        f'<div class="tv-heads"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _in_sections(
    table: pd.DataFrame, sections: Sequence[Section] | None
) -> Iterator[tuple[str, pd.Series | None]]:
    """Yield titles of sections (without a row), and rows."""
    if sections is None:
        yield from (("", row) for _, row in table.iterrows())
        return
    for section in sections:
        count = len(section.rows)
        one = say("{title}: 1 head", title=section.title)
        many = say("{title}: {count} heads", title=section.title, count=count)
        yield one if count == 1 else many, None
        yield from (("", table.loc[label]) for label in section.rows)


def removal_table(
    table: pd.DataFrame,
    opened: Site | None = None,
    addresses: Mapping[Site, str] | None = None,
) -> str:
    """Return the rows of a ranking, the costliest first, as HTML: cost and effects of removal.

    Heads without a significant effect are greyed. Bars begin at 0; the largest upper end fills one.

    Args:
        table: Table of a `Ranking`.
        opened: The head whose row is marked.
        addresses: Link target of each head's name.
    """
    costs = costs_of(table)
    unit = next((cost.unit for cost in costs.values()), NATS)
    last = [say("mean change of the score")]
    if unit != LOGIT:
        last = [say("divergence"), say("changed words")]
    titles = (say("head"), lost_title(unit), say("rank"), *last)
    largest = max((cost.high for cost in costs.values()), default=0.0)
    rows = []
    for (site, cost), row in zip(costs.items(), table.itertuples(), strict=True):
        here = ' class="tv-opened"' if site == opened else ""
        cells = f"<td>{row.kl:.3f}</td><td>{numeral(row.changed, '.1%')}</td>"
        if unit == LOGIT:
            cells = f"<td>{row.moved:.3f}</td>"
        rows.append(
            f'<tr data-head="{escape(str(site))}"{here}>'
            f"<th>{_name(site, (addresses or {}).get(site))}</th>"
            f"{_cost_cells(cost, largest)}{cells}</tr>"
        )
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return (
        f'<div class="tv-heads"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def lost_title(unit: str) -> str:
    """Return the title of a column of effects."""
    if unit == LOGIT:
        return say("score lost without it, logits")
    return say("without it, nats per token")


def roles_of(row: pd.Series) -> str:
    """Return the roles of a head as text, then its states; no role gives a text as well."""
    named = ", ".join(say(ROLE_TEXTS[role]) for role in row["roles"]) or say("no role found")
    states = ", ".join(say(STATE_TEXTS[state]) for state in row["states"])
    quiet = f' <span class="tv-quiet">{escape(states)}</span>' if states else ""
    return escape(named) + quiet


def _cost_cells(cost: Cost | None, largest: float) -> str:
    if cost is None:
        return f"<td>{DASH}</td><td>{DASH}</td>"
    told = [
        say("95 %: {low} to {high}", low=numeral(cost.low, "+.3f"), high=numeral(cost.high, "+.3f"))
    ]
    ranks = f"{cost.rank} ({cost.rank_low}{DASH}{cost.rank_high})"
    if cost.low == cost.high:  # from one sentence: nothing is known about others
        told, ranks = [say("one sentence, so no interval")], str(cost.rank)
    if cost.dull:
        told.append(say("not told from no effect on these sentences"))
    written = f"<b>{numeral(cost.effect, '+.3f')}</b>"
    shown = written + bar(cost.effect, cost.low, cost.high, None, largest)
    cell = unfolding(shown, told, " tv-dull" if cost.dull else "")
    return f"<td>{cell}</td><td>{ranks}</td>"


def _name(site: Site, address: str | None) -> str:
    name = escape(str(site))
    return name if address is None else f'<a href="{escape(address)}" target="_self">{name}</a>'


def costs_of(columns: Mapping[str, Any] | pd.DataFrame) -> dict[Site, Cost]:
    """Return the rows of a ranking's table by head."""
    table = pd.DataFrame(columns)
    return {
        Site(row.stack, row.block, int(row.layer), int(row.head)): Cost(
            float(row.effect),
            float(row.low),
            float(row.high),
            int(row.rank),
            int(row.rank_low),
            int(row.rank_high),
            not row.significant,
            getattr(row, "unit", NATS),
        )
        for row in table.itertuples()
    }
