"""Sentence that names the head with the largest effect, in the unit of the measurement."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import pandas as pd
import streamlit as st

from ...core.numerics import LOGIT
from ...core.sites import Site
from ...i18n import numeral, say
from .jobs import Removals
from .table import addresses

HERE = "\0"  # placeholder of the head's link


def verdict(found: Removals) -> None:
    """Draw a sentence that names the head with the largest effect, and links to it."""
    most = found.table.iloc[0]
    site = Site(most["stack"], most["block"], int(most["layer"]), int(most["head"]))
    link = f'<a href="{escape(addresses([site])[site])}" target="_self">{escape(str(site))}</a>'
    if scored(found.card):
        _say_verdict(_of_score(most), link)
        return
    share, nats = -math.expm1(-most["effect"]), most["effect"]
    told = {  # a confident classifier loses little, so small numbers need more digits
        "share": numeral(share, ".0%" if share >= 0.01 else ".2%"),
        "nats": f"{nats:.3f}" if nats >= 0.001 else f"{nats:.1e}",
        "low": f"{most['low']:.3f}",
        "high": f"{most['high']:.3f}",
    }
    if most["effect"] <= 0:
        text = escape(say("Here nothing is lost without any single head: others stand in for it."))
    elif most["significant"]:
        text = escape(
            say(
                "Most is lost without {head}: a right word becomes {share} less probable on "
                "average ({nats} nats, 95 %: {low} to {high}).",
                head=HERE,
                **told,
            )
        )
    else:
        text = escape(
            say(
                "Most is lost here without {head}: a right word becomes {share} less probable "
                "({nats} nats); on so few sentences that may be chance.",
                head=HERE,
                **told,
            )
        )
    _say_verdict(text, link)


def _of_score(most: pd.Series) -> str:
    """Return the sentence for a regression, as HTML."""
    if most["effect"] <= 0:
        return escape(
            say("No single head raises the score here: without any of them it does not fall.")
        )
    told = say(
        "Most of the score is lost without {head}: {effect} logits on average (95 %: {low} to "
        "{high}).",
        head=HERE,
        effect=f"{most['effect']:.3f}",
        low=f"{most['low']:.3f}",
        high=f"{most['high']:.3f}",
    )
    if not most["significant"]:
        told += " " + say("On so few sentences that may be chance.")
    return escape(told)


def _say_verdict(text: str, link: str) -> None:
    st.html(f'<p class="tv-say" data-what="heads-verdict">{text.replace(HERE, link)}</p>')


def scored(card: dict[str, Any]) -> bool:
    """Return True if scores were measured instead of probabilities."""
    return card.get("unit") == LOGIT
