"""What a call of a model costs on this machine, by its number of rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from multidraft.engine.control.curve import Curve
from multidraft.engine.control.paced import Paced
from multidraft.errors import InvalidInput
from multidraft.models.base import PREFIX, Extension, LanguageModel, NoFreeSlot
from multidraft.models.disk import cache_folder, whole_file
from multidraft.models.transformers_model import TransformersModel

#: Measured in this order, the first two always and the others while there is time: how wide drafts
#: may be depends on where a call stops being bound by memory, and some CPUs have a way of their own
#: with a single row.
_ALWAYS, _ROWS = (1, 16), (2, 4, 8, 32, 64)
_CONTEXT = 64  # tokens before the measured rows
_TIMES = ((0.05, 4), (0.25, 2))  # of calls that take less than so many seconds; of others one
_STILL = 1.5  # how far the machine's speed may be from what it was, for the curve to be believed
# For one model, in seconds or, where that is longer, in steps; the sizes left over lie on lines.
_MOST_SECONDS, _MOST_STEPS = 2.5, 20
_PLAIN_STEPS = 8  # the last so many say what a plain step takes
_KERNELS = 5  # raised when calls come to cost something else by a change of ours


class Costs:
    """Costs of the target's and the draft's calls, kept up to date by what rounds really take.

    Args:
        target: of a scoring call, by positions of all sequences.
        draft: of a draft call, by nodes of all sequences; None where no model drafts.
    """

    def __init__(self, target: Curve, draft: Curve | None):
        self._measured = target
        self._target, self._draft = Paced(target), None if draft is None else Paced(draft)
        self._plain, self._plain_steps = 1.0, 0  # of what the curve says a plain step takes
        self._plain_last, self._untold = False, 1.0  # what the first of a row changed

    def target(self, positions: float) -> float:
        """Seconds of the target's call."""
        return self._target(positions)

    def plain(self, batch: int) -> float:
        """Seconds of the target's call where nothing is drafted.

        What drafting is weighed against, so it has an estimate of its own: a curve that is a tenth
        too high at its end would make a draft pay that costs a tenth too much.
        """
        return self._measured(batch) * self._plain

    def draft(self, rows: float) -> float:
        """Seconds of one call of the draft."""
        return 0.0 if self._draft is None else self._draft(rows)

    def observe(
        self,
        batch: int,
        positions: int,
        target_seconds: float,
        rows: list[int],
        draft_seconds: float,
    ) -> None:
        """A round's calls: its sequences, rows of each call, and the seconds they took."""
        if positions == batch:
            factor, before = target_seconds / self._measured(batch), self._plain
            self._plain_steps = min(_PLAIN_STEPS, self._plain_steps + 1)
            usual = min(max(factor, self._plain / 2), self._plain * 2)
            self._plain += (usual - self._plain) / self._plain_steps
            change = self._plain / before
            if self._plain_last:  # two in a row: the machine has changed, for all calls
                for calls in (self._target, self._draft):
                    if calls is not None:
                        calls.pace *= change * self._untold
                change = 1.0
            self._untold = change
        else:
            before = self._target.pace
            self._target.observe([positions], target_seconds)
            if not self._plain_last:  # the machine has changed, for plain steps too
                self._plain *= self._target.pace / before
        self._plain_last = positions == batch
        if rows and self._draft is not None:
            self._draft.observe(rows, draft_seconds)


def costs_of(target: LanguageModel, draft: LanguageModel | None) -> Costs:
    """Measured now. Of models on disk the shape of the curve is kept per model and machine, and
    only its scale measured anew. The first time takes a few seconds, or as long as thirty steps
    of a slow model; and a free slot of each.

    Raises:
        InvalidInput: a model has no free slot.
    """
    try:
        return Costs(_curve_of(target), None if draft is None else _curve_of(draft))
    except NoFreeSlot:
        raise InvalidInput(
            "All slots of a model are in use, and a controller needs one to measure what calls "
            "cost; make the Decoder before, or load the models with more slots."
        ) from None


def _curve_of(model: LanguageModel) -> Curve:
    if not isinstance(model, TransformersModel):
        return measure(model)
    file = _file_of(model)
    try:
        kept = {float(rows): float(s) for rows, s in json.loads(file.read_text()).items()}
        fewest = min(kept)
        pace = measure(model, (int(fewest),))(fewest) / kept[fewest]
        if 1 / _STILL < pace < _STILL:  # else one of the two met a busy moment
            return Curve.of({rows: pace * seconds for rows, seconds in kept.items()})
    except (OSError, ValueError, AttributeError, ZeroDivisionError):
        pass  # not measured yet, or half a file
    curve = measure(model)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as new:
            new.write_text(json.dumps(curve.to_dict()))
    except OSError:
        pass  # a full or read-only disk: measured again the next time
    return curve


def _file_of(model: TransformersModel) -> Path:
    # By its name too: machines may share a home folder.
    here = [_KERNELS, torch.__version__, torch.get_num_threads(), platform.node(), _chip(model)]
    what = [*here, model.fingerprint, model.num_slots]
    name = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]
    return cache_folder() / "costs" / f"{name}.json"


def _chip(model: TransformersModel) -> str:
    if model.device.type == "cuda":
        return torch.cuda.get_device_name(model.device)
    # A container may be moved to another kind of machine with its name and its home.
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def measure(model: LanguageModel, counts: Sequence[int] = (*_ALWAYS, *_ROWS)) -> Curve:
    """Time calls of 1 to 64 rows: the fastest of a few each, as what disturbs only slows."""
    points: dict[float, float] = {}
    slot = model.open()
    try:
        room = model.max_length
        model.prefill(slot, [i % model.vocab_size for i in range(min(_CONTEXT, room // 2))])
        started = time.perf_counter()
        for rows in counts:
            most = max(_MOST_SECONDS, _MOST_STEPS * points.get(1, 0.0))
            late = time.perf_counter() - started > most
            if rows > room // 2 or (late and rows not in _ALWAYS):
                continue
            first = _timed(model, slot, rows)  # of its size, which pays for memory
            times = next((times for below, times in _TIMES if first < below), 1)
            points[rows] = min(first, *(_timed(model, slot, rows) for _ in range(times)))
    finally:
        model.close(slot)
    # More rows never cost less; where they seem to, that is noise.
    rising = itertools.accumulate((points[rows] for rows in sorted(points)), max)
    return Curve.of(dict(zip(sorted(points), rising, strict=True)))


@torch.inference_mode()
def _timed(model: LanguageModel, slot: int, rows: int) -> float:
    tokens = [i % model.vocab_size for i in range(rows)]
    extension = Extension(slot, tokens, [PREFIX, *range(rows - 1)])
    _wait(model)
    started = time.perf_counter()
    model.extend([extension])
    _wait(model)
    seconds = time.perf_counter() - started
    model.commit(slot, [])
    return seconds


def _wait(model: LanguageModel) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
