"""The JavaScript modules as a whole: each loads alone, and all of them fit into one script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.support.scripts import script
from transformer_viz.components.bundle import EXPORT, HERE, bundle, scripts

MODULES = scripts()
#: Entries are what Streamlit loads: they give a default export.
ENTRIES = ("pictures.js", "panels.js")
STARTS = ("report/neuron.js", "report/report.js")  # only start what the others make
IMPORTED = re.compile(r"^import\b.*?;$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r'import \{[\w\s,]+\} from "\.{1,2}/[\w/]+\.js";')
FILES = 15  # scripts in a folder


def test_exports_are_found() -> None:
    source = "export class A {\n  const = 1;\n}\nconst b = 1;\nexport async function c() {\n"
    assert EXPORT.findall(source + "export const d = 1;\nexport default b;\n") == list("Acd")


def test_each_module_loads_alone(stage: Page) -> None:
    exported = stage.evaluate(script("module_exports"), MODULES)
    assert [name for name, found in exported.items() if not found] == [*STARTS]


def test_imports_keep_to_the_form_that_can_be_joined() -> None:
    odd = {
        name: [one for one in IMPORTED.findall(text) if not PLAIN.fullmatch(one)]
        for name, text in ((name, (HERE / name).read_text(encoding="utf-8")) for name in MODULES)
    }
    assert {name: found for name, found in odd.items() if found} == {}


def test_a_folder_of_scripts_is_read_at_a_glance() -> None:
    folders = [path for path in HERE.rglob("*") if path.is_dir()]
    assert {f.name for f in folders if len(list(f.glob("*.js"))) > FILES} == set()


@pytest.mark.parametrize("entry", [*ENTRIES, *STARTS])
def test_a_joined_script_runs_and_holds_all_that_is_exported(stage: Page, entry: str) -> None:
    joined = bundle(entry)
    assert not re.search(r"^\s*(import|export)\b(?!\(| default )", joined, re.MULTILINE)
    body = joined.partition("\nexport default ")[0]
    held = re.findall(r"^const (module_\w+) = ", body, re.MULTILINE)
    kinds = stage.evaluate(script("bundle_exports"), [body, held])
    exports = {
        "module_" + re.sub(r"\W", "_", name[: -len(".js")]): EXPORT.findall(
            (HERE / name).read_text("utf-8")
        )
        for name in MODULES
    }
    assert {name: [n for n, _ in kinds[name]] for name in held} == {n: exports[n] for n in held}
    assert all(kind != "undefined" for found in kinds.values() for _, kind in found)
