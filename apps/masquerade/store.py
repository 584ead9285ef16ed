"""Masquerade models in files: the counts of all users as arrays, each user's numbers in the header."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_number, shown
from visionnmf.exceptions import ParameterError, TooLargeError
from visionnmf.io.archive import Archive, Format

from .profile import PAIRS_KEPT, Profile, as_bytes
from .session_scorer import SessionScorer

__all__ = ["MasqueradeModel", "load", "load_estimator", "save"]

FORMAT = Format(
    "visionnmf-masquerade",
    version=1,
    title="a masquerade model",
    origin="make one with 'visionnmf masquerade train'",
    smaller="train fewer users a model",
    header_bytes=8 << 20,
    unpacked_bytes=32 << 20,
)
MOST_COUNTS = 1_000_000  # commands and pairs of all users: each takes some 150 bytes when loaded
MOST_WEIGHT = 1e12  # beyond any number of sessions, and far from where scores overflow ...
MOST_NUMBER = 1e6  # ... as for costs, deviations and thresholds

# Array: dtype. Commands and pairs of all users one after the other; the header has each user's numbers of them.
ARRAYS = {
    "text": "uint8",
    "text_lengths": "int32",
    "command_weights": "float64",
    "pair_first": "int32",
    "pair_second": "int32",
    "pair_weights": "float64",
}
NUMBERS = ("usual_cost", "deviation", "threshold", "session_length", "previous", "false_alarm_rate")


@dataclass
class MasqueradeModel:
    """The scorers of all users, and how their sessions are cut.

    Attributes
    ----------
    scorers : dict
        User to fitted :class:`SessionScorer`; with hashed commands, users stay in the clear.
    size : int
        Commands a session.
    idle : float or None
        Seconds of silence that end a session, instead of `size`.
    whole_lines : bool
        Whether a symbol is a whole line of the history.
    """

    scorers: dict[str, SessionScorer] = field(default_factory=dict)
    size: int = choices.SESSION_SIZE
    idle: float | None = None
    whole_lines: bool = False


def save(model: MasqueradeModel | SessionScorer, path: str | Path, *, force: bool = False) -> None:
    """Write a model.

    Parameters
    ----------
    model : MasqueradeModel or SessionScorer
        The model; commands must be strings. A scorer alone is that of the user "user".
    path : str or Path
        The file to write, as a rule ``*.npz``; written whole or not at all.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If a command is not a string, or the model has a number that makes no sense, such as an infinite threshold.
    TooLargeError
        If the model has too many users, or they too many commands, for one file.
    OutputExistsError
        If `path` exists and `force` is false.
    MediaError
        If `path` is a folder, or its folder is missing or cannot be written.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import load, save
    >>> save(load("users.npz"), "copy.npz", force=True)
    >>> load("copy.npz").size
    20
    """
    if isinstance(model, SessionScorer):
        model = MasqueradeModel({"user": model})
    users: list[dict[str, Any]] = []
    texts: list[bytes] = []
    weights: list[float] = []
    first: list[int] = []
    second: list[int] = []
    pair_weights: list[float] = []
    for name, scorer in model.scorers.items():
        profile = scorer.profile_
        odd = next((command for command in profile.commands if not isinstance(command, str)), None)
        if odd is not None:
            raise ParameterError(f"the commands of {name} must be text to be saved; got {odd!r:.60}")
        number = {command: i for i, command in enumerate(profile.commands)}
        texts += [as_bytes(str(command)) for command in number]
        weights += profile.commands.values()
        if len(weights) + len(pair_weights) + len(profile.pairs) > MOST_COUNTS:
            raise TooLargeError(
                f"{path}: the users have more than {MOST_COUNTS} commands and pairs of commands; {FORMAT.smaller}"
            )
        first += [number[pair[0]] for pair in profile.pairs]
        second += [number[pair[1]] for pair in profile.pairs]
        pair_weights += profile.pairs.values()
        users.append(_user_header(name, scorer))
        try:
            _check_user(users[-1])
        except ValueError as error:
            raise ParameterError(
                f"the model of {name!r:.60} must make sense to be saved; got one that does not: {error}"
            ) from error
    if model.idle is not None:
        check_number(model.idle, "idle", without_low=True)
    header = {
        "sessions": {"size": model.size, "idle": model.idle, "whole_lines": model.whole_lines},
        "users": users,
    }
    values = {
        "text": np.frombuffer(b"".join(texts), np.uint8),
        "text_lengths": [len(text) for text in texts],
        "command_weights": weights,
        "pair_first": first,
        "pair_second": second,
        "pair_weights": pair_weights,
    }
    FORMAT.write(path, header, {key: np.asarray(values[key], dtype) for key, dtype in ARRAYS.items()}, force=force)


def _user_header(name: str, scorer: SessionScorer) -> dict[str, Any]:
    return {
        "name": name,
        "n_commands": len(scorer.profile_.commands),
        "n_pairs": len(scorer.profile_.pairs),
        "n_sessions": int(scorer.n_sessions_),
        "usual_cost": scorer.usual_cost_,
        "deviation": scorer.deviation_,
        "threshold": scorer.threshold_,
        "session_length": scorer.session_length_,
        "previous": scorer.previous_score_,
        "false_alarm_rate": float(scorer.false_alarm_rate),
        "salt": scorer.salt_.hex(),
        "key_check": _key_check(scorer.key, scorer.salt_) if scorer.key is not None else "",
    }


def _key_check(key: str, salt: bytes) -> str:
    return hashlib.blake2b(FORMAT.name.encode(), digest_size=16, key=as_bytes(key), salt=salt).hexdigest()


def load(path: str | Path, *, key: str | None = None) -> MasqueradeModel:
    """Read a model.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save` wrote.
    key : str or None, default=None
        The key with which the commands were hashed.

    Returns
    -------
    MasqueradeModel
        The model; its scores are those of the model that was saved, up to rounding.

    Raises
    ------
    UnreadableError
        If the file is missing, damaged or no masquerade model.
    UnsupportedError
        If a later version of visionnmf wrote it.
    TooLargeError
        If it would unpack to more than 32 MiB, or its header to more than 8 MiB.
    ParameterError
        If the model needs a key and `key` is another or missing.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import load
    >>> sorted(load("users.npz").scorers)
    ['ada', 'ben']
    """
    with FORMAT.read(path) as archive:
        model = _sessions(archive.header["sessions"])
        parts = _users(archive.header["users"], _arrays(archive))
    # what may be wrong with the key or a parameter is no damage
    for part in parts:
        model.scorers[part.user["name"]] = _scorer(path, part, key)
    return model


def load_estimator(path: str | Path, *, user: str | None = None, key: str | None = None) -> SessionScorer:
    """Read the scorer of a file's only user, or of `user`; see :func:`load`."""
    scorers = load(path, key=key).scorers
    if user is None and len(scorers) == 1:
        return next(iter(scorers.values()))
    if user not in scorers:
        raise ParameterError(f"user must be one of {sorted(scorers)!s:.200}; got {shown(user)}")
    return scorers[user]


class _User(NamedTuple):
    """One user of a file, checked."""

    user: dict[str, Any]
    numbers: dict[str, float]
    salt: bytes
    profile: Profile


def _arrays(archive: Archive) -> dict[str, NDArray[Any]]:
    """Read the arrays, and make sure that each is a list of its dtype."""
    found = {name: archive.array(name) for name in ARRAYS}
    for name, dtype in ARRAYS.items():
        _require(found[name].dtype == dtype and found[name].ndim == 1, name)
    return found


def _sessions(cut: dict[str, Any]) -> MasqueradeModel:
    size, idle = cut["size"], cut["idle"]
    _require(isinstance(size, int) and size >= 1, "size")
    _require(idle is None or (isinstance(idle, int | float) and 0 < idle < math.inf), "idle")
    return MasqueradeModel({}, size, idle, bool(cut["whole_lines"]))


def _users(users: list[dict[str, Any]], arrays: dict[str, NDArray[Any]]) -> list[_User]:
    lengths = arrays["text_lengths"]
    _require(isinstance(users, list), "users")
    _require(max(len(lengths), len(arrays["pair_first"])) <= PAIRS_KEPT * len(users), "counts")
    _require(len(lengths) + len(arrays["pair_first"]) <= MOST_COUNTS, "counts")
    _require(bool((lengths >= 0).all()) and lengths.sum() == len(arrays["text"]), "text lengths")
    for name in ("command_weights", "pair_weights"):
        _require(bool(((arrays[name] >= 0) & (arrays[name] <= MOST_WEIGHT)).all()), name)
    _require(len(lengths) == len(arrays["command_weights"]), "number of commands")
    _require(len({len(arrays[f"pair_{name}"]) for name in ("first", "second", "weights")}) == 1, "number of pairs")
    data = arrays["text"].tobytes()
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    commands = [data[ends[i] : ends[i + 1]].decode("utf-8", "surrogatepass") for i in range(len(lengths))]
    found: list[_User] = []
    command, pair = 0, 0
    for user in users:
        n_commands, n_pairs = user["n_commands"], user["n_pairs"]
        _require(all(isinstance(n, int) and 0 <= n <= PAIRS_KEPT for n in (n_commands, n_pairs)), "counts")
        own = slice(pair, pair + n_pairs)
        profile = _profile(
            commands[command : command + n_commands],
            arrays["command_weights"][command : command + n_commands],
            *(arrays[f"pair_{part}"][own] for part in ("first", "second", "weights")),
        )
        command, pair = command + n_commands, pair + n_pairs
        _require(isinstance(user["name"], str) and isinstance(user["key_check"], str), "users")
        salt = bytes.fromhex(user["salt"])
        _require(len(salt) in (0, 16), "salt")
        found.append(_User(user, _check_user(user), salt, profile))
    _require(len({part.user["name"] for part in found}) == len(users), "users")
    _require(command == len(commands) and pair == len(arrays["pair_first"]), "counts")
    return found


def _profile(
    commands: list[str],
    weights: NDArray[np.float64],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    pair_weights: NDArray[np.float64],
) -> Profile:
    profile = Profile(dict(zip(commands, weights.tolist(), strict=True)))
    _require(len(profile.commands) == len(commands), "commands")
    if len(first):
        _require(0 <= min(first.min(), second.min()) and max(first.max(), second.max()) < len(commands), "pairs")
    for a, b, weight in zip(first.tolist(), second.tolist(), pair_weights.tolist(), strict=True):
        profile.pairs[commands[a], commands[b]] = weight
        profile.context[commands[a]] = profile.context.get(commands[a], 0.0) + weight
    profile.total = sum(profile.commands.values())
    return profile


def _scorer(path: str | Path, part: _User, key: str | None) -> SessionScorer:
    user, numbers, salt, profile = part
    needs_key = bool(user["key_check"])
    if needs_key and (key is None or _key_check(key, salt) != user["key_check"]):
        which = "another key" if key is not None else "none"
        raise ParameterError(
            f"key must be that of the training, with which the commands of {path} are hashed; got {which}"
        )
    scorer = SessionScorer(
        false_alarm_rate=numbers["false_alarm_rate"], hash_commands=bool(salt), key=key if needs_key else None
    )
    scorer.check_parameters()
    scorer.profile_, scorer.salt_, scorer.doubtful_ = profile, salt, np.empty(0, np.intp)
    scorer.usual_cost_, scorer.deviation_ = numbers["usual_cost"], numbers["deviation"]
    scorer.threshold_, scorer.session_length_ = numbers["threshold"], numbers["session_length"]
    scorer.previous_score_, scorer.n_sessions_ = numbers["previous"], user["n_sessions"]
    return scorer


def _check_user(user: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a user's header, or raise ValueError where scores could not be computed from them."""
    numbers = {name: float(user[name]) for name in NUMBERS}
    for name, number in numbers.items():
        _require(abs(number) <= MOST_NUMBER, name)  # nor nan
    _require(numbers["deviation"] >= 0, "deviation")
    _require(numbers["session_length"] >= 1, "session_length")
    _require(isinstance(user["n_sessions"], int) and 0 <= user["n_sessions"] < 1 << 53, "n_sessions")
    return numbers


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} cannot be")
