"""Command line ``transformer-viz``, the same as ``python -m transformer_viz``.

Each command checks its arguments before it loads anything heavy. Results go to stdout, progress
goes to stderr. Invalid input exits with one sentence and code 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.guesses import with_mark
from ..core.version import __version__
from ..paths import ROOT
from .align import align
from .arguments import (
    KEEP,
    existing_picture,
    head_places,
    kept_parts,
    layer_numbers,
    new_file,
    one_place,
    one_question,
    read_intervention,
    stored_run,
    token_span,
    trace_file,
)
from .atlas import atlas
from .compare import compare
from .explain import explain
from .match import match
from .names import names
from .options import (
    input_options,
    intervention_option,
    load_apart,
    load_model,
    model_path,
    set_option,
)
from .proof_counter import proof_counter
from .rank import rank
from .serve import app
from .swap import swap
from .terminal import Counter, OneSentence, after_a_second, inspected, line_by_line, tell
from .train import train

if TYPE_CHECKING:
    from ..checkpoints.common.model import Model
    from ..core.interventions import Intervention
    from ..core.trace import Trace

SENSES = {"image": "a picture", "audio": "a sound"}  # by input of a model
NUMBERS, PRINTED = ("csv", "npz", "safetensors"), ("svg", "png", "pdf")


@click.group(cls=OneSentence, invoke_without_command=True)
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="transformer-viz")
@click.pass_context
def main(context: click.Context) -> None:
    """See, prove and change what a trained Transformer attends to.

    PATH is a name that `transformer-viz models` lists, a folder or a file, or else a model of
    the Hugging Face Hub: owner/name, or owner/name@revision.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@main.command()
def models() -> None:
    """List the models in the box."""
    from ..checkpoints import available
    from ..checkpoints.common.bundled import CONFIG, WEIGHTS, shelved

    for name in available():
        folder = shelved(name) or ROOT
        title = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("title", "")
        size = (folder / WEIGHTS).stat().st_size / 1e6
        snapshots = len(list(folder.glob("step-*.safetensors")))
        more = f", {snapshots} snapshots of its training" if snapshots else ""
        tell(f"{name:<16}{title:<44}{size:5.1f} MB{more}")


@main.command()
@model_path
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@set_option
@click.option("--image", metavar="F", help="A picture for the sample run, beside --text.")
@click.option("--text", metavar="T", help="The text of the sample run; left out, a small one.")
@click.option("--apart", is_flag=True, help="Open it as a stranger's: in a process under limits.")
def inspect(
    path: str,
    as_json: bool,
    words: tuple[str, ...],
    image: str | None,
    text: str | None,
    apart: bool,
) -> None:
    """Say what a checkpoint holds: layout, config and where each value came from, sites."""
    picture = None if image is None else existing_picture(image)
    model = load_apart(path, words) if apart else load_model(path, words)
    from ..inference.inspection import inspect as look

    with after_a_second("Running a sample to prove the capture"), proof_counter() as counter:
        found = look(model, source=text, image=picture, on_progress=counter)
    tell(json.dumps(found.to_dict(), indent=2) if as_json else "\n".join(inspected(found)))


@main.command()
@model_path
@input_options
@intervention_option
@set_option
@click.option("--keep", multiple=True, metavar="WHAT", help=f"What to keep: {', '.join(KEEP)}.")
@click.option("--out", required=True, metavar="F", help="The trace file, run.safetensors.")
def trace(path: str, out: str, words: tuple[str, ...], **given: Any) -> None:
    """Run one input and store everything that happened in a trace file."""
    intervention = read_intervention(given.pop("intervention"))
    keep = kept_parts(given.pop("keep"))
    source, aim = one_question(**given)
    new_file(out, "trace")
    model = load_model(path, words)
    beside = _beside(model, path, given)
    from ..inference.tracing import trace as run

    with after_a_second("Running"), proof_counter() as beside["on_progress"]:
        found = run(model, source, target=aim, intervention=intervention, keep=keep, **beside)
    found.save(out)
    maps = ", ".join(f"{name} {found.layers(name)} layers" for name in found.maps)
    kept = "; tiles in the place of matrices" if found.tiles else ""
    told = f"capture report {found.report}"
    if found.report.left_out:
        told = with_mark(f"the capture was not proved. {found.report.left_out}", found)
    elif found.report.output_difference is None:
        told = with_mark("the capture of so long a text was not proved", found)
    from ..views.numbers import beyond

    tell(" ".join(filter(None, [f"{out}: {maps}{kept}; {told}", beyond(found)])))


def _beside(model: Model, path: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the picture beside a text, for a text model; reject unsupported kinds of input."""
    words = given["text"] is not None or given["ids"] is not None
    if given["image"] is None or not words or model.takes == "image":
        _require_sense(model, path, given)
        return {}
    return {"image": Path(given["image"])}


def _require_sense(model: Model, path: str, given: dict[str, Any]) -> None:
    """Check that a picture or a sound is given exactly if the model takes one."""
    if model.eyes is not None and given["image"] is not None:
        raise ValueError(
            f'{path!r} reads a text with its picture; give the text too: --image FILE "What is '
            'in the picture?".'
        )
    needed = SENSES.get(model.takes)
    if all((given[takes] is not None) == (takes == model.takes) for takes in SENSES):
        return
    came = [what for takes, what in SENSES.items() if given[takes] is not None]
    needs = needed or f"no {came[0].split()[1]}s"
    flag = f"--{model.takes}" if needed else "a text, --ids or --vectors"
    raise ValueError(f"{path!r} takes {needs}; give it {flag}.")


@main.command()
@model_path
@input_options
@intervention_option
@set_option
@click.option("--title", default="", help="What stands above; left out, the model and the words.")
@click.option("--heads", metavar='"1.3 L0H2"', help="Heads to have in full; left out, what fits.")
@click.option("--layers", metavar='"0 4-6"', help="Layers of which all heads are had in full.")
@click.option(
    "--max-mb", type=float, metavar="N", help="How large it may be: 3, or 40 of a long text."
)
@click.option(
    "--precision",
    type=click.Choice(["float32", "int16"]),
    help="Of a long text's queries and keys; int16 takes half the room.",
)
@click.option("--out", required=True, metavar="F", help="The page, report.html.")
def report(path: str, title: str, out: str, words: tuple[str, ...], **given: Any) -> None:
    """Write one HTML page with all heads, which works offline.

    With --intervention it holds the run before, the run after, and what changed. Of a text of more
    than 1,024 tokens it holds queries and keys, and computes the cells that are looked at.
    PATH may also be a trace file, which holds its own input.
    """
    stored = trace_file(path, given, words)
    edits = read_intervention(given.pop("intervention"))
    holds = {
        "heads": head_places(given.pop("heads")),
        "layers": layer_numbers(given.pop("layers")),
        **{name: given.pop(name) for name in ("max_mb", "precision")},
    }
    file = new_file(out, "page")
    if stored is None:
        found, before = _reported(path, words, edits, given)
    else:
        found, before = stored, None
    from ..views.export.html_report import report as page

    counter = Counter("heads packed")
    content = page(found, before, title=title, on_progress=counter.tell, **holds)
    counter.close()
    size = len(content.encode("utf-8")) / 1e6
    tell(f"Writing {size:.2f} MB to {out}", err=True)
    file.write_text(content, encoding="utf-8")
    tell(f"{out}: {size:.2f} MB; capture report {found.report}")


def _reported(
    path: str, words: tuple[str, ...], edits: Intervention, given: dict[str, Any]
) -> tuple[Trace, Trace | None]:
    """Return the run of a report, and the clean run if there are edits."""
    source, aim = one_question(**given)
    model = load_model(path, words)
    beside = _beside(model, path, given)
    from ..inference.held_words import held_words
    from ..inference.long_texts import kept_of
    from ..inference.tracing import trace as run

    with after_a_second("Running"), proof_counter() as beside["on_progress"]:
        keep = kept_of(model, source, aim, ("weights", "scores"))
        found = run(model, source, target=aim, keep=keep, **beside)
        if not edits:
            return found, None
        about = {"target": aim, **held_words(model, found, edits), **beside}
        return run(model, source, intervention=edits, keep=keep, **about), found


@main.command()
@click.argument("run", metavar="RUN.safetensors")
@click.option(
    "--format", "kind", required=True, type=click.Choice([*NUMBERS, *PRINTED]), help="What to make."
)
@click.option(
    "--picture",
    type=click.Choice(["map", "lines", "atlas"]),
    default="map",
    show_default=True,
    help="Which picture svg, png and pdf show.",
)
@click.option("--block", metavar="B", help="encoder, decoder or cross; may be left out if alone.")
@click.option("--layer", type=click.IntRange(0), metavar="L", help="From 0.")
@click.option("--head", type=click.IntRange(0), metavar="H", help="From 0.")
@click.option("--rows", metavar="0:500", help="Of csv and npz: these rows, counted in tokens.")
@click.option("--columns", metavar="0:500", help="Of csv and npz: these columns.")
@click.option("--before", metavar="F", help="Another trace file: the change since it.")
@click.option("--words", is_flag=True, help="Merge pieces to whole words.")
@click.option("--special/--no-special", default=True, help="Start and end marks too, or not.")
@click.option("--dark", is_flag=True, help="Colours for a dark background.")
@click.option("--width", type=float, default=160, show_default=True, help="Millimetres.")
@click.option("--out", required=True, metavar="F", help="The file to write.")
def export(run: str, kind: str, picture: str, out: str, before: str | None, **how: Any) -> None:
    """Make a figure for a paper, or a table of numbers, of a stored run.

    csv and npz hold one head's weights, of a long text a part of them; safetensors is the run
    itself, written anew.
    """
    for side in ("rows", "columns"):
        span = token_span(f"--{side}", how.pop(side))
        if span is not None and kind not in ("csv", "npz"):
            raise ValueError(f"--{side} is of csv and npz; {kind} holds the whole.")
        how |= {} if span is None else {side: span}
    from ..views.export.file_formats import exported

    file = new_file(out, "export")
    trace, was = stored_run(run), None if before is None else stored_run(before)
    if kind == "safetensors":
        if was is not None:
            raise ValueError(
                "safetensors is the run itself, and --before compares two; leave --before out, or "
                "choose csv, npz or a picture."
            )
        trace.save(file)
    else:
        place = one_place(trace, how.pop("block"), how.pop("layer"), how.pop("head"), picture, kind)
        with after_a_second("Drawing"):
            file.write_bytes(exported(trace, kind, picture, place, before=was, **how))
    tell(f"{out}: {file.stat().st_size:,} bytes")


@main.command()
@model_path
@click.option("--beam", type=click.IntRange(1), default=1, show_default=True, help="Beam size.")
@intervention_option
@set_option
def translate(path: str, beam: int, intervention: str | None, words: tuple[str, ...]) -> None:
    """Translate: sentences on stdin, translations on stdout, line by line."""
    edits = read_intervention(intervention)
    model = _of_kind(load_model(path, words), "translate", "encoder-decoder")
    from ..inference.generation import translate_lines

    def answer(texts: list[str], on_progress: Callable[[int], None]) -> list[str]:
        found = translate_lines(
            model, texts, beam=beam, intervention=edits, on_progress=on_progress
        )
        return [best.text for best in found]

    line_by_line("sentences", answer)


@main.command()
@model_path
@click.option("--sample", type=click.FloatRange(0), metavar="T", help="Draw at this temperature.")
@click.option("--max", "most", type=click.IntRange(1), metavar="N", help="New tokens at most.")
@set_option
def generate(path: str, sample: float | None, most: int | None, words: tuple[str, ...]) -> None:
    """Go on with a text, for GPT-like models: texts on stdin, continuations on stdout."""
    model = _of_kind(load_model(path, words), "generate", "decoder-only")
    from ..inference.generation import translate

    def answer(texts: list[str], on_progress: Callable[[int], None]) -> list[str]:
        found = []
        for text in texts:
            found.append(translate(model, text, sample=sample, max_tokens=most)[0].text)
            on_progress(len(found))
        return found

    line_by_line("texts", answer)


def _of_kind(model: Model, command: str, kind: str) -> Model:
    if model.kind != kind:
        advice = {
            "encoder-decoder": "translate sentences with it: transformer-viz translate",
            "decoder-only": "let it go on with a text: transformer-viz generate",
            "encoder-only": "it writes no text; look inside it: transformer-viz trace",
        }
        raise ValueError(
            f"{command} needs a model of kind {kind} and {model.name!r} is {model.kind}; "
            f"{advice[model.kind]}."
        )
    return model


main.add_command(app)
main.add_command(atlas)
main.add_command(align)
main.add_command(compare)
main.add_command(match)
main.add_command(names)
main.add_command(rank)
main.add_command(explain)
main.add_command(swap)
main.add_command(train)
