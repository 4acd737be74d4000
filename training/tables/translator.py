"""Measure the bundled translator; write docs/translator.md and translator.json.

    python -m training.tables.translator --data DIR [MODEL ...]

MODEL is a name in pretrained/ or a folder; if omitted, ``en-de``. DIR holds the sentence pairs
(sources in `README.md`); nothing in ``DIR/tests`` was trained on. Earlier scores of other models
stay in translator.json, so that old and new are side by side.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import transformer_viz as tv
from training.corpus import read_pairs
from training.evaluate import corpus_bleu, references
from training.tables import pronouns
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.generation import translate_lines

HERE = Path(__file__).resolve().parent
PAGE, KEPT = HERE.parents[1] / "docs" / "translator.md", HERE / "translator.json"
EVERYDAY = HERE / "everyday.tsv"
BEAM = 4
TOGETHER = 32
SHOWN_HEADS = 10
DRAWS = 5  # sets of random heads that the carriers are compared with
GROUPS = (2, 4, 8)
NEW = "tests/tatoeba-new.tsv"  # group, source, references
#: Name on the page, and file with one source and one reference per line.
FILES = {
    "eng-deu.test": "tatoeba/eng-deu.test.tsv.gz",
    "covost": "tests/covost-de-en-600.tsv",
    "flores": "tests/flores-devtest.tsv",
}
END = re.compile(r"[.!?](?=\s|$)")
SHORT_FORM = re.compile(r"\b(Mr|Dr|p\.m|Hr|\d+)\.")


def measure(model: Model, data: Path) -> dict[str, Any]:
    """Return all scores of a model, by name."""
    found: dict[str, Any] = {"parameters": model.parameters, "everyday": everyday(model)}
    rows = pronouns.read()
    found["pronouns"] = asdict(pronouns.Pronouns.of(rows, pronouns.log_chances(model, rows)))
    ranked = pronouns.carriers(model, rows)
    found["heads"] = [{"head": one.name, "right": one.right, "lost": round(one.lost, 3)}
                      for one in ranked[:SHOWN_HEADS]]  # fmt: skip
    found["without"] = pronouns.without(model, rows, ranked, GROUPS, DRAWS)
    found["pictures"] = pronouns.pictures(model, rows, ranked)
    for name, pairs in test_sets(data).items():
        found[name] = scores(model, pairs)
        click.echo(f"{name}: {found[name]}", err=True)
    return found


def test_sets(data: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the test pairs by name on the page; a source is repeated for each reference."""
    sets = {name: read_pairs(data / file, 0, 1) for name, file in FILES.items()}
    for line in (data / NEW).read_text(encoding="utf-8").splitlines():
        group, source, *wanted = line.split("\t")
        sets.setdefault(f"tatoeba-new, {group}", []).extend((source, one) for one in wanted if one)
    return sets


def scores(model: Model, pairs: list[tuple[str, str]]) -> dict[str, float]:
    """Return sacreBLEU and chrF (0 to 100) of a beam of 4, and the number of sentences."""
    from sacrebleu.metrics import CHRF  # type: ignore[attr-defined, unused-ignore]

    sources, targets = references(pairs)
    lines = [one.text for one in translate_lines(model, sources, BEAM, TOGETHER)]
    first = [[one or targets[0][n] for n, one in enumerate(column)] for column in targets]
    return {
        "bleu": round(corpus_bleu(lines, targets)[0], 1),
        "chrf": round(CHRF().corpus_score(lines, first).score, 1),  # type: ignore[arg-type]
        "sentences": len(sources),
    }


def everyday(model: Model) -> dict[str, Any]:
    """Return results on 100 everyday sentences: names, numbers, completeness, judgements."""
    with EVERYDAY.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    lines = translate_lines(model, [row["english"] for row in rows], BEAM, TOGETHER)
    said = [one.text for one in lines]
    found: dict[str, Any] = {"said": dict(zip((row["english"] for row in rows), said, strict=True))}
    for what in ("names", "numbers"):
        asked = [(one, text) for row, text in zip(rows, said, strict=True)
                 for one in row[what].split()]  # fmt: skip
        found[what] = [sum(one in text for one, text in asked), len(asked)]
    for kind in ("two", "paragraph"):
        whole = [complete(row["english"], text) for row, text in zip(rows, said, strict=True)
                 if row["kind"] == kind]  # fmt: skip
        found[kind] = [sum(whole), len(whole)]
    found["read"] = Counter(
        row["read"] if row["german"] == text else "not read"
        for row, text in zip(rows, said, strict=True)
    )
    return found


def complete(source: str, target: str) -> bool:
    """Return True if a translation has as many sentence ends, and is not much shorter."""

    def ends(text: str) -> int:
        return len(END.findall(SHORT_FORM.sub(r"\1", text)))

    return ends(target) >= ends(source) and len(target) >= 0.7 * len(source)


# ---- the page


def page(kept: dict[str, Any], names: list[str]) -> str:
    """Return docs/translator.md: one column per model, the newest last."""
    columns = [kept[name] for name in names]
    parts = [
        INTRODUCTION,
        "## Test sets\n\nBLEU / chrF (sacreBLEU, beam 4).\n",
        table(["set", "sentences", *names], (set_row(name, columns) for name in sets_of(columns))),
        "\n## A hundred everyday sentences\n\nWritten before the training ended "
        "(`training/tables/everyday.tsv`); the last three rows were judged by eye.\n",
        table(["what", *names], everyday_rows(columns)),
        PRONOUNS,
        table(["what", *names], pronoun_rows(columns)),
        carriers_said(columns[-1]),
        pictures_said(columns[-1]),
        OTHERS,
    ]
    return "\n".join(parts) + "\n"


INTRODUCTION = """# Quality of the bundled models

The translator `en-de` beside its predecessor, measured by

    python -m training.tables.translator --data DIR

No sentence of these sets was trained on. `pretrained/en-de/README.md` lists the training data.
"""
PRONOUNS = """
## Who is "it"?

60 pairs of sentences differ only in the noun that "it" stands for, as in *too tired* and *too
wide*. Their nouns and frames are in no generated training sentence
(`training/tables/pronouns.tsv`). The German text is given up to the pronoun, and the most probable
of *er*, *sie* and *es* is compared with the right one. The lab "Who is it?" of the app does the
same for your own pair.
"""
OTHERS = """
## When it is not sure

The certainty of a translation is the geometric mean of the probabilities of its tokens (beam 4).
Each model has a limit that 95 % of the sentences of its validation file reach
(`python -m training.evaluate --certainty`). Below it the app says that the model is not sure. The
table gives the share of such translations, on sentences of no training file:

[Share of unsure translations](tables/certainty.csv)

An unsure translation can be right, and a sure one wrong.
`python -m training.tables.certainty --data DIR` writes the table.

## The two English models

`en-lm` continues a text, and `en-mlm` predicts the word in brackets, which it does not see. The
table gives the three most probable tokens for everyday texts. A person judged whether the
first is sensible in grammar and meaning: 18 of 20 are for `en-lm`, and 20 of 20 for `en-mlm`.

[Every suggestion](tables/suggestions.csv)

`python -m training.tables.suggestions` writes the table."""


def sets_of(columns: list[dict[str, Any]]) -> list[str]:
    return [
        name for name, value in columns[-1].items() if isinstance(value, dict) and "bleu" in value
    ]


def set_row(name: str, columns: list[dict[str, Any]]) -> list[str]:
    known = [column[name] for column in columns]
    return [name, str(known[-1]["sentences"]), *(f"{x['bleu']} / {x['chrf']}" for x in known)]


def everyday_rows(columns: list[dict[str, Any]]) -> list[list[str]]:
    what = {
        "names": "names carried over",
        "numbers": "numbers carried over",
        "two": "two sentences, both there",
        "paragraph": "paragraphs of four, complete",
    }
    rows = [[words, *(of(column["everyday"].get(key)) for column in columns)]
            for key, words in what.items()]  # fmt: skip
    for verdict in ("right", "small fault", "wrong"):
        read = [column["everyday"].get("read", {}) for column in columns]
        rows.append([verdict, *(str(one.get(verdict, "-")) for one in read)])
    return rows


def pronoun_rows(columns: list[dict[str, Any]]) -> list[list[str]]:
    asked = [column["pronouns"] for column in columns]
    return [
        ["right", *(of((one["right"], one["asked"])) for one in asked)],
        ["both of a pair", *(of((one["both"], one["pairs"])) for one in asked)],
        ["in a second sentence", *(of((one["second_right"], one["second"])) for one in asked)],
        ["animal and street, both", *("yes" if one["famous"] else "no" for one in asked)],
    ]


def carriers_said(column: dict[str, Any]) -> str:
    """Return the heads that carry the pronoun, as a table and a sentence per group."""
    asked = column["pronouns"]
    rows = [[one["head"], of((one["right"], asked["asked"])), f"{one['lost']:.3f}"]
            for one in column["heads"]]  # fmt: skip
    groups = "\n".join(
        f"- the first {one['heads']} of them off: {one['right']} right; {one['heads']} heads drawn "
        f"by chance off: {one['by_chance']} right (mean of {one['draws']} draws)."
        for one in column["without"]
    )
    return (
        "\n### Which heads carry it\n\nEach head is switched off alone. The table shows those "
        "without which the right pronoun loses most probability: the mean loss of its logarithm, "
        f"in nats.\n\n{table(['head off', 'right', 'loss'], rows)}\n\n{groups}"
    )


def pictures_said(column: dict[str, Any]) -> str:
    """Return the section on the heads with the clearest pictures."""
    rows = [
        [one["head"], f"{one['weight']:.2f}", of((one["moved"], one["pairs"])),
         of((one["right"], column["pronouns"]["asked"])), of((one["place"], one["heads"]))]
        for one in column["pictures"]
    ]  # fmt: skip
    heads = ["head", "mean weight on a noun", "pairs with another noun", "right without",
             "place in the ranking"]  # fmt: skip
    return (
        '\n### The heads with the clearest pictures\n\nOf the encoder the head whose "it" looks '
        "most at a noun, of cross-attention the one that does where the pronoun is to come. In how "
        "many pairs does it look at another noun in the other sentence, and how many pronouns are "
        "right without it?\n\n"
        f"{table(heads, rows)}"
    )


def of(pair: Any) -> str:
    return "-" if pair is None else f"{pair[0]} of {pair[1]}"


def table(head: list[str], rows: Any) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


@click.command()
@click.argument("models", nargs=-1, metavar="MODEL ...")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(models: tuple[str, ...], data: Path | None) -> None:
    """Measure the translator; without DATA only write the page again."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    if data is not None:
        for name in models or ("en-de",):
            kept[Path(name).name] = measure(tv.load(name), data)
            KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept, list(kept)), encoding="utf-8")
    click.echo(f"written: {PAGE.name}")


if __name__ == "__main__":
    sys.exit(main())
