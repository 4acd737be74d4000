"""Trace files: saving and loading is an identity, and what is no trace file is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.numpy

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


def block(
    stack: str, kind: str, layer: int, query: int, key: int, **parts: np.ndarray
) -> Attention:
    sides = ("target" if stack == "decoder" else "source", "target" if query == key else "source")
    sides = sides if stack == "decoder" else ("source", "source")
    weights = ramp(HEADS, query, key, start=layer)
    return Attention(weights, Site(stack, kind, layer), *sides, **parts)


def token_table(
    places: list[tuple], length: int, columns: tuple[str, ...], **dtypes
) -> pd.DataFrame:
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
    encoder = block(
        "encoder",
        "self",
        0,
        SOURCE,
        SOURCE,
        scores=ramp(HEADS, SOURCE, SOURCE) - np.float32(np.inf),
        q=ramp(HEADS, SOURCE, KEY),
        k=ramp(HEADS, SOURCE, KEY, start=1),
        v=ramp(HEADS, SOURCE, KEY, start=2),
        gradients=ramp(HEADS, SOURCE, SOURCE, start=3),
    )
    one_head = Attention(
        ramp(1, TARGET, SOURCE), Site("decoder", "cross", 1, head=2), "target", "source"
    )
    heads = pd.DataFrame(
        {
            "stack": ["encoder"] * HEADS + ["decoder"] * HEADS,
            "block": ["self"] * HEADS + ["cross"] * HEADS,
            "layer": [0] * HEADS + [1] * HEADS,
            "head": list(range(HEADS)) * 2,
            "entropy": ramp(2 * HEADS),
            "row_sum_error": np.array([0, 1e-7, np.nan, 0, 0, 0]),
        }
    )
    return Trace(
        source=sentence(SOURCE),
        target=dataclasses.replace(sentence(TARGET), ids=()),
        produced=Produced(
            (1, 2), ("▁a", "</s>"), ("a", "</s>"), ramp(2) / np.float32(3), np.array([1, 99])
        ),
        heads=heads,
        thumbnails={
            "encoder": np.arange(HEADS * SOURCE * SOURCE, dtype=np.uint8).reshape(
                1, HEADS, SOURCE, -1
            ),
            "cross": np.zeros((2, HEADS, TARGET, SOURCE), np.uint8),
        },
        attentions=(encoder, block("decoder", "cross", 0, TARGET, SOURCE), one_head),
        norms=norm_table(),
        gains={
            "shared": (ramp(WIDTH), ramp(WIDTH, start=1)),
            "encoder.norm": (ramp(WIDTH), None),
            "bare": (None, None),
        },
        residuals=token_table(
            [("encoder", 0, "self"), ("encoder", 0, "feed_forward"), ("decoder", 1, "cross")],
            SOURCE,
            ("stack", "layer", "place", "token", "norm"),
        ),
        positions={"encoder": ramp(SOURCE, WIDTH), "bias": ramp(HEADS, SOURCE, SOURCE).T},
        logits=ramp(TARGET, 13),
        report=Report(
            ("encoder L0", "cross L1"),
            1.5e-7,
            None,
            {"cross L1": 2e-6, "encoder L0": None},
            ("a",),
            ("b",),
        ),
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
    empty = pd.DataFrame(columns=["site", "stack", "layer", "token", "mean"])
    return dataclasses.replace(
        full_trace(),
        target=None,
        produced=None,
        attentions=(),
        norms=empty,
        gains={},
        residuals=pd.DataFrame(columns=["stack", "layer", "place", "token", "norm"]),
        positions={},
        logits=None,
        intervention=Intervention(),
        hiddens={},
    )


def assert_same_array(mine: np.ndarray | None, theirs: np.ndarray | None) -> None:
    if mine is None or theirs is None:
        assert mine is theirs
        return
    assert mine.dtype == theirs.dtype
    assert not theirs.flags.writeable
    np.testing.assert_array_equal(mine, theirs)


def assert_same(mine: Trace, theirs: Trace) -> None:
    for word in ("source", "target", "report", "manifest", "intervention"):
        assert getattr(mine, word) == getattr(theirs, word)
    for word in ("heads", "norms", "residuals"):
        pd.testing.assert_frame_equal(getattr(mine, word), getattr(theirs, word))
    for word in ("thumbnails", "positions", "hiddens"):
        ours, read = getattr(mine, word), getattr(theirs, word)
        assert list(ours) == list(read)
        for name in ours:
            assert_same_array(ours[name], read[name])
    assert list(mine.gains) == list(theirs.gains)
    for site, pair in mine.gains.items():
        for ours, read in zip(pair, theirs.gains[site], strict=True):
            assert_same_array(ours, read)
    assert_same_array(mine.logits, theirs.logits)
    assert len(mine.attentions) == len(theirs.attentions)
    for ours, read in zip(mine.attentions, theirs.attentions, strict=True):
        assert (ours.site, ours.query, ours.key) == (read.site, read.query, read.key)
        for part in ("weights", "scores", "q", "k", "v", "gradients"):
            assert_same_array(getattr(ours, part), getattr(read, part))
    if mine.produced is None:
        assert theirs.produced is None
        return
    assert theirs.produced is not None
    for word in ("ids", "pieces", "labels"):
        assert getattr(mine.produced, word) == getattr(theirs.produced, word)
    assert_same_array(mine.produced.probability, theirs.produced.probability)
    assert_same_array(mine.produced.rank, theirs.produced.rank)


@pytest.mark.parametrize("make", [full_trace, small_trace])
def test_saving_and_loading_is_an_identity(make, tmp_path):
    trace = make()
    trace.save(tmp_path / "run.safetensors")
    assert_same(trace, Trace.load(tmp_path / "run.safetensors"))
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    save_trace(full_trace(), tmp_path / "a")
    save_trace(Trace.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_tensors_have_the_documented_names(tmp_path):
    save_trace(full_trace(), tmp_path / "run")
    arrays = safetensors.numpy.load_file(tmp_path / "run")
    assert arrays["attention.encoder.0"].shape == (HEADS, SOURCE, SOURCE)
    assert arrays["attention.cross.0"].shape == (HEADS, TARGET, SOURCE)
    assert arrays["attention.cross.1.2"].shape == (1, TARGET, SOURCE)
    assert arrays["hidden.decoder.3"].shape == (TARGET, WIDTH)
    assert arrays["norm.encoder.norm.mean"].shape == (SOURCE,)
    assert arrays["norm.shared.rms"].shape == (2 * SOURCE,)
    assert arrays["residual.decoder.1.cross"].shape == (SOURCE,)
    assert arrays["heads.entropy"].shape == (2 * HEADS,)
    families = {name.partition(".")[0] for name in arrays}
    assert families == {
        *("attention", "scores", "q", "k", "v", "gradients", "thumbnail", "hidden", "logits"),
        *("positions", "norm", "gain", "bias", "residual", "heads"),
    }
    with safetensors.safe_open(tmp_path / "run", framework="numpy") as file:
        words = json.loads(file.metadata()["trace"])
    assert {"source", "target", "produced", "sites", "intervention", "report", "manifest"} <= {
        *words
    }


def test_what_is_no_trace_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        Trace.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello, I am no trace")
    safetensors.numpy.save_file({"a": ramp(2)}, tmp_path / "weights")
    safetensors.numpy.save_file({"a": ramp(2)}, tmp_path / "odd", metadata={"trace": "[1]"})
    for name in ("text", "weights", "odd"):
        with pytest.raises(ValueError, match=f"{name} is not a trace file; expected"):
            Trace.load(tmp_path / name)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(*words, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_trace(full_trace(), tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_file_whose_words_were_changed_is_refused(tmp_path):
    save_trace(full_trace(), tmp_path / "run")
    with safetensors.safe_open(tmp_path / "run", framework="numpy") as file:
        words = json.loads(file.metadata()["trace"])
    arrays = safetensors.numpy.load_file(tmp_path / "run")
    for word in ("source", "sites", "frames", "report", "hiddens"):
        for other in (None, 3, "x", [1]):
            odd = {"trace": json.dumps(words | {word: other})}
            safetensors.numpy.save_file(arrays, tmp_path / "odd", metadata=odd)
            with pytest.raises(ValueError, match="incomplete trace file"):
                Trace.load(tmp_path / "odd")


def test_later_formats_and_incomplete_files_are_refused(tmp_path):
    save_trace(full_trace(), tmp_path / "run")
    with safetensors.safe_open(tmp_path / "run", framework="numpy") as file:
        words = json.loads(file.metadata()["trace"])
    arrays = safetensors.numpy.load_file(tmp_path / "run")
    later = {"trace": json.dumps(words | {"format": 2})}
    safetensors.numpy.save_file(arrays, tmp_path / "later", metadata=later)
    with pytest.raises(ValueError, match="trace format 2; this version reads 1"):
        Trace.load(tmp_path / "later")
    del arrays["attention.encoder.0"]
    whole = {"trace": json.dumps(words)}
    safetensors.numpy.save_file(arrays, tmp_path / "torn", metadata=whole)
    with pytest.raises(ValueError, match=r"incomplete trace file.*attention\.encoder\.0"):
        Trace.load(tmp_path / "torn")


def test_a_missing_folder_an_odd_manifest_and_unsorted_rows_are_named(tmp_path):
    trace = full_trace()
    with pytest.raises(FileNotFoundError, match="no folder"):
        save_trace(trace, tmp_path / "none" / "run")
    odd = dataclasses.replace(trace, manifest={"model": object()})
    with pytest.raises(ValueError, match="cannot hold <object"):
        save_trace(odd, tmp_path / "run")
    unsorted = dataclasses.replace(trace, norms=trace.norms.iloc[::-1].reset_index(drop=True))
    with pytest.raises(ValueError, match="count tokens from 0"):
        save_trace(unsorted, tmp_path / "run")
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        save_trace(trace, tmp_path)
    twice = dataclasses.replace(trace, attentions=trace.attentions[:1] * 2)
    with pytest.raises(ValueError, match="Two parts"):
        save_trace(twice, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_what_claims_more_than_it_holds_is_refused_before_it_costs(tmp_path):
    """Each in one sentence: types with a size, rows that no array has, numbers that make tables."""
    save_trace(full_trace(), tmp_path / "run")
    with safetensors.safe_open(tmp_path / "run", framework="numpy") as file:
        plain = json.loads(file.metadata()["trace"])
    arrays = safetensors.numpy.load_file(tmp_path / "run")
    huge = 2**62
    weights = arrays["attention.encoder.0"]
    words: dict[str, dict[str, Any]] = {
        "type of a table": {"frames": {"norms": {"dtypes": {"site": "S400000000"}}}},
        "type of words": {"frames": {"heads": {"dtypes": {"stack": "U400000000"}}}},
        "type of numbers": {"produced": {"probability": {"dtype": "S400000000", "values": ["a"]}}},
        "rows of nothing": {
            "frames": {"norms": {"columns": ["token"], "runs": [["a", 0, 0, huge]]}}
        },
        "rows again": {"frames": {"norms": {"runs": plain["frames"]["norms"]["runs"] * 1000}}},
        "layer": {"sites": [plain["sites"][0] | {"layer": huge}]},
        "head": {"sites": [plain["sites"][0] | {"head": -1}]},
        "states": {"hiddens": {"encoder": huge}},
        "picture": {"manifest": {"image": {"grid": [huge, huge], "prefix": 0}}},
        "tiles": {"tiles": [{"layer": 0, "head": None, "parts": [{"first_row": huge}]}]},
        "edit": {"intervention": '{"edits":[{"kind":"pad","count":1e99}]}'},
        "manifest": {"manifest": [1]},
        "number": {"manifest": {"seed": 2**70}},
        "half a character": {"manifest": {"model": "\ud800"}},
    }
    bad: dict[str, tuple[str, Any]] = {
        name: (json.dumps(merged(plain, change)), {}) for name, change in words.items()
    }
    bad |= {
        "deep": ('{"a":' * 60_000 + "1" + "}" * 60_000, {}),
        "deeper than a trace": (json.dumps(plain | {"x": nested(70)}), {}),
        "axes": (
            json.dumps(plain),
            {"attention.encoder.0": weights.reshape(*weights.shape, *[1] * 41)},
        ),
        "more axes": (json.dumps(plain), {"logits": ramp(*[1] * 30)}),
        "layers of a table": (json.dumps(plain), {"heads.layer": arrays["heads.layer"] + 2**40}),
        "thumbnail": (json.dumps(plain), {"thumbnail.encoder": np.zeros((1, 1, 0, 0), np.uint8)}),
    }
    for name, (text, more) in bad.items():
        safetensors.numpy.save_file(arrays | more, tmp_path / "odd", metadata={"trace": text})
        began = time.process_time()
        with pytest.raises(ValueError, match=r"\.$") as met:
            Trace.load(tmp_path / "odd")
        assert not isinstance(met.value, UnicodeError), name
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


def test_a_file_whose_name_is_no_utf8_opens(tmp_path):
    save_trace(small_trace(), tmp_path / "run")
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/mod\xe8le"))
    os.rename(tmp_path / "run", odd)
    assert Trace.is_file(odd)
    assert_same(small_trace(), Trace.load(odd))
    odd.write_text("no trace")
    with pytest.raises(ValueError, match=r"^mod\\udce8le is not a trace file"):
        Trace.load(odd)
