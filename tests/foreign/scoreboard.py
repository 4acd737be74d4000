"""What the probe makes of every foreign style: ``python -m tests.foreign.scoreboard [name ...]``.

Verdicts: ``ok``; ``said`` (refused or not shown, and a true sentence says so); ``silent`` (not
shown, or without effect, and nothing true says so); ``wrong`` (numbers, axes, names, an edit, or
the module was changed); ``crash`` (an error in somebody else's words).
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transformer_viz.capture.records import AttentionRecord

from .oracle import (
    Seen,
    apart,
    attentions,
    far,
    in_own_words,
    unwatched,
    watched,
    witnessed,
)
from .styles import STYLES, Style
from .witness import Attention

VERDICTS = ("ok", "said", "silent", "wrong", "crash")
#: Sentences that are false wherever a module does multiply a softmax of scores with values.
FALSE_CLAIMS = (
    re.compile(r"nothing here multiplies", re.I),
    re.compile(r"(there is|has) no attention", re.I),
    re.compile(r"^no attention found\.?$", re.I),
)
COLUMNS = (
    *("style", "row", "verdict", "found", "axes", "values", "names"),
    *("temperature", "head_off", "hidden_key", "cut_link", "unchanged", "said"),
)


class NotHereError(RuntimeError):
    """This machine lacks what a style needs to run at all, without any probe."""


@dataclass
class Row:
    """One line of the table; a column that was not asked for is a dash."""

    style: str
    row: str = "-"
    verdict: str = "ok"
    found: str = "-"
    axes: str = "-"
    values: str = "-"
    names: str = "-"
    temperature: str = "-"
    head_off: str = "-"
    hidden_key: str = "-"
    cut_link: str = "-"
    unchanged: str = "-"
    said: str = "-"
    faults: list[tuple[str, str]] = field(default_factory=list)

    def fault(self, verdict: str, what: str) -> None:
        """Note a fault; the worst one is the verdict."""
        self.faults.append((verdict, what))
        self.verdict = max(self.verdict, verdict, key=VERDICTS.index)

    @property
    def why(self) -> str:
        """What is wrong, the worst first."""
        ranked = sorted(self.faults, key=lambda fault: -VERDICTS.index(fault[0]))
        return "; ".join(what for _, what in ranked if _ != "said") or self.said

    def cells(self) -> dict[str, str]:
        """Return the row of the table, by column."""
        return {column: str(getattr(self, column)) for column in COLUMNS}


def row(style: Style) -> Row:
    """Measure one style."""
    out = Row(style.name, style.row or "-")
    before, after = unwatched(style), watched(style)
    if before.error is not None:
        lacking = f", for it needs {style.needs}" if style.needs else ""
        kind = NotHereError if style.needs else RuntimeError
        raise kind(f"{style.name} does not run here{lacking}: {before.error!r}") from before.error
    if after.error is not None:
        _refused(out, style, after.error)
        return out
    truth = witnessed(style)
    out.unchanged = changes(style, before, after, truth)
    if out.unchanged != "ok":
        told = style.says and any(re.search(style.says, text, re.I) for text in _sentences(after))
        out.fault("said" if told else "wrong", out.unchanged)
    shown = _shown(out, style, after, truth)
    _laws(out, style, before, shown)
    if style.check is not None and (fault := style.check(style)):
        out.fault("wrong", fault)
    if after.run is not None and after.run.unrecognised and out.said == "-":
        out.said = " / ".join(after.run.unrecognised)
    return out


def _sentences(seen: Seen) -> list[str]:
    return [] if seen.run is None else [*seen.run.unrecognised, *seen.run.replaced]


def _refused(out: Row, style: Style, error: Exception) -> None:
    out.said = _first_line(error)
    true = in_own_words(error) and re.search(style.says, out.said, re.I)
    out.fault("said" if true else "crash", out.said)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return lines[0] if in_own_words(error) else f"{type(error).__name__}: {lines[0]}"


def changes(style: Style, before: Seen, after: Seen, truth: Seen) -> str:
    """Name what the watching changed, or return ``ok``."""
    assert truth.witness is not None
    fused = style.rounds or any(event.fused for event in truth.witness.events)
    bound = style.tolerance if fused else 0.0
    if (off := far(after.outputs, before.outputs)) > bound:
        return f"outputs off by {off:.0e}"
    if (off := apart(after.gradients, before.gradients)) > bound:
        return f"gradients off by {off:.0e}"
    if (off := far(list(after.state.values()), list(before.state.values()))) > 0:
        return f"parameters or buffers off by {off:.0e}"
    if before.calls != after.calls:
        return f"calls {_counts(before.calls, after.calls)}"
    if not torch.equal(before.random, after.random):
        return "random numbers were consumed"
    if not fused and far(after.again, before.again) > 0:
        return "outputs differ after the probe"
    return "ok"


def _counts(before: dict[str, int], after: dict[str, int]) -> str:
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return ", ".join(f"{n or 'module'} {before.get(n)} -> {after.get(n)}" for n in sorted(changed))


def _shown(out: Row, style: Style, after: Seen, truth: Seen) -> list[int] | None:
    """Compare records with the truth; return the true attentions that are shown right."""
    assert after.run is not None
    truths, roles = attentions(style, truth), style.attentions
    records = list(after.run.attentions)
    out.found = f"{len(records)}/{sum(not role.optional for role in roles)}"
    pairs = paired(records, truths, roles, style.exact)
    used = {id(record) for some in pairs.values() for record in some}
    unmatched = [record for record in records if id(record) not in used]
    missed = [n for n, role in enumerate(roles) if n not in pairs and not role.optional]
    if len(unmatched) == len(missed) and unmatched:
        _compare(out, unmatched, [truths[number] for number in missed])
        return None
    if unmatched:
        shapes = ", ".join(str(_shape(record)) for record in unmatched)
        out.axes = shapes
        wanted = [tuple(truths[number][0].shape) for number in missed] or "none"
        out.fault("wrong", f"shows {shapes} for {wanted}")
        return None
    if truths and not missed:
        out.axes = "ok"
        out.values = f"{max(_off(pairs[n], truths[n]) for n in pairs):.0e}"
    if truths:
        out.names = _names(out, pairs, roles, records)
    if missed:
        _said(out, style, after, len(missed), len(truths))
    return sorted(pairs)


def paired(
    records: Sequence[AttentionRecord],
    truths: Sequence[Sequence[Tensor]],
    roles: Sequence[Attention],
    tolerance: float,
) -> dict[int, list[AttentionRecord]]:
    """True attentions with the records that show them, in order; several where rows were split."""
    found: dict[int, list[AttentionRecord]] = {}
    left = list(records)
    for number, (truth, role) in enumerate(zip(truths, roles, strict=True)):
        for start in range(len(left)):
            sizes = (1, role.parts) if role.join == "q" else (1,)
            some = [left[start : start + size] for size in sizes if start + size <= len(left)]
            fits = [s for s in some if _in_order(s) and _off(s, truth) <= tolerance]
            if fits:
                found[number] = fits[0]
                left = left[start + len(fits[0]) :]
                break
    return found


def _in_order(records: Sequence[AttentionRecord]) -> bool:
    """Whether rows of split records follow each other."""
    at = 0
    for record in records:
        if len(records) > 1 and record.offset != at:
            return False
        at += record.shape[0]
    return True


def _shape(record: AttentionRecord) -> tuple[int, ...]:
    return tuple(record.weights.shape) if record.weights is not None else ()


def _off(records: Sequence[AttentionRecord], truth: Sequence[Tensor]) -> float:
    parts = [r.weights.detach().double() for r in records if r.weights is not None]
    if not parts:
        return float("inf")
    longest = max(part.shape[-1] for part in parts)
    pad = torch.nn.functional.pad
    got = torch.cat([pad(part, (0, longest - part.shape[-1])) for part in parts], 2)
    # what all items of a batch share is shown for each of them
    whole = [one.expand(len(got), *one.shape[1:]) if len(one) == 1 else one for one in truth]
    return min(far([got], [one]) for one in whole)


def _compare(out: Row, records: list[AttentionRecord], truths: list[list[Tensor]]) -> None:
    """Say whether axes or numbers are wrong."""
    for record, truth in zip(records, truths, strict=True):
        if _shape(record) != tuple(truth[0].shape):
            out.axes = f"{_shape(record)}"
            out.fault("wrong", f"axes {_shape(record)} for {tuple(truth[0].shape)}")
            return
    off = max(_off([record], truth) for record, truth in zip(records, truths, strict=True))
    swapped = _off(records[:1], [_swapped(truths[0][0])]) < 1e-5
    out.values = f"{off:.0e}"
    out.axes = "exchanged" if swapped else "ok"
    out.fault("wrong", "axes are exchanged" if swapped else f"values off by {off:.0e}")


def _swapped(weights: Tensor) -> Tensor:
    """What one gets who takes heads that lie before the batch for a batch before the heads."""
    return weights.transpose(0, 1).reshape(weights.shape)


def _names(
    out: Row,
    pairs: dict[int, list[AttentionRecord]],
    roles: Sequence[Attention],
    records: Sequence[AttentionRecord],
) -> str:
    """Kind and layer of what is shown."""
    wrong = []
    for number, shown in pairs.items():
        role = roles[number]
        for record in shown:
            layer = record.layer if role.layer is None else role.layer
            if role.site and (record.kind, record.layer) != (role.kind, layer):
                wrong.append(f"{record.kind} L{record.layer} for {role.kind} L{layer}")
            if role.number not in (None, record.number):
                wrong.append(f"number {record.number} for {role.number}")
    if wrong:
        out.fault("wrong", "named " + ", ".join(dict.fromkeys(wrong)))
    return ", ".join(dict.fromkeys(wrong)) or ("ok" if pairs else "-")


def _said(out: Row, style: Style, after: Seen, missed: int, of: int) -> None:
    """Whether a true sentence stands where something is not shown."""
    assert after.run is not None
    said = list(after.run.unrecognised)
    false = [text for text in said if any(claim.search(text) for claim in FALSE_CLAIMS)]
    true = [text for text in said if text not in false and re.search(style.says, text, re.I)]
    out.said = " / ".join(said) or "nothing"
    if true and not false:
        out.fault("said", out.said)
    elif true:
        out.fault("silent", f"misses {missed} of {of}; beside a true sentence a false one")
    else:
        what = "says a falsehood" if false else "says nothing"
        out.fault("silent", f"misses {missed} of {of} and {what}")


def _laws(out: Row, style: Style, before: Seen, shown: list[int] | None) -> None:
    """Compare each edit by the probe with the same law under the witness."""
    effects: dict[tuple[str, str], list[str]] = {}
    for law in style.asked:
        effect = _law(out, style, law, before, shown)
        setattr(out, law, effect.cell)
        if effect.verdict != "ok":
            effects.setdefault((effect.verdict, effect.fault), []).append(law)
    for (verdict, fault), laws in effects.items():
        out.fault(verdict, f"{', '.join(laws)}: {fault}")


@dataclass
class Effect:
    """What came of an edit: the table's cell, the verdict, and the fault in words."""

    cell: str
    verdict: str = "ok"
    fault: str = ""


def _law(out: Row, style: Style, law: str, before: Seen, shown: list[int] | None) -> Effect:
    seen = watched(style, law)
    if seen.error is not None:
        text = _first_line(seen.error)
        if not in_own_words(seen.error):
            return Effect("crash", "crash", text)
        if shown and "matches no place" in text:
            return Effect("refused", "wrong", "refused for a place that is shown")
        if shown:
            out.said = text
        return Effect("refused", "said" if shown else "ok", text)
    if style.attentions:
        return _effect(style, law, before, seen, shown)
    if apart_from(seen, before) > style.tolerance:
        return Effect("applied", "wrong", "edits what is no attention")
    return Effect("no effect")


def apart_from(seen: Seen, other: Seen) -> float:
    """The largest relative difference of outputs and gradients."""
    return max(far(seen.outputs, other.outputs), apart(seen.gradients, other.gradients))


def _effect(style: Style, law: str, before: Seen, got: Seen, shown: list[int] | None) -> Effect:
    optional = [n for n, role in enumerate(style.attentions) if role.optional]
    everything = range(len(style.attentions))
    spared = [n for n in everything if n not in shown + optional] if shown else []
    truth = witnessed(style, law, spared)
    if truth.error is not None:
        raise RuntimeError(f"{style.name}: {law} of the witness fails") from truth.error
    off, idle = apart_from(got, truth), apart_from(got, before)
    if shown == []:
        if idle <= style.tolerance:
            return Effect("no effect")
        return Effect("applied unseen", "wrong", "applied though nothing is shown")
    if off <= style.tolerance:
        return Effect("ok")
    if spared and apart_from(got, witnessed(style, law)) <= style.tolerance:
        return Effect("applied unseen", "wrong", "acts on what is not shown too")
    if idle <= style.tolerance:
        return Effect("no effect", "silent" if shown else "wrong", "no effect")
    return Effect(f"off {off:.0e}", "wrong", "off")


def total(rows: Sequence[Row]) -> str:
    """Return how many rows there are of each verdict."""
    counts = Counter(one.verdict for one in rows)
    found = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    return f"{len(rows)} styles: {found}."


def measured(styles: Sequence[Style]) -> tuple[list[Row], list[str]]:
    """The rows of all styles that can run here, and why the others cannot."""
    rows, lacking = [], []
    for style in styles:
        try:
            rows.append(row(style))
        except NotHereError as error:
            lacking.append(str(error))
    return rows, lacking


def main(names: Sequence[str]) -> None:
    start = time.perf_counter()
    unknown = [name for name in names if name not in STYLES]
    if unknown:
        raise SystemExit(f"No style is called {unknown[0]!r}; known are {', '.join(STYLES)}.")
    torch.set_num_threads(1)
    rows, lacking = measured([STYLES[name] for name in names or STYLES])
    print(*(" | ".join(one.cells().values()) for one in rows), "", total(rows), sep="\n")
    print("".join(f"\n{text}" for text in lacking))
    print(f"\nMeasured in {time.perf_counter() - start:.0f} s.\n")
    for one in rows:
        if one.verdict not in ("ok", "said"):
            print(f"- {one.style} ({one.row}): {one.verdict}: {one.why}")


if __name__ == "__main__":
    main(sys.argv[1:])
