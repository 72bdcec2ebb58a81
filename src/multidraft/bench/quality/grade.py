"""From a run's recorded answers to their grades."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from multidraft.bench.data import Example, choose, fingerprint, load_examples
from multidraft.bench.data.tasks import MGSM_LABELS
from multidraft.bench.quality.grades import Grade, GradeBook, open_grades
from multidraft.bench.quality.numbers import final_number
from multidraft.bench.quality.program import code_of, make_program
from multidraft.bench.quality.sandbox import check_isolation, run_isolated
from multidraft.bench.records import Record
from multidraft.bench.report.load import Run, load_run
from multidraft.errors import InvalidInput

LEAST_TOKENS = 512  # fewer cut off so many answers that what is right says little
HUMANEVAL = "humaneval"
# Where a model that goes on with raw text makes up the next problem.
_NEXT_QUESTION = {"gsm8k": "\nQuestion:"} | {
    f"mgsm-{language}": f"\n{asks}" for language, (asks, _) in MGSM_LABELS.items()
}


@dataclass(frozen=True)
class Tally:
    """One data set's grades: answers, those right, and those cut at max_tokens."""

    dataset: str
    answers: int
    right: int
    cut: int


def gradable(dataset: str) -> bool:
    """Whether its answers can be told right from wrong."""
    return dataset == HUMANEVAL or dataset in _NEXT_QUESTION


def grade_run(
    path: Path,
    data_dir: Path | None,
    run_code: bool,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[Tally], int]:
    """Grade what a run recorded and is not graded yet; the grades are kept in its folder.

    Args:
        path: the run folder; the run may be unfinished.
        data_dir: folder with the published files, if not where the run found them.
        run_code: run generated programs, in isolation; without it HumanEval is left out.
        progress: told answers graded, and to be graded.

    Returns:
        Each data set's grades, and the number of HumanEval answers left out.

    Raises:
        InvalidInput: no run, one with answers too short to grade, or none of a data set that can be
            graded; other data than the run's; or programs cannot be isolated here.
        DataUnavailable: the hub cannot be reached.
    """
    run = load_run(path)
    if run.max_tokens < LEAST_TOKENS:
        raise InvalidInput(
            f"The answers of {path} were cut at {run.max_tokens} tokens, too short to grade; run "
            f"with --max-tokens {LEAST_TOKENS} or more."
        )
    answers = [record for record in run.records if gradable(record.cell.dataset)]
    if not answers:
        raise InvalidInput(f"{path} has no answers of humaneval, gsm8k or mgsm to grade.")
    programs = [record for record in answers if record.cell.dataset == HUMANEVAL]
    if not run_code:
        answers = [record for record in answers if record.cell.dataset != HUMANEVAL]
        if not answers:
            raise InvalidInput(
                "HumanEval answers are graded by running the generated code; "
                "--allow-code-execution lets it run, in isolation."
            )
    with open_grades(path) as book:
        left = [record for record in answers if record.key not in book.grades]
        examples = _examples(run, left, data_dir)
        if any(record.cell.dataset == HUMANEVAL for record in left):
            check_isolation()
        seen: dict[tuple[str, str, str, str], Grade] = {}  # methods often give the same answer
        for done, record in enumerate(left):
            progress(done, len(left))
            same = (record.cell.dataset, record.example, record.finish_reason, record.text)
            if same not in seen:
                seen[same] = grade(record, examples[record.cell.dataset][record.example])
            first = seen[same]
            key = (record.cell, record.example, record.repetition)
            book.append(Grade(*key, first.right, first.cut, first.found))
        progress(len(left), len(left))
        return list(_tallies(run, book)), 0 if run_code else len(programs)


def grade(record: Record, example: Example) -> Grade:
    """Grade one answer; programs are run.

    Raises:
        InvalidInput: programs cannot be isolated here.
    """
    key = (record.cell, record.example, record.repetition)
    out_of_room = record.finish_reason == "length"
    if record.cell.dataset == HUMANEVAL:
        name, test = example.extra["entry_point"], example.extra["test"]
        code, finished = code_of(record.text, name)
        if out_of_room and not finished:
            return Grade(*key, right=False, cut=True)
        failure = run_isolated(make_program(example.prompt, code, name, test))
        return Grade(*key, right=not failure, found=failure)
    answer, next_question, _ = record.text.partition(_NEXT_QUESTION[record.cell.dataset])
    if out_of_room and not next_question:
        return Grade(*key, right=False, cut=True)
    number = final_number(answer, example.extra.get("language", "en"))
    assert example.reference is not None
    found = "" if number is None else f"{number:f}"
    return Grade(*key, right=number == final_number(example.reference), found=found)


def _examples(
    run: Run, records: list[Record], data_dir: Path | None
) -> Mapping[str, Mapping[str, Example]]:
    """The examples of the records, by data set and id; checked to be those of the run."""
    config = run.config
    if data_dir is None and config.get("data_dir") is not None:
        data_dir = Path(config["data_dir"])
    found: dict[str, dict[str, Example]] = {}
    for dataset in dict.fromkeys(record.cell.dataset for record in records):
        chosen = choose(load_examples(dataset, data_dir), config["prompts"], config["seed"])
        if fingerprint(chosen) != run.manifest["data"][dataset]["sha256"]:
            raise InvalidInput(
                f"The prompts of {dataset} are not those of the run; name the folder with the data "
                "it was run on with --data-dir."
            )
        found[dataset] = {example.id: example for example in chosen}
    return found


def _tallies(run: Run, book: GradeBook) -> Iterator[Tally]:
    by_dataset: dict[str, list[Grade]] = defaultdict(list)
    for found in book.grades.values():
        by_dataset[found.cell.dataset].append(found)
    for dataset in run.in_order("data", by_dataset):
        grades = by_dataset[dataset]
        right, cut = sum(each.right for each in grades), sum(each.cut for each in grades)
        yield Tally(dataset, len(grades), right, cut)
