"""The Hub of this machine for the tests of this folder."""

from __future__ import annotations

from tests.support.hub_fixtures import folder, hub

__all__ = ["folder", "hub"]
