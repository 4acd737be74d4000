"""One function a page, and the tuple of all pages; they only put cards together.

May import everything else of the app. To add a page: `docs/add-a-page.md`.
"""

from __future__ import annotations

from ...i18n import mark
from ..page_template import Page
from . import (
    about,
    checkpoint,
    explore,
    labs,
    lessons,
    norms,
    play,
    positions,
    step_inside,
    swap,
)

#: Every page, in the order of the navigation.
PAGES: tuple[Page, ...] = (
    Page("explore", mark("Explore"), explore.QUESTION, explore.draw, first=True, has_map=True),
    Page("step-inside", mark("Step inside"), step_inside.QUESTION, step_inside.draw),
    Page("play", mark("Play"), play.QUESTION, play.draw),
    Page("positions", mark("Positions"), positions.KNOWS["word"], positions.draw, has_map=True),
    Page("norms", mark("Norms"), norms.QUESTION, norms.draw, has_map=True),
    Page("swap", mark("Swap"), swap.QUESTION, swap.draw),
    Page("labs", mark("Labs"), mark("Why is a Transformer built the way it is?"), labs.draw),
    Page(
        "lessons",
        mark("Lessons"),
        mark("What can a class find out in an hour?"),
        lessons.draw,
        framed=False,
    ),
    Page(
        "checkpoint",
        mark("Checkpoint"),
        mark("Which model is it, and can its pictures be trusted?"),
        checkpoint.draw,
        framed=False,
    ),
    Page(
        "about",
        mark("About"),
        mark("What do these pictures show, and what not?"),
        about.draw,
        framed=False,
    ),
)
