"""List files: counted, written, cut, and matched to a vocabulary."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from multidraft.errors import InvalidInput
from multidraft.models import head_count, head_list
from multidraft.models.head_count import by_frequency, count_tokens, text_files
from multidraft.models.head_list import read_list, resolve_head_tokens, write_list

WORDS = ["<unk>", "of", "a", "rose", "is", "thorn", "never"]


def word_tokenizer(words=WORDS) -> PreTrainedTokenizerFast:
    vocab = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def test_tokens_are_counted_in_files_and_folders(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("a rose is a rose\n")
    (tmp_path / "b/c.txt").write_text("is a thorn")
    (tmp_path / "b/.hidden").write_text("of of of of")
    (tmp_path / "b/picture").write_bytes(b"of\xff\xfe")
    (tmp_path / "b/program").write_bytes(b"of\0of")
    files = text_files([tmp_path / "a.txt", tmp_path / "b"])
    told: list[int] = []
    counts, left_out = count_tokens(files, word_tokenizer(), told.append)
    assert counts.tolist() == [0, 0, 3, 2, 2, 1, 0]
    assert sorted(path.name for path in left_out) == ["picture", "program"]
    assert sum(told) == 17 + 10
    # Ties and what never came by rising id.
    assert by_frequency(counts).tolist() == [2, 3, 4, 5, 0, 1, 6]


def test_long_text_in_pieces_counts_the_same(tmp_path, monkeypatch):
    (tmp_path / "long").write_text("a rose is a rose\n" * 50 + "a thorn " * 30)
    whole, _ = count_tokens([tmp_path / "long"], word_tokenizer())
    monkeypatch.setattr(head_count, "_PIECE", 40)
    monkeypatch.setattr(head_count, "_BATCH", 3)
    parts, _ = count_tokens([tmp_path / "long"], word_tokenizer())
    assert whole.tolist() == [0, 0, 130, 100, 50, 30, 0]
    # The last line is longer than a piece, so it may be cut within a word.
    assert parts[2:5].tolist() == whole[2:5].tolist()
    assert 25 <= parts[5] <= 30


def test_nothing_to_count(tmp_path):
    with pytest.raises(InvalidInput, match="no file or folder"):
        text_files([tmp_path / "gone"])
    with pytest.raises(InvalidInput, match="no files in"):
        text_files([tmp_path])
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidInput, match="no text"):
        count_tokens(text_files([tmp_path]), word_tokenizer())


@pytest.fixture
def file(tmp_path):
    write_list(tmp_path / "list.npz", [3, 2, 4, 1], word_tokenizer(), "roses")
    return tmp_path / "list.npz"


def test_a_list_file_whole_and_cut(file):
    tokenizer = word_tokenizer()
    assert read_list(file, tokenizer) == [3, 2, 4, 1]
    assert resolve_head_tokens(file, tokenizer) == [3, 2, 4, 1]
    assert resolve_head_tokens(f"{file}@2", tokenizer) == [3, 2]
    assert resolve_head_tokens((5, 6), None) == (5, 6)
    with pytest.raises(InvalidInput, match=r"has 4 tokens.*first 5"):
        resolve_head_tokens(f"{file}@5", tokenizer)
    with pytest.raises(InvalidInput, match=r"ask for 1 to 4"):
        resolve_head_tokens(f"{file}@0", tokenizer)


def test_a_list_serves_a_vocabulary_that_is_padded_but_no_other(file):
    assert read_list(file, word_tokenizer([*WORDS, "[PAD7]", "<eos>"])) == [3, 2, 4, 1]
    others = ["<unk>", "of", "rose", "a", "is"]
    for words in (others, WORDS[:4]):
        with pytest.raises(InvalidInput, match="counted for roses, whose vocabulary is not"):
            read_list(file, word_tokenizer(words))


def test_what_is_no_list(tmp_path, file):
    with pytest.raises(InvalidInput, match="no list of tokens at"):
        read_list(tmp_path / "gone.npz", word_tokenizer())
    (tmp_path / "text.npz").write_text("1, 2, 3")
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    (tmp_path / "half.npz").write_bytes(file.read_bytes()[:200])
    np.savez_compressed(tmp_path / "worn.npz", ids=np.arange(4000))
    worn = bytearray((tmp_path / "worn.npz").read_bytes())
    worn[200:400] = b"\xff" * 200
    (tmp_path / "worn.npz").write_bytes(worn)
    for name in ("text", "other", "half", "worn"):
        with pytest.raises(InvalidInput, match=f"{name}.npz is not a list of tokens"):
            read_list(tmp_path / f"{name}.npz", word_tokenizer())
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_list(tmp_path / "no/folder.npz", [1], word_tokenizer(), "roses")


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(InvalidInput, match="No space left"):
        write_list(file, [1], word_tokenizer(), "roses")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["list.npz"]


def test_no_list_ships_for_an_unknown_vocabulary():
    with pytest.raises(InvalidInput, match=r"No list .* ships .*multidraft head"):
        resolve_head_tokens(4, word_tokenizer())
    with pytest.raises(InvalidInput, match="no tokenizer"):
        resolve_head_tokens(4, None)


def test_the_list_that_ships():
    with np.load(head_list._SHIPPED / "qwen2.5.npz", allow_pickle=False) as entries:
        ids, counted_for = entries["ids"], str(entries["counted_for"])
    assert ids.dtype == np.uint32 and len(np.unique(ids)) == len(ids) == 49_152
    assert ids.max() < 151_936 and "qwen2.5" in counted_for.lower()
