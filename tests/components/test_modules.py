"""The JavaScript modules as a whole: each loads alone, and all of them fit into one script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from transformer_viz.components.bundle import HERE, bundle

MODULES = sorted(path.name for path in HERE.glob("*.js"))
#: Entries are what Streamlit loads: they give a default export, which one script cannot have.
VIEWS = [name for name in MODULES if name not in ("pictures.js", "panels.js")]
STARTS = "report.js"  # only starts what the others make
DECLARED = re.compile(
    r"^(?:export (?:default )?)?(?:async )?(?:function\*?|class|const|let|var) +(\w+|[{\[][^=]*)",
    re.MULTILINE,
)
IMPORTED = re.compile(r"^import\b.*?;$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r'import \{[\w\s,]+\} from "\./\w+\.js";')


def declared(source: str) -> list[str]:
    """The names that a module declares at its top level; one that takes apart gives several."""
    return [name for found in DECLARED.findall(source) for name in re.findall(r"\w+", found)]


def test_names_are_found() -> None:
    source = "export class A {\n  const = 1;\n}\nconst b = 1;\nexport async function c() {\n"
    assert declared(source + "const { d, e } = b;\nlet [f] = b;\n") == list("Abcdef")


@pytest.mark.browser
@pytest.mark.parametrize("name", MODULES)
def test_a_module_loads_alone(stage: Page, name: str) -> None:
    exported = stage.evaluate("async name => Object.keys(await import('/' + name))", name)
    assert exported or name == STARTS, f"{name} exports nothing"


def test_no_two_modules_declare_one_name() -> None:
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for name in declared((HERE / module).read_text(encoding="utf-8")):
            places.setdefault(name, []).append(module)
    assert len(places) > len(MODULES)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", MODULES)
def test_imports_keep_to_the_form_that_can_be_joined(name: str) -> None:
    imports = IMPORTED.findall((HERE / name).read_text(encoding="utf-8"))
    assert [one for one in imports if not PLAIN.fullmatch(one)] == []


@pytest.mark.browser
def test_all_views_are_one_script_that_runs(stage: Page) -> None:
    script = bundle(*VIEWS)
    assert not re.search(r"^\s*(import|export)\b(?!\()", script, re.MULTILINE)
    stage.add_script_tag(content=script)
    names = [name for module in VIEWS for name in declared((HERE / module).read_text("utf-8"))]
    kinds = stage.evaluate(f"({{{', '.join(f'{n}: typeof {n}' for n in names)}}})")
    assert set(kinds) == set(names) and "undefined" not in kinds.values()
