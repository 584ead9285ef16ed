"""Decode files in one child process, so that a damaged file costs one line and one input.

After :func:`decode_apart`, which the command line calls, functions marked with :func:`apart` run in a child that lives
as long as the process, with limits of memory and processor time. Elsewhere they are ordinary functions. The child is
not a sandbox: it has the rights of its user, and the two exchange pickles by pipes. Pipes of 1 MiB are twice as fast as
shared memory here, and nothing is left behind, whoever is killed.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import math
import os
import pickle
import queue
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, Any, ParamSpec, TypeVar

from visionnmf._text import one_line
from visionnmf.exceptions import TooLargeError, UnreadableError, VisionNMFError

P = ParamSpec("P")
T = TypeVar("T")

MEMORY = 6 << 30  # bytes of addresses for the child
PROCESSOR_SECONDS = 120  # for an input
DEADLINE = 600.0  # seconds for an input on the clock, if its decoder waits for something
PIPE = 1 << 20  # bytes, the most that Linux allows
CURE = "the file is damaged or made to do harm; save it again with another program, if you trust it"

# `-P` keeps modules of the current folder from being imported; the parent then sends its own list of folders.
_START = "import sys, pickle; sys.path[:], limits = pickle.load(sys.stdin.buffer)\n"
_START += "from visionnmf.io.decoding import serve; serve(*limits)"


class _State:
    """Whether this process decodes in a child, the child, which one thread at a time may use, and words for a limit."""

    apart = False
    memory = "memory than there is"
    child: Child | None = None
    lock = threading.Lock()


def apart(function: Callable[P, T]) -> Callable[P, T]:
    """Mark a function of a file, named by its first argument, to run in the child after :func:`decode_apart`.

    Whatever a library raises in it becomes an UnreadableError of one line, or a TooLargeError if memory runs out.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def decoded(*args: P.args, **kwargs: P.kwargs) -> T:
        given = signature.bind(*args, **kwargs)  # also a file that is passed by its name comes first in `given.args`
        if _State.apart:
            with _State.lock:
                result: T = start_child().call(function, *given.args, **given.kwargs)
                return result
        try:
            return function(*args, **kwargs)
        except VisionNMFError:
            raise
        except Exception as error:  # decoders raise nearly anything on damaged files
            raise _complaint(given.args[0], error) from error

    return decoded


def decode_apart() -> None:
    """Decode in a child from now on, which starts at the first file or by :func:`start_child`."""
    _State.apart = True


def decodes_apart() -> bool:
    """Return whether this process decodes in a child."""
    return _State.apart


def start_child(*modules: str) -> Child:
    """Return the child; a new one, in place of one that has ended, imports `modules` before anything is asked of it."""
    if _State.child is None or _State.child.ended:
        _State.child = Child(modules)
    return _State.child


class Child:
    """A process that decodes; for an input it has `seconds` of the processor, and until the `deadline` on the clock."""

    def __init__(
        self,
        modules: Sequence[str] = (),
        *,
        seconds: int = PROCESSOR_SECONDS,
        deadline: float = DEADLINE,
    ) -> None:
        self._seconds, self._deadline, self._late, self.ended = seconds, deadline, False, False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pipesize=PIPE,
            start_new_session=True,  # signals of the terminal are for the first process, which ends this one
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads would take addresses
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        atexit.register(self.stop)
        with suppress(OSError):  # it has ended; the first request reports that
            pickle.dump((sys.path, (seconds, *modules)), self._requests)
            self._requests.flush()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what `function`, of a file, returns in the child; raise a MediaError if it raises or is lost."""
        timer = threading.Timer(self._deadline, self._kill_late)
        timer.daemon = True
        timer.start()
        request = function.__module__, function.__qualname__, args, kwargs, _folder()
        try:
            pickle.dump(request, self._requests)
            self._requests.flush()
            reply, *buffers = (_received(self._replies, count) for count in pickle.loads(_received(self._replies)))
            result = pickle.loads(reply, buffers=buffers)
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):  # so that its own exit status is seen
                self._process.wait(5)
            self.stop()
            raise UnreadableError(f"{args[0]}: {self._reason()}; {CURE}") from None
        except BaseException:  # an interrupt: a reply may be half read
            self.stop()
            raise
        finally:
            timer.cancel()
        if isinstance(result, VisionNMFError):
            raise result
        return result

    def _kill_late(self) -> None:
        """End a child that has not answered in time."""
        self._late = True
        self._process.kill()

    def _reason(self) -> str:
        """Return why the child has ended."""
        code = self._process.returncode
        if self._late:
            return f"decoding it took more than {self._deadline:.0f} s"
        if code == -getattr(signal, "SIGXCPU", 0):
            return f"decoding it took more than {self._seconds} s of the processor"
        if code == -getattr(signal, "SIGKILL", 0):
            return "the process that decodes it was killed, perhaps because memory ran out"
        return f"its decoder crashed ({signal.Signals(-code).name if code < 0 else f'exit status {code}'})"

    def stop(self) -> None:
        """End the child; what it was doing is lost."""
        self.ended = True
        with suppress(OSError):  # an unfinished request cannot be written out
            self._requests.close()
        self._process.kill()
        self._process.wait()
        self._replies.close()
        atexit.unregister(self.stop)


def _folder() -> str:
    """Return the current folder, which names of files may be relative to; empty if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _received(pipe: IO[bytes], count: int | None = None) -> Any:
    """Return `count` bytes of a pipe, or those whose number comes first; raise EOFError if it ends before."""
    import numpy as np  # here, because the child should start before this process has imported it

    if count is None:
        count = int.from_bytes(_received(pipe, 8), "little")
    buffer = np.empty(count, np.uint8)  # not a bytearray, whose zeros would take time
    rest = buffer.data
    while rest:
        taken = pipe.readinto(rest)  # type: ignore[attr-defined]
        if not taken:
            raise EOFError
        rest = rest[taken:]
    return buffer


# --- in the child -----------------------------------------------------------------------------------------------------


def serve(seconds: int, *modules: str) -> None:
    """Answer requests on standard input one after the other, until the first process is gone."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # decoders that print must not disturb the replies
    _limit("RLIMIT_AS", MEMORY)
    _State.memory = f"than {MEMORY >> 30} GiB of memory"
    _limit("RLIMIT_CORE", 0)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # A thread reads, so that the end of the first process ends this one also while it decodes.
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    for module in modules:
        import_module(module)
    while True:
        request = requests.get()
        _limit("RLIMIT_CPU", math.ceil(sum(os.times()[:2])) + seconds, soft=True)
        buffers: list[pickle.PickleBuffer] = []
        reply = pickle.dumps(_result(*request), protocol=5, buffer_callback=buffers.append)
        parts: list[Any] = [reply, *(buffer.raw() for buffer in buffers)]
        sizes = pickle.dumps([len(part) for part in parts])
        for part in (len(sizes).to_bytes(8, "little"), sizes, *parts):
            rest = memoryview(part)
            while rest:
                rest = rest[replies.write(rest) :]
        del reply, parts, part, rest, buffers  # a picture would stay in memory until the next one


def _read_requests(requests: queue.SimpleQueue[Any]) -> None:
    """Put the requests of the first process into a queue, and end this process after the last one."""
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(0)


def _result(module: str, name: str, args: Sequence[Any], kwargs: dict[str, Any], folder: str) -> Any:
    """Return the result of a function, or the error of one line that the first process raises."""
    try:
        if folder not in ("", _folder()):
            os.chdir(folder)
        return getattr(import_module(module), name)(*args, **kwargs)
    except VisionNMFError as error:
        return error
    except Exception as error:
        return _complaint(args[0], error)


def _limit(name: str, value: int, *, soft: bool = False) -> None:
    """Set a limit of this process; a `soft` one can be raised again."""
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(OSError, ValueError):  # macOS refuses a limit of addresses
        resource.setrlimit(kind, (value, hard if soft else value))


def _complaint(name: object, error: Exception) -> VisionNMFError:
    """Return the error for what a library said about a file, without NumPy's advice to trust it."""
    if isinstance(error, MemoryError):
        what = f"decoding it takes more {_State.memory}"
        return TooLargeError(f"{name}: {what}; save it smaller or in another format")
    return UnreadableError(f"{name}: cannot be read ({one_line(error).split(' To allow loading')[0]:.200})")
