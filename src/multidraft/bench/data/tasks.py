"""The data sets by name: where each is found, and how its rows become prompts.

docs/benchmarking.md says the same for readers; change both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from multidraft.bench.data.example import Example, Row, asked
from multidraft.bench.data.hub import HubData


@dataclass(frozen=True)
class DataSet:
    """A published data set.

    Attributes:
        name: what to give as ``data``; also the beginning of ids that have none of their own.
        files: names in a data folder, the first that is there counts; patterns as in a shell.
        hub: where the hub has it; None where it does not.
        home: where to download it, for messages.
        example: a prompt from its name, the row's number and the row; None leaves the row out.
        chat: whether it is meant for chat models; text to be continued is not.
    """

    name: str
    files: tuple[str, ...]
    hub: HubData | None
    home: str
    example: Callable[[str, int, Row], Example | None]
    chat: bool = True


#: MGSM's languages: "question" and "step-by-step answer" as its authors put them.
MGSM_LABELS = {
    "bn": ("প্রশ্ন:", "ধাপে ধাপে উত্তর:"),
    "de": ("Frage:", "Schritt-für-Schritt-Antwort:"),
    "en": ("Question:", "Step-by-Step Answer:"),
    "es": ("Pregunta:", "Respuesta paso a paso:"),
    "fr": ("Question :", "Réponse étape par étape :"),
    "ja": ("問題:", "ステップごとの答え:"),
    "ru": ("Задача:", "Пошаговоерешение:"),  # published without the space
    "sw": ("Swali:", "Jibu la Hatua kwa Hatua:"),
    "te": ("ప్రశ్న:", "దశలవారీగా సమాధానం:"),
    "th": ("โจทย์:", "คำตอบทีละขั้นตอน:"),
    "zh": ("问题:", "逐步解答:"),
}

# Stanford Alpaca's own prompts.
_ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately "
    "completes the request.\n\n### Instruction:\n{instruction}\n\n### Response:"
)
_ALPACA_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)


def humaneval(name: str, number: int, row: Row) -> Example:
    code = row.text("prompt")
    return Example(
        id=row.text("task_id"),
        prompt=code,
        messages=asked(f"Complete this function.\n\n{code}"),
        reference=row.text("canonical_solution"),
        extra={"entry_point": row.text("entry_point"), "test": row.text("test")},
    )


def gsm8k(name: str, number: int, row: Row) -> Example:
    question, solution = row.text("question"), row.text("answer")
    return Example(
        id=f"{name}/{number}",
        prompt=f"Question: {question}\nAnswer:",
        messages=asked(question),
        reference=solution.rpartition("####")[2].strip(),
        extra={"solution": solution},
    )


def mgsm(name: str, number: int, row: Row) -> Example:
    question, language = row.text("question"), name.rpartition("-")[2]
    asks, answers = MGSM_LABELS[language]
    return Example(
        id=f"{name}/{number}",
        prompt=f"{asks} {question}\n{answers}",
        messages=asked(question),
        reference=str(row.value("answer_number")),  # a number on the hub, text in the files
        extra={"language": language},
    )


def lm1b(name: str, number: int, row: Row) -> Example | None:
    words = row.text("text").split()
    half = len(words) // 2
    if half == 0:
        return None
    beginning = " ".join(words[:half])
    return Example(
        id=f"{name}/{number}",
        prompt=beginning,
        messages=asked(f"Continue this text.\n\n{beginning}"),
        reference=" ".join(words[half:]),
    )


def alpaca(name: str, number: int, row: Row) -> Example:
    instruction = row.text("instruction")
    answer = row
    if row.get("instances") is not None:  # a seed task of self-instruct
        answer = Row(row.items("instances")[0], f"{row.where}, instances[0]")
    context = (answer.get("input") or "").strip()
    template = _ALPACA_WITH_INPUT if context else _ALPACA
    return Example(
        id=str(row.get("id") or f"{name}/{number}"),
        prompt=template.format(instruction=instruction, input=context),
        messages=asked(f"{instruction}\n\n{context}" if context else instruction),
        reference=answer.get("output"),
    )


def specbench(name: str, number: int, row: Row) -> Example:
    turns, references = row.items("turns"), row.get("reference")
    first = Row({"turns[0]": turns[0]}, row.where).text("turns[0]")
    return Example(
        id=f"{name}/{row.get('question_id') or number}",
        prompt=first,
        messages=asked(first),
        reference=references[0] if isinstance(references, list) and references else None,
        extra={"category": row.text("category"), "turns": turns},
    )


def own(name: str, number: int, row: Row) -> Example:
    """A line of the user's own file."""
    prompt = row.text("prompt")
    return Example(
        id=str(row.get("id") if row.get("id") is not None else number),
        prompt=prompt,
        messages=asked(prompt),
        reference=row.get("reference"),
    )


DATASETS = {
    data.name: data
    for data in (
        DataSet(
            "humaneval",
            ("humaneval.jsonl", "HumanEval.jsonl"),
            HubData("openai/openai_humaneval", None, "test"),
            "https://github.com/openai/human-eval",
            humaneval,
        ),
        DataSet(
            "gsm8k",
            ("gsm8k.jsonl", "gsm8k/test.jsonl"),
            HubData("openai/gsm8k", "main", "test"),
            "https://github.com/openai/grade-school-math",
            gsm8k,
        ),
        *(
            DataSet(
                f"mgsm-{language}",
                (f"mgsm_{language}.tsv",),
                HubData("juletxara/mgsm", language, "test"),
                "https://github.com/google-research/url-nlp",
                mgsm,
            )
            for language in MGSM_LABELS
        ),
        DataSet(
            "lm1b",
            # The published test set is the held-out part; training shards only where that is all.
            ("lm1b.txt", "news.en.heldout*", "news.en*"),
            # The hub's main branch has a script, which `datasets` no longer runs.
            HubData("billion-word-benchmark/lm1b", "plain_text", "test", "refs/convert/parquet"),
            "https://www.statmt.org/lm-benchmark",
            lm1b,
            chat=False,
        ),
        DataSet(
            "alpaca",
            ("alpaca_data.json", "alpaca_seed.jsonl", "seed_tasks.jsonl"),
            HubData("tatsu-lab/alpaca", None, "train"),
            "https://github.com/tatsu-lab/stanford_alpaca",
            alpaca,
        ),
        DataSet(
            "specbench",
            ("specbench.jsonl", "spec_bench/question.jsonl"),
            None,
            "https://github.com/hemingkx/Spec-Bench",
            specbench,
        ),
    )
}
