"""The options with which all numba kernels are compiled, and the folder that caches them."""

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

F = TypeVar("F", bound=Callable[..., Any])

# Lets LLVM vectorise sums. NaN and infinity keep their meaning, because "nnan" and "ninf" are not included.
REASSOCIATE = frozenset({"reassoc", "contract", "nsz"})

ENGINE = Path(__file__).parent / "engine" / "kernels"
PREFIX = "visionnmf-"
DAY = 86400.0
KEPT = 60 * DAY  # seconds without use after which a cache folder is removed
UNUSED_PASSES = {"InlineClosureLikes", "NopythonRewrites"}  # of numba: for closures, and for arithmetic on whole arrays


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(*, reassociate: bool = ..., part: bool = ..., allocates: bool = ...) -> Callable[[F], F]: ...


def kernel(function: F | None = None, *, reassociate: bool = False, part: bool = False, allocates: bool = False) -> Any:
    """Compile a numba kernel with the options that all kernels of the package share.

    - ``nogil``: blocks of rows run in ordinary Python threads (:mod:`visionnmf.engine.blocks`), so kernels must release
      the interpreter lock. ``parallel`` stays off, because a second thread pool beside that of the BLAS costs
      milliseconds per iteration and compiles slowly.
    - ``cache``: a second process does not compile. numba checks only the file of the kernel itself for changes, not
      those of the kernels it calls. Kernels therefore live in folders called ``kernels`` and in files called
      ``kernels.py``, and the cache of each such folder or file is named after a digest of it (:func:`cache_folder`). A
      kernel may call only kernels of its own folder or file, and these files import nothing else of visionnmf but this
      module. Editing the kernels of an application therefore recompiles nothing of the engine.
    - ``error_model="numpy"``: division by zero gives infinity, as in NumPy, and needs no branch.
    - ``boundscheck`` and ``fastmath`` keep numba's defaults (off), except that `reassociate` enables some fastmath
      flags.
    - ``no_cfunc_wrapper``: nothing calls a kernel from C, and the wrapper takes 10 % of the compile time. Parts of a
      kernel also skip the Python wrapper (``no_cpython_wrapper``), which takes 40 %. LLVM inlines parts where that
      pays; inlining is not forced, because it would repeat the optimisation in every caller. Parts are not cached,
      because generating their machine code for the cache would double their cost.
    - ``pipeline_class``: numba's compiler without two of its passes (:func:`_compiler`). Kernels must therefore contain
      no closures or comprehensions, and should loop over entries rather than compute with whole arrays.
    - ``_nrt=False`` unless the kernel creates arrays: without reference counts, which the caller holds anyway, a kernel
      compiles 17 % faster. Compilation fails if such a kernel creates an array nevertheless.

    `reassociate` allows to reorder sums (:data:`REASSOCIATE`), for kernels that spend their time in long ones. Only
    other kernels can call a `part`. A kernel `allocates` if it creates arrays or calls something that does in numba,
    such as an array's ``max``.
    """

    def decorate(f: F) -> Any:
        """Compile `f` on its first call, cached unless no folder can be written, numba is off or it is a `part`.

        A `part` is called by other kernels only, so it needs neither a Python wrapper nor a cache of its own.
        """
        import numba

        _listen()  # pauses garbage collection while numba compiles
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
        options["pipeline_class"] = _compiler()  # numba's compiler without passes that no kernel needs
        if not allocates:
            options["_nrt"] = False  # without numba's memory manager
        if part:
            options["no_cpython_wrapper"] = True
        if reassociate:
            options["fastmath"] = set(REASSOCIATE)
        source = Path(f.__code__.co_filename)
        together = source.parent if source.parent.name == "kernels" else source  # what shares one cache folder
        folder = None if part or _config().DISABLE_JIT else cache_folder(together)
        if folder is not None:
            with _caching_in(folder):
                compiled = numba.njit(cache=True, **options)(f)
            # numba uses another folder, not named after the kernels' digest, if it cannot find the source file
            if Path(compiled.stats.cache_path).is_relative_to(folder):
                _guard_cache(compiled._cache, folder)  # lets one process at a time use it
                return compiled
        return numba.njit(**options)(f)

    return decorate(function) if function is not None else decorate


@functools.cache
def _compiler() -> Any:
    """Return numba's compiler class without :data:`UNUSED_PASSES`, which cost time and would change no kernel."""
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import PassManager

    class Compiler(CompilerBase):  # type: ignore[misc, unused-ignore]
        def define_pipelines(self) -> list[Any]:
            """Return numba's passes for the function in `state`, without :data:`UNUSED_PASSES`."""
            if self.state["library"] is None and not self.state.flags.no_cpython_wrapper:  # not a part
                self.state["library"] = _library_of_its_own(self.state)
            complete = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes = PassManager(complete.pipeline_name)
            for one, description in complete.passes:
                if one.__name__ not in UNUSED_PASSES:
                    passes.add_pass(one, description)
            passes.finalize()
            return [passes]

    return Compiler


def _library_of_its_own(state: Any) -> Any:
    """Return a library for a kernel that always calls its own copies of parts, as LLVM optimised them with it."""
    # Otherwise a process would use the copy of whichever kernel it compiled or loaded first, and copies that sum in
    # another order differ by rounding: a process that compiles would not find the bits of one that reads the cache.
    library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
    library.enable_object_caching()  # as numba does where it makes a library
    optimise = library._optimize_final_module

    def optimise_alone() -> None:
        optimise()
        for function in library._final_module.functions:
            if not function.is_declaration and function.linkage.name == "linkonce_odr":
                function.linkage = "internal"

    library._optimize_final_module = optimise_alone
    return library


@functools.cache
def cache_folder(source: Path = ENGINE) -> Path | None:
    """Return the cache folder for a file or folder of kernels, and create it if it is missing.

    Its parent is NUMBA_CACHE_DIR if that variable is set, otherwise the user's cache folder; its name contains a digest
    of the source. Folders of other versions are removed after :data:`KEPT` seconds without use. If no folder is
    writable, the function warns and returns None, and each process compiles the kernels in memory.
    """
    from numba.misc.appdirs import AppDirs

    base = Path(_config().CACHE_DIR or AppDirs(appname="visionnmf", appauthor=False).user_cache_dir)
    # bounds checks change the compiled code, so that setting is part of the digest
    folder = base.absolute() / f"{PREFIX}{_digest(source, _config().BOUNDSCHECK)}"
    why = "permission denied"
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _remove_unused(base)
        elif time.time() - folder.stat().st_mtime > DAY:
            os.utime(folder)  # mark the folder as in use
    except OSError as error:
        why = error.strerror or type(error).__name__
    if os.access(folder, os.W_OK | os.X_OK):
        return folder
    _warn(base, why)
    return None


def _guard_cache(cache: Any, folder: Path) -> None:
    """Serialise access of processes to the compiled code of a kernel; continue without the cache if it fails.

    numba numbers files through an index that it reads and writes without a lock, so that one process could load
    another's code, and it does not handle damaged files or a full disk.
    """
    load, save = cache.load_overload, cache.save_overload

    def load_overload(*arguments: Any) -> Any:
        """Load a compiled signature under the lock, because another process may be writing; None if that fails."""
        with _locked(folder / "lock"):
            try:
                return load(*arguments)  # numba's own method
            except Exception:  # a damaged pickle can raise anything; without its index the kernel is recompiled
                with suppress(OSError):
                    Path(cache._cache_file._index_path).unlink()
                return None

    def save_overload(*arguments: Any) -> None:
        """Save a compiled signature under the lock; if that fails, warn and go on without."""
        with _locked(folder / "lock"):
            try:
                save(*arguments)  # numba's own method
            except OSError as error:
                _warn(folder, error.strerror or type(error).__name__)

    cache.load_overload, cache.save_overload = load_overload, save_overload


@functools.cache
def _warn(folder: Path, why: str) -> None:
    """Warn that compiled kernels cannot be cached; `functools.cache` drops repeated calls, so it warns once."""
    warnings.warn(
        f"{folder} cannot be written ({why}): kernels are compiled again in each process (seconds). "
        "Set NUMBA_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


_holding = threading.local()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes on a file, if the platform has one; nested calls share it."""
    file = None
    with suppress(ImportError, OSError):  # Windows has no fcntl; numba itself reports a full disk when it writes
        import fcntl

        if not getattr(_holding, "lock", False):  # waiting for a lock that this thread already holds would deadlock
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
    """Return numba's configuration module; importing numba is deferred because it is slow."""
    from numba.core import config

    return config


def _digest(source: Path, options: object) -> str:
    """Return a digest of the options, of this file, and of a file or folder of kernels with its parent's name."""
    digest = hashlib.sha256(repr((source.parent.name, options)).encode())
    # a source that is missing counts as no files
    files = sorted(source.glob("*.py")) if source.is_dir() else [source][: source.is_file()]
    for path in [Path(__file__), *files]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _remove_unused(base: Path) -> None:
    """Remove cache folders whose time, which every use updates, is more than :data:`KEPT` seconds ago."""
    for folder in base.glob(f"{PREFIX}*"):
        if time.time() - folder.stat().st_mtime > KEPT:
            shutil.rmtree(folder, ignore_errors=True)


_lock = threading.Lock()


@contextmanager
def _caching_in(folder: Path) -> Iterator[None]:
    """Redirect numba's global cache folder to `folder` while a kernel is decorated, under this process's lock."""
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
    """Register a callback that runs once, in the thread that compiles the first kernel that is not in the cache."""
    global _callback
    _callback = callback


@functools.cache
def _listen() -> None:
    """Subscribe to numba's compile events to run the :func:`on_first_compile` callback and pause the collector."""
    from numba.core import event

    class Listener(event.Listener):
        depth = 0  # number of compilations under way, each inside the one before
        collects = False  # whether garbage collection was on before the outermost of them

        def on_start(self, event: Any) -> None:
            """Pause garbage collection, which would take a fifth of the time, while kernels compile; call back once."""
            global _callback
            if not self.depth:
                self.collects = gc.isenabled()
                gc.disable()
            self.depth += 1  # compilations nest, because kernels call kernels; numba compiles in one thread at a time
            if _callback is not None and event.data["dispatcher"].py_func.__module__.startswith("visionnmf."):
                callback, _callback = _callback, None
                callback()

        def on_end(self, event: Any) -> None:
            """Resume garbage collection after the outermost compilation, `depth` 0, if it was on before: `collects`."""
            self.depth -= 1
            if not self.depth and self.collects:
                gc.enable()

    event.register("numba:compile", Listener())
