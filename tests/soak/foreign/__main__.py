"""``python -m tests.soak.foreign [--only PACKAGE]``."""

from .run import main

main()
