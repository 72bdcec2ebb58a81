"""A run's records with the times a cost table gives them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from multidraft.bench.methods import AUTO, PLAIN, parse_method
from multidraft.bench.records import Record
from multidraft.bench.report.load import Run
from multidraft.bench.simulate.calls import calls_of
from multidraft.bench.simulate.costs import CostTable
from multidraft.engine.decoder import DEFAULT_VERIFIER
from multidraft.engine.stats import PHASES
from multidraft.errors import InvalidInput


@dataclass(frozen=True)
class Prediction:
    """A run as another machine would have recorded it.

    Attributes:
        run: the run, with predicted seconds.
        notes: sentences on what had to be assumed.
    """

    run: Run
    notes: list[str]


def predict(run: Run, costs: CostTable) -> Prediction:
    """Replace a run's times by a table's: each prompt decoded alone, in the recorded rounds.

    Peers are left out, as their rounds are not recorded. Where the run has no plain decoding, it is
    added: as many tokens as the other answers to the prompt have on average.

    Args:
        run: see `load_run`.
        costs: of the machine.

    Raises:
        InvalidInput: the run has nothing to predict, or the table lacks a cost that it needs.
    """
    told = [record for record in run.records if record.rounds]
    if all(record.cell.method == PLAIN for record in told):
        raise InvalidInput(f"{run.name} has no round with a draft; there is nothing to predict.")
    clock = _Clock(costs)
    records = [clock.timed(record) for record in _with_plain(told)]
    notes = []
    peers = sorted({r.cell.method for r in run.records if not r.rounds})
    if peers:
        notes.append(f"Left out, as their rounds are not recorded: {', '.join(peers)}.")
    if clock.unknown:
        notes.append(
            f"In {clock.unknown / clock.rounds:.0%} of the rounds it is not recorded how many "
            "positions were scored; there drafts are taken to share none, which makes them dearer "
            "than they are."
        )
    notes += clock.beyond()
    return Prediction(replace(run, records=records), notes)


def _with_plain(records: Sequence[Record]) -> Iterator[Record]:
    yield from records
    answers: dict[tuple[str, str, float, str, int], list[Record]] = defaultdict(list)
    for record in records:
        cell = record.cell
        place = cell.pair, cell.dataset, cell.temperature
        answers[(*place, record.example, record.repetition)].append(record)
    for found in answers.values():
        if all(record.cell.method != PLAIN for record in found):
            tokens = round(fmean(record.tokens for record in found))
            cell = replace(found[0].cell, method=PLAIN, num_drafts=0, draft_length=0)
            steps = [[0, 0, 1] for _ in range(tokens)]
            yield replace(found[0], cell=cell, tokens=tokens, rounds=steps, calls=[])


class _Clock:
    """Times records by a table, and keeps count of what it had to assume."""

    def __init__(self, costs: CostTable):
        self.rounds = self.unknown = 0
        self._costs = costs
        self._most = {"target": 0, "draft": 0}

    def timed(self, record: Record) -> Record:
        costs, method = self._costs, parse_method(record.cell.method)
        verifier = DEFAULT_VERIFIER if method.name == AUTO else method.verifier or PLAIN
        verify = costs.of_verifier("verify", verifier)
        other = costs.of_verifier("other", verifier)
        seconds = dict.fromkeys(PHASES, 0.0)
        rounds, unknown = calls_of(record)
        for positions, *rows in rounds:
            seconds["draft"] += sum(map(costs.step(), rows)) if rows else 0.0
            seconds["target"] += costs.target(positions)
            seconds["verify"] += verify(positions)
            seconds["other"] += other(positions)
            self._most["target"] = max(self._most["target"], positions)
            self._most["draft"] = max([self._most["draft"], *rows])
        cached = record.prompt_tokens - 1  # the last one is scored in the first round
        if cached > 0:
            seconds["target"] += costs.prefill_target(cached)
            seconds["draft"] += costs.prefill_draft(cached) if method.needs_draft else 0.0
        self.rounds += len(rounds)
        self.unknown += unknown
        cell = replace(record.cell, batch=1)
        return replace(record, cell=cell, seconds=seconds, first_token=0.0, gaps=[])

    def beyond(self) -> Iterator[str]:
        """Where counts lie beyond the table's last point."""
        for name, curve in (("target", self._costs.target), ("draft", self._costs.draft)):
            if curve is not None and self._most[name] > curve.last:
                yield (
                    f"The {name}'s costs are given up to {curve.last:g} positions and were "
                    f"continued up to {self._most[name]}."
                )
