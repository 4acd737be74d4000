"""Search: sources are read once, and hypotheses grow by one token per pass.

A pass over the finished text gives the same numbers. Keys and values of earlier tokens are cached
where valid (`decoding/key_value_cache.py`); else each step reads its whole prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from ..checkpoints.common.eyes import Seen
from ..checkpoints.common.model import Model
from ..core.interventions import Intervention
from ..core.search_tree import spoken_limit, usual_limit
from ..core.sites import Site
from .decoding.key_value_cache import CLOSE, ReadOn, forget, known_to_read_on
from .decoding.writing_rules import apply_rules
from .hearing import Heard
from .token_ids import padded_source

if TYPE_CHECKING:
    from ..capture import Capture
    from .donors import LentPasses

#: Called before each pass with the number of tokens so far and at most; its exceptions end the
#: search.
Tell = Callable[[int, int], None]

NEW_TOKENS = 40  # default length of a continuation


@dataclass(frozen=True)
class Path:
    """Generated tokens so far, the log-probability of each, and their sum."""

    ids: tuple[int, ...] = ()
    steps: tuple[float, ...] = ()
    total: float = 0.0

    def then(self, token: int, step: float) -> Path:
        return Path((*self.ids, token), (*self.steps, step), self.total + step)

    def ends(self, end_ids: Collection[int], limit: int) -> bool:
        """Return True if nothing follows its last token."""
        return self.ids[-1] in end_ids or len(self.ids) >= limit


class Witness(Protocol):
    """Observer of a search on one source; changes nothing."""

    def begin(self) -> None:
        """Discard everything recorded, since the search restarts."""

    def watched(self, site: Site) -> bool:
        """Return True if the weights of this site are needed."""

    def watch(self, capture: Capture | None) -> None:
        """Receive the capture of the passes, which grows with each pass."""

    def passed(self, paths: Sequence[Path], scores: Tensor) -> None:
        """Receive the log-probabilities ``[text, vocabulary]`` of a pass over these texts."""

    def judged(self, weighed: Sequence[Path], ended: Sequence[bool]) -> None:
        """Receive the ranked candidates, best first; the first ``len(ended)`` are kept.

        ``ended`` is True for each kept text that is finished.
        """

    def reviewed(self, path: Path) -> bool:
        """Check a pass over a whole text of the search, made without cache.

        Returns:
            True if it shows the recorded steps, or would have, had they been recorded.
        """


class Beams:
    """Hypotheses of one source: unfinished ones (``live``), and finished ones (``done``).

    ``parents`` ``[live text]`` is the index of each one's prefix in the pass before.
    """

    def __init__(
        self, beam: int, limit: int, end_ids: Collection[int], observer: Witness | None = None
    ):
        self.beam, self.limit, self.end_ids, self.observer = beam, limit, end_ids, observer
        self.live, self.done, self.parents = [Path()], list[Path](), [0]

    def grow(self, scores: Tensor) -> None:
        """Extend the best hypotheses, given ``[live text, vocabulary]`` log-probabilities."""
        if not self.live:
            return
        # candidates of a beam are among the `beam` best of their row
        best = scores.topk(min(self.beam, scores.shape[1]))
        values, tokens = best.values.tolist(), best.indices.tolist()
        grown = [
            (parent, path.then(token, step))
            for parent, path in enumerate(self.live)
            for token, step in zip(tokens[parent], values[parent], strict=True)
        ]
        grown.sort(key=lambda one: one[1].total, reverse=True)
        kept = grown[: self.beam - len(self.done)]
        ends = [path.ends(self.end_ids, self.limit) for _, path in kept]
        if self.observer is not None:
            self.observer.judged([path for _, path in grown], ends)
        on = [one for one, end in zip(kept, ends, strict=True) if not end]
        self.done += [path for (_, path), end in zip(kept, ends, strict=True) if end]
        self.parents, self.live = [parent for parent, _ in on], [path for _, path in on]


class Batch:
    """Sources, or one sound, that are encoded once and then decoded together.

    Paths are plain numbers between passes, so a probe follows nothing across passes. With ``keep``,
    keys and values are cached; they must have been verified. ``encode`` replaces the model's
    encoder, with equal results.
    """

    def __init__(
        self,
        model: Model,
        sources: list[list[int]] | Heard,
        intervention: Intervention | None,
        max_tokens: int | None,
        on_progress: Tell | None = None,
        observer: Witness | None = None,
        lent: LentPasses | None = None,
        *,
        keep: bool = False,
        encode: Callable[[Tensor, Tensor | None], Tensor] | None = None,
    ):
        self.model, self.on_progress, self.observer, self.lent = model, on_progress, observer, lent
        self.generates = model.kind == "decoder-only"
        self.seen: Seen | None = None  # a picture beside the text of every row
        self.texts = None if isinstance(sources, Heard) else sources
        self.sources: Tensor
        self.mask: Tensor | None = None
        if isinstance(sources, Heard):
            self.sources = sources.features
            self.limits = [limit_of(model, sources, max_tokens)]
            self.starts = [[model.bos_id]]
        else:
            self._padded(sources, intervention, max_tokens)
        calls = model.calls
        twofold = calls.encode is not None and calls.decode is not None and not self.generates
        twofold = twofold and lent is None  # patching needs both sentences in each pass
        encode = encode or calls.encode
        self.memory = encode(self.sources, self.mask) if twofold and encode else None
        self.reading: ReadOn | None = None
        if keep and calls.reader is not None:
            reader = calls.reader(self.memory, self.mask)
            self.reading = ReadOn(reader, self.starts, model.device)

    def _padded(
        self, sources: list[list[int]], intervention: Intervention | None, max_tokens: int | None
    ) -> None:
        """Pad ids of different lengths to one rectangle."""
        model = self.model
        padded = [padded_source(ids, intervention, model.pad_id) for ids in sources]
        rows, masks = zip(*padded, strict=True)
        self.sources = rectangle(rows, model.pad_id or 0, model.device)
        mask = rectangle(masks, False, model.device)
        # some modules take no mask, but visible padding requires one
        plain = bool(mask.all()) and list(map(len, rows)) == list(map(len, sources))
        self.mask = None if plain else mask
        self.limits = [limit_of(model, len(row), max_tokens) for row in rows]
        self.starts = list(rows) if self.generates else [[model.bos_id]] * len(rows)

    def logits(
        self, owners: list[int], prefixes: Sequence[Sequence[int]], *, last: bool = False
    ) -> Tensor:
        """Return logits ``[row, token, vocabulary]`` of these prefixes, each with its source.

        With ``last``, only those of the last token, which some models compute faster.
        """
        start = self.starts
        rows = [[*start[own], *ids] for own, ids in zip(owners, prefixes, strict=True)]
        given = torch.tensor(rows, device=self.model.device)
        owner = torch.tensor(owners, device=self.model.device)
        mask = None if self.mask is None else self.mask[owner]
        calls = self.model.calls
        if self.generates:
            if mask is not None:  # generated tokens are never padding
                mask = torch.nn.functional.pad(mask, (0, len(prefixes[0])), value=True)
            beside = {} if self.seen is None else {"seen": self.seen}
            whole = partial(calls.forward, given, None, mask, **beside)
            if self.lent is not None:
                return self.lent(whole, None, given[:, len(start[0]) :])
            return whole()
        decode = (last and calls.following) or calls.decode
        if self.memory is not None and decode is not None:
            return decode(given, self.memory[owner], mask)
        whole = partial(calls.forward, self.sources[owner], given, mask)
        return whole() if self.lent is None else self.lent(whole, given, None)

    def following(self, rows: list[tuple[int, Path]]) -> Tensor:
        """Return log-probabilities ``[row, vocabulary]`` of the next token of each path."""
        owners, paths = zip(*rows, strict=True)
        if self.on_progress is not None:
            self.on_progress(len(paths[0].ids), max(self.limits))
        prefixes = [path.ids for path in paths]
        if self.reading is not None:
            logits = self.reading.logits(list(owners), prefixes)
        else:
            logits = self.logits(list(owners), prefixes, last=True)
        return self.scored(logits, paths, owners)

    def scored(
        self, logits: Tensor, paths: Sequence[Path], owners: Sequence[int] | None = None
    ) -> Tensor:
        """Return log-probabilities ``[row, vocabulary]`` after paths of one length.

        ``logits`` are ``[row, token, vocabulary]``; only the last token's are used. ``owners`` are
        the indices of the paths' sources, by default the first.

        Raises:
            ValueError: The logits are NaN.
        """
        texts = [path.ids for path in paths]
        scores = self._allowed(logits[:, -1].float(), owners or [0] * len(texts), texts)
        scores = scores.log_softmax(-1)
        if bool(scores.isnan().any()):
            raise ValueError(
                "The model's output is not a number (NaN), so no word follows: its weights are not "
                "finite, or an edit made its numbers too large; give the edit a smaller value."
            )
        if self.observer is not None:
            self.observer.passed(paths, scores)
        return scores

    def _allowed(
        self, scores: Tensor, owners: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> Tensor:
        """Return scores ``[row, vocabulary]`` without the tokens that must not follow."""
        read = [self.starts[own] for own in owners]
        sources = None if self.texts is None else [self.texts[own] for own in owners]
        return apply_rules(self.model.config, scores, read, texts, self.model.end_ids, sources)

    def search(self, beam: int) -> list[list[Path]]:
        """Return up to ``beam`` paths of each source; a finished one frees its place."""
        beams = [self.beams(beam, limit) for limit in self.limits]
        while any(one.live for one in beams):
            rows = [(own, path) for own, one in enumerate(beams) for path in one.live]
            scores = self.following(rows)
            for one in beams:
                mine, scores = scores[: len(one.live)], scores[len(one.live) :]
                one.grow(mine)
        return [one.done for one in beams]

    def beams(self, beam: int, limit: int) -> Beams:
        """Return a new search of one source, of at most ``limit`` tokens."""
        return Beams(beam, limit, self.model.end_ids, self.observer)

    def confirms(self, found: list[list[Path]]) -> bool:
        """Return True if the paths of the longest source get the same numbers uncached.

        The reference model is covered by tests. In other modules, a longer text may show more than
        the few tokens tested; then the cache is disabled.
        """
        if known_to_read_on(self.model):
            return True
        owner = max(range(len(found)), key=lambda own: len(found[own][0].ids))
        return self.gives(found[owner], owner)

    def gives(self, paths: Sequence[Path], owner: int = 0) -> bool:
        """Return True if a pass over each of these texts gives its numbers.

        Otherwise the cache is disabled.
        """
        if all(self._agrees(path, owner) for path in paths):  # one by one: a beam may hold many
            return True
        forget(self.model)
        return False

    def _agrees(self, path: Path, owner: int) -> bool:
        if self.on_progress is not None:
            self.on_progress(len(path.ids), max(self.limits))
        rows = self.logits([owner], [path.ids[:-1]])[0, -len(path.ids) :].float()
        scores = torch.stack(
            [
                self._allowed(row[None], [owner], [path.ids[:step]]).log_softmax(-1)[0]
                for step, row in enumerate(rows)
            ]
        )
        steps = scores.gather(-1, torch.tensor(path.ids, device=scores.device)[:, None])[:, 0]
        kept = torch.tensor(path.steps, device=steps.device)
        largest = scores.nan_to_num(0, 0, 0).abs().max().clamp(min=1)  # banned tokens have -inf
        return bool((steps - kept).abs().max() <= CLOSE * largest)

    def sample(self, temperature: float, seed: int) -> Path:
        """Return one path of the first source, sampled token by token."""
        random = torch.Generator().manual_seed(seed)  # on the CPU: equal results on any device
        path = Path()
        while not path.ids or not path.ends(self.model.end_ids, self.limits[0]):
            values = self.following([(0, path)])[0].double().cpu()
            token = int(torch.multinomial(drawing(values, temperature), 1, generator=random))
            path = path.then(token, float(values[token]))
            if self.observer is not None:
                self.observer.judged([path], [path.ends(self.model.end_ids, self.limits[0])])
        return path

    def score(self, ids: list[int]) -> Path:
        """Return given tokens as a path of the first source, from one forced pass.

        A forced first token costs nothing, as in a search.
        """
        rows = self.logits([0], [ids[:-1]])[0, -len(ids) :].float()
        if ids[0] == self.model.config.get("forced_bos_token_id"):
            rows[0] = self._allowed(rows[:1], [0], [()])[0]
        rows = rows.log_softmax(-1)
        steps = rows.gather(-1, torch.tensor(ids, device=rows.device)[:, None]).flatten().tolist()
        return Path(tuple(ids), tuple(steps), sum(steps))


def drawing(values: Tensor, temperature: float) -> Tensor:
    """Return the sampling probability of each token at a temperature.

    Args:
        values: Log-probabilities ``[..., vocabulary]``.
        temperature: Above 0; divides them before another softmax.

    Returns:
        ``[..., vocabulary]`` float64; sums to 1.
    """
    values = values.double()
    # relative to the largest: a tiny temperature gives -inf, never inf - inf
    return torch.softmax((values - values.amax(-1, keepdim=True)) / temperature, dim=-1)


def edited(
    model: Model,
    source: list[int] | Heard,
    intervention: Intervention | None,
    watched: Callable[[Site], bool] | None = None,
) -> AbstractContextManager[Capture | LentPasses | None]:
    """Return a context for the edits of a run's forward passes; a null context for a clean run.

    With patching edits, each pass gets its own probe (`LentPasses`). A ``pad`` edit changes the
    input, not the pass: :func:`padded_source` applies it. ``watched`` selects the sites whose
    weights are kept; with it a clean run is captured too.
    """
    edits = (intervention or Intervention()).of_the_pass()
    if not edits and watched is None:
        return nullcontext()
    from ..capture import Capture, CaptureRequest, probe
    from .donors import LentPasses, lends

    padded: list[int] = []
    if isinstance(source, Heard):
        special = source.tokens.special
    else:
        padded, _ = padded_source(source, intervention, model.pad_id)
        special = model.tokenizer.tokens(padded).special
    own = "decoder" if model.kind == "decoder-only" else "encoder"
    # a shuffle of positions leaves special tokens in place, also the decoder's start
    marks = {"decoder": (True,), own: special}
    weights = watched or (lambda _: False)
    request = CaptureRequest(
        weights=weights,
        statistics=False,
        norms=False,
        residuals=False,
        stack=own,
        special=marks,
    )
    if lends(edits):
        seen = None if watched is None else Capture(request)
        return nullcontext(LentPasses(model, edits, padded, request, seen))
    return probe(model.module, edits, request)


def limit_of(model: Model, source: int | Heard, max_tokens: int | None) -> int:
    """Return the maximum number of tokens to generate for a source length, or for a sound."""
    read = 1
    if isinstance(source, Heard):
        usual = spoken_limit(source.seconds) + len(model.config.get("opening_ids", ()))
    elif model.kind == "decoder-only":
        usual, read = NEW_TOKENS, source
    else:
        usual = usual_limit(source)
    wanted = max_tokens or usual
    if model.max_tokens is None:
        return wanted
    # the last token is never read, so it needs no position
    room = model.max_tokens + 1 - read
    return max(1, min(wanted, room))


def rectangle(rows: Sequence[Sequence[int]], fill: int, device: str) -> Tensor:
    """Return rows of different length as one tensor ``[row, token]``, padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], device=device)
