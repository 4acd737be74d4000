"""What odd inputs have found, each as a case of its own: it was no sentence, or too much."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.numpy
import torch

from tests.checkpoints.hostile.hugging import hugging
from tests.conftest import make_module
from tests.support.cases import each
from transformer_viz.app.live import tiles
from transformer_viz.app.session import url_state
from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.files.plain_pickle import read_plain_pickle
from transformer_viz.checkpoints.files.reading import read_config, read_weights
from transformer_viz.checkpoints.files.unpacking import unpack
from transformer_viz.checkpoints.hugging_face.library import plainly
from transformer_viz.checkpoints.layouts.vision_transformer import VisionConfig
from transformer_viz.components import edit_sliders
from transformer_viz.core.interventions import Intervention
from transformer_viz.core.trace import Trace
from transformer_viz.corpus.folder import open_atlas
from transformer_viz.corpus.plan import PLAN
from transformer_viz.model import ModelConfig

from .judge import complaint
from .readers import NAMED, quiet
from .seeds import checkpoints, tokenizer_files


def refused(read: Callable[[], Any]) -> str:
    """The sentence with which something is refused."""
    with pytest.raises((ValueError, OSError)) as error:
        read()
    assert not complaint(error.value), str(error.value)
    return str(error.value)


def test_configs(tmp_path: Path) -> None:
    """Sentences say where a file breaks, and do not list all words of a configuration."""
    path = tmp_path / "config.json"
    path.write_bytes(b'{"layout": "\x80"}')
    assert "byte 12 is no UTF-8" in refused(lambda: read_config(path))
    path.write_bytes(b"null")
    assert "holds nothing (null)" in refused(lambda: read_config(path))
    full = make_module().config.to_dict()
    for words in (full | {"x" * 300: 1}, {w: v for w, v in full.items() if w != "heads"}):
        refused(lambda words=words: ModelConfig.from_dict(words))
    sizes = VisionConfig(
        d_model=21, heads=7, d_ff=17, encoder_layers=2, image_size=(12, 12), patch_size=(3, 3)
    )
    assert "-11 classes" in refused(lambda: replace(sizes, classes=-11))


def test_words_of_other_types_for_a_library(tmp_path: Path) -> None:
    words = json.loads(next(s for s in checkpoints() if s.name == "vit").files["config.json"])
    odd = (
        words | {"patch_size": "{}", "image_size": "/etc/passwd"},
        {"hidden_size": False},
        {"eos_token_id": "x"},
    )
    for number, changes in enumerate(odd):
        folder = tmp_path / str(number)
        folder.mkdir()
        hugging(**changes)(folder, tmp_path / "canary")
        with quiet():
            refused(lambda folder=folder: load(folder, device="cpu"))
    assert plainly(ValueError("invalid literal for int() with base 10: '{}'")) == (
        "a number was expected instead of '{}'"
    )


def test_a_limit_of_length_that_is_no_number(tmp_path: Path) -> None:
    files = tokenizer_files()
    beside = json.loads(files["tokenizer_config.json"]) | {"model_max_length": "long"}
    files["tokenizer_config.json"] = json.dumps(beside).encode()
    hugging()(tmp_path, tmp_path / "canary")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with quiet():
        model = load(tmp_path, device="cpu")
        said = refused(lambda: model.tokenizer.source_ids("the cat"))
    assert "a word of its files is odd" in said


def test_pickles_and_zips_that_break_in_the_reader(tmp_path: Path) -> None:
    meta, path = tmp_path / "meta.pkl", tmp_path / "w.pt"
    for content in (
        b"\x80\x02}]K\x01s.",  # a key that is a list
        pickle.dumps({"vocab_size": 5}, 0).replace(b"I5", b"IV5"),  # no number
        b"\x80\x04]K\x00N\x86s.",
        b"",
        b"\x80",
    ):
        meta.write_bytes(content)
        refused(lambda: read_plain_pickle(meta))
    # One argument of `_rebuild_tensor_v2` is taken out of the pickle.
    seed = next(one for one in NAMED["weights"].seeds() if one.opened == "w.pt")
    path.write_bytes(seed.files["w.pt"].replace(b"ccollections\nOrderedDict", b""))
    refused(lambda: read_weights(path))
    torch.save({"a": torch.zeros(2)}, path)
    path.write_bytes(path.read_bytes().replace(b"w/data.pkl", b"w/d\xaa\xaaa.pkl"))  # no UTF-8
    refused(lambda: read_weights(path))
    refused(lambda: unpack(path, tmp_path / "out"))


def test_a_layout_that_comes_closest_by_long_names(tmp_path: Path) -> None:
    """The names of the file and of the odd weight, and all layouts, were said in one sentence."""
    seed = next(one for one in checkpoints() if one.name == "torch core")
    weights = torch.load(BytesIO(seed.files[seed.opened]), weights_only=True)
    odd = list(weights)[3]
    near = {f"{odd}\x0e{'x' * 200}" if name == odd else name: x for name, x in weights.items()}
    for kept, said in ((near, "comes closest"), ({"y" * 300: torch.zeros(3)}, "Known are")):
        path = tmp_path / f"{'w' * 200}.pt"
        torch.save(kept, path)
        assert said in refused(lambda path=path: load(path))


def test_links_edits_and_live_requests() -> None:
    """Long and odd words are cut; letters that are said as escapes count as such."""
    # More digits than a link writes.
    values, _ = url_state.read({"gamma": "0.999999909999999999995"}, url_state.DEFAULTS)
    again, _ = url_state.read(url_state.write(values, url_state.DEFAULTS), url_state.DEFAULTS)
    assert values == again
    odd = "\U000a7ba8" * 60
    _, problems = url_state.read({"corpus_by": odd, "scale": odd, "beam": odd}, url_state.DEFAULTS)
    assert len(problems) == 3
    assert all("is '\\U000a7ba8" in one and len(one) <= 400 for one in problems), problems
    edits: tuple[dict[str, Any], ...] = (
        {"kind": "x" * 5_000},
        {"kind": "window", "x" * 5_000: 1},
        {"kind": "temperature", "value": "x" * 5_000},
        {"kind": "temperature", "value": list(range(9_000))},
        {"kind": "swap_head"},
    )
    for edit in edits:
        refused(lambda edit=edit: Intervention.from_json(json.dumps({"edits": [edit]})))
    for asked in (edit_sliders.asked, tiles.asked):
        refused(lambda asked=asked: asked({"a\nb": "1", "x" * 500: "2"}))


Words = dict[str, Any]
#: Changes of the words of a trace file, each of another type than they should be.
TRACES: tuple[Callable[[Words], object], ...] = (
    lambda words: words["report"].update(row_sum_error="0"),
    lambda words: words["report"].update(rebuilt={"cross L0": []}),
    lambda words: words["source"].update(labels=[1, 2, 3]),
    lambda words: words["sites"][0].update(layer="0"),
    lambda words: words["sites"][0].update(scale="x"),
    lambda words: words["sites"].__setitem__(0, "x"),
    lambda words: words["manifest"].update(image={"grid": [1, 2, 3], "prefix": 0}),
    lambda words: words["frames"]["heads"]["dtypes"].update(layer="x" * 5_000),
    lambda words: words["frames"]["norms"]["runs"][0].__setitem__(0, "x" * 5_000),
    lambda words: words["frames"].update(heads=[]),
)


@pytest.mark.slow
def test_traces_with_words_of_other_types(tmp_path: Path) -> None:
    content = NAMED["trace"].seeds()[0].files["run.safetensors"]
    path = tmp_path / "run.safetensors"

    def said(edit: Callable[[Words], object]) -> str:
        path.write_bytes(content)
        with safetensors.safe_open(path, framework="numpy") as file:
            words = json.loads(file.metadata()["trace"])
        edit(words)
        arrays = safetensors.numpy.load_file(path)
        safetensors.numpy.save_file(arrays, path, metadata={"trace": json.dumps(words)})
        return refused(lambda: Trace.load(path))

    for number, edit in enumerate(TRACES):
        assert "run.safetensors is an incomplete trace file" in said(edit), number
    start = time.process_time()
    said(lambda words: words["frames"]["norms"]["runs"][0].__setitem__(-1, 10**12))  # rows
    assert time.process_time() - start < 5


def test_an_atlas_with_a_damaged_file(tmp_path: Path) -> None:
    reader = NAMED["corpus"]
    (sound,) = reader.seeds()

    def check(case: tuple[str, bytes]) -> None:
        name, odd = case
        assert name in sound.files
        refused(lambda: reader.run(replace(sound, files=sound.files | {name: odd})))

    names = ("plan.json", "atlas.parquet", "examples.parquet")
    cases = product(names, (b"", b"\xb5", b"{}", b"PAR1PAR1"))
    each(((str(case), case) for case in cases), check)
    words = json.loads(sound.files[PLAN]) | {"seed": "x", "sentences": None}
    (tmp_path / PLAN).write_text(json.dumps(words))
    assert "is no plan of an atlas" in refused(lambda: open_atlas(tmp_path))
