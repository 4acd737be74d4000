"""The table of names on the page Checkpoint: from an unknown file to a model that runs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.checkpoints.own_models import PLANS, VS, VT, H, Own, attended
from tests.support.widgets import click, put, runs
from transformer_viz.app.checkpoint import name_table, uploads
from transformer_viz.app.checkpoint.table_lines import lines_of, spread
from transformer_viz.checkpoints import load, propose_names
from transformer_viz.inference.tracing import trace

from ...support.page_content import html, said
from .test_brought_files import drop

pytestmark = [
    pytest.mark.app,
    pytest.mark.usefixtures("proved_once"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor"),
]
Visit = Callable[..., AppTest]
CASE = "a stored table [position, 1, d], sequence first, pre-norm, gelu"
MARKS = ("<pad>", "<sos>", "<eos>", "<unk>")
SOURCE = [*MARKS, *(f"s{n}" for n in range(VS - 4))]
TARGET = [*MARKS, *(f"t{n}" for n in range(VT - 4))]
OPEN = "Open with these names"


@pytest.fixture(autouse=True)
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below which paths may be opened."""
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))
    monkeypatch.setattr(uploads, "GRACE", 0.0)
    return tmp_path


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Names to type into the table, by weight; AppTest has no hand for a data editor."""
    typed: dict[str, Any] = {}
    draw = name_table.edit_frame

    def edited(frame: pd.DataFrame, options: list[str], key: str) -> pd.DataFrame:
        found = draw(frame, options, key).copy()
        for weight, name in typed.items():
            found.loc[found[name_table.WEIGHT] == weight, name_table.NAME] = name
        return found

    monkeypatch.setattr(name_table, "edit_frame", edited)
    return typed


def own_model(case: str = CASE) -> tuple[Own, bytes]:
    """A module of one's own and its state dict as a file."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        own = Own(PLANS[case])
    held = io.BytesIO()
    torch.save(own.state_dict(), held)
    return own, held.getvalue()


def dropped(visit: Visit) -> AppTest:
    return drop(
        visit("checkpoint"),
        mine__pt=own_model()[1],
        source_words__txt="\n".join(SOURCE).encode(),
        target_words__txt="\n".join(TARGET).encode(),
    )


def control(app: AppTest, kind: str, word: str) -> Any:
    return next(one for one in getattr(app, kind) if one.label == word)


def press(app: AppTest, label: str = OPEN) -> AppTest:
    return runs(control(app, "button", label).click().run())


def errors(app: AppTest) -> str:
    return " | ".join(one.value for one in app.error)


def test_an_unknown_file_is_named_once_opened_and_shows_what_its_module_attends_to(
    visit: Visit,
) -> None:
    """The witness is the module that was saved, asked for its weights by hooks."""
    app = dropped(visit)
    assert "Which weight is which?" in html(app) and "have a name" in html(app)
    assert "guess" in control(app, "selectbox", "norm").placeholder
    press(app)
    assert "The number of heads is missing" in errors(app)
    control(app, "number_input", "heads").set_value(H)
    control(app, "selectbox", "norm").set_value("pre")
    control(app, "selectbox", "activation").set_value("gelu")
    control(app, "text_input", "embedding_scale").set_value("1")
    press(app)
    assert not app.error
    own = own_model()[0]
    count = len(own.state_dict())
    assert f"Names were mapped ({count} of {count} weights)" in html(app)
    assert "<code>s0</code>" in html(app) and 'data-status="green"' in said(app, "finding-0")
    name = app.session_state["checkpoint"]
    words = {"heads": H, "norm": "pre", "activation": "gelu", "embedding_scale": 1}
    assert json.loads(name.partition("//")[2]) == words

    folder = app.session_state["_upload_folder"].engine.shelf[name].folder
    model = load(folder / "mine.pt", device="cpu", **words)
    ids, target = [5, 9, 16, 2], [1, 7, 11]
    run = trace(model, ids, target, check=False)
    with torch.inference_mode(), attended(own) as seen:
        logits = own(torch.tensor([ids]), torch.tensor([target]))
    crossed = [weights for part, weights in seen if "multihead_attn" in part]
    for layer, weights in enumerate(crossed):
        assert np.allclose(run.attention("cross", layer=layer), weights[0], atol=1e-5), layer
    assert np.allclose(run.logits, logits[0], atol=1e-4)

    runs(click(app, "explore"))
    assert app.session_state["model"] == name


def test_names_can_be_changed_after_opening(visit: Visit, edits: dict[str, Any]) -> None:
    app = dropped(visit)
    control(app, "number_input", "heads").set_value(H)
    press(app)
    click(app, "names-change")
    assert control(app, "number_input", "heads").value == H
    source, target = (f"{PLANS[CASE].names[side]}.weight" for side in ("source", "target"))
    edits[source], edits[target] = (f"{side}_tok_emb.embedding.weight" for side in ("tgt", "src"))
    press(app)
    name = app.session_state["checkpoint"]
    folder = app.session_state["_upload_folder"].engine.shelf[name].folder
    written = json.loads((folder / "names.json").read_text())
    assert written[source] == "tgt_tok_emb.embedding.weight"
    edits.clear()
    del app.session_state["_name_choice"]  # as in another visit: the table begins with the file's
    (folder / "names.json").touch()
    click(app, "names-change").run()  # the second run knows its layout
    press(app)
    assert json.loads((folder / "names.json").read_text()) == written


def test_no_edit_of_the_table_breaks_the_page(visit: Visit, edits: dict[str, Any]) -> None:
    """Each is answered with one sentence, nothing is written, and the table stays."""
    app = dropped(visit)
    control(app, "number_input", "heads").set_value(H).run()
    held = own_model()[0].state_dict()
    source, target = (f"{PLANS[CASE].names[side]}.weight" for side in ("source", "target"))
    name = app.session_state["checkpoint"]
    folder = app.session_state["_upload_folder"].engine.shelf[name].folder
    left_out = f"1 weight has no name and is left out: {target}"
    for what, typed, sentence in (
        ("twice", {source: "tgt_tok_emb.embedding.weight"}, "have one name"),
        ("strange", {source: "../../etc/passwd"}, "is no name of torch_tutorial_seq2seq"),
        ("long", {source: "x" * 9_999}, "is no name of"),
        ("none at all", dict.fromkeys(held), "No weight has a name"),
        *((repr(nothing), {target: nothing}, left_out) for nothing in ("", "  ", None)),
    ):
        edits.clear()
        edits.update(typed)
        press(app)
        where = html(app) if sentence == left_out else errors(app).replace("\\", "")
        assert sentence in where and "Which weight is which?" in html(app), what
        assert sentence == left_out or not (folder / "names.json").exists(), what
    edits.clear()
    control(app, "number_input", "heads").set_value(H + 2)
    press(app)
    assert "cannot be shared by 5 heads" in errors(app) and "Which weight is which?" in html(app)
    control(app, "number_input", "heads").set_value(H)
    assert "Names were mapped" in html(press(app))


def test_a_path_is_never_written_to(visit: Visit, roots: Path) -> None:
    (roots / "runs").mkdir()
    (roots / "runs" / "mine.pt").write_bytes(own_model()[1])
    app = visit("checkpoint")
    put(app, {"checkpoint-path": "runs/mine.pt"})
    assert "Put names.json beside the weights on the server" in html(app)
    control(app, "number_input", "heads").set_value(H)
    press(app, "Open with names.json")
    assert "no names.json beside the weights yet" in errors(app)
    assert [file.name for file in (roots / "runs").iterdir()] == ["mine.pt"]
    names = propose_names(roots / "runs" / "mine.pt").names
    (roots / "runs" / "names.json").write_text(json.dumps(names))
    press(app, "Open with names.json")
    assert not app.error and "Names were mapped" in html(app)


def test_other_refusals_show_no_table(visit: Visit) -> None:
    lstm, nan = io.BytesIO(), io.BytesIO()
    torch.save(torch.nn.LSTM(8, 8).state_dict(), lstm)
    torch.save({"weight": torch.full((3,), float("nan"))}, nan)
    for file in (lstm.getvalue(), nan.getvalue(), b"nothing"):
        app = drop(visit("checkpoint"), mine__pt=file)
        assert app.error and "Which weight is which?" not in html(app)


def test_alike_layers_share_a_row_and_every_weight_keeps_its_number(tmp_path: Path) -> None:
    """A row that is left as it is gives the proposed names; one that is changed, all of them."""
    for case in PLANS:
        (tmp_path / "mine.pt").write_bytes(own_model(case)[1])
        rows = propose_names(tmp_path / "mine.pt").rows
        names = {row.key: row.proposed for row in rows}
        lines = lines_of(rows, names, True)
        again = {key: name for line in lines for key, name in spread(line, line.name).items()}
        assert again == names and len(lines) < len(rows), case
        assert [line.keys for line in lines_of(rows, names, False)] == [(row.key,) for row in rows]
        line = next(one for one in lines if len(one.keys) == 2)
        assert list(spread(line, "a.*.b").values()) == ["a.0.b", "a.1.b"], case
        assert set(spread(line, None).values()) == {None}, case


def test_the_layout_of_the_table_wins_over_one_stated_before(visit: Visit) -> None:
    app = dropped(visit)
    place = app.session_state["checkpoint"]
    before = f'{place}//{{"layout":"annotated_transformer"}}'
    app.session_state["checkpoint"] = before
    runs(click(app.run(), "said-layout"))
    assert app.session_state["checkpoint"] == place
    app.session_state["checkpoint"] = before
    app.run()
    control(app, "number_input", "heads").set_value(H)
    assert "Names were mapped" in html(press(app))
    assert '"layout":"torch_tutorial_seq2seq"' in app.session_state["checkpoint"]
    app = dropped(visit)
    for layout, named in (("labml", False), ("torch_tutorial_seq2seq", True)):  # proposed anew
        runs(control(app, "selectbox", "Layout").set_value(layout).run())
        assert ("No weight has the names" not in html(app)) == named, layout


def test_the_names_of_two_stacks_fit_into_the_table_at_1280(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each name is shown in full, and all columns fit into the 848 pixels of the card."""
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(name_table.st, "data_editor", lambda frame, **words: drawn.update(words))
    whole = torch.nn.Transformer(8, 2, 2, 2, 8)
    keys = [f"machine.{key}" for key in whole.state_dict()]
    names = [f"transformer.{key}" for key in whole.state_dict()]
    cells = {name_table.WEIGHT: keys, name_table.NAME: names}
    rest = {name_table.SHAPE: "96 × 32", name_table.WHY: "by its shape"}
    for some in (names, [*names[1:], None], [None] * len(names)):
        frame = pd.DataFrame({**cells, name_table.NAME: some}).assign(**rest)
        name_table.edit_frame(frame, names, "key")
        widths = {word: one["width"] for word, one in drawn["column_config"].items()}
        assert widths[name_table.WEIGHT] >= 5.9 * max(map(len, keys))
        assert sum(widths.values()) <= 848, widths
