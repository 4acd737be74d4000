"""Single files that are damaged, disguised, or made to run code or fill the memory."""

from __future__ import annotations

import argparse
import collections
import functools
import gzip
import io
import json
import os
import pathlib
import pickle
import struct
import subprocess
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import theirs
from .case import Call, Case, Filled, header, pickled, saved, shell, state, written, zipped

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
THINGS = r"holds Python objects \({}[\w., ]*\), not only tensors"


def script(folder: Path, canary: Path) -> Path:
    """A real TorchScript file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Linear(2, 2)).save(folder / "w.pt")
    return folder / "w.pt"


def deflated(folder: Path, canary: Path) -> Path:
    """A file of torch.save whose zeros are squeezed: 64 MB in 60 kB."""
    torch.save({"a": torch.zeros(2**24)}, folder / "raw.pt")
    with zipfile.ZipFile(folder / "raw.pt") as raw:
        content = {name: raw.read(name) for name in raw.namelist()}
    (folder / "w.pt").write_bytes(zipped(content))
    (folder / "raw.pt").unlink()
    return folder / "w.pt"


def lying(folder: Path, canary: Path) -> Path:
    """A zip whose table of contents says that a record of 4 bytes has 4 GB."""
    torch.save({"a": torch.zeros(1)}, folder / "w.pt")
    content = bytearray((folder / "w.pt").read_bytes())
    at = content.rfind(b"PK\x01\x02", 0, content.rfind(b"data/0"))
    struct.pack_into("<II", content, at + 20, 2**32 - 2, 2**32 - 2)
    (folder / "w.pt").write_bytes(content)
    return folder / "w.pt"


def endless_contents(folder: Path, canary: Path) -> Path:
    """A zip with a table of contents of 40 MB."""
    with zipfile.ZipFile(folder / "w.pt", "w") as archive:
        for number in range(600):
            info = zipfile.ZipInfo(f"w/{number}")
            info.comment = b"x" * 65_000
            archive.writestr(info, b"")
    return folder / "w.pt"


def torn(folder: Path, canary: Path) -> Path:
    """A record that lost half of its bytes."""
    torch.save({"a": torch.zeros(64)}, folder / "w.pt")
    with zipfile.ZipFile(folder / "w.pt") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    half = {name: c[:128] if name.endswith("data/0") else c for name, c in members.items()}
    (folder / "w.pt").write_bytes(zipped(half, zipfile.ZIP_STORED))
    return folder / "w.pt"


def cut(folder: Path, canary: Path) -> Path:
    """A download that broke off."""
    torch.save(state(), folder / "w.pt")
    content = (folder / "w.pt").read_bytes()
    (folder / "w.pt").write_bytes(content[: len(content) // 2])
    return folder / "w.pt"


def two_pickles(folder: Path, canary: Path) -> Path:
    """Two tables of contents whose names differ in a capital letter only."""
    good = io.BytesIO()
    torch.save({"a": torch.zeros(2)}, good)
    with zipfile.ZipFile(good) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith("data.pkl"))
    members[name.replace("data.pkl", "Data.pkl")] = pickle.dumps(Call(os.system, "true"))
    (folder / "w.pt").write_bytes(zipped(members, zipfile.ZIP_STORED))
    return folder / "w.pt"


def old_giant(folder: Path, canary: Path) -> Path:
    """A file as torch wrote them before 2020 whose 8 numbers claim to be 10^11."""
    torch.save({"a": torch.zeros(8)}, folder / "w.pt", _use_new_zipfile_serialization=False)
    content = (folder / "w.pt").read_bytes()
    changed = content.replace(b"K\x08N", b"\x8a\x06" + (10**11).to_bytes(6, "little") + b"N", 1)
    assert changed != content
    (folder / "w.pt").write_bytes(changed)
    return folder / "w.pt"


def tar_of(folder: Path, canary: Path) -> Path:
    torch.save(state(), folder / "inner.pt")
    with tarfile.open(folder / "w.pth.tar", "w") as archive:
        archive.add(folder / "inner.pt", "../escaped.pt")
    return folder / "w.pth.tar"


def shared(folder: Path, canary: Path) -> Path:
    """Twenty thousand names, each for the same megabyte."""
    whole = torch.zeros(2**18)
    torch.save({f"layer.{n}.weight": whole for n in range(20_000)}, folder / "w.pt")
    return folder / "w.pt"


def quantised(folder: Path, canary: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8)
        return saved({"a": tensor})(folder, canary)


def overlapping() -> dict[str, Any]:
    return {"a": F32, "b": F32 | {"data_offsets": [4, 12], "shape": [2]}}


def gets(canary: Path) -> Any:
    """A way to a shell by looking things up."""
    return Call(getattr, Call(__import__, "os"), "system")


def crowd(count: int) -> Callable[[Path, Path], Path]:
    """A header that names so many empty tensors."""

    def make(folder: Path, canary: Path) -> Path:
        entry = json.dumps({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})
        return written(header("{" + f'"a":{entry},' * count), "w.safetensors")(folder, canary)

    return make


def fat_header(folder: Path, canary: Path) -> Path:
    return written(header({"a": F32}, bytes(8), 90 * 2**20), "w.safetensors")(folder, canary)


def fifo(folder: Path, canary: Path) -> Path:
    os.mkfifo(folder / "w.pt")
    return folder / "w.pt"


def circle(folder: Path, canary: Path) -> Path:
    (folder / "w.pt").symlink_to(folder / "w.pt")
    return folder / "w.pt"


def device(folder: Path, canary: Path) -> Path:
    (folder / "w.pt").symlink_to("/dev/zero")
    return folder / "w.pt"


def directory(folder: Path, canary: Path) -> Path:
    (folder / "w.pt").mkdir()
    return folder / "w.pt"


NEST = b")" + b"q\x00h\x00\x86" * 60  # a pair of pairs of pairs ...: 2^60 of them
NESTED_KEY = b"}" + NEST + b"K\x01s."
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
OLD = {"_use_new_zipfile_serialization": False}
WIDE = torch.zeros(1).expand(10**9)

RECONSTRUCT, SCALAR = np.zeros(0).__reduce__()[0], np.float64(0).__reduce__()[0]
FILLED = r"{} is filled with what no state dict holds"
CALLED = r"{} is called with what no state dict holds"
KIND = r"numpy\.dtype"
ARRAY = r"numpy\._core\.multiarray\._reconstruct"


def dtype(name: str, *words: Any) -> Filled | Call:
    """A kind of numpy by its name, filled with what follows version and byte order."""
    made = (name, False, True)
    return Filled(np.dtype, made, (3, "<", *words)) if words else Call(np.dtype, *made)


def array(kind: Any, data: Any, shape: Any = (1,), version: Any = 1) -> Callable[..., Path]:
    """A file with one array of numpy: its kind, its data and its shape as given."""
    made = Filled(RECONSTRUCT, (np.ndarray, (0,), b"b"), (version, shape, kind, False, data))
    return saved({"a": made})


#: numpy follows these states without a look: pointers beyond a list, or eight bytes of the file.
POINTERS = [
    Case("an object beyond a list", array(dtype("O8"), [None], (64,)), CALLED.format(KIND)),
    Case("a text as an object", array(dtype("O8"), ["A" * 460] * 65, (65,)), CALLED.format(KIND)),
    Case("a thousand million objects", array(dtype("O8"), [], (10**9,)), CALLED.format(KIND)),
    *(
        Case(
            f"a kind of objects said to be {name}",
            array(dtype(name, None, None, None, -1, -1, 63), [1.0]),
            FILLED.format(KIND),
        )
        for name in ("f8", "i8")
    ),
    Case("a kind with fields", array(dtype("f8", None, ("a",), {"a": 1}, -1, -1, 0), b"x" * 8),
         FILLED.format(KIND)),
    Case("a text wider than its name", array(dtype("S5", None, None, None, 10**9, 1, 0), b"x" * 5),
         FILLED.format(KIND)),
    Case("a list as numbers", array(dtype("f8"), [1.0]), FILLED.format(ARRAY)),
    Case("fewer bytes than numbers", array(dtype("f8"), b"x" * 8, (64,)), FILLED.format(ARRAY)),
    Case("more numbers than there are", array(dtype("f8"), b"x", (2**62, 4)), FILLED.format(ARRAY)),
    Case("less than no numbers", array(dtype("f8"), b"x" * 8, (-1,)), FILLED.format(ARRAY)),
    Case("a shape of lists", array(dtype("f8"), b"x" * 8, ([1],)), FILLED.format(ARRAY)),
    Case("an array of version 9", array(dtype("f8"), b"x" * 8, (1,), 9), FILLED.format(ARRAY)),
    Case("an array whose kind is none", array(Call(set, []), b"x" * 8), FILLED.format(ARRAY)),
    Case("a number of objects", saved({"a": Call(SCALAR, dtype("O8"), b"A" * 8)}),
         CALLED.format(KIND)),
    Case("a number of too few bytes", saved({"a": Call(SCALAR, dtype("f8"), b"A")}),
         CALLED.format(r"numpy\._core\.multiarray\.scalar")),
    Case("an array of another class",
         saved({"a": Call(RECONSTRUCT, collections.OrderedDict, (0,), b"b")}),
         CALLED.format(ARRAY)),
    Case(
        "a tensor with a state",
        pickled(
            b"}X\x01\0\0\0actorch._utils\n_rebuild_parameter\n(X\x01\0\0\0x\x89}tR(K\x01K\x02tbs."
        ),
        FILLED.format(r"torch\._utils\._rebuild_parameter"),
    ),
    Case("a namespace with a list for its words",
         saved(lambda c: {"a": Filled(argparse.Namespace, (), ["heads"])}),
         FILLED.format(r"argparse\.Namespace")),
]  # fmt: skip

CODE = [
    Case("a whole module", saved(nn.Linear(2, 2)), THINGS.format(r"torch\.nn")),
    Case("a whole module of old", saved(nn.Linear(2, 2), **OLD), THINGS.format(r"torch\.nn")),
    Case("a shell command", saved(lambda c: {"a": shell(c)}), THINGS.format(r"posix\.system")),
    Case("a shell command of old", saved(shell, **OLD), THINGS.format(r"posix\.system")),
    Case("a process", saved(lambda c: Call(subprocess.Popen, ["touch", str(c)])),
         THINGS.format(r"(commands|subprocess)\.Popen")),
    Case("python code", saved(lambda c: Call(exec, f"open({str(c)!r}, 'w')")),
         THINGS.format(r"builtins\.exec")),
    Case("a file made", saved(lambda c: Call(open, str(c), "w")), THINGS.format(r"_?io\.open")),
    Case("a call in a call",
         saved(lambda c: Call(collections.OrderedDict, [("a", Call(list, shell(c)))])),
         r"holds Python objects \(builtins\.list, posix\.system"),
    Case("a look-up of a call", saved(gets), THINGS.format(r"builtins\.__import__")),
    Case("a bare pickle", lambda f, c: written(pickle.dumps(shell(c)))(f, c),
         THINGS.format(r"posix\.system")),
    Case("a newest pickle", lambda f, c: written(pickle.dumps({"a": shell(c)}, 5), "w.bin")(f, c),
         THINGS.format(r"posix\.system")),
    Case("another torch.load", saved(lambda c: Call(torch.load, str(c))),
         THINGS.format(r"torch\.serialization\.load")),
    *(
        Case(
            f"{name} beside the weights",
            saved(lambda c, bad=bad: {"model": state(), "args": {"x": bad(c), "heads": 3}}),
            THINGS.format(rf"[\w., ]*{named}"),
        )
        for name, bad, named in (
            ("a shell command", shell, r"posix\.system"),
            (
                "a partial shell command",
                lambda c: functools.partial(os.system, f"touch {c}"),
                "posix",
            ),
            ("python code", lambda c: Call(eval, f"open({str(c)!r}, 'w')"), r"builtins\.eval"),
            ("a process", lambda c: Call(subprocess.Popen, ["touch", str(c)]), r"\w+\.Popen"),
            ("a look-up of a call", gets, r"builtins\.__import__"),
            ("another torch.load", lambda c: Call(torch.load, str(c)), r"torch\.serialization"),
        )
    ),
    Case("an object among the weights",
         saved({"model": state() | {"x": functools.partial(nn.ReLU)}}),
         THINGS.format(r"functools\.partial")),
    Case("a tensor made by a stranger's function",
         saved({"model": state() | {"x": Call(theirs.make, torch.zeros(2))}}),
         THINGS.format(r"tests\.[\w.]*theirs\.make")),
    Case("a default dict", saved({"a": collections.defaultdict(int)}), "collections.defaultdict"),
    Case("TorchScript", script, r"holds a program \(TorchScript"),
    Case("torch.export",
         written(zipped({"m/models/model.json": b"{}", "m/data/weights/w": b""}), "w.pt"),
         r"holds a program \(TorchScript or torch\.export\)"),
    Case("two tables of contents", two_pickles, "not of torch.save, which writes one data.pkl"),
]  # fmt: skip
MEMORY = [
    Case("a squeezed file", deflated, r"unpack to more than its own size", heavy=True),
    Case("a record that lies", lying, r"own size|damaged zip|cannot be read", heavy=True),
    Case("an endless table of contents", endless_contents, r"table of contents of 39", heavy=True),
    Case("a number for a thousand million", saved({"a": WIDE}),
         r"a in w\.pt claims 4,000,000,000 bytes and has 4", heavy=True),
    Case("the same beside the weights",
         saved({"model": state(), "optimizer": {"state": [{"a": WIDE}]}}),
         r"a in w\.pt claims 4,000,000,000 bytes", heavy=True),
    Case("a large array of bytes", saved({"a": Call(bytearray, 10**11)}),
         THINGS.format(r"builtins\.bytearray"), heavy=True),
    Case("a size of many",
         saved(lambda c: Call(torch.Size, Call(torch._utils._rebuild_parameter, WIDE, False, {}))),
         r"torch\.Size is called with what no state dict holds", heavy=True),
    Case("a set of many", saved(lambda c: Call(set, WIDE)),
         r"builtins\.set is called with what no state dict holds", heavy=True),
    Case("an array of numpy without its numbers",
         saved({"a": Call(np.zeros(0).__reduce__()[0], np.ndarray, (10**11,), b"b")}),
         r"_reconstruct is called with what no state dict holds", heavy=True),
    Case("a storage made by name", saved({"a": Call(torch.FloatStorage, 10**11)}),
         r"torch\.FloatStorage is called|holds Python objects", heavy=True),
    Case("a giant of old", old_giant,
         r"its tensors claim 400,000,000,000 bytes and the file has \d{3}", heavy=True),
    Case("a nested value", pickled(b"}K\x01" + NEST + b"s."), "lists in lists without end", True),
    Case("a nested word of a namespace",
         pickled(b"cargparse\nNamespace\n)\x81}X\x05\0\0\0heads" + NEST + b"sb."),
         "lists in lists without end", True),
    Case("a nested item of a set", pickled(b"c__builtin__\nset\n]" + NEST + b"a\x85R."),
         r"builtins\.set is called with", True),
    Case("a nested kind of number", pickled(b"cnumpy\ndtype\n" + NEST + b"\x85R."),
         r"numpy\.dtype is called with", True),
    Case("a hundred thousand lists", pickled(b"]" * 10**5 + b"a" * (10**5 - 1) + b"."), "lists in"),
    Case("a nested key", pickled(NESTED_KEY), "a key or an item of a set is nested", heavy=True),
    Case("ten million steps", pickled(b"N0" * 5 * 10**6 + b"N."), "more than 2,000,000 steps",
         True),
    Case("two million sets", pickled(b"\x8f" * 2_500_000 + b"."), "than 2,000,000 steps", True),
    Case("a memory of four thousand million", pickled(b"Nr\xff\xff\xff\x7f."), "named tensors",
         True),
    Case("weights shared by all", shared, r"share their numbers so often", heavy=True),
    Case("a header of 90 MB", fat_header, r"header of 94,\d+,\d+ bytes is too large", heavy=True),
    Case("a million tensors", crowd(10**6), "header of .* bytes is too large", heavy=True),
    Case("too many tensors", crowd(2 * 10**5), r"holds 200,000 tensors, and 100,000", heavy=True),
    Case("a shape beyond the file",
         written(header({"a": F32 | {"shape": [10**12]}}, bytes(8)), "w.safetensors"),
         "not a sound safetensors file", heavy=True),
]  # fmt: skip
DAMAGE = [
    Case("torn", torn, r"record data/0 has 128 bytes and should have 256"),
    Case("cut off", cut, "damaged zip file"),
    Case("half a zip", written(b"PK\x03\x04" * 9), "damaged zip file"),
    Case("nothing", written(b""), r"has 0 bytes"),
    Case("nothing, as safetensors", written(b"", "w.safetensors"), r"has 0 bytes"),
    Case("noise", written(bytes(range(200, 256)) * 9), "no file of torch.save and no safetensors"),
    Case("a pickle that stops", written(b"\x80\x02}q"), "cannot be read as weights"),
    Case("a pickle of nonsense", pickled(b"(((((tttRRRb."), "cannot be read as weights"),
    Case("a pickle of something else", written(pickle.dumps({"a": 1})),
         "cannot be read as weights"),
    Case("a list", saved([1]), "holds no named tensors but a list"),
    Case("numbers", saved({"a": 1, "b": 2.0}), r"holds no named tensors but a dict \(a, b\)"),
    Case("an empty state dict", saved({}), "holds no named tensors but a dict"),
    Case("an empty container", saved({"model": {}}), r"named tensors but a dict \(model\)"),
    Case("a tensor alone", saved(torch.zeros(3)), "holds no named tensors but a Tensor"),
    Case("stranger's names", saved({"a.b": torch.zeros(2)}), r"layout of w\.pt is not known"),
    Case("noise, as safetensors", written(b"\xff" * 99, "w.safetensors"),
         "not a sound safetensors"),
    Case("a cut header", written(header({"a": F32})[:20], "w.safetensors"), "too large"),
    Case("a cut body", written(header({"a": F32}, bytes(4)), "w.safetensors"), "not a sound safe"),
    Case("overlaps", written(header(overlapping(), bytes(12)), "w.safetensors"),
         "not a sound safe"),
    Case("a tensor twice",
         written(header('{"a":{},"a":' + json.dumps(F32) + "}", bytes(8)), "w.safetensors"),
         r"header of w\.safetensors is not JSON: the word 'a' stands in it twice"),
    Case("a header of lists", written(header("[1,2]"), "w.safetensors"),
         "does not begin with a header"),
    Case("entries without shape", written(header({"a": {}}), "w.safetensors"), "lacks a dtype"),
    Case("an unknown kind",
         written(header({"a": F32 | {"dtype": "X9"}}, bytes(8)), "w.safetensors"),
         "not a sound safetensors"),
    Case("no tensors", written(header({"__metadata__": {}}), "w.safetensors"), "holds no tensors"),
]  # fmt: skip
DISGUISES = [
    Case("JSON", written(b'{"weight_map": {"a": 1}}\n' * 9), "is a text file"),
    Case("a text", written(b"hello, I am text\n" * 9), "is a text file"),
    Case("a text by its name", written(b"hello", "w.txt"), "is no weights file by its name"),
    Case("a web page", written(b"<!DOCTYPE html><html>404</html>"), "is a web page"),
    Case("a pointer of Git LFS", written(LFS, "w.safetensors"), r"Run git lfs pull"),
    Case("gzip", written(gzip.compress(b"x" * 99)), r"packed file \(gzip\)"),
    Case("7z", written(b"7z\xbc\xaf\x27\x1c" + bytes(99), "w.bin"), r"packed file \(7z\)"),
    Case("tar", tar_of, r"packed folder \(tar\)"),
    Case("a packed folder", written(zipped({"m/config.json": b"{}"})), "packed folder, unpack it"),
    Case("arrays of numpy", written(zipped({"a.npy": b"x"}), "w.bin"), "not of torch.save"),
    Case("GGUF", written(b"GGUF" + bytes(99), "w.bin"), "quantised"),
    Case("a picture", written(b"\x89PNG" + bytes(99), "w.bin"), "is a picture"),
    Case("a pipe", fifo, "no model, folder or file"),
    Case("a device", device, "no model, folder or file"),
    Case("a link to itself", circle, "no model, folder or file"),
    Case("a folder named like a file", directory, "holds no weights"),
    Case("a name of 5000 letters", lambda f, c: f / ("x" * 5000), "no model, folder or file"),
    Case("a name with a null", lambda f, c: f / "a\0b", "no model, folder or file"),
    Case("a name turned round", lambda f, c: f / "\u202etp.w\n", "no model, folder or file"),
    Case("nothing there", lambda f, c: pathlib.Path(f / "none.pt"), "no model, folder or file"),
]
TENSORS = [
    Case("sparse", saved(lambda c: {"a": torch.zeros(3).to_sparse()}),
         "sparse tensors; only plain"),
    Case("empty", saved({"a": torch.zeros(3, device="meta")}),
         r"empty \(meta\) tensors; only plain"),
    Case("complex", saved({"a": torch.zeros(3, dtype=torch.complex64)}), "a in w.pt is complex"),
    Case("quantised", quantised, "quantised tensors; only plain"),
]  # fmt: skip
FILES = [*POINTERS, *CODE, *MEMORY, *DAMAGE, *DISGUISES, *TENSORS]
