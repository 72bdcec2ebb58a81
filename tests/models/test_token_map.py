"""What tokens stand for, and the map between vocabularies of different kinds."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from multidraft import FunctionModel
from multidraft.errors import InvalidInput
from multidraft.models import TranslatedModel, share_vocabulary
from multidraft.models.token_map import TokenMap, map_tokens
from multidraft.models.token_text import TokenText

#: "é" is the bytes C3 A9, which byte-level tokenizers write "Ã" and "©".
BYTE_LEVEL = ["a", "b", "c", "d", "Ġ", "Ã", "©", "ab", "Ġab", "abc", "Ċ", "Ã©"]
SENTENCES = ["<unk>", "<0x0A>", "<0x61>", "<0xC3>", "<0xA9>", "a", "b", "▁", "ab", "▁ab", "é"]


def wrapped(tokenizer: Tokenizer, special: list[str], **kwargs) -> PreTrainedTokenizerFast:
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **kwargs)


def byte_level(tokens=BYTE_LEVEL, special=("<|end|>",), merges=(("a", "b"), ("Ġ", "ab"))):
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, list(merges)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = decoders.ByteLevel()
    return wrapped(made, list(special))


def sentences(tokens=SENTENCES, special=("<s>", "<|end|>"), begins=None):
    made = Tokenizer(
        models.BPE(
            {token: i for i, token in enumerate(tokens)},
            [("a", "b"), ("▁", "ab")],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer = wrapped(made, list(special), unk_token="<unk>")
    if begins:
        made.post_processor = processors.TemplateProcessing(
            single=f"{begins} $A", special_tokens=[(begins, made.token_to_id(begins))]
        )
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
    return tokenizer


def model(tokenizer, size: int | None = None) -> FunctionModel:
    size = size or (len(tokenizer) if tokenizer else 4)
    made = FunctionModel(size, lambda _: [1 / size] * size)
    made.tokenizer = tokenizer
    return made


def by_name(target, draft, token_map: TokenMap) -> tuple[dict, set]:
    """Names instead of numbers: what each token is read as, and the shared ones."""
    names = target.convert_ids_to_tokens
    read = {
        names(i): draft.convert_ids_to_tokens(list(p))
        for i, p in enumerate(token_map.pieces)
        if names(i)
    }
    return read, {names(i) for i in token_map.shared}


def test_byte_level_by_sentences():
    target, draft = byte_level(), sentences()
    read, shared = by_name(target, draft, map_tokens(model(target), model(draft)))
    assert shared == {"a", "b", "Ġ", "ab", "Ġab", "Ċ", "Ã", "©", "Ã©", "<|end|>"}
    assert read["Ġab"] == ["▁ab"]
    assert read["Ã©"] == ["é"]
    assert read["Ã"] == ["<0xC3>"]
    assert read["a"] == ["a"], "an ordinary token goes before a byte token"
    assert read["<|end|>"] == ["<|end|>"]
    assert read["c"] == read["d"] == ["<unk>"]
    assert read["abc"] == ["ab", "<unk>"], "no space is put before it"


def test_sentences_by_byte_level():
    target, draft = sentences(), byte_level()
    token_map = map_tokens(model(target), model(draft))
    read, shared = by_name(target, draft, token_map)
    # "<0x61>" is "a" too, which another token is already.
    assert shared == {"<0x0A>", "<0xC3>", "<0xA9>", "a", "b", "▁", "ab", "▁ab", "é", "<|end|>"}
    assert read["<0x61>"] == ["a"]
    assert read["é"] == ["Ã©"]
    assert read["<s>"] == ["a"], "unwritable: token 0"
    token_map.check(len(target), len(draft))


def test_a_text_is_spelt_as_the_draft_would():
    target = byte_level([*BYTE_LEVEL, "abcab", "ĠabĠab"])
    read, _ = by_name(target, target, map_tokens(model(target), model(byte_level())))
    assert read["abcab"] == ["ab", "c", "ab"]
    assert read["ĠabĠab"] == ["Ġab", "Ġab"]


def test_a_long_token_is_read_by_its_end():
    target = byte_level([*BYTE_LEVEL, "d" * 9 + "c"])
    read, _ = by_name(target, target, map_tokens(model(target), model(byte_level())))
    assert read["dddddddddc"] == [*"ddddddd", "c"]


def test_ids_beyond_a_tokenizer_or_a_model():
    target, draft = byte_level(), byte_level()
    token_map = map_tokens(model(target, 20), model(draft, 10))
    assert len(token_map.pieces) == 20
    token_map.check(20, 10)
    assert token_map.shared == list(range(10))


def test_special_tokens_are_no_text():
    """A special token's name as an ordinary token is not that special token."""
    target = byte_level(["<", "s", ">", "<s>"], [], [("<", "s"), ("<s", ">")][:0])
    draft = byte_level(["<", "s", ">"], ["<s>"], [])
    read, shared = by_name(target, draft, map_tokens(model(target), model(draft)))
    assert shared == {"<", "s", ">"}
    assert read["<s>"] == ["<", "s", ">"]


def test_the_beginning_token():
    plain, begins = byte_level(), sentences(begins="<s>")
    start = begins.convert_tokens_to_ids("<s>")
    assert map_tokens(model(plain), model(begins)).opening == (start,)
    assert map_tokens(model(begins), model(plain)).opening == ()
    # Where both have one, the target's is there already.
    both = map_tokens(model(sentences(special=["<|end|>", "<b>"], begins="<b>")), model(begins))
    assert both.opening == ()
    assert both.pieces[-1] == (start,)


def test_literal_tokens():
    made = Tokenizer(models.WordLevel({"a": 0, "▁": 1, "Ġ": 2}))
    made.decoder = decoders.Fuse()
    meanings = TokenText(wrapped(made, [])).meanings
    assert meanings == {0: b"a", 1: "▁".encode(), 2: "Ġ".encode()}


def test_what_is_refused():
    speaks, silent = model(byte_level()), model(None)
    for draft, target, who in ((silent, speaks, "draft"), (speaks, silent, "target")):
        with pytest.raises(InvalidInput, match=f"The {who} has no tokenizer"):
            share_vocabulary(draft, target)
    with pytest.raises(InvalidInput, match="share no token"):
        share_vocabulary(model(byte_level(["x", "y"], [], [])), speaks)

    class Slow:
        unk_token_id = None

    with pytest.raises(InvalidInput, match=r"Slow.*fast tokenizer"):
        TokenText(Slow())
    for pieces, shared, size in (
        ([(0,), (1,)], [], 2),  # nothing shared
        ([(0,), (0,)], [0, 1], 2),  # the same twice
        ([(0, 1), (1,)], [0], 2),  # no single one
        ([(0,), ()], [0], 2),  # no pieces
        ([(0,), (2,)], [0], 2),  # unknown
        ([(0,)], [0], 2),  # too few
    ):
        with pytest.raises(InvalidInput):
            TokenMap(pieces, shared).check(2, size)


def test_a_draft_that_shares_the_vocabulary_stays_itself():
    target, draft = model(byte_level()), model(byte_level())
    assert share_vocabulary(draft, target) is draft
    assert share_vocabulary(model(None), (silent := model(None))) is not silent


def test_coverage_is_told():
    target, draft = model(byte_level()), model(sentences())
    shared = share_vocabulary(draft, target)
    assert isinstance(shared, TranslatedModel)
    assert shared.shared == 10
    ids = target.tokenizer.convert_tokens_to_ids(["a", "b", "c", "abc"])
    assert shared.coverage(ids) == 0.5
    assert "shares 10 of the target's 13 tokens and could propose 50%" in shared.describe(ids)
    assert "too few" not in shared.describe(ids)
    assert "33% of this text's, too few to help" in shared.describe(ids[1:])
    with pytest.raises(InvalidInput, match="no tokens"):
        shared.coverage([])
