"""Weights that came from elsewhere, through `tv.from_attentions`."""

import pytest

pytest.register_assert_rewrite("tests.given.outputs")
