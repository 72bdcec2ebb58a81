"""Theory computed for the texts that a run recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from multidraft.bench.config import Config, Pair, make_config
from multidraft.bench.data import Example, choose, fingerprint, load_examples
from multidraft.bench.folder import read_manifest, read_records
from multidraft.bench.manifest import checksums, list_checksum
from multidraft.bench.pair import load_pair
from multidraft.bench.prompts import uses_chat
from multidraft.bench.records import Record
from multidraft.bench.theory.acceptance import KINDS, acceptance
from multidraft.bench.theory.laws import laws_along
from multidraft.bench.theory.scores import Scores, open_scores
from multidraft.bench.theory.texts import (
    COMPARABLE,
    answer_tokens,
    round_starts,
    usable,
    whole_method,
)
from multidraft.engine import Decoder
from multidraft.errors import InvalidInput
from multidraft.models.store import resolve

MOST_DRAFTS = 7
_DIGITS = 7  # of a probability, in the file


class Listener(Protocol):
    """Told how it goes on."""

    def busy_with(self, what: str) -> None: ...

    def planned(self, total: int, done: int) -> None:
        """Texts in all, and those that are there already."""
        ...

    def scored(self, scores: Scores) -> None: ...


def run(
    path: Path,
    every: int,
    prompts: int | None,
    data_dir: Path | None,
    listener: Listener,
    interrupted: Callable[[], bool],
) -> bool:
    """Score the texts of a run, or what is left of them, into its folder.

    Texts of plain decoding (else of the first method) are scored at every place; those of methods
    in `COMPARABLE` where their rounds start.

    Args:
        path: the run's folder; the run need not be finished.
        every: take every n-th of these places.
        prompts: of each data set; None for all.
        data_dir: where the data sets' files are now; None for where they were.
        listener: told of progress.
        interrupted: asked after each place; once it says True, what is finished stays.

    Returns:
        True when all is there, False when interrupted.

    Raises:
        InvalidInput: no run's folder, nothing in it to score, or models or prompts that are not
            the run's.
    """
    manifest = read_manifest(path)
    if manifest is None:
        raise InvalidInput(f"{path} is no run's folder; give one that `bench run` wrote to.")
    config = make_config(manifest["config"], f"{path}/manifest.json")
    if data_dir is not None:
        config = replace(config, data_dir=str(data_dir))
    listener.busy_with("Reading the data sets")
    examples = _examples(config, manifest["data"])
    wanted = {(dataset, each.id) for dataset, part in examples.items() for each in part[:prompts]}
    with_draft = {pair.name for pair in config.pairs if pair.draft}
    records = {
        record.key: record
        for record in usable(read_records(path))
        if record.cell.pair in with_draft and (record.cell.dataset, record.example) in wanted
    }
    whole = whole_method(config.methods, records.values())
    todo = [r for r in records.values() if r.cell.method in (whole, *COMPARABLE)]
    if not todo:
        raise InvalidInput(
            f"{path} has no text to score: it takes a pair with a draft model, and a finished "
            f"generation of {whole} or of {', '.join(COMPARABLE)} at a temperature above 0."
        )
    with open_scores(path, every) as file:
        left = [record for record in todo if record.key not in file.done]
        listener.planned(len(todo), len(todo) - len(left))
        for pair in config.pairs:
            of_pair = [record for record in left if record.cell.pair == pair.name]
            if not of_pair:
                continue
            listener.busy_with(f"Loading {pair.name}")
            scorer = _Scorer(config, pair, manifest["models"], examples, every)
            for record in of_pair:
                scores = scorer.score(record, record.cell.method == whole, interrupted)
                if scores is None:
                    return False
                file.append(scores)
                listener.scored(scores)
            del scorer  # before the next pair's models come
    return True


def _examples(
    config: Config, recorded: Mapping[str, Mapping[str, str]]
) -> dict[str, list[Example]]:
    """The run's prompts by data set; raises InvalidInput where they are others now."""
    found = {}
    for dataset in config.data:
        data_dir = None if config.data_dir is None else Path(config.data_dir)
        found[dataset] = choose(load_examples(dataset, data_dir), config.prompts, config.seed)
        if fingerprint(found[dataset]) != recorded[dataset]["sha256"]:
            raise InvalidInput(
                f"The prompts of {dataset} are not those of the run; name the folder that has "
                "them with --data-dir."
            )
    return found


def _check_model(name: str, recorded: Mapping[str, str]) -> None:
    now = checksums(resolve(name))
    for file in sorted({*now, *recorded}):
        if now.get(file) != recorded.get(file):
            raise InvalidInput(
                f"{name} is not the model of the run: its {file} is another; pull the model the "
                "run had."
            )


def _check_list(file: Path, recorded: Mapping[str, str]) -> None:
    if list_checksum(file) != recorded:
        raise InvalidInput(
            f"{file} is not the list of tokens that the draft of the run had; put that one back."
        )


class _Scorer:
    """One pair, loaded as the run had it."""

    def __init__(
        self,
        config: Config,
        pair: Pair,
        recorded: Mapping[str, Mapping[str, str]],
        examples: Mapping[str, list[Example]],
        every: int,
    ):
        self._config = config
        self._every = every
        self._most = max(MOST_DRAFTS, *config.num_drafts)
        for name in pair.models:
            _check_model(name, recorded[name])
        if pair.head_list is not None:
            _check_list(pair.head_list, recorded.get(str(pair.head_list), {}))
        self._target, draft = load_pair(config, pair, slots=1)
        assert draft is not None
        self._draft = draft
        self._encoder = Decoder(self._target)
        self._examples = {
            (dataset, example.id): example for dataset, part in examples.items() for example in part
        }

    def score(self, record: Record, whole: bool, interrupted: Callable[[], bool]) -> Scores | None:
        """None if interrupted."""
        prompt = self._prompt(record)
        answer = answer_tokens(self._target.tokenizer, record)
        if answer is None:
            return Scores.of(record, whole, self._every, "the text does not tell its tokens")
        scores = Scores.of(record, whole, self._every)
        scores.acceptance.update({kind: [] for kind in KINDS})
        tokens = prompt + answer
        asked = range(record.tokens) if whole else [start for start, _ in round_starts(record)]
        places = [place for place in asked[:: self._every] if place <= len(answer)]
        if not places:
            return scores
        lengths = [len(prompt) + place for place in places]
        laws = [
            laws_along(model, tokens, lengths, record.cell.temperature, self._target.vocab_size)
            for model in (self._target, self._draft)
        ]
        with closing(laws[0]), closing(laws[1]):  # so that their slots are free again
            for place, q, p in zip(places, *laws, strict=True):
                if interrupted():
                    return None
                found = acceptance(q, p, self._most)
                scores.positions.append(place)
                for kind in KINDS:
                    scores.acceptance[kind].append([round(value, _DIGITS) for value in found[kind]])
        return scores

    def _prompt(self, record: Record) -> list[int]:
        dataset = record.cell.dataset
        example = self._examples[dataset, record.example]
        chat = uses_chat(self._config, dataset, self._target.tokenizer)
        tokens = self._encoder.encode(example.messages if chat else example.prompt)
        if len(tokens) != record.prompt_tokens:
            raise InvalidInput(
                f"The prompt {record.example} of {dataset} has {len(tokens)} tokens now and had "
                f"{record.prompt_tokens} in the run; use the run's version of transformers."
            )
        return tokens
