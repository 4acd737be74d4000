"""Texts longer than their maps: memory and time by length, and what one tile takes.

Run as a program with a shape, a way and a length, it prints the memory growth of one run in bytes
and its CPU seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import nn

from benchmarks import shapes
from benchmarks.measure import peak_growth
from benchmarks.report import Budget, Section
from benchmarks.shapes import SHAPES, Forward, sentence
from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.sites import Site
from transformer_viz.core.tiles import Part, Tiles, Visible
from transformer_viz.core.tiles.edited import EditedMap

LAYERS = 2  # time and queries and keys grow with the layers, the memory of statistics does not
LENGTHS = (2048, 4096, 8192)
WAYS = ("alone", "statistics", "tiles")
MEGABYTE = 1e6
MOST_MORE, MOST_TIME = 150, 6  # MB and times the forward alone (issue 17)
SIDE, LONGEST, SAMPLES = 512, 32768, 200
TILE = {"p50": 60, "p95": 150}  # ms, to the painted picture
HANDS, SHOWN, STEPS = (8192, 20_000), 400, 20
HAND = 200  # ms, from a step of a slider to the painted picture
#: glibc returns freed memory at once where blocks are larger than this; left alone it raises the
#: limit while a program runs, and what it holds back is counted as if it were in use.
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "131072"}


def long_texts(quick: bool = False) -> Section:
    """Memory and time of statistics and tiles at growing lengths, each in a process of its own."""
    lengths = LENGTHS[:2] if quick else LENGTHS
    table = [("model", "T", "alone", "statistics, more", "tiles, more", "time", "tiles, time")]
    more, factor = {}, {}
    for shape, sizes in (("gpt2_long", lengths), ("reference", lengths[:1])):
        for length in sizes:
            runs = {way: measured(shape, way, length) for way in WAYS}
            base, seconds = runs["alone"]
            over = {way: (size - base) / MEGABYTE for way, (size, _) in runs.items()}
            times = {way: spent / seconds for way, (_, spent) in runs.items()}
            more[shape, length], factor[shape, length] = over["statistics"], times["statistics"]
            table.append((
                "GPT-2, fused" if shape == "gpt2_long" else "our Transformer (eager)", str(length),
                f"{base / MEGABYTE:.0f} MB, {seconds:.1f} s",
                f"{over['statistics']:.0f} MB", f"{over['tiles']:.0f} MB",
                f"x{times['statistics']:.1f}", f"x{times['tiles']:.1f}",
            ))  # fmt: skip
    longest = lengths[-1]
    place = "gpt2_long", longest
    budgets = [
        Budget(f"statistics, T={longest}, over the forward alone", more[place], MOST_MORE, " MB"),
        Budget(f"time of that over the forward alone, T={longest}", factor[place], MOST_TIME, "x"),
    ]
    for name, value in zip(TILE, np.percentile(tile_times(), [50, 95]), strict=True):
        what = f"a tile of {SIDE} x {SIDE} at T={LONGEST:,}, {name}, CPU time without painting"
        budgets.append(Budget(what, float(value), TILE[name], " ms"))
    for length in HANDS:
        for what, part in (("the whole", length), (f"{SHOWN} tokens a side", SHOWN)):
            for name, value in zip(
                TILE, np.percentile(hand_times(length, part), [50, 95]), strict=True
            ):
                said = f"a step of the temperature at T={length:,}, {what}, {name}"
                budgets.append(
                    Budget(f"{said}, CPU time without painting", float(value), HAND, " ms")
                )
    notes = (
        f"{LAYERS} layers of 12 heads, width 768, random weights, one thread, CPU seconds. Growth "
        "of the resident memory during one run, each in a fresh process, with a C library that "
        "returns freed memory at once. Statistics are those and thumbnails of all heads; tiles "
        "keep queries, keys and log-sums beside them, 2 x 768 x 4 bytes a token and layer. A "
        "model that writes its matrix itself holds one layer's, whatever is kept."
    )
    return Section("Long texts", notes, table, budgets)


def measured(shape: str, way: str, length: int) -> tuple[float, float]:
    """Bytes of peak growth and CPU seconds of one run."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.long_texts"]
    done = subprocess.run(
        [*command, shape, way, str(length)],
        capture_output=True, text=True, check=True, env=os.environ | RETURNED,
    )  # fmt: skip
    size, seconds = done.stdout.split()[-2:]
    return float(size), float(seconds)


def call(module: nn.Module, forward: Forward, way: str, length: int) -> Callable[[], object]:
    """One run of a length, alone or watched."""
    ids = sentence(length)

    def alone() -> object:
        with torch.inference_mode():
            return forward(ids)

    def watched() -> object:
        want = CaptureRequest(weights=lambda site: False)
        if way == "tiles":
            want = CaptureRequest(weights=lambda site: False, tiles=lambda site: True)
        with torch.inference_mode(), probe(module, want=want) as run:
            forward(ids)
        return run

    return alone if way == "alone" else watched


def causal_head(length: int) -> Tiles:
    """One causal head of a text of random queries and keys."""
    draw = np.random.default_rng(0)
    q, k = (draw.standard_normal((1, length, 64), dtype=np.float32) for _ in "qk")
    row = np.arange(length, dtype=np.int32)
    edges = np.stack((np.zeros_like(row), row + 1), 1).reshape(-1)
    seen = Visible(edges, np.arange(2, 2 * length + 1, 2)[None])
    ones = np.ones(1)
    part = Part(q, k, np.full((1, length), 10.0), ones, ones, 0.125, visible=seen)
    return Tiles(Site("decoder", "self", 0), "source", "source", (part,))


def hand_times(length: int, part: int) -> list[float]:
    """CPU milliseconds of what a step of a slider paints ahead of the run, each at another
    temperature: the last ``part`` rows and columns of a head, in the cells that a browser shows."""
    tiles, step, times = causal_head(length), 1, []
    while part / step > SHOWN:
        step *= 2
    place = slice((length - part) // step * step, length)
    for value in np.linspace(0.5, 5, STEPS):
        start = time.process_time()
        edits = Intervention((Temperature(value=float(value)),))
        EditedMap(tiles, tiles, edits, 0).quick(step, place, place)
        times.append(1e3 * (time.process_time() - start))
    return times


def tile_times() -> list[float]:
    """CPU milliseconds of tiles at random places of one causal head."""
    draw, tiles = np.random.default_rng(1), causal_head(LONGEST)
    times = []
    for first, last in draw.integers(0, LONGEST - SIDE, (SAMPLES, 2)):
        start = time.process_time()
        tiles.tile(0, slice(int(first), int(first) + SIDE), slice(int(last), int(last) + SIDE))
        times.append(1e3 * (time.process_time() - start))
    return times


def main(shape: str, way: str, length: str) -> None:
    torch.set_num_threads(1)
    shapes.LAYERS = LAYERS
    module, forward = SHAPES[shape]()
    call(module, forward, way, 64)()  # what the first call sets up once is no cost of the run
    run = call(module, forward, way, int(length))
    start = time.process_time()
    print(peak_growth(run), time.process_time() - start)


if __name__ == "__main__":
    main(*sys.argv[1:])
