"""What ``visionnmf masquerade score`` prints: which sessions, in which form, and how many there were."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING

from .common import Run

if TYPE_CHECKING:
    from visionnmf.apps.masquerade import SessionResult

__all__ = ["Printed"]


class Printed:
    """The sessions of a run, printed as they come, or the highest scores at the end.

    Parameters
    ----------
    run : Run
    style : str or None
        "ecs", "cef", "json", or None for what the run prints.
    alarms_only : bool
    after : float or None
        Seconds since 1970: sessions that end before are not printed; those without times are.
    top : int or None
        How many are printed at the end; None: all, as they come.
    """

    def __init__(self, run: Run, style: str | None, *, alarms_only: bool, after: float | None, top: int | None) -> None:
        self.run, self.style = run, style
        self.alarms_only, self.after, self.top = alarms_only, after, top
        self.verdicts: Counter[str] = Counter()
        self.users: set[str] = set()
        self.alarms = 0
        self._highest: list[tuple[float, int, SessionResult]] = []

    def add(self, result: SessionResult) -> None:
        """Count a session, and print it if it is wanted."""
        self.run.done += 1
        if self.after is not None and result.end is not None and result.end < self.after:
            return
        if not result.growing:
            self.verdicts[result.verdict] += 1
        self.alarms += result.verdict == "alarm"
        if len(self.users) < 100_000:
            self.users.add(result.user)
        if self.alarms_only and result.verdict != "alarm":
            return
        if self.top is None:
            self._print(result)
        elif result.score is not None:
            heapq.heappush(self._highest, (result.score, self.verdicts.total(), result))
            if len(self._highest) > self.top:
                heapq.heappop(self._highest)

    def end(self) -> None:
        """Print what waited for the end, and how many sessions there were."""
        for _, _, result in sorted(self._highest, key=lambda entry: (-entry[0], entry[1])):
            self._print(result)
        self._highest.clear()
        if not self.verdicts:
            return
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        n = self.verdicts.total()
        sessions = f"{n} session{'s' if n != 1 else ''}"
        users = f"{len(self.users)} user{'s' if len(self.users) != 1 else ''}"
        self.run.remark(f"{sessions} of {users}: {counts}")

    def _print(self, result: SessionResult) -> None:
        if self.style == "cef":
            from visionnmf.apps.masquerade import to_cef

            self.run.line(to_cef(result))
        elif self.style == "ecs":
            from visionnmf.apps.masquerade import to_ecs

            self.run.line(to_ecs(result))
        else:
            self.run.row(result)
