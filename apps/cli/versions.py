"""The versions of the libraries that are used: for ``--version``, and for faults of a version that was not tried."""

from __future__ import annotations

import ast
import linecache
import platform
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from visionnmf import __version__

__all__ = ["TRIED", "fault_of_a_library", "versions"]


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

# What Python raises where a function, an argument or a name is not there.
_MISSING = (TypeError, AttributeError, ImportError)


def versions() -> str:
    """Return the versions of visionnmf, Python and the libraries that results depend on, in one line."""
    installed = ", ".join(f"{name} {_installed(name) or 'missing'}" for name in SHOWN)
    return f"visionnmf {__version__} (Python {platform.python_version()}, {installed})"


def fault_of_a_library(error: BaseException) -> str | None:
    """Return which library may have caused an error by its version, and which versions work; None if none may.

    That is one older than what is declared, or a newer release than was tried, of the library that the error names.
    """
    called = _library_of(error)
    for module, (package, oldest, newest) in TRIED.items():
        installed = _installed(package)
        if installed is None:
            continue
        what = None
        if _release(installed) < _release(oldest):
            what = "older"
        elif module == called and _release(installed)[:2] > _release(newest)[:2]:  # bugs are mended in between
            what = "newer"
        if what:
            return f"{package} {installed} is {what} than any tried ({oldest} to {newest}), which may be the cause"
    return None


def _release(number: str) -> tuple[int, ...]:
    """Return the numbers of a version, which compare as versions do."""
    from packaging.version import Version

    return Version(number).release


def _installed(package: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _library_of(error: BaseException) -> str | None:
    """Return the module of `TRIED` that defines an error, or in which something was missing; None if there is none."""
    names: list[Any] = [type(error).__module__]
    if isinstance(error, ImportError):
        names.append(error.name)
    if isinstance(error, _MISSING):
        names.append(_owner(getattr(error, "obj", None)))
        frames, traceback = [], error.__traceback__
        while traceback is not None:
            frames.append((traceback.tb_frame, traceback.tb_lasti))
            traceback = traceback.tb_next
        for frame, instruction in reversed(frames):
            here = frame.f_globals.get("__name__") or frame.f_code.co_filename.replace("/", ".")  # compiled: av/x.py
            names += [here, _called(frame, instruction)]
            if here.startswith("visionnmf"):  # what lies further out has called us
                break
    roots = (str(name).partition(".")[0] for name in names)
    return next((root for root in roots if root in TRIED), None)


def _owner(value: Any) -> str | None:
    """Return the name of the module that a value is or comes from."""
    if isinstance(value, ModuleType):
        return value.__name__
    return getattr(value, "__module__", None) or type(value).__module__


def _called(frame: FrameType, instruction: int) -> str | None:
    """Return the name of the module whose function a frame was calling, because C functions leave no frame."""
    line, end_line, column, end_column = next(islice(frame.f_code.co_positions(), instruction // 2, None))
    if line is None or end_line is None or column is None or end_column is None:
        return None
    # columns count bytes of the line
    lines = [linecache.getline(frame.f_code.co_filename, number).encode() for number in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        expression: Any = ast.parse(b"".join(lines).strip(), mode="eval").body
    except SyntaxError:
        return None
    while isinstance(expression, ast.Call | ast.Attribute | ast.Subscript):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    if not isinstance(expression, ast.Name):
        return None
    return _owner(frame.f_locals.get(expression.id, frame.f_globals.get(expression.id)))
