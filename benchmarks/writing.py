"""Generated tokens of a model of GPT-2's shape, beside the library's own generation."""

from __future__ import annotations

import torch

from benchmarks.measure import Timing, interleaved
from benchmarks.report import Budget, Section
from transformer_viz import load
from transformer_viz.inference.generation import translate
from transformer_viz.inference.search_recorder import record

PROMPT, TOKENS, BEAM_TOKENS, BEAM = 20, 200, 40, 4
PLAIN, WITH_ROWS = 1.2, 1.5  # goals of ours, not of DESIGN


def writing(quick: bool = False) -> Section:
    """CPU time of greedy and beam search, with nothing watched and with the rows of every step."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    # no token ends a text, so that all write equally many
    module = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None)).eval()
    model = load(module, device="cpu")
    prompt = torch.arange(100, 100 + PROMPT)[None]

    def library(tokens: int, beam: int) -> object:
        with torch.inference_mode():
            return module.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=tokens,
                num_beams=beam,
                do_sample=False,
                use_cache=True,
                pad_token_id=0,
            )

    def timed(beam: int, tokens: int) -> dict[str, Timing]:
        ids = prompt[0].tolist()
        calls = {
            "generate of transformers": lambda: library(tokens, beam),
            "nothing watched": lambda: translate(model, ids, beam, max_tokens=tokens),
            "rows of every step": lambda: record(model, ids, beam, max_tokens=tokens),
        }
        return interleaved(calls, 1 if quick else 5)

    short = 10 if quick else 1
    searches = {
        f"greedy, {TOKENS // short} tokens": timed(1, TOKENS // short),
        f"beam {BEAM}, {BEAM_TOKENS // short} tokens": timed(BEAM, BEAM_TOKENS // short),
    }
    table = [("search", "call", "CPU s, median", "fastest", "factor")]
    table += [
        (
            search,
            call,
            f"{t.middle:.2f}",
            f"{t.least:.2f}",
            f"x{t.factor:.2f} ({t.factor_least:.2f})",
        )
        for search, times in searches.items()
        for call, t in times.items()
    ]
    greedy, times = next(iter(searches.items()))
    budgets = [
        Budget(f"{greedy}, {call}, over generate (our own goal)", times[call].factor, limit, "x")
        for call, limit in (("nothing watched", PLAIN), ("rows of every step", WITH_ROWS))
    ]
    notes = (
        f"GPT-2-small's shape, random weights, {PROMPT} tokens before, one thread, the library's "
        "cache in all three. Ours is shown to be right by one more pass over the finished text "
        "that keeps nothing. Factors: median of neighbouring runs (in brackets: fastest against "
        "fastest)."
    )
    return Section("Writing", notes, table, budgets)
