"""Streams of text against the whole decode, for three families of tokenizers."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from multidraft.errors import InvalidInput
from multidraft.text import TextStream, special_ids

CORPUS = [
    "The quick brown fox jumps over the lazy dog. Stop here, and stop there.",
    "def f(x):\n    return x  # twice  two  spaces\n\n\tEND",
    "Grüße aus Köln, où êtes-vous? Ça va. Привет, мир! Γειά σου Κόσμε",
    "你好,世界。今天天气很好。こんにちは世界 안녕하세요 สวัสดีชาวโลก नमस्ते दुनिया",
    "😀😃👩‍👩‍👧‍👦🏳️‍🌈 🇫🇷 e\u0301 \ufffd مرحبا שלום",
] * 4
SPECIALS = ["<eos>", "<bos>"]


def _wrap(tokenizer):
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", bos_token="<bos>")


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=SPECIALS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrap(tokenizer)


def byte_fallback():
    """As Llama 2's: sentencepiece's spaces, and a token for each byte of unknown characters."""
    latin = [text for text in CORPUS if text.isascii()]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.train_from_iterator(latin, trainers.BpeTrainer(vocab_size=150, show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    names = [*SPECIALS, "<unk>", *(f"<0x{i:02X}>" for i in range(256)), *model["vocab"]]
    names += [name for name in ("▁", "▁▁") if name not in names]
    tokenizer = Tokenizer(
        models.BPE(
            {name: i for i, name in enumerate(names)},
            [tuple(merge) for merge in model["merges"]],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _wrap(tokenizer)


def metaspace():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=[*SPECIALS, "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrap(tokenizer)


TOKENIZERS = {f.__name__: f() for f in (byte_level, byte_fallback, metaspace)}
ALL = pytest.mark.parametrize("name", TOKENIZERS)

pieces_of_text = st.sampled_from(
    [word for line in CORPUS for word in (line, *line.split(" "), *line)] + [" ", "  ", "\n"]
)
some_text = st.one_of(
    st.lists(pieces_of_text, max_size=12).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
cuts = st.lists(st.integers(0, 60), max_size=8)
stops = st.lists(
    st.one_of(
        st.sampled_from(["stop", "Stop here", ". ", "\n\n", "界", "好,世", "  ", "the", "\ufffd"]),
        st.text("ab o.界\ufffd", min_size=1, max_size=3),
    ),
    max_size=3,
)


def random_ids(tokenizer):
    # A few past the end: models often have more logits than the tokenizer has tokens.
    return st.lists(st.integers(0, len(tokenizer) + 5), max_size=60)


def run(tokenizer, ids, grouping, stop=()):
    """Pushes ids in groups; checks what holds of any stream, and returns it, finished."""
    stream = TextStream(tokenizer, stop, special_ids(tokenizer))
    pieces = []
    places = sorted(min(cut, len(ids)) for cut in grouping)
    for start, end in zip([0, *places], [*places, len(ids)], strict=True):
        pieces.append(stream.push(ids[start:end]))
        assert "".join(pieces) == stream.text
    pieces.append(stream.finish())
    assert "".join(pieces) == stream.text
    assert stream.finish() == ""
    return stream


def whole(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def cut_at_stop(text, stop):
    """What a reader of single characters would keep, and whether a stop string came."""
    for end in range(1, len(text) + 1):
        found = [s for s in stop if text[:end].endswith(s)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


@ALL
@settings(max_examples=150, deadline=None)
@given(data=st.data(), text=some_text, grouping=cuts)
def test_text_is_the_whole_decode(name, data, text, grouping):
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text, add_special_tokens=False)
    for place in data.draw(st.lists(st.integers(0, len(ids)), max_size=3)):
        ids.insert(place, data.draw(st.sampled_from([0, 1, len(tokenizer) + 3])))
    assert run(tokenizer, ids, grouping).text == whole(tokenizer, ids)


@pytest.mark.parametrize("name", ["byte_level", "metaspace"])
@settings(max_examples=300, deadline=None)
@given(data=st.data(), grouping=cuts)
def test_random_ids_give_the_whole_decode(name, data, grouping):
    tokenizer = TOKENIZERS[name]
    ids = data.draw(random_ids(tokenizer))
    assert run(tokenizer, ids, grouping).text == whole(tokenizer, ids)


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=40), grouping=cuts)
@example(raw=b"\xf0\x90\x80" * 12, grouping=[])
@example(raw=b"\x80" * 40, grouping=[])
@example(raw=b"\xf0\x9f\x98" + b"\xf0\x9f\x98\x80" * 9, grouping=[])
def test_random_bytes_give_the_whole_decode(raw, grouping):
    tokenizer = TOKENIZERS["byte_level"]
    ids = [_id(tokenizer, byte) for byte in raw]
    assert run(tokenizer, ids, grouping).text == raw.decode(errors="replace")


def _id(tokenizer, byte):
    """Byte-level BPE names printable Latin-1 bytes by themselves, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return tokenizer.convert_tokens_to_ids(
        chr(byte) if byte in printable else chr(256 + others.index(byte))
    )


@ALL
@settings(max_examples=150, deadline=None)
@given(data=st.data(), grouping=cuts, other=cuts, stop=stops)
def test_grouping_changes_nothing(name, data, grouping, other, stop):
    tokenizer = TOKENIZERS[name]
    ids = data.draw(st.one_of(random_ids(tokenizer), some_text.map(lambda t: tokenizer.encode(t))))
    one, two = run(tokenizer, ids, grouping, stop), run(tokenizer, ids, other, stop)
    assert (one.text, one.stopped, one.tokens_used) == (two.text, two.stopped, two.tokens_used)


@ALL
@settings(max_examples=200, deadline=None)
@given(text=some_text, grouping=cuts, stop=stops)
def test_stop_strings(name, text, grouping, stop):
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text, add_special_tokens=False)
    stream = run(tokenizer, ids, grouping, stop)
    assert (stream.text, stream.stopped) == cut_at_stop(whole(tokenizer, ids), stop)
    if not stream.stopped:
        assert stream.tokens_used == len(ids)
    elif "\ufffd" not in "".join(stop):
        # The token that completed it is the last one, so one fewer does not stop.
        used = ids[: stream.tokens_used]
        assert run(tokenizer, used, []).text.startswith(stream.text)
        assert run(tokenizer, used, [], stop).stopped
        assert not run(tokenizer, used[:-1], [], stop).stopped


@ALL
def test_nothing_of_a_stop_string_or_half_a_character_is_shown(name):
    tokenizer = TOKENIZERS[name]
    text = "The lazy dog. 你好 Stop her fox, Stop here."
    stream = TextStream(tokenizer, ["Stop here"])
    shown = ""
    for token in tokenizer.encode(text, add_special_tokens=False):
        shown += stream.push([token])
        assert text.startswith(shown)
        assert len(shown) <= text.rindex("Stop here")
    assert shown == stream.text == "The lazy dog. 你好 Stop her fox, "
    assert stream.push([3, 4]) == stream.finish() == ""


def test_the_stop_completed_first_wins_and_of_equals_the_one_that_starts_first():
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode("xabcdy", add_special_tokens=False)
    assert run(tokenizer, ids, [], ["abcd", "bc"]).text == "xa"
    assert run(tokenizer, ids, [], ["bc", "abc"]).text == "x"
    tokenizer = byte_level()
    tokenizer.add_tokens(["xabcdy"])
    ids = tokenizer.encode("xabcdy", add_special_tokens=False)
    assert len(ids) == 1
    assert run(tokenizer, ids, [], ["abcd", "bc"]).text == "xa"
    assert run(tokenizer, ids, [], ["bc", "abc"]).text == "x"


@ALL
def test_a_stop_string_that_overlaps_itself(name):
    tokenizer = TOKENIZERS[name]
    for text, kept in (("dogggs", "dog"), ("doggogs", "doggogs")):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert run(tokenizer, ids, range(9), ["ggs"]).text == kept


def test_a_bad_run_of_byte_tokens_is_shown_whole_once_it_is_over():
    tokenizer = TOKENIZERS["byte_fallback"]
    for after in (b"", b"A", b"ABCDEFGH", b"ABCDEFGHIJKL", "你好世界".encode()):
        run_ids = tokenizer.convert_tokens_to_ids([f"<0x{b:02X}>" for b in b"\xff" + after])
        ids = [*run_ids, *tokenizer.encode("fox", add_special_tokens=False)]
        text = run(tokenizer, ids, []).text
        assert text.endswith(" fox")
        if len(run_ids) <= 9:
            assert text == whole(tokenizer, ids)


def test_a_stop_string_before_half_a_character_stops_at_its_own_token():
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode("END", add_special_tokens=False)
    half = tokenizer.encode("你", add_special_tokens=False)[:1]
    stream = TextStream(tokenizer, ["END"])
    assert stream.push(ids + half) == ""
    assert stream.stopped
    assert stream.tokens_used == len(ids)


def test_finish_flushes_half_a_character_and_half_a_stop():
    tokenizer = TOKENIZERS["byte_level"]
    ids = tokenizer.encode("The Sto", add_special_tokens=False)
    stream = TextStream(tokenizer, ["Stop"])
    assert stream.push([*ids, _id(tokenizer, 0xE4)]) == "The "
    assert stream.finish() == "Sto\ufffd"
    assert not stream.stopped


@ALL
def test_special_tokens_shown_unless_left_out(name):
    tokenizer = TOKENIZERS[name]
    ids = [*tokenizer.encode("fox", add_special_tokens=False), tokenizer.eos_token_id]
    assert TextStream(tokenizer).push(ids) == "fox<eos>"
    stream = TextStream(tokenizer, (), frozenset([tokenizer.eos_token_id]))
    assert stream.push(ids) == "fox"
    assert stream.tokens_used == len(ids)


def test_special_ids_are_those_decode_leaves_out():
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("<|im_start|>", special=True), AddedToken("plain")])
    chat, plain = tokenizer.convert_tokens_to_ids(["<|im_start|>", "plain"])
    assert whole(tokenizer, [chat, plain]) == "plain"
    assert special_ids(tokenizer) == {*tokenizer.all_special_ids, chat}
    assert run(tokenizer, [chat, plain], []).text == "plain"


@ALL
def test_cost_of_a_token_does_not_grow(name):
    tokenizer = TOKENIZERS[name]
    longest = 0

    class Watched:
        convert_ids_to_tokens = staticmethod(tokenizer.convert_ids_to_tokens)

        @staticmethod
        def decode(ids, **options):
            nonlocal longest
            longest = max(longest, len(ids))
            return tokenizer.decode(ids, **options)

    streams = [[token] * 300 for token in range(len(tokenizer))]
    streams.append(tokenizer.encode("".join(CORPUS), add_special_tokens=False))
    for ids in streams:
        stream = TextStream(Watched, ["never"])
        stream.push(ids)
        stream.finish()
    assert longest <= 20


def test_empty_stop_string_refused():
    with pytest.raises(InvalidInput, match="empty"):
        TextStream(TOKENIZERS["byte_level"], ["a", ""])
