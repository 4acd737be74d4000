"""nanoGPT, minGPT and bare GPT-2: which layout a file has, its heads, and its vocabulary."""

from __future__ import annotations

import dataclasses
import json
import pickle
import string
from collections.abc import Iterable
from pathlib import Path

import torch
from torch.nn import functional as F

import transformer_viz as tv
from tests.checkpoints import gpt
from tests.checkpoints.greedy import greedy
from tests.checkpoints.opening import opens, refused
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.common.provenance import GUESSES
from transformer_viz.checkpoints.layouts import gpt2, mingpt, nanogpt
from transformer_viz.model import ModelConfig
from transformer_viz.preprocessing.tokenizers import PlainIds
from transformer_viz.preprocessing.word_list import Characters

LETTERS = sorted(string.ascii_letters[:34] + "\n .")


def test_a_file_has_one_layout(tmp_path):
    for maker, name in (
        (gpt.nanogpt_file, "nanogpt"),
        (gpt.mingpt_file, "mingpt"),
        (gpt.mingpt_2020_file, "mingpt"),
        (gpt.gpt2_file, "gpt2"),
    ):
        path, _ = maker(tmp_path)
        found = [x.NAME for x in (nanogpt, mingpt, gpt2) if x.recognise(Candidate(path, {}))]
        assert found == [name], maker
        model = opens(path, {"heads": gpt.HEADS}, ids=(None, None, None), layout=name,
                      kind="decoder-only", takes="text", max_tokens=gpt.P)  # fmt: skip
        assert isinstance(model.tokenizer, PlainIds), maker
        assert "token ids are typed" in model.notes[-1], maker


def test_origins_of_a_nanogpt(tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    origin = {"heads": "file", "d_model": "shapes", "activation": "layout"}
    model = opens(path, guesses=(), origin=origin)
    assert set(model.config) == {field.name for field in dataclasses.fields(ModelConfig)}
    words = {"heads": 11, "activation": "gelu_tanh"}
    opens(path, words, **words, d_k=2, origin=dict.fromkeys(words, "override"))
    path, _ = gpt.nanogpt_file(tmp_path, bias=False)
    module = opens(path, attention_bias=False).module
    assert not [name for name, _ in module.named_parameters() if name.endswith("bias")]


def test_heads_of_a_mingpt_come_from_the_config_beside_it(tmp_path, monkeypatch):
    for layers, width, config, heads, origin in (
        (4, 128, {"model_type": "gpt-micro", "n_head": None, "vocab_size": None}, 4, "sidecar"),
        (3, 48, {"model_type": "gpt-nano", "n_layer": None, "n_head": None}, 3, "sidecar"),
        (2, 22, {"model_type": None, "n_layer": 2, "n_head": 11}, 11, "sidecar"),
        (2, 22, {"model_type": "gpt-nano", "n_head": None}, 2, "convention"),
        (2, 48, {"model_type": "gpt-nano", "n_head": None}, 8, "convention"),
        (2, 128, None, 2, "convention"),
    ):
        monkeypatch.setattr(gpt, "LAYERS", layers)
        monkeypatch.setattr(gpt, "D", width)
        (tmp_path / "config.json").unlink(missing_ok=True)
        path, _ = gpt.mingpt_file(tmp_path, config)
        said = {"heads": heads, "activation": "gelu_tanh"}
        model = opens(path, **said, origin={"heads": origin})
        assert ("heads" in model.guesses) == (origin == "convention"), config


def meta(letters: Iterable[str]) -> bytes:
    """Return nanoGPT's ``meta.pkl`` of a character vocabulary."""
    stoi = {letter: n for n, letter in enumerate(letters)}
    itos = {n: letter for letter, n in stoi.items()}
    return pickle.dumps({"vocab_size": len(stoi), "itos": itos, "stoi": stoi})


def test_characters_are_found_beside_the_file_or_with_the_data(tmp_path):
    ids = [LETTERS.index(letter) for letter in "a cab.\n"]
    _, held = gpt.nanogpt_file(tmp_path)
    said = greedy(lambda row: gpt.forward(held, torch.tensor([row]), F.gelu)[1][0], ids[:5], 4)
    for n, place in enumerate(
        ("out/meta.pkl", "out/letters/meta.pkl", "data/letters/meta.pkl", "letters/meta.pkl")
    ):
        (tmp_path / f"{n}/out").mkdir(parents=True)
        path, _ = gpt.nanogpt_file(tmp_path / f"{n}/out")
        found = tmp_path / f"{n}" / place
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_bytes(meta(LETTERS))
        model = opens(path, notes=())
        assert isinstance(model.tokenizer, Characters), place
        trace = tv.trace(model, "a cab.\n", check=False)
        assert trace.source.ids == tuple(ids), place
        assert trace.source.labels == ("a", "␣", "c", "a (2)", "b", ".", "↵"), place
        best = tv.translate(model, "a cab", max_tokens=4)[0]
        assert best.text == "".join(LETTERS[i] for i in said), place


def test_characters_of_another_model_are_refused_or_passed_over(tmp_path):
    (tmp_path / "out").mkdir()
    path, _ = gpt.nanogpt_file(tmp_path / "out")
    (tmp_path / "data" / "letters").mkdir(parents=True)
    (tmp_path / "data" / "letters" / "meta.pkl").write_bytes(meta(LETTERS[:20]))
    assert isinstance(tv.load(path).tokenizer, PlainIds)
    (tmp_path / "out" / "meta.pkl").write_bytes(meta(LETTERS[:20]))
    refused(path, r"meta\.pkl has 20 entries, but .* knows 37")


def test_heads_are_a_guess_where_nothing_says_them(tmp_path):
    """Sample text may be longer than the model reads, and in letters that it lacks."""
    _, held = gpt.nanogpt_file(tmp_path)
    torch.save(held, tmp_path / "bare.pt")
    for letters in (LETTERS, "0123456789+-=*/()[]{}<>^%$#@!~?:;,|'`"):
        (tmp_path / "meta.pkl").write_bytes(meta(sorted(letters)))
        model = opens(tmp_path / "bare.pt", layout="nanogpt")
        assert model.provenance["heads"] in GUESSES, letters
        assert "heads" in model.notes[-1], letters


def byte_pair_files(folder: Path, end: str = "<|endoftext|>") -> dict[str, int]:
    """Write a tiny byte-level BPE with two merges and GPT-2's end of text."""
    letters = ["Ġ", *"catsTh"]
    vocabulary = {piece: n for n, piece in enumerate([*letters, "at", "cat", end])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\na t\nc at\n")
    return vocabulary


def test_byte_pairs_beside_the_file_are_read(tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    vocabulary = byte_pair_files(tmp_path)
    ids = [vocabulary[piece] for piece in ("cat", "s", "Ġ", "cat")]
    end = vocabulary["<|endoftext|>"]
    for file in ("vocab.json", "tokenizer.json"):
        assert (tmp_path / file).is_file(), file
        read = opens(path, eos_id=end, origin={"eos_id": "sidecar"}).tokenizer
        assert read.prompt_ids("cats cat") == ids, file
        assert read.decode([*ids, end]) == "cats cat", file
        assert read.tokens(ids).words == (0, 0, 1, 1), file
        read._tokenizer.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "vocab.json").unlink(missing_ok=True)
    byte_pair_files(tmp_path, end="x")
    (tmp_path / "tokenizer.json").unlink()
    assert tv.load(path).eos_id is None


def test_byte_pairs_that_do_not_fit_are_refused(tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    many = json.dumps({chr(256 + n): n for n in range(gpt.V + 1)})
    for file, content, message in (
        ("vocab.json", "[1, 2]", "vocab.json or merges.txt is no vocabulary"),
        ("vocab.json", many, r"vocab\.json has 38 entries, but .* knows 37"),
        ("tokenizer.json", "<html>", "tokenizer.json is no vocabulary of byte-level BPE"),
        ("tokenizer.json", "{}", "tokenizer.json is no vocabulary of byte-level BPE"),
    ):
        byte_pair_files(tmp_path)
        if content == many:
            (tmp_path / "merges.txt").write_text("#version: 0.2\n")
        (tmp_path / file).write_text(content)
        refused(path, message)
