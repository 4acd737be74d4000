"""Takes the pictures in docs/pictures from the running app: `make screenshots`.

    python docs/make_screenshots.py [screens] [pages] [present] [uploads] [inputs]

Starts the app on a free port, opens it in the system's Chromium, and ends it again. `screens` are
the first screen, in windows of four sizes, before and after a move of the slider; `pages` are the
pages, light and dark, wide and narrow, with an edit active, and Explore for each kind of model;
`present` is what a class sees on the wall; `uploads` what the page Checkpoint makes of four files
that a visitor drops there; `inputs` are the strange inputs of `tests/support/odd_inputs.py`, each
with what the screen then says; it also writes docs/inputs.md.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.app.test_checkpoint import drop, hostile, nanogpt, torch_core  # noqa: E402
from tests.conftest import SENTENCES, ramp  # noqa: E402
from tests.support.browser import FLAGS, chromium, running_app  # noqa: E402
from tests.support.odd_inputs import ODD, OPENED, TYPED, Input, do, odd_app, said  # noqa: E402
from tests.support.rest import rest  # noqa: E402
from transformer_viz.checkpoints import available  # noqa: E402
from transformer_viz.core.interventions import (  # noqa: E402
    Intervention,
    ScalePositions,
    SwapHead,
    Temperature,
)
from transformer_viz.views.paper import fonts  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
TABLE = ROOT / "docs" / "inputs.md"
WARM = Intervention((Temperature(value=2.5, stack="decoder", block="cross"),)).to_json()
HALF = Intervention((ScalePositions(value=0.25),)).to_json()
WIDE = "The animal didn't cross the street because it was too wide."
SWAPPED = Intervention(
    (SwapHead(source=WIDE, stack="decoder", block="cross", layer=1, head=2),)
).to_json()
Shot = tuple[str, str, dict[str, Any]]
#: Name of the picture, page, and the link that shows something worth seeing.
SHOTS: tuple[Shot, ...] = (
    (
        "explore",
        "",
        {"edits": WARM, "layer": 1, "head": 7, "token": 6, "answer": 6, "scope": "block"},
    ),
    (
        "positions",
        "positions",
        {"edits": HALF, "block": "encoder", "layer": 0, "head": 5, "pair": 12, "place": 6},
    ),
    (
        "norms",
        "norms",
        {
            "edits": WARM,
            "stack": "decoder",
            "site": "decoder.norm",
            "word": 8,
            "compare": "difference",
        },
    ),
    ("heads", "heads", {"block": "encoder", "heads_by": "previous", "layer": 2, "head": 3}),
    ("why", "why", {"answer": 3}),
    ("swap", "swap", {"edits": SWAPPED}),
    ("corpus", "corpus", {"corpus": "box", "corpus_by": "entropy", "block": "encoder"}),
    ("compare", "compare", {"versus": "step", "moments": "256,16384"}),
    ("align", "align", {"aligned": "2", "aligned_row": "out"}),
    ("checkpoint", "checkpoint", {}),
    ("about", "about", {}),
)
#: Explore once more: all blocks with several heads as lines, and how one weight comes about.
VIEWS: tuple[Shot, ...] = (
    (
        "lines",
        "",
        {"blocks": "all", "view": "lines", "layer": 1, "head": 7, "overlay": "1.3,2.0", "token": 6},
    ),
    ("qk", "", {"edits": WARM, "view": "qk", "layer": 1, "head": 7, "token": 6, "sort": "entropy"}),
)
#: Explore once more for each other kind of model in the box; one that is not there is left out.
KINDS: tuple[Shot, ...] = (
    ("language", "", {"model": "en-lm"}),
    ("masked", "", {"model": "en-mlm"}),
    ("picture", "", {"model": "digits", "over": "gradients"}),
)
#: What a class works with: the pages of an hour, and a page in Chinese.
CLASS: tuple[Shot, ...] = (
    ("inside", "step-inside", {"layer": 1, "head": 7, "token": 6, "step": 11}),
    ("play", "play", {"layer": 1, "played": 9}),
    ("labs", "labs", {"lab": "scale", "tried": "guess=0"}),
    ("lessons", "lessons", {}),
    ("station", "", {"station": 2, "block": "encoder", "layer": 1, "head": 0, "token": 6}),
    ("chinese", "", {"lang": "zh", "edits": WARM, "layer": 1, "head": 7, "token": 6}),
)
WALL = {"width": 1280, "height": 720}
#: The first screen: hand and pictures, without scrolling.
SCREENS = ((1440, 900), (1280, 720), (1024, 768), (400, 850))
FIRST: tuple[Shot, ...] = (
    ("before", "", {"layer": 1, "head": 7, "token": 8}),
    ("after", "", {"edits": WARM, "layer": 1, "head": 7, "token": 8}),
    ("chinese", "", {"lang": "zh", "edits": WARM, "layer": 1, "head": 7, "token": 8}),
)
#: What tells that a page stands, where that is not the footer.
STANDS = {
    "about": "h3",
    "lessons": ".st-key-lesson-path, h2",
    "checkpoint": '[data-what="finding-2"]',
    "corpus": ".st-key-card-corpus-head img",
}
WIDTHS = {1440: "", 800: "-800"}
COLOURS = ("light", "dark")
MOST = {"page": 350_000, "input": 60_000}  # bytes of a picture
CLIP = {"x": 0, "y": 0, "width": 1000, "height": 500}
HEAD = """# Strange input, and what the screen says

Written by `make screenshots`; do not edit. What was done stands left, then the exact sentence
that the app showed, then the top of the screen. `tests/browser/app/test_inputs.py` holds the app to
this list.

| what was done | what the screen says | the screen |
|---|---|---|
"""


def main(asked: Sequence[str]) -> None:
    """Take every picture, or only those asked for; none where Chinese would be empty boxes."""
    if said := fonts.advice(fonts.missing("中文")):
        sys.exit(said[0])
    jobs = {
        "screens": screens,
        "pages": pages,
        "present": present,
        "uploads": uploads,
        "inputs": inputs,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for name in asked or jobs:
            jobs[name](browser)
        browser.close()


def tab(browser: Browser, width: int, colours: str = "light") -> Page:
    """A fresh visit."""
    context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=colours)
    page = context.new_page()
    page.set_default_timeout(60_000)
    return page


def pages(browser: Browser) -> None:
    """Every page at both widths, light and dark."""
    with running_app() as url:
        for colours in COLOURS:
            for width, ending in WIDTHS.items():
                page = tab(browser, width, colours)
                for name, path, words in (*SHOTS, *VIEWS, *CLASS, *kinds()):
                    page.set_viewport_size({"width": width, "height": 1000})
                    page.goto(f"{url}/{path}?{urlencode(words)}")
                    page.locator(STANDS.get(path, ".tv-foot")).first.wait_for()
                    whole(page, width, PICTURES / f"{name}-{colours}{ending}.png")
                page.context.close()


def screens(browser: Browser) -> None:
    """The first screen in windows of four sizes, light and dark."""
    with running_app() as url:
        for colours in COLOURS:
            page = tab(browser, 1440, colours)
            for width, height in SCREENS:
                page.set_viewport_size({"width": width, "height": height})
                for name, path, words in FIRST:
                    page.goto(f"{url}/{path}?{urlencode(words)}")
                    page.locator(".tv-foot").wait_for()
                    rest(page, still=800)
                    place = PICTURES / "screens" / f"{name}-{width}-{colours}.png"
                    keep(page.screenshot(), place, MOST["page"])
            page.context.close()


def present(browser: Browser) -> None:
    """The screen of a projector, light and dark: a page, and nothing that must be scrolled to."""
    shots = [(name, path, words | {"present": "on"}) for name, path, words in (SHOTS[0], *CLASS)]
    with running_app() as url:
        for colours in COLOURS:
            page = tab(browser, WALL["width"], colours)
            page.set_viewport_size(WALL)
            for name, path, words in shots[:-1]:
                page.goto(f"{url}/{path}?{urlencode(words)}")
                page.locator("[data-present]").first.wait_for(state="attached")
                rest(page, still=800)
                place = PICTURES / "present" / f"{name}-{colours}.png"
                keep(page.screenshot(), place, MOST["page"])
            page.context.close()


def kinds() -> list[Shot]:
    """The pictures of models that are in the box."""
    return [shot for shot in KINDS if shot[2]["model"] in available()]


def bert_zip(folder: Path) -> Path:
    """Write a tiny BERT with random weights and a WordPiece vocabulary, its folder zipped."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast, utils

    words = sorted({word.strip(".,").lower() for text in SENTENCES for word in text.split()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "'", "##s", *words]
    inside = folder / "inside" / "tiny-bert"
    inside.mkdir(parents=True)
    (inside / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        BertTokenizerFast(str(inside / "vocab.txt")).save_pretrained(inside)
        sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
        config = BertConfig(vocab_size=len(pieces), intermediate_size=37, **sizes)
        model = BertForMaskedLM(config)
    ramp(model)
    model.save_pretrained(inside)
    return Path(shutil.make_archive(str(folder / "tiny-bert"), "zip", inside.parent))


FILES = {"nanogpt": nanogpt, "bert": bert_zip, "core": torch_core, "hostile": hostile}


def uploads(browser: Browser) -> None:
    """A file of each kind, dropped on the page Checkpoint; the core is told how many heads."""
    with running_app() as url, TemporaryDirectory() as folder:
        for name, make in FILES.items():
            place = Path(folder) / name
            place.mkdir()
            page = tab(browser, 1440)
            drop(page, url, make(place))
            if name == "core":
                box = page.locator(".st-key-row-heads").get_by_role("textbox")
                box.fill("6")
                box.press("Enter")
                page.get_by_text("you said so").first.wait_for()
            ends = ".stAlert" if name == "hostile" else STANDS["checkpoint"]
            page.locator(ends).first.wait_for()
            whole(page, 1440, PICTURES / "uploads" / f"{name}.png")
            page.context.close()


def whole(page: Page, width: int, path: Path) -> None:
    """The whole page in one picture: the window is made as tall as what is in it."""
    for _ in range(2):  # a taller window may itself change what is in it
        rest(page, still=800)
        tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        page.set_viewport_size({"width": width, "height": int(tall)})
    rest(page, still=800)
    keep(page.screenshot(), path, MOST["page"])


def keep(png: bytes, path: Path, most: int) -> None:
    """Write a picture with 256 colours, or with fewer until it is small enough.

    Rare colours are kept by their cover, and one round of means makes the frequent ones exact.

    Raises:
        ValueError: it stays too large; says by how much.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.open(BytesIO(png)).convert("RGB")
    for colours in (256, 128, 64, 32):
        small = BytesIO()
        few = image.quantize(colours, Image.Quantize.MAXCOVERAGE, 1, dither=Image.Dither.NONE)
        few.save(small, "PNG", optimize=True)
        if small.tell() <= most:
            path.write_bytes(small.getvalue())
            print(f"{path.relative_to(ROOT)}: {small.tell() / 1000:.0f} kB, {colours} colours")
            return
    raise ValueError(f"{path.name} takes {small.tell():,} bytes and may take {most:,}.")


def inputs(browser: Browser) -> None:
    """Every strange input, and the table of what came of it."""
    page = tab(browser, CLIP["width"])
    with running_app() as url:
        page.goto(url)
        page.locator(".tv-foot").wait_for()
        rows = [row(page, url, strange) for strange in (*TYPED, *OPENED)]
    with odd_app() as url:
        rows += [row(page, url, strange) for strange in ODD]
    page.context.close()
    TABLE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    print(TABLE.relative_to(ROOT))


def row(page: Page, url: str, strange: Input) -> str:
    """A line of the table: what was done, what the screen says, and its picture."""
    do(page, url, strange)
    page.wait_for_timeout(600)
    keep(page.screenshot(clip=CLIP), PICTURES / "inputs" / f"{strange.name}.png", MOST["input"])
    sentences = [cell(sentence) for sentence in said(page)]
    translation = page.locator('[data-what="translation"]')
    if translation.count():
        sentences.append(f"translation: *{cell(translation.inner_text())}*")
    picture = f"![{strange.done}](pictures/inputs/{strange.name}.png)"
    return f"| {cell(strange.done)} | {'<br>'.join(sentences)} | {picture} |"


def cell(text: str) -> str:
    """Text as a Markdown table shows it unchanged."""
    plain = "".join(f"\\{c}" if c in "\\`*_[]|~$" else c for c in escape(text, quote=False))
    return plain if len(plain) <= 400 else plain[:397] + "..."


if __name__ == "__main__":
    main(sys.argv[1:])
