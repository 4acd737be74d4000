"""Removing heads: one pass against modules with the heads taken out by hand, one by one."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, ScaleHead, UniformHead
from transformer_viz.core.sites import Site
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.examples import Example, read_examples
from transformer_viz.inference.ablation.ranking import Ranking, measured
from transformer_viz.inference.ablation.scores import MEASURES
from transformer_viz.model import Transformer

#: Ids of different lengths; 2 begins and 3 ends, 0 is padding.
PAIRS = [
    ([5, 7, 11, 3], [2, 8, 9]),
    ([13, 3], [2, 4, 6, 12, 3]),
    ([21, 22, 5, 5, 30, 3], [2, 17]),
    ([9, 8, 7, 3], [2, 31, 33, 29]),
    ([6, 4, 3], [2, 11, 10, 9]),
]
TEXTS = [source + target[1:] for source, target in PAIRS]
METHODS = ("mean", "zero", "resample", "uniform")
EXACT = 1e-6


def silent() -> None:
    """Nothing to tell between two steps."""


def bench_of(model: Model, pairs: list, method: str, **words: bool) -> Bench:
    return Bench(model, read_examples(model, pairs, 0, silent), method, 0, silent, **words)


def ranked(model: Model, pairs: list, method: str, **words: bool) -> Ranking:
    return measured(bench_of(model, pairs, method, **words))


def apart(one: Ranking, other: Ranking) -> float:
    """The largest difference of an effect, per token of a sentence."""
    return float((np.abs(one.effects - other.effects) / one.counts[:, None]).max())


def in_order(ranking: Ranking) -> dict[str, np.ndarray]:
    """The columns of a table in the order in which the heads run."""
    keys = [(s.stack, s.block, s.layer, s.head) for s in ranking.heads]
    table = ranking.table.set_index(["stack", "block", "layer", "head"]).loc[keys]
    return {name: table[name].to_numpy() for name in MEASURES}


def by_hand(model: Model, examples: tuple[Example, ...], mean: bool) -> np.ndarray:
    """Nats more for each sentence and head, ``[sentence, head]``: from copies of the module whose
    output projections lack the columns of a head, and have its mean in their bias."""
    assert isinstance(model.module, Transformer)
    clean = losses(model.module, examples)
    found = []
    for name, attention in attentions(model.module):
        read = [x for example in examples for x in projected(model.module, name, example)]
        means = torch.cat(read).double().mean(0)
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


def attentions(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Encoder before decoder, layer by layer, self before cross."""
    return [(n, m) for n, m in module.named_modules() if n.endswith("_attention")]


def projected(module: nn.Module, name: str, example: Example) -> list[Tensor]:
    """What the output projection of an attention reads for one sentence."""
    made, kept = copy.deepcopy(module), []
    made.get_submodule(f"{name}.output").register_forward_pre_hook(
        lambda _, inputs: kept.append(inputs[0][0])
    )
    output_of(made, example)
    return kept


def output_of(module: nn.Module, example: Example) -> Tensor:
    target = None if example.target is None else example.target[None]
    with torch.inference_mode():
        return module(example.source[None], target)[0]


def losses(module: nn.Module, examples: tuple[Example, ...]) -> np.ndarray:
    """What the wanted tokens of each sentence cost, in nats."""
    return np.array(
        [
            -sum(
                float(output_of(module, example)[row].double().log_softmax(-1)[token])
                for row, token in zip(example.rows, example.wanted, strict=True)
            )
            for example in examples
        ]
    )


@pytest.mark.parametrize("method", ["zero", "mean"])
@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "post"])
def test_removal_is_the_projection_without_the_head(
    build_model: Callable[..., Model], method: str, kind: str
) -> None:
    """P19: zero is W_O without the head's columns, mean that and a constant; one pass for all."""
    alone = {"encoder_layers": 0, "source_vocab": 0}
    words = {"decoder-only": alone, "post": {"norm": "post", "final_norm": False}}.get(kind, {})
    model = build_model(**words)
    pairs = TEXTS if kind == "decoder-only" else PAIRS
    ranking = ranked(model, pairs, method)
    items = ranking.bench.examples.items
    wanted = by_hand(model, items, mean=method == "mean")
    assert wanted.shape == (5, len(ranking.heads))
    assert np.abs(wanted).max() > 0.01
    per_token = np.abs(ranking.effects - wanted) / ranking.counts[:, None]
    assert per_token.max() <= EXACT


@pytest.mark.parametrize("method", METHODS)
def test_one_pass_gives_what_single_passes_give(
    tiny_model: Model, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P21: many copies from cached layers, against one copy and one sentence at a time."""
    many = ranked(tiny_model, PAIRS, method)
    monkeypatch.setattr("transformer_viz.inference.ablation.passes.MOST_COPIES", 1)
    monkeypatch.setattr("transformer_viz.inference.ablation.batches.SENTENCES", 1)
    few = ranked(tiny_model, PAIRS, method)
    assert len(few.bench.batches) == len(PAIRS)
    assert apart(many, few) <= EXACT
    for name, values in in_order(many).items():
        assert values == pytest.approx(in_order(few)[name], abs=EXACT), name


@pytest.mark.parametrize("method", ["zero", "uniform"])
@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_one_pass_gives_what_the_probe_gives(
    tiny_model: Model, tiny_gpt: Model, method: str, kind: str
) -> None:
    model, pairs = (tiny_model, PAIRS) if kind == "encoder-decoder" else (tiny_gpt, TEXTS)
    fast, slow = ranked(model, pairs, method), ranked(model, pairs, method, one_by_one=True)
    assert fast.card["runs"] != slow.card["runs"]
    assert fast.heads == slow.heads
    assert apart(fast, slow) <= EXACT
    for name, values in in_order(fast).items():
        assert values == pytest.approx(in_order(slow)[name], abs=EXACT), name


@pytest.mark.parametrize("method", ["zero", "uniform"])
def test_a_group_is_what_the_probe_gives_for_all_its_edits(tiny_model: Model, method: str) -> None:
    ranking = ranked(tiny_model, PAIRS, method)
    heads = [("encoder", "self", 0, 1), ("decoder", "self", 1, 0), ("decoder", "cross", 0, 1)]
    kind = {"zero": ScaleHead, "uniform": UniformHead}[method]
    words = {"value": 0.0} if method == "zero" else {}
    edits = Intervention(
        tuple(kind(stack=s, block=b, layer=n, head=h, **words) for s, b, n, h in heads)
    )
    total = 0.0
    for example in ranking.bench.examples.items:
        clean = losses(tiny_model.module, (example,))[0]
        with tv.probe(tiny_model.module, edits):
            total += losses(tiny_model.module, (example,))[0] - clean
    found = ranking.group(heads)
    assert found["heads"] == 3
    assert found["effect"] == pytest.approx(total / ranking.counts.sum(), abs=EXACT)


def test_uniform_is_the_probes_own_edit(tiny_model: Model) -> None:
    ranking = ranked(tiny_model, PAIRS, "uniform")
    for number, site in enumerate(ranking.heads):
        edit = UniformHead(stack=site.stack, block=site.block, layer=site.layer, head=site.head)
        for row, example in enumerate(ranking.bench.examples.items):
            clean = losses(tiny_model.module, (example,))[0]
            with tv.probe(tiny_model.module, Intervention((edit,))):
                removed = losses(tiny_model.module, (example,))[0]
            wanted = (removed - clean) / ranking.counts[row]
            found = ranking.effects[row, number] / ranking.counts[row]
            assert found == pytest.approx(wanted, abs=EXACT)


def test_the_model_is_never_changed(tiny_model: Model) -> None:
    """P39: runs after a removal are those before it, byte by byte, and so are the weights."""
    before = {name: value.clone() for name, value in tiny_model.module.state_dict().items()}
    trace = tv.trace(tiny_model, PAIRS[0][0], target=PAIRS[0][1], check=False)
    for method in METHODS:
        ranking = tv.rank(tiny_model, PAIRS, method=method)
        assert ranking.curve(points=3)["removed"].tolist() == [0, 7, 14]
    again = tv.trace(tiny_model, PAIRS[0][0], target=PAIRS[0][1], check=False)
    assert again.logits is not None
    assert trace.logits is not None
    assert again.logits.tobytes() == trace.logits.tobytes()
    for name, value in tiny_model.module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_stop_leaves_nothing_behind(tiny_model: Model) -> None:
    class Stop(Exception):
        pass

    def stop_at(count: int) -> Callable[..., None]:
        def tell(done: int, total: int, table: object) -> None:
            assert total == len(PAIRS)
            assert (table is None) == (done == 0)
            if done >= count:
                raise Stop

        return tell

    whole = tv.rank(tiny_model, PAIRS)
    for count in (0, 1):
        with pytest.raises(Stop):
            tv.rank(tiny_model, PAIRS, tell=stop_at(count))
    again = tv.rank(tiny_model, PAIRS)
    assert again.table.equals(whole.table)
    assert again.card == whole.card


def test_tables_come_as_sentences_are_done(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer_viz.inference.ablation.batches.SENTENCES", 2)
    told: list[tuple[int, object]] = []
    ranking = tv.rank(tiny_model, PAIRS, tell=lambda done, total, table: told.append((done, table)))
    counts = [done for done, table in told if table is not None]
    assert counts == sorted(counts)
    assert len(counts) == 3
    assert counts[-1] == 5
    last = told[-1][1]
    assert ranking.table.equals(last)


def test_resample_asks_for_another_sentence(tiny_model: Model) -> None:
    with pytest.raises(ValueError, match="in another sentence, and one came"):
        tv.rank(tiny_model, PAIRS[:1], method="resample")


def test_resample_takes_the_same_relative_row() -> None:
    from transformer_viz.inference.ablation.stand_ins import same_rows

    assert same_rows(3, 5).tolist() == [0, 2, 4]
    assert same_rows(5, 3).tolist() == [0, 0, 1, 2, 2]
    assert same_rows(1, 4).tolist() == [0]


@pytest.mark.parametrize(
    ("pairs", "method", "said"),
    [
        ([], "mean", "list of sentences, or of .* pairs; got none"),
        ("one text", "mean", "got one text"),
        (PAIRS, "median", "no method 'median'; choose one of mean, zero, resample, uniform"),
        ([([5, 3], [2])], "mean", "Sentence 1 has no token that could be guessed"),
    ],
)
def test_what_cannot_be_ranked_is_said(
    tiny_model: Model, pairs: list, method: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        tv.rank(tiny_model, pairs, method=method)


def test_a_model_that_says_nothing_is_refused(build_model: Callable[..., Model]) -> None:
    bare = build_model(decoder_layers=0, target_vocab=0, tied="none")
    with pytest.raises(ValueError, match=r"ends in vectors and says no word or class"):
        tv.rank(bare, [[5, 6, 3]])
    unmasked = build_model(decoder_layers=0)
    with pytest.raises(ValueError, match=r"no decoder and no mask token"):
        tv.rank(unmasked, [[5, 6, 3]])


def test_a_head_that_is_not_there(tiny_model: Model) -> None:
    ranking = tv.rank(tiny_model, PAIRS)
    with pytest.raises(ValueError, match=r"There is no head cross L7 H0; this model has 14"):
        ranking.group([("decoder", "cross", 7, 0)])
    with pytest.raises(ValueError, match="at least one head"):
        ranking.group([])
    with pytest.raises(ValueError, match="most, least or random"):
        ranking.curve("worst")


def test_the_models_own_words_are_the_references_where_none_came(tiny_model: Model) -> None:
    ranking = tv.rank(tiny_model, [source for source, _ in PAIRS])
    assert ranking.card["references"] == "the model's own greedy output of the clean run"
    for source, example in zip(PAIRS, ranking.bench.examples.items, strict=True):
        assert example.wanted == tv.translate(tiny_model, source[0])[0].ids
    mixed = tv.rank(tiny_model, [PAIRS[0], PAIRS[1][0]])
    assert "else the model's own greedy output" in str(mixed.card["references"])


def test_curves_groups_and_pairs_agree(tiny_model: Model) -> None:
    ranking = tv.rank(tiny_model, PAIRS)
    top = ranking.table.iloc[0]
    curve = ranking.curve("most", points=15)
    assert curve["removed"].tolist() == list(range(15))
    assert curve.loc[0, ["effect", "kl", "changed"]].tolist() == [0, 0, 0]
    assert curve.loc[1, "effect"] == pytest.approx(top["effect"], abs=EXACT)
    everything = ranking.group(ranking.heads)
    for order in ("most", "least", "random"):
        last = ranking.curve(order, points=2).iloc[-1]
        assert last["effect"] == pytest.approx(everything["effect"], abs=EXACT)
    assert ranking.curve("random", points=3).equals(ranking.curve("random", points=3))
    pairs = ranking.pairs
    assert len(pairs) == 12 * 11 // 2
    both = pairs.iloc[5]
    sites = [s for name in (both["a"], both["b"]) for s in ranking.heads if str(s) == name]
    assert both["together"] == pytest.approx(ranking.group(sites)["effect"], abs=EXACT)
    assert both["interaction"] == pytest.approx(
        both["together"] - both["effect_a"] - both["effect_b"], abs=1e-12
    )
    groups = ranking.groups
    cross = groups[(groups["block"] == "cross") & groups["layer"].isna()].iloc[0]
    assert cross["heads"] == 4
    wanted = ranking.group([s for s in ranking.heads if s.block == "cross"])
    assert cross["effect"] == pytest.approx(wanted["effect"], abs=EXACT)
    alone = ranking.table.loc[ranking.table["block"] == "cross", "effect"].sum()
    assert cross["sum"] == pytest.approx(alone)


def test_the_table_and_its_card(tiny_model: Model) -> None:
    ranking = tv.rank(tiny_model, PAIRS, seed=4)
    table = ranking.table
    assert table["rank"].tolist() == list(range(1, 15))
    assert (table["low"] <= table["effect"]).all()
    assert (table["effect"] <= table["high"]).all()
    assert (table["rank_low"] <= table["rank_high"]).all()
    assert (table["kl"] >= 0).all()
    assert table["changed"].between(0, 1).all()
    sites = {Site(r.stack, r.block, r.layer, r.head) for r in table.itertuples()}
    assert sites == set(ranking.heads)
    assert ranking.card["rows"] == sum(len(target) - 1 for _, target in PAIRS)
    assert ranking.card["seed"] == 4
    assert len(str(ranking.card["model_hash"])) == 64
    assert ranking.card["sentences_hash"] != tv.rank(tiny_model, PAIRS[:4]).card["sentences_hash"]
    assert "its mean over all rows of these sentences" in ranking.notes[0]
    assert not ranking.effects.flags.writeable
