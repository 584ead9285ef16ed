"""What is done to sound files: with regard to their structure, and without."""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np

ODD = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**64 - 1,
)

LARGEST = 8 << 20  # bytes of a file that is not mutated any more


def mutate(data: bytes, name: str, others: list[bytes], random: Random) -> bytes:
    """Change a file in one to four ways; `others` are files of its kind, from which pieces are taken."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if len(data) > LARGEST:
            break
        own = STRUCTURES.get(name.rsplit(".", 1)[-1])
        change = own if own is not None and random.random() < 0.6 else random.choice(ANYWHERE)
        with suppress(Exception):  # the mutation before may have left nothing of the structure
            data = change(data, random) if change is not _splice else _splice(data, random, others)
    return data


# --- anywhere ---------------------------------------------------------------------------------------------------------


def _flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 3, 20))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _number(data: bytes, random: Random) -> bytes:
    size, order = random.choice((1, 2, 4, 8)), random.choice("<>")
    value = random.choice(ODD) % (1 << 8 * size)
    near_start = len(data) if random.random() < 0.5 else min(len(data), 200)
    at = random.randrange(max(1, near_start - size))
    return data[:at] + struct.pack(order + {1: "B", 2: "H", 4: "I", 8: "Q"}[size], value) + data[at + size :]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def _drop(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    return data[:start] + data[start + random.choice((1, 4, 100)) :]


def _repeat(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    piece = data[start : start + random.choice((1, 16, 300))]
    return data[:start] + piece * random.choice((2, 50, 2000)) + data[start:]


def _splice(data: bytes, random: Random, others: list[bytes]) -> bytes:
    other = random.choice(others)
    return data[: random.randrange(len(data))] + other[random.randrange(len(other)) :]


ANYWHERE: list[Callable[..., bytes]] = [_flip, _number, _cut, _drop, _repeat, _splice]


# --- by structure -----------------------------------------------------------------------------------------------------


def _zip(data: bytes, random: Random) -> bytes:
    """Change a member of an archive of arrays: its header, its numbers, its compression; or the JSON of a model."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    name = random.choice(list(parts))
    action = random.randrange(6)
    if "header.npy" in parts and action < 3:
        name, action = "header.npy", 9
        array = np.load(io.BytesIO(parts[name]))
        text = json.dumps(_leaf(json.loads(array.tobytes()), random)).encode()
        parts[name] = _npy_bytes(np.frombuffer(text, np.uint8))
    elif action == 1:
        parts[name] = _npy(parts[name], random)
    elif action == 2:
        array = np.load(io.BytesIO(parts[name])).copy()
        flat = array.reshape(-1)
        with np.errstate(over="ignore"):  # 1e300 in single precision
            flat[random.randrange(len(flat))] = (
                random.choice((0, -1, 1e300, np.nan, np.inf)) if array.dtype.kind == "f" else 99
            )
        parts[name] = _npy_bytes(array)
    elif action == 3:
        parts[name] = _npy_bytes(np.zeros(random.choice((0, *[10**6] * 8, 2 * 10**7)), random.choice(("u1", "f8"))))
    elif action == 4:
        del parts[name]
    else:
        parts |= {f"{k}.npy": b"" for k in range(random.choice((*[1] * 12, *[100] * 12, 40_000)))}
    buffer = io.BytesIO()
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return buffer.getvalue()


def _npy_bytes(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _npy(data: bytes, random: Random) -> bytes:
    """Let the header of an array say another shape or dtype."""
    buffer = io.BytesIO(data)
    np.lib.format.read_magic(buffer)
    shape, order, dtype = np.lib.format.read_array_header_1_0(buffer)
    shape = tuple(random.choice((*ODD, -1)) if random.random() < 0.5 else size for size in shape) or (3,)
    descr = random.choice((dtype.str, "|O", "<U5", "<c16", "<M8[s]", "<f2", "|V9", "|S0"))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"shape": shape, "fortran_order": not order, "descr": descr})
    return header.getvalue() + data[buffer.tell() :]


VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        10**30,
        1e308,
        "",
        "evil",
        [],
        {},
        [[]] * 50,
        "array",
        "inf",
        {"array": None},
        {"float": "nan"},
    ),
    *({"tuple": [1, 2]}, {"slice": [None, None, 0]}, {"object": ["NMF", {"dict": [[], []]}]}, {"strings": ["a"] * 9}),
)


def _leaf(value: Any, random: Random) -> Any:
    """Put something else in the place of a random leaf of a JSON document, or of a branch."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.1:
        return random.choice(VALUES)
    key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
    if isinstance(value, dict) and random.random() < 0.1:
        return {k: v for k, v in value.items() if k != key} | {random.choice(("x", key)): value[key]}
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = _leaf(value[key], random)
    return changed


def _boxes(data: bytes, random: Random) -> bytes:
    """Change a size, a count or a rate behind a four-letter name of a video's container."""
    names = [b"moov", b"trak", b"stsz", b"stco", b"stts", b"stsc", b"mdhd", b"tkhd", b"avcC", b"avih", b"strh", b"strf"]
    places = [data.find(name) for name in (*names, b"idx1", b"movi", b"LIST", b"mvhd", b"stsd")]
    at = random.choice([place for place in places if place >= 0]) + random.choice((-4, 4, 8, 12, 16, 20, 24, 28, 36))
    value = random.choice(ODD[:14]) % 2**32
    return data[:at] + struct.pack(random.choice("<>") + "I", value) + data[at + 4 :]


def _text(data: bytes, random: Random) -> bytes:
    """Repeat a line, make one long, or put bytes in that are no text."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    odd = (
        b"\0",
        b"\xff\xfe",
        b"\xf0\x9f\x92\xa9",
        b"\x1b[2J",
        b'"',
        b"'",
        b"<<EOF",
        b"$(",
        b"|" * 5000,
        b"9" * 400,
        b"nan",
        b"#",
    )
    line, bad = lines[at], random.choice(odd)
    lines[at : at + 1] = random.choice(([line[:3000]] * 3000, [line[:300] * 20_000], [line + bad], [bad + line]))
    return b"\n".join(lines)


STRUCTURES: dict[str, Callable[[bytes, Random], bytes]] = {
    "npz": _zip,
    "npy": _npy,
    **dict.fromkeys(("mp4", "mkv", "avi"), _boxes),
    **dict.fromkeys(("log", "csv"), _text),
}
