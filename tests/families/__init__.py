"""Tiny Hugging Face models, and the laws that the probe keeps on each of them."""

import pytest

pytest.register_assert_rewrite("tests.families.generation")
