"""A page of another tool, made in a process of its own: how long its Python takes, how many bytes.

python -m benchmarks.peers_pages bertviz-model 128 page.html
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.peers_arrays import weights, words
from benchmarks.peers_packages import served_here

LARGE = 64  # tokens from which a page is made once, not three times


def bertviz(view: str) -> Callable[[np.ndarray, list[str]], str]:
    """A view of BertViz: all heads (``model``), or the heads of a layer (``head``)."""
    from bertviz import head_view, model_view

    call = {"model": model_view, "head": head_view}[view]

    def page(array: np.ndarray, tokens: list[str]) -> str:
        layers = [torch.from_numpy(layer)[None] for layer in array]
        return call(layers, tokens, html_action="return").data

    return page


def circuitsvis() -> Callable[[np.ndarray, list[str]], str]:
    """All heads, as CircuitsVis shows itself where there is no network: its script in the page."""
    from circuitsvis.attention import attention_heads

    def page(array: np.ndarray, tokens: list[str]) -> str:
        heads = array.reshape(-1, *array.shape[2:])
        return attention_heads(heads, tokens, mask_upper_tri=False).local_src

    return page


def script(name: str) -> int:
    """Bytes of the script that stands in the page itself."""
    if name != "circuitsvis":
        return 0
    import circuitsvis

    return (Path(circuitsvis.__file__).parent / "dist" / "cdn" / "iife.js").stat().st_size


KINDS = {
    "bertviz-model": lambda: bertviz("model"),
    "bertviz-head": lambda: bertviz("head"),
    "circuitsvis": circuitsvis,
}


def main() -> None:
    name, length, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    call, array, tokens = KINDS[name](), weights(length), words(length)
    call(weights(2), words(2))  # what only a first call does is not counted
    seconds, html = [], ""
    for _ in range(1 if length > LARGE else 3):
        start = time.perf_counter()
        html = call(array, tokens)
        seconds.append(time.perf_counter() - start)
    page = served_here(html).encode()
    out.write_bytes(b'<!doctype html>\n<meta charset="utf-8">\n<body>\n' + page)
    print(json.dumps({"seconds": median(seconds), "bytes": len(html.encode()) - script(name)}))


if __name__ == "__main__":
    main()
