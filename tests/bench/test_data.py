"""Data sets: published formats as they are, the hub by its arguments, and what is refused."""

from __future__ import annotations

import gzip
import json

import datasets
import pytest

from multidraft.bench.data import choose, fingerprint, for_chat, load_examples, parse_names
from multidraft.bench.data.tasks import MGSM_LABELS
from multidraft.errors import DataUnavailable, InvalidInput

HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def one():\n",
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "test": "assert one() == 1",
}
GSM8K = {"question": "How many?", "answer": "1+1=<<1+1=2>>2\n#### 2"}
SEED_TASK = {
    "id": "seed_task_7",
    "instruction": "Sort these.",
    "instances": [{"input": "3 1 2", "output": "1 2 3"}],
}
SPECBENCH = {
    "question_id": 81,
    "category": "writing",
    "turns": ["Write.", "Again."],
    "reference": ["W"],
}


def write(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_humaneval(tmp_path):
    write(tmp_path / "HumanEval.jsonl", HUMANEVAL)
    (example,) = load_examples("humaneval", tmp_path)
    assert example.id == "HumanEval/0"
    assert example.prompt == "def one():\n"
    assert example.messages == [
        {"role": "user", "content": "Complete this function.\n\ndef one():\n"}
    ]
    assert example.reference == "    return 1\n"
    assert example.extra["entry_point"] == "one"


def test_gsm8k_compressed(tmp_path):
    text = json.dumps(GSM8K) + "\n\n"  # a blank line is no row
    (tmp_path / "gsm8k.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (example,) = load_examples("gsm8k", tmp_path)
    assert example.prompt == "Question: How many?\nAnswer:"
    assert example.messages[0]["content"] == "How many?"
    assert (example.id, example.reference) == ("gsm8k/0", "2")


def test_mgsm(tmp_path):
    for language in MGSM_LABELS:
        rows = '"Wie viele"?\t18\nUnd\u2028nun?\t1,000\n'  # quotes and odd breaks are just text
        (tmp_path / f"mgsm_{language}.tsv").write_text(rows, encoding="utf-8")
    names = parse_names(["mgsm"])
    assert len(names) == 11
    loaded = {name: load_examples(name, tmp_path) for name in names}
    first, second = loaded["mgsm-de"]
    assert first.prompt == 'Frage: "Wie viele"?\nSchritt-für-Schritt-Antwort:'
    assert (first.id, first.reference) == ("mgsm-de/0", "18")
    assert second.reference == "1,000" and second.extra["language"] == "de"
    assert loaded["mgsm-zh"][0].prompt.startswith("问题: ")


@pytest.mark.parametrize("name", ["lm1b.txt", "news.en.heldout-00000-of-00050"])
def test_lm1b(tmp_path, name):
    (tmp_path / name).write_text("The old man went home .\nYes\n\nIt rains today .\n")
    examples = load_examples("lm1b", tmp_path)
    assert [(e.prompt, e.reference) for e in examples] == [
        ("The old man", "went home ."),
        ("It rains", "today ."),
    ]


def test_lm1b_prefers_the_held_out_shards(tmp_path):
    (tmp_path / "news.en-00001-of-00100").write_text("Seen in training .\n")
    for shard in (1, 0):
        (tmp_path / f"news.en.heldout-0000{shard}-of-00050").write_text(f"Held out {shard} .\n")
    assert [e.reference for e in load_examples("lm1b", tmp_path)] == ["0 .", "1 ."]


def test_alpaca_as_published(tmp_path):
    rows = [
        {"instruction": "Greet.", "input": "", "output": "Hi."},
        {"instruction": "Add.", "input": "1 2", "output": "3"},
    ]
    (tmp_path / "alpaca_data.json").write_text(json.dumps(rows, indent=4))
    plain, with_input = load_examples("alpaca", tmp_path)
    assert plain.prompt.endswith("### Instruction:\nGreet.\n\n### Response:")
    assert plain.messages[0]["content"] == "Greet."
    assert "### Input:\n1 2\n\n### Response:" in with_input.prompt
    assert with_input.messages[0]["content"] == "Add.\n\n1 2"
    assert (with_input.id, with_input.reference) == ("alpaca/1", "3")


def test_alpaca_from_seed_tasks(tmp_path):
    write(tmp_path / "alpaca_seed.jsonl", SEED_TASK)
    (example,) = load_examples("alpaca", tmp_path)
    assert (example.id, example.reference) == ("seed_task_7", "1 2 3")
    assert example.messages[0]["content"] == "Sort these.\n\n3 1 2"


def test_specbench_takes_the_first_turn(tmp_path):
    write(tmp_path / "spec_bench" / "question.jsonl", SPECBENCH)
    (example,) = load_examples("specbench", tmp_path)
    assert (example.id, example.prompt, example.reference) == ("specbench/81", "Write.", "W")
    assert example.extra == {"category": "writing", "turns": ["Write.", "Again."]}


def test_own_file(prompts):
    river, _, total = load_examples(f"file:{prompts}", None)
    assert (river.id, river.prompt, river.reference) == ("river", "The river ran", None)
    assert (total.id, total.reference) == ("sum", "4")


def test_own_sentences_are_continued_as_lm1b_is(tmp_path):
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("The river ran dry that year .\nYes\nIt rains .\n", encoding="utf-8")
    name = f"file:{sentences}"
    river, rain = load_examples(name, None)
    assert (river.prompt, river.reference) == ("The river ran", "dry that year .")
    assert rain.prompt == "It"
    assert not for_chat(name) and for_chat("file:prompts.jsonl") and not for_chat("lm1b")


@pytest.mark.parametrize(
    ("name", "row", "arguments"),
    [
        ("humaneval", HUMANEVAL, ("openai/openai_humaneval", None, "test", None)),
        ("gsm8k", GSM8K, ("openai/gsm8k", "main", "test", None)),
        (
            "mgsm-th",
            {"question": "เท่าไร", "answer": None, "answer_number": 3},
            ("juletxara/mgsm", "th", "test", None),
        ),
        (
            "lm1b",
            {"text": "It rains today ."},
            ("billion-word-benchmark/lm1b", "plain_text", "test", "refs/convert/parquet"),
        ),
        (
            "alpaca",
            {"instruction": "Greet.", "input": "", "output": "Hi.", "text": "…"},
            ("tatsu-lab/alpaca", None, "train", None),
        ),
    ],
)
def test_hub(monkeypatch, name, row, arguments):
    asked = []

    def load_dataset(path, config, *, split, revision):
        asked.append((path, config, split, revision))
        return [row]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    (example,) = load_examples(name, None)
    assert asked == [arguments]
    assert example.prompt and example.reference


def test_no_network(monkeypatch):
    def load_dataset(*_, **__):
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DataUnavailable, match=r"openai/gsm8k.*network.*--data-dir"):
        load_examples("gsm8k", None)


def test_choice_is_fixed_by_the_seed(tmp_path):
    write(tmp_path / "gsm8k.jsonl", *[{**GSM8K, "question": f"{i}?"} for i in range(50)])
    examples = load_examples("gsm8k", tmp_path)
    ids = [e.id for e in choose(examples, 20, seed=1)]
    assert ids == [e.id for e in choose(examples, 20, seed=1)]
    assert ids[:5] == [e.id for e in choose(examples, 5, seed=1)]  # fewer: the same beginning
    assert ids != [e.id for e in choose(examples, 20, seed=2)]
    assert len(set(ids)) == 20 and len(choose(examples, 1000, seed=1)) == 50
    assert fingerprint(choose(examples, 5, 1)) != fingerprint(choose(examples, 5, 2))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gsm9k", "did you mean 'gsm8k'"),
        ("mgsm-xx", "Unknown data set 'mgsm-xx'"),
        ("file:", "Unknown data set 'file:'"),
        ("specbench", "The hub has no specbench: download"),
        ("file:nowhere.jsonl", "no file nowhere.jsonl"),
        ("file:prompts.csv", "a .jsonl file"),
    ],
)
def test_refused_names(name, message):
    with pytest.raises(InvalidInput, match=message):
        load_examples(name, None)


def test_a_data_set_named_twice():
    with pytest.raises(InvalidInput, match="'mgsm-de' is named twice"):
        parse_names(["mgsm", "mgsm-de"])


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("gsm8k", "other.jsonl", "", "looked for gsm8k.jsonl"),
        ("gsm8k", "gsm8k.jsonl", "", "has no prompts"),
        ("gsm8k", "gsm8k.jsonl", json.dumps(GSM8K) + "\n{oops", "line 2: not JSON"),
        ("gsm8k", "gsm8k.jsonl", "[1]", "line 1: not a JSON object"),
        ("gsm8k", "gsm8k.jsonl", '{"question": "?"}', "line 1: the field 'answer' is missing"),
        ("gsm8k", "gsm8k.jsonl", '{"question": 1}', "'question' must be text, not int"),
        ("gsm8k", "gsm8k.jsonl", '{"question": " "}', "'question' is empty"),
        ("gsm8k", "gsm8k.jsonl.gz", "no gzip", "Cannot read .*gsm8k.jsonl.gz"),
        ("gsm8k", "gsm8k.jsonl", b"\xff\xfe", "line 1: not UTF-8"),
        ("mgsm-de", "mgsm_de.tsv", "Wie viele?", "line 1: 1 tab-separated fields"),
        ("alpaca", "alpaca_data.json", "{}", "not a JSON array"),
        ("humaneval", "humaneval.jsonl", (json.dumps(HUMANEVAL) + "\n") * 2, "two prompts"),
        ("specbench", "specbench.jsonl", '{"turns": []}', "'turns' is empty"),
    ],
)
def test_refused_files(tmp_path, name, file, content, message):
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        load_examples(name, tmp_path)


def test_no_such_folder(tmp_path):
    with pytest.raises(InvalidInput, match="no folder"):
        load_examples("gsm8k", tmp_path / "nowhere")
