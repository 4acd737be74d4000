"""The font of code points, read by a library that knows nothing of how it was made."""

from __future__ import annotations

import io
import json
import subprocess

import pytest
from fontTools.ttLib import TTFont

from tests.support.paths import ROOT
from transformer_viz.components.bundle import HERE

#: Digits of seven strokes: how many of them each has on a display.
STROKES = dict(
    zip("0123456789abcdef", (6, 2, 5, 5, 4, 5, 6, 3, 7, 6, 6, 5, 4, 5, 5, 4), strict=True)
)
CODES = [0x4E2D, 0x6587, 0xAC00, 0x1F916]


@pytest.mark.process
def test_each_sign_is_a_frame_with_the_strokes_of_its_digits() -> None:
    path = HERE / "letters" / "code_point_font.js"
    script = (
        f"const {{ codePointFont }} = await import({json.dumps(path.as_uri())});"
        f"process.stdout.write(Buffer.from(codePointFont({CODES})));"
    )
    command = ["./.ci/node", "node", "--input-type=module", "-e", script]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=300)
    font = TTFont(io.BytesIO(made.stdout), checkChecksums=2)
    assert sorted(font.getBestCmap()) == CODES
    for code, name in font.getBestCmap().items():
        glyph = font["glyf"][name]
        digits = f"{code:x}" if code <= 0xFFFF else f"{code:06x}"
        assert glyph.numberOfContours == 2 + sum(STROKES[digit] for digit in digits)
        glyph.recalcBounds(font["glyf"])
        assert (glyph.xMin, glyph.yMin, glyph.xMax, glyph.yMax) == (40, -110, 960, 810)
        assert font["hmtx"][name] == (1000, 40)
