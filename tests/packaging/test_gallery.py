"""The notebooks, as they ran while the site was built: what their text promises is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transformer_viz as tv
from docs.site.gallery import SRCDOC, name_of, sources
from docs.site.hub_model import NAME, written
from transformer_viz.lessons import STATIONS

from .conftest import FEW

pytestmark = [pytest.mark.process, pytest.mark.shipped]
NAMES = tuple(name_of(path) for path in sources())


def cells(site: Path, name: str) -> list[dict[str, Any]]:
    notebook = json.loads((site / "gallery" / f"{name}.ipynb").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = notebook["cells"]
    return found


def said(site: Path, name: str) -> str:
    """All that the cells of a notebook printed."""
    texts = []
    for cell in cells(site, name):
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            texts.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(texts)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


def test_a_few_notebooks_ran_and_all_stand(site: Path) -> None:
    assert len(NAMES) == 12 and set(FEW) < set(NAMES)
    for name in FEW:
        _ran(site, name)
        PROMISES[name](said(site, name))
    for name in NAMES:
        page = (site / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert f'href="{name}.ipynb"' in page, name
        assert "## What to try next" in "".join(cells(site, name)[-1]["source"]), name


@pytest.mark.soak
def test_each_of_twelve_ran_to_its_end_and_promises_hold(whole_site: Path) -> None:
    verdicts: list[str] = []
    for name in NAMES:
        _ran(whole_site, name)
        text = said(whole_site, name)
        verdicts += re.findall(r"verdict: (\w+)", text)
        if name in PROMISES:
            PROMISES[name](text)
    assert len(verdicts) >= 3 and set(verdicts) == {"green"}, "every run that was proved"
    whole = sum(path.stat().st_size for path in (whole_site / "gallery").iterdir())
    assert whole < 15_000_000, "the gallery is small"


def _ran(site: Path, name: str) -> None:
    """Every cell ran without an error, and its pictures fetch nothing."""
    code = [cell for cell in cells(site, name) if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code), name
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert "error" not in kinds and "stderr" not in said(site, name), name
    assert set(re.findall(r"verdict: (\w+)", said(site, name))) <= {"green"}, name
    page = (site / "gallery" / f"{name}.html").read_text(encoding="utf-8")
    assert "tv-said" in page, name
    for frame in re.findall(r'<iframe class="tv-frame" src="([^"]+)"', page):
        inside = (site / "gallery" / frame).read_text(encoding="utf-8")
        assert not re.search(r'(?:src|href)="https?:', inside), frame


def _first_look(text: str) -> None:
    first = re.findall(r"temperature \d: (.*)", text)
    assert len(first) == 5 and len(set(first)) > 1, "a temperature changes a word"


def _own_model(text: str) -> None:
    assert "update 400: 100%" in text and min(numbers(r"head \d: (\d+)%", text)[:2]) > 90
    assert numbers(r"head 0 and 1: (\d+)%", text)[0] < 25
    assert "once more, since nothing was changed: 100%" in text


def _hub_model(text: str) -> None:
    assert "asked for: gallery/small-gpt2" in text, "the page names what answered"
    assert numbers(r"largest difference of any weight: (.*)", text)[0] < 1e-5
    assert "There is no model gallery/no-such-model" in text


def _roles(text: str) -> None:
    none, heads = numbers(r"no role found: (\d+)", text)[0], 80
    assert heads / 2 < none < heads, "most have none, some have one"


def _removal(text: str) -> None:
    together = re.findall(r"cross L\d: ([+-][\d.]+) nats.*, ([+-][\d.]+) if", text)
    assert len(together) == 3
    assert max(abs(float(a) - float(b)) for a, b in together) > 0.1, "costs do not add up"


def _why(text: str) -> None:
    assert "asked about: es" in text and numbers(r"off from the logit by (.*)", text)[0] < 1e-4


def _swapping(text: str) -> None:
    assert "es sie" in text and numbers(r"moved together: (.*)", text)[0] > 0.9
    assert text.count("weil sie zu") >= 2, "the edit turns es into sie"


def _long_texts(text: str) -> None:
    assert set(numbers(r"(\d\.\d{6})", text)) == {1.0}
    assert numbers(r"largest difference from the matrix: (.*)", text)[0] < 2e-6


def _snapshots(text: str) -> None:
    assert len(re.findall(r"en-de-small\S* +“", text)) == 8


def _corpus(text: str) -> None:
    assert "sentences that are done, and all: 60 60" in text


def _lesson_plan(text: str) -> None:
    minutes = sum(station.minutes for station in STATIONS)
    assert f"{minutes} minutes in all" in text and len(STATIONS) == 10


#: What a notebook's text promises, held against what its cells printed.
PROMISES = {
    "first-look": _first_look,
    "own-pytorch-model": _own_model,
    "hub-model": _hub_model,
    "head-roles": _roles,
    "removal": _removal,
    "why-this-word": _why,
    "swapping": _swapping,
    "long-texts": _long_texts,
    "training-snapshots": _snapshots,
    "corpus": _corpus,
    "lesson-plan": _lesson_plan,
}


def test_pictures_and_the_model_of_the_small_hub(tmp_path: Path) -> None:
    assert not [path for path in sources() if path.stat().st_size > 6_000]
    run = tv.trace(tv.load("en-de"), "The cat sat.", check=False)
    assert SRCDOC.search(tv.views.atlas(run)._repr_html_()), "pictures are found in what views give"
    theirs, ours = tv.load(written(tmp_path)), tv.load(NAME)
    for text in ("The weather is nice, isn't it?", 'She  said: "Zürich ½\ttomorrow".'):
        a, b = tv.trace(theirs, text, check=False), tv.trace(ours, text, check=False)
        assert a.source.ids == b.source.ids
        assert np.abs(a.logits - b.logits).max() < 1e-4
        assert torch.equal(
            torch.as_tensor(a.logits.argmax(-1)), torch.as_tensor(b.logits.argmax(-1))
        )
