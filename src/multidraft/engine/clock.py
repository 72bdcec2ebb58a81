"""Wall-clock time by phase."""

from __future__ import annotations

import time

import torch


class Clock:
    """Splits wall-clock time into laps; waits for the device first, so that work is counted in
    the phase that caused it."""

    def __init__(self, device: torch.device):
        self._device = device
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap, or since the clock was made."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return elapsed
