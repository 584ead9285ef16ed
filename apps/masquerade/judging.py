"""Verdicts on the sessions of a log, in this process or in several; who learns from whom stays the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from itertools import islice
from typing import NamedTuple

from .logs import Session
from .model import Reason, SessionScorer

__all__ = ["How", "Judged", "Read", "judge", "judge_in_rounds"]

CARRIED = 1.0  # deviations that the session before may add
ROUND = 2000  # sessions that are judged while as many are read
SHARES = 4  # of a round, for each process: users differ in what they cost


class How(NamedTuple):
    """How sessions are judged: the reasons named at most, and the threshold in place of the users' own."""

    top: int
    threshold: float | None


class Judged(NamedTuple):
    """What was found of a session; `usual` is what most of the user's sessions hold."""

    score: float
    limit: float
    learning: bool
    reasons: list[Reason]
    usual: list[str]


class Read(NamedTuple):
    """A session, the log in which it ended, whether it is to be learnt, and what failed before it."""

    session: Session
    source: str
    learn: bool
    failures: tuple[str, ...] = ()


def judge(scorer: SessionScorer, commands: Sequence[str], learn: bool, how: How) -> Judged:
    """Judge a session, and learn from it."""
    learning = scorer.learning
    alone = float(scorer.anomaly_score([commands])[0])
    limit = scorer.threshold_ if how.threshold is None else how.threshold
    # explained before it is learnt; the previous session can lift a score only so far
    near = alone > limit - CARRIED
    reasons = scorer.explain(commands, top=how.top) if near else []
    usual = scorer.usual() if near and not learning else []
    return Judged(scorer.update(commands) if learn else alone, limit, learning, reasons, usual)


def judge_in_rounds(
    found: Iterator[Read], scorers: dict[str, SessionScorer], how: How, pool: Executor, processes: int
) -> Iterator[tuple[Read, Judged | None]]:
    """Judge sessions in other processes, a round while the next is read.

    Parameters
    ----------
    found : iterator of Read
    scorers : dict of str to SessionScorer
        Those that have learnt take the places of those that were given.
    how : How
    pool : concurrent.futures.Executor
    processes : int
        Of the pool.

    Yields
    ------
    Read
        Each session, in its order.
    Judged or None
        None of a user without a scorer.
    """
    finish: Callable[[], Iterable[tuple[Read, Judged | None]]] = tuple
    more = True
    while more:
        sessions, error = _round(found)
        yield from finish()
        finish = _begin(sessions, scorers, how, pool, processes)
        more = error is None and bool(sessions)
    yield from finish()
    if error is not None:
        raise error


def _round(found: Iterator[Read]) -> tuple[list[Read], Exception | None]:
    """Read the sessions of a round; what was read before an error is judged before it is raised."""
    sessions = []
    try:
        for each in islice(found, ROUND):
            sessions.append(each)
    except Exception as error:
        return sessions, error
    return sessions, None


def _begin(
    sessions: list[Read], scorers: dict[str, SessionScorer], how: How, pool: Executor, processes: int
) -> Callable[[], Iterable[tuple[Read, Judged | None]]]:
    """Hand a round to a pool; returns what waits for it."""
    by_user: dict[str, list[Read]] = {}
    for each in sessions:
        if each.session.user in scorers:
            by_user.setdefault(each.session.user, []).append(each)
    shares: list[Future[dict[str, tuple[SessionScorer | None, list[Judged]]]]] = []
    share: dict[str, tuple[SessionScorer, list[tuple[Sequence[str], bool]]]] = {}
    count = 0
    for user, own in by_user.items():
        share[user] = scorers[user], [(each.session.commands, each.learn) for each in own]
        count += len(own)
        if count * SHARES * processes >= len(sessions):
            shares.append(pool.submit(_judge_users, share, how))
            share, count = {}, 0
    if share:
        shares.append(pool.submit(_judge_users, share, how))

    def finish() -> Iterator[tuple[Read, Judged | None]]:
        verdicts = {}
        for future in shares:
            for user, (scorer, judged) in future.result().items():
                verdicts[user] = iter(judged)
                if scorer is not None:
                    scorers[user] = scorer
        for each in sessions:
            known = each.session.user in verdicts
            yield each, next(verdicts[each.session.user]) if known else None

    return finish


def _judge_users(
    share: dict[str, tuple[SessionScorer, list[tuple[Sequence[str], bool]]]], how: How
) -> dict[str, tuple[SessionScorer | None, list[Judged]]]:
    """Judge the sessions of some users; returns the scorers, too, where they have learnt."""
    found: dict[str, tuple[SessionScorer | None, list[Judged]]] = {}
    for user, (scorer, sessions) in share.items():
        judged = [judge(scorer, commands, learn, how) for commands, learn in sessions]
        found[user] = scorer if any(learn for _, learn in sessions) else None, judged
    return found
