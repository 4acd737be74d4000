"""Judge two translators without knowing which one wrote what.

    python -m training.tables.blind write OLD NEW --folder DIR
    python -m training.tables.blind count DIR

``write`` translates `topics.tsv` and `everyday.tsv` with both models (beam 4) and writes
DIR/sheet.tsv. It has one row for each different translation, in random order, with empty columns
`judged` and `carried`. DIR/key.json maps each row to its models; the reader does not open it.
``count`` adds up the filled sheet. `training/next-run.md` describes the judgement of a row.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from pathlib import Path

import click

import transformer_viz as tv
from training.tables.translator import BEAM, EVERYDAY, TOGETHER
from transformer_viz.inference.generation import translate_lines

TOPICS = Path(__file__).with_name("topics.tsv")
SHEET, KEY = "sheet.tsv", "key.json"
COLUMNS = ("row", "set", "english", "german", "judged", "carried")
JUDGED = ("right", "small fault", "wrong")
CARRIED = ("yes", "no")

Rows = list[dict[str, str]]


def read_rows(path: Path) -> Rows:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def shuffle_translations(
    sentences: list[tuple[str, str]], translations: dict[str, list[str]], draw: random.Random
) -> tuple[Rows, dict[str, list[str]]]:
    """Return the rows of a sheet and, for each row, the models that wrote it.

    Args:
        sentences: (set, English) of each sentence.
        translations: The German texts by model, in the order of ``sentences``.
        draw: Gives the order of the rows.
    """
    found: list[tuple[str, str, str, list[str]]] = []
    for index, (group, english) in enumerate(sentences):
        texts: dict[str, list[str]] = {}
        for model, lines in translations.items():
            texts.setdefault(lines[index], []).append(model)
        found += [(group, english, german, models) for german, models in texts.items()]
    draw.shuffle(found)
    rows, key = [], {}
    for number, (group, english, german, models) in enumerate(found, start=1):
        rows.append(dict(zip(COLUMNS, (str(number), group, english, german, "", ""), strict=True)))
        key[str(number)] = models
    return rows, key


def count_judgements(rows: Rows, key: dict[str, list[str]]) -> dict[str, dict[str, Counter[str]]]:
    """Count what was judged, by set and model.

    Raises:
        ValueError: A row has no judgement or an unknown one.
    """
    counts: dict[str, dict[str, Counter[str]]] = {}
    for row in rows:
        if row["judged"] not in JUDGED or row["carried"] not in CARRIED:
            raise ValueError(
                f"row {row['row']} says {row['judged']!r} and {row['carried']!r}, "
                f"expected one of {', '.join(JUDGED)} and one of {', '.join(CARRIED)}"
            )
        for model in key[row["row"]]:
            count = counts.setdefault(row["set"], {}).setdefault(model, Counter())
            count[row["judged"]] += 1
            count["carried"] += row["carried"] == "yes"
    return counts


@click.group(help=(__doc__ or "").partition("\n")[0])
def main() -> None:
    pass


@main.command()
@click.argument("models", nargs=2, metavar="OLD NEW")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
def write(models: tuple[str, ...], folder: Path) -> None:
    """Translate the sentences with two models and write a sheet in random order."""
    sentences = [
        (path.stem, row["english"]) for path in (TOPICS, EVERYDAY) for row in read_rows(path)
    ]
    lines = [english for _, english in sentences]
    translations = {
        name: [
            line.text
            for line in translate_lines(tv.load(name, device="cpu"), lines, BEAM, TOGETHER)
        ]
        for name in models
    }
    rows, key = shuffle_translations(sentences, translations, random.Random())
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / SHEET).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n",
                                quoting=csv.QUOTE_NONE, quotechar=None)  # fmt: skip
        writer.writeheader()
        writer.writerows(rows)
    (folder / KEY).write_text(json.dumps(key, indent=1), encoding="utf-8")
    click.echo(f"{len(rows)} rows for {len(sentences)} sentences: {folder / SHEET}")


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def count(folder: Path) -> None:
    """Print what the reader of a sheet found, by set and model."""
    key = json.loads((folder / KEY).read_text(encoding="utf-8"))
    try:
        counts = count_judgements(read_rows(folder / SHEET), key)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    for group, models in counts.items():
        for model, found in models.items():
            said = ", ".join(f"{name} {found[name]}" for name in (*JUDGED, "carried"))
            click.echo(f"{group}, {model}: {said}")


if __name__ == "__main__":
    main()
