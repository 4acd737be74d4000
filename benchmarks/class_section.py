"""What the results say about a class of pupils (`benchmarks.pupils`)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from benchmarks.memory import growth
from benchmarks.pupils import ARRIVING, EVERY, FREE, REST, Class
from benchmarks.report import Budget, Row, Section
from tests.soak import cut

SLOW, GROWN = 1.5, 60  # seconds, and megabytes of each process: DESIGN section 8
CLASS, FRAME, SENTENCE = 30, 0.3, 2.0  # pupils of a class, and seconds: goals of ours


def slow(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return (
        quantiles(times, n=20, method="inclusive")[-1]
        if len(times) > 1
        else max(times, default=0.0)
    )


def section(
    met: Class,
    wrong: Sequence[str],
    pupils: int,
    seconds: float,
    workers: int = 1,
    compared: int | None = None,
    others: Sequence[str] = (),
) -> Section:
    """What the results say about the class.

    Args:
        met: the lesson.
        wrong: what `mixed` found.
        pupils: in the class.
        seconds: of the lesson.
        workers: processes of the app.
        compared: moves that were compared; None: all.
        others: what `unlike` found of those whose worker was killed.
    """
    frames = [step.seconds for step in met.steps]
    answers = [step.told for step in met.steps]
    opened = [visit.opened for visit in met.visits if visit.opened]
    typed = [visit.typed for visit in met.visits if visit.typed]
    notes = (
        f"{pupils} pupils open a shared link (cross, L1 H3) within "
        f"{min(ARRIVING, seconds / 3):.0f} s, type a sentence each, and move the temperature every "
        f"{EVERY:g} s for {seconds:.0f} s: the live frame of the step, and {REST:g} s later the "
        "page's own answer with the free translation. All but one are raw websocket clients with "
        "the requests of a browser; one is a real Chromium, from key to paint. Clients and server "
        "share one machine; the model is loaded when the first one comes. Of "
        f"{len(met.steps)} moves, hardly a temperature twice, "
        f"{len(met.steps) if compared is None else compared} were compared with runs of that "
        "sentence and temperature in another process: the frame, the answer's map, and the free "
        f"translation of every {FREE}th."
    )
    table: list[Row] = [("what", "times", "p50", "p95", "slowest")]
    for name, times in (
        ("move to frame", frames),
        ("move to paint, in the browser", met.painted),
        ("hand at rest to the page's whole answer", answers),
        ("link to the whole page", opened),
        ("sentence to the whole page", typed),
    ):
        if times:
            found = (median(times), slow(times), max(times))
            table.append((name, str(len(times)), *(f"{t:.2f} s" for t in found)))
    held = f"{met.memory[0]:.0f} MB to {met.memory[-1]:.0f} MB, most {max(met.memory):.0f} MB"
    table.append(("server, resident", str(len(met.memory)), held, "", ""))
    if workers > 1:
        each = " and ".join(f"{one:.0f} MB" for one in met.each)
        table.append(("of it each process, at the end", str(len(met.each)), each, "", ""))
    table += [*cost(met), *cut.rows(met.cuts, pupils, others)]
    usual = pupils <= CLASS and met.death is None
    budgets = [
        Budget("move to frame, p95", slow(frames), FRAME if usual else SLOW, " s"),
        *(
            [Budget("sentence to the whole page, p95", slow(typed), SENTENCE, " s")]
            if usual
            else []
        ),
        Budget("errors", len(met.errors), 0),
        Budget("frames and answers that are another's", len(wrong), 0),
        Budget("growth of the server's memory", growth(met.memory), GROWN * workers, " MB"),
    ]
    title = "Soak: a class" if pupils == CLASS else f"Soak: a class of {pupils}"
    title += "" if workers == 1 else f" before {workers} workers"
    if met.death is not None:
        title += ", one killed"
        budgets += cut.budgets(met.cuts, others)
        notes += (
            f" In the middle of it worker {met.death.worker} was killed (SIGKILL; its process as "
            "the metric transformer_viz_info names it). Its pupils connect anew as a browser does."
        )
    return Section(title, notes, table, budgets)


def cost(met: Class) -> list[Row]:
    """CPU milliseconds of the server for each move, and for what; the clock of its threads."""
    if len(met.computed) < 2 or met.computed[0][0] == met.computed[-1][0]:
        return []
    (moves, before), (later, after) = met.computed[0], met.computed[-1]
    each = {n: 1000 * (s - before.get(n, 0.0)) / (later - moves) for n, s in after.items()}
    whole = each.pop("all", 0.0)
    split = ", ".join(f"{name} {each[name]:.0f} ms" for name in sorted(each))
    return [("server, CPU of a move", str(later - moves), f"{whole:.0f} ms: {split}", "", "")]
