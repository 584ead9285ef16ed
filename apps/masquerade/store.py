"""Files of masquerade models: the scorers of all users, and their profiles in common arrays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_count, check_flag, check_number, check_saved, check_texts
from visionnmf.exceptions import ParameterError, TooLargeError
from visionnmf.io.model_file import ModelFile, check_model, class_finder

from .log_formats import LATEST_TIME
from .profile import PAIRS_KEPT, Profile
from .session_cutter import Session
from .session_scorer import SessionScorer

MAX_COUNTS = 1_000_000  # commands and pairs of all users: each takes some 150 bytes when loaded
DIGESTS_KEPT = 10_000  # of a user; the first sessions of a longer log without times are learnt again
MAX_WEIGHT = 1e12  # beyond any number of sessions, and far from where scores overflow


@dataclass
class Learnt:
    """Which sessions of a user were learnt: digests of the last 10,000, and when the latest ended, if known."""

    digests: dict[int, None] = field(default_factory=dict)  # as an ordered set
    latest: float | None = None  # seconds since 1970

    def has(self, session: Session) -> bool:
        """Return whether a session was learnt, or ends before one that was."""
        older = session.dated and self.latest is not None and session.end is not None and session.end < self.latest
        return older or session.digest in self.digests

    def add(self, session: Session) -> None:
        """Remember a session."""
        self.digests[session.digest] = None
        if len(self.digests) > DIGESTS_KEPT:
            del self.digests[next(iter(self.digests))]
        if session.dated and session.end is not None:  # a date in the future must not end the learning
            self.latest = max(min(session.end, time.time()), self.latest or 0.0)


@dataclass
class MasqueradeModel:
    """The scorers of all users, fitted, by name, how their sessions are cut, and which of them were `learnt`.

    A session has `size` commands, or ends after `idle` seconds of silence. With `whole_lines` a symbol is a whole line.
    """

    scorers: dict[str, SessionScorer] = field(default_factory=dict)
    size: int = choices.SESSION_SIZE
    idle: float | None = None
    whole_lines: bool = False
    learnt: dict[str, Learnt] = field(default_factory=dict)


# The arrays of a user: shape of an entry, dtype, least and largest value. Commands are positions among the user's.
PARTS: dict[str, tuple[tuple[int, ...], str, float, float]] = {
    "text": ((), "uint8", 0, 255),  # the commands, one after the other
    "text_lengths": ((), "int32", 0, 2**31),  # of each command, in bytes
    "command_weights": ((), "float64", 0, MAX_WEIGHT),
    "pairs": ((2,), "int32", 0, 2**31),  # two commands
    "pair_weights": ((), "float64", 0, MAX_WEIGHT),
    # the sessions and the components of a factorisation
    "row_lengths": ((), "int32", 1, 2**31),  # the number of different commands of each session
    "row_weights": ((), "float64", 1e-300, MAX_WEIGHT),
    "row_counts": ((2,), "int64", 0, 2**53),  # a command, and how often it occurs in the session
    "components": ((), "float64", 0, 1),
    "digests": ((), "int64", -(2**63), 2**63),  # of the sessions that were learnt
}


def _check(state: Any) -> MasqueradeModel:
    """Return the model of a file; raise an error if its parts are not possible or do not fit together."""
    names, scorers, arrays = check_texts(state["names"], "names"), state["scorers"], state["arrays"]
    check_count(state["size"], "size")
    if state["idle"] is not None:
        check_number(state["idle"], "idle", without_low=True)
    if len({*names}) != len(names) or {*arrays} != {*PARTS}:
        raise ValueError("users must have different names, and the arrays of a profile")
    for name, (shape, dtype, low, high) in PARTS.items():
        check_saved(arrays[name], name, (None, *shape), dtype, low=low, high=high, empty=True)
    # a profile keeps at most PAIRS_KEPT pairs and as many commands
    most = max(len(arrays["text_lengths"]), len(arrays["pairs"]))
    too_many = most > PAIRS_KEPT * len(names) or len(arrays["digests"]) > DIGESTS_KEPT * len(names)
    if too_many or sum(len(arrays[name]) for name in COUNTED) > MAX_COUNTS:
        raise ValueError("users must not have so many counts")
    check_saved(state["lengths"], "lengths", (len(names), len(PARTS)), "int64", low=0, high=2**40, empty=True)
    parts = [
        _split(name, arrays[name], lengths) for name, lengths in zip(PARTS, state["lengths"].T.tolist(), strict=True)
    ]
    learnt = {}
    each = zip(names, scorers, zip(*parts, strict=True), state["latest"], strict=True)
    for name, scorer, (*own, digests), latest in each:
        check_model(SessionScorer)(scorer).profile_ = _make_profile(scorer, *own)
        if latest is not None:
            check_number(latest, "latest", 0, LATEST_TIME)
        learnt[name] = Learnt(dict.fromkeys(digests.tolist()), latest)
    whole_lines = check_flag(state["whole_lines"], "whole_lines")
    return MasqueradeModel(dict(zip(names, scorers, strict=True)), state["size"], state["idle"], whole_lines, learnt)


def _split(name: str, values: Any, lengths: list[int]) -> list[Any]:
    """Return consecutive parts of these lengths; ValueError, with the name, if they are not all of the values."""
    ends = [0, *accumulate(lengths)]
    if ends[-1] != len(values):
        raise ValueError(f"{name} must have {ends[-1]} entries, as many as belong to users; got {len(values)}")
    return [values[start:end] for start, end in pairwise(ends)]


def _make_profile(scorer: SessionScorer, *parts: Any) -> Profile:
    """Return the profile of one user from the arrays of `PARTS`; raise ValueError if they do not fit each other."""
    text, lengths, weights, pairs, pair_weights, row_lengths, row_weights, row_counts, components = parts
    commands = [one.decode("utf-8", "surrogatepass") for one in _split("text", text.tobytes(), lengths.tolist())]
    n_commands = len({*commands})
    if n_commands != len(commands) or max(pairs.max(initial=-1), row_counts[:, 0].max(initial=-1)) >= n_commands:
        raise ValueError("commands must be different, and pairs and sessions of commands of the same user")
    profile: Any = scorer.new_profile()
    profile.commands = dict(zip(commands, weights.tolist(), strict=True))
    for first, second, weight in zip(*pairs.T.tolist(), pair_weights.tolist(), strict=True):
        profile.pairs[commands[first], commands[second]] = weight
        profile.context[commands[first]] = profile.context.get(commands[first], 0.0) + weight
    profile.total = sum(profile.commands.values())
    rows = zip(_split("rows", row_counts.tolist(), row_lengths.tolist()), row_weights.tolist(), strict=True)
    sessions = [(Counter({commands[place]: n for place, n in counts}), weight) for counts, weight in rows]
    if (scorer.method == "counts") != (not sessions) or (row_counts[:, 1] < 1).any():
        raise ValueError("sessions must be those of a factorisation")
    if sessions:
        profile.sessions, profile.n_learnt = sessions, len(sessions)
        profile.components = np.array(components).reshape(-1, n_commands)
        if not profile.components.size:
            raise ValueError("a factorisation must have components")
    elif len(components):
        raise ValueError("components must be those of a factorisation")
    return profile


COUNTED = ("text_lengths", "pairs", "row_counts")


def _state(model: MasqueradeModel | SessionScorer) -> dict[str, Any]:
    """Return what a file holds of a model; a scorer alone is that of the user "user"."""
    if isinstance(model, SessionScorer):
        model = MasqueradeModel({"user": model})
    profiles = {name: scorer.profile_ for name, scorer in model.scorers.items()}
    for name, profile in profiles.items():
        odd = next((command for command in profile.commands if not isinstance(command, str)), None)
        if odd is not None:
            raise ParameterError(f"the commands of {name} must be text to be saved; got {odd!r:.60}")
    learnt = [model.learnt.get(name, Learnt()) for name in profiles]
    users = zip((Profile(), *profiles.values()), (Learnt(), *learnt), strict=True)
    parts = [_parts_of(*user) for user in users]  # the empty one, if there are no users
    if sum(len(own[name]) for own in parts for name in COUNTED) > MAX_COUNTS:
        raise TooLargeError(f"the model has more than {MAX_COUNTS} commands and pairs of commands; {FILE.smaller}")
    lengths = [[len(array) for array in own.values()] for own in parts[1:]]
    return {
        **{name: getattr(model, name) for name in ("size", "idle", "whole_lines")},
        "names": list(model.scorers),
        "scorers": list(model.scorers.values()),
        "latest": [own.latest for own in learnt],
        "lengths": np.array(lengths, np.int64).reshape(-1, len(PARTS)),
        "arrays": {name: np.concatenate([own[name] for own in parts]) for name in PARTS},
    }


def _parts_of(profile: Profile, learnt: Learnt) -> dict[str, NDArray[Any]]:
    """Return the arrays of `PARTS` of one user."""
    place = {command: i for i, command in enumerate(profile.commands)}
    texts = [str(command).encode("utf-8", "surrogatepass") for command in place]
    # only a FactorProfile, whose module loads the engine, has sessions and learns components
    rows: list[tuple[Counter[Hashable], float]] = getattr(profile, "sessions", [])
    found: dict[str, Any] = {
        "text": np.frombuffer(b"".join(texts), np.uint8),
        "text_lengths": [len(text) for text in texts],
        "command_weights": [*profile.commands.values()],
        "pairs": [(place[first], place[second]) for first, second in profile.pairs],
        "pair_weights": [*profile.pairs.values()],
        "row_lengths": [len(counts) for counts, _ in rows],
        "row_weights": [weight for _, weight in rows],
        "row_counts": [(place[command], count) for counts, _ in rows for command, count in counts.items()],
        "components": profile.learn() if hasattr(profile, "learn") else [],
        "digests": list(learnt.digests),
    }
    return {name: np.array(found[name], dtype).reshape(-1, *shape) for name, (shape, dtype, _, _) in PARTS.items()}


FILE = ModelFile(
    "masquerade",
    version=6,
    title="a masquerade model",
    origin="make one with 'visionnmf masquerade train'",
    smaller="train fewer users a model",
    find_class=class_finder(SessionScorer),
    check=_check,
    taken_apart=_state,
)
save, load = FILE.save, FILE.load


def load_estimator(path: str | Path) -> SessionScorer:
    """Read the scorer of a file's only user; see :func:`load`."""
    scorers = load(path).scorers
    if len(scorers) != 1:
        raise ParameterError(f"{path} must hold one user; got {len(scorers)}; take one of load(path).scorers")
    return next(iter(scorers.values()))
