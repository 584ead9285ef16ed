"""The versions of the libraries that are used: for ``--version``, and for faults of a version that was not tried."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from visionnmf import __version__


class Tried(NamedTuple):
    """A package, and the oldest and the newest version with which every command was tried."""

    package: str
    oldest: str
    newest: str


# By the name that is imported. A test compares the oldest with pyproject.toml; `make test-versions` names newer ones.
TRIED = {
    "numpy": Tried("numpy", "2.0", "2.5.5"),
    "scipy": Tried("scipy", "1.13", "1.18.1"),
    "numba": Tried("numba", "0.61", "0.68.1"),
    "sklearn": Tried("scikit-learn", "1.6", "1.9.1"),
    "skimage": Tried("scikit-image", "0.24", "0.26.0"),
    "cv2": Tried("opencv-python-headless", "4.11.0.86", "5.0.0.93"),
    "av": Tried("av", "18", "19.0.2"),
    "PIL": Tried("pillow", "10.1", "13.0.0"),
    "tifffile": Tried("tifffile", "2024.5.22", "2026.11.8"),
    "typer": Tried("typer", "0.29", "0.29.2"),
}
SHOWN = ("numpy", "scipy", "scikit-learn", "numba", "opencv-python-headless", "av")


def versions() -> str:
    """Return the versions of visionnmf, Python and the libraries that results depend on, in one line."""
    libraries = ", ".join(f"{name} {installed(name) or 'missing'}" for name in SHOWN)
    return f"visionnmf {__version__} (Python {platform.python_version()}, {libraries})"


def untried() -> str:
    """Return which installed libraries are older or newer than any that was tried, in words; empty if none is."""
    found = []
    for package, oldest, newest in TRIED.values():
        present = installed(package)
        if present is None:
            continue
        what = "older" if _release(present) < _release(oldest) else ""
        if _release(present)[:2] > _release(newest)[:2]:  # bugs are mended in between
            what = "newer"
        if what:
            found.append(f"{package} {present} is {what} than any tried ({oldest} to {newest})")
    return "; ".join(found)


def _release(number: str) -> tuple[int, ...]:
    """Return the numbers of a version, which compare as versions do."""
    from packaging.version import Version

    return Version(number).release


def installed(package: str) -> str | None:
    """Return the version of an installed package, None if it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
