"""Settings side by side on one prompt after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from multidraft.bench.methods import parse_method
from multidraft.bench.ours import EngineContestant, warm_up
from multidraft.bench.records import Cell, Record
from multidraft.bench.report.group import Row
from multidraft.models import LanguageModel
from multidraft.sampling import SamplingParams

#: Told of what is being done now.
Told = Callable[[str], None]


class Contest:
    """Settings that decode the same prompts in turn.

    Args:
        target, draft: the pair, each with a free slot.
        rows: the settings.
        params: how to sample; the seed is each prompt's number.
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        rows: Sequence[Row],
        params: SamplingParams,
    ):
        self._params = params
        self._contestants = {
            row: EngineContestant(
                parse_method(row.method), target, draft, row.num_drafts, row.draft_length
            )
            for row in rows
        }
        self._warm: set[Row] = set()

    def decode(
        self, number: int, prompt: list[int], stop: Callable[[], bool], told: Told
    ) -> list[Record] | None:
        """One prompt by every setting; another one begins each time, so that none always follows
        the same.

        Args:
            number: of the prompt.
            prompt: token ids.
            stop: asked after each round.
            told: of each setting, before it decodes.

        Returns:
            A record of each; None if stopped. Where a setting fails, its record says why, and those
            after it are left out.
        """
        params = replace(self._params, seed=number)
        rows = list(self._contestants)
        first = number % len(rows)
        records: list[Record] = []
        for row in (*rows[first:], *rows[:first]):
            told(str(row))
            record = self._one(row, number, prompt, params, stop)
            if record is None:
                return None
            records.append(record)
            if record.error:
                break
        return records

    def _one(
        self,
        row: Row,
        number: int,
        prompt: list[int],
        params: SamplingParams,
        stop: Callable[[], bool],
    ) -> Record | None:
        contestant = self._contestants[row]
        if row not in self._warm:
            if warm_up(contestant, [prompt], [params], stop) is None:
                return None
            self._warm.add(row)
        outcomes = contestant.decode([prompt], [params], stop)
        if outcomes is None:
            return None
        cell = Cell("pair", "prompts", row.method, row.num_drafts, row.draft_length, 0.0)
        cell = replace(cell, temperature=params.temperature)
        return Record(cell, str(number), 0, number, len(prompt), **asdict(outcomes[0]))
