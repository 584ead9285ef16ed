"""The one place that owns numba's options, and the folder in which compiled kernels are kept."""

from __future__ import annotations

import functools
import gc
import hashlib
import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, overload

__all__ = ["REASSOCIATE", "kernel", "on_first_compile"]

F = TypeVar("F", bound=Callable[..., Any])

# Lets LLVM turn a sum into SIMD lanes. NaN and infinity keep their meaning ("nnan" and "ninf" are not given).
REASSOCIATE = frozenset({"reassoc", "contract", "nsz"})

ENGINE = Path(__file__).parent / "engine" / "kernels"
PREFIX = "visionnmf-"
DAY = 86400.0
KEPT = 60 * DAY  # that a folder of compiled kernels lies unused before it is removed


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(*, reassociate: bool = ..., part: bool = ..., allocates: bool = ...) -> Callable[[F], F]: ...


def kernel(function: F | None = None, *, reassociate: bool = False, part: bool = False, allocates: bool = False) -> Any:
    """Compile a kernel with the options of the house.

    - ``nogil``: blocks of rows run in ordinary Python threads (:mod:`visionnmf.engine.blocks`), so kernels must
      release the interpreter lock. ``parallel`` stays off: a second pool of threads beside the BLAS's costs
      milliseconds an iteration, and compiles slowly.
    - ``cache``: the second process does not compile. numba compares only the file of the kernel itself with the cache,
      not those of the kernels it calls. So kernels lie in folders called ``kernels`` and in files called
      ``kernels.py``, and the cache of each such folder or file is named after a digest of it (:func:`cache_folder`). A
      kernel may call the kernels of its folder or file, and no others: these files import nothing else of visionnmf but
      this module. Editing the kernels of an application compiles nothing of the engine anew.
    - ``error_model="numpy"``: division by zero gives inf, as in numpy, and costs no branch.
    - ``boundscheck`` and ``fastmath`` stay at numba's defaults (off); `reassociate` names the only exception.
    - ``no_cfunc_wrapper``: nothing calls a kernel from C, and the wrapper takes a tenth of the time of compiling.
      ``no_cpython_wrapper`` for the parts of a kernel, which takes four tenths; LLVM makes them a part of their caller
      where that pays (it is not forced to: each caller's caller would optimise the lot once more). Nor are parts
      cached: making machine code of each for the cache takes as long as what else a part costs.
    - ``_nrt=False`` unless the kernel makes arrays: without numba's count of references to its arrays, which the caller
      holds anyway, a kernel compiles in five sixths of the time. Compiling fails where an array is made nevertheless.

    Parameters
    ----------
    function : callable, optional
        The kernel; given when the decorator is used without parentheses.
    reassociate : bool, default=False
        Allow sums to be reordered (:data:`REASSOCIATE`). For kernels whose time is a long sum.
    part : bool, default=False
        For what other kernels alone call; Python cannot.
    allocates : bool, default=False
        For kernels that make arrays, or call what does in numba, such as an array's ``max``.

    Returns
    -------
    callable
        The compiled kernel, or a decorator.
    """

    def decorate(f: F) -> Any:
        import numba

        _listen()
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
        if not allocates:
            options["_nrt"] = False
        if part:
            options |= {"no_cpython_wrapper": True}
        if reassociate:
            options["fastmath"] = set(REASSOCIATE)
        source = Path(f.__code__.co_filename)
        together = source.parent if source.parent.name == "kernels" else source
        folder = None if part or _config().DISABLE_JIT else cache_folder(together)
        if folder is not None:
            with _caching_in(folder):
                compiled = numba.njit(cache=True, **options)(f)
            # numba takes another folder, without the digest, for a source file it cannot find
            if Path(compiled.stats.cache_path).is_relative_to(folder):
                _guard_cache(compiled._cache, folder)
                return compiled
        return numba.njit(**options)(f)

    return decorate(function) if function is not None else decorate


@functools.cache
def cache_folder(source: Path = ENGINE) -> Path | None:
    """Return the folder of the compiled kernels of a file or a folder of kernels; make it if it is missing.

    It lies in numba's folder if the variable NUMBA_CACHE_DIR names one, otherwise in the user's folder for caches, and
    is named after a digest of the source. The folders of other versions are removed when they have not been used for
    :data:`KEPT` seconds. If no folder can be written, a warning says so and None is returned: kernels are then compiled
    in memory, once in each process.
    """
    from numba.misc.appdirs import AppDirs

    base = Path(_config().CACHE_DIR or AppDirs(appname="visionnmf", appauthor=False).user_cache_dir)
    folder = base.absolute() / f"{PREFIX}{_digest(source, _config().BOUNDSCHECK)}"
    why = "permission denied"
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _remove_unused(base)
        elif time.time() - folder.stat().st_mtime > DAY:
            os.utime(folder)  # in use
    except OSError as error:
        why = error.strerror or type(error).__name__
    if os.access(folder, os.W_OK | os.X_OK):
        return folder
    _warn(base, why)
    return None


def _guard_cache(cache: Any, folder: Path) -> None:
    """Let one process at a time read or write compiled code, and do without it where that fails.

    numba numbers the files of a kernel's signatures by an index that it reads and writes without a lock: of two
    processes that compile at once, one could find the other's code under the name of its own. Nor does it expect that a
    file is damaged or the disk full.
    """
    load, save = cache.load_overload, cache.save_overload

    def load_overload(*arguments: Any) -> Any:
        with _locked(folder / "lock"):
            try:
                return load(*arguments)
            except Exception:  # damaged pickles raise nearly anything; without its index the code is made anew
                with suppress(OSError):
                    Path(cache._cache_file._index_path).unlink()
                return None

    def save_overload(*arguments: Any) -> None:
        with _locked(folder / "lock"):
            try:
                save(*arguments)
            except OSError as error:
                _warn(folder, error.strerror or type(error).__name__)

    cache.load_overload, cache.save_overload = load_overload, save_overload


@functools.cache
def _warn(folder: Path, why: str) -> None:
    """Say once a process that compiled kernels cannot be kept."""
    warnings.warn(
        f"{folder} cannot be written ({why}): kernels are compiled anew in each process (seconds). "
        "Set NUMBA_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


_holding = threading.local()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    file = None
    with suppress(ImportError, OSError):  # Windows has no fcntl; of a full disk numba itself tells when it writes
        import fcntl

        if not getattr(_holding, "lock", False):  # a lock that this thread waited for twice would never come
            file = path.open("ab")
            fcntl.flock(file, fcntl.LOCK_EX)
            _holding.lock = True
    try:
        yield
    finally:
        if file is not None:
            _holding.lock = False
            file.close()


def _config() -> Any:
    from numba.core import config

    return config


def _digest(source: Path, options: object) -> str:
    """Return a digest of the options, of this file, and of a file or folder of kernels."""
    digest = hashlib.sha256(repr((source.parent.name, options)).encode())
    files = sorted(source.glob("*.py")) if source.is_dir() else [source][: source.is_file()]
    for path in [Path(__file__), *files]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _remove_unused(base: Path) -> None:
    for folder in base.glob(f"{PREFIX}*"):
        if time.time() - folder.stat().st_mtime > KEPT:
            shutil.rmtree(folder, ignore_errors=True)


_lock = threading.Lock()


@contextmanager
def _caching_in(folder: Path) -> Iterator[None]:
    """Show numba another cache folder while a kernel is decorated; other users of numba keep theirs."""
    config = _config()
    with _lock:
        theirs = config.CACHE_DIR
        config.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            config.CACHE_DIR = theirs


_callback: Callable[[], None] | None = None


def on_first_compile(callback: Callable[[], None]) -> None:
    """Have `callback` called once, when a kernel is about to be compiled; never when all come from the cache.

    Parameters
    ----------
    callback : callable
        Called without arguments, from the thread that compiles.
    """
    global _callback
    _callback = callback


@functools.cache
def _listen() -> None:
    """Ask numba to tell when it compiles a kernel: for :func:`on_first_compile`, and to hold the garbage collector.

    Compiling makes millions of objects that stay; looking through them again and again takes a fifth of the time.
    """
    from numba.core import event

    class Listener(event.Listener):
        depth = 0
        collects = False

        def on_start(self, event: Any) -> None:
            global _callback
            if not self.depth:
                self.collects = gc.isenabled()
                gc.disable()
            self.depth += 1  # kernels that call others; numba compiles in one thread at a time
            if _callback is not None and event.data["dispatcher"].py_func.__module__.startswith("visionnmf."):
                callback, _callback = _callback, None
                callback()

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if not self.depth and self.collects:
                gc.enable()

    event.register("numba:compile", Listener())
