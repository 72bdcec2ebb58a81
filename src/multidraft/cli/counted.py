"""Long work as a bar on standard error, with the time left."""

from __future__ import annotations

from rich.progress import Progress


class CountedBar:
    """Shows how many of how many things are done.

    Attributes:
        total, done, failed: how many.
    """

    def __init__(self, bars: Progress):
        self._bars = bars
        self._task = bars.add_task("Starting", total=None)
        self.total = self.done = self.failed = 0

    def busy_with(self, what: str) -> None:
        self._bars.update(self._task, description=what)

    def planned(self, total: int, done: int) -> None:
        self.total, self.done = total, done
        self._bars.update(self._task, total=total, completed=done)
