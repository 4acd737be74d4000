"""Choices of a session by name and type: ``state.token`` is ``st.session_state["token"]``.

Each key of the link (`url_state.KEYS`) is an attribute here, as a test checks. Its widget has the
same key. All other session keys are in `keys`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import streamlit as st

T = TypeVar("T")


class Choice(Generic[T]):
    """A key of the link in ``st.session_state``, read and written as an attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        value: T = st.session_state[self.key]
        return value

    def __set__(self, instance: object, value: T) -> None:
        st.session_state[self.key] = value


class State:
    """Keys of the link, in the order of `url_state.KEYS`."""

    model = Choice[str]()
    text = Choice[str]()
    target = Choice[str]()
    beam = Choice[int]()
    edits = Choice[str]()
    block = Choice[str]()
    layer = Choice[int]()
    head = Choice[int]()
    token = Choice[int]()
    compare = Choice[str]()
    words = Choice[bool]()
    special = Choice[bool]()
    scope = Choice[str]()
    answer = Choice[int]()
    stack = Choice[str]()
    place = Choice[int]()
    shift = Choice[int]()
    pair = Choice[int]()
    word = Choice[int]()
    site = Choice[str]()
    statistic = Choice[str]()
    reach = Choice[str]()
    order = Choice[int]()
    second = Choice[str]()
    masked = Choice[tuple[int, ...]]()
    picture = Choice[str]()
    seed = Choice[int]()
    over = Choice[str]()
    chosen = Choice[int | None]()
    checkpoint = Choice[str]()
    view = Choice[str]()
    key = Choice[int | None]()
    blocks = Choice[str]()
    sort = Choice[str]()
    scale = Choice[str]()
    ramp = Choice[str]()
    gamma = Choice[float]()
    threshold = Choice[float]()
    top = Choice[int]()
    overlay = Choice[tuple[tuple[int, int], ...]]()
    zoom = Choice[tuple[tuple[int, int], tuple[int, int]] | None]()
    lang = Choice[str]()
    present = Choice[bool]()
    station = Choice[int]()
    predicted = Choice[tuple[tuple[int, int], ...]]()
    step = Choice[int]()
    number = Choice[str]()
    search = Choice[str]()
    drawing = Choice[float]()
    played = Choice[int]()
    branch = Choice[str]()
    pooled = Choice[bool]()
    heads_on = Choice[str]()
    heads_by = Choice[str]()
    removal = Choice[str]()
    aligned = Choice[str]()
    aligned_row = Choice[str]()
    gold = Choice[str]()
    gold_from_one = Choice[bool]()
    other = Choice[str]()
    between = Choice[str]()
    swapped = Choice[str]()
    corpus = Choice[str]()
    corpus_by = Choice[str]()
    versus = Choice[str]()
    weighed = Choice[str]()
    opposite = Choice[str]()
    beside = Choice[str]()
    moments = Choice[tuple[int, ...]]()
    seen = Choice[str]()
    lab = Choice[str]()
    tried = Choice[str]()


state = State()
