"""Tuple of all pages, and one function per page; they only combine cards.

May import everything else of the app. To add a page: `docs/add-a-page.md`.
"""

from __future__ import annotations

from ...i18n import mark
from ..page_template import Page
from . import (
    about,
    align,
    checkpoint,
    compare,
    corpus,
    explore,
    heads,
    labs,
    lessons,
    norms,
    play,
    positions,
    step_inside,
    swap,
    why,
)

#: Navigation menus, in display order.
SEE, ASK, LEARN, MODEL = mark("See"), mark("Ask"), mark("Learn"), mark("Model")

#: All pages, in the order of the navigation.
PAGES: tuple[Page, ...] = (
    Page("explore", mark("Explore"), explore.QUESTION, explore.draw, SEE, first=True, has_map=True),
    Page("step-inside", mark("Step inside"), step_inside.QUESTION, step_inside.draw, SEE),
    Page("play", mark("Play"), play.QUESTION, play.draw, SEE),
    Page(
        "positions", mark("Positions"), positions.KNOWS["word"], positions.draw, SEE, has_map=True
    ),
    Page("norms", mark("Norms"), norms.QUESTION, norms.draw, SEE, has_map=True),
    Page("heads", mark("Heads"), heads.QUESTION, heads.draw, ASK),
    Page("why", mark("Why this word?"), why.QUESTION, why.draw, ASK),
    Page("swap", mark("Swap"), swap.QUESTION, swap.draw, ASK),
    Page("compare", mark("Compare"), compare.QUESTION, compare.draw, ASK),
    Page("align", mark("Align"), align.QUESTION, align.draw, ASK),
    Page("corpus", mark("Corpus"), corpus.QUESTION, corpus.draw, ASK, framed=False),
    Page(
        "lessons",
        mark("Lessons"),
        mark("What can a class find out in an hour?"),
        lessons.draw,
        LEARN,
        framed=False,
    ),
    Page("labs", mark("Labs"), mark("Why is a Transformer built the way it is?"), labs.draw, LEARN),
    Page(
        "checkpoint",
        mark("Checkpoint"),
        mark("Which model is it, and can its pictures be trusted?"),
        checkpoint.draw,
        MODEL,
        framed=False,
    ),
    Page(
        "about",
        mark("About"),
        mark("What do these pictures show, and what not?"),
        about.draw,
        MODEL,
        framed=False,
    ),
)
