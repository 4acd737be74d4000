"""Tokenizers and image processors beside the weights; models of the library in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from PIL import Image
from torch import nn

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.hugging_face.side_files import open_tokenizer, refuse_growth
from transformer_viz.core.errors import is_panic
from transformer_viz.inference.generation import translate_lines
from transformer_viz.preprocessing.hugging_face import HuggingFaceText
from transformer_viz.preprocessing.tokenizers import PlainIds

from .hugging_face import BERT, CASES, HEADS, LAYERS, PAD, TEXT, P, V, folder_of, made, saved
from .opening import opens

WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "##s", "."]
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
           "mask_token": "[MASK]"}  # fmt: skip


def words_tokenizer(*extra: str, types: bool = True) -> Any:
    """Return a fast tokenizer of whole words, with or without segments; padding as the models."""
    names = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *extra]
    vocabulary = {name: number for number, name in enumerate(names)}
    core = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if types:
        core.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    else:
        core.post_processor = tokenizers.processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, model_input_names=names, **SPECIAL
    )


def folder(name: str, place: Path, tokenizer: Any = None) -> Path:
    found = folder_of(CASES[name], "safetensors", place)
    if tokenizer is not None:
        tokenizer.save_pretrained(found)
    return found


def test_a_text_a_pair_and_a_hidden_word_are_read_by_the_tokenizer(tmp_path):
    bert = opens(folder("bert", tmp_path, words_tokenizer()), mask_id=4, pairs=True)
    source = tv.trace(bert, "the cats sat", check=False).source
    assert source.labels == ("[CLS]", "the", "cat", "s", "sat", "[SEP]")
    assert source.ids == (2, 5, 6, 12, 7, 3)
    pair = tv.trace(bert, ("the cat", "a dog"), check=False)
    assert pair.source.ids == (2, 5, 6, 3, 10, 11, 3)
    given = {"input_ids": torch.tensor([pair.source.ids])}
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    with torch.inference_mode():
        theirs = bert.module(**given, token_type_ids=segments).logits[0].numpy()
        without = bert.module(**given).logits[0].numpy()
    assert np.abs(pair.logits - theirs).max() <= 2e-5
    assert np.abs(pair.logits - without).max() > 1e-2
    masked = tv.trace(bert, "the cat sat", masked=[2], check=False)
    assert masked.source.ids[2] == 4
    assert masked.produced.ids[2] == int(masked.logits[2].argmax())
    assert masked.produced.ids[1] == masked.source.ids[1]


def test_a_model_of_one_segment_is_given_none(tmp_path):
    words = TEXT | BERT | {"max_position_embeddings": P, "type_vocab_size": 1}
    model = made("RobertaForMaskedLM", "RobertaConfig", **words)
    words_tokenizer(types=False).save_pretrained(saved(model, tmp_path))
    found = tv.load(tmp_path, device="cpu")
    ids = [2, 5, 6, 3, 3, 10, 11, 3]
    assert found.tokenizer.pair_ids("the cat", "a dog") == (ids, None)
    trace = tv.trace(found, ("the cat", "a dog"), check=False)
    with torch.inference_mode():
        theirs = model(input_ids=torch.tensor([ids])).logits[0].numpy()
    assert np.abs(trace.logits - theirs).max() <= 2e-5


def test_a_decoder_starts_with_its_own_token(tmp_path):
    model = opens(folder("marian", tmp_path, words_tokenizer()), pairs=False, mask_id=None)
    assert model.tokenizer.target_ids("the cat") == [PAD, 5, 6]
    lines = ["the cat sat", "a dog", "the mat ."]
    together = [h.ids for h in translate_lines(model, lines, beam=2)]
    assert together == [tv.translate(model, line, beam=2)[0].ids for line in lines]


def test_without_a_tokenizer_that_opens_ids_are_typed(tmp_path):
    model = opens(folder("gpt2", tmp_path / "gpt2"), notes=())
    assert model.tokenizer.prompt_ids("5 6 7") == [5, 6, 7]
    with pytest.raises(ValueError, match=f"each from 0 to {V - 1}"):
        tv.trace(model, f"5 {V}")
    place = folder("bert", tmp_path / "bert")
    (place / "tokenizer.json").write_text('{"model": 3}')
    model = tv.load(place, device="cpu")
    assert "Its tokenizer cannot be opened" in model.notes[0] and "\n" not in model.notes[0]
    assert model.tokenizer.source_ids("5 6 7") == [5, 6, 7]


def test_a_vocabulary_that_the_librarys_class_does_not_read_is_not_said_to_be_absent(tmp_path):
    """rxnmapper's ALBERT comes with a vocab.txt, and its tokenizer's code is elsewhere."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "C", "O", "(", ")", "=", "[nH]"]
    words = {"vocab_size": len(pieces), "embedding_size": 8, "hidden_size": 16,
             "num_hidden_layers": 1, "num_attention_heads": 2,
             "intermediate_size": 16}  # fmt: skip
    saved(made("AlbertForMaskedLM", "AlbertConfig", **words), tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    for config, said in (
        ("{}", "took no pieces from vocab.txt"),
        ('{"tokenizer_class": "SmilesTokenizer"}', "the library has no SmilesTokenizer"),
    ):
        (tmp_path / "tokenizer_config.json").write_text(config)
        model = tv.load(tmp_path, device="cpu")
        [note] = [note for note in model.notes if note.startswith("Its tokenizer")]
        assert said in note and "tokenizer=" in note and "no vocabulary" not in note
        with pytest.raises(ValueError, match="No tokenizer is open for this model"):
            tv.trace(model, "CC(=O)O")


def whole_file(**parts: Any) -> str:
    """Return a ``tokenizer.json`` of two pieces, with other steps around them."""
    marks = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = {"id": 2, "content": "[X]", "special": True} | marks
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    return json.dumps({"version": "1.0", "added_tokens": [added], "model": model} | parts)


def template(count: int, times: int) -> dict[str, Any]:
    """Return a step that puts ``times`` special tokens of ``count`` ids each before a text."""
    token = {"id": "[X]", "ids": [2] * count, "tokens": ["[X]"] * count}
    special = {"SpecialToken": {"id": "[X]", "type_id": 0}}
    text = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    single = [*[special] * times, text[0]]
    return {"type": "TemplateProcessing", "single": single, "pair": text,
            "special_tokens": {"[X]": token}}  # fmt: skip


def test_a_tokenizer_that_would_fill_the_memory_is_not_opened(tmp_path):
    file = tmp_path / "tokenizer.json"
    fixed = {"strategy": {"Fixed": 512}, "direction": "Right", "pad_id": 151_643, "pad_type_id": 0}
    for parts, message in (
        ({"post_processor": template(3000, 3000)}, "puts 9,003,000 special tokens"),
        ({"post_processor": {"type": "Sequence", "processors": [template(1, 39)] * 2}},
         "puts 80 special tokens around a text, and 64 are the most"),
        ({"padding": fixed | {"strategy": {"Fixed": 10**9}}}, "pads to 1,000,000,000 tokens"),
        ({"padding": fixed | {"pad_to_multiple_of": 10**9}}, "pads to 1,000,000,000 tokens"),
    ):  # fmt: skip
        file.write_text(whole_file(**parts))
        with pytest.raises(ValueError, match=message):
            refuse_growth(tmp_path)
        found, note = open_tokenizer(transformers, tmp_path, None)
        assert found is None and message in note and "token ids are typed" in note, message
    for parts in (
        {"post_processor": template(1, 1)},
        {"padding": fixed | {"pad_to_multiple_of": 8}},  # Qwen 2 pads with the token 151,643
    ):
        file.write_text(whole_file(**parts))
        refuse_growth(tmp_path)


def test_a_panic_of_the_tokenizer_is_a_sentence():
    """Oniguruma gives up on this pattern, and the library panics: no Exception is raised."""
    slow = {"type": "Split", "pattern": {"Regex": "(?:a|a){40}[bc]"}, "behavior": "Isolated"}
    core = tokenizers.Tokenizer.from_str(whole_file(pre_tokenizer=slow | {"invert": False}))
    outer = HuggingFaceText(transformers.PreTrainedTokenizerFast(tokenizer_object=core))
    with pytest.raises(BaseException, match="retry-limit") as panic:
        core.encode("a" * 60)
    assert is_panic(panic.value) and not isinstance(panic.value, Exception)
    for read in (outer.source_ids, outer.target_ids, lambda text: outer.pair_ids(text, text)):
        with pytest.raises(ValueError, match=r"The tokenizer of this model broke off \(Onig.*\.$"):
            read("a" * 60)


VIT = CASES["vit"].words
STANDARD = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_resize": True, "resample": 2,
            "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}  # fmt: skip
SQUARE = {"height": 12, "width": 12}
CROP = {"do_center_crop": True, "crop_size": SQUARE, "resample": 3}
PROCESSORS = (
    ("ViTImageProcessor", {"size": SQUARE}),
    ("CLIPImageProcessor", CROP | {"size": {"shortest_edge": 15}, "image_mean": [0.48, 0.45, 0.4],
                                   "image_std": [0.27, 0.26, 0.28]}),
    ("DeiTImageProcessor", CROP | {"size": {"height": 17, "width": 15}}),
    ("ViTImageProcessor", {"size": SQUARE, "do_normalize": False}),
)  # fmt: skip


def picture(width: int, height: int) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    colours = np.stack((x * 5 % 256, y * 7 % 256, (x + y) * 3 % 256), axis=-1)
    return Image.fromarray(colours.astype(np.uint8))


def test_pictures_are_read_as_the_librarys_processor_reads_them(tmp_path):
    place = folder("vit", tmp_path)
    for processor, words in PROCESSORS:
        words = STANDARD | words
        file = {"image_processor_type": processor} | words
        (place / "preprocessor_config.json").write_text(json.dumps(file))
        model = opens(place, origin={"image_mean": "sidecar"})
        theirs = getattr(transformers, f"{processor}Pil")(**words)
        for size in ((12, 12), (40, 31), (23, 50)):
            expected = theirs(picture(*size), return_tensors="np")["pixel_values"][0]
            found = model.image.pixels(picture(*size))
            assert found.shape == np.shape(expected) == (3, 12, 12), (processor, words, size)
            assert np.abs(found - expected).max() <= 1e-5, (processor, words, size)


def test_tokens_before_the_patches_and_classes_have_names(tmp_path):
    names = ("cat", "dog", "owl", "elk", "ant")
    labels = {"id2label": dict(enumerate(names))}
    for family, words, prefix in (
        ("ViTForImageClassification", labels, ("class",)),
        ("DeiTForImageClassification", {}, ("class", "distillation")),
        ("Dinov2WithRegistersForImageClassification", {"num_register_tokens": 2},
         ("class", "register 0", "register 1")),
        ("SiglipVisionModel", {}, ()),
    ):  # fmt: skip
        config = family.removesuffix("ForImageClassification").removesuffix("Model") + "Config"
        model = tv.load(saved(made(family, config, **(VIT | words)), tmp_path / family))
        assert (model.image.prefix, model.image.grid) == (prefix, (3, 3)), family
        trace, size = tv.trace(model, picture(20, 20), check=False), 9 + len(prefix)
        assert trace.attention("encoder").shape == (LAYERS, HEADS, size, size), family
        assert trace.manifest["image"] == {"grid": [3, 3], "prefix": len(prefix)}, family
        assert "image_mean" in model.guesses, family
        if words is labels:
            assert model.labels == names and trace.logits.shape == (5,)


def test_a_model_in_memory_says_what_it_is():
    module = made("BertForMaskedLM", "BertConfig", **CASES["bert"].words).train()
    model = tv.load(module, tokenizer=words_tokenizer())
    assert (model.kind, model.gives, model.mask_id, model.pad_id) == ("encoder-only", "words", 4, 1)
    assert (model.pairs, model.max_tokens, model.name) == (True, P, "BertForMaskedLM")
    assert (model.config["heads"], model.provenance["heads"]) == (HEADS, "module")
    assert model.module is module and not module.training
    assert model.tokenizer.pair_ids("the cat", "a dog")[0] == [2, 5, 6, 3, 10, 11, 3]
    half = tv.load(made("ViTForImageClassification", "ViTConfig", **VIT).to(torch.bfloat16))
    assert half.dtype == "bfloat16"
    assert tv.trace(half, picture(12, 12)).logits.shape == (5,)


def test_in_memory_as_from_the_folder(tmp_path):
    said = ("kind", "takes", "gives", "pad_id", "bos_id", "eos_id", "max_tokens", "labels")
    ours = ("heads", "d_model", "encoder_layers", "decoder_layers", "target_vocab")
    for name in ("gpt2", "llama", "marian", "vit"):
        case = CASES[name]
        pair = (
            tv.load(folder(name, tmp_path / name), device="cpu"),
            tv.load(made(case.cls, case.config, **case.words)),
        )
        one, other = ([getattr(model, word) for word in said] for model in pair)
        assert one == other, name
        one, other = ([model.config.get(word) for word in ours] for model in pair)
        assert one == other, name
        with torch.inference_mode():
            one, other = (model.calls.forward(*case.inputs) for model in pair)
        assert torch.equal(one, other), name


def test_what_is_built_cannot_be_overridden():
    module = made("GPT2LMHeadModel", "GPT2Config", **CASES["gpt2"].words)
    for words, message in (
        ({"heads": 4}, "built already; heads cannot be overridden"),
        ({"eos_id": "x"}, "eos_id is a whole number from 0; got 'x'"),
    ):
        with pytest.raises(CheckpointError, match=message):
            tv.load(module, **words)
    assert tv.load(module, eos_id=9).eos_id == 9
    words = TEXT | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
    with pytest.raises(CheckpointError, match=r"mamba model has no attention .*a state space"):
        tv.load(made("MambaModel", "MambaConfig", **words))


class Own(nn.Module):
    """A module of the user's own with attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        return self.attention(x, x, x)[0]


def test_a_tokenizer_of_the_library_serves_any_module():
    model = tv.load(Own(), tokenizer=words_tokenizer())
    labels = tv.trace(model, "the cat", check=False).source.labels
    assert labels == ("[CLS]", "the", "cat", "[SEP]")
    assert isinstance(tv.load(Own()).tokenizer, PlainIds)
    own = PlainIds(V)
    assert tv.load(Own(), tokenizer=own).tokenizer is own
