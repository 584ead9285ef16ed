"""Files of masquerade models: the counts of all users in common arrays, and the numbers of each user."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import shown
from visionnmf.exceptions import ParameterError, TooLargeError
from visionnmf.io.model_file import ModelFile
from visionnmf.io.model_state import Array, Flag, List, Maybe, Number, Record, Text, Whole

from .profile import PAIRS_KEPT, SESSIONS_KEPT, Profile, as_bytes
from .session_scorer import SessionScorer

MAX_COUNTS = 1_000_000  # commands and pairs of all users: each takes some 150 bytes when loaded
MAX_WEIGHT = 1e12  # beyond any number of sessions, and far from where scores overflow ...
MAX_COMPONENTS = 100  # of a factorisation
MAX_NUMBER = 1e6  # ... like this for costs, deviations and thresholds
NUMBERS = ("n_sessions", "usual_cost", "deviation", "threshold", "session_length", "previous_score")


@dataclass
class MasqueradeModel:
    """The scorers of all users, and how their sessions are cut.

    `scorers` maps users, who stay in the clear if commands are hashed, to fitted :class:`SessionScorer`. A session has
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
    sessions (`row_*`) and `components`. ValueError is raised if they do not fit each other.
    """
    lengths, n_pairs = arrays["text_lengths"], len(arrays["pair_first"])
    n_counts = len(lengths) + n_pairs + len(arrays["row_commands"])
    if max(len(lengths), n_pairs) > PAIRS_KEPT * len(users) or n_counts > MAX_COUNTS:
        raise ValueError("users must not have so many counts")
    if lengths.sum() != len(arrays["text"]):
        raise ValueError("text_lengths must be those of the commands")
    if sum(user["n_commands"] for user in users) != len(lengths) or sum(user["n_pairs"] for user in users) != n_pairs:
        raise ValueError("users must have all counts")
    if len({user["name"] for user in users}) != len(users):
        raise ValueError("users must have different names")
    factors = _factors(users, arrays)  # an item for each user of a factorisation, in the order of the users
    data, ends = arrays["text"].tobytes(), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    commands = [data[ends[i] : ends[i + 1]].decode("utf-8", "surrogatepass") for i in range(len(lengths))]
    command, pair = 0, 0  # where the next user's commands and pairs begin
    for user in users:
        own, paired = slice(command, command + user["n_commands"]), slice(pair, pair + user["n_pairs"])
        pairs = (arrays[f"pair_{part}"][paired] for part in ("first", "second", "weights"))
        profile = SessionScorer(method=user["method"], loss=user["loss"]).new_profile()
        _fill(profile, commands[own], arrays["command_weights"][own], *pairs)
        if user["method"] != "counts":
            _add_factors(profile, *next(factors))
        user["profile"] = profile
        command, pair = own.stop, paired.stop
        user["salt"] = bytes.fromhex(user["salt"])
        if len(user["salt"]) not in (0, 16):
            raise ValueError("salt must have 16 bytes")
    return MasqueradeModel({}, size, idle, whole_lines), users


def _fill(
    profile: Profile,
    commands: list[str],
    weights: NDArray[np.float64],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    pair_weights: NDArray[np.float64],
) -> None:
    """Fill an empty profile with weights, in sessions, of commands and of pairs, given by positions of commands."""
    # Pair `i` is of the commands at `first[i]` and `second[i]`, one right after the other. `context` is the sum of the
    # weights of all pairs that begin with a command, and `total` that of all commands.
    profile.commands = dict(zip(commands, weights.tolist(), strict=True))
    if len(profile.commands) != len(commands):
        raise ValueError("commands must be different from each other")
    if len(first) and max(first.max(), second.max()) >= len(commands):
        raise ValueError("pairs must be of commands of the same user")
    for a, b, weight in zip(first.tolist(), second.tolist(), pair_weights.tolist(), strict=True):
        profile.pairs[commands[a], commands[b]] = weight
        profile.context[commands[a]] = profile.context.get(commands[a], 0.0) + weight
    profile.total = sum(profile.commands.values())


def _factors(users: list[dict[str, Any]], arrays: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield each user's rows of a factorisation (lengths, weights, commands, counts) and components.

    A row is a session: its number of different commands, its weight in the fit, and for each command its position and
    count. The arrays hold the rows of all users one after the other; `n_rows` says how many are a user's.
    """
    factored = [user for user in users if user["method"] != "counts"]
    if any(user["n_rows"] < 1 or user["n_components"] < 1 for user in factored):
        raise ValueError("users of a factorisation must have rows and components")
    # where the rows, entries and coefficients of each user begin in the arrays, and where the last ones end
    rows = np.cumsum([0, *(user["n_rows"] for user in factored)])
    entries = np.concatenate([[0], np.cumsum(arrays["row_lengths"], dtype=np.int64)])
    sizes = [user["n_components"] * user["n_commands"] for user in factored]
    ends = np.cumsum([0, *sizes])
    if (rows[-1], entries[-1], ends[-1]) != tuple(
        len(arrays[a]) for a in ("row_lengths", "row_commands", "components")
    ):
        raise ValueError("users must have all rows and components")
    for i, user in enumerate(factored):
        own, at = slice(rows[i], rows[i + 1]), slice(entries[rows[i]], entries[rows[i + 1]])
        components = arrays["components"][ends[i] : ends[i + 1]].reshape(user["n_components"], user["n_commands"])
        lengths, weights = arrays["row_lengths"][own], arrays["row_weights"][own]
        yield lengths, weights, arrays["row_commands"][at], arrays["row_counts"][at], components


def _add_factors(profile: Any, lengths: Any, weights: Any, places: Any, counts: Any, components: Any) -> None:
    """Give a profile its sessions: lengths and weights one a session; places and counts one a command of each."""
    # `places` are positions among the profile's commands. `components` (n_components, n_commands) know all of these
    # sessions already.
    commands = list(profile.commands)
    if len(places) and places.max() >= len(commands):
        raise ValueError("rows must be of commands of the same user")
    # one iterator over the entries of all sessions, from which each session takes as many as it is long
    entry = zip((commands[place] for place in places.tolist()), counts.tolist(), strict=True)
    profile.sessions = [
        (Counter(dict(islice(entry, length))), weight)
        for length, weight in zip(lengths.tolist(), weights.tolist(), strict=True)
    ]
    profile.components, profile.n_learnt = np.array(components), len(profile.sessions)


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
    "salt": Text(),  # hexadecimal
    "key_check": Text(),
}

FILE = ModelFile(
    "visionnmf-masquerade",
    version=3,
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
    users: list[dict[str, Any]] = []
    texts: list[bytes] = []  # commands of all users, one user after the other, as in all lists below
    weights: list[float] = []  # of commands, in sessions
    pairs: list[tuple[int, int, float]] = []  # the user's numbers of two commands, and the weight of the pair
    rows: list[tuple[Counter[Hashable], float]] = []  # counts and weights of sessions, for factorisations
    entries: list[tuple[int, int]] = []  # commands and counts of all rows
    components: list[NDArray[np.float64]] = []
    for name, scorer in model.scorers.items():
        profile = scorer.profile_
        odd = next((command for command in profile.commands if not isinstance(command, str)), None)
        if odd is not None:
            raise ParameterError(f"the commands of {name} must be text to be saved; got {odd!r:.60}")
        number = {command: i for i, command in enumerate(profile.commands)}
        texts += [as_bytes(str(command)) for command in number]
        weights += profile.commands.values()
        factors: Any = None if scorer.method == "counts" else profile  # a FactorProfile
        own = [] if factors is None else factors.sessions
        entries += [(number[command], count) for counts, _ in own for command, count in counts.items()]
        if len(weights) + len(pairs) + len(profile.pairs) + len(entries) > MAX_COUNTS:
            raise TooLargeError(
                f"{path}: the users have more than {MAX_COUNTS} commands and pairs of commands; {FILE.smaller}"
            )
        pairs += [(number[first], number[second], weight) for (first, second), weight in profile.pairs.items()]
        rows += own
        components += [] if factors is None else [factors.learn()]
        users.append(
            {
                "name": name,
                "n_commands": len(profile.commands),
                "n_pairs": len(profile.pairs),
                **{key: getattr(scorer, f"{key}_") for key in NUMBERS},
                "false_alarm_rate": scorer.false_alarm_rate,
                "method": scorer.method,
                "loss": scorer.loss,
                "n_rows": len(own),
                "n_components": 0 if factors is None else len(components[-1]),
                "salt": scorer.salt_.hex(),
                # Of a key only a check value is stored.
                "key_check": _key_check(scorer.key, scorer.salt_) if scorer.key is not None else "",
            }
        )
    first, second, pair_weights = zip(*pairs, strict=True) if pairs else ((), (), ())
    state = {
        **{name: getattr(model, name) for name in ("size", "idle", "whole_lines")},
        "users": users,
        "text": np.frombuffer(b"".join(texts), np.uint8),
        "text_lengths": np.array([len(text) for text in texts], np.int32),
        "command_weights": np.array(weights, float),
        "pair_first": np.array(first, np.int32),
        "pair_second": np.array(second, np.int32),
        "pair_weights": np.array(pair_weights, float),
        "row_lengths": np.array([len(counts) for counts, _ in rows], np.int32),
        "row_weights": np.array([weight for _, weight in rows], float),
        "row_commands": np.array([command for command, _ in entries], np.int32),
        "row_counts": np.array([count for _, count in entries], np.int64),
        "components": np.concatenate([*(part.ravel() for part in components), np.empty(0)]),
    }
    FILE.save(state, path, force=force)


def _key_check(key: str, salt: bytes) -> str:
    """Return a salted hash by which a key can be recognised later, but from which it cannot be computed."""
    return hashlib.blake2b(FILE.name.encode(), digest_size=16, key=as_bytes(key), salt=salt).hexdigest()


def load(path: str | Path, *, key: str | None = None) -> MasqueradeModel:
    """Read a model. Untrusted files are safe to read.

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
    MediaError
        If the file is missing, damaged, too large, not a masquerade model, or of another version of visionnmf.
    ParameterError
        If the model needs a key and `key` is another or missing.

    Examples
    --------
    >>> from visionnmf.apps.masquerade import load
    >>> sorted(load("users.npz").scorers)
    ['ada', 'ben']
    """
    model, users = FILE.load(path)  # a model without scorers; the fields of each user in the file, and the profile
    for user in users:  # here, because an error in the key or in a parameter is not damage
        needs_key, salt = bool(user["key_check"]), user["salt"]
        if needs_key and (key is None or _key_check(key, salt) != user["key_check"]):
            which = "another key" if key is not None else "none"
            raise ParameterError(
                f"key must be that of the training, with which the commands of {path} are hashed; got {which}"
            )
        scorer = SessionScorer(
            **{name: user[name] for name in ("false_alarm_rate", "method", "loss")},
            hash_commands=bool(salt),
            key=key if needs_key else None,
        )
        scorer.check_parameters()
        scorer.profile_, scorer.salt_, scorer.doubtful_ = user["profile"], salt, np.empty(0, np.intp)
        for name in NUMBERS:
            setattr(scorer, f"{name}_", user[name])
        model.scorers[user["name"]] = scorer
    return model


def load_estimator(path: str | Path, *, user: str | None = None, key: str | None = None) -> SessionScorer:
    """Read the scorer of a file's only user, or of `user`; see :func:`load`."""
    scorers = load(path, key=key).scorers
    if user is None and len(scorers) == 1:
        return next(iter(scorers.values()))
    if user not in scorers:
        raise ParameterError(f"user must be one of {sorted(scorers)!s:.200}; got {shown(user)}")
    return scorers[user]
