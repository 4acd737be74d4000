"""The twelve notebooks, as they ran while the site was built: what their text promises is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import transformer_viz as tv
from docs.site.gallery import SRCDOC, name_of, sources
from docs.site.hub_model import NAME, written
from transformer_viz.lessons import STATIONS

pytestmark = [pytest.mark.process, pytest.mark.shipped]


def cells(site: Path, name: str) -> list[dict[str, object]]:
    notebook = json.loads((site / "gallery" / f"{name}.ipynb").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = notebook["cells"]
    return found


def said(site: Path, name: str) -> str:
    """All that the cells of a notebook printed."""
    texts = []
    for cell in cells(site, name):
        for output in cell.get("outputs", []):  # type: ignore[attr-defined]
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            texts.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(texts)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


def test_each_of_twelve_ran_to_its_end_and_says_what_to_try_next(site: Path) -> None:
    names = [name_of(path) for path in sources()]
    assert len(names) == 12
    for name in names:
        every = cells(site, name)
        code = [cell for cell in every if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in code), name
        kinds = {out["output_type"] for cell in code for out in cell["outputs"]}  # type: ignore[attr-defined]
        assert "error" not in kinds and "stderr" not in said(site, name), name
        assert "## What to try next" in "".join(every[-1]["source"]), name  # type: ignore[arg-type]
        page = (site / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert f'href="{name}.ipynb"' in page and "tv-said" in page, name
        for frame in re.findall(r'<iframe class="tv-frame" src="([^"]+)"', page):
            inside = (site / "gallery" / frame).read_text(encoding="utf-8")
            assert not re.search(r'(?:src|href)="https?:', inside), frame


def test_the_gallery_is_small(site: Path) -> None:
    whole = sum(path.stat().st_size for path in (site / "gallery").iterdir())
    assert whole < 15_000_000
    assert not [path for path in sources() if path.stat().st_size > 6_000]


def test_every_run_that_was_proved_is_green(site: Path) -> None:
    verdicts = [
        verdict
        for path in sources()
        for verdict in re.findall(r"verdict: (\w+)", said(site, name_of(path)))
    ]
    assert len(verdicts) >= 3 and set(verdicts) == {"green"}


def test_what_the_texts_promise_was_seen(site: Path) -> None:
    first = re.findall(r"temperature \d: (.*)", said(site, "first-look"))
    assert len(first) == 5 and len(set(first)) > 1, "a temperature changes a word"

    own = said(site, "own-pytorch-model")
    assert "update 400: 100%" in own and min(numbers(r"head \d: (\d+)%", own)[:2]) > 90
    assert numbers(r"head 0 and 1: (\d+)%", own)[0] < 25
    assert "once more, since nothing was changed: 100%" in own

    hub = said(site, "hub-model")
    assert "asked for: gallery/small-gpt2" in hub, "the page names what answered"
    assert numbers(r"largest difference of any weight: (.*)", hub)[0] < 1e-5
    assert "There is no model gallery/no-such-model" in hub

    none, heads = numbers(r"no role found: (\d+)", said(site, "head-roles"))[0], 80
    assert heads / 2 < none < heads, "most have none, some have one"

    removal = said(site, "removal")
    together = re.findall(r"cross L\d: ([+-][\d.]+) nats.*, ([+-][\d.]+) if", removal)
    assert len(together) == 3
    assert max(abs(float(a) - float(b)) for a, b in together) > 0.1, "costs do not add up"

    why = said(site, "why-this-word")
    assert "asked about: es" in why and numbers(r"off from the logit by (.*)", why)[0] < 1e-4

    swapped = said(site, "swapping")
    assert "es sie" in swapped and numbers(r"moved together: (.*)", swapped)[0] > 0.9
    assert swapped.count("weil sie zu") >= 2, "the edit turns es into sie"

    long = said(site, "long-texts")
    assert set(numbers(r"(\d\.\d{6})", long)) == {1.0}
    assert numbers(r"largest difference from the matrix: (.*)", long)[0] < 2e-6

    assert len(re.findall(r"en-de-small\S* +“", said(site, "training-snapshots"))) == 8
    assert "sentences that are done, and all: 60 60" in said(site, "corpus")
    minutes = sum(station.minutes for station in STATIONS)
    assert f"{minutes} minutes in all" in said(site, "lesson-plan") and len(STATIONS) == 10


def test_pictures_of_notebooks_are_found_in_what_views_give() -> None:
    run = tv.trace(tv.load("en-de"), "The cat sat.", check=False)
    assert SRCDOC.search(tv.views.atlas(run)._repr_html_())


def test_the_model_of_the_small_hub_is_the_one_of_the_box(tmp_path: Path) -> None:
    theirs, ours = tv.load(written(tmp_path)), tv.load(NAME)
    for text in ("The weather is nice, isn't it?", 'She  said: "Zürich ½\ttomorrow".'):
        a, b = tv.trace(theirs, text, check=False), tv.trace(ours, text, check=False)
        assert a.source.ids == b.source.ids
        assert np.abs(a.logits - b.logits).max() < 1e-4
        assert torch.equal(
            torch.as_tensor(a.logits.argmax(-1)), torch.as_tensor(b.logits.argmax(-1))
        )
