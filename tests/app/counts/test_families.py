"""Counters, gauges and histograms, read by an independent parser of the format."""

from __future__ import annotations

import functools
import json

import pytest

from tests.support.exposition import read
from transformer_viz import settings
from transformer_viz.app.counts import server_counts
from transformer_viz.app.counts.families import Asked, exposition, joined


class GivenUp(Exception):
    pass


def runs(outcome: str) -> float:
    """Return how many runs of `work` ended so, as the server tells it."""
    numbers = read(server_counts.text())["transformer_viz_runs_total"].numbers
    labels = frozenset({'run="work"', f'outcome="{outcome}"'})
    return numbers.get(("transformer_viz_runs_total", labels), 0)


def test_what_the_server_counts_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.FORWARDS.variable, "3")
    before = read(server_counts.text())["transformer_viz_frame_seconds"].numbers
    for seconds in (0.2, 0.25, 99.0):
        server_counts.FRAMES.observe(seconds)
    odd = Asked("odd", 'Odd, "all"\nof them \\ here.', ("what",), ask=lambda: {('a "b"\n\\',): 2})
    found = read(server_counts.text(Asked("more", "More.", ask=lambda: {(): 1.5}), odd))
    assert found["transformer_viz_limit"].of(setting="forwards") == 3
    assert found["transformer_viz_refusals_total"].kind == "counter"
    assert "transformer_viz_runs_total" in found and found["more"].of() == 1.5
    assert found["odd"].of(what=r"a \"b\"\n\\") == 2
    for name in ("resident_memory_bytes", "cpu_seconds_total", "start_time_seconds", "threads"):
        assert found[f"process_{name}"].of() > 0, name
    bare = read(exposition(server_counts.process(proc="/nowhere")))
    for name in ("cpu_seconds_total", "start_time_seconds", "threads"):
        assert bare[f"process_{name}"].of() > 0, name
    frames = found["transformer_viz_frame_seconds"]
    assert frames.kind == "histogram"
    for bound, more in (("0.1", 0), ("0.25", 2), ("30.0", 2), ("+Inf", 3)):
        key = "transformer_viz_frame_seconds_bucket", frozenset({f'le="{bound}"'})
        assert frames.numbers[key] - before[key] == more, bound


def test_the_texts_of_two_workers_become_one() -> None:
    one, other = (exposition([Asked("a", "A.", ("run",), lambda n=n: {("x",): n})]) for n in (1, 2))
    found = read(
        joined({"0": one, "1": other + exposition([Asked("b", "B.", ask=lambda: {(): 0})])})
    )
    assert found["a"].of(worker="0", run="x") == 1 and found["a"].of(worker="1", run="x") == 2
    assert found["b"].of(worker="1") == 0
    both = read(joined({"0": server_counts.text(), "1": server_counts.text()}))
    for name in ("transformer_viz_visits_total", "transformer_viz_refusals_total"):
        assert both[name].kind == "counter", name


def test_a_run_logs_one_line_without_a_word_of_the_visitor(capsys, monkeypatch) -> None:
    def work(word: str) -> str:
        return word

    with server_counts.counted(work, GivenUp):
        pass
    assert capsys.readouterr().err == ""  # the log is off at first
    monkeypatch.setenv(settings.RUN_LOG.variable, "on")
    for error, outcome in (
        (None, "done"),
        (ValueError("no such layer"), "refused"),
        (GivenUp(), "abandoned"),
        (ZeroDivisionError(), "failed"),
    ):
        before, raised = runs(outcome), None
        try:
            with server_counts.counted(functools.partial(work, "secret words"), GivenUp) as told:
                told.began()
                if error is not None:
                    raise error
        except (ValueError, GivenUp, ZeroDivisionError) as one:
            raised = one
        assert raised is error, outcome
        (line,) = capsys.readouterr().err.splitlines()
        found = json.loads(line)
        assert set(found) == {"time", "process", "run", "outcome", "wait", "seconds"}, outcome
        assert (found["run"], found["outcome"]) == ("work", outcome) and "secret" not in line
        assert runs(outcome) == before + 1, outcome


def test_the_parser_refuses_what_the_format_does() -> None:
    head = "# HELP a A.\n# TYPE a gauge\n"
    histogram = '# HELP a A.\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n'
    gauges = ("b 1\n", "a one\n", 'a{b="1",b="2"} 1\n', "a 1\na 1\n")
    for text in ("a 1", "a 1\n", *(head + one for one in gauges), histogram):
        with pytest.raises(ValueError):
            read(text)
