"""Print asks the fonts which signs they have: any script, with and without a font that draws it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.font_manager import fontManager
from PIL import Image

from tests.support.paths import ROOT
from tests.views.conftest import make_trace
from transformer_viz.i18n import ENGLISH, catalogue, speaking
from transformer_viz.views.paper import fonts, sheet
from transformer_viz.views.paper.figure_file import FORMATS, printed

CLEAN = make_trace()
TEXT = "权重显示头看向哪里，但它们不解释模型的答案。 Weights do not."
#: A sign of each script, and the package of Debian that is named where no font draws it.
SCRIPTS = {
    "猫": "fonts-noto-cjk",
    "ね": "fonts-noto-cjk",
    "한": "fonts-noto-cjk",
    "แ": "fonts-noto-core",
    "अ": "fonts-noto-core",
    "🙂": "fonts-symbola",
}


def build_font(path: Path, signs: str) -> Path:
    """A font of full squares for some signs, under a name that no list holds."""
    pen = TTGlyphPen(None)
    pen.moveTo((50, 0))
    for corner in ((50, 800), (950, 800), (950, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000)
    builder.setupGlyphOrder([".notdef", "square"])
    builder.setupCharacterMap({ord(sign): "square" for sign in signs})
    builder.setupGlyf({".notdef": square, "square": square})
    builder.setupHorizontalMetrics({".notdef": (1000, 50), "square": (1000, 50)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Nobody Lists This", "styleName": "Regular"})
    builder.setupOS2(usWeightClass=400)
    builder.setupPost()
    path.parent.mkdir(parents=True, exist_ok=True)
    builder.save(path)
    return path


@pytest.fixture
def only_dejavu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A computer whose only font is the one that comes with matplotlib."""
    own = [one for one in fontManager.ttflist if one.name == fonts.BASE]
    resort = [one for one in fontManager.ttflist if one.name.startswith(fonts.LAST_RESORT)]
    monkeypatch.setattr(fontManager, "ttflist", own + resort)
    monkeypatch.setattr(fonts.font_manager, "findSystemFonts", list)
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    fontManager._findfont_cached.cache_clear()
    fonts.family_of.cache_clear()
    fonts._others.cache_clear()


def shown(language: str, label: str) -> str:
    """An SVG of a map whose first word is the label."""
    trace = replace(CLEAN, source=replace(CLEAN.source, labels=(label, *CLEAN.source.labels[1:])))
    with speaking(language):
        return printed(trace, "map", "svg", "encoder", 0, 0).decode()


def test_lines_of_chinese_are_parted_by_the_fonts_at_hand() -> None:
    lines = sheet.wrapped(TEXT, 60)
    assert_parted(lines)
    assert all(sheet.width_of(line, sheet.SIZE) <= 60 for line in lines)


def assert_parted(lines: list[str]) -> None:
    """Anywhere, but not before a mark."""
    assert "".join(lines).replace(" ", "") == TEXT.replace(" ", "")
    assert len(lines) > 3 and not any(line[0] in "，。" for line in lines)


@pytest.mark.slow
@pytest.mark.usefixtures("only_dejavu")
def test_without_a_font_signs_are_named_with_what_to_install() -> None:
    assert_parted(sheet.wrapped(TEXT, 60))
    assert sheet.width_of("权重", 8) == 16  # a box is as wide as it is high
    for sign, package in SCRIPTS.items():
        assert fonts.missing(["a b\n", sign, "aéα−…"]) == sign
        said = shown(ENGLISH, sign)
        assert f"has U+{ord(sign):04X}, which may stand here as empty boxes." in said
        assert f"on Debian: apt install {package}." in said
    assert fonts.missing("Straße naïve αβγ Привет ☐ √ − × …\n\u200d") == ""
    assert "Install one" not in shown(ENGLISH, "Straße")
    assert fonts.readable("zh") == ENGLISH == fonts.readable(ENGLISH)
    said = shown("zh", "cat")
    assert "has the letters of the chosen language, so its words are English" in said
    assert "Encoder self-attention L0 H0." in said
    trace = replace(CLEAN, source=replace(CLEAN.source, labels=("猫", *CLEAN.source.labels[1:])))
    for kind in FORMATS:
        content = printed(trace, "map", kind, "encoder", 0, 0)
        if kind == "png":
            assert "U+732B" in Image.open(io.BytesIO(content)).info["manifest"]
        else:
            assert b"U+732B" in content, kind


@pytest.mark.usefixtures("only_dejavu")
def test_any_font_that_has_the_signs_is_used_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = "".join(dict.fromkeys("".join(catalogue("zh").values())))
    build_font(tmp_path / "any.ttf", "".join(s for s in letters + "猫" if s.strip()))
    monkeypatch.setattr(
        fonts.font_manager, "findSystemFonts", lambda: [str(tmp_path / "any.ttf"), "broken.ttf"]
    )
    forget()
    assert fonts.family_of("猫") == "Nobody Lists This"
    assert fonts.families("a猫") == [fonts.BASE, "Nobody Lists This", "sans-serif"]
    assert fonts.readable("zh") == "zh"
    assert sheet.width_of("猫猫", 8) == pytest.approx(16, abs=1)
    said = shown("zh", "猫")
    assert "Nobody Lists This" in said and "U+" not in said
    with speaking("zh"):
        png = printed(CLEAN, "map", "png", "encoder", 0, 0)
    drawn = np.asarray(Image.open(io.BytesIO(png)).convert("L"))
    dark = (drawn < 128).mean(axis=1)
    assert dark[-300:].max() > 0.3  # the caption's squares, of our own font
    forget()


@pytest.mark.process
def test_a_font_put_on_the_computer_is_found_by_a_fresh_process(tmp_path: Path) -> None:
    sign = chr(0xE123)  # a place for private use, which no other font fills
    build_font(tmp_path / "data" / "fonts" / "any.ttf", f"{sign}𓀀")
    code = (
        "from transformer_viz.views.paper import fonts\n"
        "assert fonts.family_of('𓀀') == 'Nobody Lists This', fonts.family_of('𓀀')"
    )
    own = {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
