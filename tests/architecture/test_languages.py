"""The languages: each text has its translation, none is left over, both name the same things."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from string import Formatter

import pytest

from tests.support import translations
from transformer_viz import i18n as tongues
from transformer_viz.components.blob import pack
from transformer_viz.components.bundle import HERE as SCRIPTS
from transformer_viz.components.js_texts import TELL, browser_texts, browser_words, taught
from transformer_viz.components.standalone_page import header
from transformer_viz.core.interventions import BlockKeys, Intervention, Temperature
from transformer_viz.i18n import (
    ENGLISH,
    NAME,
    catalogue,
    join_words,
    languages,
    say,
    speak,
    speaking,
    spoken_language,
)

OTHERS = [code for code in languages() if code != ENGLISH]
#: Names, formulas and what is written alike everywhere, besides texts without any word.
SAME = {"softmax", "q·k", "gamma", "W", "BLEU"}
#: Words that a language has from English, or shares with it, letter for letter.
SHARED = {
    "de": {
        *("Beam", "Checkpoint", "Cross", "Decoder", "Encoder", "Greedy", "greedy", "Rollout"),
        *("Name", "Sampling", "Text", "global", "plus {bias}: {value}", "{mask} in {layers}"),
        "{name}: BLEU {bleu}",
    }
}
#: The function itself, and methods of that name.
DECLARED = re.compile(r"^(export function|\s+)\s*tell\([^)]*\) \{$", re.MULTILINE)
FIELD = re.compile(r"%?\{[^{}]*\}|\b[A-Za-z]\d?\b|<br>")  # holes, and signs of one letter


def fields(text: str) -> list[tuple[str, str | None]]:
    """What has a place in a text, and how it is written there."""
    found = ((name, spec) for _, name, spec, _ in Formatter().parse(text) if name is not None)
    return sorted(found, key=str)


@pytest.mark.slow
def test_every_text_has_a_translation_that_names_the_same_and_is_one() -> None:
    wanted = set(translations.texts())
    for code in OTHERS:
        known = set(catalogue(code)) - {NAME}
        lacks, left = sorted(wanted - known), sorted(known - wanted)
        assert not lacks, f"{code}: python -m tests.support.translations FILE puts them in"
        assert not left, f"{code}: python -m tests.support.translations takes them out"
        for text, ours in catalogue(code).items():
            assert fields(text) == fields(ours), text
            assert ours.strip() or not text.strip(), text
            assert text.startswith("#") == ours.startswith("#"), text  # headings stay headings
        kept = {text for text, ours in catalogue(code).items() if text == ours}
        words = {text for text in kept if re.search(r"[A-Za-z]{2}", FIELD.sub("", text))}
        assert words <= SAME | SHARED.get(code, set()), code


def test_merging_nothing_leaves_the_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translations, "HERE", tmp_path)
    more = tmp_path / "more.json"
    more.write_text(json.dumps({"nobody says this": "x"}), encoding="utf-8")
    for code in OTHERS:
        known = [text for text in catalogue(code) if text != NAME]
        was = (tongues.HERE / f"{code}.json").read_text(encoding="utf-8")
        (tmp_path / f"{code}.json").write_text(was, encoding="utf-8")
        monkeypatch.setattr(translations, "texts", lambda known=known: known)
        assert translations.merge(code, [more]) == []
        assert (tmp_path / f"{code}.json").read_text(encoding="utf-8") == was


def test_the_scripts_tell_literals_only() -> None:
    for path in sorted(SCRIPTS.rglob("*.js")):
        script = path.read_text(encoding="utf-8")
        script = DECLARED.sub("", script)
        calls = re.findall(r"(?<![.\w])tell\(", script)
        assert len(calls) == len(re.findall(r"(?<![.\w])" + TELL.pattern, script)), path


def test_a_language_is_spoken_in_one_thread_and_inside_with() -> None:
    heard = []
    with speaking("zh"):
        assert say("Nobody translated this {way}.", way="yet") == "Nobody translated this yet."
        thread = threading.Thread(target=lambda: heard.append(say("Explore")))
        thread.start()
        thread.join()
        with speaking(ENGLISH):
            heard.append(say("Explore"))
        heard.append(say("Explore"))
    with speaking("xx"):
        assert spoken_language() == ENGLISH
    speak("nowhere")
    assert heard == ["Explore", "Explore", "探索"] and spoken_language() == ENGLISH
    assert say("Explore") == "Explore"


def test_edits_are_said_in_words_of_the_language_and_written_alike() -> None:
    edits = Intervention((Temperature(value=2, layer=1, head=3), BlockKeys(keys=(0, 1))))
    said, written = edits.describe(), edits.to_json()
    with speaking("zh"):
        assert edits.describe() == "L1 H3：温度 2; 全部：隐藏 第 0 个词、第 1 个词"
        assert edits.to_json() == written
        assert join_words("ab") == "a、b"
    assert said == "L1 H3: temperature 2; everything: word 0, word 1 hidden"


def test_data_bring_the_texts_of_the_scripts_once() -> None:
    assert header(pack({"part": "x"})) == {"part": "x", "arrays": {}}
    with speaking("zh"):
        words = header(pack({"part": "x"}))
        assert words["lang"] == "zh" and words["texts"]["masked"] == "已掩盖"
        assert set(words["texts"]) == browser_texts() & set(catalogue("zh"))
        with taught():
            assert browser_words() == {"lang": "zh"}
    assert browser_words() == {}
