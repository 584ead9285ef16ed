"""Files of masquerade models: the counts of all users in common arrays, and the numbers of each user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import shown
from visionnmf.exceptions import ParameterError, TooLargeError
from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import Array, Flag, List, Maybe, Number, Record, Text, Whole

from .profile import PAIRS_KEPT, SESSIONS_KEPT, Profile
from .session_scorer import SessionScorer

MAX_COUNTS = 1_000_000  # commands and pairs of all users: each takes some 150 bytes when loaded
MAX_WEIGHT = 1e12  # beyond any number of sessions, and far from where scores overflow ...
MAX_COMPONENTS = 100  # of a factorisation
MAX_NUMBER = 1e6  # ... like this for costs, deviations and thresholds
NUMBERS = ("n_sessions", "usual_cost", "deviation", "threshold", "session_length", "previous_score")


@dataclass
class MasqueradeModel:
    """The scorers of all users, and how their sessions are cut.

    `scorers` maps users to fitted :class:`SessionScorer`. A session has
    `size` commands, or ends after `idle` seconds of silence. With `whole_lines` a symbol is a whole line of the
    history.
    """

    scorers: dict[str, SessionScorer] = field(default_factory=dict)
    size: int = choices.SESSION_SIZE
    idle: float | None = None
    whole_lines: bool = False


def _read(users: list[dict[str, Any]], size: int, idle: float | None, whole_lines: bool, **arrays: Any) -> Any:
    """Return a model without scorers, and for each user the fields of the file and the profile.

    All arrays hold one user after the other: the commands (`text` in bytes, `text_lengths`, `command_weights`), the
    pairs (`pair_first` and `pair_second`, positions among the commands; `pair_weights`), and for factorisations the
    sessions (`row_*`) and `components`. `size` commands make a session, or `idle` seconds of silence end it. With
    `whole_lines` a command is the whole line of a history, not the name of the program alone. ValueError is raised if
    the arrays do not fit each other.
    """
    lengths, n_pairs = arrays["text_lengths"], len(arrays["pair_first"])
    n_counts = len(lengths) + n_pairs + len(arrays["row_commands"])
    # a profile keeps at most PAIRS_KEPT pairs and as many commands; a file may have MAX_COUNTS entries in all
    if max(len(lengths), n_pairs) > PAIRS_KEPT * len(users) or n_counts > MAX_COUNTS:
        raise ValueError("users must not have so many counts")
    if len({user["name"] for user in users}) != len(users):
        raise ValueError("users must have different names")
    n_commands = [user["n_commands"] for user in users]
    n_rows = [0 if user["method"] == "counts" else user["n_rows"] for user in users]
    ranks = [0 if user["method"] == "counts" else user["n_components"] for user in users]
    texts = _split("text", arrays["text"].tobytes(), lengths.tolist())
    commands = _split("text_lengths", [text.decode("utf-8", "surrogatepass") for text in texts], n_commands)
    weights = _split("command_weights", arrays["command_weights"].tolist(), n_commands)
    pairs = _split(
        "pair_first", _rows_of(arrays, "pair_first", "pair_second", "pair_weights"), [user["n_pairs"] for user in users]
    )
    entries = _split("row_commands", _rows_of(arrays, "row_commands", "row_counts"), arrays["row_lengths"].tolist())
    rows = _split("row_weights", list(zip(entries, arrays["row_weights"].tolist(), strict=True)), n_rows)
    sizes = [rank * count for rank, count in zip(ranks, n_commands, strict=True)]
    components = _split("components", arrays["components"], sizes)
    for i, user in enumerate(users):
        profile: Any = SessionScorer(method=user["method"], loss=user["loss"]).new_profile()
        user["profile"] = profile
        _fill(profile, commands[i], weights[i], pairs[i])
        if user["method"] != "counts":
            _add_factors(profile, rows[i], components[i].reshape(ranks[i], n_commands[i]))
    return MasqueradeModel({}, size, idle, whole_lines), users


def _split(name: str, values: Any, lengths: list[int]) -> list[Any]:
    """Return consecutive parts of these lengths; ValueError, with the name, if they are not all of the values."""
    ends = [0, *accumulate(lengths)]
    if ends[-1] != len(values):
        raise ValueError(f"{name} must have {ends[-1]} entries, as many as belong to users; got {len(values)}")
    return [values[start:end] for start, end in pairwise(ends)]


def _rows_of(arrays: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    """Return the entries of some arrays of one length side by side."""
    return list(zip(*(arrays[name].tolist() for name in names), strict=True))


def _fill(profile: Profile, commands: list[str], weights: list[float], pairs: list[tuple[int, int, float]]) -> None:
    """Fill an empty profile with the weights of commands, and of pairs of positions among them."""
    profile.commands = dict(zip(commands, weights, strict=True))
    if len(profile.commands) != len(commands):
        raise ValueError("commands must be different from each other")
    if any(max(first, second) >= len(commands) for first, second, _ in pairs):
        raise ValueError("pairs must be of commands of the same user")
    for first, second, weight in pairs:
        profile.pairs[commands[first], commands[second]] = weight
        profile.context[commands[first]] = profile.context.get(commands[first], 0.0) + weight
    profile.total = sum(profile.commands.values())


def _add_factors(profile: Any, rows: list[tuple[list[tuple[int, int]], float]], components: Any) -> None:
    """Give a profile its sessions, the counts by positions of commands and the weight of each, and their components."""
    if not rows or not len(components):
        raise ValueError("users of a factorisation must have rows and components")
    commands = list(profile.commands)
    if any(place >= len(commands) for counts, _ in rows for place, _ in counts):
        raise ValueError("rows must be of commands of the same user")
    profile.sessions = [(Counter({commands[place]: n for place, n in counts}), weight) for counts, weight in rows]
    profile.components, profile.n_learnt = np.array(components), len(rows)


COST = Number(low=-MAX_NUMBER, high=MAX_NUMBER)
USER = {
    "name": Text(),
    "n_commands": Whole(high=PAIRS_KEPT),
    "n_pairs": Whole(high=PAIRS_KEPT),
    "n_sessions": Whole(),
    "usual_cost": COST,
    "deviation": Number(low=0, high=MAX_NUMBER),
    "threshold": COST,
    "session_length": Number(low=1, high=MAX_NUMBER),
    "previous_score": COST,
    "false_alarm_rate": COST,
    "method": Text(choices.SCORER_METHODS),
    "loss": Text(choices.SCORER_LOSSES),
    "n_rows": Whole(high=SESSIONS_KEPT),
    "n_components": Whole(high=MAX_COMPONENTS),
}

FILE = ModelFile(
    "visionnmf-masquerade",
    version=4,
    title="a masquerade model",
    origin="make one with 'visionnmf masquerade train'",
    smaller="train fewer users a model",
    state=Record(
        {
            "size": Whole(low=1),
            "idle": Maybe(Number(above=0)),
            "whole_lines": Flag(),
            "users": List(Record(USER), empty=True),
            # Commands and pairs of all users, one after the other.
            "text": Array("uint8", "bytes", empty=True),
            "text_lengths": Array("int32", "commands", low=0, empty=True),
            "command_weights": Array("float64", "commands", low=0, high=MAX_WEIGHT, empty=True),
            "pair_first": Array("int32", "pairs", low=0, empty=True),
            "pair_second": Array("int32", "pairs", low=0, empty=True),
            "pair_weights": Array("float64", "pairs", low=0, high=MAX_WEIGHT, empty=True),
            # Sessions and components of all users whose method is a factorisation.
            "row_lengths": Array("int32", "rows", low=1, empty=True),
            "row_weights": Array("float64", "rows", above=0, high=MAX_WEIGHT, empty=True),
            "row_commands": Array("int32", "entries", low=0, empty=True),
            "row_counts": Array("int64", "entries", low=1, empty=True),
            "components": Array("float64", "coefficients", low=0, high=1, empty=True),
        },
        _read,
    ),
)


def save(model: MasqueradeModel | SessionScorer, path: str | Path, *, force: bool = False) -> None:
    """Write a model.

    Parameters
    ----------
    model : MasqueradeModel or SessionScorer
        The model; commands must be strings. A scorer alone is that of the user "user".
    path : str or Path
        The file to write, usually ``*.npz``. It is written completely or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If a command is not a string, or a number is not allowed, such as an infinite threshold.
    MediaError
        If the users have too many commands for one file, or it exists, or cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import load, save
    >>> save(load("users.npz"), "copy.npz", force=True)
    >>> load("copy.npz").size
    20
    """
    if isinstance(model, SessionScorer):
        model = MasqueradeModel({"user": model})
    profiles = {name: scorer.profile_ for name, scorer in model.scorers.items()}
    for name, profile in profiles.items():
        odd = next((command for command in profile.commands if not isinstance(command, str)), None)
        if odd is not None:
            raise ParameterError(f"the commands of {name} must be text to be saved; got {odd!r:.60}")
    if sum(_n_counts(profile) for profile in profiles.values()) > MAX_COUNTS:
        raise TooLargeError(
            f"{path}: the users have more than {MAX_COUNTS} commands and pairs of commands; {FILE.smaller}"
        )
    arrays = [_arrays(profile) for profile in (Profile(), *profiles.values())]  # the empty one, if there are no users
    state = {
        **{name: getattr(model, name) for name in ("size", "idle", "whole_lines")},
        "users": [_user(name, scorer) for name, scorer in model.scorers.items()],
        **{name: np.concatenate([own[name] for own in arrays]) for name in arrays[0]},
    }
    FILE.save(state, path, force=force)


def _n_counts(profile: Profile) -> int:
    """Return how many commands, pairs of commands, and counts of commands in sessions a profile has."""
    return len(profile.commands) + len(profile.pairs) + sum(len(counts) for counts, _ in _sessions(profile))


def _sessions(profile: Profile) -> list[tuple[Counter[Hashable], float]]:
    """Return the counts and weights of the sessions of a FactorProfile, whose module loads the engine; else none."""
    return getattr(profile, "sessions", [])


def _components(profile: Profile) -> NDArray[np.float64]:
    """Return the components (r, n_commands) of all sessions so far of a FactorProfile; else none."""
    return profile.learn() if hasattr(profile, "learn") else np.empty((0, 0))


def _arrays(profile: Profile) -> dict[str, NDArray[Any]]:
    """Return what the arrays of a file hold of one user; commands are positions among the user's."""
    place = {command: i for i, command in enumerate(profile.commands)}
    texts = [str(command).encode("utf-8", "surrogatepass") for command in place]
    rows = _sessions(profile)
    return {
        "text": np.frombuffer(b"".join(texts), np.uint8),
        "text_lengths": np.array([len(text) for text in texts], int),
        "command_weights": np.array([*profile.commands.values()], float),
        "pair_first": np.array([place[first] for first, _ in profile.pairs], int),
        "pair_second": np.array([place[second] for _, second in profile.pairs], int),
        "pair_weights": np.array([*profile.pairs.values()], float),
        "row_lengths": np.array([len(counts) for counts, _ in rows], int),
        "row_weights": np.array([weight for _, weight in rows], float),
        "row_commands": np.array([place[command] for counts, _ in rows for command in counts], int),
        "row_counts": np.array([count for counts, _ in rows for count in counts.values()], int),
        "components": _components(profile).ravel(),
    }


def _user(name: str, scorer: SessionScorer) -> dict[str, Any]:
    """Return the numbers of a user in a file."""
    profile = scorer.profile_
    return {
        "name": name,
        "n_commands": len(profile.commands),
        "n_pairs": len(profile.pairs),
        **{key: getattr(scorer, f"{key}_") for key in NUMBERS},
        "false_alarm_rate": scorer.false_alarm_rate,
        "method": scorer.method,
        "loss": scorer.loss,
        "n_rows": len(_sessions(profile)),
        "n_components": len(_components(profile)),
    }


def load(path: str | Path) -> MasqueradeModel:
    """Read a model. Untrusted files are safe to read.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save` wrote.

    Returns
    -------
    MasqueradeModel
        The model; its scores are those of the model that was saved, up to rounding.

    Raises
    ------
    MediaError
        If the file is missing, damaged, too large, not a masquerade model, or of another version of visionnmf.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import load
    >>> sorted(load("users.npz").scorers)
    ['ada', 'ben']
    """
    model, users = FILE.load(path)  # a model without scorers; the fields of each user in the file, and the profile
    for user in users:  # here, because an error in a parameter is not damage
        scorer = SessionScorer(**{name: user[name] for name in ("false_alarm_rate", "method", "loss")})
        scorer.check_parameters()
        scorer.profile_ = user["profile"]
        scorer.doubtful_ = np.empty(0, np.intp)  # positions of doubtful training sessions, which are not saved
        for name in NUMBERS:  # the attributes that are numbers, such as threshold_
            setattr(scorer, f"{name}_", user[name])
        model.scorers[user["name"]] = scorer
    return model


def load_estimator(path: str | Path, *, user: str | None = None) -> SessionScorer:
    """Read the scorer of a file's only user, or of `user`; see :func:`load`."""
    scorers = load(path).scorers
    if user is None and len(scorers) == 1:
        return next(iter(scorers.values()))
    if user not in scorers:
        raise ParameterError(f"user must be one of {sorted(scorers)!s:.200}; got {shown(user)}")
    return scorers[user]
