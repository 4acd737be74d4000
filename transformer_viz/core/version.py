"""The version of the package, which CITATION.cff, CHANGELOG.md and HISTORY.md repeat."""

__version__ = "0.2.0"
