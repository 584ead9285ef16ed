"""Masquerade-style anomaly scores: how far a session of commands is from its user's habits.

=================================  ===============================================================================
:class:`SessionScorer`             learn one user's habits from sessions, score, explain and learn on
:func:`train`                      histories in, one model file with every user out
:func:`score`                      a model and logs (or a growing log) in, one result a session out
:func:`evaluate`                   how well would it work here: each user's last sessions against the other users'
:func:`save`, :func:`load`         model files: counts in ``.npz`` with a JSON header, never pickle
:class:`MexPereraNMF` and others   the paper's model and the baselines it is measured against
=================================  ===============================================================================

A session is a sequence of symbols, as a rule the names of a hundred commands; nothing is specific to commands. Only the
user's own sessions are used: no other user's data, not even for a vocabulary. The constants are constants.

**The score.** With ``d(c)`` the number of training sessions that contain command `c`, ``d(b, c)`` the number of those
that contain `c` right after `b`, and dots for sums,

    p(c) = (d(c) + a) / (d(.) + a V),        p(c | b) = (d(b, c) + l p(c)) / (d(b, .) + l)

and a session costs the mean of ``-log p(c)`` over its commands, plus the mean of ``-log p(c | b)`` over its pairs of
neighbours, plus .2 for each command in a hundred that is new (counted once however often it is repeated). Sessions are
counted rather than commands, because a command that is repeated a hundred times in one afternoon is one habit. The
anomaly score is the cost in deviations from the user's usual cost.

**Calibration.** The usual cost and its deviation are taken by forward chaining: the first third of the training
sessions scores the second, the first two thirds score the last, so that the drift of habits is part of what is usual.
Both are drawn towards constants, with 50 training sessions half-way. The alarm threshold is the Student quantile of the
chosen false-alarm rate. Training sessions far from all others, which may be someone else's, weigh a quarter in the
profile and nothing in the calibration.

**Learning on** (:meth:`SessionScorer.update`). A session below the threshold joins the profile, one above it with a
weight of 3 %: a lasting change of habits is learnt in the end, a masquerader's week is not. A masquerade seldom comes
alone: a fifth of the previous session's score is added to the next one's.

The application is that of Mex-Perera et al., "An improved non-negative matrix factorization method for masquerade
detection"; their model, to the letter, is :class:`MexPereraNMF`. ``docs/masquerade.md`` has the figures of both.
"""

from __future__ import annotations

from .baselines import EigenCooccurrence, MexPereraNMF, NaiveBayes, WangNMF
from .evaluation import Evaluation, evaluate, roc_summary
from .export import to_cef, to_ecs
from .lines import follow
from .logs import Event, Origin, Session, read_events, sessions
from .model import Reason, SessionScorer
from .profile import Profile
from .scoring import SessionResult, score
from .store import MasqueradeModel, load, save
from .training import Trained, train

__all__ = [
    "EigenCooccurrence",
    "Evaluation",
    "Event",
    "MasqueradeModel",
    "MexPereraNMF",
    "NaiveBayes",
    "Origin",
    "Profile",
    "Reason",
    "Session",
    "SessionResult",
    "SessionScorer",
    "Trained",
    "WangNMF",
    "evaluate",
    "follow",
    "load",
    "read_events",
    "roc_summary",
    "save",
    "score",
    "sessions",
    "to_cef",
    "to_ecs",
    "train",
]
