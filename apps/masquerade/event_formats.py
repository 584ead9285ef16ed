"""The result for one session in the forms that programs for security events read."""

from __future__ import annotations

import json
import time
from typing import Any

from visionnmf import __version__

from .scoring import SessionResult, iso_time

_RISK = {"high": 90, "medium": 60, "low": 30, None: 0}  # ECS has a scale up to 100, CEF one up to 10
_CEF_HEADER = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": " ", "\r": " "})
_CEF_VALUE = str.maketrans({"\\": "\\\\", "=": "\\=", "\n": "\\n", "\r": "\\r"})


def to_ecs(result: SessionResult) -> dict[str, Any]:
    """Return a result as a dict of JSON's types with the field names of the Elastic Common Schema (8), or ours."""
    row = result.as_dict()
    return {
        "@timestamp": row["end"] or iso_time(time.time()),
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
    """Return a result as a line of the Common Event Format (0); severities are 0 (no alarm), 3, 6 and 9."""
    header = ["CEF:0", "visionnmf", "masquerade", __version__, result.verdict, "session of commands"]
    severity = str(_RISK[result.severity] // 10)
    fields = {
        "suser": result.user,
        "fname": result.source,
        "start": _number(result.start, 1000),
        "end": _number(result.end, 1000),
        "cnt": str(result.n_commands),
    }
    # CEF has numbered fields for what has no name of its own; another field gives each a label. Empty ones are omitted.
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
    """Return `times` a number as text in the format `form`, and an empty text for None."""
    return "" if number is None else format(times * number, form)


def _message(result: SessionResult) -> str:
    """Return the first line of a result's summary and its reasons as one line of text."""
    return "; ".join([result.summary().splitlines()[0], *(reason.sentence for reason in result.reasons)])
