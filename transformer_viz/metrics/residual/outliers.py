"""Outliers: tokens and dimensions with unusually large or small values.

Each rule is a multiple of the median, which is robust against extreme values. The tables end in a
column ``sentence`` that describes the finding.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...core.given.facts import require_captured
from ...core.sites import called
from ...core.trace import Trace
from ...i18n import mark, say
from .norm_labels import norm_labels
from .norm_statistics import norm_statistic

LONGER = 2.0  # outliers have twice the sentence's median length or more, or half or less
LARGER = 20.0  # multiple of the median size for an outlier; chance gives about 6
PARTS = {"gain": mark("gain"), "bias": mark("bias")}
FARTHER = 6.0  # multiple of the median distance for an outlier; 4 sigma of a normal distribution


def outstanding_tokens(
    trace: Trace, stack: str, ratio: float = LONGER, count: int = 10
) -> pd.DataFrame:
    """Return the tokens with much longer or shorter vectors than others, most extreme first.

    A token is an outlier at a norm if its length is at least ``ratio`` times the sentence's median
    there, or at most 1/``ratio`` of it.

    Args:
        trace: The run.
        stack: ``encoder`` or ``decoder``.
        ratio: Above 1.
        count: Maximum number of tokens.

    Returns:
        A row per token, at the norm where it is most extreme: ``token``, ``word``, ``site``,
            ``place``, ``length``, ``median``, ``ratio``, ``norms`` (number of norms where it is an
            outlier), ``sentence``.

    Raises:
        LookupError: The stack has no norms.
    """
    sites, lengths = norm_statistic(trace, "input_norm", stack)
    middle = np.median(lengths, axis=1)
    ratios = np.ones_like(lengths)
    np.divide(lengths, middle[:, None], out=ratios, where=middle[:, None] > 0)
    extreme = np.maximum(ratios, 1 / np.maximum(ratios, 1e-12))
    words, places = trace.words_of(stack).labels, norm_labels(trace, sites)
    rows = []
    for token, site, norms in _most_extreme(extreme, ratio, count):
        length, times = lengths[site, token], ratios[site, token]
        sentence = say(
            "“{word}” has length {length:.3g} ({place}), {times:.2g} times this sentence's median "
            "{median:.3g}; it stands out at {norms} of {all} norms.",
            word=words[token],
            length=length,
            place=places[site],
            times=times,
            median=middle[site],
            norms=norms,
            all=len(sites),
        )
        where = (token, words[token], sites[site], places[site])
        rows.append((*where, length, middle[site], times, norms, sentence))
    columns = ["token", "word", "site", "place", "length", "median", "ratio", "norms", "sentence"]
    return pd.DataFrame(rows, columns=columns)


def outstanding_dimensions(
    trace: Trace, stack: str, ratio: float = LARGER, count: int = 10
) -> pd.DataFrame:
    """Return the dimensions of the residual stream with values far above the usual size.

    Large models have a few such values, at the same dimensions for every sentence. They are called
    massive if over 100 and about 1000 times the median (Sun et al. 2024, "Massive Activations in
    Large Language Models"). Small models have milder ones, hence the lower ``ratio``, which is a
    column of the result.

    Args:
        trace: Run with hidden states.
        stack: ``encoder`` or ``decoder``.
        ratio: Smallest ratio of a dimension's largest size to the median size of all numbers of
            that state.
        count: Maximum number of dimensions.

    Returns:
        A row per dimension, where it is most extreme: ``dimension``, ``state`` (0: entering L0),
            ``place``, ``token``, ``word``, ``value``, ``median``, ``ratio``, ``states`` (number of
            states where it is an outlier), ``sentence``.

    Raises:
        LookupError: The hidden states were not captured.
    """
    hidden = trace.hidden(stack).astype(np.float64)
    sizes = np.abs(hidden)
    middle, largest = np.median(sizes, axis=(1, 2)), sizes.max(axis=1)
    ratios = np.zeros_like(largest)
    np.divide(largest, middle[:, None], out=ratios, where=middle[:, None] > 0)
    words = trace.words_of(stack).labels
    rows = []
    for dimension, state, states in _most_extreme(ratios, ratio, count):
        token = int(sizes[state, :, dimension].argmax())
        place = say("entering L{layer}", layer=state)
        if state == len(hidden) - 1:
            place = say("leaving the {stack}", stack=called(stack))
        value, times = hidden[state, token, dimension], ratios[state, dimension]
        sentence = say(
            "Dimension {dimension} reaches {value:.3g} at “{word}” ({place}), {times:.3g} times "
            "the median size {median:.2g} there.",
            dimension=dimension,
            value=value,
            word=words[token],
            place=place,
            times=times,
            median=middle[state],
        )
        where = (dimension, state, place, token, words[token])
        rows.append((*where, value, middle[state], times, states, sentence))
    columns = ["dimension", "state", "place", "token", "word", "value", "median", "ratio"]
    return pd.DataFrame(rows, columns=[*columns, "states", "sentence"])


def _most_extreme(extreme: np.ndarray, bound: float, count: int) -> list[tuple[int, int, int]]:
    """Return the columns of ``[place, thing]`` that reach a bound, the most extreme first.

    Each as (thing, place where it is most extreme, number of places that reach the bound).
    """
    reached = (extreme >= bound).sum(axis=0)
    order = np.argsort(-extreme.max(axis=0), kind="stable")[:count]
    return [(int(n), int(extreme[:, n].argmax()), int(reached[n])) for n in order if reached[n]]


def outstanding_gains(trace: Trace, site: str, count: int = 5) -> pd.DataFrame:
    """Return the dimensions with an outlying gain or bias of a norm.

    A value is an outlier if its distance from the median exceeds `FARTHER` times the median
    distance, which covers half of the dimensions.

    Args:
        trace: The run.
        site: Norm of ``trace.gains``.
        count: Maximum number of dimensions for gain, and for bias.

    Returns:
        Farthest first, gain before bias: ``part`` (``gain`` or ``bias``), ``dimension``, ``value``,
            ``median``, ``distance`` (the median distance), ``sentence``.

    Raises:
        LookupError: No such norm.
    """
    rows = []
    for part, vector in zip(PARTS, gain_and_bias(trace, site), strict=True):
        values = np.zeros(0) if vector is None else vector.astype(np.float64)
        middle = float(np.median(values)) if len(values) else 0.0
        away = np.abs(values - middle)
        usual = float(np.median(away)) if len(values) else 0.0
        for dimension in np.argsort(-away, kind="stable")[:count]:
            if not away[dimension] > FARTHER * usual:
                break
            value = values[dimension]
            sentence = say(
                "Dimension {dimension} has {part} {value:.3g}, where half of all dimensions lie "
                "within {usual:.2g} of {median:.2g}.",
                dimension=dimension,
                part=say(PARTS[part]),
                value=value,
                usual=usual,
                median=middle,
            )
            rows.append((part, int(dimension), value, middle, usual, sentence))
    columns = ["part", "dimension", "value", "median", "distance", "sentence"]
    return pd.DataFrame(rows, columns=columns)


def gain_and_bias(trace: Trace, site: str) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return gain and bias of a norm, ``[d_model]`` each; None where it has none.

    Raises:
        LookupError: No such norm.
    """
    if site not in trace.gains:
        require_captured(trace, mark("norms"))
        raise LookupError(
            say(
                "This run has no norm {norm}; it has {norms}.",
                norm=repr(site),
                norms=", ".join(trace.gains) or say("none"),
            )
        )
    return trace.gains[site]
