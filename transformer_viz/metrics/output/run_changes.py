"""Descriptions of attention rows, and changes between two runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...core.given.facts import PROBABILITIES, require_captured
from ...core.sites import Site
from ...core.trace import Trace
from ...core.trace_parts import Produced
from ...i18n import say


def strongest_links(
    row: np.ndarray, labels: Sequence[str], count: int = 2
) -> list[tuple[str, float]]:
    """Return the keys a query looks at most, strongest first, as (label, weight).

    Args:
        row: Weights of one query ``[key]``.
        labels: Label of each key.
        count: Maximum number of links; keys with weight 0 are left out.

    Raises:
        ValueError: Row and labels differ in length.
    """
    if len(row) != len(labels):
        raise ValueError(
            f"A row of {len(row)} weights needs {len(row)} labels; got {len(labels)}. Take the "
            "labels of the sentence that the keys belong to."
        )
    order = np.argsort(-row, kind="stable")[:count]  # stable: ties keep their order
    return [(labels[key], float(row[key])) for key in order if row[key] > 0]


def describe_row(row: np.ndarray, query: str, labels: Sequence[str], count: int = 2) -> str:
    """Describe one row in a sentence: “es” looks most at “animal” 0.62, then “it” 0.21.

    Args:
        row: Weights of one query ``[key]``.
        query: Label of the query.
        labels: Label of each key.
        count: Maximum number of links.
    """
    links = strongest_links(row, labels, count)
    if not links:
        return say("“{query}” looks at nothing: every weight of its row is 0.", query=query)
    named = [say("“{label}” {weight:.2f}", label=label, weight=weight) for label, weight in links]
    ranked = say(", then ").join(named)
    return say("“{query}” looks most at {ranked}.", query=query, ranked=ranked)


def statistic_change(
    before: Trace, after: Trace, site: Site, name: str = "entropy"
) -> tuple[float, float]:
    """Return a head's statistic in two runs, before and after; for a layer the mean over heads.

    Args:
        before: First run.
        after: Second run.
        site: Head or layer.
        name: Column of ``trace.heads``: entropy (bits), distance (tokens), max, sink ...; NaN where
            a trace lacks it.

    Raises:
        LookupError: A trace lacks the site.
    """
    return _statistic(before, site, name), _statistic(after, site, name)


def _statistic(trace: Trace, site: Site, name: str) -> float:
    numbers = trace.head_column(site.map, name)
    layers, heads = numbers.shape
    if not 0 <= site.layer < layers or not 0 <= (site.head or 0) < heads:
        raise LookupError(
            f"This trace has no {site}; in {site.map} it has layers {list(range(layers))} and "
            f"heads {list(range(heads))}."
        )
    if site.head is not None:
        return float(numbers[site.layer, site.head])
    known = numbers[site.layer][~np.isnan(numbers[site.layer])]
    return float(known.mean()) if len(known) else float("nan")


def output_changes(before: Trace, after: Trace) -> pd.DataFrame:
    """Return each output token's probability and rank in two runs with the same tokens.

    Additional rows of the second run, such as padding, are left out.

    Returns:
        A row per output token: ``token``, ``probability_before``, ``probability_after``,
            ``rank_before``, ``rank_after`` (rank 1: the most probable).

    Raises:
        LookupError: A run has no output layer, so no probabilities.
        ValueError: The runs have different tokens.
    """
    was, now = held_words(before, after)
    rows = len(was.ids)
    return pd.DataFrame(
        {
            "token": was.labels,
            "probability_before": was.probability,
            "probability_after": now.probability[:rows],
            "rank_before": was.rank,
            "rank_after": now.rank[:rows],
        }
    )


def held_words(before: Trace, after: Trace) -> tuple[Produced, Produced]:
    """Return both runs' predictions for the shared tokens; raises as `output_changes`."""
    if before.produced is None or after.produced is None:
        for run in (before, after):
            require_captured(run, PROBABILITIES)
        raise LookupError(
            say("This model has no output layer, so its words have no probabilities to compare.")
        )
    rows = len(before.produced.ids)
    if before.produced.ids != after.produced.ids[:rows]:
        raise ValueError(
            say(
                "The two runs speak about different words ({before} and {now}); trace the second "
                "one with the first one's target and produced ids.",
                before=repr(" ".join(before.produced.pieces)),
                now=repr(" ".join(after.produced.pieces)),
            )
        )
    return before.produced, after.produced


def vector_changes(before: Trace, after: Trace, stack: str) -> pd.DataFrame:
    """Return the change of each output vector of a stack between two runs of the same input.

    Args:
        before: First run.
        after: Second run.
        stack: ``encoder`` or ``decoder``, whose tokens have the vectors. If a model does not output
            vectors, its last hidden states are compared.

    Returns:
        A row per token of the first run: ``token``, ``length_before``, ``length_after`` and
            ``change``, the Euclidean length of the difference.

    Raises:
        LookupError: Hidden states were not captured.
        ValueError: The second run has fewer tokens.
    """
    was, now = (_output(trace, stack).astype(np.float64) for trace in (before, after))
    if len(now) < len(was):
        raise ValueError(
            say(
                "The runs have {before} and {now} tokens, so their vectors do not compare; trace "
                "the second one with the first one's input.",
                before=len(was),
                now=len(now),
            )
        )
    now = now[: len(was)]
    return pd.DataFrame(
        {
            "token": before.words_of(stack).labels,
            "length_before": np.linalg.norm(was, axis=1),
            "length_after": np.linalg.norm(now, axis=1),
            "change": np.linalg.norm(now - was, axis=1),
        }
    )


def _output(trace: Trace, stack: str) -> np.ndarray:
    return trace.hidden(stack)[-1] if trace.output is None else trace.output
