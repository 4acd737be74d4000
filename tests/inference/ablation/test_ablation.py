"""Removing heads: one pass against modules with the heads taken out by hand, one by one."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformer_viz as tv
from tests.support.refusals import refuses
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, ScaleHead, UniformHead
from transformer_viz.core.sites import Site
from transformer_viz.inference.ablation import batches, passes
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.examples import Example, read_examples
from transformer_viz.inference.ablation.ranking import Ranking, measured
from transformer_viz.inference.ablation.scores import MEASURES
from transformer_viz.inference.ablation.stand_ins import same_rows

#: Ids of different lengths; 2 begins and 3 ends, 0 is padding.
PAIRS = [
    ([5, 7, 11, 3], [2, 8, 9]),
    ([13, 3], [2, 4, 6, 12, 3]),
    ([21, 22, 5, 5, 30, 3], [2, 17]),
    ([9, 8, 7, 3], [2, 31, 33, 29]),
    ([6, 4, 3], [2, 11, 10, 9]),
]
TEXTS = [source + target[1:] for source, target in PAIRS]
LONE = {"encoder_layers": 0, "source_vocab": 0}
METHODS = ("mean", "zero", "resample", "uniform")
EXACT = 1e-6


def ranked(model: Model, pairs: list, method: str, **words: bool) -> Ranking:
    silent = lambda: None  # noqa: E731
    examples = read_examples(model, pairs, 0, silent)
    return measured(Bench(model, examples, method, 0, silent, **words))


def apart(one: Ranking, other: Ranking) -> float:
    """The largest difference of an effect, per token of a sentence."""
    return float((np.abs(one.effects - other.effects) / one.counts[:, None]).max())


def same_tables(one: Ranking, other: Ranking, case: object) -> None:
    """Compare all columns, in the order in which the heads run."""
    assert one.heads == other.heads and apart(one, other) <= EXACT, case
    keys = [(s.stack, s.block, s.layer, s.head) for s in one.heads]
    tables = [
        r.table.set_index(["stack", "block", "layer", "head"]).loc[keys] for r in (one, other)
    ]
    for name in MEASURES:
        a, b = (table[name].to_numpy() for table in tables)
        assert a == pytest.approx(b, abs=EXACT), (case, name)


def by_hand(model: Model, examples: tuple[Example, ...], mean: bool) -> np.ndarray:
    """Nats more ``[sentence, head]``, from copies of the module: output projections lack the
    columns of a head, and have its mean in their bias. Heads in the order of the modules."""
    clean, found = losses(model.module, examples), []
    for name, attention in model.module.named_modules():
        if not name.endswith("_attention"):
            continue
        means = torch.cat([projected(model.module, name, one) for one in examples]).double().mean(0)
        width = means.shape[0] // attention.heads
        for head in range(attention.heads):
            made = copy.deepcopy(model.module)
            output = made.get_submodule(name).output
            columns = slice(head * width, (head + 1) * width)
            with torch.no_grad():
                if mean:
                    output.bias += (output.weight[:, columns].double() @ means[columns]).float()
                output.weight[:, columns] = 0
            found.append(losses(made, examples) - clean)
    return np.stack(found, axis=1)


def projected(module: nn.Module, name: str, example: Example) -> Tensor:
    """Return what the output projection of an attention reads for one sentence."""
    kept, projection = [], module.get_submodule(f"{name}.output")
    handle = projection.register_forward_pre_hook(lambda _, given: kept.append(given[0][0]))
    output_of(module, example)
    handle.remove()
    return kept[0]


def output_of(module: nn.Module, example: Example) -> Tensor:
    target = None if example.target is None else example.target[None]
    with torch.inference_mode():
        return module(example.source[None], target)[0]


def losses(module: nn.Module, examples: tuple[Example, ...]) -> np.ndarray:
    """What the wanted tokens of each sentence cost, in nats."""
    found = []
    for example in examples:
        logs = output_of(module, example).double().log_softmax(-1)
        found.append(-float(logs[list(example.rows), list(example.wanted)].sum()))
    return np.array(found)


@pytest.mark.slow
def test_removal_is_the_projection_without_the_head(build_model):
    """P19: zero is W_O without the head's columns, mean that and a constant of all real rows."""
    for words, method in product(({}, LONE, {"norm": "post", "final_norm": False}), METHODS[:2]):
        model, case = build_model(**words), (words, method)
        ranking = ranked(model, TEXTS if words == LONE else PAIRS, method)
        if words != LONE:
            assert any(not bool(batch.visible.all()) for batch in ranking.bench.batches)
        wanted = by_hand(model, ranking.bench.examples.items, mean=method == "mean")
        assert wanted.shape == (5, len(ranking.heads)) and np.abs(wanted).max() > 0.01, case
        per_token = np.abs(ranking.effects - wanted) / ranking.counts[:, None]
        assert per_token.max() <= EXACT, case


@pytest.mark.slow
def test_one_pass_gives_what_single_passes_give(tiny_model, monkeypatch):
    """P21: many copies from cached layers, against one copy and one sentence at a time."""
    for method in METHODS:
        many = ranked(tiny_model, PAIRS, method)
        with monkeypatch.context() as patch:
            patch.setattr(passes, "MOST_COPIES", 1)
            patch.setattr(batches, "SENTENCES", 1)
            few = ranked(tiny_model, PAIRS, method)
        assert len(few.bench.batches) == len(PAIRS)
        same_tables(many, few, method)


@pytest.mark.slow
def test_one_pass_gives_what_the_probe_gives(tiny_model, tiny_gpt):
    """One head at a time, and several together as edits of one run."""
    heads = [("encoder", "self", 0, 1), ("decoder", "self", 1, 0), ("decoder", "cross", 0, 1)]
    for method, kind, words in (("zero", ScaleHead, {"value": 0.0}), ("uniform", UniformHead, {})):
        for model, pairs in ((tiny_model, PAIRS), (tiny_gpt, TEXTS)):
            fast, slow = (ranked(model, pairs, method, one_by_one=one) for one in (False, True))
            assert fast.card["runs"] != slow.card["runs"]
            same_tables(fast, slow, (method, model.kind))
        edits = [kind(stack=s, block=b, layer=n, head=h, **words) for s, b, n, h in heads]
        ranking = ranked(tiny_model, PAIRS, method)
        items, module = ranking.bench.examples.items, tiny_model.module
        clean = losses(module, items)
        with tv.probe(module, Intervention(tuple(edits))):
            total = float((losses(module, items) - clean).sum())
        found = ranking.group(heads)
        assert found["heads"] == 3
        assert found["effect"] == pytest.approx(total / ranking.counts.sum(), abs=EXACT), method


def test_the_model_is_never_changed(tiny_model):
    """P39: runs after a removal are those before it, byte by byte, and so are the weights."""
    before = {name: value.clone() for name, value in tiny_model.module.state_dict().items()}
    run = lambda: tv.trace(tiny_model, PAIRS[0][0], target=PAIRS[0][1], check=False)  # noqa: E731
    logits = run().logits.tobytes()
    for method in METHODS:
        ranking = tv.rank(tiny_model, PAIRS, method=method)
        assert ranking.curve(points=3)["removed"].tolist() == [0, 7, 14]
    assert run().logits.tobytes() == logits
    for name, value in tiny_model.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_tables_come_as_sentences_are_done_and_a_stop_leaves_nothing(tiny_model, monkeypatch):
    whole = tv.rank(tiny_model, PAIRS)
    for count in (0, 1):

        def stop(done: int, total: int, table: object, count: int = count) -> None:
            assert total == len(PAIRS) and (table is None) == (done == 0)
            if done >= count:
                raise InterruptedError

        refuses(None, tv.rank, tiny_model, PAIRS, on_progress=stop, error=InterruptedError)
    again = tv.rank(tiny_model, PAIRS)
    assert again.table.equals(whole.table) and again.card == whole.card
    monkeypatch.setattr(batches, "SENTENCES", 2)
    told: list[tuple] = []
    ranking = tv.rank(tiny_model, PAIRS, on_progress=lambda *words: told.append(words))
    counts = [done for done, _, table in told if table is not None]
    assert counts == sorted(counts) and len(counts) == 3 and counts[-1] == 5
    assert ranking.table.equals(told[-1][2])


def test_refusals_and_rows_of_another_sentence(tiny_model, build_model):
    assert same_rows(3, 5).tolist() == [0, 2, 4]
    assert same_rows(5, 3).tolist() == [0, 0, 1, 2, 2]
    assert same_rows(1, 4).tolist() == [0]
    for pairs, method, said in (
        ([], "mean", "list of sentences, or of .* pairs; got none"),
        ("one text", "mean", "got one text"),
        (PAIRS, "median", "no method 'median'; choose one of mean, zero, resample, uniform"),
        ([([5, 3], [2])], "mean", "Sentence 1 has no token that could be guessed"),
        (PAIRS[:1], "resample", "in another sentence, and one came"),
    ):
        refuses(said, tv.rank, tiny_model, pairs, method=method)
    bare = build_model(decoder_layers=0, target_vocab=0, tied="none")
    refuses("ends in vectors and says no word or class", tv.rank, bare, [[5, 6, 3]])
    unmasked = build_model(decoder_layers=0)
    refuses("no decoder and no mask token", tv.rank, unmasked, [[5, 6, 3]])
    ranking = tv.rank(tiny_model, PAIRS)
    said = "There is no head cross L7 H0; this model has 14"
    refuses(said, ranking.group, [("decoder", "cross", 7, 0)])
    refuses("at least one head", ranking.group, [])
    refuses("most, least or random", ranking.curve, "worst")


def test_the_models_own_words_are_the_references_where_none_came(tiny_model):
    ranking = tv.rank(tiny_model, [source for source, _ in PAIRS])
    assert ranking.card["references"] == "the model's own greedy output of the clean run"
    for (source, _), example in zip(PAIRS, ranking.bench.examples.items, strict=True):
        assert example.wanted == tv.translate(tiny_model, source)[0].ids
    mixed = tv.rank(tiny_model, [PAIRS[0], PAIRS[1][0]])
    assert "else the model's own greedy output" in str(mixed.card["references"])


def test_table_card_curves_groups_and_pairs(tiny_model):
    ranking = tv.rank(tiny_model, PAIRS)
    curve = ranking.curve("most", points=15)
    assert curve["removed"].tolist() == list(range(15))
    assert curve.loc[0, ["effect", "kl", "changed"]].tolist() == [0, 0, 0]
    top = ranking.table.iloc[0]["effect"]
    assert curve.loc[1, "effect"] == pytest.approx(top, abs=EXACT)
    everything = ranking.group(ranking.heads)["effect"]
    for order in ("most", "least", "random"):
        last = ranking.curve(order, points=2).iloc[-1]["effect"]
        assert last == pytest.approx(everything, abs=EXACT), order
    assert ranking.curve("random", points=3).equals(ranking.curve("random", points=3))
    assert len(ranking.pairs) == 12 * 11 // 2
    both = ranking.pairs.iloc[5]
    sites = [s for name in (both["a"], both["b"]) for s in ranking.heads if str(s) == name]
    together = both["together"]
    assert together == pytest.approx(ranking.group(sites)["effect"], abs=EXACT)
    rest = together - both["effect_a"] - both["effect_b"]
    assert both["interaction"] == pytest.approx(rest, abs=1e-12)
    groups = ranking.groups
    cross = groups[(groups["block"] == "cross") & groups["layer"].isna()].iloc[0]
    wanted = ranking.group([s for s in ranking.heads if s.block == "cross"])["effect"]
    assert cross["heads"] == 4 and cross["effect"] == pytest.approx(wanted, abs=EXACT)
    alone = ranking.table.loc[ranking.table["block"] == "cross", "effect"].sum()
    assert cross["sum"] == pytest.approx(alone)
    ranking = tv.rank(tiny_model, PAIRS, seed=4)
    table, card = ranking.table, ranking.card
    assert table["rank"].tolist() == list(range(1, 15))
    for low, high in (("low", "effect"), ("effect", "high"), ("rank_low", "rank_high")):
        assert (table[low] <= table[high]).all(), (low, high)
    assert (table["kl"] >= 0).all() and table["changed"].between(0, 1).all()
    sites = {Site(r.stack, r.block, r.layer, r.head) for r in table.itertuples()}
    assert sites == set(ranking.heads)
    assert card["rows"] == sum(len(target) - 1 for _, target in PAIRS) and card["seed"] == 4
    assert len(str(card["model_hash"])) == 64
    assert card["sentences_hash"] != tv.rank(tiny_model, PAIRS[:4]).card["sentences_hash"]
    assert "its mean over all rows of these sentences" in ranking.notes[0]
    assert not ranking.effects.flags.writeable
