"""When the app says that a translator is not sure: writes docs/certainty.md.

    python -m training.tables.certainty --data DIR

DIR holds tatoeba/ as recipes/en-de.toml wants it. What is everyday should rarely be flagged, and
what the model never learned often.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import transformer_viz as tv
from training.corpus import read_pairs
from training.evaluate import certainties
from transformer_viz.checkpoints.common.bundled import CONFIG, PRETRAINED

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "certainty.md"
MODELS = ("en-de", "en-de-small")
MOST = 300  # sentences of a set
SEED = 1
SCRIPTS = (
    *(
        "我今天去学校。",
        "早上好",
        "谢谢你的帮助",
        "これは本です。",
        "ありがとう",
        "あした天気になれ",
    ),
    *(
        "안녕하세요 여러분",
        "나는 학생입니다.",
        "Я люблю тебя.",
        "Привет, как дела?",
        "Ещё один вопрос.",
    ),
    *("שלום עולם", "مرحبا بالعالم", "Γειά σου Κόσμε", "Καλημέρα", "Σε αγαπώ", "नमस्ते दुनिया"),
    *("สวัสดีชาวโลก", "ขอบคุณ", "私は Tom です"),
)
INTRODUCTION = """# When the translator is not sure

The certainty of a translation is the geometric mean of the probabilities of its pieces (beam 4).
Below the model's own limit, which 95 % of the sentences of its validation file reach
(`python -m training.evaluate --certainty`), the app says under the translation
that the model is not sure. How often it does, on sentences that are in no training file, written by

    python -m training.tables.certainty --data DIR

A translation can be sure and wrong, and unsure and right; what the line tells is that the model
rarely saw the like.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="When the app says that a model is not sure.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    sets = sentences(parser.parse_args().data / "tatoeba")
    limits = {}
    for name in MODELS:
        config = json.loads((PRETRAINED / name / CONFIG).read_text(encoding="utf-8"))
        limits[name] = config["sure_from"]
    rows = [f"| limit | | {' | '.join(f'{limit:.1%}' for limit in limits.values())} |"]
    models = [tv.load(name, device="cpu") for name in MODELS]
    for what, lines in sets.items():
        shares = (np.mean(certainties(model, lines) < limits[model.name]) for model in models)
        rows.append(f"| {what} | {len(lines)} | {' | '.join(f'{s:.0%}' for s in shares)} |")
        print(rows[-1], file=sys.stderr)
    head = f"| said to be unsure | sentences | {' | '.join(f'`{name}`' for name in MODELS)} |"
    table = "\n".join([head, "| --- | --- | --- | --- |", *rows])
    PAGE.write_text(f"{INTRODUCTION}\n{table}\n", encoding="utf-8")
    return 0


def sentences(data: Path) -> dict[str, list[str]]:
    """Sets by what they are; the first two are what the model learned to translate."""
    random = np.random.default_rng(SEED)

    def column(file: str, number: int) -> list[str]:
        return list(dict.fromkeys(pair[number] for pair in read_pairs(data / file, 0, 1)))

    def made(count: int, one: Callable[[], str]) -> list[str]:
        return [one() for _ in range(count)]

    def letters() -> str:
        size = int(random.integers(15, 60))
        return "".join(random.choice(list("abcdefghijklmnopqrstuvwxyz "), size)).strip() or "x"

    def marks() -> str:
        return "".join(random.choice(list("?!.,;:-()…"), int(random.integers(1, 9))))

    english = column("eng-deu.test.tsv.gz", 0)
    long = [line.split() for line in english if len(line.split()) > 5][:MOST]
    with (HERE / "everyday.tsv").open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        everyday = [row["english"] for row in rows]
    return {
        "everyday English, eng-deu.test": english,
        "everyday English, `training/tables/everyday.tsv`": everyday,
        "English, its words in an order by chance": [
            " ".join(random.permutation(words)) for words in long
        ],
        "French, eng-fra.test": column("eng-fra.test.tsv.gz", 1)[:MOST],
        "German, eng-deu.test": column("eng-deu.test.tsv.gz", 1)[:MOST],
        "letters by chance": made(MOST, letters),
        "punctuation alone": made(60, marks),
        "other scripts": list(SCRIPTS),
    }


if __name__ == "__main__":
    raise SystemExit(main())
