"""Activation patching: donor runs for patching edits, and stored means for mean ablation.

A patch comes from a clean run on another sentence. This donor run reads the same target tokens (or,
in a GPT-like model, the same continuation) as the edited run, so both differ in the source only.
Source tokens are matched by `core/editing/token_match.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..capture import Capture, CaptureRequest, probe
from ..capture.donations import OUTPUTS, PATTERNS, STREAM, Donation
from ..capture.records import AttentionRecord
from ..checkpoints.common.model import Model
from ..core.editing.token_match import matched, unmatched
from ..core.interventions import (
    LENT,
    Edit,
    Intervention,
    MeanHead,
    Swap,
    SwapHead,
    SwapPattern,
    SwapStream,
)
from ..core.sites import Site
from .head_means import find
from .token_ids import ids_and_segments

Source = str | tuple[int, ...] | tuple[str, str]


@dataclass(frozen=True)
class Other:
    """Donor sentence, aligned to the edited one.

    Attributes:
        ids: Token ids of the donor sentence.
        counterparts: Index in ``ids`` of each edited token's counterpart, or None.
        segments: Text index of each token, for a pair of texts.
    """

    ids: tuple[int, ...]
    counterparts: tuple[int | None, ...]
    segments: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Lent:
    """Clean run on a donor sentence.

    Attributes:
        capture: Captured activations.
        rows: Pairs of (edited token, its counterpart) of the source, appended tokens included.
        whole: True if every token of both sentences has a counterpart.
        targets: Rows of a decoder beside an encoder.
        length: Tokens of the donor source, appended ones included.
        items: Batch size.
        output: Output of the model.
    """

    capture: Capture
    rows: tuple[tuple[int, int], ...]
    whole: bool
    targets: int | None
    length: int
    items: int
    output: Tensor


class Lender:
    """Source of the patches for an edited run.

    Args:
        model: Model to run.
        intervention: Edits; only patching edits and mean ablations are used.
        own: Source ids as the model reads them, without appended ones.
        masked: Positions that a masked model has to predict; masked in both sentences.
    """

    def __init__(
        self,
        model: Model,
        intervention: Intervention,
        own: Sequence[int],
        masked: Sequence[int] = (),
    ):
        self.model, self.own, self.masked = model, tuple(own), tuple(masked)
        self.edits: tuple[Edit, ...] = intervention.lent
        self.means = {e.mean: find(e.mean, model) for e in self.edits if isinstance(e, MeanHead)}
        sources = dict.fromkeys(e.source for e in self.edits if isinstance(e, Swap))
        if sources:
            refuse_swaps(model)
        self.others = {source: self.other(source) for source in sources}
        self.time_first: dict[str, bool] = {}

    def other(self, source: Source) -> Other:
        """Return a donor sentence as the model reads it, with masks at the counterparts."""
        ids, segments = ids_and_segments(self.model, source)
        counterparts = matched(self.own, ids)
        for place in self.masked:
            there = counterparts[place] if place < len(counterparts) else None
            if there is None or self.model.mask_id is None:
                raise ValueError(
                    f"The word that is to be guessed (token {place}) has no counterpart in "
                    f"“{source}”; give a sentence that differs in other words."
                )
            ids[there] = self.model.mask_id
        return Other(tuple(ids), counterparts, None if segments is None else tuple(segments))

    def run(
        self,
        other: Other,
        target: Tensor | None = None,
        written: Tensor | None = None,
        patterns: bool = True,
    ) -> Lent:
        """Run the model on a donor sentence without edits.

        ``target`` is ``[item, token]``; ``written`` are ids appended to the source.
        """
        model = self.model
        same = target if written is None else written
        items = 1 if same is None else len(same)
        source = torch.tensor([other.ids], device=model.device).repeat(items, 1)
        appended = 0
        if written is not None:
            source, appended = torch.cat((source, written), 1), written.shape[1]
        mask = None if model.pad_id is None else source != model.pad_id
        if mask is not None and bool(mask.all()):
            mask = None
        request = CaptureRequest(
            weights=lambda _: patterns,
            statistics=False,
            norms=False,
            residuals=False,
            lend=True,
            stack="decoder" if model.kind == "decoder-only" else "encoder",
        )
        with torch.no_grad(), probe(model.module, None, request) as capture:
            output = model.calls.forward(source, target, mask, **_segments(other, source))
        pairs = [(i, j) for i, j in enumerate(other.counterparts) if j is not None]
        pairs += [(len(self.own) + n, len(other.ids) + n) for n in range(appended)]
        lone, foreign = unmatched(other.counterparts, len(other.ids))
        return Lent(
            capture,
            tuple(pairs),
            not lone and not foreign,
            None if target is None else target.shape[1],
            len(other.ids) + appended,
            items,
            output,
        )

    def donations(
        self, target: Tensor | None = None, written: Tensor | None = None, *, strict: bool = True
    ) -> tuple[Donation, ...]:
        """Return the patches for a run with this target, or with these appended ids.

        ``strict`` raises for an edit without a match. A search passes False, since its first texts
        may be too short.

        Raises:
            ValueError: An edit matches nothing, or a site cannot be patched.
        """
        found: list[Donation] = []
        lent: dict[Source, Lent] = {}
        for edit in self.edits:
            if isinstance(edit, MeanHead):
                made = self._of_means(edit)
            else:
                assert isinstance(edit, Swap)
                if edit.source not in lent:
                    other = self.others[edit.source]
                    patterns = any(isinstance(e, SwapPattern) for e in self.edits)
                    lent[edit.source] = self.run(other, target, written, patterns)
                made = self.taken(edit, lent[edit.source])
            if not made and (strict or self._nowhere(edit, lent)):
                raise ValueError(self._nothing(edit, lent))
            found += made
        return tuple(found)

    def taken(self, edit: Swap, lent: Lent) -> list[Donation]:
        """Return the patches of one edit from a donor run."""
        if isinstance(edit, SwapStream):
            return list(self._of_stream(edit, lent))
        return [
            one
            for record in lent.capture.attentions
            if (heads := self._heads(edit, record))
            for one in self._of_heads(edit, record, heads, lent)
        ]

    def _heads(self, edit: Edit, record: AttentionRecord) -> tuple[int, ...]:
        return tuple(
            head for head in range(record.heads) if edit.matches(replace(record.site, head=head))
        )

    def _of_means(self, edit: MeanHead) -> list[Donation]:
        found = []
        for name, values in self.means[edit.mean].values.items():
            site = site_of(name)
            heads = tuple(h for h in range(len(values)) if edit.matches(replace(site, head=h)))
            if heads:
                means = torch.tensor(values[list(heads)], device=self.model.device)[None, :, None]
                found.append(Donation(OUTPUTS, site, means, None, heads, edit=edit))
        return found

    def rows(self, stack: str, lent: Lent, token: int | None) -> list[tuple[int, int]]:
        """Return pairs (edited row, its counterpart) of a stack, for all tokens or one."""
        beside = self.model.kind == "encoder-decoder" and stack == "decoder"
        pairs = [(t, t) for t in range(lent.targets or 0)] if beside else list(lent.rows)
        return [pair for pair in pairs if token in (None, pair[0])]

    def _of_heads(
        self, edit: Swap, record: AttentionRecord, heads: tuple[int, ...], lent: Lent
    ) -> Iterator[Donation]:
        rows = self.rows(record.stack, lent, edit.token)
        if not rows:
            return
        site = Site(record.stack, record.kind, record.layer)
        own, theirs = (tuple(side) for side in zip(*rows, strict=True))
        if isinstance(edit, SwapHead):
            z = outputs_at(lent, site)[:, list(heads)][:, :, list(theirs)]
            yield Donation(OUTPUTS, site, z, own, heads, edit=edit)
            return
        weights = record.weights
        assert weights is not None
        of_source = record.kind == "cross" or record.stack == "encoder" or lent.targets is None
        if of_source:
            if not lent.whole:
                raise ValueError(
                    f"The edit “{edit.describe()}” takes weights over the words of another "
                    "sentence, and not every token of one has a counterpart in the other; give a "
                    "sentence with as many tokens, or swap what the heads give (swap_head)."
                )
            order = torch.tensor([j for _, j in lent.rows], device=weights.device)
            weights = weights[..., order]
        yield Donation(
            PATTERNS, site, weights[:, list(heads)][:, :, list(theirs)], own, heads, edit=edit
        )

    def _of_stream(self, edit: SwapStream, lent: Lent) -> Iterator[Donation]:
        last: dict[tuple[str, int], Site] = {}
        for site in lent.capture.offered.sums:
            if edit.matches(site):
                last[site.stack, site.layer] = site
        for site in last.values():
            rows = self.rows(site.stack, lent, edit.token)
            if not rows:
                continue
            own, theirs = (tuple(side) for side in zip(*rows, strict=True))
            sums = lent.capture.offered.sums[site]
            beside = self.model.kind == "encoder-decoder" and site.stack == "decoder"
            tokens = (lent.targets or 0) if beside else lent.length
            first = self._turned(site.stack, sums[-1], lent.items, tokens)
            x = sums[-1].transpose(0, 1) if first else sums[-1]
            values = x[:, None, list(theirs)]
            yield Donation(
                STREAM, site, values, own, edit=edit, nth=len(sums) - 1, time_first=first
            )

    def _turned(self, stack: str, x: Tensor, items: int, tokens: int) -> bool:
        """Return True if the residual stream has its token axis before the batch axis.

        Decidable only where both sizes differ; otherwise the last decision holds.

        Raises:
            ValueError: The residual stream has another form.
        """
        if x.dim() != 3 or sorted(x.shape[:2]) != sorted((items, tokens)):
            raise ValueError(
                f"The residual stream of the {stack} has the form {list(x.shape)} for {items} "
                f"sentences of {tokens} tokens, so nothing can be put in its place."
            )
        if items != tokens:
            self.time_first[stack] = x.shape[0] == tokens
        return self.time_first.get(stack, False)

    def _nowhere(self, edit: Edit, lent: dict[Source, Lent]) -> bool:
        """Return True if an edit would match nothing at other tokens either."""
        if not isinstance(edit, Swap) or edit.token is None:
            return True
        return not self.taken(replace(edit, token=None), lent[edit.source])

    def _nothing(self, edit: Edit, lent: dict[Source, Lent]) -> str:
        """Return the reason why an edit matches nothing."""
        said = f"The edit “{edit.describe()}” finds nothing to take"
        if isinstance(edit, MeanHead):
            return f"{said}: these means are of {', '.join(self.means[edit.mean].values)}."
        assert isinstance(edit, Swap)
        run = lent[edit.source]
        if not self._nowhere(edit, lent):
            return (
                f"{said}: token {edit.token} does not stand in this sentence, or has no "
                f"counterpart in “{edit.other}”. Name another one."
            )
        sites = ", ".join(map(str, run.capture.sites))
        return f"{said}: it matches no place in this model, which has {sites or 'none'}."


class LentPasses:
    """Passes of a search, each patched from donor runs with the same generated tokens.

    ``capture``, if given, collects the attentions of each pass.
    """

    def __init__(
        self,
        model: Model,
        intervention: Intervention,
        own: Sequence[int],
        request: CaptureRequest,
        capture: Capture | None,
    ):
        self.module, self.request, self.capture = model.module, request, capture
        self.lender = Lender(model, intervention, own)
        self.edits = Intervention(tuple(e for e in intervention if not isinstance(e, LENT)))

    def __call__(
        self, run: Callable[[], Tensor], target: Tensor | None, written: Tensor | None
    ) -> Tensor:
        donations = self.lender.donations(target, written, strict=False)
        with probe(self.module, self.edits, self.request, donations) as seen:
            out = run()
        if self.capture is not None:
            self.capture.attentions += seen.attentions
        return out


def _segments(other: Other, source: Tensor) -> dict[str, Tensor]:
    """Return the segments of a pair of texts for `Calls.forward`."""
    if other.segments is None:
        return {}
    one = torch.tensor([other.segments], device=source.device)
    return {"segments": one.repeat(len(source), 1)}


def outputs_at(lent: Lent, site: Site) -> Tensor:
    """Return the outputs of all heads of a site, ``[item, head, query, width]``.

    Raises:
        ValueError: The module splits its heads, or mixes their output at once.
    """
    found = lent.capture.offered.outputs.get(site, [])
    if len(found) != 1:
        raise ValueError(
            f"What the heads of {site} give is not seen as one piece in this model, so it cannot "
            "be put in another run."
        )
    return found[0]


def site_of(name: str) -> Site:
    """Return the site from its name, such as ``cross L1``."""
    map_name, _, layer = name.rpartition(" L")
    stack = "encoder" if map_name == "encoder" else "decoder"
    return Site(stack, "cross" if map_name == "cross" else "self", int(layer))


def refuse_swaps(model: Model) -> None:
    """Raise for models whose input is not text.

    Raises:
        ValueError: The model does not read texts alone.
    """
    if model.takes != "text" or model.eyes is not None:
        reads = "pictures beside texts" if model.takes == "text" else model.takes
        raise ValueError(
            f"A swap takes something from a run of another sentence, and the model {model.name!r} "
            f"reads {reads}; take the edit out, or choose a model that reads texts."
        )


def lends(intervention: Intervention | None) -> bool:
    """Return True if any edit needs a donor run or stored means."""
    return any(isinstance(edit, LENT) for edit in intervention or ())


def lent_to(model: Model, read: Any, intervention: Intervention) -> tuple[Donation, ...]:
    """Return the patches for the run of an input (a `Read`)."""
    if not lends(intervention):
        return ()
    source, target, _ = read.tensors
    if read.prompt is None:
        return Lender(model, intervention, read.source.ids, read.masked).donations(target)
    lender = Lender(model, intervention, read.source.ids[: read.prompt], read.masked)
    return lender.donations(target, source[:, read.prompt :])
