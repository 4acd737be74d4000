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
)

#: Every page, in the order of the navigation.
PAGES: tuple[Page, ...] = (
    Page("explore", mark("Explore"), explore.QUESTION, explore.draw, first=True),
    Page(
        "step-inside",
        mark("Step inside"),
        "How does one head come to its numbers, step by step?",
        step_inside.draw,
    ),
    Page("play", mark("Play"), "How does the model write its words, one by one?", play.draw),
    Page(
        "positions",
        mark("Positions"),
        "How does the model know the order of the words?",
        positions.draw,
    ),
    Page("norms", mark("Norms"), norms.QUESTION, norms.draw),
    Page("labs", mark("Labs"), "Why is a Transformer built the way it is?", labs.draw),
    Page(
        "lessons",
        mark("Lessons"),
        "What can a class find out in an hour?",
        lessons.draw,
        framed=False,
    ),
    Page(
        "checkpoint",
        mark("Checkpoint"),
        "Which model is it, and can its pictures be trusted?",
        checkpoint.draw,
        framed=False,
    ),
    Page(
        "about",
        mark("About"),
        "What do these pictures show, and what not?",
        about.draw,
        framed=False,
    ),
)
