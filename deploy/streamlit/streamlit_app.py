"""Where Streamlit Community Cloud begins: what strangers may do, then the app of this repository.

The main file of a deployed app; docs/deploy.md says what to click.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parents[2])
#: What a server of strangers allows, within a gigabyte. A secret of the same name comes first.
SETTINGS = {
    "TRANSFORMER_VIZ_UPLOADS": "off",
    "TRANSFORMER_VIZ_PATHS": "off",
    "TRANSFORMER_VIZ_HUB": "off",
    "TRANSFORMER_VIZ_MODELS_KEPT": "6",
    "OPENBLAS_NUM_THREADS": "1",
}
for name, value in SETTINGS.items():
    os.environ.setdefault(name, value)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from app import main  # noqa: E402 (it reads the settings)

main()
