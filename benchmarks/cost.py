"""Measure the cost of traces, explanations, rankings, swaps and opening at real model sizes.

Run as a program with a task, a shape, a type of number and a length, it prints its figures as JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

import transformer_viz as tv
from benchmarks.measure import peak_growth
from benchmarks.report import Budget, Section

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LENGTHS = (12, 128, 1000)
MOST_FIRST, MOST_LATER = 8, 3  # forward passes of a default trace, DESIGN section 4
MEGABYTE = 1e6
LEAST = 2.0  # seconds of an eager pass from which it is timed once and not five times


def gpt2_small() -> nn.Module:
    """Return 124 million random weights in GPT-2 small's shape."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def qwen_half() -> nn.Module:
    """Return 494 million random weights in the shape of Qwen 2.5 0.5B."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config)


def llama_one() -> nn.Module:
    """Return 1.24 billion random weights in the shape of Llama 3.2 1B."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


SHAPES: dict[str, Callable[[], nn.Module]] = {
    "GPT-2 small": gpt2_small,
    "0.5B": qwen_half,
    "1B": llama_one,
}


def made(shape: str, kind: str) -> nn.Module:
    """Return a shape with random weights in a type of number, ready to run."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(TYPES[kind])
    try:
        return SHAPES[shape]().eval()
    finally:
        torch.set_default_dtype(before)


def ids_of(length: int, seed: int) -> list[int]:
    """Return token ids that every shape knows."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, 50_000, (length,), generator=generator).tolist()


class Passes:
    """Counts the forward passes of a module."""

    def __init__(self, module: nn.Module):
        self.count = 0
        module.register_forward_pre_hook(self._note)

    def _note(self, *_: Any) -> None:
        self.count += 1

    def of(self, call: Callable[[], Any]) -> dict[str, Any]:
        """Return the passes, the seconds and the peak growth of memory of a call."""
        trim()
        self.count, found = 0, []
        start = time.process_time()
        grown = peak_growth(lambda: found.append(call()))
        return {
            "passes": self.count,
            "seconds": time.process_time() - start,
            "grown": grown,
            "value": found.pop(),
        }


def trim() -> None:
    """Give memory that nothing uses back to the system, so that growth starts from what is used."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def eager_seconds(module: nn.Module, length: int) -> float:
    """Return the seconds of one forward pass without anything that watches it."""
    ids = torch.tensor([ids_of(length, 1)])

    def run() -> float:
        start = time.process_time()
        with torch.no_grad():
            module(ids, use_cache=False)
        return time.process_time() - start

    run()
    first = run()
    return first if first > LEAST else median([first, *(run() for _ in range(4))])


def kept_bytes(trace: tv.Trace) -> int:
    """Return the bytes of the arrays that a trace holds."""
    arrays = [one.weights for one in trace.attentions] + [trace.logits, trace.output]
    arrays += list(trace.thumbnails.values())
    return sum(array.nbytes for array in arrays if array is not None)


def traces(shape: str, kind: str, length: int) -> dict[str, Any]:
    """Return the figures of the first and the second default trace of a module."""
    module = made(shape, kind)
    eager = eager_seconds(module, length)
    passes, model = Passes(module), tv.load(module)
    tv.trace(model, ids_of(6, 0), check=False)  # what is imported once is no cost of a trace
    found: dict[str, Any] = {"eager": eager}
    for name, seed in (("first", 1), ("second", 2)):
        one = passes.of(lambda seed=seed: tv.trace(model, ids_of(length, seed)))
        trace = one.pop("value")
        one["kept"] = kept_bytes(trace)
        maps = sum(block.weights.nbytes for block in trace.attentions)
        found[name] = one | {"colour": trace.report.status, "maps": maps}
        found[name]["why"] = [*trace.report.untold, trace.report.left_out][:3]
    return found


def measures(shape: str, kind: str, length: int) -> dict[str, Any]:
    """Return the figures of the first and the second call of explain, rank and swap."""
    module = made(shape, kind)
    passes, model = Passes(module), tv.load(module)
    found: dict[str, Any] = {"eager": eager_seconds(module, length)}
    tv.trace(model, ids_of(6, 0), check=False)
    calls = {
        "explain": lambda seed: tv.explain(model, ids_of(length, seed)),
        "rank": lambda seed: tv.rank(model, [ids_of(length, seed), ids_of(length, seed + 1)]),
        "swap": lambda seed: tv.swap(model, ids_of(length, seed), ids_of(length, seed + 1)),
    }
    for name, call in calls.items():
        for number, seed in (("first", 1), ("second", 3)):
            one = passes.of(lambda call=call, seed=seed: call(seed))
            del one["value"]
            found[f"{name} {number}"] = one
            print(name, number, one, file=sys.stderr, flush=True)
    return found


class Anonymous:
    """The most memory that is no page of a file, looked at every few milliseconds."""

    def __init__(self) -> None:
        self.most, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Anonymous:
        self.before = self._now()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def grown(self) -> int:
        """Return the bytes above those of the beginning."""
        return self.most - self.before

    def _look(self) -> None:
        while not self._over.wait(0.002):
            self.most = max(self.most, self._now())

    @staticmethod
    def _now() -> int:
        words = Path("/proc/self/status").read_text().splitlines()
        return sum(int(x.split()[1]) * 1024 for x in words if x.startswith(("RssAnon", "RssShmem")))


def opened(way: str, folder: str, dtype: str) -> dict[str, Any]:
    """Return the figures of opening a folder: with `tv.load`, or with transformers."""
    import transformers  # noqa: F401  (both ways need it)
    from transformers import AutoModelForCausalLM

    def open_it() -> Any:
        if way == "load":
            return tv.load(folder, dtype=None if dtype == "none" else dtype)
        kind = TYPES["float32"] if dtype == "none" else dtype
        return AutoModelForCausalLM.from_pretrained(folder, dtype=kind)

    trim()
    kept, start, used = [], time.perf_counter(), time.process_time()
    with Anonymous() as own:
        grown = peak_growth(lambda: kept.append(open_it()))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    module = kept[0].module if way == "load" else kept[0]
    unique = {p.data_ptr(): p.nbytes for p in module.parameters()}
    return {
        "seconds": seconds,
        "cpu": used,
        "grown": grown,
        "anonymous": own.grown,
        "weights": sum(unique.values()),
        "notes": list(kept[0].notes) if way == "load" else [],
    }


def run(*words: str, threads: int = 1) -> dict[str, Any]:
    """Return what this program prints for these words, run in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cost", *words]
    env = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def cost(quick: bool = False) -> Section:
    """Default traces of models of real size: passes, time over one eager pass, memory, colour."""
    table = [("model", "type", "T", "eager, s", "trace", "passes", "x eager", "kept", "above", "")]
    budgets = []
    for shape in ("GPT-2 small",) if quick else SHAPES:
        for kind in TYPES:
            for length in LENGTHS if shape == "GPT-2 small" and not quick else LENGTHS[:2]:
                found = run("traces", shape, kind, str(length))
                for name, limit in (("first", MOST_FIRST), ("second", MOST_LATER)):
                    table.append(row(shape, kind, length, name, found))
                    what = f"passes of the {name} trace, {shape}, {kind}, T={length}"
                    budgets.append(Budget(what, found[name]["passes"], limit))
    notes = (
        "Random weights, batch of one, one thread. First: the first default trace of a module; "
        "second: of another text. Above: peak resident memory during the call, less what was "
        "resident before it and less the arrays that the trace keeps (maps, logits, thumbnails)."
    )
    return Section("Cost on models of real size", notes, table, budgets)


def row(shape: str, kind: str, length: int, name: str, found: dict[str, Any]) -> tuple[str, ...]:
    """Return a line of the table of traces."""
    one = found[name]
    above = one["grown"] - one["kept"]
    return (
        *(shape, kind, str(length), f"{found['eager']:.2f}", name, str(one["passes"])),
        f"{one['seconds'] / found['eager']:.1f}",
        f"{one['kept'] / MEGABYTE:,.0f} MB",
        f"{above / MEGABYTE:,.0f} MB",
        one["colour"],
    )


def main(task: str, *words: str) -> None:
    """Print the figures of one task."""
    if task == "opening":
        print(json.dumps(opening(*words)))
        return
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if task == "save":
        made(words[0], words[1]).save_pretrained(words[2])
        return
    if task == "opened":
        print(json.dumps(opened(*words)))
        return
    shape, kind, length = words
    print(json.dumps({"traces": traces, "measures": measures}[task](shape, kind, int(length))))


def opening(shape: str, kind: str) -> dict[str, dict[str, Any]]:
    """Return the figures of opening one folder, with `tv.load` and beside it with transformers."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.cost", "save", shape, kind, folder]
        subprocess.run(command, check=True)
        ways = [(way, dtype) for dtype in ("none", "auto") for way in ("load", "transformers")]
        for way, dtype in ways[:2]:  # both read the file from the memory of the system
            run("opened", way, folder, dtype)
        return {f"{way} {dtype}": run("opened", way, folder, dtype) for way, dtype in ways}


if __name__ == "__main__":
    main(*sys.argv[1:])
