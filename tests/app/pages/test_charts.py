"""Charts as tables: each chart of Norms and Positions can be read, once somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from ...support.map_pages import MAP_PAGES
from ...support.page_content import charts, heatmap

pytestmark = pytest.mark.app


@pytest.mark.parametrize("page", [path for path in MAP_PAGES if path])  # Explore has no chart
def test_each_chart_can_be_read_as_a_table(visit: Callable[..., AppTest], page: str) -> None:
    app = visit(page)
    names = list(charts(app))
    before = len(app.dataframe)
    for name in names:
        app.session_state[f"{name}-table"] = True
    app.run()
    assert not app.exception and not app.error
    assert len(app.dataframe) == before + len(names)


def test_the_table_has_the_cells_of_the_map(visit: Callable[..., AppTest]) -> None:
    app = visit("norms")
    app.session_state["norm-map-table"] = True
    app.run()
    cells = heatmap(charts(app)["norm-map"])
    found = [table.value for table in app.dataframe if table.value.shape == cells.shape]
    assert len(found) == 1 and np.allclose(found[0].to_numpy(), cells)
