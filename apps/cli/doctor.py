"""``visionnmf doctor``."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

from visionnmf.exceptions import installed_by

from .run import running
from .versions import TRIED, installed, untried

READ = ("h264", "hevc", "vp9", "av1", "mpeg4", "mpeg2video", "mjpeg", "ffv1")  # what videos are usually coded with
WRITTEN = ("libx264", "libvpx-vp9", "ffv1")  # encoders of `background`
USERS = ("plots", "report", "heif", "parquet", "dask", "gpu", "napari")  # extras; the others are for developing

Finding = tuple[Any, str]  # for programs, and in words


def command() -> None:
    """Report what visionnmf finds on this machine: paste it into a report of a fault.

    There is a line each for versions, libraries, video codecs, BLAS, threads, the folder of compiled kernels and the
    optional extras. Exit code 1: a library that is needed is missing, too old or broken.
    """
    from visionnmf.apps.report import Report

    with running() as run:
        unmet, extras = _requirements()
        figures, lines = dict[str, Any](), list[str]()
        for name, look in SECTIONS.items():
            try:
                figures[name.lower()], words = look()
            except (ImportError, OSError) as error:  # of a library that is installed but does not load
                unmet.append(f"{name}: {error}")
            else:
                lines.append(f"{name}: {words}")
        figures["extras"] = {name: {package: installed(package) for package in extras[name]} for name in extras}
        lines += [f"{name}: {_extra(name, found)}" for name, found in figures["extras"].items()]
        run.show(Report(figures=figures, lines=lines, notes=[note] if (note := untried()) else []))
        for sentence in unmet:
            run.fail(sentence)


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return a sentence for each requirement that is not met, and the packages of each extra."""
    from packaging.requirements import Requirement

    try:
        declared = [Requirement(line) for line in metadata("visionnmf").get_all("Requires-Dist") or []]
    except PackageNotFoundError:  # run from a checkout
        return [], {}
    unmet = []
    extras: dict[str, list[str]] = {name: [] for name in USERS}
    for each in declared:
        if each.marker is None:
            if (present := installed(each.name)) is None or not each.specifier.contains(present, prereleases=True):
                unmet.append(f"{each} is needed; got {present or 'none'}; `sh setup.sh` installs it")
            continue
        for name in USERS:
            if each.marker.evaluate({"extra": name}):
                extras[name].append(each.name)
    return unmet, extras


def _versions() -> Finding:
    """Return the versions of visionnmf, Python and the system."""
    from visionnmf import __version__

    found = {"visionnmf": __version__, "python": platform.python_version(), "system": platform.platform()}
    return found, f"visionnmf {__version__}, Python {found['python']}, {found['system']}"


def _libraries() -> Finding:
    """Return the versions of the libraries that are used."""
    found = {package: installed(package) for package, _, _ in TRIED.values()}
    return found, ", ".join(f"{name} {number or 'missing'}" for name, number in found.items())


def _codecs() -> Finding:
    """Return which of the usual videos can be read and written."""
    from av import library_versions

    found = {
        "ffmpeg": ".".join(map(str, library_versions["libavcodec"])),
        "read": [name for name in READ if _has_codec(name, "r")],
        "written": [name for name in WRITTEN if _has_codec(name, "w")],
    }
    reads, writes = ", ".join(found["read"]) or "none", ", ".join(found["written"]) or "none"
    return found, f"libavcodec {found['ffmpeg']} reads {reads}; writes {writes}"


def _has_codec(name: str, mode: Any) -> bool:
    """Return whether PyAV has a decoder or an encoder."""
    import av

    try:
        av.Codec(name, mode)
    except ValueError:  # av.codec.codec.UnknownCodecError
        return False
    return True


def _blas() -> Finding:
    """Return the libraries for linear algebra that NumPy and SciPy have loaded."""
    import scipy.linalg  # noqa: F401  # loads its own
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    keys = ("internal_api", "version", "architecture", "num_threads")
    found = [{key: pool.get(key) for key in keys} for pool in pools]
    words = [f"{each['internal_api']} {each['version']} ({each['architecture']})" for each in found]
    return found, ", ".join(dict.fromkeys(words)) or "none that threadpoolctl knows"


def _threads() -> Finding:
    """Return how many threads visionnmf and the BLAS use."""
    from threadpoolctl import threadpool_info

    from visionnmf.engine.blocks import n_threads

    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    found = {"visionnmf": n_threads(), "blas": max(pools, default=1)}
    return found, f"{found['visionnmf']} of visionnmf, {found['blas']} of the BLAS"


def _kernels() -> Finding:
    """Return the folder of compiled kernels, None if they cannot be kept."""
    from visionnmf._jit import cache_folder

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # our line says it
        folder = cache_folder()
    if folder is None:
        return None, "compiled in each run, because no folder can be written; set NUMBA_CACHE_DIR to a writable folder"
    return str(folder.parent), f"kept in {folder.parent}"


def _extra(name: str, found: dict[str, str | None]) -> str:
    """Return the versions of the packages of an extra, or how to install it."""
    if not found:
        return f"not known to this installation, which is older than its source; {installed_by(name)}"
    missing = [package for package, number in found.items() if number is None]
    if missing:
        return f"without {', '.join(missing)}; {installed_by(name)}"
    return ", ".join(f"{package} {number}" for package, number in found.items())


SECTIONS: dict[str, Callable[[], Finding]] = {
    "versions": _versions,
    "libraries": _libraries,
    "codecs": _codecs,
    "BLAS": _blas,
    "threads": _threads,
    "kernels": _kernels,
}
