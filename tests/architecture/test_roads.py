"""The roads of docs/architecture.md lead through functions that there are."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HOPS = re.findall(r"`([\w/]+\.(?:py|js))::(\w+)`", TEXT)
PYTHON = ROOT / "transformer_viz"
DEFINED = {
    "py": r"^ *(?:async )?(?:def|class) {name}\b",
    "js": r"^(?:export )?(?:async )?(?:function|class) {name}\b|^  (?:async )?{name}\(.*\{{$",
}


def test_the_road_of_the_slider_names_each_hop_and_each_is_there() -> None:
    assert len(HOPS) == TEXT.count("::") - 1 >= 30  # one `::` explains the notation
    assert ("core/apply_edits.py", "changed_scores") in HOPS
    lost = []
    for file, name in HOPS:
        suffix = file.rsplit(".")[-1]
        folder = PYTHON if suffix == "py" else PYTHON / "components" / "browser"
        text = (folder / file).read_text(encoding="utf-8")
        if not re.search(DEFINED[suffix].format(name=name), text, re.MULTILINE):
            lost.append(f"{file}::{name}")
    assert not lost
