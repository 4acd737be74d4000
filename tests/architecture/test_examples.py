"""The examples of docs/add-a-*.md, taken from the page, put in their place, and seen at work."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.app.conftest import shelf as shelf
from tests.app.conftest import visit as visit
from tests.architecture.test_docs import blocks
from tests.support.page_content import html, told
from tests.support.paths import ROOT
from tests.views.conftest import make_trace
from transformer_viz import i18n, views
from transformer_viz.checkpoints import loader
from transformer_viz.model import Transformer


def example(page: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The first block of Python of a page, as a module of that name."""
    path = ROOT / "docs" / page
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    code = blocks(path, "python")[0]
    exec(compile(code, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def test_a_layout_opens_its_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, build_module: Callable[..., Transformer]
) -> None:
    layout = example("add-a-layout.md", "slashes", monkeypatch)
    module = build_module()
    tensors = {name.replace(".", "/"): tensor for name, tensor in module.state_dict().items()}
    save_file(tensors, tmp_path / "weights.safetensors")
    config = {"family": "slashes"} | module.config.to_dict()
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match="The layout of weights"):
        tv.load(tmp_path, device="cpu")
    monkeypatch.setattr(loader, "layouts", (*loader.layouts, layout))
    model = tv.load(tmp_path, device="cpu")
    assert model.provenance["heads"] == "file"
    assert all(
        torch.equal(ours, model.module.state_dict()[name])
        for name, ours in module.state_dict().items()
    )


def test_a_view_is_drawn_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    view = example("add-a-view.md", "transformer_viz.views.charts.distances", monkeypatch)
    monkeypatch.setitem(views.VIEW_MODULES, "distances", ".charts.distances")
    monkeypatch.setattr(views, "_fetch", views.lazy(views.__name__, views.VIEW_MODULES))
    assert views.VIEWS[-1].question == (view.__doc__ or "").partition("\n")[0]
    trace = make_trace()
    figure = views.VIEWS[-1].draw(trace, "encoder")
    first = trace.heads.query("stack == 'encoder' and layer == 0")
    assert np.allclose(figure.data[0].y, first["distance"]) and len(figure.data) == 2


def test_a_language_is_offered_and_spoken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "docs" / "add-a-language.md", "json")
    (tmp_path / "fr.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr(i18n, "HERE", tmp_path)
    i18n.catalogue.cache_clear()
    i18n.languages.cache_clear()
    try:
        assert i18n.languages() == {"en": "English", "fr": "Français"}
        with i18n.speaking("fr"):
            assert i18n.say("Explore") == "Explorer"
            assert i18n.say("{count} heads", count=8) == "8 têtes"
            assert i18n.say("Share") == "Share"  # what lacks is English
    finally:
        monkeypatch.undo()
        i18n.catalogue.cache_clear()
        i18n.languages.cache_clear()


@pytest.mark.app
def test_a_lab_asks_measures_and_answers(
    monkeypatch: pytest.MonkeyPatch, visit: Callable[..., AppTest]
) -> None:
    from transformer_viz.app.pages import labs

    lab = example("add-a-lab.md", "flatness", monkeypatch).FLATNESS
    monkeypatch.setattr(labs, "LABS", (*labs.LABS, lab))
    app = visit("labs", lab="flatness")
    assert not app.exception and lab.question in html(app)
    assert "bits in the mean" not in html(app)
    app.button(key="guess-flatness-0").click().run()
    assert not app.exception and not app.error, told(app)
    found = re.search(r"([\d.]+) bits in the mean; even weights would give (\d+\.\d+)", html(app))
    assert found is not None
    held = "right" if float(found[1]) > float(found[2]) / 2 else "wrong"
    assert f'data-held="{held}"' in html(app)
    assert "Trained heads choose" in html(app)
