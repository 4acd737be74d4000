"""One worker: the server of the app, which ends when the process in front of it is gone.

python -m transformer_viz.app.balancer.worker        (transformer-viz app --workers starts these)
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from ..live import server

GRACE = 10.0  # seconds to end in order


def _end_with_parent() -> None:
    """Wait for the end of standard input: the process that holds it has ended, however it did."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server.main()
