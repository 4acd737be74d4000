"""What a model is shown and asked, against the rows that went in."""

from __future__ import annotations

import numpy as np
import pytest

from training.batches import language, masked, translation
from training.corpus import MASK, Pair, encode_pairs, joined
from training.recipe import Data

ROWS: list[Pair] = [([7, 8, 3], [9, 10, 11, 3]), ([7, 3], [12, 3])]


def random(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_each_target_is_shown_one_step_late(pieces):
    (source, shown), wanted = translation(ROWS, pieces, random(0))
    assert source.tolist() == [[7, 8, 3], [7, 3, 0]]
    assert shown.tolist() == [[2, 9, 10, 11], [2, 12, 0, 0]]
    assert wanted.tolist() == [[9, 10, 11, 3], [12, 3, 0, 0]]
    (alone,), again = language(ROWS, pieces, random(0))  # the same without a source
    assert alone.equal(shown) and again.equal(wanted)


def long_rows() -> list[Pair]:
    """A thousand rows of 20 tokens and an end mark, and one of a single token."""
    rows: list[Pair] = [([], [*range(100, 120), 3])] * 1000
    return [*rows, ([], [50, 3])]


def test_fifteen_in_a_hundred_tokens_are_asked_and_none_is_an_end_mark_or_padding(pieces):
    (shown,), wanted = masked(long_rows(), pieces, random(1))
    asked = wanted.numpy() != 0
    assert asked.sum() == round(0.15 * 20_001)
    rows = [row + [0] * (21 - len(row)) for _, row in long_rows()]
    original = np.array(rows)
    assert not asked[original == 3].any() and not asked[original == 0].any()
    np.testing.assert_array_equal(wanted.numpy()[asked], original[asked])
    np.testing.assert_array_equal(shown.numpy()[~asked], original[~asked])


def test_of_the_asked_eight_tenths_are_hidden_one_replaced_and_one_left(pieces):
    """Of 3,000 tokens 2,400, 300 and 300 are expected; four standard deviations are 88 and 66."""
    (shown,), wanted = masked(long_rows(), pieces, random(2))
    asked = wanted != 0
    hidden = shown[asked] == pieces.piece_to_id(MASK)
    left = shown[asked] == wanted[asked]
    assert int(hidden.sum()) == pytest.approx(2400, abs=88)
    assert int(left.sum()) == pytest.approx(300, abs=66)
    others = shown[asked][~hidden & ~left]
    assert int(others.min()) > pieces.piece_to_id(MASK)
    assert int(others.max()) < pieces.get_piece_size()
    assert len(others.unique()) > 150  # of 280 pieces, drawn some 300 times


def test_a_draw_depends_on_its_seed_alone_and_a_lone_token_is_asked(pieces):
    rows = long_rows()[:9]
    first, again, other = (masked(rows, pieces, random(*seed)) for seed in ((1, 5), (1, 5), (1, 6)))
    assert first[0][0].equal(again[0][0]) and first[1].equal(again[1])
    assert not first[1].equal(other[1])
    (_,), wanted = masked([([], [50, 3])], pieces, random(0))
    assert wanted.tolist() == [[50, 0]]
    mask = pieces.piece_to_id(MASK)  # which no text gives
    assert pieces.is_control(mask)
    assert mask not in pieces.encode(f"the {MASK} runs [MASK]")


def test_rows_hold_one_to_three_sentences_and_each_sentence_once():
    pairs: list[Pair] = [([], [n + 10, n + 500, 3]) for n in range(400)]
    rows = [row for _, row in joined(pairs, 3, seed=1, epoch=0)]
    inner = [token for row in rows for token in row[:-1]]
    assert sorted(inner) == sorted(token for _, row in pairs for token in row[:-1])
    assert all(row[-1] == 3 and 3 not in row[:-1] for row in rows)
    counts = [(len(row) - 1) // 2 for row in rows]
    assert set(counts) == {1, 2, 3}
    assert rows == [row for _, row in joined(pairs, 3, seed=1, epoch=0)]
    assert rows != [row for _, row in joined(pairs, 3, seed=1, epoch=1)]
    assert joined(pairs, 1, seed=1, epoch=0) is pairs


def test_joined_sentences_are_the_pieces_of_the_joined_text(pieces):
    texts = ["the red cat run", "the red dog eats", "the red bird sleeps"]
    words = Data(task="language", train="x", valid="x", join=3)
    pairs = encode_pairs([("", text) for text in texts], pieces, words)
    rows = [joined(pairs, 3, seed=seed, epoch=0) for seed in range(20)]
    whole = [row[0][1] for row in rows if len(row) == 1]
    assert whole
    for row in whole:
        assert pieces.encode(pieces.decode(row[:-1]), add_eos=True) == row
        assert sorted(pieces.decode(row[:-1]).split()) == sorted(" ".join(texts).split())


def test_a_share_of_the_sources_is_cut_into_other_pieces_of_the_same_text(pieces):
    pairs = [("the red cat run", "the red dog eats")] * 400
    words = Data(train="x", valid="x")
    usual = encode_pairs(pairs, pieces, words)
    varied = encode_pairs(pairs, pieces, words, 0.5, random(2))
    changed = [row for row, old in zip(varied, usual, strict=True) if row != old]
    assert 120 < len(changed) < 200  # 1 of 16 draws gives the usual pieces: 187 are expected
    assert all(target == usual[0][1] and source[-1] == 3 for source, target in varied)
    assert {pieces.decode(source[:-1]) for source, _ in varied} == {"the red cat run"}
    assert varied == encode_pairs(pairs, pieces, words, 0.5, random(2))  # again after a kill
    assert usual == encode_pairs(pairs, pieces, words, 0.0, random(2))
