"""Counters, gauges and histograms, read by an independent parser of the format."""

from __future__ import annotations

import functools
import json

import pytest

from tests.support.exposition import read
from transformer_viz import settings
from transformer_viz.app.counts import server_counts
from transformer_viz.app.counts.families import MOST, Asked, Counter, Gauge, Histogram, joined


class GivenUp(Exception):
    pass


def test_counters_and_gauges_are_read_back() -> None:
    told = Counter("runs_total", 'Runs, "all"\nof them \\ here.', ("run", "outcome"))
    told.add("traced", 'a "quoted"\nend\\')
    told.add("traced", 'a "quoted"\nend\\', more=2)
    level = Gauge("visitors", "Open now.")
    level.add(3)
    level.add(-1)
    found = read(told.text() + level.text())
    assert found["runs_total"].kind == "counter"
    assert found["runs_total"].of(run="traced", outcome=r"a \"quoted\"\nend\\") == 3
    assert found["visitors"].of() == 2
    found = read(Counter("a_total", "A.").text() + Histogram("b_seconds", "B.").text())
    assert found["a_total"].of() == 0
    assert found["b_seconds"].numbers["b_seconds_count", frozenset()] == 0
    with pytest.raises(TypeError, match="told apart"):
        told.add()
    # A family does not grow without bound.
    many = Counter("many_total", "Many.", ("what",))
    for number in range(MOST + 50):
        many.add(str(number))
    found = read(many.text())["many_total"]
    assert len(found.numbers) == MOST + 1 and found.of(what="other") == 50


def test_a_histogram_counts_below_its_bounds() -> None:
    took = Histogram("took_seconds", "Took.", ("run",), bounds=(0.5, 1.0, 2.0))
    seconds = (0.1, 0.5, 0.6, 1.5, 99.0)
    for one in seconds:
        took.observe(one, "traced")
    numbers = read(took.text())["took_seconds"].numbers
    for bound, wanted in (("0.5", 2), ("1", 3), ("2", 4), ("+Inf", 5)):
        labels = frozenset({'run="traced"', f'le="{bound}"'})
        assert numbers["took_seconds_bucket", labels] == wanted, bound
    assert numbers["took_seconds_sum", frozenset({'run="traced"'})] == pytest.approx(sum(seconds))


def test_the_texts_of_two_workers_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Counter("a_total", "A.", ("run",)), Counter("a_total", "A.", ("run",))
    other.add("traced")
    found = read(joined({"0": one.text(), "1": other.text() + Gauge("b", "B.").text()}))
    assert found["a_total"].of(worker="1", run="traced") == 1
    assert found["b"].of(worker="1") == 0
    # All that the server counts is read back.
    monkeypatch.setenv(settings.FORWARDS.variable, "3")
    server_counts.FRAMES.observe(0.2)
    found = read(server_counts.text(Asked("more", "More.", ask=lambda: {(): 1.5})))
    assert found["transformer_viz_limit"].of(setting="forwards") == 3
    assert found["transformer_viz_frame_seconds"].kind == "histogram"
    assert found["process_resident_memory_bytes"].of() > 1e6 and found["more"].of() == 1.5
    assert read(joined({"0": server_counts.text(), "1": server_counts.text()}))


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
        before, raised = server_counts.RUNS.values.get(("work", outcome), 0), None
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
        assert server_counts.RUNS.values["work", outcome] == before + 1, outcome


def test_the_parser_refuses_what_the_format_does() -> None:
    head = "# HELP a A.\n# TYPE a gauge\n"
    histogram = '# HELP a A.\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n'
    gauges = ("b 1\n", "a one\n", 'a{b="1",b="2"} 1\n', "a 1\na 1\n")
    for text in ("a 1", "a 1\n", *(head + one for one in gauges), histogram):
        with pytest.raises(ValueError):
            read(text)
