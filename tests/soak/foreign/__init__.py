"""The proof on models of other packages, each in a process of its own: `docs/tested-models.md`."""
