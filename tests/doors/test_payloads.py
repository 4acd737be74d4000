"""Payloads written for other languages (HTML, Markdown, CSV, terminals) stay text in every output.

Each test tries all payloads and names the one that fails.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from tests.support.payloads import CSV, PAYLOADS
from tests.views.conftest import make_trace
from transformer_viz.app.live import visit_limits
from transformer_viz.app.ui.text_format import changed_words, escape_markdown
from transformer_viz.cli.main import main
from transformer_viz.cli.terminal import inert, sentence
from transformer_viz.components.standalone_page import framed
from transformer_viz.core.errors import JOINERS
from transformer_viz.core.trace import Trace
from transformer_viz.lessons import STATIONS
from transformer_viz.lessons.worksheet import Page, answer_sheet, worksheet
from transformer_viz.views.csv_text import BEGINS, csv_text
from transformer_viz.views.export.file_formats import exported
from transformer_viz.views.export.html_report import report
from transformer_viz.views.html.candidate_bars import candidates
from transformer_viz.views.html.probability_bars import outcome
from transformer_viz.views.html.vector_change import vector_change
from transformer_viz.views.html.word_answers import lens_table

#: Elements that run or fetch something, or take the page over.
ACTIVE = {
    "script", "iframe", "object", "embed", "base", "link", "meta", "form", "input", "template",
    "img", "image", "svg", "use", "animate", "foreignobject", "body", "textarea", "video", "style",
}  # fmt: skip
#: What a report holds: its policy, its style, and its own two scripts.
REPORT = (["meta"] * 4 + ["style", "body", "script", "script"], [])
#: A page or a picture takes half a second: each shows nine payloads, as many as it has words.
GROUPS = [[one.text for one in PAYLOADS[at : at + 9]] for at in range(0, len(PAYLOADS), 9)]


class Elements(HTMLParser):
    """The elements of a page, and the attributes that run or fetch something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.odd: list[tuple[str, str | None]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        for name, value in attrs:
            leads_away = re.match(r"\s*(?:[a-z]+:|//)", value or "", re.I)
            if name.startswith("on") or (name in ("href", "src", "action") and leads_away):
                self.odd.append((name, value))


def active(page: str) -> tuple[list[str], list[tuple[str, str | None]]]:
    """Return the active elements and attributes of a page."""
    found = Elements(page)
    return [tag for tag in found.found if tag in ACTIVE], found.odd


def spelled(*texts: str) -> Trace:
    """Return a trace whose words are these texts in turn; the first is its model's name too."""
    trace, turn = make_trace(), cycle(texts)

    def named(words: Any) -> Any:
        pieces = tuple(next(turn) for _ in words.labels)
        labels = tuple(f"{text}{number}" for number, text in enumerate(pieces))
        return replace(words, pieces=pieces, labels=labels)

    return replace(
        trace,
        source=named(trace.source),
        produced=named(trace.produced),
        target=named(trace.target),
        manifest=trace.manifest | {"model": texts[0]},
    )


def test_payloads_are_many_and_each_stands_once() -> None:
    assert len(PAYLOADS) >= 60
    texts, names = {one.text for one in PAYLOADS}, {one.name for one in PAYLOADS}
    assert len(texts) == len(names) == len(PAYLOADS)


@pytest.mark.slow
def test_html_of_the_pages() -> None:
    def pages(trace: Trace, text: str) -> list[Any]:
        words = {"layer": [1], "best": [text], "probability": [0.5], "rank": [1]}
        shown = [outcome(trace), candidates(trace, None, 1, [text] * 20)]
        shown.append(vector_change(trace, trace))
        return [*(active(one.html) for one in shown), active(lens_table(pd.DataFrame(words), text))]

    known = pages(make_trace(), "a")
    for one in PAYLOADS:
        assert active(changed_words("a b", f"a {one.text}")) == ([], []), one.name
        assert active(changed_words(one.text, one.text)) == ([], []), one.name
        assert pages(spelled(one.text), one.text) == known, one.name


def test_the_report_and_its_frame_in_a_notebook() -> None:
    for texts in GROUPS:
        page = report(spelled(*texts), title="".join(texts))
        assert active(page) == REPORT, texts
        found = Elements(framed(page, title=texts[-1], height=100))
        assert found.found == ["iframe"] and not found.odd, texts


def test_the_worksheet() -> None:
    def pages(text: str) -> list[Any]:
        questions = [Page(station, None, text) for station in STATIONS]
        sheets = worksheet(questions, text, text, text), answer_sheet(questions, text, text)
        return [active(sheet) for sheet in sheets]

    known = pages("a")
    assert not [one.name for one in PAYLOADS if pages(one.text) != known]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")  # a font need not have invisible characters
@pytest.mark.parametrize("picture", ["map", "lines"])
def test_svg(picture: str) -> None:
    """Parsed strictly, as a browser parses a file of its own: outlines and words alone."""
    for texts in GROUPS:
        content = exported(spelled(*texts), "svg", picture, ("cross", 0, 1))
        assert b"<!ENTITY" not in content and b"<?xml-stylesheet" not in content, texts
        for element in ElementTree.fromstring(content).iter():
            tag = str(element.tag).removeprefix("{http://www.w3.org/2000/svg}").lower()
            assert tag not in ACTIVE - {"svg", "use", "style", "image"}, texts
            for name, value in element.attrib.items():
                plain = name.rpartition("}")[2]
                assert not plain.startswith("on"), texts
                assert plain != "href" or value.startswith(("#", "data:image/png")), texts


def test_csv() -> None:
    """No cell begins a formula, none ends its row, and a reader reads what came."""
    for one in PAYLOADS:
        table = pd.DataFrame({"word": [one.text, "b"], one.text: [1.0, 2.0]})
        rows = list(csv.reader(io.StringIO(csv_text(table))))
        assert len(rows) == 3 and {len(row) for row in rows} == {2}, one.name
        for cell in (rows[0][1], rows[1][0]):
            assert not (cell.startswith(BEGINS) and len(cell) > 1), one.name
            wanted = one.text.replace("\r", " ").removeprefix("'")
            assert cell.removeprefix("'") == wanted, one.name
    for one in CSV:
        content = exported(spelled(one.text), "csv", "map", ("cross", 0, 1)).decode()
        for row in csv.reader(io.StringIO(content)):
            assert not [cell for cell in row if cell.startswith(("=", "+", "@", "\t", "\r"))], one


def test_markdown() -> None:
    """Nothing that Markdown reads stands unescaped, and nothing becomes a link by itself.

    The rule for links is that of GitHub's extension, which reads the text without its escapes.
    """
    means = re.compile(r"(?<!\\)[`*_{}\[\]()#+!<>~$|&:-]")
    linked = re.compile(r"https?://[-.\w]|www\.[-\w]|[-\w.+]+@[-\w]+\.\w", re.I)
    for one in PAYLOADS:
        shown = escape_markdown(one.text)
        read = re.sub(r"\\(.)", r"\1", shown)
        assert not means.search(shown) and not linked.search(read), one.name
        assert "".join(c for c in read if c != "\u2060") == one.text, one.name


@pytest.mark.slow
def test_the_terminal() -> None:
    """Also of the repr of a trace."""
    for one in PAYLOADS:
        shown, kinds = inert(one.text), {unicodedata.category(c) for c in one.text}
        assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"], one
        told = sentence(ValueError(one.text or "x"))
        assert all(c.isprintable() or c in JOINERS for c in told), one.name
        assert kinds & {"Cc", "Zl", "Zp"} or shown == one.text, one.name
        line = repr(spelled(one.text))
        assert inert(line) == line and "\n" not in line, one.name


def test_no_command_prints_a_control_character(tmp_path: Path) -> None:
    """In the words of an error, in names of weights, and in what a model writes."""
    control = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
    weights = str(tmp_path / "w.pt")
    for one in PAYLOADS:
        if one.door != "terminal":
            continue
        torch.save({f"{one.text}.b": torch.zeros(2)}, weights)
        for words in (
            ("inspect", weights),
            ("trace", one.text, "a"),
            ("translate", one.text),
            ("export", one.text, "--out", "x.csv"),
            ("inspect", weights, "--set", f"{one.text}=1"),
        ):
            done = CliRunner().invoke(main, list(words), input="a\n")
            assert done.exit_code == 2, (one.name, words)
            assert not control.search(done.output), (one.name, words, done.output)


def test_a_refusal_of_the_server_repeats_nothing_of_the_request() -> None:
    for what in ("frame", "upload", "volume", "page"):
        told = visit_limits.sentence(what, 1)
        assert not [one.name for one in PAYLOADS if one.text in told], what
