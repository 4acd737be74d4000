"""The gallery: notebooks run in a real kernel, each made a page of its text, code and outputs.

The source of a notebook is a plain Python file in docs/gallery (jupytext's percent format). Its
outputs are made when the site is built and stand nowhere else, so none of them can grow old. Run
`python -m docs.site.gallery [NAME ...]` to see what notebooks print, and how long they take.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jupytext
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

from docs.site import hub_model
from tests.support.hub_server import Hub, serving

HERE = Path(__file__).parents[1] / "gallery"
#: The id under which the small Hub of the build has its model.
HUB_ID = "gallery/small-gpt2"
PLOTLY = "application/vnd.plotly.v1+json"
#: A notebook takes seconds; one that hangs must not hold the build for ever.
PATIENCE = 300
SRCDOC = re.compile(r'<iframe srcdoc="([^"]*)" title="([^"]*)" width="100%" height="(\d+)"')
SHEET = re.compile(r"<style.*?</style>", re.DOTALL)
CHART = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>
body {{ margin: 0; background: #fbfaf7; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #1f2022; }}
  #chart {{ filter: invert(.89) hue-rotate(180deg); }}
}}
</style><script src="plotly.min.js"></script></head><body>
<div id="chart"></div><script>
Plotly.newPlot("chart", {data}, {layout}, {{responsive: true, displaylogo: false}});
</script></body></html>"""


@dataclass
class Shown:
    """A notebook as a page: its Markdown, and the files that stand beside it, by name."""

    name: str
    title: str
    text: str
    beside: dict[str, str | bytes] = field(default_factory=dict)
    seconds: float = 0.0


def sources() -> list[Path]:
    """The notebooks in the order in which they are to be read."""
    return sorted(HERE.glob("[0-9]*.py"))


def name_of(source: Path) -> str:
    """What its page is called: `01_first_look.py` is `first-look`."""
    return source.stem.split("_", 1)[1].replace("_", "-")


@contextmanager
def kernel() -> Iterator[KernelManager]:
    """One kernel for all notebooks, since each import of torch costs seconds.

    It sees a Hub of this machine with one model, an empty cache, and no settings of whoever builds.
    """
    with tempfile.TemporaryDirectory() as home:
        hub = Hub()
        folder = Path(home, "model")
        folder.mkdir()
        hub.add(HUB_ID, hub_model.written(folder))
        with serving(hub) as url:
            words = {
                "GALLERY_MODEL": HUB_ID,
                "HF_ENDPOINT": url,
                "HF_HOME": str(Path(home, "cache")),
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "HF_HUB_OFFLINE": "0",
                "OMP_NUM_THREADS": "1",  # two programs on two cores wait for each other
                "IPYTHONDIR": str(Path(home, "ipython")),
                "PLOTLY_RENDERER": "plotly_mimetype",
                "PYTHONPATH": str(HERE.parents[1]),
            }
            manager = KernelManager(transport="ipc", connection_file=str(Path(home, "kernel.json")))
            Path(home, "work").mkdir()
            manager.start_kernel(
                env=os.environ | words,
                cwd=str(Path(home, "work")),
                extra_arguments=["--HistoryManager.enabled=False"],
            )
            try:
                yield manager
            finally:
                manager.shutdown_kernel(now=True)


def executed(source: Path, manager: KernelManager) -> NotebookNode:
    """The notebook with its outputs, begun with no names of the one before.

    Raises:
        CellExecutionError: a cell that raises; it names the cell.
    """
    notebook = jupytext.read(source)
    reset = jupytext.reads("# %%\n%reset -f\n", fmt="py:percent").cells
    notebook.cells = [*reset, *notebook.cells]
    client = NotebookClient(notebook, km=manager, timeout=PATIENCE, iopub_timeout=PATIENCE)
    client.execute(reset_kc=False, cleanup_kc=False)
    notebook.cells = notebook.cells[1:]
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran is no one's business
    return notebook


def all_shown(names: tuple[str, ...] = (), *, others: bool = False) -> Iterator[Shown]:
    """Yield the page of every notebook after a run.

    Args:
        names: run only these, such as `first-look`; empty: all.
        others: yield pages of the other notebooks too, of their text and code without outputs.
    """
    with kernel() as manager:
        for path in sources():
            if not names or name_of(path) in names:
                begun = time.perf_counter()
                page = shown(name_of(path), executed(path, manager))
                page.seconds = time.perf_counter() - begun
                yield page
            elif others:
                yield shown(name_of(path), jupytext.read(path))


def shown(name: str, notebook: NotebookNode) -> Shown:
    """The page of a notebook that has run."""
    title = re.match(r"# (.*)", notebook.cells[0].source)
    page = Shown(name, title[1] if title else name, "")
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        cell.outputs = _joined(cell.outputs)
        parts += [made for output in cell.outputs if (made := _output(output, page))]
    lead = (
        f'!!! note "A notebook that ran when this page was built"\n\n    [Take it with you]'
        f"({name}.ipynb){{ download }}; its source is `docs/gallery/` in the clone.\n"
    )
    page.text = "\n\n".join([parts[0], lead, *parts[1:]]) + "\n"
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata.kernelspec = spec
    page.beside[f"{name}.ipynb"] = jupytext.writes(notebook, fmt="ipynb")
    return page


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """What was printed in one go as one output."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _output(output: NotebookNode, page: Shown) -> str:
    """One output as Markdown; pictures go into files of their own."""
    if output.output_type == "stream":
        return f"```{{.text .tv-said}}\n{output.text.rstrip()}\n```"
    data = output.get("data", {})
    if PLOTLY in data:
        chart = data[PLOTLY]
        height = int(chart["layout"].get("height", 450))
        words = {part: json.dumps(chart[part]).replace("</", "<\\/") for part in ("data", "layout")}
        title = f"A chart of “{page.title}”"
        return _framed(page, CHART.format(title=html.escape(title), **words), title, height)
    if found := SRCDOC.search(data.get("text/html", "")):
        content, title = html.unescape(found[1]), html.unescape(found[2])
        return _framed(page, content, title, int(found[3]))
    if "text/html" in data:
        table = SHEET.sub("", data["text/html"])
        return f'<div class="tv-table">{re.sub(chr(10) + " *", " ", table)}</div>'
    if "image/svg+xml" in data:
        file = f"{page.name}-{len(page.beside) + 1}.svg"
        page.beside[file] = data["image/svg+xml"]
        return f"![A figure of “{page.title}”]({file})"
    return f"```{{.text .tv-said}}\n{data['text/plain']}\n```" if "text/plain" in data else ""


def _framed(page: Shown, content: str, title: str, height: int) -> str:
    file = f"{page.name}-{len(page.beside) + 1}.html"
    page.beside[file] = content
    return (
        f'<iframe class="tv-frame" src="{file}" title="{html.escape(title)}" loading="lazy" '
        f'height="{height}"></iframe>'
    )


def main(names: tuple[str, ...]) -> None:
    """Run notebooks, and print their pages without pictures."""
    for page in all_shown(names):
        print(page.text)
        print(f"[{page.name}: {page.seconds:.1f} s; {', '.join(page.beside)}]\n")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
