"""Write docs/tables/certainty.csv: how often the app calls a translation unsure.

    python -m training.tables.certainty --data DIR

DIR holds tatoeba/ as `recipes/en-de.toml` expects it.
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
import pandas as pd

import transformer_viz as tv
from training.corpus import read_pairs
from training.evaluate import certainties
from transformer_viz.checkpoints.common.bundled import CONFIG, PRETRAINED

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "docs" / "tables" / "certainty.csv"
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


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Measure how often a translation is called unsure."
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    sets = sentences(parser.parse_args().data / "tatoeba")
    limits = {}
    for name in MODELS:
        config = json.loads((PRETRAINED / name / CONFIG).read_text(encoding="utf-8"))
        limits[name] = config["sure_from"]
    rows = [{"text": "limit", "sentences": ""} | {n: f"{x:.1%}" for n, x in limits.items()}]
    models = [tv.load(name, device="cpu") for name in MODELS]
    for what, lines in sets.items():
        shares = {
            model.name: f"{np.mean(certainties(model, lines) < limits[model.name]):.0%}"
            for model in models
        }
        rows.append({"text": what, "sentences": str(len(lines))} | shares)
        print(rows[-1], file=sys.stderr)
    pd.DataFrame(rows).to_csv(TABLE, index=False)
    return 0


def sentences(data: Path) -> dict[str, list[str]]:
    """Return the sets by name; the model was trained on text like the first two."""
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
        "everyday English, training/tables/everyday.tsv": everyday,
        "English, words in random order": [" ".join(random.permutation(words)) for words in long],
        "French, eng-fra.test": column("eng-fra.test.tsv.gz", 1)[:MOST],
        "German, eng-deu.test": column("eng-deu.test.tsv.gz", 1)[:MOST],
        "random letters": made(MOST, letters),
        "punctuation alone": made(60, marks),
        "other scripts": list(SCRIPTS),
    }


if __name__ == "__main__":
    raise SystemExit(main())
