"""A server that shares the passes of some searches, for a test that ends it amid them.

python -m tests.support.stopped_server MODEL PORT, which says ``sharing`` once they are at it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress

SEARCHES = 4
PASS = 0.02  # seconds that a pass takes at least, so that it is not over too soon


def search_together() -> None:
    """Begin searches of the server's own model, as visitors do: in threads that nobody joins."""
    from transformer_viz.app.engine.query import Question
    from transformer_viz.app.engine.task import Abandoned
    from transformer_viz.app.live.server_engine import server_engine
    from transformer_viz.core.interventions import Intervention, Temperature
    from transformer_viz.inference.batching.shared_passes import SharedPasses

    ordinary = SharedPasses.step

    def step(self: SharedPasses) -> None:
        time.sleep(PASS)
        if len(self.searches) > 1:
            print("sharing", flush=True)
        ordinary(self)

    SharedPasses.step = step  # type: ignore[method-assign]
    engine = server_engine()
    name = next(iter(engine.shelf))

    def ask(number: int) -> None:
        with suppress(Abandoned):  # as the thread of a page, which nobody waits for by then
            for again in range(100):
                edits = Intervention((Temperature(value=1 + number + again / 100),))
                engine.free(Question(name, "The cat sat on the mat and it was tired."), edits)

    for number in range(SEARCHES):
        threading.Thread(target=ask, args=(number,), daemon=True).start()


if __name__ == "__main__":
    os.environ["TRANSFORMER_VIZ_MODEL"], port = sys.argv[1:]
    os.environ["TRANSFORMER_VIZ_MODELS"] = ""
    from transformer_viz.app.live import server

    threading.Thread(target=search_together, daemon=True).start()
    sys.argv = ["server", "--server.port", port, "--server.headless", "true"]
    server.main()
