"""Names of a visitor's own models: an identity, and nothing in them that could be believed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies

from transformer_viz.app.engine import model_names

PLAIN = strategies.one_of(
    strategies.booleans(),
    strategies.integers(-(10**9), 10**9),
    strategies.floats(allow_nan=False, allow_infinity=False),
    strategies.text(max_size=20),
    strategies.none(),
)
WORDS = strategies.dictionaries(
    strategies.from_regex(r"[a-z_]{1,12}", fullmatch=True).filter(
        lambda word: word not in model_names.NOT_WORDS
    ),
    PLAIN,
    max_size=5,
)
PARTS = strategies.lists(
    strategies.text(
        strategies.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1
    ),
    min_size=1,
    max_size=4,
)


@given(PARTS, WORDS)
def test_place_and_words_come_back_from_a_name(parts: list[str], words: dict[str, object]) -> None:
    place = model_names.PATH + "/".join(parts)
    assert model_names.parted(model_names.named(place, words)) == (place, words)
    assert model_names.is_own(place) and not model_names.is_own("en-de")
    assert model_names.public_name(model_names.named(place, words)) == model_names.named(
        place, words
    )


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "8",
        '{"heads": [8]}',
        '{"heads": {}}',
        '{"norm_eps": NaN}',
        '{"norm_eps": Infinity}',
        '{"device": "cuda"}',
        '{"tokenizer": "x"}',
        '{"thing": "x"}',
        '{"a b": 1}',
        "[" * 3000,
        '{"a": "' + "x" * model_names.MAX_OVERRIDE_CHARACTERS + '"}',
    ],
)
def test_words_that_are_none_are_refused_and_stay_part_of_the_place(text: str) -> None:
    with pytest.raises(ValueError, match="JSON such as"):
        model_names.read_words(text)
    assert model_names.parted(f"path:a//{text}") == (f"path:a//{text}", {})


def test_a_link_does_not_say_in_which_room_an_upload_lies() -> None:
    assert (
        model_names.public_name('upload:0a1b/2/ckpt.pt//{"heads":8}')
        == 'upload:ckpt.pt//{"heads":8}'
    )
    assert model_names.public_name("upload:ckpt.pt") == "upload:ckpt.pt"


def test_a_path_is_named_from_the_first_folder_that_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.pt").write_bytes(b"x")
    (tmp_path / "two" / "only.pt").write_bytes(b"x")
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", f"{tmp_path}/one:{tmp_path}/two")
    assert model_names.path_name("only.pt") == "path:only.pt"
    assert model_names.path_name(f"{tmp_path}/one/same.pt") == "path:same.pt"
    second = model_names.path_name(
        f"{tmp_path}/two/same.pt"
    )  # the short name would lead to the first
    assert second == f"path:{tmp_path}/two/same.pt"
    for name in ("only.pt", f"{tmp_path}/two/same.pt"):
        assert model_names.find_below(name).parent.name == "two"


def test_without_a_word_of_the_operator_only_the_working_folder_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRANSFORMER_VIZ_ROOTS", raising=False)
    monkeypatch.setenv("TRANSFORMER_VIZ_REACH", "machine")
    monkeypatch.chdir(tmp_path)
    assert model_names.roots() == (tmp_path,)
    with pytest.raises(ValueError, match="outside"):
        model_names.path_name("/etc/passwd")


def test_a_sentence_says_nothing_of_where_the_server_keeps_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRANSFORMER_VIZ_ROOTS", "/srv/models:/")
    said = "/srv/models/a/b.pt is not below /srv/models; /var/room/1/up holds no weights."
    veiled = model_names.veiled(said, Path("/var/room/1"))
    assert veiled == "a/b.pt is not below “models”; up holds no weights."
