"""``transformer-viz align``: word alignment from cross-attention as a Pharaoh file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..corpus.sentence_file import BOM, sentences
from .arguments import new_file
from .options import load_model, model_path, set_option
from .terminal import Counter, tell

if TYPE_CHECKING:
    from ..inference.alignment.corpus import CorpusAlignment
    from ..metrics.alignment.error_rate import Gold

SHIFTS = ("out", "in")
SYMMETRIC = ("intersection", "union", "grow-diag")
SHOWN = 8  # heads of the printed table


@click.command()
@model_path
@click.argument("file", metavar="FILE")
@click.option(
    "--shift",
    type=click.Choice(SHIFTS),
    default="out",
    show_default=True,
    help="The row that writes a word (out), or the one that reads it (in).",
)
@click.option("--layer", type=click.IntRange(0), help="Of one layer; left out, of all heads.")
@click.option("--head", type=click.IntRange(0), help="One head of --layer; left out, their mean.")
@click.option(
    "--symmetric",
    type=click.Choice(SYMMETRIC),
    help="Ask source words too for who looks at them most, and join both.",
)
@click.option("--gold", metavar="F", help="Links of people, a line a sentence: 0-0 sure, 1p2 not.")
@click.option("--gold-from", type=click.IntRange(0, 1), default=0, show_default=True)
@click.option("--gold-reversed", is_flag=True, help="In --gold the target word stands first.")
@set_option
@click.option("--out", metavar="F.pharaoh", help="The links, and beside them F.pharaoh.json.")
def align(
    path: str,
    file: str,
    shift: str,
    layer: int | None,
    head: int | None,
    symmetric: str | None,
    words: tuple[str, ...],
    out: str | None,
    **given: Any,
) -> None:
    """Link the words of sentences by cross-attention; with --gold, say how well each head does.

    FILE holds source and target a line with a tabulator between them, words parted by blanks; a
    source alone is translated. Links go to stdout or --out, a line a sentence: 0-0 1-2.
    """
    pairs = _whole(file)
    judged = _gold(given["gold"], given["gold_from"], given["gold_reversed"], len(pairs))
    links = None if out is None else new_file(out, "links")
    if head is not None and layer is None:
        raise ValueError(f"Head {head} of which layer? Give --layer beside --head.")
    model = load_model(path, words)
    from ..inference.alignment.corpus import align_corpus

    counter = Counter("sentences")
    found = align_corpus(
        model,
        pairs,
        shift,
        layer=layer,
        head=head,
        symmetric=symmetric,
        gold=judged,
        on_progress=lambda done, total: counter.tell(done),
    )
    counter.close()
    if links is None:
        tell(found.pharaoh(), nl=False)
        tell("\n".join(lines(found)), err=True)
        return
    links.write_text(found.pharaoh(), encoding="utf-8")
    card = links.with_name(f"{links.name}.json")
    card.write_text(json.dumps(_told(found), indent=2) + "\n", encoding="utf-8")
    tell("\n".join(lines(found)))
    tell(f"{out}: {len(pairs)} sentences; {card}: what was measured")


def _whole(file: str) -> list[Any]:
    """Return the sentences of a file without blank lines, since links have a line for each."""
    found = sentences(file)
    text = Path(file).read_text(encoding="utf-8").removeprefix(BOM).splitlines()
    for number, line in enumerate(text, 1):
        if not line.strip():
            raise ValueError(
                f"Line {number} of {file} is blank, and an alignment has a line for each line; "
                "take it out."
            )
    return found


def _gold(file: str | None, first: int, reverse: bool, count: int) -> list[Gold] | None:
    """Read the gold links of a file, one line per sentence.

    Raises:
        ValueError: No such file, no text, a wrong number of lines, or no links.
    """
    if file is None:
        return None
    from ..metrics.alignment.error_rate import gold_of

    if not Path(file).is_file():
        raise ValueError(f"There is no file {file!r}; --gold names one with links like 0-0 1p2.")
    try:
        text = Path(file).read_bytes().decode("utf-8").removeprefix(BOM)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no text in UTF-8; --gold holds links like 0-0 1p2.") from error
    rows = text.splitlines()
    if len(rows) != count:
        raise ValueError(
            f"{file} has {len(rows)} lines and there are {count} sentences; --gold has a line for "
            "each, an empty one where nothing is linked."
        )
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(gold_of(row, first, reverse))
        except ValueError as error:
            raise ValueError(f"Line {number} of {file}: {error}") from error
    return found


def _told(found: CorpusAlignment) -> dict[str, Any]:
    """Return the card, the walks and the errors as JSON data."""
    tables = {"walks": found.walks, "errors": found.errors}
    told = {
        name: json.loads(table.to_json(orient="records"))
        for name, table in tables.items()
        if table is not None
    }
    return {"card": found.card, "notes": found.notes, **told}


def lines(found: CorpusAlignment) -> list[str]:
    """Return readable lines: the walk measures, and the heads that align best."""
    card = found.card
    said = [
        f"{card['rows']} links in {card['sentences']} sentences: {card['heads']}, shift "
        f"{card['shift']}"
    ]
    for row in found.walks.itertuples():
        said.append(
            f"  {row.measure:<13}{row.value:7.3f}  ({row.low:.3f} to {row.high:.3f}), chance "
            f"{row.chance:.3f}, {row.rows} asked"
        )
    if found.errors is not None:
        said.append("\nalignment error rate, the least first")
        table = found.errors.sort_values("error_rate", kind="stable")
        for row in table.head(SHOWN).itertuples():
            said.append(
                f"  {row.error_rate:.3f}  ({row.low:.3f} to {row.high:.3f})  shift "
                f"{row.shift:<4} {_name(row.layer, row.head)}"
            )
        more = len(table) - SHOWN
        if more > 0:
            said.append(f"  and {more} more; --out F.pharaoh holds all in F.pharaoh.json")
    return [*said, *found.notes]


def _name(layer: Any, head: Any) -> str:
    """Return the display name of a map; a missing number means the mean."""
    one, other = (str(number) if str(number).isdigit() else "" for number in (layer, head))
    if not one:
        return "mean of all heads"
    return f"L{one} H{other}" if other else f"mean of L{one}"
