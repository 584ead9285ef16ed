"""How results were made, written into them: the input with its digest, and the settings that are not the default."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, TypeVar

import visionnmf
from visionnmf._pixel_range import declared_bits
from visionnmf.exceptions import VisionNMFError
from visionnmf.io.inputs import pictures_of, stem_of
from visionnmf.io.outputs import record_of, recording

from .settings import options_of

F = TypeVar("F", bound=Callable[..., Any])

PIECE = 32 << 20  # bytes at the beginning and at the end of an input, or of its files together, for its digest
LABELS, SCRIBBLES = "_labels.png", "_scribbles.png"  # how names of what a person may have drawn end
NOT_SETTINGS = ("force", "out", "progress", "n_jobs")  # what does not change a result


def traceable(function: F) -> F:
    """Let the results of ``function(source, **settings)`` say how they were made; see :func:`.recording`."""

    @functools.wraps(function)
    def call(source: Any, **arguments: Any) -> Any:
        with recording(**made_of(source, arguments)):
            return function(source, **arguments)

    return call  # type: ignore[return-value]


def changed(record: Any) -> dict[str, Any]:
    """Return the fields of a record that are not the default."""
    fields = ((field, getattr(record, field.name)) for field in options_of(type(record)))
    return {field.name: value for field, value in fields if value != field.default}


def made_of(source: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return how results of an input are made, with the arguments, and fields of records, that are not the default."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if options_of(type(value)):
            found |= changed(value)
        elif value is not None:
            found[name] = value
    kept = {name: value for name, value in found.items() if name not in NOT_SETTINGS}
    settings = {name: _described(value) if isinstance(value, Path) else value for name, value in kept.items()}
    if (bits := declared_bits()) is not None:
        settings["bits"] = bits
    return {"version": visionnmf.__version__, "input": _described(source), "settings": settings}


def without_results(files: Sequence[str]) -> list[str]:
    """Return files without those that are results, or were drawn, of others in the same folder."""
    stems = {os.path.splitext(file)[0] for file in files}
    return [file for file in files if not _is_made_beside(file, stems)]


def _is_made_beside(file: str, stems: Container[str]) -> bool:
    """Return whether a file is a result of one of these paths, which have no suffix, or was drawn for it."""
    stem = os.path.splitext(file)[0]
    while "_" in os.path.basename(stem):  # names of results begin with that of their input
        stem = stem.rpartition("_")[0]
        if stem in stems:
            made = str((record_of(file) or {}).get("input"))
            name = os.path.basename(stem)
            return file.lower().endswith((LABELS, SCRIBBLES)) or made == name or made.startswith(f"{name} ")
    return False


def _described(source: Any) -> str:
    """Return the name of an input, with a digest of its content where it is a file, or pictures."""
    name = str(source)
    digest = hashlib.blake2b(digest_size=8)
    try:
        files = pictures_of(name) or [name]
        piece = PIECE // len(files)
        for file in files:
            size = os.path.getsize(file)
            digest.update(f"{size} {os.path.basename(file)}".encode("utf-8", "surrogateescape"))
            with open(file, "rb") as content:
                digest.update(content.read(piece))
                content.seek(max(content.tell(), size - piece))
                digest.update(content.read(piece))
    except (OSError, ValueError, VisionNMFError):  # no file, such as a sample or an address
        return stem_of(name)
    return f"{stem_of(name)} {digest.hexdigest()}"
