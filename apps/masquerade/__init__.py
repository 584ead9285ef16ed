"""Anomaly scores for sessions of commands: how far a session is from its user's habits.

=================================  ===============================================================================
:class:`SessionScorer`             learns one user's habits from sessions; scores, explains and learns on
:func:`train`                      histories in, one model file with all users out
:func:`score`                      a model and logs (or a growing log) in, one result for each session out
:func:`evaluate`                   how well would it work here: each user's last sessions against the other users'
:func:`save`, :func:`load`         model files: counts in ``.npz`` with a JSON header, never pickle
:class:`MexPereraNMF`, WangNMF     the paper's model and the one that it improves
=================================  ===============================================================================

The application is that of Mex-Perera et al., "An improved non-negative matrix factorization method for masquerade
detection". :class:`MexPereraNMF` is their model exactly as published.

Importing this package loads no numerical library; each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visionnmf.io.text_lines import follow as follow

    from .baselines import MexPereraNMF as MexPereraNMF
    from .baselines import WangNMF as WangNMF
    from .evaluation import Evaluation as Evaluation
    from .evaluation import evaluate as evaluate
    from .evaluation import roc_summary as roc_summary
    from .log_formats import Event as Event
    from .log_formats import read_events as read_events
    from .scoring import SessionResult as SessionResult
    from .scoring import score as score
    from .session_cutter import Origin as Origin
    from .session_cutter import Session as Session
    from .session_cutter import sessions as sessions
    from .session_scorer import Reason as Reason
    from .session_scorer import SessionScorer as SessionScorer
    from .settings import DetectorComparison as DetectorComparison
    from .settings import Following as Following
    from .settings import Judging as Judging
    from .settings import LogSource as LogSource
    from .settings import ScorerSettings as ScorerSettings
    from .settings import SessionCutting as SessionCutting
    from .store import MasqueradeModel as MasqueradeModel
    from .store import load as load
    from .store import save as save
    from .training import MasqueradeTrained as MasqueradeTrained
    from .training import train as train

_LAZY = {
    name: module
    for module, names in {
        "visionnmf.io.text_lines": ("follow",),
        ".baselines": ("MexPereraNMF", "WangNMF"),
        ".evaluation": ("Evaluation", "evaluate", "roc_summary"),
        ".log_formats": ("Event", "read_events"),
        ".scoring": ("SessionResult", "score"),
        ".session_cutter": ("Origin", "Session", "sessions"),
        ".session_scorer": ("Reason", "SessionScorer"),
        ".settings": ("DetectorComparison", "Following", "Judging", "LogSource", "ScorerSettings", "SessionCutting"),
        ".store": ("MasqueradeModel", "load", "save"),
        ".training": ("MasqueradeTrained", "train"),
    }.items()
    for name in names
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
