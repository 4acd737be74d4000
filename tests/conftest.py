"""Tiny shared models: every size its own prime, so that no two axes can be swapped unseen."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"  # a name that is no path is asked for at the Hub

import torch
from torch import nn

from tests.support import device
from tests.support.paths import ROOT
from tests.support.tiny_labs import labs, tiny_box
from transformer_viz.checkpoints.common import native
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.model import ModelConfig, Transformer
from transformer_viz.preprocessing.tokenizers import PlainIds

__all__ = ["labs", "tiny_box"]  # fixtures for every test

torch.set_num_threads(1)
# A busy machine is no reason to fail.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

BROWSER = ROOT / "tests" / "browser"
PAGE_TESTS = ROOT / "tests" / "app" / "pages"
#: The modules with the longest tests, which begin: none of them is to end a run alone.
LONGEST = ("everywhere", "kinds", "pages", "visit", "soak", "live", "lessons", "inside")

#: An encoder-decoder of 2 heads, 3 + 2 layers, and vocabularies of 37 and 41 tokens.
TINY = ModelConfig(
    d_model=22,
    heads=2,
    d_k=11,
    d_v=13,
    d_ff=29,
    encoder_layers=3,
    decoder_layers=2,
    source_vocab=37,
    target_vocab=41,
    max_positions=43,
    norm_eps=1e-3,
)
SENTENCES = [
    "The cat sat on the mat.",
    "A dog didn't cross the street, because it was too tired.",
    "The animal saw the cat and the dog.",
    "Why did the tired cat cross the street?",
]


def ramp(module: nn.Module) -> nn.Module:
    """Fill every parameter with a fixed, uneven ramp: the same weights on every machine.

    Steps of a prime through a larger prime, centred, on the scale that keeps activations near 1;
    gains of norms stand around 1. Each parameter starts elsewhere on the ramp.
    """
    with torch.no_grad():
        for number, (name, parameter) in enumerate(module.named_parameters()):
            steps = torch.arange(parameter.numel(), dtype=torch.float64) * 7919 + 611 * number
            values = (steps % 1009) / 1009 - 0.5
            width = parameter.shape[-1] if parameter.dim() > 1 else 4
            values = values * (12 / width) ** 0.5
            if "norm" in name and name.endswith("weight"):
                values = 1 + values / 4
            parameter.copy_(values.reshape(parameter.shape))
    return module


def make_module(config: ModelConfig = TINY, **words: Any) -> Transformer:
    """A reference Transformer with ramp weights, in evaluation mode."""
    module = Transformer(replace(config, **words))
    ramp(module)
    return module.eval()


def make_model(config: ModelConfig = TINY, **words: Any) -> Model:
    """The same, wrapped as `load` would give it, reading ids typed as numbers."""
    module = device.placed(make_module(config, **words))
    c = module.config
    tokenizer = PlainIds(
        c.source_vocab or c.target_vocab,
        target_size=c.target_vocab or None,
        pad_id=c.pad_id,
        bos_id=c.bos_id,
        eos_id=c.eos_id,
    )
    return native.wrap(module, tokenizer, "tiny")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where models compute: cpu, or cuda")


def pytest_configure(config: pytest.Config) -> None:
    device.name = config.getoption("--device")
    if not device.fits():
        raise pytest.UsageError(f"There is no device {device.name!r} here; leave --device out.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test carries `browser` or `app` by where it stands or what it uses: docs/tests.md."""
    for item in items:
        uses = getattr(item, "fixturenames", ())
        if BROWSER in item.path.parents or "browser" in uses:
            item.add_marker(pytest.mark.browser)
        elif "AppTest" in vars(getattr(item, "module", None) or object) or "visit" in uses:
            item.add_marker(pytest.mark.app)
    items.sort(key=lambda item: _turn(item.path))  # within a turn the order stays


def _turn(path: Path) -> int:
    """When a module's tests begin: the longest in a browser first, the app's pages next."""
    if path.parent == BROWSER / "app":
        name = path.stem.removeprefix("test_")
        return LONGEST.index(name) if name in LONGEST else len(LONGEST)
    return len(LONGEST) + (1 if path.parent == PAGE_TESTS else 2)


@pytest.fixture(scope="session")
def tiny_config() -> ModelConfig:
    return TINY


@pytest.fixture(scope="session")
def tiny_model() -> Model:
    """An encoder-decoder with ramp weights; nothing may change it."""
    return make_model()


@pytest.fixture(scope="session")
def tiny_gpt() -> Model:
    """A decoder-only model with ramp weights; nothing may change it."""
    return make_model(encoder_layers=0, source_vocab=0)


@pytest.fixture(scope="session")
def build_model() -> Callable[..., Model]:
    """Makes a wrapped tiny model; words of ModelConfig change it."""
    return make_model


@pytest.fixture(scope="session")
def build_module() -> Callable[..., Transformer]:
    """Makes a bare tiny Transformer; words of ModelConfig change it."""
    return make_module


@pytest.fixture(scope="session")
def make_vocabulary() -> Callable[..., bytes]:
    """Trains a sentencepiece vocabulary on a handful of sentences; words are its options."""
    import sentencepiece

    def train(**options: Any) -> bytes:
        out = io.BytesIO()
        words = {
            "vocab_size": 331,
            "model_type": "bpe",  # on so few sentences a unigram model learns no words
            "byte_fallback": True,
            "normalization_rule_name": "nfkc",
            "pad_id": 0,
            "unk_id": 1,
            "bos_id": 2,
            "eos_id": 3,
        }
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 5),
            model_writer=out,
            num_threads=1,
            minloglevel=2,
            **(words | options),
        )
        return out.getvalue()

    return train


@pytest.fixture(scope="session")
def tiny_vocabulary(make_vocabulary: Callable[..., bytes]) -> bytes:
    """A sentencepiece model file with byte fallback, as the shipped model has it."""
    return make_vocabulary()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests that need one: Playwright starts only once in a process.

    It calls this machine by another name too, as if it were another machine's.
    """
    from playwright.sync_api import sync_playwright

    from tests.support.browser import ELSEWHERE, FLAGS, chromium

    flags = [*FLAGS, f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"]
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=flags)
        yield found
        found.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the ten folders of tests that took longest, in seconds of all workers together."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = Path(report.nodeid.partition("::")[0]).parent
                seconds[folder.as_posix()] += report.duration
    terminalreporter.section("slowest groups")
    for folder, spent in seconds.most_common(10):
        terminalreporter.line(f"{spent:7.0f} s  {folder}")
