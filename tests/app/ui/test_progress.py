"""Progress of long work: what is shown meanwhile, how it is stopped, and that nothing stays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.runtime.scriptrunner import RerunData, StopException
from streamlit.testing.v1 import AppTest

from tests.support.waiting import until
from transformer_viz.app.engine.task import WAITING, Abandoned, Task
from transformer_viz.app.engine.turns.run_slots import RunSlots
from transformer_viz.app.ui import progress
from transformer_viz.app.ui.progress import Stopped, run_with_progress

LONG = 20  # seconds after which a test that hangs gives up


class Endless:
    """Work that goes on until it is abandoned or let go."""

    def __init__(self) -> None:
        self.begun, self.free, self.ended = (threading.Event() for _ in range(3))
        self.tasks: list[Task] = []

    def __call__(self, task: Task) -> str:
        self.tasks.append(task)
        try:
            while not self.free.is_set():
                task.step(3, 12)
                self.begun.set()
                self.free.wait(0.01)
            return "done"
        finally:
            self.ended.set()


def page() -> None:
    """A page whose work is in the session's state, which a test fills."""
    import streamlit as st

    from transformer_viz.app.ui.progress import Stopped, run_with_progress

    work, about = st.session_state["work"], st.session_state["about"]
    try:
        st.write(run_with_progress(work, key="long", label="Working *hard* ...", about=about))
        st.write(run_with_progress(lambda task: "more", key="long", label="Again ...", about=about))
    except Stopped:
        st.write("rest of the page")
    except KeyError as error:
        st.write(f"went wrong with {error.args[0]}")


def opened(work: Callable[[Task], Any], about: object = None) -> AppTest:
    app = AppTest.from_function(page, default_timeout=LONG)
    app.session_state["work"], app.session_state["about"] = work, about
    return app.run()


def texts(app: AppTest) -> list[str]:
    return [box.value for box in app.markdown]


def test_quick_work_and_errors_show_nothing_of_the_waiting() -> None:
    app = opened(lambda task: "quick")
    assert texts(app) == ["quick", "more"] and not app.get("progress") and not app.button
    assert texts(opened(lambda task: {}["bananas"])) == ["went wrong with bananas"]
    assert run_with_progress(lambda task: 7, key="x", label="") == 7  # without a page


def test_long_work_shows_a_bar_and_leaves_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENT", 0)
    shown: list[tuple[float, str]] = []
    busy, free = threading.Event(), threading.Event()
    real, drawn = progress.wait, progress.st.progress

    def draw(value: float, text: str) -> Any:
        shown.append((value, text))
        return drawn(value, text)

    def work(task: Task) -> str:
        task.step(1, 4)
        with task.busy("Loading the model ..."):
            busy.set()
            free.wait(LONG)
        return "slow"

    def look(runs: Any, seconds: float) -> Any:
        assert busy.wait(LONG)
        if shown:  # it has been drawn while the work was busy: let it end
            free.set()
        return real(runs, seconds)

    monkeypatch.setattr(progress, "wait", look)
    monkeypatch.setattr(progress.st, "progress", draw)
    app = opened(work)
    assert set(shown) == {(0.25, "Loading the model ...")}
    assert texts(app) == ["slow", "more"] and not app.get("progress") and not app.button


def test_a_visitor_who_moves_on_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop holds until "go on" or other work; the visitor moves at the third look."""
    work, looks, look = Endless(), [], progress.wait

    def wait(runs: Any, seconds: float) -> Any:
        assert work.begun.wait(LONG)
        looks.append(seconds)
        if len(looks) == 3:
            raise StopException  # as Streamlit does at a call, when a rerun is wanted
        return look(runs, min(seconds, 0.01))

    monkeypatch.setattr(progress, "wait", wait)
    app = opened(work, about="one sentence")
    assert work.ended.wait(LONG) and work.tasks[0].abandoned
    (bar,) = app.get("progress")  # what stood there when the page was interrupted
    assert bar.proto.text == r"Working \*hard\* ..." and bar.proto.value == 25
    (stop,) = app.button
    assert stop.label == "stop"
    stop.click().run()
    assert texts(app) == ["rest of the page"] and not app.get("progress")
    assert "Stopped." in app.get("html")[0].proto.body
    app.run()
    assert len(work.tasks) == 1  # still stopped
    work.free.set()
    (on,) = app.button
    assert on.label == "go on"
    on.click().run()
    assert texts(app) == ["done", "more"] and not app.button

    app.session_state[progress.MARKS] = {"long": "one sentence"}
    app.session_state["about"] = "another sentence"
    assert texts(app.run()) == ["done", "more"]


def test_the_same_stopped_work_may_stand_on_a_page_twice() -> None:
    def twice() -> None:
        import streamlit as st

        from transformer_viz.app.ui.progress import MARKS, Stopped, run_with_progress

        st.session_state[MARKS] = {"long": None}
        for _ in range(2):
            try:
                run_with_progress(lambda task: 1, key="long", label="")
            except Stopped as stop:
                st.write(str(stop))

    app = AppTest.from_function(twice).run()
    assert not app.exception and len(app.button) == 2
    assert texts(app) == ["Stopped before it was done."] * 2
    assert issubclass(Stopped, ValueError)


@pytest.mark.parametrize("scope", ["app", "fragment"])
def test_a_rerun_from_within_the_page_ends_the_work_too(scope: str) -> None:
    """Streamlit itself lets a rerun of a fragment wait until the page has ended."""

    def page() -> None:
        import streamlit as st

        from transformer_viz.app.ui.progress import run_with_progress

        st.session_state["runs"] += 1

        @st.fragment
        def part() -> None:
            from streamlit.runtime.fragment import ThreadState
            from streamlit.runtime.scriptrunner import get_script_run_ctx

            made = st.session_state["make"](get_script_run_ctx(), ThreadState.get().fragment_id)
            st.write(run_with_progress(made, key="long", label="Working ..."))

        part()

    works, makes = [], []

    def make(context: Any, fragment: str) -> Callable[[Task], Any]:
        rerun = RerunData(fragment_id_queue=[fragment])
        makes.append(bool(context.fragment_ids_this_run))
        if len(makes) == 1 and scope == "fragment":
            context.script_requests.request_rerun(rerun)  # so that the next run is the fragment's
            return lambda task: "first"
        if len(works) == 1:
            return lambda task: "newest"
        works.append(Endless())

        def work(task: Task) -> str:
            context.script_requests.request_rerun(rerun)
            return works[0](task)

        return work

    app = AppTest.from_function(page, default_timeout=LONG)
    app.session_state["make"], app.session_state["runs"] = make, 0
    app.run()
    assert not app.exception and texts(app) == ["newest"]
    assert works[0].ended.wait(LONG) and works[0].tasks[0].abandoned
    assert app.session_state["runs"] == (2 if scope == "app" else 1)
    assert makes == ([False, False] if scope == "app" else [False, True, True])


# ---- tasks and slots ---------------------------------------------------------------------------


def test_a_step_reports_progress_and_ends_abandoned_work() -> None:
    task = Task()
    for done, share in ((3, 0.25), (30, 1)):
        task.step(done, 12)
        assert task.done == share
    task.abandon()
    with pytest.raises(Abandoned):
        task.step(4, 12)
    assert not issubclass(Abandoned, ValueError)  # pages show those to the visitor


def test_slots_are_given_by_turns_and_tell_who_waits() -> None:
    gate, went, inside = RunSlots(1), [], [threading.Event() for _ in range(3)]
    tasks, leave = [Task() for _ in range(3)], threading.Event()

    def run(number: int) -> None:
        with gate.place(tasks[number]):
            went.append(number)
            inside[number].set()
            leave.wait(LONG)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for number, thread in enumerate(threads):
        thread.start()
        said = ("", WAITING, "Waiting for 2 other runs ...")[number]
        until(lambda n=number, s=said: inside[n].is_set() if n == 0 else tasks[n].words == s)
    assert went == [0] and gate.free == 0 and not tasks[0].words
    leave.set()
    for thread in threads:
        thread.join(LONG)
    assert went == [0, 1, 2] and gate.free == 1
    assert not any(task.words for task in tasks)


def test_a_task_that_gives_up_or_fails_frees_its_slot() -> None:
    gate, tasks = RunSlots(1), [Task(), Task()]
    found: list[str] = []

    def run(task: Task) -> None:
        try:
            with gate.place(task):
                found.append("in")
        except Abandoned:
            found.append("gave up")

    with gate.place(Task()):
        threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
        threads[0].start()
        until(lambda: tasks[0].words == WAITING)
        threads[1].start()
        until(lambda: tasks[1].words == "Waiting for 2 other runs ...")
        tasks[0].abandon()
        threads[0].join(LONG)
        assert found == ["gave up"]
    threads[1].join(LONG)
    assert found == ["gave up", "in"] and gate.free == 1
    with pytest.raises(ValueError, match="no"), gate.place(Task()):
        raise ValueError("no")
    assert gate.free == 1
