"""Sound inputs that are changed: one of each layout, container and tokenizer that opens.

Each checkpoint is made by the module of `tests/checkpoints` that holds its layout to a witness.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch
import torch

from tests.checkpoints import (
    annotated,
    fairseq,
    gpt,
    jadore,
    labml,
    opennmt,
    timm,
    torch_core,
    torch_tutorial,
)
from tests.checkpoints.hostile.case import folder_of as native_folder
from tests.checkpoints.hostile.case import state as native_state
from tests.checkpoints.hugging_face import CASES, folder_of
from tests.conftest import SENTENCES, make_module
from transformer_viz.checkpoints.common.bundled import CONFIG, VOCABULARY, WEIGHTS
from transformer_viz.preprocessing.tokenizers import SentencePieceText

from .mutators import Files


@dataclass(frozen=True)
class Seed:
    """A sound checkpoint: its files, which of them is opened (none: the folder), and the words."""

    name: str
    files: Files
    opened: str = ""
    words: dict[str, Any] = field(default_factory=dict)


def files_in(folder: Path) -> Files:
    """Every file below a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def vocabulary(**options: Any) -> bytes:
    """A small sentencepiece model."""
    import sentencepiece

    out = io.BytesIO()
    words: dict[str, Any] = {"vocab_size": 331, "model_type": "bpe", "byte_fallback": True}
    words |= {"normalization_rule_name": "identity"}
    words |= {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 5), model_writer=out, num_threads=1, **words | options
    )
    return out.getvalue()


def tokenizer_files(model: str = "pieces") -> Files:
    """A tokenizer of the tokenizers library, with every part that such a file may have."""
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "a", "b", "ab", "."]
    vocab = {word: number for number, word in enumerate(words)}
    models: dict[str, Any] = {
        "pieces": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100, "vocab": vocab},
        "bytes": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]], "unk_token": "[UNK]",
                  "dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False},
        "unigram": {"type": "Unigram", "unk_id": 0, "vocab": [[w, -1.5 * n] for w, n in
                                                              vocab.items()]},
        "words": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": vocab},
    }  # fmt: skip
    added = [
        {"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for number, word in enumerate(words[:5])
    ]  # fmt: skip
    piece = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    whole: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFC"}, {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated",
             "invert": False}, {"type": "Whitespace"}]},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [piece, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [piece, {"Sequence": {"id": "A", "type_id": 0}},
                                    {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2],
                                                        "tokens": ["[CLS]"]}}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": models[model],
    }  # fmt: skip
    beside = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 512,
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {
            str(one["id"]): {word: value for word, value in one.items() if word != "id"}
            for one in added
        },
        "chat_template": "{% for m in messages %}{{ m }}{% endfor %}",
    }
    names = {"unk": "[UNK]", "pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    beside |= {f"{role}_token": word for role, word in names.items()}
    return {
        "tokenizer.json": json.dumps(whole).encode(),
        "tokenizer_config.json": json.dumps(beside).encode(),
        "special_tokens_map.json": json.dumps({"unk_token": "[UNK]"}).encode(),
    }


def _hugging(name: str, files: str = "safetensors", more: Files | None = None) -> Files:
    with TemporaryDirectory() as place:
        folder_of(CASES[name], files, Path(place))
        return files_in(Path(place)) | (more or {})


def _made(make: Callable[[Path], Any]) -> Files:
    with TemporaryDirectory() as place:
        make(Path(place))
        return files_in(Path(place))


def _ours(place: Path) -> None:
    """A folder as `pretrained/` holds them: safetensors, words, a vocabulary."""
    words = vocabulary()
    size = len(SentencePieceText(words).pieces)
    module = make_module(source_vocab=size, target_vocab=size)
    safetensors.torch.save_file(dict(module.state_dict()), place / WEIGHTS)
    config = {"layout": "transformer_viz", "title": "Tiny"} | module.config.to_dict()
    (place / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    (place / VOCABULARY).write_bytes(words)


def _letters(place: Path) -> None:
    """nanoGPT on letters, with its meta.pkl."""
    gpt.nanogpt_file(place)
    letters = [chr(97 + n) for n in range(gpt.V)]
    meta = {"vocab_size": gpt.V, "stoi": {c: n for n, c in enumerate(letters)}}
    meta["itos"] = dict(enumerate(letters))
    (place / "meta.pkl").write_bytes(pickle.dumps(meta))


def _legacy(place: Path) -> None:
    native_folder(place)
    torch.save(native_state(), place / "w.pt", _use_new_zipfile_serialization=False)


def _chkpt(version: str) -> Callable[[Path], None]:
    return lambda place: torch.save(jadore.content(version, False, False), place / "model.chkpt")


MAKERS: dict[str, tuple[Callable[[], Files], str, dict[str, Any]]] = {
    "ours": (lambda: _made(_ours), "", {}),
    "ours, torch.save": (lambda: _made(native_folder), "", {}),
    "ours, torch.save of old": (lambda: _made(_legacy), "", {}),
    "jadore 2020": (lambda: _made(_chkpt("2020")), "model.chkpt", {}),
    "jadore 2019": (lambda: _made(_chkpt("2019")), "model.chkpt", {}),
    "jadore 2018": (lambda: _made(_chkpt("2018")), "model.chkpt", {}),
    "annotated": (
        lambda: _made(lambda p: torch.save(annotated.state(), p / "w.pt")),
        "w.pt",
        {"heads": annotated.H},
    ),
    "labml": (
        lambda: _made(lambda p: torch.save(labml.state({}), p / "w.pt")),
        "w.pt",
        {"heads": labml.H},
    ),
    "nanogpt": (lambda: _made(_letters), "ckpt.pt", {}),
    "mingpt": (lambda: _made(gpt.mingpt_file), "model.pt", {"heads": gpt.HEADS}),
    "mingpt 2020": (lambda: _made(gpt.mingpt_2020_file), "model.pt", {"heads": gpt.HEADS}),
    "gpt2": (lambda: _made(gpt.gpt2_file), "pytorch_model.bin", {"heads": gpt.HEADS}),
    "fairseq": (
        lambda: _made(lambda p: fairseq.save(p, fairseq.Variant(container="cfg"))),
        "checkpoint_best.pt",
        {},
    ),
    "fairseq of old": (
        lambda: _made(lambda p: fairseq.save(p, fairseq.Variant(old=True))),
        "checkpoint_best.pt",
        {},
    ),
    "opennmt": (
        lambda: _made(lambda p: opennmt.save(p, opennmt.Variant())),
        "model_step_500.pt",
        {},
    ),
    "timm": (lambda: _made(lambda p: timm.save(timm.VARIANTS[3], p)), "checkpoint-3.pth.tar", {}),
    "timm, a folder": (lambda: _made(lambda p: timm.save(timm.VARIANTS[4], p)), "", {}),
    "torch tutorial": (
        lambda: _made(torch_tutorial.save),
        "translator.pth",
        {"heads": torch_tutorial.H},
    ),
    "torch core": (
        lambda: _made(lambda p: torch.save(torch_core.state(torch_core.VARIANTS[0]), p / "w.pt")),
        "w.pt",
        {"heads": torch_core.H},
    ),
    "bert": (lambda: _hugging("bert", more=tokenizer_files()), "", {}),
    "bert in parts": (lambda: _hugging("bert", "safetensors in parts"), "", {}),
    "bert, torch.save in parts": (lambda: _hugging("bert", "bin in parts"), "", {}),
    "gpt2 of the library": (lambda: _hugging("gpt2", more=tokenizer_files("bytes")), "", {}),
    "llama": (lambda: _hugging("llama", more=tokenizer_files("unigram")), "", {}),
    "marian": (lambda: _hugging("marian", more=tokenizer_files("words")), "", {}),
    "vit": (lambda: _hugging("vit"), "", {}),
}


def checkpoints() -> list[Seed]:
    """One sound checkpoint of each kind."""
    return [Seed(name, make(), opened, words) for name, (make, opened, words) in MAKERS.items()]
