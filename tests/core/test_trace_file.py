"""Trace files: saving and loading is an identity, and what is no trace file is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.numpy

from tests.support.refusals import refuses
from transformer_viz.core.interventions import Intervention, ScaleHead, Temperature
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_file import save_trace
from transformer_viz.core.trace_parts import Attention, Produced, Report, Tokens

HEADS, SOURCE, TARGET, WIDTH, KEY = 3, 5, 7, 11, 2


def ramp(*shape: int, start: float = 0.0) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32) / 7 + np.float32(start)).reshape(shape)


def sentence(length: int) -> Tokens:
    pieces = tuple(f"▁p{n % 2}" for n in range(length))
    labels = tuple(f"p{n % 2} ({n})" for n in range(length))
    special = tuple(n == length - 1 for n in range(length))
    return Tokens(tuple(range(4, 4 + length)), pieces, labels, tuple(range(length)), special)


def token_table(places, length, columns, **dtypes) -> pd.DataFrame:
    rows = [
        (*place, token, *(number + token / 3 + n for n in range(len(columns) - len(place) - 1)))
        for number, place in enumerate(places)
        for token in range(length)
    ]
    return pd.DataFrame(rows, columns=list(columns)).astype(dtypes)


STATISTICS = ("mean", "std", "rms", "input_norm", "output_norm", "output_mean")
NORMS = ("site", "stack", "layer", "token", *STATISTICS)


def norm_table() -> pd.DataFrame:
    places = [
        ("encoder.layers.0.self_norm", "encoder", 0),
        ("encoder.norm", "encoder", None),
        ("shared", "decoder", 0),
        ("shared", "decoder", 1),  # one module at two places
        ("encoder.layers.0.self_norm", "encoder", 0),  # passed a second time
    ]
    return token_table(places, SOURCE, NORMS, mean="float32", rms="float64")


def full_trace() -> Trace:
    square, starts = (HEADS, SOURCE, SOURCE), {"q": 0, "k": 1, "v": 2}
    parts = {name: ramp(HEADS, SOURCE, KEY, start=start) for name, start in starts.items()}
    parts |= {"scores": ramp(*square) - np.float32(np.inf), "gradients": ramp(*square, start=3)}
    across = ramp(HEADS, TARGET, SOURCE), Site("decoder", "cross", 0), "target", "source"
    lone = ramp(1, TARGET, SOURCE), Site("decoder", "cross", 1, head=2), "target", "source"
    encoder = Attention(ramp(*square), Site("encoder", "self", 0), "source", "source", **parts)
    heads = pd.DataFrame({"stack": ["encoder"] * HEADS + ["decoder"] * HEADS})
    heads["block"] = ["self"] * HEADS + ["cross"] * HEADS
    heads["layer"] = [0] * HEADS + [1] * HEADS
    heads["head"] = list(range(HEADS)) * 2
    heads["entropy"] = ramp(2 * HEADS)
    heads["row_sum_error"] = np.array([0, 1e-7, np.nan, 0, 0, 0])
    chances = ramp(2) / np.float32(3)
    small = np.arange(np.prod(square), dtype=np.uint8).reshape(1, *square)
    streams = [("encoder", 0, "self"), ("encoder", 0, "feed_forward"), ("decoder", 1, "cross")]
    rebuilt = {"cross L1": 2e-6, "encoder L0": None}
    return Trace(
        source=sentence(SOURCE),
        target=dataclasses.replace(sentence(TARGET), ids=()),
        produced=Produced((1, 2), ("▁a", "</s>"), ("a", "</s>"), chances, np.array([1, 99])),
        heads=heads,
        thumbnails={"encoder": small, "cross": np.zeros((2, HEADS, TARGET, SOURCE), np.uint8)},
        attentions=(encoder, Attention(*across), Attention(*lone)),
        norms=norm_table(),
        gains={
            "shared": (ramp(WIDTH), ramp(WIDTH, start=1)),
            "encoder.norm": (ramp(WIDTH), None),
            "bare": (None, None),
        },
        residuals=token_table(streams, SOURCE, ("stack", "layer", "place", "token", "norm")),
        positions={"encoder": ramp(SOURCE, WIDTH), "bias": ramp(HEADS, SOURCE, SOURCE).T},
        logits=ramp(TARGET, 13),
        report=Report(("encoder L0", "cross L1"), 1.5e-7, None, rebuilt, ("a",), ("b",)),
        manifest={
            "model": "en-de",
            "versions": {"torch": "2"},
            "seed": 0,
            "start": None,
            "é": [1.5],
        },
        intervention=Intervention((Temperature(value=2.0, layer=1), ScaleHead(value=0.0, head=1))),
        hiddens={"encoder": ramp(3, SOURCE, WIDTH), "decoder": ramp(4, TARGET, WIDTH)},
    )


def small_trace() -> Trace:
    """A run of an encoder of which nothing optional was kept."""
    return dataclasses.replace(
        full_trace(),
        **dict.fromkeys(("target", "produced", "logits")),
        **{name: {} for name in ("gains", "positions", "hiddens")},
        attentions=(),
        norms=pd.DataFrame(columns=["site", "stack", "layer", "token", "mean"]),
        residuals=pd.DataFrame(columns=["stack", "layer", "place", "token", "norm"]),
        intervention=Intervention(),
    )


def stored(folder: Path) -> tuple[dict, dict]:
    """Save the full trace as ``run``; return the JSON of its header, and its arrays."""
    save_trace(full_trace(), folder / "run")
    with safetensors.safe_open(folder / "run", framework="numpy") as file:
        header = json.loads(file.metadata()["trace"])
    return header, safetensors.numpy.load_file(folder / "run")


def refused(folder: Path, arrays: dict, text: str, message: str, case: object) -> Exception:
    """Write a file of these arrays and this header; return the error of reading it."""
    safetensors.numpy.save_file(arrays, folder / "odd", metadata={"trace": text})
    with pytest.raises(ValueError) as met:
        Trace.load(folder / "odd")
    assert re.search(message, str(met.value)), (case, str(met.value))
    return met.value


def assert_same(mine: Any, theirs: Any, place: str = "trace") -> None:
    """Compare part by part; arrays that were read are read-only."""
    if isinstance(mine, pd.DataFrame):
        pd.testing.assert_frame_equal(mine, theirs)
    elif isinstance(mine, np.ndarray):
        assert mine.dtype == theirs.dtype and not theirs.flags.writeable, place
        np.testing.assert_array_equal(mine, theirs)
    elif isinstance(mine, dict):
        assert list(mine) == list(theirs), place
        for name, value in mine.items():
            assert_same(value, theirs[name], f"{place}.{name}")
    elif isinstance(mine, tuple):
        assert len(mine) == len(theirs), place
        for number, pair in enumerate(zip(mine, theirs, strict=True)):
            assert_same(*pair, f"{place}.{number}")
    elif isinstance(mine, Trace | Attention | Produced):
        for field in dataclasses.fields(mine):
            values = (getattr(one, field.name) for one in (mine, theirs))
            assert_same(*values, f"{place}.{field.name}")
    else:
        assert mine == theirs, place


def test_saving_and_loading_is_an_identity_with_documented_names(tmp_path):
    for trace in (full_trace(), small_trace()):
        trace.save(tmp_path / "run.safetensors")
        assert_same(trace, Trace.load(tmp_path / "run.safetensors"))
        assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]
    save_trace(full_trace(), tmp_path / "a")
    save_trace(Trace.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    header, arrays = stored(tmp_path)
    shapes = {
        "attention.encoder.0": (HEADS, SOURCE, SOURCE),
        "attention.cross.0": (HEADS, TARGET, SOURCE),
        "attention.cross.1.2": (1, TARGET, SOURCE),
        "hidden.decoder.3": (TARGET, WIDTH),
        "norm.encoder.norm.mean": (SOURCE,),
        "norm.shared.rms": (2 * SOURCE,),
        "residual.decoder.1.cross": (SOURCE,),
        "heads.entropy": (2 * HEADS,),
    }
    assert {name: arrays[name].shape for name in shapes} == shapes
    assert {name.partition(".")[0] for name in arrays} == {
        *("attention", "scores", "q", "k", "v", "gradients", "thumbnail", "hidden", "logits"),
        *("positions", "norm", "gain", "bias", "residual", "heads"),
    }
    words = {"source", "target", "produced", "sites", "intervention", "report", "manifest"}
    assert words <= {*header}


def test_other_files_are_refused_also_with_a_name_that_is_no_utf8(tmp_path):
    refuses("no file", Trace.load, tmp_path / "none", error=FileNotFoundError)
    (tmp_path / "text").write_text("hello, I am no trace")
    safetensors.numpy.save_file({"a": ramp(2)}, tmp_path / "weights")
    safetensors.numpy.save_file({"a": ramp(2)}, tmp_path / "odd", metadata={"trace": "[1]"})
    for name in ("text", "weights", "odd"):
        refuses(f"{name} is not a trace file; expected", Trace.load, tmp_path / name)
    save_trace(small_trace(), tmp_path / "run")
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/mod\xe8le"))
    os.rename(tmp_path / "run", odd)
    assert Trace.is_file(odd)
    assert_same(small_trace(), Trace.load(odd))
    odd.write_text("no trace")
    refuses(r"^mod\\udce8le is not a trace file", Trace.load, odd)


def test_changed_headers_later_formats_and_incomplete_files_are_refused(tmp_path):
    header, arrays = stored(tmp_path)
    for word in ("source", "sites", "frames", "report", "hiddens"):
        for other in (None, 3, "x", [1]):
            changed = json.dumps(header | {word: other})
            refused(tmp_path, arrays, changed, "incomplete trace file", (word, other))
    later = json.dumps(header | {"format": 2})
    refused(tmp_path, arrays, later, "trace format 2; this version reads 1", "format")
    del arrays["attention.encoder.0"]
    lost = r"incomplete trace file.*attention\.encoder\.0"
    refused(tmp_path, arrays, json.dumps(header), lost, "a tensor")


def test_writes_that_cannot_be_are_refused_and_leave_nothing(tmp_path, monkeypatch):
    trace = full_trace()
    unsorted = trace.norms.iloc[::-1].reset_index(drop=True)
    cases = [
        ("none/run", {}, FileNotFoundError, "no folder"),
        ("run", {"manifest": {"model": object()}}, ValueError, "cannot hold <object"),
        ("run", {"norms": unsorted}, ValueError, "count tokens from 0"),
        ("", {}, IsADirectoryError, "is a folder; name a file in it"),
        ("run", {"attentions": trace.attentions[:1] * 2}, ValueError, "Two parts"),
    ]
    for name, changes, error, message in cases:
        with pytest.raises(error, match=message):
            save_trace(dataclasses.replace(trace, **changes), tmp_path / name)
        assert not list(tmp_path.iterdir()), message

    def full_disk(*given, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full_disk)
    refuses("No space left", save_trace, trace, tmp_path / "run", error=OSError)
    assert not list(tmp_path.iterdir())


def test_a_file_that_claims_more_than_it_holds_is_refused_before_it_costs(tmp_path):
    """Types with a size, rows that no array has, numbers that make tables: one sentence each."""
    plain, arrays = stored(tmp_path)
    huge, weights = 2**62, arrays["attention.encoder.0"]
    site, runs = plain["sites"][0], plain["frames"]["norms"]["runs"]
    odd_numbers = {"probability": {"dtype": "S400000000", "values": ["a"]}}
    no_rows = {"columns": ["token"], "runs": [["a", 0, 0, huge]]}
    changes: dict[str, dict[str, Any]] = {
        "type of a table": {"frames": {"norms": {"dtypes": {"site": "S400000000"}}}},
        "type of words": {"frames": {"heads": {"dtypes": {"stack": "U400000000"}}}},
        "type of numbers": {"produced": odd_numbers},
        "rows of nothing": {"frames": {"norms": no_rows}},
        "rows again": {"frames": {"norms": {"runs": runs * 1000}}},
        "layer": {"sites": [site | {"layer": huge}]},
        "head": {"sites": [site | {"head": -1}]},
        "states": {"hiddens": {"encoder": huge}},
        "picture": {"manifest": {"image": {"grid": [huge, huge], "prefix": 0}}},
        "tiles": {"tiles": [{"layer": 0, "head": None, "parts": [{"first_row": huge}]}]},
        "edit": {"intervention": '{"edits":[{"kind":"pad","count":1e99}]}'},
        "manifest": {"manifest": [1]},
        "number": {"manifest": {"seed": 2**70}},
        "half a character": {"manifest": {"model": "\ud800"}},
    }
    deep = '{"a":' * 60_000 + "1" + "}" * 60_000
    bad = {name: (json.dumps(merged(plain, change)), {}) for name, change in changes.items()}
    bad |= {"deep": (deep, {}), "70 lists": (json.dumps(plain | {"x": nested(70)}), {})}
    bad |= {
        name: (json.dumps(plain), array)
        for name, array in {
            "axes": {"attention.encoder.0": weights.reshape(*weights.shape, *[1] * 41)},
            "more axes": {"logits": ramp(*[1] * 30)},
            "layers of a table": {"heads.layer": arrays["heads.layer"] + 2**40},
            "thumbnail": {"thumbnail.encoder": np.zeros((1, 1, 0, 0), np.uint8)},
        }.items()
    }
    for name, (text, more) in bad.items():
        began = time.process_time()
        error = refused(tmp_path, arrays | more, text, r"\.$", name)
        assert not isinstance(error, UnicodeError), name
        assert time.process_time() - began < 2, name


def merged(words, change):
    """Words with some of them changed, also inside of others."""
    both = isinstance(words, dict) and isinstance(change, dict)
    if not both:
        return change
    return words | {word: merged(words.get(word), one) for word, one in change.items()}


def nested(deep):
    value = []
    for _ in range(deep):
        value = [value]
    return value
