"""Generation rules: the tokens that a model's generation config allows next, as in the library.

The keys are those of the model's config, see `checkpoints.hugging_face.special_tokens`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

RULES = (
    *("opening_ids", "forced_bos_token_id", "banned_ids", "banned_first_ids", "banned_words"),
    *("min_length", "min_new_tokens", "no_repeat_ngram_size", "repetition_penalty"),
    "encoder_no_repeat_ngram_size",
)


def apply_rules(
    config: Mapping[str, Any],
    scores: Tensor,
    read: Sequence[Sequence[int | None]],
    written: Sequence[Sequence[int]],
    ends: Collection[int],
    sources: Sequence[Sequence[int]] | None = None,
) -> Tensor:
    """Return scores ``[row, vocabulary]`` with -inf for tokens that must not follow.

    Args:
        config: Config of the model.
        scores: Logits ``[row, vocabulary]`` of the next token.
        read: Tokens of each row before generation: a start token, a prompt.
        written: Generated tokens of each row, equally many.
        ends: Tokens that end a text.
        sources: Source ids of each row; None for a sound.
    """
    if not any(word in config for word in RULES):
        return scores
    step = len(written[0])
    opening, forced = config.get("opening_ids", ()), config.get("forced_bos_token_id")
    if step < len(opening):
        return _only(scores, opening[step])
    forces = len(read[0]) == 1  # as in the library, which forces nothing after a prompt
    if forced is not None and forces and not step:
        return _only(torch.zeros_like(scores), [forced])
    banned = [*config.get("banned_ids", ())]
    if step == len(opening) + (forced is not None and forces):
        banned += config.get("banned_first_ids", ())
    if step < config.get("min_new_tokens", 0) or (
        len(read[0]) + step < config.get("min_length", 0)
    ):
        banned += ends
    words = config.get("banned_words", ())
    size, penalty = config.get("no_repeat_ngram_size", 0), config.get("repetition_penalty", 1)
    width = config.get("encoder_no_repeat_ngram_size", 0)
    scores = scores.clone()
    for number, (row, before, own) in enumerate(zip(scores, read, written, strict=True)):
        text = [token for token in (*before, *own) if token is not None]
        if penalty != 1:
            seen = torch.tensor(sorted(set(text)), device=row.device)
            values = row[seen]
            row[seen] = torch.where(values < 0, values * penalty, values / penalty)
        out = banned + [word[-1] for word in words if text[-len(word) + 1 :] == word[:-1]]
        out += repeated(text, text, size) + repeated(
            sources[number] if sources else (), text, width
        )
        row[[token for token in out if token < len(row)]] = -torch.inf
    return scores


def repeated(known: Sequence[int], text: Sequence[int], size: int) -> list[int]:
    """Return the tokens that would make ``size`` tokens at a text's end a copy of known ones."""
    if not 0 < size <= len(text) + 1:
        return []
    last = list(text[len(text) - size + 1 :])
    runs = (known[n : n + size] for n in range(len(known) - size + 1))
    return [run[-1] for run in runs if list(run[:-1]) == last]


def _only(scores: Tensor, ids: list[int]) -> Tensor:
    """Return scores ``[row, vocabulary]`` with -inf for all but these ids."""
    left = torch.full_like(scores, -torch.inf)
    left[:, ids] = scores[:, ids]
    return left
