"""The command line: what each command writes, and that bad input gets one sentence and code 2."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

import click
import numpy as np
import pytest
import safetensors.torch
import torch
from click.testing import CliRunner, Result

import transformer_viz as tv
from tests.support.browser import free_port
from tests.support.cases import case
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

from ..checkpoints import timm
from ..checkpoints.hostile.hugging import FOREIGN, hugging
from ..views.test_html_report import packed, weights_of

WORDS = {"d_model": 22, "heads": 2, "d_ff": 31, "max_positions": 29}
WARM = json.dumps({"edits": [{"kind": "temperature", "value": 2.0}]})
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


def call(*words: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(words), input=stdin)


def answer(*words: str, stdin: str | bytes | None = None) -> str:
    done = call(*words, stdin=stdin)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def write_text(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(*words: str, stdin: str | bytes | None = None) -> str:
    """The one sentence that a bad command line gets."""
    done = call(*words, stdin=stdin)
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if not line.endswith("…")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def test_help_lists_the_commands_and_models_the_box():
    commands = {"app", "models", "inspect", "trace", "translate", "generate", "report", "export"}
    assert set(main.commands) == commands | {
        *("match", "names", "rank", "explain", "swap", "align", "atlas", "compare", "train")
    }
    assert all(name in answer("--help") for name in commands)
    assert answer() == answer("--help")
    assert [line.split()[0] for line in answer("models").splitlines()] == list(tv.available())


@pytest.mark.process
def test_the_module_is_the_same_command_and_answers_each_line_that_waits(translator: str):
    module = [sys.executable, "-m", "transformer_viz"]
    words = {"cwd": ROOT, "text": True, "stdout": subprocess.PIPE}
    done = subprocess.run([*module, "--version"], check=True, **words)
    assert done.stdout.strip().endswith(tv.__version__)
    words |= {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*module, "translate", translator], **words) as process:
        for _ in range(2):
            process.stdin.write("5 6 7 3\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")
        process.stdin.close()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def inspected(translator: str) -> str:
    return answer("inspect", translator, "--json")


@pytest.mark.slow
def test_inspect_says_what_the_library_says(translator: str, inspected: str):
    model, found = tv.load(translator), json.loads(inspected)
    own = inspection.inspect(model).to_dict()
    assert found == json.loads(json.dumps(own))
    assert (found["layout"], found["kind"]) == ("transformer_viz", "encoder-decoder")
    assert found["parameters"] == model.parameters
    assert (found["config"]["d_model"], found["provenance"]["d_model"]) == (22, "file")
    places = [(site["stack"], site["block"], site["layer"]) for site in found["sites"]]
    assert sorted(places) == sorted(
        [("encoder", "self", n) for n in range(3)]
        + [("decoder", block, n) for n in range(2) for block in ("self", "cross")]
    )
    assert {site["heads"] for site in found["sites"]} == {2}
    assert found["report"] == "green"
    told = answer("inspect", translator)
    for part in ("Tiny numbers", "capture report: green", "heads", "the file says so"):
        assert part in told
    lines = [line.split() for line in told.splitlines()]
    assert ["decoder", "cross", "L1", "2", "heads"] in lines
    assert all(f"{block['count']:>14,}" in told for block in own["blocks"])
    assert all(finding["sentence"] in told for finding in own["findings"])
    found = json.loads(answer("inspect", translator, "--json", "--set", "heads=11"))
    assert (found["config"]["heads"], found["provenance"]["heads"]) == (11, "override")
    assert {site["heads"] for site in found["sites"]} == {11}


@pytest.mark.process
def test_inspect_apart_says_the_same(translator: str, inspected: str):
    assert answer("inspect", translator, "--json", "--apart") == inspected


def test_inspect_of_a_decoder_alone_and_of_a_name_that_would_move_the_cursor(tmp_path: Path):
    sizes = {"decoder_layers": 2, "target_vocab": 19}
    folder = checkpoint_folder(tmp_path / "tiny", **sizes)
    words = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(words | {"title": "a\x1b[2Jb"}))
    told = answer("inspect", str(folder))
    assert "a\\x1b[2Jb" in told and "\x1b" not in told
    found = json.loads(answer("inspect", str(folder), "--json"))
    assert [(s["stack"], s["block"]) for s in found["sites"]] == [("decoder", "self")] * 2


@pytest.mark.slow
def test_trace_and_report_give_what_the_library_gives(translator: str, tmp_path: Path):
    out, page = str(tmp_path / "run.safetensors"), tmp_path / "page.html"
    given = ("--ids", "5 6 7 3", "--target-ids", "2, 8, 9")
    kept = {"target": [2, 8, 9], "keep": ("weights", "scores")}
    model = tv.load(translator)
    assert answer("report", translator, *given, "--out", str(page)).startswith(str(page))
    run = tv.trace(model, [5, 6, 7, 3], **kept)
    book, arrays = packed(page.read_text(encoding="utf-8"))
    block, layer, head = book["opened"]
    shown, _ = weights_of(book, arrays, 0, f"{block} {layer} {head}")
    assert np.abs(shown - run.attention(block, layer=layer)[head].reshape(-1)).max() < 1e-4
    taken, own = ({o.name for o in main.commands[name].params} for name in ("trace", "report"))
    assert own - taken == {"title", "heads", "layers", "max_mb", "precision"}
    assert taken - own == {"keep"}
    edit = '{"edits": [{"kind": "temperature", "value": 2.0, "block": "cross"}]}'
    words = ("--intervention", edit, "--keep", "weights,scores", "--out", out)
    assert answer("trace", translator, *given, *words).startswith(out)
    stored, changes = tv.Trace.load(out), tv.Intervention.from_json(edit)
    run = tv.trace(model, [5, 6, 7, 3], intervention=changes, **kept)
    assert stored.intervention == run.intervention
    assert np.array_equal(stored.attention("cross"), run.attention("cross"))
    assert np.array_equal(stored.block("cross", 1).scores, run.block("cross", 1).scores)
    # a text, and an intervention from a file
    edits = write_text(tmp_path / "edits.json", '{"edits": [{"kind": "window", "radius": 1}]}')
    words = ("--target", "8 9", "--intervention", edits, "--out", out)
    answer("trace", translator, "5 6 7 3", *words)
    stored = tv.Trace.load(out)
    assert (stored.source.ids, stored.target.ids) == ((5, 6, 7, 3), (8, 9))
    assert stored.attention("encoder")[:, :, 0, 2:].max() == 0


def test_trace_takes_vectors(tmp_path: Path):
    folder, out = checkpoint_folder(tmp_path / "core", encoder_layers=2), str(tmp_path / "run")
    np.save(tmp_path / "x.npy", np.random.default_rng(3).random((5, 22)).astype(np.float32))
    answer("trace", str(folder), "--vectors", str(tmp_path / "x.npy"), "--out", out)
    assert tv.Trace.load(out).attention("encoder").shape == (2, 2, 5, 5)
    assert len(json.loads(answer("inspect", str(folder), "--json"))["sites"]) == 2


def test_trace_takes_a_picture(tmp_path: Path):
    folder = str(timm.save(timm.Variant("own", kind="folder"), tmp_path).parent)
    args = {"img_size": 12, "patch_size": 3, "num_heads": timm.H}
    config = {"architecture": "vit_own", "num_classes": timm.CLASSES, "model_args": args}
    write_text(tmp_path / "config.json", json.dumps(config))
    picture(12, 12).save(tmp_path / "x.png")
    out = str(tmp_path / "run.st")
    answer("trace", folder, "--image", str(tmp_path / "x.png"), "--out", out)
    own, stored = tv.trace(tv.load(folder), picture(12, 12), check=False), tv.Trace.load(out)
    assert stored.attention("encoder").shape[1:] == (timm.H, 17, 17)
    assert np.array_equal(stored.attention("encoder"), own.attention("encoder"))
    assert "takes a picture; give it --image" in refusal("trace", folder, "a text", "--out", out)
    assert json.loads(answer("inspect", folder, "--json"))["report"] == "green"


@pytest.mark.slow
def test_trace_and_report_take_a_sound(tmp_path: Path):
    out, page = str(tmp_path / "run.safetensors"), tmp_path / "report.html"
    sound, given = tmp_path / "x.wav", ("--audio", str(tmp_path / "x.wav"))
    sound.write_bytes(wav_bytes(example_sound(16000), 16000))
    for name in ("whisper", "wav2vec2"):
        with case(name):
            folder = str(speech_folder(name, tmp_path / name))
            answer("trace", folder, *given, "--out", out)
            own, stored = tv.trace(tv.load(folder), sound, check=False), tv.Trace.load(out)
            assert stored.source.labels == own.source.labels
            assert stored.source.labels[2] == "0.08 s"
            for block in own.maps:
                assert np.array_equal(stored.attention(block), own.attention(block))
            answer("report", folder, *given, "--intervention", WARM, "--out", str(page))
            assert "0.08 s" in page.read_text()
            said = refusal("trace", folder, "a text", "--out", out)
            assert "takes a sound; give it --audio" in said
            about = answer("inspect", folder)
            assert "takes audio" in about and "capture report: green" in about


@pytest.mark.slow
def test_a_picture_stands_beside_a_text(tmp_path: Path):
    folder = str(pictured_folder("llava", tmp_path / "llava"))
    picture().save(tmp_path / "cat.png")
    out, image = str(tmp_path / "run.safetensors"), ("--image", str(tmp_path / "cat.png"))
    answer("trace", folder, "what is in the picture ?", *image, "--out", out)
    own = tv.trace(tv.load(folder), "what is in the picture ?", image=tmp_path / "cat.png")
    stored = tv.Trace.load(out)
    assert np.array_equal(stored.attention("decoder"), own.attention("decoder"))
    assert stored.source.labels[1] == "image 0,0"
    assert (stored.patches == own.patches).all()
    answer("trace", folder, "--ids", "1 10 4 11", *image, "--out", out)
    assert tv.Trace.load(out).source.ids == (1, 10, *[4] * 16, 11)
    page = tmp_path / "report.html"
    answer("report", folder, "a cat", *image, "--intervention", WARM, "--out", str(page))
    assert "<title>llava: ↵ a cat</title>" in page.read_text()
    about = answer("inspect", folder, *image, "--text", "a cat")
    assert "capture report: green" in about
    assert "a picture beside it" in answer("inspect", folder)
    assert "reads a text with its picture" in refusal("trace", folder, *image, "--out", out)
    none = ("--image", str(tmp_path / "none.png"))
    assert "There is no picture" in refusal("inspect", folder, *none)
    assert "has no eyes" in refusal("trace", "en-lm", "a cat", *image, "--out", out)
    assert "has no eyes" in refusal("inspect", "en-lm", *image)


def test_trace_takes_a_pair(tmp_path: Path):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] cats sleep dogs bark".replace(" ", "\n")
    hugging({"vocab.txt": words, "tokenizer_config.json": FOREIGN})(tmp_path, tmp_path / "canary")
    out = str(tmp_path / "run.st")
    answer("trace", str(tmp_path), "--pair", "cats sleep", "dogs bark", "--out", out)
    stored = tv.Trace.load(out)
    assert " ".join(stored.source.pieces) == "[CLS] cats sleep [SEP] dogs bark [SEP]"
    own = tv.trace(tv.load(tmp_path), ("cats sleep", "dogs bark"), check=False)
    assert np.array_equal(stored.attention("encoder"), own.attention("encoder"))


@pytest.mark.slow
def test_a_checkpoint_without_config_is_opened_by_its_words(tmp_path: Path):
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
    answer("app", "--port", str(free_port()), *words)
    return seen


def test_app_starts_as_many_workers_as_it_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("STREAMLIT_SERVER_SSL_CERT_FILE", raising=False)
    started(monkeypatch)
    for count, module in (("1", ["live.server"]), ("3", ["balancer", "3"])):
        seen: list[list[str]] = []
        monkeypatch.setattr(os, "execve", lambda _, words, names, seen=seen: seen.append(words))
        answer("app", "--port", str(free_port()), "--workers", count)
        name, *more = module
        assert seen == [[sys.executable, "-m", f"transformer_viz.app.{name}", *more]]
    # several serve no TLS and say so
    monkeypatch.setenv("STREAMLIT_SERVER_SSL_CERT_FILE", "cert.pem")
    monkeypatch.setattr(os, "execve", lambda *words: pytest.fail("it was started"))
    said = refusal("app", "--port", str(free_port()), "--workers", "2")
    assert "--workers 2 serves no TLS of its own" in said
    assert "let a proxy in front speak TLS" in said
    for wrong in ("0", "-1", "many"):
        assert "workers" in refusal("app", "--workers", wrong), wrong


def test_paths_are_opened_below_a_folder_and_by_others_only_where_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "more").mkdir()
    for named in ((), ("--models", "more")):
        monkeypatch.chdir(tmp_path)
        seen, whole = started(monkeypatch, *named), str(tmp_path.joinpath(*named[1:]))
        assert seen["TRANSFORMER_VIZ_ROOTS"] == whole
        assert seen.get("TRANSFORMER_VIZ_MODELS") == (whole if named else None)
        assert "TRANSFORMER_VIZ_PATHS" not in seen
        monkeypatch.chdir(tmp_path)
        seen = started(monkeypatch, "--host", "0.0.0.0", *named)
        assert seen.get("TRANSFORMER_VIZ_PATHS") == (None if named else "off")
    names = ("--name", "a.example", "--name", "b")
    closed = started(monkeypatch, "--no-paths", "--no-uploads", *names)
    assert closed["TRANSFORMER_VIZ_PATHS"] == closed["TRANSFORMER_VIZ_UPLOADS"] == "off"
    assert closed["TRANSFORMER_VIZ_NAMES"] == "a.example,b"


def test_shares_hold_where_others_reach_the_app_or_one_is_set(monkeypatch: pytest.MonkeyPatch):
    usual = [one.default for one in settings.SHARES]
    for words, shares in (
        ((), ["0"] * len(usual)),
        (("--host", "0.0.0.0"), usual),
        (("--name", "viz.example"), usual),
    ):
        seen = started(monkeypatch, *words)
        assert [one.read(seen) for one in settings.SHARES] == shares, words
    variable = settings.REQUESTS.variable
    assert started(monkeypatch, **{variable: "7"})[variable] == "7"


def test_app_lists_its_settings_and_refuses_a_wrong_one(monkeypatch: pytest.MonkeyPatch):
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


def test_each_side_reads_the_vocabulary_that_is_named(tmp_path: Path):
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
        "inspect", path, "--target-tokenizer", write_text(tmp_path / "a.txt", "a b\n")
    )


def test_translate_answers_line_by_line(translator: str):
    model = tv.load(translator)
    lines = ["5 6 7 3", "", "8 3", "4 4 4 3"]
    got = answer("translate", translator, "--beam", "3", stdin="\n".join(lines)).split("\n")
    own = [tv.translate(model, line, beam=3)[0].text if line else "" for line in lines]
    assert got == [*own, ""]
    edit = '{"edits": [{"kind": "block_keys", "keys": [0, 1], "block": "cross"}]}'
    changes = tv.Intervention.from_json(edit)
    wanted = tv.translate(model, "5 6 7 3", intervention=changes)[0].text
    said = answer("translate", translator, "--intervention", edit, stdin="5 6 7 3\n")
    assert said == f"{wanted}\n"
    # bad lines are named, and the ones before answered
    done = call("translate", translator, stdin="5 6 3\n5 99\n5 3\n")
    assert done.exit_code == 2
    assert len(done.stdout.splitlines()) == 1
    assert "Line 2: The id 99 is too large" in done.stderr
    assert "Line 1 is not UTF-8" in refusal("translate", translator, stdin=b"\xff\xfe\n")


def test_generate_goes_on_with_a_text(tmp_path: Path):
    writer = str(checkpoint_folder(tmp_path / "writer", decoder_layers=2, target_vocab=19))
    model = tv.load(writer)
    for words, more in (({}, ()), ({"sample": 0.9}, ("--sample", "0.9"))):
        own = tv.translate(model, "5 6 7", max_tokens=4, **words)[0].text.strip()
        said = answer("generate", writer, "--max", "4", *more, stdin="5 6 7\n")
        assert said == f"{own}\n", words


BAD = {
    "trace {model} --out {out}": "takes one input, and none came",
    "trace {model} '5 3' --ids '5 3' --out {out}": "a text and --ids came",
    "trace {model} '5 3'": "Missing option '--out'",
    "trace {model} '5 3' --out .": "'.' is a folder",
    "trace {model} '5 3' --out no/where.st": "no folder no for --out",
    "trace {model} --ids five --out {out}": (
        "--ids takes token ids from 0, like --ids \"2 45 3\"; got 'five'"
    ),
    "trace {model} --ids '5 99' --out {out}": "99",
    "trace {model} '5 3' --target 2 --target-ids 2 --out {out}": "one target",
    "trace {model} --image cat.png --out {out}": "There is no picture 'cat.png'",
    "trace {model} --audio voice.wav --out {out}": "There is no sound 'voice.wav'",
    "trace {model} --audio {root}/README.md --out {out}": (
        "takes no sounds; give it a text, --ids or --vectors"
    ),
    "trace {model} --image {root}/README.md --out {out}": (
        "takes no pictures; give it a text, --ids or --vectors"
    ),
    "trace {model} --pair 5 3 --out {out}": "reads one text; got 2 of them",
    "trace {model} --vectors {root}/README.md --out {out}": "no .npy file",
    "trace {model} --vectors none.npy --out {out}": "none.npy",
    "trace {model} '5 3' --keep all --out {out}": "got 'all'",
    "trace {model} '5 3' --intervention hot --out {out}": "'hot' is neither",
    """trace {model} '5 3' --intervention '{"edits": [' --out {out}""": "is not JSON",
    """trace {model} '5 3' --intervention '{"edits": [{"kind": "x"}]}' --out {out}""": (
        "no edit of kind 'x'"
    ),
    "trace {model} '5 3' --out {out} --intervention"
    """ '{"edits": [{"kind": "uniform_head", "layer": 71}]}'""": "71",
    "inspect nowhere": "no checkpoint 'nowhere'",
    "inspect {model} --set heads": "WORD=VALUE",
    "inspect {model} --set heads=5": "heads=5",
    "inspect {model} --set hats=5": "hats",
    "translate {model} --beam 0": "--beam",
    "generate {model}": "needs a model of kind decoder-only",
    "train none.toml --data .": "no recipe 'none.toml'",
    "train {root}/recipes/en-de.toml --data nowhere": "no folder 'nowhere'",
    "train {root}/recipes/en-de.toml": "learns from sentences; name the",
    "train {root}/recipes/digits.toml --seed -1 --folder {out}": "The seed -1 is negative",
    "train {root}/README.md": "README.md is not a recipe",
    "translate {model} --set hats=5": "Unknown configuration word 'hats'",
    "inspect {model} --set norm_eps=NaN": "norm_eps needs a number; got 'NaN'",
    "dance": "No such command 'dance'",
    "inspect {model} --jason": "--jason",
    "app --port 70000": "--port",
    "app --model nowhere": "no checkpoint 'nowhere'",
    "app --models nowhere": "no folder 'nowhere'",
}


def test_bad_input_gets_one_sentence(translator: str, tmp_path: Path):
    places = {"{model}": translator, "{out}": str(tmp_path / "x.st"), "{root}": str(ROOT)}
    for command, expected in BAD.items():
        words = shlex.split(command)
        for name, place in places.items():
            words = [word.replace(name, place) for word in words]
        with case(command):
            said = refusal(*words)
            assert expected in said
            assert not (tmp_path / "x.st").exists()
    with socket.socket() as other:  # a port that is taken is said before anything starts
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = refusal("app", "--port", str(port))
    assert f"Cannot listen on 127.0.0.1:{port}" in said
    assert f"--port {port + 1}" in said


def test_ctrl_c_stops_a_long_proof_and_keeps_the_maps(
    translator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(proof_progress, "LEAST", 0.0)
    before, times = signal.getsignal(signal.SIGINT), 1

    def press(counter: Counter, done: int):
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


def failed(error: Exception):
    raise error


def test_every_error_becomes_a_sentence_and_debug_shows_the_traceback():
    for error, said in (
        (KeyError("no such thing"), "no such thing\n"),
        (ValueError("two\n   lines"), "two lines\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x.pt"),
            "No such file or directory: x.pt\n",
        ),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero; --debug shows where.\n"),
    ):
        group = OneSentence("group", [click.Command("fail", callback=partial(failed, error))])
        done = CliRunner().invoke(group, ["fail"])
        assert (done.exit_code, done.stderr) == (2, said)
    assert isinstance(call("inspect", "nowhere", "--debug").exception, ValueError)
    after_the_end = call("inspect", "--", "--debug")
    assert after_the_end.exit_code == 2
    assert "'--debug'" in after_the_end.stderr


@pytest.mark.app
def test_app_serves_on_the_port_it_was_given():
    port = free_port()
    words = [sys.executable, "-m", "transformer_viz", "app", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(words, cwd=ROOT, **quiet)
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


def test_report_of_a_trace_file(tmp_path: Path):
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
