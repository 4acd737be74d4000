"""The version of the package; ``pyproject.toml`` and the first entry of CHANGELOG.md follow it."""

__version__ = "0.2.0"
