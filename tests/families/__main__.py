"""`python -m tests.families`: how far the probe is from the work by hand, one line a family."""

from __future__ import annotations

import torch

from transformer_viz.core.interventions import Causal

from . import hands, laws
from .catalogue import FAMILIES, Family

COLUMNS = ("attention", "output", "temperature", "ablation", "causal lift", "rebuilt")
LIFTABLE = ("gpt2", "gpt_neox", "gptj", "falcon", "mpt", "llama", "mistral", "gemma2", "gpt_oss")


def lift(family: Family, implementation: str) -> float | None:
    """The causal mask lifted, where the model takes a mask of four dimensions."""
    if family.name not in LIFTABLE:
        return None
    mask = hands.visible(family, lambda query, key: key == key + 0 * query)
    return laws.masked(family, implementation, (Causal(on=False),), mask)


def measured(family: Family, implementation: str) -> list[float | None]:
    """The numbers of one family under one implementation, in the order of the columns."""
    known = (family.name, implementation) != ("falcon_alibi", "sdpa")
    return [
        laws.capture(family, implementation) if known else None,
        laws.output(family, implementation),
        laws.temperature(family, implementation),
        laws.ablation(family, implementation) if family.output else None,
        lift(family, implementation),
        laws.rebuilt(family, implementation),
    ]


def short(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:.0e}"


def families() -> list[tuple[str, ...]]:
    """One row a family: its name, then each number as `eager / sdpa`, or eager alone."""
    rows = []
    for family in FAMILIES:
        implementations = ("eager", "sdpa") if family.fused else ("eager",)
        numbers = [measured(family, implementation) for implementation in implementations]
        cells = [" / ".join(map(short, cell)) for cell in zip(*numbers, strict=True)]
        rows.append((family.name, *cells))
    return rows


def main() -> None:
    torch.set_num_threads(1)
    print("| family | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for row in families():
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
