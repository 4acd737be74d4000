"""The page Checkpoint in Chromium: a visitor's own files, and what is refused."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, expect

from tests.checkpoints.gpt import nanogpt_file
from tests.conftest import ramp
from tests.support import page_actions
from tests.support.page_actions import query
from tests.support.scripts import script
from transformer_viz import load
from transformer_viz.inference.inspection import inspect

HEADING = '[data-what="checkpoint"]'
FACTS = '[data-what="facts"]'


# ---- Files that a visitor may bring -------------------------------------------------------------


def nanogpt(folder: Path) -> Path:
    """``ckpt.pt`` as nanoGPT's training saves it."""
    return nanogpt_file(folder)[0]


def torch_core(folder: Path) -> Path:
    """The state dict of a ``torch.nn.Transformer``, which does not say how many heads it has."""
    core = torch.nn.Transformer(24, 6, 2, 2, 37, batch_first=True)
    torch.save(ramp(core).state_dict(), folder / "core.pt")
    return folder / "core.pt"


class Payload:
    """A pickle that would leave a file behind where it is opened carelessly."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


def hostile(folder: Path) -> Path:
    """A file of ``torch.save`` with a program in it."""
    out = io.BytesIO()
    torch.save({"weight": torch.zeros(2), "run": Payload(folder / "canary")}, out)
    (folder / "model.pt").write_bytes(out.getvalue())
    return folder / "model.pt"


def drop(page: Page, url: str, path: Path) -> None:
    """Open the page and drop a file there."""
    page.goto(f"{url}/checkpoint")
    expect(page.locator(FACTS)).to_be_visible()
    page.locator('.st-key-checkpoint-files input[type="file"]').set_input_files(path)


def opened(page: Page, text: str) -> None:
    """Until the facts of a model say this."""
    expect(page.locator(FACTS)).to_contain_text(text)


# ---- What becomes of them -----------------------------------------------------------------------


def give(page: Page, path: Path) -> None:
    page.locator('.st-key-checkpoint-files input[type="file"]').set_input_files(path)


def test_own_files_are_refused_or_opened(page: Page, url: str, tmp_path: Path) -> None:
    """Zips, paths, words put right: tests/app/pages/test_brought_files.py, test_checkpoint.py."""
    drop(page, url, hostile(tmp_path))
    alert = page.get_by_test_id("stAlert")
    expect(alert).to_contain_text("refused")
    assert "\n" not in alert.inner_text().strip()
    expect(page.locator(HEADING)).to_have_text("model.pt")
    assert page.get_by_role("button", name="Explore this model").count() == 0
    assert not (tmp_path / "canary").exists(), "a program in a file was run"

    path = nanogpt(tmp_path)
    give(page, path)  # Streamlit's box keeps the file before
    opened(page, "layout nanogpt")
    expect(page.locator(HEADING)).to_have_text("ckpt.pt")
    seen = inspect(load(str(path)))
    opened(page, f"{seen.parameters:,} parameters")
    for number, finding in enumerate(seen.findings):
        place = page.locator(f'[data-what="finding-{number}"]')
        expect(place).to_contain_text(finding.sentence)
        expect(place).to_have_attribute("data-status", finding.status)
    (tmp_path / "README.md").write_text("Learned from nothing.", encoding="utf-8")
    give(page, tmp_path / "README.md")  # what stands beside the weights joins them
    expect(page.locator(HEADING)).to_have_text("ckpt")
    opened(page, "layout nanogpt")
    assert alert.count() == 0
    page_actions.click(page, "Explore this model")
    page_actions.shows_page(page, "Explore")
    expect(page.locator(".st-key-atlas [data-painted]")).to_be_visible()
    expect(page.get_by_role("combobox", name="Model")).to_have_value(re.compile("^ckpt"))
    assert query(page)["model"].startswith("upload:ckpt")
    _names_on_a_dark_phone(page, url, tmp_path)


def _names_on_a_dark_phone(page: Page, url: str, folder: Path) -> None:
    """The button of the form of names stands out, and a guess stands below its name."""
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme="dark")
    core = torch.load(torch_core(folder))
    words = {name: torch.zeros(9, 24) for name in ("woerter", "words", "speak.weight")}
    torch.save({**words, **{f"machine.{key}": core[key] for key in core}}, folder / "mine.pt")
    drop(page, url, folder / "mine.pt")
    button = page.get_by_role("button", name="Open with these names")
    expect(button).to_be_visible()
    contrast = f"button => ({script('contrast')})(button) >= 4.5"
    page.wait_for_function(contrast, arg=button.element_handle(), timeout=10_000)
    page.locator(".st-key-card-names").get_by_role("spinbutton").first.fill("6")
    button.click()
    expect(page.locator('[data-what="names-mapped"]')).to_be_visible()
    row = page.locator(".st-key-row-norm")
    name, control = row.locator(".tv-guess").bounding_box(), row.locator("input").bounding_box()
    assert name and control and name["y"] + name["height"] <= control["y"] + 1
