"""Capture report as sentences: captured parts and the results of their verification."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..core.given.facts import given_facts
from ..core.trace import Trace
from ..core.trace_parts import KernelRun, Report
from ..i18n import mark, say


@dataclass(frozen=True)
class Finding:
    """Sentence of the capture report, ``green``, ``amber`` or ``unchecked``, with details."""

    sentence: str
    status: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttentionSite:
    """Attention block and its number of captured heads."""

    stack: str
    block: str
    layer: int
    heads: int


def findings_of(run: Trace) -> tuple[Finding, ...]:
    """Return the sentences of a run's report, from captured parts to measurements."""
    report = run.report
    if report.given:
        unproved, *known = given_facts(run)
        return (Finding(unproved, "amber", tuple(known)),)
    if report.unchecked:
        return tuple(_unproved(run))
    return (_seen(run), _untouched(report), _proved(report), accounted(report), measured(report))


def _unproved(run: Trace) -> Iterator[Finding]:
    """Yield the findings of a run without a proof; amber only where something is wrong."""
    seen, rows = _seen(run), _proved(run.report)
    untouched = _untouched(run.report)
    yield seen if seen.status == "amber" else replace(seen, status=Report.UNCHECKED)
    wrong = not run.report.row_sum_error <= run.report.allowed
    yield rows if wrong else replace(rows, status=Report.UNCHECKED)
    yield replace(untouched, status=Report.UNCHECKED)
    for finding in (accounted(run.report), measured(run.report)):
        yield replace(finding, status=Report.UNCHECKED)


def sites_of(run: Trace) -> tuple[AttentionSite, ...]:
    counted = run.heads.groupby(["stack", "block", "layer"], sort=False)["head"].count()
    return tuple(
        AttentionSite(str(stack), str(block), int(layer), int(heads))
        for (stack, block, layer), heads in counted.items()
    )


def _seen(run: Trace) -> Finding:
    """Return the finding on captured parts."""
    heads, sites = len(run.heads), sites_of(run)
    norms, tables = tuple(run.norms["site"].unique()), tuple(run.positions)
    unknown = run.report.unrecognised
    said = say(
        "{heads} in {blocks}, {norms} and {tables} of positions were found",
        heads=_many(heads, "head"),
        blocks=_many(len(sites), "attention block"),
        norms=_many(len(norms), "norm"),
        tables=_many(len(tables), "table"),
    )
    if unknown:
        places = _many(len(unknown), "place")
        said += say("; {places} in the model could not be understood", places=places)
    details = [f"{s.stack} {s.block} L{s.layer}: {_many(s.heads, 'head')}" for s in sites]
    details += [say("norm: {name}", name=name) for name in norms]
    details += [say("positions: {name}", name=name) for name in tables]
    details += [say("not understood: {name}", name=name) for name in unknown]
    status = "amber" if unknown or not sites else "green"
    return Finding(say("{said}.", said=said), status, tuple(details))


def _untouched(report: Report) -> Finding:
    """Return the finding that capturing does not change the output."""
    off = report.output_difference
    details = tuple(
        say("ran as its explicit formula: {name}", name=name) for name in report.replaced
    )
    if off is None:
        said = say("Whether watching changes the output was not checked.")
        details += (report.left_out,) if report.left_out else ()
        return Finding(said, "amber", details)
    if off == 0:
        said = say("Watching changes nothing: the output without it is the same to the last digit.")
        return Finding(said, "green", details)
    if off <= report.allowed:
        said = say(
            "Watching changes nothing: the output without it is the same to {off:.0e} of its "
            "largest value.",
            off=off,
        )
        return Finding(said, "green", details)
    said = say(
        "Watching changes the output by {off:.0e} of its largest value; do not trust the maps.",
        off=off,
    )
    return Finding(said, "amber", details)


def _proved(report: Report) -> Finding:
    """Return the finding that the captured weights are those used by the model."""
    rows, most = report.row_sum_error, report.allowed
    errors = {site: error for site, error in report.rebuilt.items() if error is not None}
    worst = max(errors.values(), default=float("nan"))
    left = len(report.rebuilt) - len(errors)
    details = [say("rows sum to 1 within {error:.0e}", error=rows)]
    details += [
        say("{site}: not checked", site=site)
        if error is None
        else say("{site}: rebuilt within {error:.0e}", site=site, error=error)
        for site, error in report.rebuilt.items()
    ]
    if most > report.TOLERANCE:
        details.append(
            say(
                "it computes in half precision: differences up to {most:.0e} are rounding",
                most=most,
            )
        )
    bad = [site for site, error in errors.items() if not error <= most]
    if bad or not rows <= most:
        return Finding(_disproved(bad, rows, worst), "amber", tuple(details))
    if not errors:
        said = say(
            "Rows of attention sum to 1 within {error:.0e}; no block could be rebuilt from them.",
            error=rows,
        )
        return Finding(said, "amber", tuple(details))
    fields = {"rows": rows, "worst": worst, "left": left, "all": len(report.rebuilt)}
    said = say(
        "The captured weights explain the output: rows sum to 1 within {rows:.0e}, and weights "
        "times values, projected, are what each block gave within {worst:.0e}.",
        **fields,
    )
    if left:
        said = say(
            "The captured weights explain the output: rows sum to 1 within {rows:.0e}, and weights "
            "times values, projected, are what each block gave within {worst:.0e} ({left} of {all} "
            "could not be checked).",
            **fields,
        )
    return Finding(said, "green", tuple(details))


def _disproved(bad: list[str], rows: float, worst: float) -> str:
    fields = {"rows": rows, "worst": worst, "places": ", ".join(bad[:3])}
    if not bad:
        return say(
            "The captured scores and weights do not explain the output: rows of attention sum to 1 "
            "within {rows:.0e}, and what they rebuild is off by {worst:.0e}.",
            **fields,
        )
    return say(
        "The captured scores and weights do not explain the output in {places}: rows of attention "
        "sum to 1 within {rows:.0e}, and what they rebuild is off by {worst:.0e}.",
        **fields,
    )


#: Counted nouns, singular and plural.
COUNTED = {
    "head": (mark("{count:,} head"), mark("{count:,} heads")),
    "attention block": (mark("{count:,} attention block"), mark("{count:,} attention blocks")),
    "norm": (mark("{count:,} norm"), mark("{count:,} norms")),
    "table": (mark("{count:,} table"), mark("{count:,} tables")),
    "place": (mark("{count:,} place"), mark("{count:,} places")),
}


def _many(count: int, noun: str) -> str:
    one, several = COUNTED[noun]
    return say(one if count == 1 else several, count=count)


def accounted(report: Report) -> Finding:
    """Return the finding that every softmax below the probe is shown or otherwise accounted for."""
    sites = set(report.laws)
    others = [kernel for kernel in report.kernels if kernel.fate not in sites]
    mixers = [k for k in others if k.mixes or k.fate == KernelRun.DIFFERENCE]
    details = tuple(_kernel(kernel) for kernel in others)
    fields = {
        "count": len(report.kernels) - len(mixers),
        "others": len(others) - len(mixers),
        "missed": len(report.missed),
    }
    if not fields["count"]:
        return Finding(say("What ran below the probe was not looked at."), "amber")
    if report.missed:
        said = say(
            "{missed} of {count} softmaxes that ran weigh something and are shown nowhere.",
            **fields,
        )
        return Finding(said, "amber", details)
    if fields["others"]:
        said = say(
            "Each of the {count} softmaxes that ran is accounted for; {others} are something else "
            "than attention over words, or ran as one piece.",
            **fields,
        )
        return Finding(said, "green", details)
    return Finding(
        say(
            "Each of the {count} softmaxes that ran was captured, with the same numbers.", **fields
        ),
        "green",
        details,
    )


def _kernel(kernel: KernelRun) -> str:
    if kernel.mixes:
        return say(
            "{path} mixes tokens too: {fate}", path=kernel.path or "-", fate=say(kernel.fate)
        )
    if kernel.fate == KernelRun.DIFFERENCE:
        return say(
            "{path}: differential attention; each map is one softmax, and the output takes the "
            "difference of two heads",
            path=kernel.path or "-",
        )
    return say(
        "{path}: {rows} rows of {keys}, {fate}",
        path=kernel.path or kernel.name, rows=kernel.rows, keys=kernel.keys, fate=say(kernel.fate),
    )  # fmt: skip


def measured(report: Report) -> Finding:
    """Return the finding that batch, heads, rows and edits are verified on this input."""
    details = [_laws(site, gaps, report.tolerance) for site, gaps in report.laws.items()]
    details += [say("not proved: {reason}", reason=reason) for reason in report.untold]
    if not report.laws:
        return Finding(say("No edit was tried."), "amber", tuple(details))
    if report.broken:
        said = say(
            "Not everything about axes and edits is proved on this input: {places}.",
            places=", ".join(list(report.broken)[:3]),
        )
        return Finding(said, "amber", tuple(details))
    if report.untold:
        said = say("Not everything about axes and edits is proved on this input.")
        return Finding(said, "amber", tuple(details))
    said = say(
        "Axes and edits are proved on this input at all {count} places: one item alone is row 0 of "
        "a batch, a head is its slice of the projection, and temperature, a hidden word and a "
        "window do what their law says.",
        count=len(report.laws),
    )
    return Finding(said, "green", tuple(details))


def _laws(site: str, gaps: dict[str, float | None], tolerance: float) -> str:
    """Return one line for a site: the laws that hold with their error, then the others."""
    held = [name for name, gap in gaps.items() if gap is not None and gap <= tolerance]
    worst = max((gaps[name] or 0.0 for name in held), default=0.0)
    others = [
        say("{law}: off by {gap:.0e}", law=say(name), gap=gap)
        if gap is not None
        else say("{law}: could not be told", law=say(name))
        for name, gap in gaps.items()
        if name not in held
    ]
    line = say(
        "{site}: {laws} within {worst:.0e}",
        site=site, laws=", ".join(say(name) for name in held), worst=worst,
    )  # fmt: skip
    return "; ".join([line, *others] if held else [f"{site}: {others[0]}", *others[1:]])


#: Names of laws and kernels.
NAMES = (
    mark("kernel"),
    mark("rows"),
    mark("first row"),
    mark("batch"),
    mark("token order"),
    mark("temperature"),
    mark("hidden key"),
    mark("window"),
    mark("heads"),
    mark("statistics"),
    mark("queries and keys"),
    mark("single heads"),
    mark("causal off"),
    mark("layer"),
    mark("norms"),
    mark("positions"),
    mark("own notes"),
    mark("missed"),
    mark("convolution"),
    mark("pooling"),
    mark("recurrent"),
    mark("batch norm"),
    mark("routing"),
    mark("choice"),
    mark("loss"),
    mark("over features"),
    mark("of features over tokens"),
    mark("not multiplied"),
    mark("outside the probed module"),
    mark("one kernel for a whole layer"),
)
