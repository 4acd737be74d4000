"""Folders of models that hear: what is shown is what the library itself reports of the sound."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers

import transformer_viz as tv
from tests.support.speech import RATE, SPEECH, WORDS, extractor_of, module_of, speech_folder
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.core.interventions import Intervention, Pad, ScaleHead, Temperature
from transformer_viz.preprocessing.audio import example_sound, resampled
from transformer_viz.preprocessing.wav import wav_bytes

WRITERS, SPELLERS = ("whisper", "moonshine"), ("wav2vec2", "wav2vec2-layer", "hubert", "wavlm")
REPORTED = {"encoder": "encoder_attentions", "decoder": "decoder_attentions",
            "cross": "cross_attentions"}  # fmt: skip
SOUND = example_sound(RATE)
FRAMES = {"whisper": 50, "moonshine": 48}  # of SOUND: by hand, from kernels and strides


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Any:
    made = {name: speech_folder(name, tmp_path_factory.mktemp(name)) for name in SPEECH}
    return made.__getitem__


@pytest.fixture(scope="module")
def models(folders) -> Any:
    opened = {name: tv.load(folders(name), device="cpu") for name in SPEECH}
    return opened.__getitem__


def run_by_library(name: str, module: Any, target: tuple[int, ...] = (), **words: Any) -> Any:
    """The library's own pass over the sound, through its own extractor."""
    given = extractor_of(name)(SOUND, sampling_rate=RATE, return_tensors="pt")
    given.pop("attention_mask", None)
    if target:
        given["decoder_input_ids"] = torch.tensor([target])
    with torch.no_grad():
        return module(**given, **words)


def eager(name: str) -> Any:
    module = module_of(name)
    module.set_attn_implementation("eager")
    return module


@pytest.mark.slow
def test_every_map_is_the_models_own_and_its_tokens_are_frames(models):
    for name in SPEECH:
        model = models(name)
        run = tv.trace(model, SOUND)
        ids = run.target.ids if run.target else ()
        theirs = run_by_library(name, eager(name), ids, output_attentions=True)
        blocks = REPORTED if name in WRITERS else {"encoder": "attentions"}
        assert run.maps == tuple(blocks), name
        for block, word in blocks.items():
            ours, own = run.attention(block), torch.stack(getattr(theirs, word))[:, 0].numpy()
            if name == "wavlm":  # it reports the mean of its heads in the place of each
                ours = np.broadcast_to(ours.mean(axis=1, keepdims=True), ours.shape)
            assert ours.shape == own.shape, (name, block)
            assert np.abs(ours - own).max() <= 1e-6, (name, block)
        assert np.abs(run.logits - theirs.logits[0].numpy()).max() <= 1e-4, name
        assert (model.takes, run.report.status) == ("audio", "green"), (name, run.report)
        source, hop = run.source, 384 if name == "moonshine" else 640
        labels = [f"{number * hop / RATE:.{3 if hop == 384 else 2}f} s" for number in range(3)]
        assert source.labels[:3] == tuple(labels), name
        assert len(source) == FRAMES.get(name, 1 + (len(SOUND) - 320) // 640), name
        silent = 2.0 - len(SOUND) / RATE if name == "whisper" else 0
        assert sum(source.special) == int(silent / 0.04) and not source.ids, name
        if name in SPELLERS:  # CTC gives a letter for each frame
            best = run_by_library(name, module_of(name)).logits[0].argmax(-1).tolist()
            assert run.produced.ids == tuple(best), name
            assert model.gives == "tags" and model.labels[4:7] == ("|", "E", "T"), name
            assert run.produced.labels[2] == f"0.08 s: {model.labels[best[2]]}", name
            assert any("Token 0 is the blank" in note for note in model.notes), name


def test_edits_obey_their_laws(models):
    """Temperature 2 halves the queries; a head off has no columns in the output projection."""
    off = ScaleHead(value=0.0, stack="encoder", block="self", layer=1, head=0)
    places = ("encoder.layers.1.self_attn", "encoder.layers.1.attention")
    for name in SPEECH:
        model = models(name)
        run = tv.trace(model, SOUND, check=False)
        target = run.target.ids if run.target else ()
        held = {"target": target} if target else {}
        cooler, silent = copy.deepcopy(model.module), copy.deepcopy(model.module)
        for path, part in cooler.named_modules():
            if path.endswith("q_proj"):
                for parameter in part.parameters():
                    parameter.data /= 2
        layer = next(part for path, part in silent.named_modules() if path.endswith(places))
        output = getattr(layer, "out_proj", None) or layer.o_proj
        output.weight.data[:, :8] = 0
        for edit, module in ((Temperature(value=2.0), cooler), (off, silent)):
            if name == "wavlm" and edit is not off:  # a gate of the position bias is no query
                continue
            edited = tv.trace(model, SOUND, **held, intervention=Intervention((edit,)), check=False)
            expected = run_by_library(name, module, target).logits[0].numpy()
            assert np.abs(edited.logits - expected).max() <= 1e-4, (name, edit)
            assert np.abs(edited.logits - run.logits).max() > 1e-3, (name, edit)


def test_words_are_written_greedily(models):
    for name in WRITERS:
        module = module_of(name)
        run = tv.trace(models(name), SOUND, check=False)
        ids = [1]
        allowed = [[3, 4], [5], [6]] if name == "whisper" else []
        while len(ids) < len(run.target.ids):
            scores = run_by_library(name, module, tuple(ids)).logits[0, -1]
            step = len(ids) - 1
            if step < len(allowed):
                ids.append(max(allowed[step], key=lambda i: scores[i].item()))
                continue
            if name == "whisper":
                scores[[7, 10, *([2, 11] if step == len(allowed) else [])]] = -torch.inf
            ids.append(int(scores.argmax()))
        assert run.target.ids == tuple(ids), name
        assert run.target.pieces == tuple(WORDS[i] for i in ids), name
        assert len(run.produced.ids) == len(ids), name


@pytest.mark.slow
def test_whisper_begins_as_generate_begins(tmp_path):
    """By language and task, by ``forced_decoder_ids``, or with a language that it hears itself."""
    plain = {"lang_to_id": {"<|de|>": 3, "<|en|>": 4}, "no_timestamps_token_id": 6}
    plain |= {"is_multilingual": True, "task_to_id": {"transcribe": 5, "translate": 7}}
    extractor_of("whisper").save_pretrained(tmp_path)
    for words in (
        plain,
        plain | {"forced_decoder_ids": [[1, None], [2, 7]]},
        plain | {"language": "german"},
        plain | {"language": "<|en|>", "task": "translate", "forced_decoder_ids": [[1, 3], [2, 5]]},
        plain | {"task": "translate"},
        plain | {"language": "de", "return_timestamps": True},
        {"forced_decoder_ids": [[1, 4], [2, 7], [3, 6]]},
        {"is_multilingual": False, "no_timestamps_token_id": 6, "forced_decoder_ids": [[1, 6]]},
    ):
        module, read = module_of("whisper"), list[list[int]]()
        for word, value in words.items():
            setattr(module.generation_config, word, value)
        module.save_pretrained(tmp_path)
        given = extractor_of("whisper")(SOUND, sampling_rate=RATE, return_tensors="pt")

        def note(_: Any, args: Any, named: Any, read: Any = read) -> None:
            read.append(named["input_ids"][0].tolist())

        module.model.decoder.register_forward_pre_hook(note, with_kwargs=True)
        module.generate(input_features=given.input_features, max_new_tokens=3, do_sample=False)
        theirs = max(read, key=len)  # afterwards it reads token by token
        model = tv.load(tmp_path, device="cpu")
        ours = tv.trace(model, SOUND, check=False).target.ids
        assert list(ours[: len(theirs)]) == theirs, words
        assert len(theirs) == 1 + len(model.config["opening_ids"]), words


def test_a_given_text_stands_behind_the_opening(models):
    run = tv.trace(models("whisper"), SOUND, "the cat sat", check=False)
    assert run.target.pieces[0] == "<s>"
    assert run.target.pieces[1] in ("<|de|>", "<|en|>")
    assert run.target.pieces[2:] == ("<|transcribe|>", "<|notimestamps|>", "the", "cat", "sat")
    plain = tv.trace(models("moonshine"), SOUND, "the cat sat", check=False)
    assert plain.target.pieces == ("<s>", "the", "cat", "sat")
    scored = tv.translate(models("whisper"), SOUND, target="the cat sat")[0]
    assert scored.ids == (*run.target.ids[1:], 2)
    assert scored.text == "the cat sat"


def test_one_sound_in_every_form(models, tmp_path):
    model = models("wav2vec2")
    samples = np.round(SOUND * 32767) / 32768
    (tmp_path / "speech.wav").write_bytes(wav_bytes(SOUND, RATE))
    forms = (tmp_path / "speech.wav", str(tmp_path / "speech.wav"), wav_bytes(SOUND, RATE),
             (samples, RATE), samples.astype(np.float64))  # fmt: skip
    logits = [tv.trace(model, form, check=False).logits for form in forms]
    for other in logits[1:]:
        assert np.abs(other - logits[0]).max() <= 1e-4
    other = tv.trace(model, (resampled(SOUND, RATE, 44100), 44100), check=False)
    assert np.abs(other.logits - logits[0]).max() <= 0.05


def test_what_cannot_be_asked_of_a_sound(models):
    padded, long = {"intervention": Intervention((Pad(count=2),))}, np.zeros(3 * RATE, np.float32)
    for name, given, words, said in (
        ("whisper", (SOUND,), padded, "'pad' needs a padding token, and a sound has none"),
        ("wav2vec2", (SOUND, "the cat"), {}, "has no decoder"),
        ("whisper", (long,), {}, r"lasts 3\.0 s and this model hears at most 2 s"),
        ("wav2vec2", (np.zeros(319, np.float32),), {}, r"needs at least 0\.020 s"),
        ("whisper", ("the cat",), {}, "There is no sound 'the cat'"),
        ("whisper", ([1, 2, 3],), {}, "got list"),
    ):
        with pytest.raises(ValueError, match=said):
            tv.trace(models(name), *given, **words)


def reworded(folder: Path, file: str, words: dict[str, Any]) -> None:
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | words))


@pytest.mark.slow
def test_folders_that_do_not_fit_are_refused(tmp_path):
    extractor, config = "preprocessor_config.json", "config.json"
    lacks = r"needs a preprocessor_config\.json beside its"
    for number, (name, file, words, message) in enumerate((
        ("whisper", extractor, {"feature_extractor_type": "ASTFeatureExtractor"},
         "hears through WhisperFeatureExtr"),
        ("whisper", extractor, {"feature_size": 80},
         "makes 80 bands and 100 steps.*the model reads 8 and 100"),
        ("whisper", extractor, {"hop_length": 160}, "makes 8 bands and 200 steps"),
        ("whisper", extractor, {"hop_length": 0},
         "hop_length is a whole number from 1 to 65,536, got 0"),
        ("whisper", extractor, {"n_fft": 2**40}, "n_fft is a whole number from 1 to 16,384"),
        ("whisper", extractor, {"chunk_length": 10**9},
         "chunk_length is a whole number from 1 to 30"),
        ("whisper", extractor, {"sampling_rate": "many"}, "sampling_rate is a whole number"),
        ("wav2vec2", config, {"conv_stride": [1, 1, 1]},
         r"19,1\d\d frames of a second are beyond"),
        *((name, extractor, None, lacks) for name in ("whisper", "moonshine", "wav2vec2")),
    )):  # fmt: skip
        folder = speech_folder(name, tmp_path / str(number))
        if words is None:
            (folder / file).unlink()
        else:
            reworded(folder, file, words)
        with pytest.raises(CheckpointError, match=message):
            tv.load(folder, device="cpu")
    with pytest.raises(CheckpointError, match=r"needs a preprocessor_config.*load the folder"):
        tv.load(module_of("whisper"), device="cpu")


def test_classifiers_of_sounds_name_a_class(tmp_path):
    for name, cls in (
        ("wav2vec2", transformers.Wav2Vec2ForSequenceClassification),
        ("whisper", transformers.WhisperForAudioClassification),
    ):
        folder = speech_folder(name, tmp_path / name)
        words = SPEECH[name][1] | {"num_labels": 3, "classifier_proj_size": 8}
        torch.manual_seed(3)
        module = cls(cls.config_class(**words)).eval()
        module.save_pretrained(folder)
        model = tv.load(folder, device="cpu")
        run = tv.trace(model, SOUND, check=False)
        assert (model.kind, model.gives, run.maps) == ("encoder-only", "classes", ("encoder",))
        theirs = run_by_library(name, module).logits[0].numpy()
        assert np.abs(run.logits - theirs).max() <= 1e-5, name


def test_folders_that_lack_a_vocabulary_or_a_weight_of_training_open(tmp_path, models):
    model = tv.load(speech_folder("moonshine", tmp_path / "a", vocabulary=False), device="cpu")
    assert tv.trace(model, SOUND, [1, 5, 6], check=False).target.pieces == ("1", "5", "6")
    folder = speech_folder("wav2vec2", tmp_path / "b")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    assert state.pop("wav2vec2.masked_spec_embed") is not None
    safetensors.torch.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    run = tv.trace(tv.load(folder, device="cpu"), SOUND, check=False)
    assert (run.logits == tv.trace(models("wav2vec2"), SOUND, check=False).logits).all()
