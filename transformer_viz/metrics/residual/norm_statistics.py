"""Statistics of norms for every token.

They were computed by the probe while the model ran; nothing is run again. ``d`` below is the number
of features of a token's vector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...core.given.facts import require_captured
from ...core.trace import Trace
from ...i18n import mark, say
from ..attention.thumbnails import extends
from .norm_labels import norm_labels
from .residual_stream import stacks_of


@dataclass(frozen=True)
class Statistic:
    """Statistic of one token's vector at one norm: its name, title and explanation.

    ``side`` is ``before`` (input of the norm) or ``after`` (with gain and bias); ``signed`` is True
    if it can be negative. All are unitless.
    """

    name: str
    title: str
    question: str
    sentence: str
    side: str
    signed: bool = False


#: Statistics of the norms, in display order.
STATISTICS: tuple[Statistic, ...] = (
    Statistic(
        "mean",
        mark("mean before"),
        mark("How far is each word's vector shifted as a whole?"),
        mark("The average of the vector's numbers as they come; a layer norm takes it away."),
        "before",
        signed=True,
    ),
    Statistic(
        "std",
        mark("spread before"),
        mark("How much do the numbers of each word's vector differ?"),
        mark("Their standard deviation as they come; a layer norm divides by it."),
        "before",
    ),
    Statistic(
        "rms",
        mark("rms before"),
        mark("How large are the numbers of each word's vector?"),
        mark("The root of their mean square as they come; an rms norm divides by it."),
        "before",
    ),
    Statistic(
        "input_norm",
        mark("length before"),
        mark("How long is each word's vector before the norm?"),
        mark(
            "The root of the sum of squares: the norm brings long and short vectors to one scale."
        ),
        "before",
    ),
    Statistic(
        "output_mean",
        mark("mean after"),
        mark("How far does the norm leave each word's vector shifted?"),
        mark(
            "The average of the vector's numbers after gain and bias; 0 where a layer norm has "
            "none."
        ),
        "after",
        signed=True,
    ),
    Statistic(
        "output_std",
        mark("spread after"),
        mark("How much do the numbers differ after the norm?"),
        mark("Their standard deviation after gain and bias; 1 where a layer norm has none."),
        "after",
    ),
    Statistic(
        "output_rms",
        mark("rms after"),
        mark("How large are the numbers after the norm?"),
        mark("The root of their mean square after gain and bias; 1 where the norm has none."),
        "after",
    ),
    Statistic(
        "output_norm",
        mark("length after"),
        mark("How long is each word's vector after the norm?"),
        mark("The root of the sum of squares after gain and bias."),
        "after",
    ),
)


def find_statistic(name: str) -> Statistic:
    """Return the statistic of that name.

    Raises:
        LookupError: There is none.
    """
    for statistic in STATISTICS:
        if statistic.name == name:
            return statistic
    raise LookupError(
        f"There is no norm statistic {name!r}; there are {', '.join(s.name for s in STATISTICS)}."
    )


def norm_sites(trace: Trace, stack: str) -> tuple[str, ...]:
    """Return the norms of a stack that process every token, in execution order.

    Norms of something else (a summary of the sentence, pieces of an image before they are joined)
    are left out: their rows are not the sentence's tokens.

    Raises:
        LookupError: The stack has no such norm.
    """
    return tuple(site for site, _ in _sites(trace, stack))


def norm_statistic(trace: Trace, statistic: str, stack: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return one statistic for every norm and token of a stack.

    Output statistics are derived from length and mean: with ``d`` features the mean square is
    length²/d, and the variance is that minus mean².

    Args:
        trace: The run.
        statistic: Name in `STATISTICS`.
        stack: ``encoder`` or ``decoder``.

    Returns:
        The sites in execution order, and ``[site, token]`` float64.

    Raises:
        LookupError: No such statistic or stack, or a stored run without the statistic.
    """
    name, sites = find_statistic(statistic).name, _sites(trace, stack)
    rows = [_column(table, name, _width(trace, site, table)) for site, table in sites]
    return tuple(site for site, _ in sites), np.stack(rows)


def norm_table(trace: Trace, stack: str) -> pd.DataFrame:
    """Return every norm and token of a stack in one table, with all statistics.

    Columns are site, place, token, word and the statistics. Old stored runs without the mean after
    the norm lack the columns that need it.

    Raises:
        LookupError: The stack has no norms.
    """
    sites = norm_sites(trace, stack)
    words = trace.words_of(stack).labels
    columns: dict[str, object] = {
        "site": np.repeat(np.array(sites, dtype=object), len(words)),
        "place": np.repeat(np.array(norm_labels(trace, sites), dtype=object), len(words)),
        "token": np.tile(np.arange(len(words)), len(sites)),
        "word": np.tile(np.array(words, dtype=object), len(sites)),
    }
    for statistic in STATISTICS:
        if "output_mean" in trace.norms or statistic.name not in ("output_mean", "output_std"):
            columns[statistic.name] = norm_statistic(trace, statistic.name, stack)[1].reshape(-1)
    return pd.DataFrame(columns)


def norm_change(
    before: Trace, after: Trace, statistic: str, stack: str
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the change at every norm and token between two runs on the same tokens.

    Tokens only in the later run (appended padding) have NaN.

    Returns:
        The sites, and after minus before as ``[site, token]`` float64.

    Raises:
        LookupError: No such statistic or stack.
        ValueError: The runs have different tokens or norms.
    """
    sites, now = norm_statistic(after, statistic, stack)
    sites_before, was = norm_statistic(before, statistic, stack)
    if sites != sites_before:
        raise ValueError(
            say(
                "The two runs have different norms in {stack} ({before} and {now}); compare two "
                "runs of one model.",
                stack=repr(stack),
                before=len(sites_before),
                now=len(sites),
            )
        )
    check_same_words(before, after, stack)
    change = np.full_like(now, np.nan)
    change[:, : was.shape[1]] = now[:, : was.shape[1]] - was
    return sites, change


def check_same_words(before: Trace, after: Trace, stack: str) -> None:
    """Check that the later run has the same tokens, or more at the end.

    Raises:
        ValueError: The tokens differ.
    """
    was, now = (trace.words_of(stack) for trace in (before, after))
    if not extends(now, was):
        raise ValueError(
            say(
                "The two runs speak about different words ({before} and {now}); trace the second "
                "one with the first one's target.",
                before=repr(" ".join(was.pieces)),
                now=repr(" ".join(now.pieces)),
            )
        )


def describe_norm_change(before: Trace, after: Trace, statistic: str, stack: str) -> str:
    """Describe the largest change in a sentence: token, norm, and both values."""
    sites, change = norm_change(before, after, statistic, stack)
    title = say(find_statistic(statistic).title).capitalize()
    if not np.isfinite(change).any():
        return say("{title}: the two runs share no number that could be compared.", title=title)
    if not np.nanmax(np.abs(change), initial=0):
        return say("{title}: nothing changed, at no norm and for no word.", title=title)
    site, token = np.unravel_index(np.nanargmax(np.abs(change)), change.shape)
    was, now = (norm_statistic(run, statistic, stack)[1][site, token] for run in (before, after))
    word = after.words_of(stack).labels[token]
    (place,) = norm_labels(before, (sites[site],))
    return say(
        "{title} changed most for “{word}” ({place}): {was:.3g} → {now:.3g}.",
        title=title,
        word=word,
        place=place,
        was=was,
        now=now,
    )


def _sites(trace: Trace, stack: str) -> list[tuple[str, pd.DataFrame]]:
    """Return the norms of a stack that process its whole sentence, with their rows by token."""
    length = len(trace.words_of(stack))
    rows = trace.norms[trace.norms["stack"] == stack] if len(trace.norms) else trace.norms
    found = rows.groupby("site", sort=False) if len(rows) else ()
    sites = [(str(site), table) for site, table in found if len(table) == length]
    if not sites:
        require_captured(trace, mark("norms"))
        raise LookupError(
            say(
                "This run has no norms over the words of {stack}; it has norms in {stacks}.",
                stack=repr(stack),
                stacks=stacks_of(trace.norms),
            )
        )
    return sites


def _column(rows: pd.DataFrame, name: str, width: float) -> np.ndarray:
    """Return one statistic of one norm's rows, ``[token]``, for vectors with ``width`` features."""
    if name == "output_rms":
        return _column(rows, "output_norm", width) / np.sqrt(width)
    if name == "output_std":
        square = _column(rows, "output_rms", width) ** 2 - _column(rows, "output_mean", width) ** 2
        return np.sqrt(np.maximum(square, 0))  # float32 may leave a tiny negative remainder
    if name not in rows:
        raise LookupError(
            say(
                "This stored run is from before the mean after each norm was kept; run the "
                "sentence again to see it."
            )
        )
    return rows[name].to_numpy(np.float64)


def _width(trace: Trace, site: str, rows: pd.DataFrame) -> float:
    """Return the number of features of a norm's vectors, from its gain, or from length and rms."""
    for vector in trace.gains.get(site, (None, None)):
        if vector is not None:
            return len(vector)
    rms, length = (rows[name].to_numpy(np.float64) for name in ("rms", "input_norm"))
    told = np.isfinite(length) & (rms > 0)
    if not told.any():
        return 1  # zeros in, and without gain and bias zeros out: any number works
    return round(float(np.median(length[told] / rms[told])) ** 2)
