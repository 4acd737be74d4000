"""Folders whose config, vocabulary, index or weights do not fit, or lead elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from .case import Case, configured, folder_of, state, weighted, worded

NAN, INFINITE = torch.full((12,), torch.nan), torch.full((12,), -torch.inf)
INDEX = "model.safetensors.index.json"


def indexed(
    parts: dict[str, str] | None = None, index: Any = None, drop: str = ""
) -> Callable[[Path, Path], Path]:
    """A maker of a folder in two parts; ``parts`` overrides which part holds which weight."""

    def make(folder: Path, canary: Path) -> Path:
        whole = {name: value.contiguous() for name, value in state().items()}
        names = sorted(whole)
        table = {name: f"part-{1 + (n % 2)}.safetensors" for n, name in enumerate(names)}
        for part in sorted(set(table.values()) - {drop}):
            held = {name: whole[name] for name in names if table[name] == part}
            safetensors.torch.save_file(held, folder / part)
        content = {"weight_map": table | (parts or {})} if index is None else index
        (folder / INDEX).write_text(content if isinstance(content, str) else json.dumps(content))
        return folder / INDEX

    return make


def linked(folder: Path, canary: Path) -> Path:
    """A part that is a link to a file of another folder."""
    path = indexed()(folder, canary)
    outside = folder.parent / f"{folder.name}-outside.safetensors"
    (folder / "part-1.safetensors").rename(outside)
    (folder / "part-1.safetensors").symlink_to(outside)
    return path


def vocabulary(content: bytes) -> Callable[[Path, Path], Path]:
    def make(folder: Path, canary: Path) -> Path:
        folder_of(folder)
        (folder / "vocabulary.model").write_bytes(content)
        return folder

    return make


def several(folder: Path, canary: Path) -> Path:
    folder_of(folder)
    torch.save(state(), folder / "v.pt")
    return folder


def piped_config(folder: Path, canary: Path) -> Path:
    folder_of(folder)
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    return folder


def of_strangers_code(folder: Path, canary: Path) -> Path:
    """A Hugging Face folder that wants its own Python files run."""
    code = f"open({str(canary)!r}, 'w')\nclass M: pass\nclass C: pass\n"
    words = {
        "model_type": "stranger",
        "architectures": ["M"],
        "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"},
    }
    (folder / "config.json").write_text(json.dumps(words))
    (folder / "code.py").write_text(code)
    safetensors.torch.save_file({"a.weight": torch.zeros(2)}, folder / "model.safetensors")
    return folder


CONFIGS = [
    Case("NaN", configured('{"d_model": NaN}'), r"config\.json is not JSON: it holds NaN"),
    Case("infinity", configured('{"norm_eps": Infinity}'), "it holds Infinity"),
    Case("minus infinity", configured('{"norm_eps": -Infinity}'), "it holds -Infinity"),
    Case("1e999", configured('{"norm_eps": 1e999}'), "it holds 1e999, which is no finite number"),
    Case("a huge number", configured('{"heads": 1' + "0" * 40 + "}"), "which is too large"),
    Case("endless digits", configured('{"heads": 1' + "0" * 10**6 + "}"), "too large|are the most"),
    Case("100,000 brackets", configured('{"a":' + "[" * 10**5 + "]" * 10**5 + "}"), "nests more"),
    Case("100 brackets", configured('{"a":' + "[" * 99 + "]" * 99 + "}"), "more than 64 brackets"),
    Case("a word twice", configured('{"heads": 3, "heads": 4}'),
         "the word 'heads' stands in it twice"),
    Case("2 MB", configured("{" + " " * 2**21 + "}"), "1,048,576 are the most"),
    Case("no object", configured("[1]"), "holds a list; expected a JSON object"),
    Case("no JSON", configured("{"), "is not JSON"),
    Case("no text", configured(b"\xff\xfe\x00"), "is not JSON"),
    Case("no words", configured("{}"), "lacks 'd_model'"),
    Case("a pipe for a config", piped_config, "lacks 'd_model'"),
    Case("heads in words", worded(heads="3"), "heads needs a whole number from 0; got '3'"),
    Case("heads below zero", worded(heads=-3), "heads needs a whole number from 0"),
    Case("no heads", worded(heads=0), "heads"),
    Case("heads that do not divide", worded(heads=5), "cannot be split"),
    Case("half a head", worded(heads=1.5), "heads needs a whole number from 0; got 1.5"),
    Case("a list of heads", worded(heads=[3]), "heads needs a whole number"),
    Case("truth for a number", worded(d_ff=True), "d_ff needs a whole number from 0; got True"),
    Case("an unknown word", worded(hedas=3), "Unknown configuration word 'hedas'"),
    Case("an unknown choice", worded(norm="sideways"), "norm='sideways' is not supported"),
    Case("10^9 layers", worded(encoder_layers=10**9), "asks for 1000000001 layers", heavy=True),
    Case("a width of 10^13", worded(d_ff=10**13), "d_ff=10000000000000 is too large", heavy=True),
    Case("a width of 10^9", worded(d_ff=10**8), r"is \[10(, 12)?\] in w\.pt", heavy=True),
    Case("10^12 positions", worded(max_positions=10**12), "a position table of", heavy=True),
    Case("10^9 heads", worded(heads=10**9), "cannot be split"),
]  # fmt: skip
WEIGHTS = [
    Case("a weight missing", weighted(decoder__norm__bias=None),
         "lacks the weight decoder.norm.bias"),
    Case("a weight too many", weighted(extra__weight=torch.zeros(3)), "weight extra.weight that"),
    Case("another shape", weighted(decoder__norm__bias=torch.zeros(13)), r"is \[13\] in w\.pt"),
    Case("no shape", weighted(decoder__norm__bias=torch.tensor(1.0)), r"is \[\] in w\.pt"),
    Case("not a number", weighted(decoder__norm__bias=NAN),
         "decoder.norm.bias in w.pt has 12 values"),
    Case("infinite", weighted(decoder__norm__bias=INFINITE), "NaN or infinite"),
    Case("another width", worded(d_model=24), r"is \[17, 12\] in w\.pt, but the config makes it"),
    Case("a tie that is not there", worded(tied="all"), "holds two different matrices"),
    Case("no sentencepiece", vocabulary(b"\x00garbage" * 9), "not a sentencepiece model"),
    Case("an empty vocabulary", vocabulary(b""), "not a sentencepiece model"),
    Case("two weights files", several, r"holds several weights files \(v\.pt, w\.pt\)"),
    Case("code of strangers", of_strangers_code, "auto_map|own code|not known"),
]  # fmt: skip
PARTS = [
    Case("a part of another folder", indexed({"decoder.norm.bias": "../x.safetensors"}),
         "parts are files"),
    Case("a part from the top", indexed({"decoder.norm.bias": "/etc/passwd"}), "names the part"),
    Case("a part of Windows", indexed({"decoder.norm.bias": "..\\x.safetensors"}),
         "names the part"),
    Case("a part of no name", indexed({"decoder.norm.bias": ""}), "names the part ''"),
    Case("a link out of the folder", linked, "is a link out of its folder"),
    Case("a part missing", indexed(drop="part-2.safetensors"), "which is not beside it; copy all"),
    Case("a weight in another part", indexed({"decoder.norm.bias": "part-2.safetensors"}),
         r"the parts do not belong together|lacks|holds"),
    Case("an index without a map", indexed(index={}), "has no weight_map"),
    Case("a map of numbers", indexed(index={"weight_map": {"a": 1}}), "has no weight_map"),
    Case("an index in itself", indexed(index={"weight_map": {"a": INDEX}}), "no further index"),
    Case("an index of lists", indexed(index="[]"), "expected a JSON object"),
    Case("an index of NaN", indexed(index='{"weight_map": NaN}'), "it holds NaN"),
]  # fmt: skip
FOLDERS = [*CONFIGS, *WEIGHTS, *PARTS]
