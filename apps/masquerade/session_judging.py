"""Judging sessions by their users' scorers, in this process or in several; the results are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from itertools import islice
from typing import NamedTuple

from .session_cutter import Session
from .session_scorer import Reason, SessionScorer
from .settings import Judging

__all__ = ["Judgement", "ReadSession", "judge", "judge_in_rounds"]

# Deviations: the previous session adds at most this to a score (CARRY * CARRY_LIMIT of the scorer is 0.8).
MAX_CARRIED = 1.0
ROUND = 2000  # sessions in a round, which is judged while the next one is read
SHARES = 4  # tasks per process and round: users differ in cost, and small tasks balance the load


class Judgement(NamedTuple):
    """The score of a session, the threshold, whether its user is still being learnt, reasons, and usual commands."""

    score: float
    threshold: float
    learning: bool
    reasons: list[Reason]
    usual: list[str]


class ReadSession(NamedTuple):
    """A session, the log in which it ended, whether to learn it, and errors of logs that were read before it."""

    session: Session
    source: str
    learn: bool
    failures: tuple[str, ...] = ()


def judge(scorer: SessionScorer, commands: Sequence[str], learn: bool, judging: Judging) -> Judgement:
    """Score the commands of one session by its user's scorer, and give reasons if the score may reach the threshold.

    With `learn` the session also updates the scorer, and the score includes a share of the previous session's score.
    Without it the scorer stays as it is, and the session is scored alone. `judging` gives a threshold that replaces the
    scorer's own, and the number of reasons.
    """
    learning = scorer.learning  # true while the user has too few sessions for an alarm
    alone = float(scorer.anomaly_score([commands])[0])
    threshold = scorer.threshold_ if judging.threshold is None else judging.threshold
    # The reasons must be found before `update` learns the session, when the final score is not known yet. That score is
    # at most `alone + MAX_CARRIED`, so a session further below the threshold raises no alarm and needs no reasons.
    near = alone > threshold - MAX_CARRIED
    reasons = scorer.explain(commands, top=judging.reasons) if near else []
    usual = scorer.usual() if near and not learning else []
    return Judgement(scorer.update(commands) if learn else alone, threshold, learning, reasons, usual)


def judge_in_rounds(
    found: Iterator[ReadSession], scorers: dict[str, SessionScorer], judging: Judging, pool: Executor, processes: int
) -> Iterator[tuple[ReadSession, Judgement | None]]:
    """Judge sessions in the processes of a pool, one round while the next one is read.

    Yields each session in its order with its judgement, which is None for users without a scorer. Scorers that have
    learnt replace those in `scorers`.
    """
    finish: Callable[[], Iterable[tuple[ReadSession, Judgement | None]]] = tuple
    more = True
    while more:
        sessions, error = _read_round(found)
        yield from finish()
        finish = _begin_round(sessions, scorers, judging, pool, processes)
        more = error is None and bool(sessions)
    yield from finish()
    if error is not None:
        raise error


def _read_round(found: Iterator[ReadSession]) -> tuple[list[ReadSession], Exception | None]:
    """Read the sessions of a round, and return an error so that what was read before it is judged first."""
    sessions = []
    try:
        for each in islice(found, ROUND):
            sessions.append(each)
    except Exception as error:
        return sessions, error
    return sessions, None


def _begin_round(
    sessions: list[ReadSession], scorers: dict[str, SessionScorer], judging: Judging, pool: Executor, processes: int
) -> Callable[[], Iterable[tuple[ReadSession, Judgement | None]]]:
    """Submit a round of sessions to a pool, and return a function that waits for the judgements.

    All sessions of one user go to the same task in their order, because each may change the user's scorer. The returned
    function yields the sessions in their order with their judgements, and stores the scorers that have learnt.
    """
    by_user: dict[str, list[ReadSession]] = {}
    for each in sessions:
        if each.session.user in scorers:
            by_user.setdefault(each.session.user, []).append(each)
    shares: list[Future[dict[str, tuple[SessionScorer | None, list[Judgement]]]]] = []
    share: dict[str, tuple[SessionScorer, list[tuple[Sequence[str], bool]]]] = {}
    count = 0
    for user, own in by_user.items():
        share[user] = scorers[user], [(each.session.commands, each.learn) for each in own]
        count += len(own)
        # Submit the share once it holds its part of the round.
        if count * SHARES * processes >= len(sessions):
            shares.append(pool.submit(_judge_users, share, judging))
            share, count = {}, 0
    if share:
        shares.append(pool.submit(_judge_users, share, judging))

    def finish() -> Iterator[tuple[ReadSession, Judgement | None]]:
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
    share: dict[str, tuple[SessionScorer, list[tuple[Sequence[str], bool]]]], judging: Judging
) -> dict[str, tuple[SessionScorer | None, list[Judgement]]]:
    """Judge the sessions of some users, and return the judgements and the scorers that have learnt."""
    found: dict[str, tuple[SessionScorer | None, list[Judgement]]] = {}
    for user, (scorer, sessions) in share.items():
        judged = [judge(scorer, commands, learn, judging) for commands, learn in sessions]
        found[user] = scorer if any(learn for _, learn in sessions) else None, judged
    return found
