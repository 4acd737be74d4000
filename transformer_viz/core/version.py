"""Version of the package, repeated in CITATION.cff, CHANGELOG.md and HISTORY.md."""

__version__ = "0.2.0"
