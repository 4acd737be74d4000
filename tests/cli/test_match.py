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


@pytest.mark.parametrize("name", CASES)
def test_probabilities_are_the_whole_models_own(
    name: str, folders: Callable[[str], Path], cat: str
) -> None:
    wanted = run_by_library(name, folders(name), CAPTIONS).logits_per_image[0]
    chances = wanted.sigmoid() if name == "siglip" else wanted.softmax(0)
    said = json.loads(answer("match", str(folders(name)), cat, *CAPTIONS, "--json"))
    assert [row["caption"] for row in said["captions"]] == list(CAPTIONS)
    assert [row["logit"] for row in said["captions"]] == pytest.approx(wanted.tolist(), abs=2e-5)
    assert [row["probability"] for row in said["captions"]] == pytest.approx(
        chances.tolist(), abs=1e-5
    )
    assert said["probability"] == ("sigmoid" if name == "siglip" else "softmax")
    lines = answer("match", str(folders(name)), cat, *CAPTIONS).splitlines()
    best = CAPTIONS[int(wanted.argmax())]
    assert lines[1].endswith(f"  {best}")
    assert len(lines) == 2 + len(CAPTIONS)
    assert lines[-1] == f"capture report {max(said['reports'], key=('green', 'amber').index)}"


def test_the_runs_of_both_towers_are_stored(
    folders: Callable[[str], Path], cat: str, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    answer("match", str(folders("clip")), cat, *CAPTIONS, "--out", str(out))
    names = ["caption-1", "caption-2", "caption-3", "picture"]
    assert sorted(path.stem for path in out.iterdir()) == names
    runs = {name: tv.Trace.load(out / f"{name}.safetensors") for name in names}
    assert runs["picture"].attention("encoder").shape[-1] == 17  # 4 x 4 patches and the class token
    assert runs["caption-1"].source is not None
    assert runs["caption-1"].source.labels[1:3] == ("a", "cat")
    assert "is there already" in refusal(
        "match", str(folders("clip")), cat, "a cat", "--out", str(out)
    )


def test_what_does_not_fit_gets_one_sentence(folders: Callable[[str], Path], cat: str) -> None:
    clip = str(folders("clip"))
    assert "no picture 'dog.png'; PICTURE names a file" in refusal("match", clip, "dog.png", "a")
    assert "CAPTION" in refusal("match", clip, cat)
    assert "Only a Hugging Face folder has parts" in refusal("match", "en-lm", cat, "a cat")
    broken = Path(cat).with_name("broken.png")
    broken.write_bytes(b"no picture")
    assert "picture" in refusal("match", clip, str(broken), "a cat")
