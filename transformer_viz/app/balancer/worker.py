"""Worker process: the server of the app, which ends when the balancer process is gone.

python -m transformer_viz.app.balancer.worker        (transformer-viz app --workers starts these)
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from ..live import server

GRACE = 10.0  # seconds for an orderly end


def _end_with_parent() -> None:
    """End when standard input is closed, i.e. when the parent process has ended."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server.main()
