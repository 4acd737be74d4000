"""What the site holds besides docs/: pages of the clone, a report to play with, links that fit."""

from __future__ import annotations

import csv
import os
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from plotly.offline import get_plotlyjs

from docs.site.gallery import all_shown
from transformer_viz import load, trace, views
from transformer_viz.paths import ROOT

#: Pages that stand elsewhere in the clone, and what the site calls them.
BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "HISTORY.md": "history.md",
    "benchmarks/RESULTS.md": "results.md",
}
#: Names of the notebooks that run; empty: all. Tests build a site in which a few do.
RUN = tuple(os.environ.get("GALLERY_RUN", "").split())
REPORT = "report.html"
SENTENCE = "The animal didn't cross the street because it was too tired."
#: What the theme would fetch from elsewhere, and our own in its place.
SHIM, OURS = "https://unpkg.com/iframe-worker/shim", "site/worker.js"
#: A paragraph that is only a link to a table beside the pages.
TABLE = re.compile(r"^\[[^\]]*\]\((tables/[\w-]+\.csv)\)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+|(?=[\w.-]))([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand elsewhere, and the page of one run."""
    for name, place in BESIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    page = views.report(trace(load("en-de"), SENTENCE))
    files.append(File.generated(config, REPORT, content=page))
    for notebook in all_shown(RUN, others=True):
        whole = {f"{notebook.name}.md": notebook.text} | notebook.beside
        for name, content in whole.items():
            files.append(File.generated(config, f"gallery/{name}", content=content))
    files.append(File.generated(config, "gallery/plotly.min.js", content=get_plotlyjs()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Show each linked table; point links into the clone to the site's page, or keep the words."""
    came = {place: name for name, place in BESIDE.items()}.get(page.file.src_uri)
    depth = page.file.src_uri.count("/")

    def fit(found: re.Match[str]) -> str:
        words, up, path, anchor = found[1], found[2], found[3], found[4] or ""
        if "://" in path or path.startswith("mailto:"):
            return found[0]
        if came is not None:
            folder = came.rpartition("/")[0]
            whole = (ROOT / folder / up / path).resolve()
        elif up:
            whole = (ROOT / "docs" / page.file.src_uri).parent.joinpath(up, path).resolve()
        else:
            return found[0]
        inside = whole.relative_to(ROOT).as_posix()
        back = "../" * depth
        if inside in BESIDE:
            return f"[{words}]({back}{BESIDE[inside]}{anchor})"
        if inside.startswith("docs/") and whole.suffix in (".md", ".png"):
            return f"[{words}]({back}{inside.removeprefix('docs/')}{anchor})"
        return f"{words} (`{inside}`)" if words.strip("`") != inside else f"`{inside}`"

    return TABLE.sub(lambda found: f"{found[0]}\n\n{show_table(found[1])}", LINK.sub(fit, markdown))


def show_table(path: str) -> str:
    """Return ``docs/{path}``, a CSV file, as a table in Markdown."""
    with (ROOT / "docs" / path).open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *escaped)
    )


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Nothing is fetched from a network."""
    return output.replace(SHIM, "../" * page.file.src_uri.count("/") + OURS)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for the page that says that there is none."""
    return output_content.replace(SHIM, OURS)
