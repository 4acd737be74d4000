"""The docs as a site: built without a warning, whole without a network, found by its search."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.measured_tables import read_table
from tests.support.paths import ROOT

FETCHED = re.compile(
    r"<(?:script|img|iframe|link rel=\"stylesheet\")[^>]*(?:src|href)=\"(https?:[^\"]*)"
)
#: What people ask, and the page that answers.
QUESTIONS = {
    "open my own checkpoint": "open-your-own.html",
    "head_view": "coming-from.html",
    "temperature": "site/api.html",
    "docker": "deploy.html",
    "export svg": "take-it-with-you.html",
    "long text": "take-it-with-you.html",
    "induction head": "demonstrations.html",
    "teacher notes": "teaching.html",
    "tested Hugging Face architectures": "tested-models.html",
    "what is promised": "security.html",
    "first look notebook": "gallery/first-look.html",
    "own PyTorch model notebook": "gallery/own-pytorch-model.html",
    "cost of removing a head": "gallery/removal.html",
    "Vision Transformer": "gallery/vit.html",
    "training step by step": "gallery/training-snapshots.html",
    "lesson plan": "gallery/lesson-plan.html",
    "which tool": "which-tool.html",
    "huggingface hub id": "hub.html",
    "worksheet to print": "teaching.html",
    "BertViz faster": "which-tool.html",
}

pytestmark = [pytest.mark.process, pytest.mark.shipped]


def test_every_page_is_there_and_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    written = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    assert {page.with_suffix(".html").as_posix() for page in written} <= pages
    assert {"changelog.html", "history.html", "contributing.html", "results.html"} <= pages
    fetched = {page: FETCHED.findall((site / page).read_text(encoding="utf-8")) for page in pages}
    assert not {page: addresses for page, addresses in fetched.items() if addresses}


def test_linked_tables_are_shown(site: Path) -> None:
    for page, table in (
        ("tested-models", "foreign-packages"),
        ("how-the-proof-works", "mutations"),
    ):
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        for row in read_table(table):
            assert all(f"<td>{cell}</td>" in text for cell in row.values() if cell.isalnum()), row
        assert (site / "tables" / f"{table}.csv").is_file(), table


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    missing = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its links begin at the root of a server
            continue
        links = re.findall(r"href=\"([^\"#?:]+\.html)", page.read_text(encoding="utf-8"))
        missing += [(page.name, link) for link in links if not (page.parent / link).is_file()]
    assert not missing


def test_its_search_finds_the_page_from_a_disk(site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    strange: list[str] = []
    page.on("request", lambda asked: asked.url.startswith("http") and strange.append(asked.url))
    page.on("pageerror", lambda error: strange.append(str(error)))
    page.goto((site / "index.html").as_uri())
    found = {}
    for question, answer in QUESTIONS.items():
        box = page.locator("input.md-search__input")
        box.fill(question[:-1])  # the search follows each key: one is enough
        box.press_sequentially(question[-1])
        links = page.locator(f".md-search-result__link[href*='{answer}']")
        links.first.wait_for(state="attached", timeout=20_000)
        every = page.locator(".md-search-result__link").evaluate_all("all => all.map(a => a.href)")
        places = [link.split("?")[0].removeprefix(site.as_uri() + "/") for link in every]
        found[question] = list(dict.fromkeys(places)).index(answer)
    assert max(found.values()) < 5, found
    assert not strange
    page.close()
