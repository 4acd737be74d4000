"""The command line: what each command writes, and that bad input gets one sentence and code 2."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import click
import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner, Result
from PIL import Image

import transformer_viz as tv
from tests.support.browser import free_port
from tests.support.paths import ROOT
from tests.support.pictured import picture, pictured_folder
from tests.support.speech import speech_folder
from tests.support.two_vocabularies import SOURCE, TARGET, tutorial_file
from transformer_viz import settings
from transformer_viz.cli.main import main
from transformer_viz.cli.terminal import Counter, OneSentence
from transformer_viz.inference import inspection
from transformer_viz.inference.progress import proofs as proof_progress
from transformer_viz.model import ModelConfig, Transformer
from transformer_viz.opening import places
from transformer_viz.preprocessing.audio import example_sound
from transformer_viz.preprocessing.wav import wav_bytes

from ..checkpoints.hostile.hugging import hugging
from ..views.test_html_report import packed, weights_of

WORDS = {"d_model": 22, "heads": 2, "d_ff": 31, "max_positions": 29}
SIZES = {"encoder_layers": 3, "decoder_layers": 2, "source_vocab": 17, "target_vocab": 19}


def checkpoint_folder(folder: Path, **sizes: int) -> Path:
    """A tiny checkpoint of our own layout without vocabulary: its texts are ids."""
    config = ModelConfig(**WORDS, **sizes)
    torch.manual_seed(5)
    weights = Transformer(config).state_dict()
    folder.mkdir()
    safetensors.torch.save_file(weights, folder / "weights.safetensors")
    words = {"layout": "transformer_viz", "title": "Tiny numbers"} | config.to_dict()
    (folder / "config.json").write_text(json.dumps(words))
    return folder


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(checkpoint_folder(tmp_path_factory.mktemp("cli") / "tiny", **SIZES))


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A GPT-like one."""
    folder = tmp_path_factory.mktemp("cli") / "writer"
    return str(checkpoint_folder(folder, decoder_layers=2, target_vocab=19))


def call(*words: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(words), input=stdin)


def answer(*words: str, stdin: str | bytes | None = None) -> str:
    done = call(*words, stdin=stdin)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def refusal(*words: str, stdin: str | bytes | None = None) -> str:
    """The one sentence that a bad command line gets."""
    done = call(*words, stdin=stdin)
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if not line.endswith("…")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def test_help_lists_the_commands() -> None:
    commands = {"app", "models", "inspect", "trace", "translate", "generate", "report", "export"}
    assert set(main.commands) == commands | {
        *("match", "names", "rank", "explain", "swap", "align", "atlas", "compare", "train"),
    }
    assert all(name in answer("--help") for name in commands)
    assert answer() == answer("--help")


@pytest.mark.process
def test_the_module_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "transformer_viz", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith(tv.__version__)


def test_models_lists_the_box() -> None:
    lines = answer("models").splitlines()
    assert [line.split()[0] for line in lines] == list(tv.available())


def test_inspect_says_where_each_value_came_from(translator: str) -> None:
    found = json.loads(answer("inspect", translator, "--json"))
    assert found["layout"] == "transformer_viz"
    assert found["kind"] == "encoder-decoder"
    assert found["parameters"] == tv.load(translator).parameters
    assert found["config"]["d_model"] == 22
    assert found["provenance"]["d_model"] == "file"
    places = [(site["stack"], site["block"], site["layer"]) for site in found["sites"]]
    assert sorted(places) == sorted(
        [("encoder", "self", n) for n in range(3)]
        + [("decoder", block, n) for n in range(2) for block in ("self", "cross")]
    )
    assert {site["heads"] for site in found["sites"]} == {2}
    assert found["report"] == "green"


def test_inspect_with_an_override(translator: str) -> None:
    found = json.loads(answer("inspect", translator, "--json", "--set", "heads=11"))
    assert (found["config"]["heads"], found["provenance"]["heads"]) == (11, "override")
    assert {site["heads"] for site in found["sites"]} == {11}


@pytest.mark.process
def test_inspect_apart_says_the_same(translator: str) -> None:
    one, other = (answer("inspect", translator, "--json", *more) for more in ([], ["--apart"]))
    assert json.loads(other)["layout"] and other == one


def test_inspect_for_a_reader(translator: str) -> None:
    told = answer("inspect", translator)
    assert "Tiny numbers" in told
    assert "capture report: green" in told
    assert any(
        line.split() == ["decoder", "cross", "L1", "2", "heads"] for line in told.splitlines()
    )


def test_inspect_says_what_the_library_says(translator: str) -> None:
    own = inspection.inspect(tv.load(translator)).to_dict()
    found = json.loads(answer("inspect", translator, "--json"))
    assert found == json.loads(json.dumps(own))
    told = answer("inspect", translator)
    for block in own["blocks"]:
        assert f"{block['count']:>14,}" in told
    for finding in own["findings"]:
        assert finding["sentence"] in told
    assert "heads" in told
    assert "the file says so" in told


def test_inspect_shows_a_name_that_would_move_the_cursor_as_it_is_spelled(tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path / "tiny", **SIZES)
    words = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(words | {"title": "a\x1b[2Jb"}))
    told = answer("inspect", str(folder))
    assert "a\\x1b[2Jb" in told
    assert "\x1b" not in told


def test_inspect_of_a_model_without_encoder(writer: str) -> None:
    found = json.loads(answer("inspect", writer, "--json"))
    assert [(s["stack"], s["block"]) for s in found["sites"]] == [("decoder", "self")] * 2


def test_inspect_of_a_model_that_reads_vectors(tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path / "core", encoder_layers=2)
    found = json.loads(answer("inspect", str(folder), "--json"))
    assert len(found["sites"]) == 2


def test_report_takes_what_trace_takes(translator: str, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    words = ("--ids", "5 6 7 3", "--target-ids", "2, 8, 9")
    assert answer("report", translator, *words, "--out", str(out)).startswith(str(out))
    run = tv.trace(tv.load(translator), [5, 6, 7, 3], target=[2, 8, 9], keep=("weights", "scores"))
    book, arrays = packed(out.read_text(encoding="utf-8"))
    block, layer, head = book["opened"]
    shown, _ = weights_of(book, arrays, 0, f"{block} {layer} {head}")
    assert np.abs(shown - run.attention(block, layer=layer)[head].reshape(-1)).max() < 1e-4
    given, own = ({o.name for o in main.commands[name].params} for name in ("trace", "report"))
    assert own - given == {"title", "heads", "layers", "max_mb", "precision"}
    assert given - own == {"keep"}


def test_trace_stores_what_the_library_gives(translator: str, tmp_path: Path) -> None:
    out = str(tmp_path / "run.safetensors")
    edit = '{"edits": [{"kind": "temperature", "value": 2.0, "block": "cross"}]}'
    said = answer(
        *("trace", translator, "--ids", "5 6 7 3", "--target-ids", "2, 8, 9"),
        *("--intervention", edit, "--keep", "weights,scores", "--out", out),
    )
    assert said.startswith(out)
    stored = tv.Trace.load(out)
    own = tv.trace(
        tv.load(translator),
        [5, 6, 7, 3],
        target=[2, 8, 9],
        intervention=tv.Intervention.from_json(edit),
        keep=("weights", "scores"),
    )
    assert stored.intervention == own.intervention
    assert np.array_equal(stored.attention("cross"), own.attention("cross"))
    assert np.array_equal(stored.block("cross", 1).scores, own.block("cross", 1).scores)


def test_trace_takes_a_text_and_an_intervention_from_a_file(
    translator: str, tmp_path: Path
) -> None:
    edits = tmp_path / "edits.json"
    edits.write_text('{"edits": [{"kind": "window", "radius": 1}]}')
    out = str(tmp_path / "run.safetensors")
    words = ("--target", "8 9", "--intervention", str(edits), "--out", out)
    answer("trace", translator, "5 6 7 3", *words)
    trace = tv.Trace.load(out)
    assert trace.source.ids == (5, 6, 7, 3)
    assert trace.target is not None
    assert trace.target.ids == (8, 9)
    assert trace.attention("encoder")[:, :, 0, 2:].max() == 0


def test_trace_takes_vectors(tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path / "core", encoder_layers=2)
    vectors = np.random.default_rng(3).random((5, 22)).astype(np.float32)
    np.save(tmp_path / "x.npy", vectors)
    out = str(tmp_path / "run.safetensors")
    answer("trace", str(folder), "--vectors", str(tmp_path / "x.npy"), "--out", out)
    assert tv.Trace.load(out).attention("encoder").shape == (2, 2, 5, 5)


def test_trace_takes_a_picture(tmp_path: Path) -> None:
    from transformer_viz.checkpoints.layouts.timm import VisionTransformer
    from transformer_viz.checkpoints.layouts.vision_transformer import VisionConfig

    sizes = {"d_model": 12, "heads": 3, "d_ff": 24, "encoder_layers": 2, "classes": 5}
    torch.manual_seed(5)
    module = VisionTransformer(
        VisionConfig(**sizes, image_size=(8, 8), patch_size=(2, 2), channels=1)
    )
    folder = tmp_path / "pictures"
    folder.mkdir()
    safetensors.torch.save_file(module.state_dict(), folder / "weights.safetensors")
    words = {
        "architecture": "vit_tiny",
        "num_classes": 5,
        "model_args": {"img_size": 8, "patch_size": 2, "in_chans": 1, "num_heads": 3},
    }
    (folder / "config.json").write_text(json.dumps(words))
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4).save(tmp_path / "x.png")
    out = str(tmp_path / "run.safetensors")
    answer("trace", str(folder), "--image", str(tmp_path / "x.png"), "--out", out)
    own = tv.trace(tv.load(folder), Image.open(tmp_path / "x.png"))
    stored = tv.Trace.load(out)
    assert stored.attention("encoder").shape == (2, 3, 17, 17)
    assert np.array_equal(stored.attention("encoder"), own.attention("encoder"))
    said = refusal("trace", str(folder), "a text", "--out", out)
    assert "takes a picture; give it --image" in said
    assert json.loads(answer("inspect", str(folder), "--json"))["report"] == "green"


@pytest.mark.parametrize("name", ["whisper", "wav2vec2"])
def test_trace_and_report_take_a_sound(name: str, tmp_path: Path) -> None:
    folder = speech_folder(name, tmp_path / "speech")
    (tmp_path / "x.wav").write_bytes(wav_bytes(example_sound(16000), 16000))
    given = ("--audio", str(tmp_path / "x.wav"))
    out = str(tmp_path / "run.safetensors")
    answer("trace", str(folder), *given, "--out", out)
    own = tv.trace(tv.load(folder), tmp_path / "x.wav")
    stored = tv.Trace.load(out)
    assert stored.source.labels == own.source.labels and stored.source.labels[2] == "0.08 s"
    for block in own.maps:
        assert np.array_equal(stored.attention(block), own.attention(block))
    page = tmp_path / "report.html"
    edits = json.dumps({"edits": [{"kind": "temperature", "value": 2.0}]})
    answer("report", str(folder), *given, "--intervention", edits, "--out", str(page))
    assert "0.08 s" in page.read_text()
    said = refusal("trace", str(folder), "a text", "--out", out)
    assert "takes a sound; give it --audio" in said
    about = answer("inspect", str(folder))
    assert "takes audio" in about and "capture report: green" in about


def test_a_picture_stands_beside_a_text(tmp_path: Path) -> None:
    folder = pictured_folder("llava", tmp_path / "llava")
    picture().save(tmp_path / "cat.png")
    out, image = str(tmp_path / "run.safetensors"), ("--image", str(tmp_path / "cat.png"))
    answer("trace", str(folder), "what is in the picture ?", *image, "--out", out)
    own = tv.trace(tv.load(folder), "what is in the picture ?", image=tmp_path / "cat.png")
    stored = tv.Trace.load(out)
    assert np.array_equal(stored.attention("decoder"), own.attention("decoder"))
    assert stored.source.labels[1] == "image 0,0"
    assert (stored.patches == own.patches).all()
    answer("trace", str(folder), "--ids", "1 10 4 11", *image, "--out", out)
    assert tv.Trace.load(out).source.ids == (1, 10, *[4] * 16, 11)
    page = tmp_path / "report.html"
    edits = json.dumps({"edits": [{"kind": "temperature", "value": 2.0}]})
    said = ("report", str(folder), "a cat", *image, "--intervention", edits, "--out", str(page))
    answer(*said)
    assert "<title>llava: ↵ a cat</title>" in page.read_text()
    about = answer("inspect", str(folder), *image, "--text", "a cat")
    assert "capture report: green" in about
    assert "a picture beside it" in answer("inspect", str(folder))
    assert "reads a text with its picture" in refusal("trace", str(folder), *image, "--out", out)
    none = ("--image", str(tmp_path / "none.png"))
    assert "There is no picture" in refusal("inspect", str(folder), *none)
    assert "has no eyes" in refusal("trace", "en-lm", "a cat", *image, "--out", out)
    assert "has no eyes" in refusal("inspect", "en-lm", *image)


def test_trace_takes_a_pair(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cats", "sleep", "dogs", "bark"]
    files = {
        "vocab.txt": "\n".join(words),
        "tokenizer_config.json": '{"tokenizer_class": "BertTokenizer"}',
    }
    folder = tmp_path / "pairs"
    folder.mkdir()
    hugging(files)(folder, tmp_path / "canary")
    out = str(tmp_path / "run.safetensors")
    answer("trace", str(folder), "--pair", "cats sleep", "dogs bark", "--out", out)
    stored = tv.Trace.load(out)
    assert stored.source.pieces == (
        *("[CLS]", "cats", "sleep", "[SEP]"),
        *("dogs", "bark", "[SEP]"),
    )
    own = tv.trace(tv.load(folder), ("cats sleep", "dogs bark"))
    assert np.array_equal(stored.attention("encoder"), own.attention("encoder"))


def test_a_checkpoint_without_config_is_opened_by_its_words(tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path / "tiny", **SIZES)
    words = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    given = [f"--set={word}={value}" for word, value in (WORDS | SIZES).items()]
    out = str(tmp_path / "run.safetensors")
    answer("trace", str(folder), "5 6 7 3", "--target", "8 9", *given, "--out", out)
    assert tv.Trace.load(out).attention("cross").shape == (2, 2, 2, 4)
    (line,) = answer("translate", str(folder), *given, stdin="5 6 7 3\n").splitlines()
    (folder / "config.json").write_text(json.dumps(words))
    assert line == tv.translate(tv.load(folder), "5 6 7 3")[0].text


def started(monkeypatch: pytest.MonkeyPatch, *words: str, **given: str) -> dict[str, str]:
    """The environment in which the app would be started."""
    for setting in settings.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    seen: dict[str, str] = {}
    monkeypatch.setattr(os, "execve", lambda program, words, names: seen.update(names))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer("app", "--port", str(port), *words)
    return seen


@pytest.mark.parametrize("count", [1, 3])
def test_app_starts_as_many_workers_as_it_is_told(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STREAMLIT_SERVER_SSL_CERT_FILE", raising=False)
    seen: list[list[str]] = []
    started(monkeypatch)
    monkeypatch.setattr(os, "execve", lambda program, words, names: seen.append(words))
    answer("app", "--port", str(free_port()), "--workers", str(count))
    one, several = ["transformer_viz.app.live.server"], ["transformer_viz.app.balancer", "3"]
    assert seen == [[sys.executable, "-m", *(several if count > 1 else one)]]


def test_workers_serve_no_tls_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLIT_SERVER_SSL_CERT_FILE", "cert.pem")
    monkeypatch.setattr(os, "execve", lambda *words: pytest.fail("it was started"))
    said = refusal("app", "--port", str(free_port()), "--workers", "2")
    assert "--workers 2 serves no TLS of its own" in said
    assert "let a proxy in front speak TLS" in said
    for wrong in ("0", "-1", "many"):
        assert "workers" in refusal("app", "--workers", wrong)


@pytest.mark.parametrize("folder", [None, "more"])
def test_app_names_the_folders_below_which_paths_may_be_opened(
    folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more").mkdir()
    monkeypatch.chdir(tmp_path)
    seen = started(monkeypatch, *(("--models", folder) if folder else ()))
    whole = tmp_path / folder if folder else tmp_path
    assert seen["TRANSFORMER_VIZ_ROOTS"] == str(whole)
    assert seen.get("TRANSFORMER_VIZ_MODELS") == (str(whole) if folder else None)
    assert "TRANSFORMER_VIZ_PATHS" not in seen


def test_others_open_no_paths_unless_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more").mkdir()
    monkeypatch.chdir(tmp_path)
    public = started(monkeypatch, "--host", "0.0.0.0")
    assert public["TRANSFORMER_VIZ_PATHS"] == "off"
    monkeypatch.chdir(tmp_path)
    named = started(monkeypatch, "--host", "0.0.0.0", "--models", "more")
    assert "TRANSFORMER_VIZ_PATHS" not in named
    closed = started(
        monkeypatch, "--no-paths", "--no-uploads", "--name", "a.example", "--name", "b"
    )
    assert closed["TRANSFORMER_VIZ_PATHS"] == closed["TRANSFORMER_VIZ_UPLOADS"] == "off"
    assert closed["TRANSFORMER_VIZ_NAMES"] == "a.example,b"


def test_shares_hold_where_others_reach_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = started(monkeypatch)
    assert [one.read(alone) for one in settings.SHARES] == ["0"] * len(settings.SHARES)
    for words in (("--host", "0.0.0.0"), ("--name", "viz.example")):
        seen = started(monkeypatch, *words)
        assert [one.read(seen) for one in settings.SHARES] == [
            one.default for one in settings.SHARES
        ]


def test_a_share_that_is_set_holds_at_home_too(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = settings.REQUESTS.variable
    seen = started(monkeypatch, **{variable: "7"})
    assert seen[variable] == "7"


def test_app_lists_its_settings_and_refuses_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "enforced", lambda: ("files", "network", "programs"))
    for setting in settings.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    assert "TRANSFORMER_VIZ_FORWARDS=2" in answer("app", "--settings")
    words = ("--host", "0.0.0.0", "--no-uploads", "--hub", "any", "--name", "a.example")
    listed = answer("app", "--settings", *words)
    assert "Others can reach this server: it listens on 0.0.0.0." in listed
    for line in ("paths: off", "uploads: off", "Hub: any", "token: none", "shares: on"):
        assert f"    {line}\n" in listed
    for line in ("PATHS=off", "UPLOADS=off", "HUB=any", "NAMES=a.example", "REQUESTS=30"):
        assert f"TRANSFORMER_VIZ_{line}\n" in listed
    assert "files, network, programs. Not on this machine: memory, processor, calls." in listed
    monkeypatch.setenv("TRANSFORMER_VIZ_FORWARDS", "many")
    assert "TRANSFORMER_VIZ_FORWARDS is 'many'" in refusal("app", "--settings")


def test_each_side_reads_the_vocabulary_that_is_named(tmp_path: Path) -> None:
    path = str(tutorial_file(tmp_path / "model").parent)
    (tmp_path / "source.txt").write_text("\n".join(SOURCE))
    (tmp_path / "target.json").write_text(json.dumps(TARGET))
    given = ["--tokenizer", str(tmp_path / "source.txt")]
    given += ["--target-tokenizer", str(tmp_path / "target.json")]
    words = ["--set", "heads=2", *given]
    run = str(tmp_path / "run.safetensors")
    answer("trace", path, "the dog", "--target", "der hund", *words, "--out", run)
    stored = tv.Trace.load(run)
    assert stored.source.labels == ("the", "dog")
    assert stored.target.labels == ("<sos>", "der", "hund")
    model = tv.load(path, tokenizer=SOURCE, target_tokenizer=TARGET, heads=2)
    said = tv.translate(model, "the small dog")[0].text
    assert answer("translate", path, *words, stdin="the small dog\n") == f"{said}\n"
    assert "vocabular" in answer("inspect", path, *words[:4])
    (tmp_path / "model" / "config.json").write_text('{"heads": 2}')
    assert "0.000" in answer("compare", path, path, "--sentence", "the dog", *given)
    assert "trace file" in refusal("report", run, *given, "--out", str(tmp_path / "a.html"))
    assert "There is no file 'none.txt'" in refusal("inspect", path, "--tokenizer", "none.txt")
    assert "--tokenizer FILE" in refusal("inspect", path, "--set", "tokenizer=a.txt")
    assert "holds several words" in refusal(
        "inspect", path, "--target-tokenizer", str(_written(tmp_path / "a.txt", "a b\n"))
    )


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_translate_answers_line_by_line(translator: str) -> None:
    model = tv.load(translator)
    lines = ["5 6 7 3", "", "8 3", "4 4 4 3"]
    got = answer("translate", translator, "--beam", "3", stdin="\n".join(lines)).split("\n")
    own = [tv.translate(model, line, beam=3)[0].text if line else "" for line in lines]
    assert got == [*own, ""]


def test_translate_under_an_intervention(translator: str) -> None:
    edit = '{"edits": [{"kind": "block_keys", "keys": [0, 1], "block": "cross"}]}'
    intervention = tv.Intervention.from_json(edit)
    own = tv.translate(tv.load(translator), "5 6 7 3", intervention=intervention)[0].text
    assert answer("translate", translator, "--intervention", edit, stdin="5 6 7 3\n") == f"{own}\n"


@pytest.mark.process
def test_a_program_that_waits_for_each_answer_gets_it(translator: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "transformer_viz", "translate", translator],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write("5 6 7 3\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")
        process.stdin.close()
    assert process.returncode == 0


def test_generate_goes_on_with_a_text(writer: str) -> None:
    model = tv.load(writer)
    own = tv.translate(model, "5 6 7", max_tokens=4)[0].text.strip()
    assert answer("generate", writer, "--max", "4", stdin="5 6 7\n") == f"{own}\n"
    drawn = tv.translate(model, "5 6 7", sample=0.9, max_tokens=4)[0].text.strip()
    assert answer("generate", writer, "--max", "4", "--sample", "0.9", stdin="5 6 7\n") == (
        f"{drawn}\n"
    )


def test_bad_lines_are_named_and_the_ones_before_answered(translator: str) -> None:
    done = call("translate", translator, stdin="5 6 3\n5 99\n5 3\n")
    assert done.exit_code == 2
    assert len(done.stdout.splitlines()) == 1
    assert "Line 2: The id 99 is too large" in done.stderr
    assert "Line 1 is not UTF-8" in refusal("translate", translator, stdin=b"\xff\xfe\n")


BAD = {
    "nothing to trace": (("trace", "{model}", "--out", "{out}"), "takes one input, and none came"),
    "two inputs": (
        ("trace", "{model}", "5 3", "--ids", "5 3", "--out", "{out}"),
        "a text and --ids came",
    ),
    "no out": (("trace", "{model}", "5 3"), "Missing option '--out'"),
    "out a folder": (("trace", "{model}", "5 3", "--out", "."), "'.' is a folder"),
    "out nowhere": (("trace", "{model}", "5 3", "--out", "no/where.st"), "no folder no for --out"),
    "words for ids": (
        ("trace", "{model}", "--ids", "five", "--out", "{out}"),
        "--ids takes token ids from 0, like --ids \"2 45 3\"; got 'five'",
    ),
    "an unknown id": (("trace", "{model}", "--ids", "5 99", "--out", "{out}"), "99"),
    "two targets": (
        ("trace", "{model}", "5 3", "--target", "2", "--target-ids", "2", "--out", "{out}"),
        "one target",
    ),
    "a picture that is not there": (
        ("trace", "{model}", "--image", "cat.png", "--out", "{out}"),
        "There is no picture 'cat.png'",
    ),
    "a sound that is not there": (
        ("trace", "{model}", "--audio", "voice.wav", "--out", "{out}"),
        "There is no sound 'voice.wav'",
    ),
    "a sound for a model of words": (
        ("trace", "{model}", "--audio", "{root}/README.md", "--out", "{out}"),
        "takes no sounds; give it a text, --ids or --vectors",
    ),
    "a picture for a model of words": (
        ("trace", "{model}", "--image", "{root}/README.md", "--out", "{out}"),
        "takes no pictures; give it a text, --ids or --vectors",
    ),
    "a pair for a model of one text": (
        ("trace", "{model}", "--pair", "5", "3", "--out", "{out}"),
        "reads one text; got 2 of them",
    ),
    "a target of no vectors": (
        ("trace", "{model}", "--vectors", "{root}/README.md", "--out", "{out}"),
        "no .npy file",
    ),
    "vectors that are not there": (
        ("trace", "{model}", "--vectors", "none.npy", "--out", "{out}"),
        "none.npy",
    ),
    "keep what": (("trace", "{model}", "5 3", "--keep", "all", "--out", "{out}"), "got 'all'"),
    "no JSON": (
        ("trace", "{model}", "5 3", "--intervention", "hot", "--out", "{out}"),
        "'hot' is neither",
    ),
    "broken JSON": (
        ("trace", "{model}", "5 3", "--intervention", '{"edits": [', "--out", "{out}"),
        "is not JSON",
    ),
    "unknown edit": (
        (
            "trace",
            "{model}",
            "5 3",
            "--intervention",
            '{"edits": [{"kind": "x"}]}',
            "--out",
            "{out}",
        ),
        "no edit of kind 'x'",
    ),
    "an edit nowhere": (
        (
            *("trace", "{model}", "5 3", "--out", "{out}", "--intervention"),
            '{"edits": [{"kind": "uniform_head", "layer": 71}]}',
        ),
        "71",
    ),
    "no checkpoint": (("inspect", "nowhere"), "no checkpoint 'nowhere'"),
    "an override without value": (("inspect", "{model}", "--set", "heads"), "WORD=VALUE"),
    "an impossible override": (("inspect", "{model}", "--set", "heads=5"), "heads=5"),
    "an unknown word": (("inspect", "{model}", "--set", "hats=5"), "hats"),
    "a beam of none": (("translate", "{model}", "--beam", "0"), "--beam"),
    "the wrong kind": (("generate", "{model}"), "needs a model of kind decoder-only"),
    "no recipe": (("train", "none.toml", "--data", "."), "no recipe 'none.toml'"),
    "no data": (("train", "{root}/recipes/en-de.toml", "--data", "nowhere"), "no folder 'nowhere'"),
    "data left out": (("train", "{root}/recipes/en-de.toml"), "learns from sentences; name the"),
    "a seed below 0": (
        ("train", "{root}/recipes/digits.toml", "--seed", "-1", "--folder", "{out}"),
        "The seed -1 is negative",
    ),
    "no TOML": (("train", "{root}/README.md"), "README.md is not a recipe"),
    "translating with a word too many": (
        ("translate", "{model}", "--set", "hats=5"),
        "Unknown configuration word 'hats'",
    ),
    "an override that is no number": (
        ("inspect", "{model}", "--set", "norm_eps=NaN"),
        "norm_eps needs a number; got 'NaN'",
    ),
    "no such command": (("dance",), "No such command 'dance'"),
    "no such option": (("inspect", "{model}", "--jason"), "--jason"),
    "a port too far": (("app", "--port", "70000"), "--port"),
    "an app without its model": (("app", "--model", "nowhere"), "no checkpoint 'nowhere'"),
    "an app without its folder": (("app", "--models", "nowhere"), "no folder 'nowhere'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case: str, translator: str, tmp_path: Path) -> None:
    words, expected = BAD[case]
    places = {"{model}": translator, "{out}": str(tmp_path / "x.st"), "{root}": str(ROOT)}
    for name, place in places.items():
        words = tuple(word.replace(name, place) for word in words)
    assert expected in refusal(*words)
    assert not (tmp_path / "x.st").exists()


def test_a_port_that_is_taken_is_said_before_anything_starts() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = refusal("app", "--port", str(port))
    assert f"Cannot listen on 127.0.0.1:{port}" in said
    assert f"--port {port + 1}" in said


def test_debug_shows_the_traceback() -> None:
    done = call("inspect", "nowhere", "--debug")
    assert isinstance(done.exception, ValueError)
    after_the_end = call("inspect", "--", "--debug")
    assert after_the_end.exit_code == 2
    assert "'--debug'" in after_the_end.stderr


def one_error(error: Exception) -> str:
    """What a command that raises says."""

    @click.group(cls=OneSentence)
    def group() -> None:
        pass

    @group.command()
    def fail() -> None:
        raise error

    done = CliRunner().invoke(group, ["fail"])
    assert done.exit_code == 2
    return done.stderr


def test_ctrl_c_stops_a_long_proof_and_keeps_the_maps(
    translator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof_progress, "LEAST", 0.0)
    before, times = signal.getsignal(signal.SIGINT), 1

    def press(counter: Counter, done: int) -> None:
        for _ in range(times if done == 3 else 0):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Counter, "tell", press)
    run, words = str(tmp_path / "run.safetensors"), ("--target-ids", "2, 8, 9")
    said = answer("trace", translator, "--ids", "5 6 7 3", *words, "--out", run)
    assert "the capture was not proved. The proof was stopped after 3 of " in said
    assert tv.Trace.load(run).attention("cross", 0).shape == (2, 3, 4)
    assert signal.getsignal(signal.SIGINT) is before
    report = json.loads(answer("inspect", translator, "--json"))
    assert report["report"] == "unchecked" and "was stopped after 3 of" in str(report["findings"])
    times = 2
    done = call("trace", translator, "--ids", "5 6 7 3", *words, "--out", str(tmp_path / "b"))
    assert done.exit_code != 0 and not (tmp_path / "b").exists()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("no such thing"), "no such thing\n"),
        (ValueError("two\n   lines"), "two lines\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x.pt"),
            "No such file or directory: x.pt\n",
        ),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero; --debug shows where.\n"),
    ],
)
def test_every_error_becomes_a_sentence(error: Exception, said: str) -> None:
    assert one_error(error) == said


@pytest.mark.app
def test_app_serves_on_the_port_it_was_given() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "transformer_viz", "app", "--port", str(port)]
    server = subprocess.Popen(
        words,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert healthy(f"http://127.0.0.1:{port}/_stcore/health")
    finally:
        server.terminate()
        server.wait(20)


def healthy(address: str, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(address, timeout=2) as page:
                return page.read() == b"ok"
        except OSError:
            time.sleep(0.2)
    return False


def test_report_of_a_trace_file(tmp_path: Path) -> None:
    weights = np.full((2, 3, 5, 5), 0.2)
    run, out = tmp_path / "run.safetensors", tmp_path / "page.html"
    tv.from_attentions(weights, list("abcde")).save(run)
    assert answer("report", str(run), "--out", str(out)).endswith("report given, not captured\n")
    book, arrays = packed(out.read_text(encoding="utf-8"))
    shown, _ = weights_of(book, arrays, 0, "encoder 1 2")
    assert np.abs(shown - 0.2).max() < 1e-4
    for more in (["a text"], ["--ids", "1 2"], ["--intervention", "{}"], ["--set", "heads=3"]):
        told = refusal("report", str(run), *more, "--out", str(out))
        assert "is a trace file: a run that is over, with its own input" in told
    assert "is a trace file, a run that is over, and no checkpoint" in refusal("inspect", str(run))
