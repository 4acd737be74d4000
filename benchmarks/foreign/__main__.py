"""``python -m benchmarks.foreign [--only PACKAGE]``."""

from .run import main

main()
