"""What stands beside the weights, tokenizers and pictures; and models of the library in memory."""

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
from transformer_viz.checkpoints import CheckpointError, Model
from transformer_viz.checkpoints.hugging_face.side_files import open_tokenizer, refuse_growth
from transformer_viz.core.errors import is_panic
from transformer_viz.inference.generation import translate_lines
from transformer_viz.preprocessing.hugging_face import HuggingFaceText
from transformer_viz.preprocessing.tokenizers import PlainIds

from .hugging_face import BERT, CASES, HEADS, IDS, LAYERS, PAD, TEXT, P, V, folder_of, made, saved

WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "##s", "."]
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
           "mask_token": "[MASK]"}  # fmt: skip


def vocabulary(*extra: str) -> dict[str, int]:
    """Padding at the id that the tiny models pad with."""
    names = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *extra]
    return {name: number for number, name in enumerate(names)}


def words_tokenizer(*extra: str, types: bool = True) -> Any:
    """A tokenizer of whole words, with or without segments, as a fast one of the library."""
    core = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary(*extra), unk_token="[UNK]"))
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


@pytest.fixture
def bert(tmp_path: Path) -> Model:
    folder = folder_of(CASES["bert"], "safetensors", tmp_path)
    words_tokenizer().save_pretrained(folder)
    return tv.load(folder, device="cpu")


def test_a_text_is_read_by_the_tokenizer_beside_the_weights(bert):
    trace = tv.trace(bert, "the cats sat")
    assert trace.source.labels == ("[CLS]", "the", "cat", "s", "sat", "[SEP]")
    assert trace.source.ids == (2, 5, 6, 12, 7, 3)
    assert bert.mask_id == 4
    assert bert.pairs


def test_a_pair_is_told_apart_by_its_segments(bert):
    pair = tv.trace(bert, ("the cat", "a dog"))
    assert pair.source.ids == (2, 5, 6, 3, 10, 11, 3)
    given = {"input_ids": torch.tensor([pair.source.ids])}
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    with torch.inference_mode():
        theirs = bert.module(**given, token_type_ids=segments).logits[0].numpy()
        without = bert.module(**given).logits[0].numpy()
    assert np.abs(pair.logits - theirs).max() <= 2e-5
    assert np.abs(pair.logits - without).max() > 1e-2


def test_a_hidden_word_is_asked_for(bert):
    trace = tv.trace(bert, "the cat sat", masked=[2])
    assert trace.source.ids[2] == 4
    assert trace.produced.ids[2] == int(trace.logits[2].argmax())
    assert trace.produced.ids[1] == trace.source.ids[1]


def test_a_model_of_one_segment_is_given_none(tmp_path):
    words = TEXT | BERT | {"max_position_embeddings": P, "type_vocab_size": 1}
    model = made("RobertaForMaskedLM", "RobertaConfig", **words)
    folder = saved(model, tmp_path)
    words_tokenizer(types=False).save_pretrained(folder)
    found = tv.load(folder, device="cpu")
    ids, segments = found.tokenizer.pair_ids("the cat", "a dog")
    assert ids == [2, 5, 6, 3, 3, 10, 11, 3]
    assert segments is None
    trace = tv.trace(found, ("the cat", "a dog"))
    with torch.inference_mode():
        theirs = model(input_ids=torch.tensor([ids])).logits[0].numpy()
    assert np.abs(trace.logits - theirs).max() <= 2e-5


def test_a_decoder_starts_with_its_own_token(tmp_path):
    folder = folder_of(CASES["marian"], "safetensors", tmp_path)
    words_tokenizer().save_pretrained(folder)
    model = tv.load(folder, device="cpu")
    assert model.tokenizer.target_ids("the cat") == [PAD, 5, 6]
    assert not model.pairs and model.mask_id is None
    lines = ["the cat sat", "a dog", "the mat ."]
    together = [h.ids for h in translate_lines(model, lines, beam=2)]
    assert together == [tv.translate(model, line, beam=2)[0].ids for line in lines]


def test_a_vocabulary_larger_than_the_model_is_refused(tmp_path):
    folder = folder_of(CASES["bert"], "safetensors", tmp_path)
    words_tokenizer(*map(str, range(V))).save_pretrained(folder)
    with pytest.raises(CheckpointError, match=f"tokenizer has {V + 14} pieces.*knows {V}"):
        tv.load(folder, device="cpu")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", '{"model": 3}'),
        ("tokenizer.json", ""),
        ("tokenizer_config.json", '{"a": 1}'),
        ("spiece.model", "no vocabulary"),
    ],
)
def test_a_tokenizer_that_does_not_open_leaves_ids(file, content, tmp_path):
    folder = folder_of(CASES["bert"], "safetensors", tmp_path)
    (folder / file).write_text(content)
    model = tv.load(folder, device="cpu")
    assert "Its tokenizer cannot be opened" in model.notes[0]
    assert "\n" not in model.notes[0]
    assert tv.trace(model, "5 6 7").source.ids == (5, 6, 7)


def test_without_a_tokenizer_ids_are_typed(tmp_path):
    model = tv.load(folder_of(CASES["gpt2"], "safetensors", tmp_path), device="cpu")
    assert model.notes == ()
    assert tv.trace(model, "5 6 7").source.ids == (5, 6, 7)
    with pytest.raises(ValueError, match=f"each from 0 to {V - 1}"):
        tv.trace(model, f"5 {V}")


# ---- pictures ----------------------------------------------------------------------------------

VIT = CASES["vit"].words
STANDARD = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_resize": True, "resample": 2,
            "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}  # fmt: skip
PROCESSORS = {
    "squeezed": ("ViTImageProcessor", STANDARD | {"size": {"height": 12, "width": 12}}),
    "clip": ("CLIPImageProcessor", STANDARD | {"size": {"shortest_edge": 15}, "resample": 3,
             "do_center_crop": True, "crop_size": {"height": 12, "width": 12},
             "image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]}),
    "deit": ("DeiTImageProcessor", STANDARD | {"size": {"height": 17, "width": 15}, "resample": 3,
             "do_center_crop": True, "crop_size": {"height": 12, "width": 12}}),
    "plain": ("ViTImageProcessor", STANDARD | {"size": {"height": 12, "width": 12},
              "do_normalize": False}),
}  # fmt: skip


def picture(width: int, height: int) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    colours = np.stack((x * 5 % 256, y * 7 % 256, (x + y) * 3 % 256), axis=-1)
    return Image.fromarray(colours.astype(np.uint8))


@pytest.mark.parametrize("size", [(12, 12), (40, 31), (23, 50)])
@pytest.mark.parametrize("name", PROCESSORS)
def test_pictures_are_read_as_the_librarys_processor_reads_them(name, size, tmp_path):
    processor, words = PROCESSORS[name]
    folder = saved(made("ViTForImageClassification", "ViTConfig", **VIT), tmp_path)
    file = {"image_processor_type": processor} | words
    (folder / "preprocessor_config.json").write_text(json.dumps(file))
    model = tv.load(folder, device="cpu")
    theirs = getattr(transformers, f"{processor}Pil")(**words)
    expected = np.asarray(theirs(picture(*size), return_tensors="np")["pixel_values"][0])
    found = model.image.pixels(picture(*size))
    assert found.shape == expected.shape == (3, 12, 12)
    assert np.abs(found - expected).max() <= 1e-5
    assert model.provenance["image_mean"] == "sidecar"


@pytest.mark.parametrize(
    ("cls", "config", "words", "prefix"),
    [
        ("ViTForImageClassification", "ViTConfig", {}, ("class",)),
        ("DeiTForImageClassification", "DeiTConfig", {}, ("class", "distillation")),
        ("Dinov2WithRegistersForImageClassification", "Dinov2WithRegistersConfig",
         {"num_register_tokens": 2}, ("class", "register 0", "register 1")),
        ("SiglipVisionModel", "SiglipVisionConfig", {}, ()),
    ],
    ids=["vit", "deit", "dinov2", "siglip"],
)  # fmt: skip
def test_tokens_before_the_patches_have_names(cls, config, words, prefix, tmp_path):
    model = tv.load(saved(made(cls, config, **(VIT | words)), tmp_path), device="cpu")
    assert model.image.prefix == prefix
    assert model.image.grid == (3, 3)
    trace = tv.trace(model, picture(20, 20))
    assert trace.attention("encoder").shape == (LAYERS, HEADS, 9 + len(prefix), 9 + len(prefix))
    assert trace.manifest["image"] == {"grid": [3, 3], "prefix": len(prefix)}
    assert "image_mean" in model.guesses


def test_classes_have_their_names(tmp_path):
    names = {0: "cat", 1: "dog", 2: "owl", 3: "elk", 4: "ant"}
    model = made("ViTForImageClassification", "ViTConfig", **(VIT | {"id2label": names}))
    found = tv.load(saved(model, tmp_path), device="cpu")
    assert found.labels == tuple(names.values())
    assert tv.trace(found, picture(9, 9)).logits.shape == (5,)


# ---- models in memory --------------------------------------------------------------------------


def test_a_model_in_memory_tells_what_it_is():
    module = made("BertForMaskedLM", "BertConfig", **CASES["bert"].words).train()
    model = tv.load(module, tokenizer=words_tokenizer())
    assert (model.kind, model.gives, model.mask_id, model.pad_id) == ("encoder-only", "words", 4, 1)
    assert (model.pairs, model.max_tokens, model.name) == (True, P, "BertForMaskedLM")
    assert model.config["heads"] == HEADS
    assert model.provenance["heads"] == "module"
    assert model.module is module and not module.training
    trace = tv.trace(model, ("the cat", "a dog"))
    assert trace.source.ids == (2, 5, 6, 3, 10, 11, 3)


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "vit"])
def test_in_memory_as_from_the_folder(name, tmp_path):
    case = CASES[name]
    folder = tv.load(folder_of(case, "safetensors", tmp_path), device="cpu")
    memory = tv.load(made(case.cls, case.config, **case.words))
    for word in ("kind", "takes", "gives", "pad_id", "bos_id", "eos_id", "max_tokens", "labels"):
        assert getattr(memory, word) == getattr(folder, word), word
    ours = ("heads", "d_model", "encoder_layers", "decoder_layers", "target_vocab")
    assert [memory.config.get(w) for w in ours] == [folder.config.get(w) for w in ours]
    with torch.inference_mode():
        pair = [model.calls.forward(*case.inputs) for model in (memory, folder)]
    assert torch.equal(*pair)


def test_what_is_built_cannot_be_overridden():
    module = made("GPT2LMHeadModel", "GPT2Config", **CASES["gpt2"].words)
    with pytest.raises(CheckpointError, match="built already; heads cannot be overridden"):
        tv.load(module, heads=4)
    with pytest.raises(CheckpointError, match="eos_id is a whole number from 0; got 'x'"):
        tv.load(module, eos_id="x")
    assert tv.load(module, eos_id=9).eos_id == 9


def test_a_state_space_in_memory_says_why_there_is_nothing_to_show():
    words = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
    module = made("MambaModel", "MambaConfig", **(TEXT | words))
    with pytest.raises(CheckpointError, match=r"mamba model has no attention .*a state space"):
        tv.load(module)


def test_half_precision_in_memory_stays_so():
    module = made("ViTForImageClassification", "ViTConfig", **VIT).to(torch.bfloat16)
    model = tv.load(module)
    assert model.dtype == "bfloat16"
    assert tv.trace(model, picture(12, 12)).logits.shape == (5,)


class Own(nn.Module):
    """Somebody's own module with attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        return self.attention(x, x, x)[0]


def test_a_tokenizer_of_the_library_serves_any_module():
    model = tv.load(Own(), tokenizer=words_tokenizer())
    assert tv.trace(model, "the cat").source.labels == ("[CLS]", "the", "cat", "[SEP]")
    assert isinstance(tv.load(Own()).tokenizer, PlainIds)
    own = PlainIds(V)
    assert tv.load(Own(), tokenizer=own).tokenizer is own
    assert IDS.max() < V


MARKS = ("single_word", "lstrip", "rstrip", "normalized")


def whole_file(**parts: Any) -> str:
    """A ``tokenizer.json`` of two pieces, with other steps around them."""
    whole: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            {"id": 2, "content": "[X]", "special": True} | dict.fromkeys(MARKS, False)
        ],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    }
    return json.dumps(whole | parts)


def template(count: int, times: int) -> dict[str, Any]:
    """A step that puts ``times`` special tokens of ``count`` ids each before a text."""
    token = {"id": "[X]", "ids": [2] * count, "tokens": ["[X]"] * count}
    special = {"SpecialToken": {"id": "[X]", "type_id": 0}}
    text = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    return {
        "type": "TemplateProcessing",
        "single": [*[special] * times, text[0]],
        "pair": text,
        "special_tokens": {"[X]": token},
    }


HUNGRY = {
    "a template": ({"post_processor": template(3000, 3000)}, "puts 9,003,000 special tokens"),
    "templates in a row": (
        {"post_processor": {"type": "Sequence", "processors": [template(1, 39)] * 2}},
        "puts 80 special tokens around a text, and 64 are the most",
    ),
    "padding": (
        {"padding": {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_id": 0}},
        "pads to 1,000,000,000 tokens",
    ),
}


@pytest.mark.parametrize("case", HUNGRY)
def test_a_tokenizer_that_would_fill_the_memory_is_not_opened(case: str, tmp_path: Path) -> None:
    parts, message = HUNGRY[case]
    (tmp_path / "tokenizer.json").write_text(whole_file(**parts))
    with pytest.raises(ValueError, match=message):
        refuse_growth(tmp_path)
    found, note = open_tokenizer(transformers, tmp_path, None)
    assert found is None and message in note and "token ids are typed" in note
    (tmp_path / "tokenizer.json").write_text(whole_file(post_processor=template(1, 1)))
    refuse_growth(tmp_path)


def test_the_id_of_a_padding_token_may_be_large(tmp_path: Path) -> None:
    """That of Qwen 2 is 151,643: a number of a token, and not of how many there are."""
    padding = {"strategy": {"Fixed": 512}, "direction": "Right", "pad_to_multiple_of": 8}
    whole = whole_file(padding=padding | {"pad_id": 151_643, "pad_type_id": 0})
    (tmp_path / "tokenizer.json").write_text(whole)
    refuse_growth(tmp_path)
    multiple = whole_file(padding=padding | {"pad_to_multiple_of": 10**9})
    (tmp_path / "tokenizer.json").write_text(multiple)
    with pytest.raises(ValueError, match="pads to 1,000,000,000 tokens"):
        refuse_growth(tmp_path)


def test_a_panic_of_the_tokenizer_is_a_sentence() -> None:
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


def test_a_vocabulary_that_the_librarys_class_does_not_read_is_not_said_to_be_absent(tmp_path):
    """rxnmapper's ALBERT comes with a vocab.txt, and its tokenizer's code is elsewhere."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "C", "O", "(", ")", "=", "[nH]"]
    words = {"vocab_size": len(pieces), "embedding_size": 8, "hidden_size": 16}
    words |= {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    module = transformers.AlbertForMaskedLM(transformers.AlbertConfig(**words))
    module.save_pretrained(tmp_path)
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
