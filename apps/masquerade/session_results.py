"""The result for one session, as text for a person and in the forms that programs for security events read."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from visionnmf import __version__

from .session_scorer import Reason

__all__ = ["SessionResult", "Severity", "Verdict", "to_cef", "to_ecs"]

Verdict = Literal["own", "alarm", "learning", "unknown user"]
Severity = Literal["low", "medium", "high"]

_RISK = {"high": 90, "medium": 60, "low": 30, None: 0}  # ECS has a scale up to 100, CEF one up to 10
_CEF_HEADER = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": " ", "\r": " "})
_CEF_VALUE = str.maketrans({"\\": "\\\\", "=": "\\=", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class SessionResult:
    """One scored session.

    Attributes
    ----------
    source : str
        The log.
    user : str
        The user.
    index : int
        The number of the session among the user's sessions in this run, from 0.
    start, end : float or None
        Times of its first and last command, in seconds since 1970, UTC; None if the log has no times or no years.
    n_commands : int
        Its length.
    score, threshold : float or None
        The anomaly score in deviations from the user's usual cost, and the threshold; None for an unknown user.
    verdict : {"own", "alarm", "learning", "unknown user"}
        ``"learning"``: the user has too few sessions for alarms.
    reasons : list of Reason
        The commands that raised the score, the largest share first.
    severity : {"low", "medium", "high"} or None
        For alarms: less than 1, less than 3, or more deviations above the threshold.
    usual : list of str
        For alarms: the commands that occur in most of the user's sessions.
    growing : bool
        Whether only the beginning of a growing session was judged.
    first_line, last_line : int or None
        Its lines in the log.
    """

    source: str
    user: str
    index: int
    start: float | None
    end: float | None
    n_commands: int
    score: float | None
    threshold: float | None
    verdict: Verdict
    reasons: list[Reason]
    severity: Severity | None = None
    usual: list[str] = field(default_factory=list)
    growing: bool = False
    first_line: int | None = None
    last_line: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the result for a line of JSON.

        Returns
        -------
        dict
            Values of JSON's types only; times as ISO 8601.
        """
        reasons = [
            {
                "command": str(r.command),
                "count": r.count,
                "share": round(r.share, 3),
                "sentence": r.sentence,
                "lines": [{"file": o.source, "line": o.line, "text": o.text} for o in r.origins],
            }
            for r in self.reasons
        ]
        row = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return row | {"start": _iso(self.start), "end": _iso(self.end), "reasons": reasons}

    def summary(self) -> str:
        """Return the result as text.

        Returns
        -------
        str
            One line. For an alarm it is followed by one line for each reason and for each line of the log it names.
        """
        when = f", {_iso(self.start)} to {_iso(self.end)}" if self.start is not None and self.end is not None else ""
        so_far = f" so far ({self.n_commands} commands)" if self.growing else ""
        head = f"{self.user}, session {self.index}{so_far}{when}: {self.verdict}"
        if self.score is None:
            return f"{head} ({self.n_commands} commands; train a model for this user first)"
        severity = f", {self.severity}" if self.severity else ""
        head += f", score {self.score:.1f} (threshold {self.threshold:.1f}{severity})"
        if self.verdict != "alarm" or not self.reasons:
            return head
        lines = [head]
        for reason in self.reasons:
            lines.append(f"  {reason.sentence} [{100 * reason.share:.0f} %]")
            lines += [f"    {origin.source}:{origin.line}: {origin.text}" for origin in reason.origins]
        if self.usual:
            lines.append(f"  usual for {self.user}: {', '.join(self.usual)}")
        return "\n".join(lines)


def _iso(moment: float | None) -> str | None:
    return None if moment is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def to_ecs(result: SessionResult) -> dict[str, Any]:
    """Return a result with the field names of the Elastic Common Schema (8).

    Parameters
    ----------
    result : SessionResult
        The result.

    Returns
    -------
    dict
        Values of JSON's types only. Fields without a name in the schema are in ``visionnmf.masquerade``.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import LogSource, score, to_ecs
    >>> result = next(iter(score("users.npz", ["ben.txt"], source=LogSource(user="ada"))))
    >>> to_ecs(result)["user"]["name"]
    'ada'
    """
    row = result.as_dict()
    return {
        "@timestamp": row["end"] or _iso(time.time()),
        "ecs": {"version": "8.11.0"},
        "event": {
            "kind": "alert" if result.verdict == "alarm" else "event",
            "category": ["process"],
            "type": ["info"],
            "module": "visionnmf",
            "dataset": "visionnmf.masquerade",
            "outcome": "unknown",
            "start": row["start"],
            "end": row["end"],
            "risk_score": _RISK[result.severity],
            "severity": _RISK[result.severity],
        },
        "user": {"name": result.user},
        "log": {"file": {"path": result.source}, "level": result.severity or "info"},
        "message": _message(result),
        "process": {"command_line": [origin.text for reason in result.reasons for origin in reason.origins]},
        "visionnmf": {"masquerade": row},
    }


def to_cef(result: SessionResult) -> str:
    """Return a result as a line of the Common Event Format (0).

    Parameters
    ----------
    result : SessionResult
        The result.

    Returns
    -------
    str
        ``CEF:0|visionnmf|masquerade|...``; severities are 0 (no alarm), 3, 6 and 9.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import LogSource, score, to_cef
    >>> result = next(iter(score("users.npz", ["ben.txt"], source=LogSource(user="ada"))))
    >>> to_cef(result)[:6]
    'CEF:0|'
    """
    header = ["CEF:0", "visionnmf", "masquerade", __version__, result.verdict, "session of commands"]
    severity = str(_RISK[result.severity] // 10)
    fields = {
        "suser": result.user,
        "fname": result.source,
        "start": _number(result.start, 1000),
        "end": _number(result.end, 1000),
        "cnt": str(result.n_commands),
    }
    for key, label, value in (
        ("cfp1", "score", _number(result.score, form=".3f")),
        ("cfp2", "threshold", _number(result.threshold, form=".3f")),
        ("cs1", "reasons", json.dumps(result.as_dict()["reasons"]) if result.reasons else ""),
        ("cn1", "line", _number(result.first_line)),
    ):
        fields |= {f"{key}Label": label, key: value} if value else {}
    fields["msg"] = _message(result)
    extension = " ".join(f"{key}={value.translate(_CEF_VALUE)}" for key, value in fields.items() if value)
    return "|".join([*(part.translate(_CEF_HEADER) for part in [*header, severity]), extension])


def _number(number: float | None, times: int = 1, form: str = ".0f") -> str:
    return "" if number is None else format(times * number, form)


def _message(result: SessionResult) -> str:
    return "; ".join([result.summary().splitlines()[0], *(reason.sentence for reason in result.reasons)])
