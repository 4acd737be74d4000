"""Keywords of older versions still work in public functions, with a warning."""

from __future__ import annotations

import pytest

import transformer_viz as tv
from transformer_viz.core.renamed import accept_old_keywords
from transformer_viz.views.export.html_report import report


@accept_old_keywords(tell="on_progress")
def doubled(x: int, on_progress: object = None) -> tuple[int, object]:
    return 2 * x, on_progress


def test_an_old_keyword_is_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match="tell= is on_progress= now"):
        assert doubled(1, tell=3) == (2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Both tell= and on_progress="):
        doubled(1, tell=3, on_progress=4)  # type: ignore[call-arg]


def test_public_functions_accept_the_keywords_of_the_first_version() -> None:
    nothing = object()
    calls = [
        *((tv.translate, "tell", 2), (tv.translate, "witness", 2), (tv.rank, "tell", 2)),
        *((tv.explain, "tell", 2), (tv.swap, "tell", 3), (tv.compare, "tell", 2)),
        *((tv.metrics, "tell", 2), (report, "tell", 1)),
    ]
    for function, old, count in calls:
        with (
            pytest.warns(DeprecationWarning, match=f"{old}= is"),
            pytest.raises(Exception) as error,
        ):
            function(*[nothing] * count, **{old: None})
        assert "unexpected keyword" not in str(error.value), (function, old)
