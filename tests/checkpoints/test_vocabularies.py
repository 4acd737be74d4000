"""The words of a model's source and target: each side bears those of its own vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

import transformer_viz as tv
from tests.support.two_vocabularies import (
    SOURCE,
    TARGET,
    WIDTH,
    Translator,
    translator,
    tutorial_file,
)
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.vocabularies.beside import languages_of, offered_files, side_files
from transformer_viz.inference.inspection import inspect
from transformer_viz.model import ModelConfig, Transformer

from .opennmt import Variant
from .opennmt import save as save_opennmt

TEXT, WRITTEN = "the small dog", "der kleiner hund"
WORDS = tuple(TEXT.split()), ("<sos>", *WRITTEN.split())
IDS = [1, 5, 9, 8]  # <sos> der kleiner hund
BY_IDS = ("1", "5", "9", "8")


def labels(model: Any, target: Any = WRITTEN, text: Any = TEXT) -> tuple[Any, Any]:
    trace = tv.trace(model, text, target, check=False)
    assert trace.target is not None
    return trace.source.labels, trace.target.labels


def word_level(words: tuple[str, ...]) -> Tokenizer:
    ids = {word: i for i, word in enumerate(words)}
    made = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def sentencepiece_file(path: Path, words: tuple[str, ...], **ids: int) -> Path:
    ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3} | ids
    text = path.with_suffix(".text")
    text.write_text(" ".join(words[sum(i >= 0 for i in ids.values()) :]) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(path.with_suffix("")), model_type="word",
        vocab_size=len(words), minloglevel=2, **ids,
    )  # fmt: skip
    text.unlink()
    path.with_suffix(".vocab").unlink()
    path.with_suffix(".model").replace(path)
    return path


# ---- modules in memory -------------------------------------------------------------------------


def test_each_side_bears_the_words_of_its_own_dictionary(tmp_path: Path) -> None:
    ids = {word: i for i, word in enumerate(TARGET)}
    for name, content in {
        "s.lines": "\n".join(SOURCE),
        "t.lines": "\n".join(TARGET),
        "s.json": json.dumps({word: i for i, word in enumerate(SOURCE)}),
        "t.json": json.dumps(ids),
        "ids.txt": "\n".join(f"{word}\t{i}" for i, word in enumerate(SOURCE)),
        "counts.txt": "\n".join(f"{word} {900 - i}" for i, word in enumerate(TARGET)),
        "both.json": json.dumps({"src": SOURCE, "tgt": TARGET}),
    }.items():
        (tmp_path / name).write_text(content)
    word_level(TARGET).save(str(tmp_path / "tokenizer.json"))
    torch.save(list(TARGET), tmp_path / "words.pt")
    given: dict[str, tuple[Any, Any]] = {
        "lists": (list(SOURCE), TARGET),
        "tokenizers": (word_level(SOURCE), word_level(TARGET)),
        "dictionaries": (dict(enumerate(SOURCE)), ids),
        "lines": (tmp_path / "s.lines", str(tmp_path / "t.lines")),
        "json": (tmp_path / "s.json", tmp_path / "t.json"),
        "ids and counts": (tmp_path / "ids.txt", tmp_path / "counts.txt"),
        "one file": (tmp_path / "both.json", None),
        "files of two kinds": (tmp_path / "s.json", tmp_path / "tokenizer.json"),
        "torch.save": (tmp_path / "s.json", tmp_path / "words.pt"),
    }
    for name, (source, target) in given.items():
        model = tv.load(translator(), tokenizer=source, target_tokenizer=target)
        assert labels(model) == labels(model, IDS) == WORDS, name
        assert (model.bos_id, model.eos_id, model.notes) == (1, 2, ()), name
        assert model.provenance["bos_id"] == model.provenance["eos_id"] == "sidecar", name
        assert tv.trace(model, TEXT, IDS, check=False).produced.labels[0] in TARGET, name
    source = sentencepiece_file(tmp_path / "a.spm", SOURCE)
    target = sentencepiece_file(tmp_path / "b.model", TARGET)
    model = tv.load(translator(), tokenizer=source, target_tokenizer=target)
    own = sentencepiece.SentencePieceProcessor(model_file=str(target))
    trace = tv.trace(model, TEXT, WRITTEN, check=False)
    assert trace.target.ids == (1, *own.encode(WRITTEN))
    assert trace.target.labels == ("<s>", *WRITTEN.split())
    assert trace.source.labels == (*TEXT.split(), "</s>")


def test_one_vocabulary_names_a_target_only_where_the_tables_are_one() -> None:
    size = {"target": len(SOURCE)}
    tied = translator(**size)
    tied.tgt.weight = tied.src.weight
    lone = translator(**size, shared=True)
    for name, module in {"shared": lone, "tied weights": tied}.items():
        model = tv.load(module, tokenizer=SOURCE)
        assert labels(model, "the cat")[1] == ("<sos>", "the", "cat"), name
        assert not model.notes, name
    for name, module in {"two": translator(), "two of one size": translator(**size)}.items():
        model = tv.load(module, tokenizer=word_level(SOURCE))
        assert labels(model, IDS) == (WORDS[0], BY_IDS), name
        assert "target_tokenizer=" in model.notes[0], name
        assert labels(model, "1 5 9 8")[1] == BY_IDS, name
    model = tv.load(translator(**size), tokenizer=SOURCE, target_tokenizer=SOURCE)
    assert labels(model, "the cat")[1] == ("<sos>", "the", "cat") and not model.notes
    only = tv.load(translator(), target_tokenizer=TARGET)
    assert labels(only, text=[4, 5]) == (("4", "5"), WORDS[1])
    assert "tokenizer=" in only.notes[0]


def test_a_module_that_cannot_be_tried_is_asked_for_its_lone_table() -> None:
    class Captions(nn.Module):
        """Reads floats ``[batch, token, width]`` and writes words."""

        def __init__(self, tables: int) -> None:
            super().__init__()
            self.words = nn.ModuleList(nn.Embedding(len(TARGET), WIDTH) for _ in range(tables))
            self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

        def forward(self, picture: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
            seen = self.words[-1](written)
            return self.attention(seen, picture, picture)[0] @ self.words[0].weight.T

    one = tv.load(Captions(1).eval(), tokenizer=TARGET)
    two = tv.load(Captions(2).eval(), tokenizer=TARGET)
    assert (one.tokenizer.target_ids("der"), one.notes) == ([1, 5], ())
    assert "target_tokenizer=" in two.notes[0]


def test_the_trial_leaves_no_trace_in_the_module() -> None:
    module = Translator().train()
    module.core.encoder.layers[0].dropout.p = 0.5
    before = torch.random.get_rng_state()
    state = {name: w.clone() for name, w in module.state_dict().items()}
    tv.load(module, tokenizer=SOURCE, target_tokenizer=TARGET)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(state[name], w) for name, w in module.state_dict().items())
    assert all(w.grad is None for w in module.parameters())


def test_a_list_says_where_a_target_starts_and_ends() -> None:
    module = translator()
    with torch.no_grad():
        module.out.bias[2] = 99.0  # <eos>
    both = {"tokenizer": SOURCE, "target_tokenizer": TARGET}
    model = tv.load(module, **both)
    assert tv.translate(model, TEXT)[0].ids == (2,)
    assert labels(model, None)[1] == ("<sos>",)
    other = tv.load(module, **both, bos_id=4, eos_id=7)
    assert (other.bos_id, other.eos_id, other.provenance["bos_id"]) == (4, 7, "override")
    assert labels(other)[1] == ("das", *WRITTEN.split())
    assert len(tv.translate(other, TEXT, max_tokens=3)[0].ids) == 3


@pytest.mark.slow
def test_a_sample_of_a_model_with_words_on_one_side_runs() -> None:
    for given in ({"tokenizer": SOURCE}, {"target_tokenizer": TARGET}):
        about = inspect(tv.load(translator(), **given))
        assert about.findings and about.to_dict()["report"] == "green", given
        assert about.vocabulary.typed == ("target_tokenizer" in given)
    own = {"tokenizer": [f"s{n}" for n in range(11)], "target_tokenizer": [*"0123456789-+"]}
    for given in (own, {"tokenizer": own["tokenizer"]}):  # no word of the sample, none for unknown
        about = inspect(tv.load(translator(), **given))
        assert about.to_dict()["report"] == "green", (given, about.findings)


def test_guessed_special_tokens_are_named_by_their_words(tmp_path: Path) -> None:
    whole = torch.load(tutorial_file(tmp_path / "model"))
    whole["speak.weight"] = whole.pop("generator.weight")
    file = tmp_path / "mine.pt"
    torch.save(whole, file)
    own = [f"t{n}" for n in range(len(TARGET))]
    given = {"tokenizer": [f"s{n}" for n in range(11)], "target_tokenizer": own, "heads": 2}
    tables = {"speak.weight": "generator.weight"}
    model = tv.load(file, names=tables, **given)
    ids = {word: model.config[word] for word in model.guesses if word.endswith("_id")}
    assert {"bos_id", "eos_id"} <= set(ids)
    for word, token in ids.items():
        assert f"{word}={token} ('t{token}')" in model.notes[-1], model.notes
    said = tv.load(file, names=tables, bos_id=5, **given)
    assert "bos_id" not in said.notes[-1]


def test_what_is_given_is_checked_at_load(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "corpus.txt").write_text("the cat sat\nthe dog\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "gap.txt").write_text("a\n\nb\n")
    (tmp_path / "deep.json").write_text('{"a": {"b": 1}}')
    (tmp_path / "cut.model").write_bytes(b"\x0a\x0b")
    torch.save({"words": Path("x")}, tmp_path / "objects.pt")
    for given, said in {
        "nothing.txt": "which is not there",
        "a\0b": "which is not there",
        tmp_path / "folder": "holds no tokenizer",
        tmp_path / "corpus.txt": "Line 1 holds several words",
        tmp_path / "empty.txt": "It is empty",
        tmp_path / "gap.txt": "Line 2 is empty",
        tmp_path / "deep.json": "from words to ids",
        tmp_path / "cut.model": "cut.model .*not a sentencepiece model",
        tmp_path / "objects.pt": "holds objects such as a Vocab of torchtext",
        (*SOURCE, "more"): "has 12 pieces, but the model knows 11",
        7: "is int 7; expected",
    }.items():
        with pytest.raises(CheckpointError, match=said):
            tv.load(translator(), tokenizer=given, target_tokenizer=TARGET)


def test_a_reference_transformer_in_memory_has_two_sides_too() -> None:
    sizes = {"d_model": 8, "heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
    sizes |= {"pad_id": 0, "bos_id": 1, "eos_id": 2, "max_positions": 16, "source_vocab": 11}
    two = Transformer(ModelConfig.from_dict(sizes | {"target_vocab": 12}))
    tied = Transformer(ModelConfig.from_dict(sizes | {"target_vocab": 11, "tied": "all"}))
    assert labels(tv.load(two, tokenizer=SOURCE, target_tokenizer=TARGET)) == WORDS
    assert labels(tv.load(two, tokenizer=SOURCE), IDS) == (WORDS[0], BY_IDS)
    assert labels(tv.load(tied, tokenizer=SOURCE), "the cat")[1][1:] == ("the", "cat")


# ---- files -------------------------------------------------------------------------------------


def lists(folder: Path, **sides: tuple[str, ...]) -> None:
    for name, words in sides.items():
        path = folder / name.replace("__", ".")
        path.write_text(json.dumps(words) if path.suffix == ".json" else "\n".join(words))


def test_files_beside_the_weights_are_known_by_their_names(tmp_path: Path) -> None:
    for number, (source, target) in enumerate((
        ("src__txt", "tgt__txt"),
        ("vocab_src__txt", "vocab_tgt__txt"),
        ("source__json", "target__json"),
        ("vocab__source", "vocab__target"),
        ("vocab__en", "vocab__de"),
    )):  # fmt: skip
        folder = tutorial_file(tmp_path / str(number) / "en-de").parent
        lists(folder, **{source: SOURCE, target: TARGET})
        model = tv.load(folder, heads=2)
        assert labels(model) == WORDS, source
        assert (model.pad_id, model.bos_id, model.eos_id, model.notes) == (0, 1, 2, ()), source
        assert model.provenance["pad_id"] == model.provenance["bos_id"] == "sidecar", source
    pair = tutorial_file(tmp_path / "pair").parent
    sentencepiece_file(pair / "source.spm", SOURCE)
    sentencepiece_file(pair / "target.spm", TARGET)
    assert labels(tv.load(pair, heads=2))[1] == ("<s>", *WRITTEN.split())
    # Words that torch saved beside the weights are not taken for weights.
    folder = tutorial_file(tmp_path / "saved").parent
    torch.save(list(SOURCE), folder / "src_vocab.pt")
    torch.save({word: i for i, word in enumerate(TARGET)}, folder / "tgt_vocab.pt")
    given = {"tokenizer": "src_vocab.pt", "target_tokenizer": "tgt_vocab.pt"}
    assert labels(tv.load(folder, heads=2, **given)) == WORDS


def test_where_names_do_not_tell_sizes_do_or_the_user(tmp_path: Path) -> None:
    less, sized, typed = SOURCE[:-1], "Taken by its size", (("4", "5"), BY_IDS)
    for number, (files, said, expected) in enumerate(
        (
            ({"vocab__en": SOURCE, "vocab__de": TARGET}, sized, WORDS),
            ({"vocab__de": SOURCE, "vocab__en": TARGET}, sized, WORDS),
            ({"words1__txt": TARGET, "words2__json": SOURCE, "vocab__xx": ("a",)}, sized, WORDS),
            ({"my__txt": SOURCE, "other__txt": TARGET, "log__txt": ("a b",)}, sized, WORDS),
            ({"words__txt": TARGET}, sized, (typed[0], WORDS[1])),
            ({"words1__txt": less, "words2__txt": SOURCE[:9]}, "do not say which", typed),
            ({"my__txt": less, "other__txt": SOURCE[:9]}, "other sizes", typed),
        )
    ):
        folder = tutorial_file(tmp_path / str(number)).parent
        lists(folder, **files)
        model = tv.load(folder, heads=2)
        notes = " ".join(model.notes)
        assert said in notes and "No vocabulary" not in notes, (files, notes)
        target = IDS if expected[1] == BY_IDS else WRITTEN
        text = [4, 5] if expected[0] == typed[0] else TEXT
        assert labels(model, target, text) == expected, files
    folder = tmp_path / "0"
    given = {"tokenizer": "vocab.en", "target_tokenizer": "vocab.de"}
    told = tv.load(folder, heads=2, **given)
    assert labels(told) == WORDS and not any("vocabular" in note for note in told.notes)
    half = tv.load(folder, heads=2, tokenizer="vocab.en").notes[0]
    assert half.endswith(": vocab.de (target)."), half
    with pytest.raises(CheckpointError, match="fit the other way round"):
        tv.load(folder, heads=2, tokenizer="vocab.de", target_tokenizer="vocab.en")


def test_one_file_beside_two_tables_names_the_source(tmp_path: Path) -> None:
    folder = tutorial_file(tmp_path / "model").parent
    lists(folder, words__txt=SOURCE)
    model = tv.load(folder, heads=2)
    assert labels(model, IDS) == (WORDS[0], BY_IDS)
    assert (model.bos_id, model.eos_id) == (1, 2)  # the tutorial's own are 2 and 3
    assert any("target_tokenizer=" in note for note in model.notes)
    assert labels(tv.load(folder, heads=2, target_tokenizer=TARGET)) == WORDS
    said = tv.load(folder, heads=2, target_tokenizer=TARGET, bos_id=4)
    assert (said.bos_id, said.provenance["bos_id"]) == (4, "override")
    (folder / "config.json").write_text('{"bos_id": 3}')  # a config says more than a list
    assert tv.load(folder, heads=2).bos_id == 3
    same = torch.load(folder / "model.pt")
    for name in ("tgt_tok_emb.embedding.weight", "generator.weight"):
        same[name] = same["src_tok_emb.embedding.weight"].clone()
    torch.save(same | {"generator.bias": torch.zeros(len(SOURCE))}, folder / "model.pt")
    assert labels(tv.load(folder, heads=2), "the cat")[1][1:] == ("the", "cat")


def test_other_texts_beside_the_weights_are_no_vocabularies(tmp_path: Path) -> None:
    folder = tutorial_file(tmp_path / "model").parent
    lists(folder, README__txt=("words",), requirements__txt=("torch",), log__json=("a",))
    (folder / "names.json").write_text("{}")
    assert side_files(folder).source is None
    assert [path.name for path in offered_files(folder)] == ["log.json"]
    (folder / "src.txt").write_text("a corpus\nof two lines")
    model = tv.load(folder, heads=2)
    assert labels(model, IDS, [4, 5]) == (("4", "5"), BY_IDS)
    assert "src.txt" in model.notes[0]
    assert languages_of(tmp_path / "opus_en_de", {}) == ("en", "de")
    assert languages_of(tmp_path / "runs", {}) == ()


def test_layouts_with_words_of_their_own_take_others(tmp_path: Path) -> None:
    path = save_opennmt(tmp_path, Variant())[0]
    own = tv.load(path, device="cpu")
    rows = own.config["target_vocab"]
    words = ["<unk>", "<blank>", "<s>", "</s>", *(f"w{i}" for i in range(rows - 4))]
    model = tv.load(path, device="cpu", target_tokenizer=words)
    assert model.tokenizer.source_ids("a b") == own.tokenizer.source_ids("a b")
    trace = tv.trace(model, own.tokenizer.source_ids("a"), "w1 w0", check=False)
    assert trace.target.labels[1:] == ("w1", "w0")


class Tagger(nn.Module):
    """Reads ids and writes states."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.words = nn.Embedding(rows, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.attention(*[self.words(ids)] * 3)[0]


def test_word_pieces_are_cut_as_bert_cuts_them(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s", "run"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(words))
    module = Tagger(len(words)).eval()
    tokens = tv.trace(tv.load(module, tokenizer=path), "The dogs run", check=False).source
    own = transformers.BertTokenizer(str(path))
    assert list(tokens.ids) == own("The dogs run")["input_ids"]
    assert tokens.words == (0, 1, 2, 2, 3, 4)
    roles = {"bos_token": "the", "eos_token": {"content": "run"}}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(roles))
    stated = tv.load(module, tokenizer=path)
    assert (stated.bos_id, stated.eos_id) == (5, 8)


def test_fairseqs_list_has_four_tokens_before_its_words(tmp_path: Path) -> None:
    (tmp_path / "dict.de.txt").write_text("".join(f"{w} {9 - i}\n" for i, w in enumerate("ab")))
    file = tmp_path / "dict.de.txt"
    model = tv.load(translator(target=6), tokenizer=SOURCE, target_tokenizer=file)
    assert labels(model, [0, 4, 5])[1] == ("<s>", "a", "b")
    assert (model.bos_id, model.eos_id) == (0, 2)
