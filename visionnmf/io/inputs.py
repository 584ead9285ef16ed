"""Find inputs, check that they are files, and check their sizes; read text files, and the lines of logs.

Any bytes become lines of text, and no more than 64 KiB of a line are kept.
"""

from __future__ import annotations

import codecs
import glob
import os
import re
import select
import stat
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from visionnmf._text import counted, without_password
from visionnmf.choices import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError

SAMPLE_PREFIX = "sample:"
ADDRESS = re.compile(r"(https?|rtsps?)://", re.IGNORECASE)
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")
CAMERA = re.compile(r"camera:(\d+)|/dev/video(\d+)")
STAMP = re.compile(  # a date with a time, such as 20261129_095800, 2026-11-29T09-58-00 or 20261129095800123
    r"(?<!\d)((?:19|20)\d\d)[-_.]?(\d\d)[-_.]?(\d\d)[-_. T]{0,3}(\d\d)[-_.:]?(\d\d)[-_.:]?(\d\d)(?:\.?(\d{1,6}))?(?!\d)"
)
F = TypeVar("F", bound=Callable[..., Any])
SHOWN_FOLDERS = SHOWN_GAPS = 3  # in a message
MOST_TEXT = 256 << 20  # bytes of a text that is read whole
MAX_BYTES = 1 << 30  # of a file that is read whole; videos are streams, and models have their own limits

Line = str | None  # None: standard input has nothing new at the moment

LINE_BYTES = 1 << 16  # kept of a line
CHUNK_BYTES = 1 << 18
EXAMINED_BYTES = 4096  # of the beginning of a file, to recognise that it is not text ...
MAX_CONTROL_SHARE = 0.05  # ... by its share of control characters ...
MIN_EXAMINED = 1000  # ... if it has at least so many characters
# How pictures, archives, compressed files, documents, programs, databases and journals of systemd begin.
_OTHER_FILES = (
    *(b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"),
    *(b"\x28\xb5\x2f\xfd", b"%PDF-", b"\x7fELF", b"SQLite format 3\x00", b"LPKSHHRH"),
)
# Control characters, and characters of several bytes in UTF-8: text in Latin-1 has none of them.
_NOT_LATIN1 = re.compile(rb"[\0-\x08\x0b\x0e-\x1f\x7f-\x9f]|[\xc2-\xf4][\x80-\xbf]")


def takes_files(function: F) -> F:
    """Mark the function of a job whose arguments name files, which the worker of a cluster must see.

    Names are texts and paths, also in lists, tuples, mappings and records. Any of them that exists where the job is
    submitted must exist for the worker, too, so arguments should not hold text that was read from a file.
    """
    function.takes_files = True  # type: ignore[attr-defined]
    return function


def expand_inputs(arguments: Sequence[str]) -> list[str]:
    """Turn the arguments of a command into the list of inputs.

    Arguments are files, patterns (``*``, ``?``, ``[...]``, ``**``, for shells that do not expand them; the suffix also
    matches in capitals) and ``sample:NAME``. Each file appears once, in the order of the arguments; the matches of a
    pattern are sorted. An existing file whose name contains pattern characters is that file. A missing file is kept, so
    that whoever reads it reports it and a batch goes on. Raises UnreadableError if a pattern matches no file.
    """
    inputs: list[str] = []
    for argument in arguments:
        if argument.startswith(SAMPLE_PREFIX) or os.path.lexists(argument) or not glob.has_magic(argument):
            found = [argument]
        else:
            found = sorted(
                match for match in glob.glob(_any_case(argument), recursive=True) if not os.path.isdir(match)
            )
            if not found:
                raise UnreadableError(f"{argument}: no file matches this pattern")
        inputs += found
    return _once(inputs)


def expand_images(arguments: Sequence[str]) -> list[str]:
    """Turn the arguments of a command into a list of images; a folder stands for all images in it and below it.

    Raises UnreadableError if a pattern matches no file, or a folder has no image or may not be read.
    """
    images: list[str] = []
    for source in expand_inputs(arguments):
        if os.path.isdir(source):
            images += [os.path.join(source, name) for name in find_files(source, IMAGE_SUFFIXES, recursive=True)]
        else:
            images.append(source)
    return _once(images)


def table_names(files: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Return what tables call files: the names relative to the folder, if `sources` are one folder; as they are if not.

    Files of several folders keep their folders, because names in two of them may be equal.
    """
    if len(sources) != 1 or not os.path.isdir(sources[0]):
        return list(files)
    return [Path(file).relative_to(sources[0]).as_posix() for file in files]


def _once(names: Sequence[str]) -> list[str]:
    """Return each input once, under the first of its names."""
    inputs: dict[str, str] = {}  # the name by which an input was first given, by its path with links resolved
    for name in names:
        inputs.setdefault(name if name.startswith(SAMPLE_PREFIX) else os.path.realpath(name), name)
    return list(inputs.values())


def _any_case(pattern: str) -> str:
    """Make the suffix of a pattern match in small letters and in capitals."""
    suffix = re.search(r"\.[A-Za-z0-9]+$", pattern)
    if suffix is None:
        return pattern
    letters = (f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in suffix[0])
    return pattern[: suffix.start()] + "".join(letters)


def find_files(
    folder: str | Path,
    suffixes: Sequence[str],
    *,
    recursive: bool = False,
    deeper: str = "recursive=True looks into its folders",
) -> list[str]:
    """Return the files of a folder whose names end in one of `suffixes`, as sorted paths relative to the folder.

    The suffixes, in small letters, also match in capitals. Hidden files and folders (with a leading dot) are left out,
    and links to folders are not followed. Raises UnreadableError if there is no such file, or the folder may not be
    read. `deeper` is the advice at the end of that message if the folder holds other folders.
    """
    wanted = tuple(suffixes)
    found = []
    try:
        for here, folders, names in os.walk(folder, onerror=_raise):
            # os.walk goes on into the folders that are left in this list.
            folders[:] = [name for name in folders if recursive and not name.startswith(".")]
            beneath = os.path.relpath(here, folder)
            found += [
                os.path.normpath(os.path.join(beneath, name))
                for name in names
                if not name.startswith(".") and name.lower().endswith(wanted)
            ]
    except OSError as error:
        raise UnreadableError(f"{folder}: the folder cannot be read ({error.strerror})") from error
    if not found:
        kinds = ", ".join(sorted(suffix.removeprefix(".") for suffix in wanted))
        has_folders = not recursive and any(entry.is_dir() for entry in Path(folder).iterdir())
        hints = [fuller_folders(folder, 0) if suffixes == VIDEO_SUFFIXES else "", deeper if has_folders else ""]
        hint = "".join(f"; {each}" for each in hints if each)
        raise UnreadableError(f"{folder}: no file in this folder ends in {kinds}{hint}")
    return sorted(found, key=lambda name: Path(name).parts)


def _raise(error: OSError) -> None:
    """Raise an error that os.walk would otherwise ignore."""
    raise error


def place_results(found: Sequence[tuple[str, str]]) -> list[str]:
    """Choose a folder for the results of each input, so that no two results have the same path.

    `found` has each input, and the folder wanted for its results, relative to the folder of all results. If inputs
    would give results of the same name in one folder, subfolders are added: the folders of the inputs below their
    common parent, or folders named like the inputs if these lie in the same folder.
    """
    places = [folder for _, folder in found]
    # First add the folders in which the inputs lie, then, where names still clash, folders named like the inputs.
    for clash in _clashes(found, places):
        parents = [os.path.dirname(os.path.abspath(found[index][0])) for index in clash]
        above = os.path.commonpath(parents)
        for index, parent in zip(clash, parents, strict=True):
            places[index] = os.path.normpath(os.path.join(places[index], os.path.relpath(parent, above)))
    for clash in _clashes(found, places):
        for index in clash:
            places[index] = os.path.join(places[index], os.path.basename(found[index][0]))
    return places


def _clashes(found: Sequence[tuple[str, str]], places: Sequence[str]) -> list[list[int]]:
    """Return groups, as indices of `found`, whose outputs would have one name in the same planned folder (`places`)."""
    groups = defaultdict(list)
    for index, ((source, _), place) in enumerate(zip(found, places, strict=True)):
        groups[os.path.normpath(place), stem_of(source)].append(index)
    return [group for group in groups.values() if len(group) > 1]


def is_live(source: object) -> bool:
    """Return whether a source is standard input, a URL or a camera, which can be read only once."""
    name = str(source)
    return name == "-" or ADDRESS.match(name) is not None or CAMERA.fullmatch(name) is not None


def pictures_of(source: str | Path) -> list[str]:
    """Return the pictures of a folder (without its subfolders) or a pattern, in natural order: 9 before 10.

    If it has videos, these are meant, and no pictures are returned.
    """
    name = str(source)
    if os.path.isdir(name):
        found = [os.path.join(name, entry) for entry in os.listdir(name) if not entry.startswith(".")]
    elif glob.has_magic(name) and not os.path.lexists(name):
        found = expand_inputs([name])
    else:
        return []
    if any(path.lower().endswith(VIDEO_SUFFIXES) for path in found):
        return []
    return sorted((path for path in found if path.lower().endswith(IMAGE_SUFFIXES)), key=_natural)


def fuller_folders(source: str | Path, count: int) -> str:
    """Return a sentence where folders in a folder, which are not read, hold more than its `count` pictures, or ""."""
    inner: dict[str, int] = {}
    with suppress(OSError):  # a folder that may not be read, or none: `source` may be a pattern
        folders = sorted(entry.path for entry in os.scandir(source) if entry.is_dir() and entry.name[0] != ".")
        inner = {path: n for path in folders if (n := len(pictures_of(path))) > count}
    if not inner:
        return ""
    names = ", ".join(f"{os.path.basename(path)} ({n})" for path, n in list(inner.items())[:SHOWN_FOLDERS])
    wanted = max(inner, key=lambda path: (os.path.basename(path) == "input", inner[path]))  # as in CDnet
    more = ", ..." if len(inner) > SHOWN_FOLDERS else ""
    held = f"more than its {counted(count, 'picture')}" if count else "pictures"
    return f"folders in it hold {held}: {names}{more}; give {wanted} if that is the video"


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key for sorting: a pair for each part of a name, (number, "") for digits and (-1, text) for others."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def numbered(paths: Sequence[str]) -> tuple[Sequence[int], str]:
    """Return positions of pictures in a clip, by numbers that mostly grow by one step, and a note on missing ones."""
    parts = [re.split(r"([0-9]+)", os.path.splitext(path)[0]) for path in paths]
    varied = [column for column in zip(*parts, strict=False) if len(set(column)) > 1]
    texts = varied[0] if varied else ("",)
    if len(varied) != 1 or len(set(map(len, parts))) > 1 or not all(0 < len(t) <= 9 and t.isdecimal() for t in texts):
        return range(len(paths)), ""
    numbers = [int(text) for text in texts]
    steps = [after - before for before, after in pairwise(numbers)]
    step, times = Counter(steps).most_common(1)[0]
    gaps = [(before + step, after - step) for before, after in pairwise(numbers) if after - before != step]
    # 115959 is followed by 120000, and 20240131 by 20240201
    ends = [str(number).zfill(len(texts[0])) for gap in gaps for number in gap]
    by_clock = all(map(_is_clock, texts)) and not all(map(_is_clock, ends))
    if step < 1 or 2 * times <= len(steps) or min(steps) < step or any(each % step for each in steps) or by_clock:
        return range(len(paths)), ""
    count = sum((last - first) // step + 1 for first, last in gaps)
    places = ", ".join(f"{first} to {last}" if last > first else str(first) for first, last in gaps[:SHOWN_GAPS])
    more = ", ..." * (len(gaps) > SHOWN_GAPS)
    verb = "is" if count == 1 else "are"
    said = f"{counted(count, 'number')} {verb} missing: {places}{more}; later pictures keep their times"
    return [(number - numbers[0]) // step for number in numbers], said * bool(gaps)


def _is_clock(text: str) -> bool:
    """Return whether a number is a time of day, such as 235959, or a date, such as 20240131."""
    for form in {4: ("%H%M",), 6: ("%H%M%S", "%y%m%d"), 8: ("%Y%m%d",)}.get(len(text), ()):
        with suppress(ValueError):
            return bool(datetime.strptime(text, form))
    return False


def dated(names: Sequence[str]) -> tuple[datetime, list[float]] | None:
    """Return the time in the first name, and seconds since then; None unless each name has a date with a time."""
    found = [[*STAMP.finditer(name)] for name in names]
    if any(len(each) != 1 for each in found):
        return None
    try:
        times = [_at(*each[0].groups()) for each in found]
    except ValueError:  # the 31st of February, or 25 o'clock
        return None
    return times[0], [(time - times[0]).total_seconds() for time in times]


def _at(year: str, month: str, day: str, hour: str, minute: str, second: str, part: str | None) -> datetime:
    """Return the time of a stamp; `part` has the digits of a part of a second."""
    return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), int(f"{part or 0:0<6}"))


def names_of(sources: Any, name: str = "sources") -> list[str]:
    """Return one or several paths as a list of texts; raise ParameterError for anything else, such as arrays."""
    listed = [sources] if isinstance(sources, str | os.PathLike) or not isinstance(sources, Iterable) else list(sources)
    for path in listed:
        check_path(path, name)
    return [str(path) for path in listed]


def check_path(path: Any, name: str) -> None:
    """Raise ParameterError for what is not the path of a file."""
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"{name} must be the path of a file; got {' '.join(repr(path).split()):.80}")


def stem_of(source: str | Path) -> str:
    """Return the name with which the results of an input begin.

    The input is a file, ``sample:NAME``, a pattern, ``-``, a URL or a camera: "sea" for ``photos/sea.png``, "frames"
    for ``frames/*.png``, "stdin" for ``-``, and "yard" for ``rtsp://gate:554/yard?x=1``. The pictures of a clip that
    lie in a folder "input", as in CDnet, have the name of the folder above.
    """
    check_path(source, "source")
    name = str(source)
    if name == "-":
        return "stdin"
    if name.startswith(SAMPLE_PREFIX):
        return name.removeprefix(SAMPLE_PREFIX)
    # The groups of an address are its server with port, and its path up to a question mark or hash.
    if address := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#]*@)?([^/?#]*)([^?#]*)", name):
        return Path(address[2]).stem or re.sub(r"[^A-Za-z0-9.-]", "_", address[1])
    path, is_pattern = Path(name), glob.has_magic(name) and not os.path.lexists(name)
    if is_pattern:
        path = Path(*(part for part in path.parts if not glob.has_magic(part)))
    if path.name == "input":
        return Path(os.path.abspath(path)).parent.name or "input"
    return (path.name if is_pattern else path.stem.replace(":", "_")) or "pictures"


def regular_file(path: str | Path, kind: str) -> Path:
    """Return a path if it is a readable, regular file that is not empty; `kind` names it in messages ("image").

    Raises UnreadableError for a file that is missing, empty or may not be read, an archive, a folder, a URL, ``-``, and
    anything that is not a regular file (a pipe could block for ever).
    """
    check_is_path(path, kind)
    path = Path(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableError(f"{path}: a folder, not a file; name the files in it, for instance {path}/*")
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(f"{path}: not a regular file; copy the {kind} into a file first")
        if status.st_size == 0:
            raise UnreadableError(f"{path}: the file is empty (0 bytes)")
        if path.suffix.lower() in ARCHIVES:
            raise UnreadableError(
                f"{path}: an archive, which cannot be read; unpack it first, and give the files in it"
            )
        with path.open("rb"):
            return path
    except FileNotFoundError as error:
        raise UnreadableError(f"{path}: no such file") from error
    except PermissionError as error:
        raise UnreadableError(f"{path}: permission to read the file is denied") from error
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise UnreadableError(f"{str(path)!r}: cannot be opened ({error})") from error


def read_text(path: str | Path, kind: str, encoding: str = "utf-8") -> str:
    """Return the text of a file of at most 256 MiB; raise UnreadableError, also if it is not in its encoding."""
    path = regular_file(path, kind)
    if path.stat().st_size > MOST_TEXT:
        raise TooLargeError(f"{path}: more than {MOST_TEXT >> 20} MiB; divide it into several files")
    return decoded(path, path.read_bytes(), encoding)


def decoded(path: str | Path, content: bytes, encoding: str = "utf-8") -> str:
    """Return the text of a file, or of its beginning; raise UnreadableError, with the cure, if it is not UTF-8."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        other = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin1"
        line = 1 + content.count(b"\n", 0, error.start)
        cure = f"convert it first, for instance by: iconv -f {other} -t utf-8 OLD > NEW"
        raise UnreadableError(f"{path}: line {line} is not UTF-8; {cure}") from error


@contextmanager
def in_utf8(path: Path) -> Iterator[None]:
    """Let the error of a file that is not UTF-8, which others read, be that of :func:`decoded`."""
    try:
        yield
    except UnicodeDecodeError:  # it knows neither the file nor the line
        decoded(path, path.read_bytes())
        raise


def check_is_path(path: str | Path, kind: str) -> None:
    """Raise UnreadableError, with the cure, for a URL or ``-``, and ParameterError for what is not a path."""
    check_path(path, kind)
    name = without_password(str(path))
    if name == "-":
        raise UnreadableError(f"-: standard input is not read here; write the {kind} into a file first")
    if address := re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", name):
        how = (
            f"record a part of it first, for instance: ffmpeg -i {name} -t 60 -c copy part.mkv"
            if address[1].lower() in ("rtsp", "rtsps", "rtmp", "rtp", "udp", "srt")
            else "download it first"
        )
        raise UnreadableError(f"{name}: an address, and only files are read; {how}")


def check_bytes(name: object, count: int) -> None:
    """Raise TooLargeError if `count` bytes are more than 1 GiB."""
    if count > MAX_BYTES:
        raise TooLargeError(f"{name} has {count} bytes, more than {MAX_BYTES}; divide it, or make it smaller, first.")


# --- lines of text ----------------------------------------------------------------------------------------------------


def _text(line: bytes) -> str:
    """Return a line as text, also if it is UTF-16 of ASCII characters."""
    if b"\0" in line:  # UTF-16 of ASCII characters reads as ASCII without its NULs and byte order mark
        line = line.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    return line[:LINE_BYTES].decode("utf-8", "replace").strip("\r\ufeff")


def check_is_text(path: Path) -> None:
    """Raise UnreadableError if a file begins like a file of another kind, or has too many control characters."""
    with path.open("rb") as file:
        start = file.read(EXAMINED_BYTES)
    # In UTF-16 of ASCII characters every second byte is NUL; with more than 40 % of them, NULs are not counted.
    text = start.replace(b"\0", b"") if start.count(b"\0") * 5 > len(start) * 2 else start  # UTF-16
    controls = sum(text.count(bytes([code])) for code in range(32) if code not in b"\t\n\r\f\x1b\x07\x08")
    if start.startswith(_OTHER_FILES) or (len(text) >= MIN_EXAMINED and controls > MAX_CONTROL_SHARE * len(text)):
        raise UnreadableError(f"{path}: not a text file; unpack it first if it is compressed")


def check_is_utf8(path: Path) -> None:
    """Raise UnreadableError if a file begins like text in Latin-1: damaged lines of other files are no such text."""
    with path.open("rb") as file:
        start = file.read(EXAMINED_BYTES)
    start = start[: start.rfind(b"\n") + 1]  # characters of several bytes are not cut
    if not _NOT_LATIN1.search(start):
        decoded(path, start)


def standard_input(*, poll: float = 0.5, stop: Callable[[], bool] | None = None) -> Iterator[Line]:
    """Yield the lines of standard input, and None after each `poll` seconds without any, until `stop()` is true."""
    number = sys.stdin.fileno()

    def pieces() -> Iterator[bytes | None]:
        while stop is None or not stop():
            waiting = select.select([number], [], [], poll)[0]
            data = os.read(number, CHUNK_BYTES) if waiting else None
            if data == b"":
                return
            yield data

    return _lines(pieces())


def file_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file."""
    with path.open("rb") as file:
        yield from _lines(iter(lambda: file.read(CHUNK_BYTES), b""))


def _lines(pieces: Iterator[bytes | None]) -> Iterator[Line]:
    """Yield the lines of bytes that come in pieces, and None for each None; up to `LINE_BYTES` of a line are kept."""
    rest = b""  # the beginning of a line whose end has not come
    for piece in pieces:
        if piece is None:
            yield None
            continue
        *whole, last = piece.split(b"\n")
        for part in whole:
            yield _text(rest + part[:LINE_BYTES])  # _text cuts the sum again
            rest = b""
        rest += last[: max(0, LINE_BYTES - len(rest))]
    if rest:
        yield _text(rest)
