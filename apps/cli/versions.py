"""The versions of the libraries that are used: for ``--version``, and for faults of a version that was not tried."""

from __future__ import annotations

import ast
import linecache
import platform
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import islice
from types import FrameType, ModuleType
from typing import Any

from visionnmf import __version__

__all__ = ["fault_of_a_library", "versions"]

# By the name that is imported: the package, and the newest version with which all tests have passed. The oldest stands
# in pyproject.toml. `make test-versions` says which numbers here are out of date.
NEWEST = {
    "numpy": ("numpy", "2.5.5"),
    "scipy": ("scipy", "1.18.1"),
    "numba": ("numba", "0.68.1"),
    "sklearn": ("scikit-learn", "1.9.1"),
    "skimage": ("scikit-image", "0.26.0"),
    "cv2": ("opencv-python-headless", "5.0.0.93"),
    "av": ("av", "19.0.2"),
    "PIL": ("pillow", "13.0.0"),
    "tifffile": ("tifffile", "2026.11.8"),
    "typer": ("typer", "0.29.2"),
}
SHOWN = ("numpy", "scipy", "scikit-learn", "numba", "opencv-python-headless", "av")

# What Python raises where a function, an argument or a name is not there.
_MISSING = (TypeError, AttributeError, ImportError)


def versions() -> str:
    """Return the versions of visionnmf, Python and the libraries that results depend on, in one line."""
    installed = ", ".join(f"{name} {_installed(name) or 'missing'}" for name in SHOWN)
    return f"visionnmf {__version__} (Python {platform.python_version()}, {installed})"


def fault_of_a_library(error: BaseException) -> str | None:
    """Return which library an error comes from and which versions work; None if its version is one of these."""
    called = _library_of(error) if isinstance(error, _MISSING) else None
    for module in [called] if called else NEWEST:
        package, newest = NEWEST[module]
        installed, oldest = _installed(package), _oldest(package)
        if installed is None or oldest is None:
            continue
        too_new = called is not None and _parsed(installed) > _parsed(newest)
        if too_new or _parsed(installed) < _parsed(oldest):
            return f"{package} {installed} is installed, and {oldest} to {newest} were tried: install one of these"
    return None


def _parsed(number: str) -> Any:
    """Return a version that compares as versions do."""
    from packaging.version import Version

    return Version(number)


def _installed(package: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _oldest(package: str) -> str | None:
    """Return the lower bound that visionnmf declares for a package; None if visionnmf is not installed."""
    from packaging.requirements import Requirement

    try:
        declared = [Requirement(line) for line in requires("visionnmf") or []]
    except PackageNotFoundError:
        return None
    bounds = [each.specifier for each in declared if each.name == package and each.marker is None]
    return next((bound.version for bound in bounds[0] if bound.operator == ">="), None) if bounds else None


def _library_of(error: BaseException) -> str | None:
    """Return the module of `NEWEST` in which an error arose, or which was called there; None if it is our own fault."""
    names: list[Any] = [getattr(error, "name", None), _owner(getattr(error, "obj", None))]
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lasti))
        traceback = traceback.tb_next
    for frame, instruction in reversed(frames):
        here = frame.f_globals.get("__name__", "")
        names += [here, _called(frame, instruction)]
        if here.startswith("visionnmf"):  # what lies further out has called us
            break
    roots = (str(name).partition(".")[0] for name in names)
    return next((root for root in roots if root in NEWEST), None)


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
