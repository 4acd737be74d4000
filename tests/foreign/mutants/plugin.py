"""A pytest plugin that puts a fault into the probe: ``-p tests.foreign.mutants.plugin``."""

from __future__ import annotations

import os

from .faults import FAULT, faults, put

put(next(fault for fault in faults() if fault.name == os.environ[FAULT]))
