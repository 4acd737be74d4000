"""The mark of a guessed word: every place where a result is seen has it, and none of a sure model.

The walk follows the lists that grow by themselves: pages, commands, file formats, views.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.checkpoints.gpt import mingpt_file
from tests.checkpoints.test_matching import whole_folder
from tests.checkpoints.torch_tutorial import H, save
from tests.support.page_content import go, html
from tests.support.pictured import picture
from tests.views.conftest import make_trace
from tests.views.test_views import WORDS as ARGUMENTS
from transformer_viz import checkpoints
from transformer_viz.app.engine import model_names
from transformer_viz.app.pages import PAGES
from transformer_viz.bertviz.page_of_heads import page_of_heads
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.cli.main import main
from transformer_viz.components.standalone_page import header
from transformer_viz.core.guesses import guesses_in
from transformer_viz.i18n import speaking
from transformer_viz.inference.alignment.corpus import align_corpus
from transformer_viz.inference.inspection import inspect as inspect_model
from transformer_viz.lessons.worksheet import answer_sheet, worksheet
from transformer_viz.views import FURTHER_MODULES, VIEWS
from transformer_viz.views.export.file_formats import FORMATS, exported
from transformer_viz.views.export.html_report import runs_of

from .conftest import new_visit

MARK = "guessed: heads"
IDS, OTHER = "4 5 6", "4 8 6"
#: Pages that show no result of a model, and commands that read none.
NO_RESULT = {"lessons", "about"}
NO_MODEL = {"app", "models", "names", "train"}
#: Views of plain numbers, which hold nothing of a model, and those that are files.
OF_NUMBERS = {"curves", "head_cost", "measure_grid", "sentence_counts", "swap_grid"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorial's translator, with all options beside it but the number of heads."""
    path = save(tmp_path_factory.mktemp("guessed"))
    options = {"norm_first": False, "activation": "relu", "layer_norm_eps": 1e-5}
    options |= {"pad_id": 1, "bos_id": 2, "eos_id": 3}
    (path.parent / "hparams.json").write_text(json.dumps(options))
    return path


@pytest.fixture(scope="module")
def models(file: Path) -> dict[bool, Model]:
    """The guessed model, and the same told what it lacks: the same numbers, nothing to mark."""
    return {True: tv.load(file, device="cpu"), False: tv.load(file, device="cpu", heads=H)}


def results(model: Model) -> dict[str, tuple[Any, Any, str]]:
    """By name each result of the library: itself, its card or manifest, what it says."""
    run = tv.trace(model, [4, 5, 6], target=[2, 5])
    ranking = tv.rank(model, [[4, 5, 6]])
    swap = tv.swap(model, [4, 5, 6], [4, 8, 6])
    compared = tv.compare(run, run)
    explained = tv.explain(model, [4, 5, 6])
    aligned = tv.align(run)
    several = align_corpus(model, [[4, 5, 6]])
    table, of_run = tv.metrics(model, [[4, 5, 6]]), tv.metrics(run)
    return {
        "model": (model, {"guesses": model.guessed}, repr(model)),
        "trace": (run, run.manifest, repr(run)),
        "report": (run, run.manifest, str(run.report)),
        "rank": (ranking, ranking.card, " ".join((repr(ranking), *ranking.notes))),
        "swap": (swap, swap.card, " ".join((repr(swap), *swap.notes))),
        "compare": (compared, compared.card, " ".join((repr(compared), *compared.notes))),
        "explain": (explained, explained.card, f"{explained!r} {explained.caption}"),
        "align": (aligned, aligned.card, repr(aligned)),
        "align, many": (several, several.card, " ".join(several.notes)),
        "metrics": (table, table.attrs, MARK if table.attrs.get("guesses") else ""),
        "metrics of a trace": (of_run, of_run.attrs, MARK if of_run.attrs.get("guesses") else ""),
        "inspect": (model, {"guesses": inspect_model(model, report=False).guessed}, repr(model)),
    }


def test_every_result_of_the_library_says_it(models: dict[bool, Model]) -> None:
    for name, (_, record, said) in results(models[True]).items():
        assert guesses_in(record) == {"heads": H}, name
        assert MARK in said, (name, said)
    for name, (_, record, said) in results(models[False]).items():
        assert not guesses_in(record) and "guess" not in said.lower(), (name, said)


@pytest.mark.shipped
def test_no_bundled_model_is_marked() -> None:
    for name in tv.available():
        assert not tv.load(name, device="cpu").guesses, name


def test_a_trace_file_keeps_it_and_older_ones_open(
    models: dict[bool, Model], tmp_path: Path
) -> None:
    for marked, model in models.items():
        run = tv.trace(model, [4, 5, 6], target=[2, 5])
        run.save(tmp_path / "run.safetensors")
        again = tv.Trace.load(tmp_path / "run.safetensors")
        assert again.guesses == ({"heads": H} if marked else {}) and again.manifest == run.manifest
        assert again.report == run.report and again.report.status == "green"
        assert ("guesses" in again.manifest) == marked
    stranger = replace(run, manifest=run.manifest | {"guesses": ["heads"]})
    stranger.save(tmp_path / "odd.safetensors")  # anything may stand in a stranger's file
    assert tv.Trace.load(tmp_path / "odd.safetensors").guesses == {}


def test_several_words_are_one_mark(models: dict[bool, Model]) -> None:
    both = {"heads": 8, "activation": "relu"}
    origins = models[True].provenance | {"activation": "convention"}
    assert list(replace(models[True], provenance=origins).guessed) == ["heads", "activation"]
    run = make_trace()
    other = replace(run, manifest=run.manifest | {"guesses": both})
    assert "guessed: heads, activation" in repr(other)
    assert guesses_in(other, {"guesses": {"heads": 4}}) == both | {"heads": "8 / 4"}
    marked = replace(run, manifest=run.manifest | {"guesses": {"<b>": 1, "a\x1b": 2}})
    page = tv.views.report(marked)
    assert 'data-role="guess"' in page and "guessed: &lt;b&gt;, a\\x1b" in page
    for code, word in (("de", "vermutet"), ("zh", "猜测")):
        with speaking(code):
            assert word in tv.views.report(other)


def texts(content: bytes, kind: str) -> str:
    """What a file says of where it comes from."""
    if kind == "npz":
        return str(np.load(io.BytesIO(content))["manifest"])
    return content.decode("utf-8", errors="replace")


def test_every_file_of_a_run_says_it() -> None:
    clean = make_trace()
    run = replace(clean, manifest=clean.manifest | {"guesses": {"heads": 3}})
    for kind in FORMATS:
        shown = {"html": "report", "safetensors": "run"}.get(kind, "map")
        for one, before in ((run, None), (clean, run), (clean, None)):
            found = texts(exported(one, kind, shown, ("cross", 0, 0), before=before), kind)
            if kind == "safetensors" and before is not None:
                continue  # a run alone
            marked = one is run or before is run
            assert ("guesse" in found) == marked, (kind, marked)
    csv = exported(run, "csv", "map", ("cross", 0, 0)).decode()
    table = pd.read_csv(io.StringIO(csv))
    assert table["guessed"].unique().tolist() == ["heads=3"] and table.columns[-1] == "guessed"
    whole = pd.read_csv(io.BytesIO(exported(clean, "csv", "map", ("cross", 0, 0))))
    pd.testing.assert_frame_equal(table.drop(columns="guessed"), whole)


def test_every_view_says_it() -> None:
    clean = make_trace()
    guessed = replace(clean, manifest=clean.manifest | {"guesses": {"heads": 3}})
    names = {view.name for view in VIEWS} | set(FURTHER_MODULES)
    walked = {view.name: (view.draw, ARGUMENTS[view.name]) for view in VIEWS}
    for run, marked in ((guessed, True), (clean, False)):
        compared = tv.compare(run, run)
        walked |= {
            "compared_atlas": (lambda _, c=compared: tv.views.compared_atlas(c, "cross"), ()),
            "compared_map": (
                lambda _, c=compared: tv.views.compared_map(c.maps("cross", 0, 0), "a"),
                (),
            ),
            "report": (tv.views.report, ()),
            "printed": (tv.views.printed, ("map", "svg", "cross")),
        }
        assert set(walked) | OF_NUMBERS == names, "a view of a run is drawn here"
        for name, (draw, words) in walked.items():
            drawn = draw(run, *words)
            if hasattr(drawn, "layout"):
                assert (MARK in drawn.layout.meta["alt"]) == marked, name
                drawn = drawn.layout.title.text or ""
            shown = drawn._repr_html_() if hasattr(drawn, "_repr_html_") else drawn
            shown = shown.decode() if isinstance(shown, bytes) else shown
            assert (MARK in shown) == marked, name


def test_pages_of_notebooks_and_sheets_say_it(models: dict[bool, Model]) -> None:
    for marked, model in models.items():
        values = {"heads": H} if marked else {}
        run = tv.trace(model, [4, 5, 6], target=[2, 5])
        made = page_of_heads(
            run, runs_of(run, None), [("cross", 0, 0)], title="heads", view="lines"
        )
        neuron = tv.neuron_view(model, None, None, [4, 5, 6], html_action="return")
        pages = [made.data, neuron.data]
        pages += [
            worksheet([], "4 5 6", "m", "", values),
            answer_sheet([], "4 5 6", "m", values),
        ]
        for number, page in enumerate(pages):
            assert ('data-role="guess"' in page) == marked, number
        widget = tv.explore(model, [4, 5, 6])
        assert (MARK in header(widget._frame)["guessed"]) == marked
        widget.close()


# ---- the command line


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> Iterator[Callable[[str, bool], str]]:
    """Run a command on guessed or on settled models; gives all that it says, files included."""
    own = mingpt_file(tmp_path)[0]
    clip, cat = whole_folder("clip", tmp_path / "clip"), tmp_path / "cat.png"
    picture().save(cat)
    (tmp_path / "ids.txt").write_text(f"{IDS}\n{OTHER}\n", encoding="utf-8")
    given = ("--ids", IDS, "--target-ids", "2 5")
    place = ("--block", "cross", "--layer", "0", "--head", "0")
    lines = tmp_path / "ids.txt"
    commands: dict[str, tuple[Any, ...]] = {
        "inspect": (file,),
        "trace": (file, *given, "--out", "run.safetensors"),
        "report": (file, *given, "--out", "page.html"),
        "export": ("run.safetensors", "--format", "csv", *place, "--out", "x.csv"),
        "translate": (file,),
        "generate": (own, "--max", "2"),
        "explain": (file, IDS, "--out", "explain.csv"),
        "rank": (file, lines, "--out", "rank.csv"),
        "swap": (file, IDS, OTHER, "--out", "swap.csv"),
        "compare": (file, file, "--sentence", IDS, "--out", "compare.csv"),
        "align": (file, lines, "--out", "links.pharaoh"),
        "atlas": (file, lines, "--out", "atlas"),
        "match": (clip, cat, "a cat", "--out", "runs"),
    }
    assert set(commands) | NO_MODEL == set(main.commands), "a command that reads a model is here"
    settled = {"generate": 2, "match": None, "export": None}
    monkeypatch.chdir(tmp_path)
    load = checkpoints.load

    def of_convention(*words: Any, **more: Any) -> Model:
        both = load(*words, **more)
        guess = {"provenance": both.provenance | {"heads": "convention"}}
        pair = replace(both.pair, picture=replace(both.pair.picture, **guess))
        return replace(both, pair=pair, **guess)

    def run(name: str, marked: bool) -> str:
        words = [*map(str, commands[name])]
        heads = settled.get(name, H)
        if not marked and heads is not None:
            words += ["--set", f"heads={heads}"]
        with pytest.MonkeyPatch.context() as patch:
            if name == "match" and marked:  # such a file says all of its words
                patch.setattr(checkpoints, "load", of_convention)
            done = CliRunner().invoke(main, [name, *words], input=f"{IDS}\n")
        assert done.exit_code == 0, done.output
        written = words[words.index("--out") + 1] if "--out" in words else ""
        found = [done.stderr]
        for path in sorted(tmp_path.rglob(f"{Path(written).stem}*") if written else ()):
            for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if one.suffix in (".csv", ".json", ".html", ".safetensors"):
                    found.append(one.read_bytes().decode("utf-8", errors="replace"))
        if written:
            assert all(("guesse" in text) == marked for text in found[1:]) and found[1:], name
        return found[0] + done.stdout

    yield run


def test_every_command_says_it(call: Callable[[str, bool], str], tmp_path: Path) -> None:
    for marked in (True, False):
        for name in ("trace", *sorted(set(main.commands) - NO_MODEL - {"trace"})):
            said = call(name, marked)
            assert (MARK in said) == marked, (name, said)
            assert ("--set heads=" in said) == marked, (name, said)
        for folder in ("atlas", "runs"):
            shutil.rmtree(tmp_path / folder)


def test_a_refusal_stays_one_line_and_both_sides_can_be_settled(file: Path) -> None:
    done = CliRunner().invoke(main, ["trace", str(file), "--ids", "4 99", "--out", "x.safetensors"])
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    words = ["compare", str(file), str(file), "--sentence", IDS, "--set", "a.heads=3"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0 and f"heads={H}" in done.stderr, done.output
    done = CliRunner().invoke(main, [*words, "--set", "b.heads=5"])
    assert done.exit_code == 0 and "guess" not in done.output, done.output


# ---- the app


@pytest.fixture
def opened(
    shelf: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AppTest]:
    """Opens a page with the guessed model or the sure one."""
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(file))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", str(shelf))
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", str(tmp_path))

    def open_page(address: str, **link: str) -> AppTest:
        app = new_visit(address, link).run()
        assert not app.exception and not app.error, (address, app.error)
        return app

    return open_page


@pytest.mark.app
def test_every_page_says_it(opened: Callable[..., AppTest], file: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text(f"{IDS}\n{OTHER}\n", encoding="utf-8")
    for marked in (True, False):
        out = tmp_path / f"atlas-{marked}"
        words = ["atlas", str(file), str(tmp_path / "ids.txt"), "--out", str(out)]
        done = CliRunner().invoke(main, words + ([] if marked else ["--set", f"heads={H}"]))
        assert done.exit_code == 0, done.output
        one = {"model": file.name, "text": IDS} if marked else {"model": "tiny", "text": "The cat."}
        for page in PAGES:
            if page.address in NO_RESULT:
                continue
            link = {"corpus": f"path:{out.name}"} if page.address == "corpus" else {}
            said = html(opened(page.path, **one, **link))
            assert ('data-role="guess"' in said) == marked, (page.address, marked)
            assert (MARK in said) == marked, (page.address, marked)


@pytest.mark.app
def test_the_mark_leads_to_the_form_that_settles_it(
    opened: Callable[..., AppTest], file: Path
) -> None:
    app = opened("", model=file.name, text=IDS)
    app.session_state["guessed-settle"] = True
    app.run()
    assert "--set heads=" in html(app) and "heads= in tv.load" in html(app)
    app.button(key="guessed-open").click().run()
    assert not app.exception and app.session_state["checkpoint"] == file.name
    app = go(app, "checkpoint")
    assert MARK in html(app) and "trace.produced" in html(app)
    box = next(one for one in app.text_input if (one.key or "").startswith("guess-heads"))
    box.set_value("3").run()
    assert not app.exception and MARK not in html(app), "it is settled"


@pytest.mark.app
def test_the_other_side_of_a_comparison_is_marked_too(
    opened: Callable[..., AppTest], file: Path
) -> None:
    sure = model_names.named(file.name, {"heads": H})
    app = opened("compare", model=sure, text=IDS, versus="model", beside=file.name)
    (mark,) = [piece for piece in html(app).split("\n") if 'data-role="guess"' in piece]
    assert mark.count(MARK) == 1 and f"{file.name}: {MARK}" in mark
