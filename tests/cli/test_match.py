"""`transformer-viz match`: the same numbers as the library's whole CLIP and SigLIP, in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import transformer_viz as tv
from tests.checkpoints.test_matching import CAPTIONS, CASES, run_by_library
from tests.checkpoints.test_matching import folders as folders
from tests.support.pictured import picture

from .test_cli import answer, refusal

pytestmark = pytest.mark.families


@pytest.fixture(scope="module")
def cat(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pictures") / "cat.png"
    picture().save(path)
    return str(path)


def test_probabilities_are_the_whole_models_own(folders: Callable[[str], Path], cat: str):
    for name in CASES:
        folder, kind = str(folders(name)), "sigmoid" if name == "siglip" else "softmax"
        wanted = run_by_library(name, folders(name), CAPTIONS).logits_per_image[0]
        chances = wanted.sigmoid() if kind == "sigmoid" else wanted.softmax(0)
        said = json.loads(answer("match", folder, cat, *CAPTIONS, "--json"))
        rows = said["captions"]
        assert [row["caption"] for row in rows] == list(CAPTIONS), name
        assert [row["logit"] for row in rows] == pytest.approx(wanted.tolist(), abs=2e-5), name
        found = [row["probability"] for row in rows]
        assert found == pytest.approx(chances.tolist(), abs=1e-5), name
        assert said["probability"] == kind
        lines = answer("match", folder, cat, *CAPTIONS).splitlines()
        assert lines[1].endswith(f"  {CAPTIONS[int(wanted.argmax())]}"), name
        assert len(lines) == 2 + len(CAPTIONS), name
        worst = max(said["reports"], key=("green", "amber").index)
        assert lines[-1] == f"capture report {worst}", name


def test_the_runs_of_both_towers_are_stored(
    folders: Callable[[str], Path], cat: str, tmp_path: Path
):
    out, clip = tmp_path / "runs", str(folders("clip"))
    answer("match", clip, cat, *CAPTIONS, "--out", str(out))
    names = ["caption-1", "caption-2", "caption-3", "picture"]
    assert sorted(path.stem for path in out.iterdir()) == names
    runs = {name: tv.Trace.load(out / f"{name}.safetensors") for name in names}
    assert runs["picture"].attention("encoder").shape[-1] == 17  # 4 x 4 patches and the class token
    assert runs["caption-1"].source.labels[1:3] == ("a", "cat")
    broken = Path(cat).with_name("broken.png")
    broken.write_bytes(b"no picture")
    for words, said in (
        ((clip, cat, "a cat", "--out", str(out)), "is there already"),
        ((clip, "dog.png", "a"), "no picture 'dog.png'; PICTURE names a file"),
        ((clip, cat), "CAPTION"),
        (("en-lm", cat, "a cat"), "Only a Hugging Face folder has parts"),
        ((clip, str(broken), "a cat"), "picture"),
    ):
        assert said in refusal("match", *words)
