"""Vocabularies that are lists: words, marks of a cut, characters."""

from __future__ import annotations

import sentencepiece

from transformer_viz.preprocessing.tokenizers import target_side
from transformer_viz.preprocessing.word_list import Characters, WordText, sentencepiece_split

MARKS = ("<s>", "<pad>", "</s>", "<unk>")


def words(*pieces, **more):
    named = {"unknown": 3, "bos_id": 2, "eos_id": 2, "special": (0, 1, 2), "ends": True}
    return WordText((*MARKS, *pieces), **(named | more))


def test_words_are_split_at_spaces_and_unknown_ones_stay_visible():
    text = words("the", "cat")
    assert text.source_ids("  the\tcat\n dog ") == [4, 5, 3, 2]
    assert text.target_ids("the") == [2, 4]
    assert text.prompt_ids("the") == [2, 4]
    assert text.decode([2, 4, 3, 5, 2, 99]) == "the <unk> cat #99"
    assert text.lost("the dog 🙂") == ()
    assert text.source_ids("") == [2]
    assert words("a").source_ids("a </s> a") == [4, 2, 4, 2]  # typed like a special token
    assert words("the", ends=False).source_ids("the the") == [4, 4]


def test_pieces_that_go_on_are_one_word():
    text = words("the", "c@@", "at", "s@@")
    ids = text.source_ids("the c@@ at s@@")
    assert text.decode(ids) == "the cat s"
    tokens = text.tokens(ids)
    assert tokens.labels == ("the", "c", "at", "s", "</s>")
    assert tokens.pieces == ("the", "c@@", "at", "s@@", "</s>")
    assert tokens.words == (0, 1, 1, 2, 3)
    assert tokens.special == (False, False, False, False, True)
    # joiners join on either side
    text = words("the", "c￭", "at", "￭.", "￭-￭")
    ids = text.target_ids("the c￭ at ￭-￭ at ￭.")
    assert text.decode(ids) == "the cat-at."
    assert text.tokens(ids).labels == ("</s>", "the", "c", "at", "-", "at (2)", ".")
    assert text.tokens(ids[1:5]).words == (0, 1, 1, 2)  # punctuation stands for itself


def test_pieces_of_a_sentencepiece_model_are_cut_by_it(tiny_vocabulary):
    processor = sentencepiece.SentencePieceProcessor(model_proto=tiny_vocabulary)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    own = [piece for piece in reversed(pieces) if piece not in MARKS]  # ids of their own
    text = words(*own, split=sentencepiece_split(tiny_vocabulary))
    ids = text.source_ids("The cat sat.")
    assert [text.pieces[i] for i in ids[:-1]] == processor.encode("The cat sat.", out_type=str)
    assert text.decode(ids) == "The cat sat."
    tokens = text.tokens(ids)
    assert tokens.words[0] == 0
    assert max(tokens.words) == 4  # three words, the full stop, the end


def test_each_side_has_its_own_list():
    target = words("Katze")
    text = words("cat", target=target)
    assert text.source_ids("cat Katze") == [4, 3, 2]
    assert text.target_ids("cat Katze") == [2, 3, 4]
    assert target_side(text) is target
    assert target_side(target) is target
    assert text.decode([4]) == "cat"


def test_characters_are_tokens_and_missing_ones_are_said():
    text = Characters("\n abc")
    assert text.prompt_ids("a cab!\n") == [2, 1, 4, 2, 3, 0]
    assert text.source_ids("ab") == text.target_ids("ab") == [2, 3]
    assert text.decode([2, 1, 4, 0, 99]) == "a c\n"
    assert text.lost("a!\x07 b🙂") == ("!", "U+0007", "🙂")
    assert text.lost("a b\n") == ()
    # those between spaces are one word
    tokens = Characters("\n abc.").tokens([2, 3, 1, 4, 2, 5, 0, 3])
    assert tokens.pieces == ("a", "b", " ", "c", "a", ".", "\n", "b")
    assert tokens.labels == ("a", "b", "␣", "c", "a (2)", ".", "↵", "b (2)")
    assert tokens.words == (0, 0, 1, 1, 1, 2, 3, 4)
    assert not any(tokens.special)
