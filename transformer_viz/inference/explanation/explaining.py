"""Implementation of `tv.explain`: attribution of one output word to the input words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from ...capture import AttentionRecord, CaptureRequest, probe
from ...capture.merge_heads import side_by_side
from ...checkpoints.common.model import Model
from ...core.guesses import guess_mark, with_mark
from ...core.renamed import accept_old_keywords
from ...core.sites import Site
from ...i18n import join_words, numeral, say
from ...metrics.attribution.contributions import Contributions, contributions, shares
from ...metrics.attribution.flow import flow
from ...metrics.attribution.gradient import Raised, relevance
from ...metrics.attribution.rollout import Rolled, halved, rolled
from ...model import Transformer
from ..ablation.places import Attention, attentions_of, own_attentions
from ..model_inputs import doubled
from ..run_card import hash_of_ids, model_card
from . import captions, stream_logits
from .anatomy import Anatomy, dissect
from .deletion import DRAWS, MOST, DeletionCurve, deletion_curve
from .hiding import Tell, scores_without
from .question import Question, ask

BLOCKS = ("self", "cross")
VERSION = 1  # version of these methods; raised when numbers change meaning


@dataclass(frozen=True, eq=False)
class Explanation:
    """Attribution of one output word by one method.

    Attributes:
        values: For a method in `OVER_WORDS` and ``flow``, a row per token of the source and of the
            target up to the row: ``sentence`` (``source`` or ``target``), ``token``, ``label``,
            ``special``, ``value``. For ``lens``, a row per layer: ``layer, logit, probability,
            rank, best``. For ``logits``, a row per term: ``part`` (``embedding``, ``earlier``,
            ``self``, ``cross``, ``feed_forward``, ``bias``), ``layer``, ``head``, ``value``.
            ``unit`` is ``nats``, ``logit``, ``probability``, ``share`` (of a row), or empty.
        complete: Error of the sum of the parts: for ``contribution`` relative, in the worst block;
            for ``logits`` in logits; None for other methods.
        caption: Scope and limits of the method.
        card: Details of the measurement.
    """

    method: str
    word: str
    values: pd.DataFrame
    complete: float | None
    caption: str
    card: dict[str, Any]
    explainer: Explainer

    def __repr__(self) -> str:
        """Return a one-line summary; the numbers are in ``values``."""
        said = f"<Explanation of {self.word!r} by {self.method}: {len(self.values)} values"
        return with_mark(said, self.card) + ">"

    @property
    def unit(self) -> str:
        """Unit of ``values``; empty where they have none."""
        return str(self.values["unit"].iloc[0]) if len(self.values) else ""

    def deletion(
        self,
        most: int = MOST,
        *,
        draws: int = DRAWS,
        seed: int = 0,
        on_progress: Tell | None = None,
    ) -> DeletionCurve:
        """Hide the method's top k source words, compared with k random words; see `DeletionCurve`.

        Args:
            most: Largest number of hidden words.
            draws: Number of random orders.
            seed: Seed of the random orders.
            on_progress: Called with the number of runs done and in all.

        Raises:
            ValueError: No word values, no output layer, or fewer than two words.
        """
        return deletion_curve(
            self.explainer,
            (self.method,),
            most=most,
            draws=draws,
            seed=seed,
            on_progress=on_progress,
        )


@accept_old_keywords(tell="on_progress")
def explain(
    model: Model | nn.Module,
    source: Any,
    word: int = 0,
    target: Any = None,
    method: str = "contribution",
    *,
    output: str | None = None,
    image: Any = None,
    on_progress: Tell | None = None,
) -> Explanation:
    """Attribute output word ``word`` to the words of the input.

    Args:
        model: Result of `load`, or a module.
        source: Input of the model, as in `trace`.
        word: Index of an output token, from 0, as in ``trace`` (a long word may be several); see
            `Explanation.word`. For a decoder-only model given a text it counts rows: word k is the
            prediction of row k, i.e. the text's token k + 1, and after the last one the model's
            choice. Ignored for a classifier and a model that marks an answer: ``target`` selects
            there. See `ask` for masked models.
        target: Output to explain; by default the greedy output. For a classifier the class, or the
            output of a regression (by default the most probable class, or the first output; see the
            caption). For a model that marks an answer the token at which it starts or ends.
        method: ``weights``, the mean attention weight (share of a row, 0..1). ``rollout``, weights
            and residual stream multiplied through the layers (0..1, rows sum to 1; Abnar and
            Zuidema 2020). ``contribution``, lengths of the vectors that each word contributes,
            multiplied likewise (0..1, rows sum to 1; Kobayashi et al. 2020, 2021). ``gradient``,
            weights times the gradient of the word's logit (from 0, no unit; Chefer et al. 2021).
            ``removal``, the word's loss with one input word hidden (negative for a gain), in nats
            of its softmax or sigmoid (several labels), or in a regression's output. ``lens``, the
            output layer after each layer (nostalgebraist 2020). ``logits``, the logit as a sum of
            heads and feed-forward layers (direct logit attribution). ``flow``, the largest flow
            from each word, up to 64 tokens.
        output: For a model that marks an answer: its ``start`` (the default) or its ``end``.
        image: Picture beside the text.
        on_progress: Called with the passes done and in all, by ``removal`` and by the search for
            output projections (``contribution``, ``lens``, ``logits``, once per module).

    Raises:
        ValueError: Unknown method or word, or a model that lacks what the method needs. The message
            names alternatives.
    """
    if method not in captions.METHODS:
        raise ValueError(
            f"There is no method {method!r}; choose one of {', '.join(captions.METHODS)}."
        )
    question = ask(model, source, word, target, image, output=output)
    found = Explainer(question).answer(method, on_progress)
    chosen = "" if target is not None else captions.unnamed_choice(question)
    return replace(found, caption=f"{found.caption} {chosen}".rstrip())


class Explainer:
    """All methods on one question; shared intermediate results are cached."""

    def __init__(self, question: Question):
        self.question = question
        self.on_progress: Tell | None = None

    def answer(self, method: str, on_progress: Tell | None = None) -> Explanation:
        """Return the explanation by one method; see `explain`."""
        self.on_progress = on_progress
        makers: dict[str, Callable[[], tuple[pd.DataFrame, float | None, list[str]]]] = {
            "weights": self._weights,
            "rollout": self._rollout,
            "contribution": self._contribution,
            "gradient": self._gradient,
            "removal": lambda: self._removal(on_progress),
            "flow": self._flow,
            "lens": self._lens,
            "logits": self._logits,
        }
        values, complete, more = makers[method]()
        q = self.question
        if q.token is None:
            more.append(say(captions.NO_WORD, label=q.label))
        if q.row is None and method in captions.OVER_WORDS and method != "removal":
            more.append(say(captions.ALL_ROWS))
        if q.model.guessed:
            more.append(f"{guess_mark(q.model.guessed)}.")
        caption = " ".join([say(captions.caption_of(method, q.model.unit)), *more])
        values = values.assign(unit=captions.unit_of_method(method, q.model.unit))
        return Explanation(method, q.label, values, complete, caption, self._card(method), self)

    def _card(self, method: str) -> dict[str, Any]:
        q = self.question
        source, target, _ = q.read.tensors
        shown = [None if x is None else x.tolist() for x in (source, target)]
        return model_card(q.model) | {
            "sentences": 1,
            "sentences_hash": hash_of_ids(shown, q.row, q.token),
            "rows": 1 if q.row is not None else len(q.rows),
            "method": method,
            "metric_version": VERSION,
            "seed": 0,
        }

    # ---- runs ------------------------------------------------------------------------------------

    @cached_property
    def records(self) -> list[AttentionRecord]:
        """Attentions of a clean run with their weights, one per site, in call order."""
        q = self.question
        want = CaptureRequest(statistics=False, norms=False, residuals=False, stack=q.lone)
        with torch.no_grad(), probe(q.model.module, None, want) as capture:
            q.read.through(q.model)
        return _first(capture.attentions, q.model.name)

    @cached_property
    def attentions(self) -> list[Attention]:
        """All attentions with their output projections."""
        q = self.question
        if isinstance(q.model.module, Transformer) and q.model.takes == "text":
            return own_attentions(q.model.module)
        both = doubled(q.read)
        return attentions_of(
            q.model, lambda twice: (both if twice else q.read).through(q.model), self.on_progress
        )

    @cached_property
    def anatomy(self) -> Anatomy:
        """Decomposed clean run."""
        q = self.question
        return dissect(q.model.module, lambda: q.read.through(q.model), self.attentions, q.lone)

    @cached_property
    def contributions(self) -> dict[Site, Contributions]:
        """Contributions in each block.

        Raises:
            ValueError: A block could not be decomposed.
        """
        if self.anatomy.lost:
            site, why = next(iter(self.anatomy.lost.items()))
            raise ValueError(
                f"Contributions need what each key gives through values and output projection, "
                f"and in {site} of {self.question.model.name!r} {why}. The weights and rollout can "
                "be had, and where there is an output layer gradient and removal."
            )
        return {
            Site(block.stack, block.block, block.layer): contributions(block)
            for block in self.anatomy.blocks
        }

    @cached_property
    def raised(self) -> list[Raised]:
        """Weights of every attention, and the gradient of the word's logit with respect to them."""
        q = self.question
        token = q.needs_logit("gradient")
        want = CaptureRequest(
            statistics=False, norms=False, residuals=False, gradients=True, stack=q.lone
        )
        with torch.enable_grad(), probe(q.model.module, None, want) as capture:
            chosen = q.logits(q.read.through(q.model))[token]
        records = _first(capture.attentions, q.model.name)
        flat = [leaf for record in records for leaf in record.leaves]
        found = torch.autograd.grad(chosen, flat, allow_unused=True)
        grads = iter(
            torch.zeros_like(x) if g is None else g for x, g in zip(flat, found, strict=True)
        )
        steps = []
        for record in records:
            joined = side_by_side([next(grads) for _ in record.leaves], record.along)[0]
            assert record.weights is not None
            weights, slope = (
                x.detach().double().cpu().numpy() for x in (record.weights[0], joined)
            )
            slope = slope[..., : weights.shape[-1]]
            steps.append(Raised(record.stack, record.kind, weights, slope))
        return steps

    # ---- the methods -----------------------------------------------------------------------------

    def _weights(self) -> tuple[pd.DataFrame, float | None, list[str]]:
        found: dict[str, list[np.ndarray]] = {}
        for record in self.records:
            if record.stack == self.question.stack:
                assert record.weights is not None
                mean = record.weights[0].double().nan_to_num().mean(0).cpu().numpy()
                on_source = record.kind == "cross" or self.question.read.target is None
                found.setdefault("source" if on_source else "target", []).append(mean)
        parts = {name: self._row(np.mean(maps, axis=0)) for name, maps in found.items()}
        return self._table(parts.get("source"), parts.get("target")), None, self._sunk(parts)

    def _sunk(self, parts: dict[str, np.ndarray]) -> list[str]:
        lost = 1 - min((float(part.sum()) for part in parts.values()), default=1.0)
        return [say(captions.SINK, share=numeral(lost, ".0%"))] if lost > 0.005 else []

    def _rollout(self) -> tuple[pd.DataFrame, float | None, list[str]]:
        return self._rolled(rolled(self._halved())), None, []

    def _halved(self) -> list[Any]:
        steps = []
        for record in self.records:
            assert record.weights is not None
            weights = record.weights[0].double().cpu().numpy()
            steps.append(halved(record.stack, record.kind, weights))
        return steps

    def _flow(self) -> tuple[pd.DataFrame, float | None, list[str]]:
        row = self.question.row
        found = flow(self._halved(), 0 if row is None else row)
        target = None if found.target is None else found.target[0]
        return self._table(found.source[0], target), None, []

    def _contribution(self) -> tuple[pd.DataFrame, float | None, list[str]]:
        found = self.contributions
        steps = [shares(site.stack, site.block, one) for site, one in found.items()]
        more = []
        if self.anatomy.whole_values:
            more.append(say(captions.WHOLE_VALUES, count=len(self.anatomy.whole_values)))
        worst = max(one.error for one in found.values())
        return self._rolled(rolled(steps)), worst, more

    def _gradient(self) -> tuple[pd.DataFrame, float | None, list[str]]:
        return self._rolled(relevance(self.raised), kept=True), None, []

    def _removal(self, on_progress: Tell | None) -> tuple[pd.DataFrame, float | None, list[str]]:
        sets: list[frozenset[tuple[str, int]]] = [frozenset()]
        sets += [frozenset((place,)) for place in self._places()]
        found = scores_without(self.question, sets, on_progress)
        loss = found[0] - found[1:]
        source = sum(name == "source" for name, _ in self._places())
        target = None if self.question.read.target is None else loss[source:]
        return self._table(loss[:source], target), None, []

    def _lens(self) -> tuple[pd.DataFrame, float | None, list[str]]:
        return stream_logits.lens(self.question, self.anatomy), None, []

    def _logits(self) -> tuple[pd.DataFrame, float | None, list[str]]:
        table, error, anew = stream_logits.direct(self.question, self.anatomy)
        more = [say(captions.LAST_BLOCK)] if anew else []
        whole = table[table["part"].isin(BLOCKS) & (table["head"] < 0)]
        if len(whole):
            named = [f"{row.part} L{row.layer}" for row in whole.itertuples()]
            more.append(say(captions.WHOLE_BLOCKS, blocks=join_words(named)))
        return table, error, more

    # ---- tables ----------------------------------------------------------------------------------

    def _places(self) -> list[tuple[str, int]]:
        """Return every token that the row can read."""
        q = self.question
        source = [("source", n) for n in range(len(q.read.source))]
        if q.read.target is None:
            return [place for place in source if place[1] not in q.unseen]
        return source + [("target", n) for n in range(len(q.read.target)) if n not in q.unseen]

    def _row(self, matrix: np.ndarray) -> np.ndarray:
        row = self.question.row
        if row is None or len(matrix) == 1:  # a pooling head has only one row
            return np.asarray(matrix.mean(0))
        return np.asarray(matrix[row])

    def _rolled(self, found: Rolled, kept: bool = False) -> pd.DataFrame:
        source = self._row(found.source)
        target = None if found.target is None else self._row(found.target)
        row = self.question.row
        if kept and row is not None:  # every token's relevance for itself is 1 before any attention
            own = source if target is None else target
            own = own.copy()
            own[row] -= 1.0
            source, target = (own, None) if target is None else (source, own)
        return self._table(source, target)

    def _table(self, source: np.ndarray | None, target: np.ndarray | None) -> pd.DataFrame:
        """Return the values with the tokens that the row can read."""
        q, rows = self.question, []
        given = {"source": source, "target": target}
        for sentence, token in self._places():
            values = given[sentence]
            tokens = q.read.source if sentence == "source" else q.read.target
            assert tokens is not None
            value = np.nan
            if values is not None and len(values) > token:
                value = float(values[token])
            rows.append((sentence, token, tokens.labels[token], tokens.special[token], value))
        return pd.DataFrame(rows, columns=["sentence", "token", "label", "special", "value"])


def _first(records: list[AttentionRecord], name: str) -> list[AttentionRecord]:
    """Return one record per site, in call order.

    Raises:
        ValueError: No attention was seen.
    """
    found: dict[Site, AttentionRecord] = {}
    for record in records:
        if record.weights is not None:
            found.setdefault(record.site, record)
    if not found:
        raise ValueError(f"No attention was seen in {name!r}, so no word can be traced back.")
    return list(found.values())
