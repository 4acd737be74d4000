"""The pages of docs that link a measured table state its counts."""

from __future__ import annotations

from tests.support.measured_tables import TABLES, read_table
from tests.support.paths import ROOT


def test_pages_state_what_their_tables_count() -> None:
    ran = [row for row in read_table("foreign-packages") if row["verdict"] != "not run"]
    styles, faults = read_table("foreign-styles"), read_table("mutations")
    variants = read_table("checkpoints")
    suggestions = [(row["model"], row["sensible"]) for row in read_table("suggestions")]
    sensible = [f"{suggestions.count((model, 'yes'))} of 20" for model in ("en-lm", "en-mlm")]

    def counts(rows: list[dict[str, str]], *verdicts: str) -> str:
        found = [row["verdict"] for row in rows]
        return ", ".join(f"{found.count(verdict)} {verdict}" for verdict in verdicts)

    packages, layouts = {row["package"] for row in ran}, {row["layout"] for row in variants}
    seen = sum(row["not green"] != "not seen" for row in faults)
    failed = sum(row["ordinary tests"] == "fail" for row in faults)
    passed = sum(row["verdict"] == "passes" for row in variants)
    stated = (
        ("tested-models.md", f"{len(ran)} configurations of {len(packages)} packages were run: "),
        ("tested-models.md", counts(ran, "proved", "said", "wrong", "silent")),
        ("tested-models.md", f"{len(styles)} styles: "),
        ("tested-models.md", counts(styles, "ok", "said", "silent", "wrong", "crash")),
        ("how-the-proof-works.md", f"{seen} of {len(faults)} are seen by the report, "),
        ("how-the-proof-works.md", f"{failed} of {len(faults)} by the ordinary tests."),
        (
            "tested-models.md",
            f"{passed} variants of {len(layouts)} layouts were tried, and all pass",
        ),
        ("translator.md", f"{sensible[0]} are for `en-lm`, and {sensible[1]} for `en-mlm`."),
    )
    for page, sentence in stated:
        assert sentence in (ROOT / "docs" / page).read_text("utf-8"), (page, sentence)


def test_each_table_is_linked_by_a_page() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))
    for table in TABLES.glob("*.csv"):
        assert f"](tables/{table.name})\n" in pages, table.name
