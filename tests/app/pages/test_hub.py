"""A model of the Hub on the page Checkpoint: size, fetch, stop, open; and who may have which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.hub_fixtures import folder, hub
from tests.support.hub_server import Hub
from transformer_viz import reach
from transformer_viz.app.engine import hub_models, model_names
from transformer_viz.app.engine.model_catalog import Shelf
from transformer_viz.app.engine.task import Abandoned, Task
from transformer_viz.checkpoints.hub.ids import HubId
from transformer_viz.checkpoints.hub.snapshots import cached

from ...support.page_content import address, go, html, said

__all__ = ["folder", "hub"]
pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
ID = "tiny/gpt2"


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The app as its owner starts it on this machine."""
    monkeypatch.setenv("TRANSFORMER_VIZ_HUB", "any")
    monkeypatch.setenv(reach.REACH, "machine")
    monkeypatch.setattr(hub_models, "_shown", set())
    yield


def typed(app: AppTest, text: str) -> AppTest:
    return app.text_input(key="checkpoint-hub").set_value(text).run()


def test_an_id_its_size_a_click_and_its_picture(
    visit: Visit, hub: Hub, folder: Callable[[str], Path]
) -> None:
    hub.add(ID, folder("gpt2"))
    app = typed(go(visit(), "checkpoint"), ID)
    assert not app.exception
    sizes = [path.stat().st_size for path in folder("gpt2").iterdir()]
    assert f"{sum(sizes) / 1000:.0f} kB in {len(sizes)} files" in html(app)
    assert hub.weights_asked() == []  # nothing large before the click
    app.button(key="hub-fetch").click().run()
    assert not app.exception and len(hub.weights_asked()) == 1
    assert "layout hugging_face" in said(app, "facts")
    app.button(key="explore").click().run()
    assert address(app)["model"] == ID
    later = go(visit(model=ID), "checkpoint")  # another visit, from the link alone
    assert not later.exception and "layout hugging_face" in said(later, "facts")
    assert len(hub.weights_asked()) == 1


def test_a_link_fetches_nothing_and_says_where(
    visit: Visit, hub: Hub, folder: Callable[[str], Path]
) -> None:
    hub.add(ID, folder("gpt2"))
    app = visit(model=f"{ID}@main")
    assert not app.exception and hub.asked == []
    assert any("is not on this server yet" in one.value for one in app.warning)
    assert app.session_state["checkpoint"] == f"hub:{ID}@main"
    app = go(app, "checkpoint")
    assert [one.key for one in app.button if one.key == "hub-fetch"] == ["hub-fetch"]


def test_the_other_model_of_compare_is_named_like_the_first(
    visit: Visit, hub: Hub, folder: Callable[[str], Path]
) -> None:
    hub.add(ID, folder("gpt2"))
    gone = visit(beside=ID)
    assert not gone.exception and hub.asked == []
    assert any("is not on this server yet" in one.value for one in gone.warning)
    assert gone.session_state["checkpoint"] == f"hub:{ID}" and not gone.session_state["beside"]
    hub_models.fetch(hub_models.look(HubId(ID)), Task())
    app = go(visit(model="en-lm", beside=ID, versus="model"), "compare")
    assert not app.exception and address(app)["beside"] == ID
    chosen = app.selectbox(key="compare-model")
    assert chosen.value == f"hub:{ID}" and len(chosen.options) > 1


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("tiny//gpt2", "is no id of the Hub"),
        ("tiny/none", "There is no model tiny/none here"),
        ("tiny/mamba", "A mamba model has no attention that could be shown"),
    ],
)
def test_a_refusal_is_a_sentence(text: str, read: str, visit: Visit, hub: Hub) -> None:
    hub.add("tiny/mamba", {"config.json": b'{"model_type": "mamba"}', "model.safetensors": b"x"})
    app = typed(go(visit(), "checkpoint"), text)
    assert not app.exception
    assert any(read in one.value.replace("\\", "") for one in app.error)
    assert hub.weights_asked() == []


def test_a_stop_keeps_what_came(hub: Hub, folder: Callable[[str], Path]) -> None:
    files = {path.name: path.read_bytes() for path in folder("gpt2").iterdir()}
    hub.add(ID, files | {"model.safetensors": bytes(2**20)})
    plan, task = hub_models.look(HubId(ID)), Task()

    class Stopping(Task):
        def step(self, done: int, of: int) -> None:
            if done > 500_000:
                self.abandon()
            super().step(done, of)

    with pytest.raises(Abandoned):
        hub_models.fetch(plan, Stopping())
    assert cached(HubId(ID)) is None and hub_models.look(HubId(ID)).here > 500_000
    hub_models.fetch(plan, task)
    assert task.done == 1.0 and hub.weights_asked()[-1].startswith("bytes=")


def test_off_there_is_no_box_and_a_link_says_who_decides(
    visit: Visit, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_VIZ_HUB", "off")
    app = go(visit(checkpoint=ID), "checkpoint")
    assert not app.exception and hub.asked == []
    assert [one.key for one in app.text_input if one.key == "checkpoint-hub"] == []
    assert any("opens no models of the Hub" in one.value for one in app.error)


def test_a_list_allows_its_models_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMER_VIZ_HUB", "listed")
    monkeypatch.setenv("TRANSFORMER_VIZ_HUB_LIST", "tiny/gpt2, Tiny/Bert")
    assert hub_models.name_of("tiny/gpt2@v2") == "hub:tiny/gpt2@v2"
    assert hub_models.name_of("tiny/bert") == "hub:tiny/bert"
    with pytest.raises(ValueError, match="opens only some models of the Hub: tiny/gpt2, Tiny/Bert"):
        hub_models.name_of("tiny/marian")


def test_a_stranger_gets_nothing_of_the_owners(
    hub: Hub, folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the owner's token, nor from the cache that the owner filled with it."""
    hub.add("tiny/mine", folder("gpt2"), token="secret")
    hub.add("tiny/all", folder("bert"))
    monkeypatch.setenv("HF_TOKEN", "secret")
    for name in ("tiny/mine", "tiny/all"):
        hub_models.fetch(hub_models.look(HubId(name)), Task())
    monkeypatch.setattr(hub_models, "_shown", set())  # the server begins anew
    shelf = Shelf("en-de")
    assert shelf["hub:tiny/mine"].path == cached(HubId("tiny/mine"))  # the owner's own machine
    monkeypatch.setenv(reach.REACH, "others")
    for name in ("tiny/mine", "tiny/all"):
        with pytest.raises(model_names.NotHere, match="is not on this server yet"):
            shelf[f"hub:{name}"]
    with pytest.raises(ValueError, match="There is no model tiny/mine here"):
        hub_models.look(HubId("tiny/mine"))
    plan = hub_models.look(HubId("tiny/all"))
    assert plan.left == 0
    hub_models.fetch(plan, Task())
    assert shelf["hub:tiny/all"].is_own


def test_names_of_links_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_models.internal("labs/additive") == "labs/additive"  # in the box
    assert hub_models.internal("path:a/b") == "path:a/b"
    assert hub_models.internal("a/b@v1") == "hub:a/b@v1"
    changed = 'a/b//{"heads":2}'
    assert model_names.public_name(hub_models.internal(changed)) == changed
    for words in ('{"allow_pickle": true}', '{"names": "/srv/elsewhere.json"}'):
        with pytest.raises(ValueError, match="holds no words"):
            model_names.read_words(words)
