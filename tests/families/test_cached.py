"""Families of the library decode with their own caches, and give what they give without."""

from __future__ import annotations

import pytest

from tests.support.versions import at_most
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Edit, Intervention, Temperature, Window
from transformer_viz.inference import generation
from transformer_viz.inference.decoding.key_value_cache import reads_on
from transformer_viz.inference.generation import translate
from transformer_viz.inference.inspection import sample_source
from transformer_viz.inference.token_ids import source_ids

from . import table
from .catalogue import FAMILIES

pytestmark = pytest.mark.families
EDITS = {"clean": None, "temperature": Temperature(value=2), "window": Window(radius=2)}


def opened() -> list[tuple[str, Model]]:
    """Those that write words from words."""
    found = [(family.name, table.opened(family)) for family in FAMILIES]
    return [
        (name, model)
        for name, model in found
        if isinstance(model, Model)
        and (model.gives, model.takes) == ("words", "text")
        and model.kind != "encoder-only"
    ]


OLD_JAMBA = at_most("transformers", "5.20")


@pytest.mark.parametrize("name", EDITS)
def test_the_same_ids_and_numbers(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    edit: Edit | None = EDITS[name]
    edits = None if edit is None else Intervention((edit,))
    cached = 0
    for family, model in opened():
        source = sample_source(model)
        if not reads_on(model, source_ids(model, source)):
            assert family == "jamba" and OLD_JAMBA  # it is decoded without one there
            continue
        cached += 1
        with_cache = translate(model, source, 3, None, edits, max_tokens=8)
        with monkeypatch.context() as patch:
            patch.setattr(generation, "reads_on", lambda *_: False)
            without = translate(model, source, 3, None, edits, max_tokens=8)
        assert [one.ids for one in with_cache] == [one.ids for one in without], family
        for one, other in zip(with_cache, without, strict=True):
            assert one.steps == pytest.approx(other.steps, abs=2e-5), family
    assert cached >= 20
