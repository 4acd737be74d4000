"""A stranger's checkpoint opens as its owner's does, and whatever it does, the server goes on."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import tokenizers
import torch

import transformer_viz as tv
from tests.checkpoints import gpt, opennmt
from tests.checkpoints.hostile.case import Call, folder_of, saved, worded
from tests.checkpoints.hostile.files import POINTERS
from tests.checkpoints.hostile.hugging import hugging
from tests.checkpoints.hostile.test_hostile import check_sentence, tokenizer
from tests.checkpoints.hugging_face import CASES, D
from tests.checkpoints.hugging_face import folder_of as folder_of_library
from tests.checkpoints.own_models import PLANS, Own
from tests.checkpoints.test_adapters import Q, adapter, factors
from tests.checkpoints.test_gpt import LETTERS, byte_pair_files, meta
from tests.support.cases import each
from tests.support.two_vocabularies import SOURCE, TARGET, tutorial_file
from transformer_viz.checkpoints import CheckpointError, load, propose_names
from transformer_viz.checkpoints.common.bundled import PRETRAINED
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.confinement.processes import Nursery
from transformer_viz.opening import apart, places, plain_data, propose_apart, report_apart
from transformer_viz.opening.workshop import Workshop
from transformer_viz.preprocessing.elsewhere import RemoteTokenizer
from transformer_viz.preprocessing.tokenizers import PlainIds
from transformer_viz.views.export.stored_report import stored_report

from .conftest import Open

pytestmark = pytest.mark.process
#: What two openings of one checkpoint must agree on.
FIELDS = [
    field.name
    for field in dataclasses.fields(Model)
    if field.name not in ("module", "calls", "tokenizer", "image", "audio", "eyes", "pair")
]


def workshop_of(model: Model) -> Workshop:
    """Where a model's tokenizer lives."""
    inner: Any = model.tokenizer
    inner = getattr(inner, "_tokenizer", None) or inner._processor
    return inner._ask.func.__self__


def agree(one: Model, other: Model) -> None:
    """The same words, weights, and ids of a text."""
    for name in FIELDS:
        assert getattr(one, name) == getattr(other, name), name
    ours, theirs = one.module.state_dict(), other.module.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert list(one.tokenizer.pieces) == list(other.tokenizer.pieces)
    if isinstance(one.tokenizer, PlainIds):
        assert isinstance(other.tokenizer, PlainIds)
        return
    for text in ("the cat sat", "", "Ümläut 🙂 \ud800 x"):
        for way in ("source_ids", "target_ids", "prompt_ids"):
            ids = getattr(one.tokenizer, way)(text)
            assert getattr(other.tokenizer, way)(text) == ids
            assert other.tokenizer.tokens(ids) == one.tokenizer.tokens(ids)
            assert other.tokenizer.decode(ids) == one.tokenizer.decode(ids)
        assert other.tokenizer.lost(text) == one.tokenizer.lost(text)


def native_pickle(folder: Path) -> Path:
    return folder_of(folder / "own")


def characters(folder: Path) -> Path:
    """nanoGPT's file, and a pickle of the characters that it was trained on."""
    path, _ = gpt.nanogpt_file(folder)
    (folder / "meta.pkl").write_bytes(meta(LETTERS))
    return path


def guessed_heads(folder: Path) -> Path:
    """The same, bare: sample text says how many heads there are."""
    _, held = gpt.nanogpt_file(folder)
    (folder / "meta.pkl").write_bytes(meta(LETTERS))
    (folder / "ckpt.pt").unlink()
    torch.save(held, folder / "bare.pt")
    return folder / "bare.pt"


def lists_inside(folder: Path) -> Path:
    """OpenNMT's file, with lists of words and a part of the weights beside the others."""
    return opennmt.save(folder, opennmt.Variant())[0]


def byte_pairs(folder: Path) -> Path:
    path, _ = gpt.nanogpt_file(folder)
    byte_pair_files(folder)
    return path


def pieces(folder: Path) -> Path:
    """Our own layout with a sentencepiece vocabulary."""
    return Path(shutil.copytree(PRETRAINED / "en-de-small", folder / "own"))


def bert(folder: Path) -> Path:
    (folder / "bert").mkdir(parents=True)
    return hugging(tokenizer())(folder / "bert", folder / "canary")


def adapted(folder: Path) -> Path:
    """A Hugging Face folder with an adapter of torch.save in it."""
    base = folder_of_library(CASES["llama"], "bin", folder / "llama")
    place = adapter(folder / "tuned", factors(Q, D, D), base_model_name_or_path=str(base))
    file = place / "adapter_model.safetensors"
    torch.save(safetensors.torch.load_file(file), place / "adapter_model.bin")
    file.unlink()
    return place


MAKERS: dict[str, Callable[[Path], Path]] = {
    "a pickle of ours": native_pickle,
    "characters": characters,
    "guessed heads": guessed_heads,
    "lists of words inside": lists_inside,
    "byte pairs": byte_pairs,
    "pieces": pieces,
    "a folder of the library": bert,
    "an adapter": adapted,
}


@pytest.mark.shipped
def test_it_opens_as_its_owner_opens_it(tmp_path: Path, opened: Open) -> None:
    def check(name: str) -> None:
        path = MAKERS[name](tmp_path / name)
        agree(load(path, device="cpu"), opened(path, device="cpu"))

    for name in MAKERS:
        (tmp_path / name).mkdir()
    each(((name, name) for name in MAKERS), check)


def test_vocabularies_of_two_sides_are_read_there(tmp_path: Path, opened: Open) -> None:
    """Beside the weights and elsewhere, of each kind; and none is read in this process."""
    path = tutorial_file(tmp_path / "model")
    words = {"tokenizer": tmp_path / "source.txt", "target_tokenizer": tmp_path / "target.json"}
    words["tokenizer"].write_text("\n".join(SOURCE))
    words["target_tokenizer"].write_text(json.dumps(TARGET))
    ids = {word: i for i, word in enumerate(TARGET)}
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="<unk>"))
    fast.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    fast.save(str(tmp_path / "fast.json"))
    for given in (words, words | {"target_tokenizer": tmp_path / "fast.json"}):
        mine, theirs = (way(path, device="cpu", heads=2, **given) for way in (load, opened))
        agree(mine, theirs)
        both = [tv.trace(m, "the dog", "der hund", check=False) for m in (mine, theirs)]
        assert both[0].target == both[1].target
        assert both[1].target.labels == ("<sos>", "der", "hund")
    for name, file in {"src.txt": "tokenizer", "tgt.json": "target_tokenizer"}.items():
        shutil.copy(words[file], path.parent / name)
    found = opened(path, device="cpu", heads=2)
    assert tv.trace(found, "the dog", "der hund", check=False).target == both[1].target
    (tmp_path / "corpus.txt").write_text("two words\n")
    with pytest.raises(CheckpointError, match="Line 1 holds several words"):
        opened(path, device="cpu", heads=2, tokenizer=tmp_path / "corpus.txt")
    with pytest.raises(CheckpointError, match="which is not there"):
        opened(path, device="cpu", heads=2, tokenizer="nothing.txt")


def test_a_text_runs_alike(tmp_path: Path, opened: Open) -> None:
    path = bert(tmp_path)
    before = (path / "model.safetensors").stat().st_mtime_ns
    mine, theirs = load(path, device="cpu"), opened(path, device="cpu")
    assert (path / "model.safetensors").stat().st_mtime_ns == before  # sound: not written again
    assert isinstance(theirs.tokenizer._tokenizer, RemoteTokenizer)
    ids = mine.tokenizer.source_ids("the cat")
    a, b = tv.trace(mine, ids), tv.trace(theirs, ids)
    assert np.array_equal(a.attention("encoder"), b.attention("encoder"))
    assert a.source == b.source


def test_overrides_go_along_and_refusals_come_back(tmp_path: Path, opened: Open) -> None:
    model = opened(native_pickle(tmp_path), device="cpu", norm_eps=0.25)
    assert model.config["norm_eps"] == 0.25 and model.provenance["norm_eps"] == "override"
    path, said = worded(heads=7)(tmp_path / "folder", tmp_path), []
    for way in (load, opened):
        with pytest.raises(CheckpointError) as error:
            way(path, device="cpu")
        said.append(str(error.value))
    assert said[0] == said[1]


def test_nothing_lies_about_after_it(
    tmp_path: Path, opened: Open, left: Callable[[], list[str]]
) -> None:
    model = opened(native_pickle(tmp_path), device="cpu")
    assert not left()
    (tmp_path / "h").mkdir()
    model = opened(bert(tmp_path / "h"), device="cpu")
    child = workshop_of(model).process
    assert child is not None and len(left()) == 1 and _lives(child._number)
    del model
    gc.collect()
    assert not left() and not _lives(child._number)


def _lives(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


# ---- files that do harm --------------------------------------------------------------------------


def stays(opened: Open, sound_folder: Path, do: Callable[[], Any]) -> tuple[str, float]:
    """Return what a visitor reads, and how long another thread of the server had to wait.

    The wait is in seconds of this process on the processor: on a busy machine it is not longer.
    """
    longest, over = [0.0], threading.Event()

    def beat() -> None:
        before = time.process_time()
        while not over.wait(0.01):
            longest[0] = max(longest[0], time.process_time() - before)
            before = time.process_time()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(ValueError) as error:
            do()
    finally:
        over.set()
        thread.join()
    check_sentence(str(error.value), "")
    native_pickle(sound_folder)
    assert opened(sound_folder / "own", device="cpu").parameters > 0  # the next one is served
    return str(error.value), longest[0]


def test_a_file_that_breaks_memory_breaks_its_own_process(
    tmp_path: Path, unguarded: Open, left: Callable[[], list[str]]
) -> None:
    """Finding 1: with the checks, their sentence; without them a dead child, and ours."""
    (case,) = (case for case in POINTERS if case.name == "an object beyond a list")
    (tmp_path / "f").mkdir()
    path = case.make(tmp_path / "f", tmp_path / "canary")
    said, _ = stays(unguarded, tmp_path, lambda: unguarded(path, device="cpu"))
    assert "could not be opened: the process that read it broke off (SIG" in said
    assert not left() and not (tmp_path / "canary").exists()


def test_a_pickle_that_runs_code_would_reach_nothing(tmp_path: Path, unguarded: Open) -> None:
    """Even code of the file's choice: no program is begun, nothing is written outside."""
    canary = tmp_path / "canary"
    (tmp_path / "f").mkdir()
    path = saved({"a": Call(os.system, f"touch {canary}")})(tmp_path / "f", canary)
    stays(unguarded, tmp_path, lambda: unguarded(path, device="cpu"))
    assert not canary.exists()
    torch.load(path, weights_only=False)
    assert canary.exists()  # in this very process it would have run


def hostile_tokenizer(folder: Path, **parts: Any) -> Path:
    folder.mkdir()
    return hugging(tokenizer(**parts))(folder, folder / "canary")


def test_a_pattern_without_end_holds_up_its_own_visitor(
    tmp_path: Path, unguarded: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 2: decoding held the lock of the whole server for 47 s."""
    monkeypatch.setenv("TRANSFORMER_VIZ_TOKENIZER_SECONDS", "1")
    slow = {"type": "Replace", "pattern": {"Regex": "(?:a|a){20}[bc]"}, "content": ""}
    model = unguarded(hostile_tokenizer(tmp_path / "f", normalizer=slow), device="cpu")
    assert model.tokenizer.source_ids("the cat")
    start = time.monotonic()
    said, longest = stays(unguarded, tmp_path, lambda: model.tokenizer.source_ids("a" * 3000))
    assert "took more than 1 s for this text and was stopped" in said, said
    assert longest < 2 and time.monotonic() - start < 60
    assert model.tokenizer.source_ids("the cat")  # it was started anew


def test_a_template_without_end_fills_its_own_memory(
    tmp_path: Path, unguarded: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 3: 1.6 MB of tokenizer.json made the server abort."""
    monkeypatch.setenv("TRANSFORMER_VIZ_OPEN_MB", "1500")
    many = 30_000
    token = {"id": "[CLS]", "ids": [2] * many, "tokens": ["[CLS]"] * many}
    place = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    template = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, *[place] * many],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": token},
    }
    path = hostile_tokenizer(tmp_path / "f", post_processor=template)
    said, _ = stays(unguarded, tmp_path, lambda: _used(unguarded(path, device="cpu")))
    assert "broke off" in said or "MB of memory" in said, said


def _used(model: Model) -> list[int]:
    assert not isinstance(model.tokenizer, PlainIds), model.notes
    return model.tokenizer.source_ids("the cat")


def test_a_panic_is_a_sentence(tmp_path: Path, unguarded: Open) -> None:
    """Finding 5: a panic passed every net."""
    retry = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}
    model = unguarded(hostile_tokenizer(tmp_path / "f", normalizer=retry), device="cpu")
    said, _ = stays(unguarded, tmp_path, lambda: model.tokenizer.source_ids("a" * 60 + "!"))
    assert "tokenizer of this model" in said


def test_pieces_without_end_end(
    tmp_path: Path, unguarded: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 7: extra_ids made opening endless, and others wait for its lock."""
    monkeypatch.setenv("TRANSFORMER_VIZ_OPEN_SECONDS", "3")
    (tmp_path / "f").mkdir()
    words = json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 3_000_000})
    path = hugging({"tokenizer_config.json": words})(tmp_path / "f", tmp_path / "canary")
    said, longest = stays(unguarded, tmp_path, lambda: unguarded(path, device="cpu"))
    assert "took more than" in said or "MB of memory" in said, said
    assert longest < 2


def test_a_process_that_cannot_be_begun_is_a_sentence(
    tmp_path: Path, opened: Open, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "NURSERY", Nursery("tests.no_such:module", "x:y"))
    with pytest.raises(OSError, match=r"cannot begin the process .* try again later\.$"):
        opened(native_pickle(tmp_path), device="cpu")
    assert not left()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_names_reach_the_process_and_are_proposed_there(tmp_path: Path, opened: Open) -> None:
    """The same model as opened here: from a file of torch.save, and from safetensors."""
    own = Own(PLANS["the journey: no position buffer, scaled"])
    for file in ("mine.pt", "mine.safetensors"):
        folder = tmp_path / file.partition(".")[2]
        folder.mkdir()
        if file.endswith(".pt"):
            torch.save(own.state_dict(), folder / file)
        else:
            safetensors.torch.save_file(own.state_dict(), folder / file)
        found = propose_apart(folder / file)
        assert found == propose_names(folder / file) and not found.open
        table = tmp_path / "elsewhere.json"
        table.write_text(json.dumps(found.names))
        mine = load(folder / file, names=found.names, heads=3, device="cpu")
        for names in (found.names, table):
            model = opened(folder / file, device="cpu", names=names, heads=3)
            assert model.provenance == mine.provenance and model.notes == mine.notes
            for one, other in zip(model.module.parameters(), mine.module.parameters(), strict=True):
                assert torch.equal(one, other)
        (folder / "names.json").write_text(json.dumps(found.names))
        assert opened(folder / file, device="cpu", heads=3).layout == mine.layout
    with pytest.raises(CheckpointError, match="has no such weight"):
        opened(tmp_path / "pt" / "mine.pt", device="cpu", names={"x": "y"})


def test_tied_weights_are_written_once_and_overlapping_ones_bounded(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve layers that share one table become one; parts that overlap are refused in time."""
    path = next(one for one in native_pickle(tmp_path).iterdir() if one.suffix == ".pt")
    state = torch.load(path, weights_only=True)
    alike: dict[tuple[Any, ...], torch.Tensor] = {}
    state = {name: alike.setdefault(tuple(one.shape), one) for name, one in state.items()}
    torch.save(state, path)
    mine, theirs = load(path, device="cpu"), opened(path, device="cpu")
    agree(mine, theirs)
    equal = plain_data.write_tensors(state, tmp_path / "w.safetensors")
    read = safetensors.torch.load_file(tmp_path / "w.safetensors")
    assert set(read) | set(equal) == set(state) and len(read) == len(alike)
    both = read | plain_data.equal_tensors(equal, read)
    assert all(torch.equal(both[name], one) for name, one in state.items())
    assert plain_data.equal_tensors({"a": "none", "b": [1]}, read) == {}
    monkeypatch.setattr(plain_data, "SPARE", 0)
    numbers = torch.arange(1000.0)
    for odd in (
        {str(n): numbers[n : n + 900] for n in range(20)},
        {str(n): numbers[:1].expand(500 + n) for n in range(20)},
        {str(n): numbers[: 900 - n].view(-1) for n in range(20)},
    ):
        with pytest.raises(CheckpointError, match="parts of the same numbers"):
            plain_data.write_tensors(odd, tmp_path / "w.safetensors")
    fused = {str(n): numbers.view(10, 100)[n] for n in range(10)}
    assert plain_data.write_tensors(fused, tmp_path / "w.safetensors") == {}


def test_a_trace_file_opens_there_as_here(tmp_path: Path, left: Callable[[], list[str]]) -> None:
    path = tmp_path / "run.safetensors"
    tv.from_attentions(np.full((2, 3, 5, 5), 0.2), ["<b>", "ä", "c", "d", "e"]).save(path)
    make = f"{stored_report.__module__}:{stored_report.__name__}"
    mine = stored_report(tv.Trace.load(path))
    theirs = report_apart(path, "mine.safetensors", make)
    assert json.loads(json.dumps(mine)) == theirs and not left()
    content = path.read_bytes()
    path.write_bytes(content.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(CheckpointError, match=r"^mine\.safetensors has trace format 9"):
        report_apart(path, "mine.safetensors", make)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"^mine\.safetensors could not be opened"):
        report_apart(path, "mine.safetensors", "transformer_viz.core.trace:Trace")
    assert not left()


def test_a_page_that_is_no_plain_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff")
    monkeypatch.setattr(apart, "MOST_PAGE", 6)
    (tmp_path / "long").write_text("longer")
    assert apart._written_page(tmp_path / "secret") == "secret"
    (tmp_path / "long").write_text("too long")
    for name in ("link", "folder", "pipe", "bytes", "long", "none"):
        with pytest.raises((OSError, ValueError)):
            apart._written_page(tmp_path / name)
