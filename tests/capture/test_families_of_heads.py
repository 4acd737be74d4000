"""Heads of the library's rarer attentions: as many as the model has, and each what it is called."""

from __future__ import annotations

import itertools

import pytest
import torch
import transformers
from torch import nn

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention, ScaleHead
from transformer_viz.inference.findings import findings_of

pytestmark = pytest.mark.slow
SMALL = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2}
GROUPED = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
GROUPED |= {"attn_implementation": "eager"}


def strong(module: nn.Module) -> nn.Module:
    """Give a module weights that tell its tokens apart."""
    numbers = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.dim() > 1 or weight.numel() == 8:  # DiffLlama's lambdas are of 8 numbers
                weight.copy_(torch.randn(weight.shape, generator=numbers) / weight.shape[-1] ** 0.5)
    return module.eval()


def test_a_mixture_of_attention_heads_shows_all_heads_of_each_token():
    """Also where tokens times experts are as many as features."""
    shapes = ((2, 2, 8), (1, 4, 2), (2, 2, 9), (3, 2, 12))
    for (heads, chosen, tokens), implementation in itertools.product(shapes, ("eager", "sdpa")):
        words = {"num_key_value_heads": heads, "kv_channels": 8, "intermediate_size": 48}
        words |= {"num_local_experts": 8, "num_experts_per_tok": chosen}
        found = []
        for way in ("eager", implementation):
            config = transformers.JetMoeConfig(**SMALL, **words, attn_implementation=way)
            found.append(strong(transformers.JetMoeForCausalLM(config)))
        ids = torch.arange(2, 2 + tokens)[None]
        with torch.no_grad():
            expected = found[0](ids, output_attentions=True).attentions
            with tv.probe(found[1]) as run:
                found[1](ids)
        assert not run.unrecognised
        for record, one in zip(run.attentions, expected, strict=True):
            assert record.weights.shape == one.shape == (1, heads * chosen, tokens, tokens)
            assert float((record.weights - one).abs().max()) < 1e-5


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_differential_attention_has_as_many_heads_as_softmaxes(implementation):
    config = transformers.DiffLlamaConfig(**SMALL, **GROUPED)
    ids = [3, 17, 5, 29, 8, 31]
    plain = strong(transformers.DiffLlamaForCausalLM(config))
    with torch.no_grad():
        expected = plain(torch.tensor([ids]), output_attentions=True).attentions
    config._attn_implementation = implementation
    module = strong(transformers.DiffLlamaForCausalLM(config))
    trace = tv.trace(tv.load(module), ids)
    assert trace.report.status == "green"
    for layer, one in enumerate(expected):
        shown = torch.tensor(trace.attention("decoder", layer=layer))
        assert shown.shape == one[0].shape == (4, len(ids), len(ids))
        assert float((shown - one[0]).abs().max()) < 1e-5
    details = [line for finding in findings_of(trace) for line in finding.details]
    assert sum("differential attention" in line for line in details) == 2
    # A head that is off acts on both halves of the values: witness by two calls of the formula.
    edit = Intervention((ScaleHead(value=0.0, layer=0, head=1),))
    attention, seen = module.model.layers[0].self_attn, {}
    hook = attention.register_forward_hook(lambda _, given, out: seen.update(out=out[0]))
    with torch.no_grad(), tv.probe(module, edit):
        module(torch.tensor([ids]))
    hook.remove()
    with torch.no_grad():
        x = module.model.layers[0].input_layernorm(module.model.embed_tokens(torch.tensor([ids])))
        values = attention.v_proj(x).unflatten(-1, (2, 8)).transpose(1, 2)
        weights = expected[0].clone()
        weights[:, 1] = 0
        halves = [weights @ half.repeat(1, 4, 1, 1) for half in values.chunk(2, dim=1)]
        both = torch.cat(halves, -1).transpose(1, 2).chunk(2, dim=2)
        one = (attention.lambda_q1 * attention.lambda_k1).sum().exp()
        two = (attention.lambda_q2 * attention.lambda_k2).sum().exp()
        out = both[0] - (one - two + attention.lambda_init) * both[1]
        out = (1 - attention.lambda_init) * attention.groupnorm(out)
        out = attention.o_proj(out.flatten(2))
    assert float((seen["out"] - out).abs().max()) < 1e-5


class Retention(nn.Module):
    """Parallel retention (Sun et al. 2023): q·k times a decay of each head, a norm of each head."""

    def __init__(self, heads: int, width: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.gate, self.out = (nn.Linear(width, width) for _ in range(5))
        self.norm = nn.GroupNorm(heads, heads, affine=False)
        self.seen = torch.empty(0)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = (layer(x) for layer in (self.q, self.k, self.v))
        q, k, v = (y.unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3) for y in parts)
        place = torch.arange(tokens, dtype=x.dtype)
        apart = (place[:, None] - place).masked_fill(place[:, None] < place, torch.inf)
        decay = (1 - 2.0 ** -(5 + torch.arange(self.heads))).view(-1, 1, 1) ** apart
        self.seen = torch.einsum("abcd,abed->abce", q, k / k.shape[-1] ** 0.5) * decay[None]
        y = torch.einsum("abcd,abde->abce", self.seen, v).permute(0, 2, 1, 3)
        y = self.norm(y.reshape(batch * tokens, self.heads, -1)).reshape(batch, tokens, width)
        return self.out(y * nn.functional.silu(self.gate(x)))


def test_axes_of_retention_do_not_depend_on_the_numbers_of_its_weights():
    for heads, width, tokens in ((4, 32, 9), (2, 16, 8), (4, 16, 4), (3, 24, 8)):
        for seed in range(30):
            torch.manual_seed(seed)
            layers = nn.Sequential(nn.Embedding(40, width), Retention(heads, width)).eval()
            with torch.no_grad(), tv.probe(layers) as run:
                layers(torch.randint(0, 40, (2, tokens)))
            assert not run.unrecognised, (heads, tokens, seed)
            [record] = run.attentions
            assert record.weights.shape == (2, heads, tokens, tokens), (heads, tokens, seed)
            assert torch.equal(record.weights, layers[1].seen), (heads, tokens, seed)
            assert (record.kind, record.stack) == ("self", "decoder"), (heads, tokens, seed)
    report = tv.trace(tv.load(layers), [3, 17, 5, 9, 8]).report
    assert any("reckons its weights itself" in one for one in report.untold)
    assert not any("reach each other" in one for one in report.untold)


def test_decays_of_a_state_space_are_no_softmaxes():
    """Where all but the last token has faded, their rows hold a 1 and nothing else."""
    sizes = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 4}
    config = transformers.BambaConfig(**SMALL, **GROUPED, **sizes, attn_layer_indices=[1])
    module = strong(transformers.BambaForCausalLM(config))
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if name.endswith(("A_log", "dt_bias")):
                weight.fill_(4.5)
    report = tv.trace(tv.load(module), [3, 17, 5, 29, 8, 31, 2, 11, 23]).report
    assert not report.missed and report.status == "green"
    lone = transformers.Mamba2ForCausalLM(
        transformers.Mamba2Config(**SMALL, state_size=8, num_heads=8, head_dim=8, chunk_size=4)
    )
    with torch.no_grad(), tv.probe(lone.eval()) as run:
        lone(torch.tensor([[3, 17, 5, 29, 8]]))
    assert not run.attentions and "no attention was seen" in run.unrecognised[0]
