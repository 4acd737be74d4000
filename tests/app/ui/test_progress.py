"""Waiting: what is shown meanwhile, how it is stopped, and that nothing of it stays behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.runtime.scriptrunner import RerunData, StopException
from streamlit.testing.v1 import AppTest

from transformer_viz.app.engine.task import WAITING, Abandoned, Task
from transformer_viz.app.engine.turns.run_slots import RunSlots
from transformer_viz.app.ui import progress as patience
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


@pytest.fixture
def open_page() -> Callable[..., AppTest]:
    def opened(work: Callable[[Task], Any], about: object = None) -> AppTest:
        app = AppTest.from_function(page, default_timeout=LONG)
        app.session_state["work"], app.session_state["about"] = work, about
        return app.run()

    return opened


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Endless:
    """Work that is under way when the visitor does something else, at the third look."""
    work, looks, look = Endless(), [], patience.wait

    def wait(runs: Any, seconds: float) -> Any:
        assert work.begun.wait(LONG)
        looks.append(seconds)
        if len(looks) == 3:
            raise StopException  # as Streamlit does at a call, when a rerun is wanted
        return look(runs, min(seconds, 0.01))

    monkeypatch.setattr(patience, "wait", wait)
    return work


def texts(app: AppTest) -> list[str]:
    return [box.value for box in app.markdown]


def bars(app: AppTest) -> list[Any]:
    return list(app.get("progress"))


def test_quick_work_shows_nothing_of_the_waiting(open_page: Callable[..., AppTest]) -> None:
    app = open_page(lambda task: "quick")
    assert texts(app) == ["quick", "more"] and not bars(app) and not app.button


def test_long_work_shows_a_bar_and_leaves_nothing_of_it(
    open_page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "SILENT", 0)
    shown: list[tuple[float, str]] = []
    busy, free = threading.Event(), threading.Event()

    def progress(value: float, text: str) -> Any:
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

    real, drawn = patience.wait, patience.st.progress
    monkeypatch.setattr(patience, "wait", look)
    monkeypatch.setattr(patience.st, "progress", progress)
    app = open_page(work)
    assert set(shown) == {(0.25, "Loading the model ...")}
    assert texts(app) == ["slow", "more"] and not bars(app) and not app.button


def test_whoever_moves_on_ends_the_work(
    open_page: Callable[..., AppTest], interrupted: Endless
) -> None:
    work, app = interrupted, open_page(interrupted)
    assert work.ended.wait(LONG) and work.tasks[0].abandoned
    (bar,) = bars(app)  # what stood there when the page was interrupted
    assert bar.proto.text == r"Working \*hard\* ..." and bar.proto.value == 25


def test_a_stop_holds_until_going_on_or_other_work(
    open_page: Callable[..., AppTest], interrupted: Endless
) -> None:
    work, app = interrupted, open_page(interrupted, about="one sentence")
    (stop,) = app.button
    assert stop.label == "stop"
    stop.click().run()
    assert len(work.tasks) == 1 and texts(app) == ["rest of the page"] and not bars(app)
    assert "Stopped." in app.get("html")[0].proto.body
    app.run()
    assert len(work.tasks) == 1  # still stopped
    work.free.set()
    (on,) = app.button
    assert on.label == "go on"
    on.click().run()
    assert texts(app) == ["done", "more"] and not app.button

    app.session_state[patience.MARKS] = {"long": "one sentence"}
    app.session_state["about"] = "another sentence"
    app.run()
    assert texts(app) == ["done", "more"]


def test_what_the_work_raises_arrives_unchanged(open_page: Callable[..., AppTest]) -> None:
    error = KeyError("bananas")

    def work(task: Task) -> None:
        raise error

    assert texts(open_page(work)) == ["went wrong with bananas"]


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


def test_a_step_says_how_far_and_ends_what_nobody_wants() -> None:
    task = Task()
    task.step(3, 12)
    assert task.done == 0.25
    task.step(30, 12)
    assert task.done == 1
    task.abandon()
    with pytest.raises(Abandoned):
        task.step(4, 12)
    assert not issubclass(Abandoned, ValueError)  # pages show those to the visitor


def test_the_gate_lets_in_by_turns_and_says_who_waits() -> None:
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
        _until(lambda n=number, s=said: inside[n].is_set() if n == 0 else tasks[n].words == s)
    assert went == [0] and gate.free == 0 and not tasks[0].words
    leave.set()
    for thread in threads:
        thread.join(LONG)
    assert went == [0, 1, 2] and gate.free == 1
    assert not any(task.words for task in tasks)


def test_who_gives_up_at_the_gate_leaves_no_gap() -> None:
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
        _until(lambda: tasks[0].words == WAITING)
        threads[1].start()
        _until(lambda: tasks[1].words == "Waiting for 2 other runs ...")
        tasks[0].abandon()
        threads[0].join(LONG)
        assert found == ["gave up"]
    threads[1].join(LONG)
    assert found == ["gave up", "in"] and gate.free == 1


def test_an_error_inside_frees_the_place() -> None:
    gate = RunSlots(2)
    with pytest.raises(ValueError, match="no"), gate.place(Task()):
        raise ValueError("no")
    assert gate.free == 2


def _until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that another thread brings about."""
    tick = threading.Event()
    for _ in range(int(LONG / 0.005)):
        if holds():
            return
        tick.wait(0.005)
    pytest.fail("it never came about")


def test_without_a_page_there_is_nothing_to_wait_for() -> None:
    assert run_with_progress(lambda task: 7, key="x", label="") == 7


@pytest.mark.parametrize("scope", ["app", "fragment"])
def test_a_wish_from_within_the_page_ends_the_work_too(
    scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamlit itself lets a wish from a fragment wait until the page has ended."""

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
        wish = RerunData(fragment_id_queue=[fragment])
        makes.append(bool(context.fragment_ids_this_run))
        if len(makes) == 1 and scope == "fragment":
            context.script_requests.request_rerun(wish)  # so that the next run is the fragment's
            return lambda task: "first"
        if len(works) == 1:
            return lambda task: "newest"
        works.append(Endless())

        def work(task: Task) -> str:
            context.script_requests.request_rerun(wish)
            return works[0](task)

        return work

    app = AppTest.from_function(page, default_timeout=LONG)
    app.session_state["make"], app.session_state["runs"] = make, 0
    app.run()
    assert not app.exception and texts(app) == ["newest"]
    assert works[0].ended.wait(LONG) and works[0].tasks[0].abandoned
    assert app.session_state["runs"] == (2 if scope == "app" else 1)
    assert makes == ([False, False] if scope == "app" else [False, True, True])
