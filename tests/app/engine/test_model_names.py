"""Names of models: those that a visitor can choose, and those of a visitor's own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from transformer_viz.app.engine import model_names
from transformer_viz.app.engine.model_catalog import Shelf
from transformer_viz.checkpoints.common.bundled import available

PLAIN = draw.one_of(
    draw.booleans(),
    draw.integers(-(10**9), 10**9),
    draw.floats(allow_nan=False, allow_infinity=False),
    draw.text(max_size=20),
    draw.none(),
)
KEY = draw.from_regex(r"[a-z_]{1,12}", fullmatch=True)
WORDS = draw.dictionaries(
    KEY.filter(lambda word: word not in model_names.NOT_WORDS), PLAIN, max_size=5
)
CHARACTERS = draw.characters(exclude_characters="/", exclude_categories=["Cs"])
PARTS = draw.lists(draw.text(CHARACTERS, min_size=1), min_size=1, max_size=4)


@given(PARTS, WORDS)
def test_place_and_options_come_back_from_a_name(parts, words) -> None:
    place = model_names.PATH + "/".join(parts)
    name = model_names.named(place, words)
    assert model_names.parted(name) == (place, words)
    assert model_names.is_own(place) and not model_names.is_own("en-de")
    assert model_names.public_name(name) == name


def test_options_that_are_none_are_refused_and_stay_part_of_the_place() -> None:
    for text in (
        "[]", "{", "8", '{"heads": [8]}', '{"heads": {}}', '{"norm_eps": NaN}',
        '{"norm_eps": Infinity}', '{"device": "cuda"}', '{"tokenizer": "x"}', '{"thing": "x"}',
        '{"a b": 1}', "[" * 3000, '{"a": "' + "x" * model_names.MAX_OVERRIDE_CHARACTERS + '"}',
    ):  # fmt: skip
        with pytest.raises(ValueError, match="JSON such as"):
            model_names.read_words(text)
        assert model_names.parted(f"path:a//{text}") == (f"path:a//{text}", {}), text[:40]


def test_a_name_tells_nothing_of_the_servers_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, shown = 'upload:0a1b/2/ckpt.pt//{"heads":8}', 'upload:ckpt.pt//{"heads":8}'
    assert model_names.public_name(stored) == shown
    assert model_names.public_name("upload:ckpt.pt") == "upload:ckpt.pt"
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", "/srv/models:/")
    said = "/srv/models/a/b.pt is not below /srv/models; /var/room/1/up holds no weights."
    veiled = model_names.veiled(said, Path("/var/room/1"))
    assert veiled == "a/b.pt is not below “models”; up holds no weights."


def test_a_path_is_named_from_the_first_folder_that_leads_to_it(tmp_path, monkeypatch) -> None:
    for place in ("one/same.pt", "two/same.pt", "two/only.pt"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(b"x")
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", f"{tmp_path}/one:{tmp_path}/two")
    assert model_names.path_name("only.pt") == "path:only.pt"
    assert model_names.path_name(f"{tmp_path}/one/same.pt") == "path:same.pt"
    second = f"{tmp_path}/two/same.pt"  # its short name would lead to the first
    assert model_names.path_name(second) == f"path:{second}"
    for name in ("only.pt", second):
        assert model_names.find_below(name).parent.name == "two", name
    # Without a setting only the working folder is open.
    monkeypatch.delenv("TRANSFORMER_VIZ_ROOTS")
    monkeypatch.setenv("TRANSFORMER_VIZ_REACH", "machine")
    monkeypatch.chdir(tmp_path)
    assert model_names.roots() == (tmp_path,)
    with pytest.raises(ValueError, match="outside"):
        model_names.path_name("/etc/passwd")


def test_a_further_folder_offers_its_models(tmp_path: Path) -> None:
    for place in (
        "native/weights.safetensors", "library/model.safetensors",
        "split/model.safetensors.index.json", "pickled/pytorch_model.bin",
        ".cache/model.safetensors", "en-de/model.safetensors", "notes/readme.txt", "loose.pt",
    ):  # fmt: skip
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch()
    further = ("library", "native", "pickled", "split")
    assert tuple(Shelf("", str(tmp_path))) == (*available(), *further)
    assert Shelf("", str(tmp_path))["en-de"].in_the_box  # bundled models keep their names
    assert next(iter(Shelf(str(tmp_path / "split"), str(tmp_path)))) == "split"
    assert tuple(Shelf("")) == available()
