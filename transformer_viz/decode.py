"""From a source to words: greedy, beam search, sampling, or a target that is given.

No step keeps keys and values of the one before: each recomputes its whole prefix, so an edit of
the run acts on every word alike, and one pass over the finished words gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from .checkpoints.model import Model
from .inputs import padded_source, source_ids, target_ids
from .interventions import Intervention
from .text import target_side

#: Hears, before each pass, how many tokens there are and how many there may be; what it raises
#: ends the search.
Tell = Callable[[int, int], None]

#: Vaswani et al. 2017, section 6.1, take 0.6; on our validation pairs 1.0 gave a little more BLEU.
LENGTH_PENALTY = 1.0
NEW_TOKENS = 40  # how far a text is continued when nobody says
WIDEST = 1000  # hypotheses of a beam; more would fill the memory


@dataclass(frozen=True)
class Hypothesis:
    """A text that was produced, or given and scored.

    ``ids`` without the start token, with the end token if it was reached (``finished``);
    ``steps`` the natural log-probability of each of them; ``score`` their sum divided by
    ``((5 + length) / 6) ** length_penalty`` (Wu et al. 2016, equation 14, without coverage), so
    that long texts are not beaten by short ones only because they have more factors. A penalty
    of 0 leaves the plain sum.
    """

    ids: tuple[int, ...]
    text: str
    score: float
    steps: tuple[float, ...]
    finished: bool

    @property
    def log_probability(self) -> float:
        """The sum over all steps: how likely the model finds the whole text."""
        return sum(self.steps)


def translate(
    model: Model,
    source: str | Sequence[int],
    beam: int = 1,
    sample: float | None = None,
    intervention: Intervention | None = None,
    *,
    max_tokens: int | None = None,
    length_penalty: float = LENGTH_PENALTY,
    seed: int = 0,
    target: str | Sequence[int] | None = None,
    tell: Tell | None = None,
) -> list[Hypothesis]:
    """Translate one source, or let a GPT-like model go on from it; the best hypothesis first.

    ``beam`` 1 is greedy; a larger one keeps that many hypotheses, and one that ends gives its
    place up, so a search ends with ``beam`` hypotheses and needs no rule when to stop. ``sample``
    draws at random at this temperature (of the output; 0 is greedy) instead, the same words for
    the same ``seed``. ``target`` scores a text instead of searching for one: text gets the end
    token, ids are the decoder's input (start token included) and end where they end. A GPT-like
    model appends it to the source, and its hypotheses hold only what is new.

    ``max_tokens`` limits the length; left out, 1.4 tokens for each of the source and 8 more, or
    40 new ones for a GPT-like model.

    ``tell`` hears, before each pass of a search, how many tokens there are and how many there may
    be. What it raises comes out here, and nothing of the search is left behind.

    Raises:
        ValueError: the model has no decoder or start token, the input does not fit, or the
            choices exclude each other; says which.
    """
    _check(model, beam, sample, max_tokens)
    ids = source_ids(model, source)
    with torch.inference_mode(), _edited(model, ids, intervention):
        batch = _Batch(model, [ids], intervention, max_tokens, tell)
        if target is not None:
            found = [batch.score(_forced_ids(model, target))]
        elif sample:
            found = [batch.sample(sample, seed)]
        else:
            found = batch.search(beam)[0]
    return _ranked(model, ids, found, length_penalty)


def translate_lines(
    model: Model,
    lines: Sequence[str],
    beam: int = 4,
    batch: int = 32,
    *,
    length_penalty: float = LENGTH_PENALTY,
    intervention: Intervention | None = None,
    tell: Callable[[int], None] | None = None,
) -> list[Hypothesis]:
    """The best hypothesis of each line, many lines at a time; the same as one by one.

    Lines of like length share a batch. Where rows cannot share a pass (an edit, a GPT-like
    model) each line runs alone. ``tell`` hears how many lines are done.

    Raises:
        ValueError: as :func:`translate`.
    """
    _check(model, beam, None, None)
    if intervention or model.kind == "decoder-only":
        batch = 1
    sources = [source_ids(model, line) for line in lines]
    order = sorted(range(len(lines)), key=lambda i: len(sources[i]))
    best: dict[int, Hypothesis] = {}
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        rows = [sources[i] for i in chosen]
        with torch.inference_mode(), _edited(model, rows[0], intervention):
            found = _Batch(model, rows, intervention, None).search(beam)
        for i, paths in zip(chosen, found, strict=True):
            best[i] = _ranked(model, sources[i], paths, length_penalty)[0]
        if tell is not None:
            tell(len(best))
    return [best[i] for i in range(len(lines))]


@dataclass(frozen=True)
class _Path:
    """Tokens produced so far, the log-probability of each, and their sum."""

    ids: tuple[int, ...] = ()
    steps: tuple[float, ...] = ()
    total: float = 0.0

    def then(self, token: int, step: float) -> _Path:
        return _Path((*self.ids, token), (*self.steps, step), self.total + step)


class _Batch:
    """Some sources that are read once and then decoded together.

    Paths are plain numbers between two passes, so what a probe follows through a pass ends there.
    """

    def __init__(
        self,
        model: Model,
        sources: list[list[int]],
        intervention: Intervention | None,
        max_tokens: int | None,
        tell: Tell | None = None,
    ):
        padded = [padded_source(ids, intervention, model.pad_id) for ids in sources]
        rows, masks = zip(*padded, strict=True)
        self.model, self.tell = model, tell
        self.sources = _rectangle(rows, model.pad_id or 0, model.device)
        mask = _rectangle(masks, False, model.device)
        # some modules take no mask; but padding that is to be seen must be said
        plain = bool(mask.all()) and list(map(len, rows)) == list(map(len, sources))
        self.mask = None if plain else mask
        self.limits = [_limit(model, len(row), max_tokens) for row in rows]
        self.generates = model.kind == "decoder-only"
        self.starts = rows if self.generates else [[model.bos_id]] * len(rows)
        calls = model.calls
        twofold = calls.encode is not None and calls.decode is not None and not self.generates
        self.memory = calls.encode(self.sources, self.mask) if twofold and calls.encode else None

    def logits(self, owners: list[int], prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Logits ``[row, token, vocabulary]`` of what was produced so far, for each its source."""
        start = self.starts
        rows = [[*start[own], *ids] for own, ids in zip(owners, prefixes, strict=True)]
        given = torch.tensor(rows, device=self.model.device)
        owner = torch.tensor(owners, device=self.model.device)
        mask = None if self.mask is None else self.mask[owner]
        calls = self.model.calls
        if self.generates:
            if mask is not None:  # what the model wrote itself is never padding
                mask = torch.nn.functional.pad(mask, (0, len(prefixes[0])), value=True)
            return calls.forward(given, None, mask)
        if self.memory is not None and calls.decode is not None:
            return calls.decode(given, self.memory[owner], mask)
        return calls.forward(self.sources[owner], given, mask)

    def following(self, rows: list[tuple[int, _Path]]) -> Tensor:
        """Log-probabilities ``[row, vocabulary]`` of the token that follows each path."""
        owners, paths = zip(*rows, strict=True)
        if self.tell is not None:
            self.tell(len(paths[0].ids), max(self.limits))
        logits = self.logits(list(owners), [path.ids for path in paths])
        scores = self._allowed(logits[:, -1].float(), first=not paths[0].ids).log_softmax(-1)
        if bool(scores.isnan().any()):
            raise ValueError(
                "The model's output is not a number (NaN), so no word follows: its weights are not "
                "finite, or an edit made its numbers too large; give the edit a smaller value."
            )
        return scores

    def _allowed(self, scores: Tensor, first: bool) -> Tensor:
        """Scores ``[row, vocabulary]`` without the tokens that this model is never to write.

        Some Hugging Face configs name such tokens, and one that every text must begin with.
        """
        config = self.model.config
        banned, forced = config.get("banned_ids"), config.get("forced_bos_token_id")
        if banned:
            scores = scores.index_fill(1, torch.tensor(banned, device=scores.device), -torch.inf)
        if first and forced is not None:
            only = torch.full_like(scores, -torch.inf)
            only[:, forced] = 0.0
            return only
        return scores

    def search(self, beam: int) -> list[list[_Path]]:
        """Up to ``beam`` paths of each source; one that ends gives its place in the beam up."""
        done: list[list[_Path]] = [[] for _ in self.limits]
        live = [[_Path()] for _ in self.limits]
        while any(live):
            rows = [(own, path) for own, paths in enumerate(live) for path in paths]
            scores = self.following(rows)
            # no candidate of a beam can be beyond the `beam` best of its own row
            values, tokens = (part.tolist() for part in scores.topk(min(beam, scores.shape[1])))
            grown: list[list[_Path]] = [[] for _ in live]
            for (own, path), steps, ids in zip(rows, values, tokens, strict=True):
                grown[own] += [path.then(t, step) for t, step in zip(ids, steps, strict=True)]
            for own, paths in enumerate(grown):
                paths.sort(key=lambda path: path.total, reverse=True)
                best = paths[: beam - len(done[own])]
                ends = [self._ends(path, self.limits[own]) for path in best]
                done[own] += [path for path, end in zip(best, ends, strict=True) if end]
                live[own] = [path for path, end in zip(best, ends, strict=True) if not end]
        return done

    def _ends(self, path: _Path, limit: int) -> bool:
        return path.ids[-1] == self.model.eos_id or len(path.ids) >= limit

    def sample(self, temperature: float, seed: int) -> _Path:
        """One path of the first source, drawn token by token."""
        random = torch.Generator().manual_seed(seed)  # on the CPU: the same words on any device
        path = _Path()
        while not path.ids or not self._ends(path, self.limits[0]):
            values = self.following([(0, path)])[0].double().cpu()
            # from the largest down: a tiny temperature divides to -inf, never to inf - inf
            chances = torch.softmax((values - values.max()) / temperature, dim=-1)
            token = int(torch.multinomial(chances, 1, generator=random))
            path = path.then(token, float(values[token]))
        return path

    def score(self, ids: list[int]) -> _Path:
        """Given tokens as the path of the first source, from one forced pass."""
        rows = self.logits([0], [ids[:-1]])[0, -len(ids) :].float().log_softmax(-1)
        steps = rows.gather(-1, torch.tensor(ids, device=rows.device)[:, None]).flatten().tolist()
        return _Path(tuple(ids), tuple(steps), sum(steps))


def generate(
    model: Model,
    source: str | Sequence[int],
    beam: int = 1,
    sample: float | None = None,
    intervention: Intervention | None = None,
    *,
    max_tokens: int | None = None,
    length_penalty: float = LENGTH_PENALTY,
    seed: int = 0,
    tell: Tell | None = None,
) -> list[Hypothesis]:
    """Go on with a text: :func:`translate` for GPT-like models alone.

    Raises:
        ValueError: the model is not decoder-only; or as :func:`translate`.
    """
    if model.kind != "decoder-only":
        raise ValueError(
            f"{model.name} is {model.kind}; only a decoder-only model goes on with a text. "
            "Use translate for a model with encoder and decoder."
        )
    return translate(
        model,
        source,
        beam,
        sample,
        intervention,
        max_tokens=max_tokens,
        length_penalty=length_penalty,
        seed=seed,
        tell=tell,
    )


def length_norm(length: int, penalty: float) -> float:
    """What a sum of ``length`` log-probabilities is divided by (Wu et al. 2016, equation 14)."""
    return float(((5 + length) / 6) ** penalty)


def _check(model: Model, beam: int, sample: float | None, max_tokens: int | None) -> None:
    if model.kind == "encoder-only":
        raise ValueError(f"{model.name} has no decoder, so it produces no text; trace it instead.")
    if model.gives != "words":
        raise ValueError(
            f"{model.name} gives {model.gives} and no words, so it produces no text; trace it "
            "instead."
        )
    if model.kind == "encoder-decoder" and model.bos_id is None:
        raise ValueError(f"{model.name} names no start token; load it with bos_id=.")
    if beam < 1:
        raise ValueError(f"A beam holds at least 1 hypothesis; got beam={beam}.")
    if beam > WIDEST:
        raise ValueError(f"A beam holds at most {WIDEST} hypotheses; got beam={beam}.")
    if sample is not None and (beam > 1 or not 0 <= sample < float("inf")):
        raise ValueError(
            f"sample is a temperature from 0 and goes without a beam; got sample={sample}, "
            f"beam={beam}. Leave one of them out."
        )
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens is a number from 1; got {max_tokens}.")


def _edited(
    model: Model, source: list[int], intervention: Intervention | None
) -> AbstractContextManager[object]:
    """The edits of a run around its forward passes; nothing at all around a clean run.

    A ``pad`` edit changes the input, not the pass: :func:`padded_source` applies it.
    """
    edits = (intervention or Intervention()).of_the_pass()
    if not edits:
        return nullcontext()
    from .watch import Want, probe

    padded, _ = padded_source(source, intervention, model.pad_id)
    own = "decoder" if model.kind == "decoder-only" else "encoder"
    # a shuffle of positions leaves special tokens where they are, also the decoder's start
    special = {"decoder": (True,), own: model.tokenizer.tokens(padded).special}
    want = Want(weights=lambda _: False, norms=False, residuals=False, stack=own, special=special)
    return probe(model.module, edits, want)


def _limit(model: Model, source: int, max_tokens: int | None) -> int:
    """How many tokens may be produced for a source of this many tokens."""
    generates = model.kind == "decoder-only"
    wanted = max_tokens or (NEW_TOKENS if generates else int(1.4 * source) + 8)
    if model.max_tokens is None:
        return wanted
    # the last token produced is never read, so it needs no position
    room = model.max_tokens + 1 - (source if generates else 1)
    return max(1, min(wanted, room))


def _forced_ids(model: Model, target: str | Sequence[int]) -> list[int]:
    """The tokens that a given target scores."""
    ids = target_ids(model, target)
    if model.kind == "encoder-decoder" or (isinstance(target, str) and ids[0] == model.bos_id):
        ids = ids[1:]  # the start token is read, not produced
    if isinstance(target, str) and model.kind == "encoder-decoder" and model.eos_id is not None:
        ids = [*ids, model.eos_id]
    if not ids:
        raise ValueError("The target has a start token and nothing after it; give more tokens.")
    return ids


def _ranked(
    model: Model, source: list[int], found: list[_Path], penalty: float
) -> list[Hypothesis]:
    """Paths as hypotheses, the best score first."""

    def text(ids: tuple[int, ...]) -> str:
        if model.kind != "decoder-only":
            return target_side(model.tokenizer).decode(ids)
        # read with the prompt before it, so that a space between the two is kept
        whole, start = model.tokenizer.decode([*source, *ids]), model.tokenizer.decode(source)
        return whole[len(start) :] if whole.startswith(start) else model.tokenizer.decode(ids)

    made = [
        Hypothesis(
            ids=path.ids,
            text=text(path.ids),
            score=path.total / length_norm(len(path.ids), penalty),
            steps=path.steps,
            finished=path.ids[-1] == model.eos_id,
        )
        for path in found
    ]
    return sorted(made, key=lambda hypothesis: hypothesis.score, reverse=True)


def _rectangle(rows: Sequence[Sequence[int]], fill: int, device: str) -> Tensor:
    """Rows of different length as one tensor ``[row, token]``, filled up at the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], device=device)
