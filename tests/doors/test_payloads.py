"""Texts that mean something elsewhere, on every door out of the program: they stay text."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from tests.support.payloads import CSV, PAYLOADS, Payload
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

each = pytest.mark.parametrize("payload", PAYLOADS, ids=lambda one: one.name)
NAMED = {payload.name: payload for payload in PAYLOADS}
#: Elements that run or fetch something, or take the page over.
STRANGE = {
    *("script", "iframe", "object", "embed", "base", "link", "meta", "form", "input", "template"),
    *(
        "img",
        "image",
        "svg",
        "use",
        "animate",
        "foreignobject",
        "body",
        "textarea",
        "video",
        "style",
    ),
}


def test_there_are_sixty_and_each_once() -> None:
    assert len(PAYLOADS) >= 60
    assert len({one.text for one in PAYLOADS}) == len(NAMED) == len(PAYLOADS)


#: What a report holds: its policy, its style, and its own two scripts.
PLAIN = (["meta"] * 4 + ["style", "body", "script", "script"], [])


class Elements(HTMLParser):
    """The elements of a page, and the attributes that run or fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.odd: list[tuple[str, str | None]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.odd += [
            (name, value)
            for name, value in attrs
            if name.startswith("on") or (name in ("href", "src", "action") and _leads_away(value))
        ]


def _leads_away(value: str | None) -> bool:
    return bool(re.match(r"\s*(?:[a-z]+:|//)", value or "", re.I))


def inside(page: str) -> tuple[list[str], list[tuple[str, str | None]]]:
    """The strange elements and attributes of a page."""
    found = Elements(page)
    return [tag for tag in found.found if tag in STRANGE], found.odd


def spelled(*texts: str) -> Trace:
    """A trace whose words are these texts in turn, and so is the name of its model."""
    trace, turn = make_trace(), cycle(texts)

    def named(words: Any) -> Any:
        pieces = tuple(next(turn) for _ in words.labels)
        labels = tuple(f"{text}{number}" for number, text in enumerate(pieces))
        return replace(words, pieces=pieces, labels=labels)

    assert trace.target is not None and trace.produced is not None
    return replace(
        trace,
        source=named(trace.source),
        target=named(trace.target),
        produced=named(trace.produced),
        manifest=trace.manifest | {"model": texts[0]},
    )


#: A page or a picture takes half a second: one for as many as it has words.
TOGETHER = [tuple(one.text for one in PAYLOADS[at : at + 9]) for at in range(0, len(PAYLOADS), 9)]
together = pytest.mark.parametrize("texts", TOGETHER, ids=lambda texts: texts[0][:12])


@each
def test_html_of_the_pages(payload: Payload) -> None:
    trace, known = spelled(payload.text), make_trace()
    assert inside(changed_words("a b", f"a {payload.text}")) == ([], [])
    assert inside(changed_words(payload.text, payload.text)) == ([], [])
    for shown, known_one in (
        (outcome(trace), outcome(known)),
        (candidates(trace, None, 1, [payload.text] * 20), candidates(known, None, 1, ["a"] * 20)),
        (vector_change(trace, trace), vector_change(known, known)),
    ):
        assert inside(shown.html) == inside(known_one.html)
    words = pd.DataFrame({"layer": [1], "best": [payload.text], "probability": [0.5], "rank": [1]})
    assert inside(lens_table(words, payload.text)) == inside(
        lens_table(words.assign(best="a"), "a")
    )


@together
def test_the_report_and_its_frame_in_a_notebook(texts: tuple[str, ...]) -> None:
    page = report(spelled(*texts), title="".join(texts))
    assert inside(page) == PLAIN
    found = Elements(framed(page, title=texts[-1], height=100))
    assert found.found == ["iframe"] and not found.odd


@each
def test_what_a_notebook_prints_of_a_trace_is_one_line(payload: Payload) -> None:
    shown = repr(spelled(payload.text))
    assert inert(shown) == shown and "\n" not in shown


@each
def test_the_worksheet(payload: Payload) -> None:
    pages = [Page(station, None, payload.text) for station in STATIONS]
    plain = [Page(station, None, "a") for station in STATIONS]
    page = worksheet(pages, payload.text, payload.text, payload.text)
    assert inside(page) == inside(worksheet(plain, "a", "a", "a"))
    told = answer_sheet(pages, payload.text, payload.text)
    assert inside(told) == inside(answer_sheet(plain, "a", "a"))


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.filterwarnings("ignore:Glyph")  # a font need not have what nobody sees
@pytest.mark.parametrize("picture", ["map", "lines"])
@together
def test_svg(texts: tuple[str, ...], picture: str) -> None:
    """Parsed strictly, as a browser parses a file of its own: outlines and words alone."""
    content = exported(spelled(*texts), "svg", picture, ("cross", 0, 1))
    assert b"<!ENTITY" not in content and b"<?xml-stylesheet" not in content
    for element in ElementTree.fromstring(content).iter():
        tag = str(element.tag).removeprefix(SVG).lower()
        assert tag not in STRANGE - {"svg", "use", "style", "image"}
        for name, value in element.attrib.items():
            plain = name.rpartition("}")[2]
            assert not plain.startswith("on")
            assert plain != "href" or value.startswith(("#", "data:image/png"))


@each
def test_csv(payload: Payload) -> None:
    """No cell begins a formula, none ends its row, and what a reader reads is what came."""
    table = pd.DataFrame({"word": [payload.text, "b"], payload.text: [1.0, 2.0]})
    rows = list(csv.reader(io.StringIO(csv_text(table))))
    assert len(rows) == 3 and {len(row) for row in rows} == {2}
    for cell in (rows[0][1], rows[1][0]):
        assert not (cell.startswith(BEGINS) and len(cell) > 1)
        assert cell.removeprefix("'") == payload.text.replace("\r", " ").removeprefix("'")


@pytest.mark.parametrize("payload", CSV, ids=lambda one: one.name)
def test_csv_of_a_run(payload: Payload) -> None:
    content = exported(spelled(payload.text), "csv", "map", ("cross", 0, 1)).decode()
    for row in csv.reader(io.StringIO(content)):
        assert not [cell for cell in row if cell.startswith(("=", "+", "@", "\t", "\r"))]


MARKDOWN_MEANS = re.compile(r"(?<!\\)[`*_{}\[\]()#+!<>~$|&:-]")
LINKED = re.compile(r"https?://[-.\w]|www\.[-\w]|[-\w.+]+@[-\w]+\.\w", re.I)


@each
def test_markdown(payload: Payload) -> None:
    """Nothing that Markdown reads stands unescaped, and nothing becomes a link by itself.

    The rule for links is that of GitHub's extension, which reads the text without its escapes.
    """
    shown = escape_markdown(payload.text)
    assert not MARKDOWN_MEANS.search(shown)
    read = re.sub(r"\\(.)", r"\1", shown)
    assert not LINKED.search(read)
    assert "".join(c for c in read if c != "\u2060") == payload.text


@each
def test_the_terminal(payload: Payload) -> None:
    shown = inert(payload.text)
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    told = sentence(ValueError(payload.text or "x"))
    assert all(c.isprintable() or c in JOINERS for c in told)
    if not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in payload.text):
        assert shown == payload.text


@pytest.mark.parametrize("name", [one.name for one in PAYLOADS if one.door == "terminal"])
def test_no_command_of_the_command_line_lets_one_through(name: str, tmp_path: Path) -> None:
    """In the words of an error, in names of weights, and in what a model writes."""
    text = NAMED[name].text
    torch.save({f"{text}.b": torch.zeros(2)}, tmp_path / "w.pt")
    for words in (
        ("inspect", str(tmp_path / "w.pt")),
        ("trace", text, "a"),
        ("translate", text),
        ("export", text, "--out", "x.csv"),
        ("inspect", str(tmp_path / "w.pt"), "--set", f"{text}=1"),
    ):
        done = CliRunner().invoke(main, list(words), input="a\n")
        assert done.exit_code == 2
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.output), done.output

    @click.command()
    def speaks() -> None:
        click.echo(inert(text))

    done = CliRunner().invoke(speaks)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.output)


@each
def test_json_of_the_command_line(payload: Payload) -> None:
    """What ``--json`` prints has no control character: JSON escapes them, and bidi marks too."""
    text = json.dumps({payload.text: payload.text})
    assert (
        json.loads(text) == {payload.text: payload.text} and text.isascii() and text.isprintable()
    )


@each
def test_a_refusal_of_the_server_says_nothing_of_what_came(payload: Payload) -> None:
    for what in ("frame", "upload", "volume", "page"):
        assert payload.text not in visit_limits.sentence(what, 1)
