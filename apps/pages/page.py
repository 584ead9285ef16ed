"""The page of a run: what it says first, what needs attention, and a section for each input, within fixed limits."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import platform
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import cv2
import numpy as np

from visionnmf import __version__
from visionnmf._html import reduced
from visionnmf._text import as_column, one_line, printable
from visionnmf.apps.report import Report
from visionnmf.apps.runner import DEVIATION
from visionnmf.exceptions import VisionNMFError
from visionnmf.io import VideoWriter, open_video, output_file, output_folder, read_image, record_of

Block = dict[str, Any]  # what the template shows by its macro of the name "kind"

HERE = Path(__file__).parent
MOST_SECTIONS = 24  # inputs that have a section of their own; further ones have a line
MOST_ROWS = 1000  # of a table
MOST_UNFOLDED = 40  # rows of a table that is seen at once
MOST_TILES = 200  # pictures of a contact sheet
MOST_SENTENCES = 100  # of each kind that needs attention, and names of files of an input
FEW = 8  # inputs that a sentence names at once
MOST_PICTURES = 6  # written pictures that a section shows if its kind shows nothing else
MOST_LETTERS = 200  # of a figure among the details; longer ones are left to blocks and files
ROOM = 7 << 20  # characters of pictures and videos; with the rest a page stays below 10 MB
LARGE, SMALL = 900, 160  # pixels of a picture's longer side
QUALITY = 85  # of JPEG
PNG_PIXELS = 1 << 14  # smaller pictures are kept without loss
VECTOR = "image/svg+xml"
STATES = {"done": "done", "exists": "skipped: results exist", "failed": "failed"}


class Image(NamedTuple):
    """A picture as an address, its size in pixels as shown (0: its own), and what it shows, in words."""

    src: str
    width: int
    height: int
    alt: str


class Clip(NamedTuple):
    """The panels of a preview as short videos of one length, and the time of each shown frame, from the first one."""

    panels: list[str]
    width: int
    height: int
    rate: float
    times: list[float]


@dataclass
class Page:
    """The page of a run of any command, which takes its reports; subclasses say what their pages have besides."""

    heading: ClassVar[str] = ""  # what was done; empty for the name of the command
    inputs: ClassVar[str] = "inputs"  # what they are called
    columns: ClassVar[tuple[str, ...]] = ("input", "state", "result")  # of the table of all inputs
    overview: ClassVar[str] = ""  # what is above it; empty for "All inputs"
    pictured: ClassVar[str] = ""  # how the names of written pictures end that are in that table; empty for none
    most_sections: ClassVar[int] = MOST_SECTIONS
    stacked: ClassVar[bool] = False  # whether columns of tables are below each other on narrow screens
    n_lines: ClassVar[int | None] = None  # lines of a report that its section shows; None is all
    counted: ClassVar[Sequence[tuple[str, str]]] = ()  # figures that the headline counts, and their words
    first: ClassVar[Sequence[str]] = ()  # words of the headline that are there also if nothing was counted
    tables: ClassVar[Sequence[tuple[str, str]]] = ()  # figures, lists of records, and captions of their tables

    file: Path
    typed: Sequence[str]
    settings: Mapping[str, Any]
    force: bool
    cards: list[tuple[str, str]] = field(default_factory=list)  # figures that come first, each with what it is
    counts: Counter[str] = field(default_factory=Counter)  # numbers that come next, by what they count
    sections: list[Block] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)  # of the table of all inputs
    # the sentences of each kind, with the names and the numbers of sections, if any, of the inputs that they are about
    attention: dict[str, dict[str, dict[tuple[str, int], None]]] = field(default_factory=dict)
    limits: Counter[str] = field(default_factory=Counter)  # how much was left out of the page, by what it is
    states: Counter[str] = field(default_factory=Counter)
    n_warned: int = 0  # inputs with warnings
    places: Iterator[int] = field(default_factory=lambda: count(1))  # numbers of sections, also of those dropped
    room: int = ROOM
    began: float = field(default_factory=time.time)
    collected: list[Any] = field(default_factory=list)  # what a subclass needs of all inputs

    def __post_init__(self) -> None:
        self.counts.update(dict.fromkeys(self.first, 0))

    # --- what subclasses say ------------------------------------------------------------------------------------------

    def count(self, report: Report) -> None:
        """Count an input that was worked on, for the headline; also one for which there is no room."""
        for name, words in self.counted:
            found = report.figures[name]
            self.counts[words] += found if isinstance(found, int) else len(found)

    def headline(self) -> list[tuple[str, str]]:
        """Return the figures that a reader wants first, each with what it is."""
        counted = [(str(n), words.removesuffix("s") if n == 1 else words) for words, n in self.counts.items()]
        return [*self.cards, *counted]

    def summary(self) -> Iterable[Block]:
        """Return what is shown about all inputs together."""
        return []

    def name(self, report: Report) -> str:
        """Return what an input is called."""
        return ", ".join(report.inputs) or (report.lines or [""])[0]

    def row(self, report: Report, link: str) -> list[Any]:
        """Return the row of an input in the table of all, if it has one; `link` leads to its section."""
        words = report.error or (report.lines[:1] or report.notes[:1] or [""])[0]
        words += "; what the earlier run warned of is not repeated here" * (report.state == "exists")
        name = self.name(report)
        row = [cell(name, href=link), *self.numbers(report), self.state(report), words.removeprefix(f"{name}: ")]
        file = written(report, self.pictured) if len(self.rows) < MOST_ROWS else ""
        image = self.image(file, name, SMALL) if self.pictured and Path(file).is_file() else None
        return [cell("") | {"image": image}] * bool(self.pictured) + row

    def state(self, report: Report) -> str:
        """Return what became of an input, in words."""
        return STATES[report.state]

    def numbers(self, report: Report) -> list[Any]:
        """Return the numbers of an input in that table, also of one that failed."""
        return []

    def has_section(self, report: Report) -> bool:
        """Return whether an input that was worked on deserves a section."""
        return True

    def comes_first(self, report: Report) -> bool:
        """Return whether the section of an input stands above others, and in place of one where there is no room."""
        return bool(report.warnings)

    def text(self, report: Report) -> list[str]:
        """Return what was found in words: a line that stands above the blocks, and lines below them."""
        return report.lines[: self.n_lines]

    def blocks(self, report: Report) -> Iterable[Block]:
        """Yield what a section shows of its input: here what `shown` has, or the first pictures that were written."""
        for caption, (columns, rows) in report.shown.get("tables", {}).items():
            yield self.table(columns, rows, caption)
        for caption, tiles in report.shown.get("sheets", {}).items():
            yield self.sheet(tiles, caption)
        for caption, draw in report.shown.get("drawings", {}).items():
            yield from self.figure(draw(), caption)
        for name, caption in self.tables:
            yield self.records(report.figures[name], caption)
        if report.shown:
            return
        pictures = [name for name in report.outputs if name.endswith(".png")]
        self.limits["pictures and videos"] += max(0, len(pictures) - MOST_PICTURES)
        for name in pictures[:MOST_PICTURES]:
            yield from self.figure(name, Path(name).name)

    # --- reports ------------------------------------------------------------------------------------------------------

    def add(self, report: Report) -> None:
        """Take the report of an input, and show it while there is room."""
        self.states[report.state] += 1
        self.n_warned += bool(report.warnings)
        done, number = report.state == "done", 0
        if done:
            self.count(report)
        if done and self.has_section(report):
            full = len(self.sections) >= self.most_sections
            # an input that comes first takes the place and the room of the latest that does not
            while self.comes_first(report) and (full or self.room < ROOM // self.most_sections):
                if not (quiet := [one for one in self.sections if not one["first"]]):
                    break
                self.sections, full = [one for one in self.sections if one is not quiet[-1]], False
                self.room += quiet[-1]["size"]
                self.limits[f"sections of {self.inputs}"] += 1
            if not full:
                number = next(self.places)
                self.sections.append(self._section(report, number))
            else:
                self.limits[f"sections of {self.inputs}"] += 1
        said = {"Failed": [report.error] * bool(report.error), "Left out": report.skipped, "Warnings": report.warnings}
        name = self.name(report) if done else "".join(report.inputs[:1])
        for kind, sentences in (said | {"Notes": report.notes if done else []}).items():
            for sentence in sentences:
                adds = len(report.inputs) == 1 and name not in sentence
                whose = name if adds or sentence.startswith(f"{name}: ") else ""
                self.tell(kind, sentence.removeprefix(f"{name}: "), whose, number)
        self.rows += filter(None, [self.row(report, f"#s{number}" if number else "")])

    def tell(self, kind: str, sentence: str, name: str = "", number: int = 0) -> None:
        """Add a sentence that needs attention, about the input of a name, or in the section of a number."""
        self.attention.setdefault(kind, {}).setdefault(sentence, {})[name, number] = None

    def _section(self, report: Report, number: int) -> Block:
        """Return the section of an input."""
        before = self.room
        blocks: list[Block] = []
        try:
            for block in self.blocks(report):
                blocks.append(block)
        except (VisionNMFError, OSError) as error:  # for example, an input was moved in the meantime
            self.tell("Left out", f"not shown: {one_line(error)}", number=number)
        made = next(filter(None, map(record_of, report.outputs[:1])), {})
        details = {"made from": made.get("input", "")} | report.figures
        shown = [(name.replace("_", " "), text) for name, value in details.items() if (text := _brief(value))]
        self.limits["names of written files"] += max(0, len(report.outputs) - MOST_SENTENCES)
        name = self.name(report)
        line, *more = self.text(report) or [""]
        shift = min((len(one) - len(one.lstrip()) for one in more), default=0)
        line = "" if line == name else line.removeprefix(f"{name}: ")
        found: Block = {"name": name, "line": line, "text": [one[shift:] for one in more], "blocks": blocks}
        found |= {"number": number, "size": before - self.room, "first": self.comes_first(report)}
        found |= {"warnings": [sentence.removeprefix(f"{name}: ") for sentence in report.warnings]}
        return found | {"details": shown, "files": report.outputs[:MOST_SENTENCES]}

    # --- blocks -------------------------------------------------------------------------------------------------------

    def taken(self, *addresses: str) -> bool:
        """Return whether there is room for pictures or videos, and take it; otherwise the page says what it lacks."""
        size = sum(map(len, addresses))
        if size > self.room:
            self.limits["pictures and videos"] += len(addresses)
            return False
        self.room -= size
        return True

    def image(self, picture: Any, alt: str, longest: int = LARGE) -> Image | None:
        """Return a picture, given by its pixels or the name of its file, if there is room for it."""
        image = as_image(picture, longest, alt)
        return image if self.taken(image.src) else None

    def figure(self, picture: Any, caption: str) -> Iterator[Block]:
        """Yield a picture, given by its pixels or the name of its file, or a figure of matplotlib."""
        image = self.image(picture, caption)
        if image is not None:
            yield {"kind": "figure", "image": image, "caption": caption}

    def table(self, columns: Sequence[Any], rows: Sequence[Sequence[Any]], caption: str = "", whole: int = 0) -> Block:
        """Return a table that readers can sort, with bars up to `whole`; what is not a :func:`cell` becomes one."""
        self.limits["rows of tables"] += max(0, len(rows) - MOST_ROWS)
        cells = [[one if isinstance(one, dict) else cell(one) for one in row] for row in rows[:MOST_ROWS]]
        longest = [whole or max(one["bar"] or 0.0 for one in column) for column in zip(*cells, strict=True)]
        folded = bool(caption) and len(cells) > MOST_UNFOLDED
        shown = {"kind": "table", "columns": columns, "rows": cells, "caption": caption, "folded": folded}
        return shown | {"stacked": self.stacked, "longest": longest, "relative": not whole and any(longest)}

    def records(self, rows: Sequence[Mapping[str, Any]], caption: str) -> Block:
        """Return rows with named values as a table, without columns that have no value; deviations join the means."""
        names = [name for name in dict.fromkeys(name for row in rows for name in row) if not name.endswith(DEVIATION)]
        names = [name for name in names if any(row.get(name) is not None for row in rows)]
        columns = []
        for name in names:
            values, deviations = ([row.get(key) for row in rows] for key in (name, name + DEVIATION))
            texts = as_column(values, deviations)
            columns.append([cell(value, text=text) for value, text in zip(values, texts, strict=True)])
        return self.table([name.replace("_", " ") for name in names], list(zip(*columns, strict=True)), caption)

    def sheet(self, tiles: Sequence[tuple[Any, str]], caption: str) -> Block:
        """Return a contact sheet of pictures, each with a line."""
        self.limits["pictures and videos"] += max(0, len(tiles) - MOST_TILES)
        made = [{"image": self.image(picture, text, SMALL), "text": text} for picture, text in tiles[:MOST_TILES]]
        return {"kind": "sheet", "tiles": made, "caption": caption}

    # --- the file -----------------------------------------------------------------------------------------------------

    def write(self, seconds: float) -> None:
        """Write the page, whole or not at all."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        style, script = ((HERE / f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
        options: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
        # no text steers anything; the template escapes it afterwards
        options["finalize"] = lambda value: printable(value) if type(value) is str else value
        environment = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, **options)
        overview = self.table(self.columns, self.rows, self.overview or f"All {self.inputs}") | {"stacked": True}
        summary = list(self.summary())
        kinds = [kind for kind in ("Failed", "Left out", "Warnings", "Notes") if kind in self.attention]
        for kind in kinds:
            self.limits[f"sentences under “{kind}”"] += max(0, len(self.attention[kind]) - MOST_SENTENCES)
        rest = [(self.states[state], STATES[state]) for state in ("failed", "exists")]
        rest += [(self.n_warned, "with warnings"), (self.limits[f"sections of {self.inputs}"], "without a section")]
        kept = {f"#s{one['number']}" for one in self.sections}
        content = environment.get_template("page.html").render(
            title=self.heading or self.typed[0],
            headline=[*self.headline(), *((str(count), words) for count, words in rest if count)],
            attention={kind: list(self.attention[kind].items())[:MOST_SENTENCES] for kind in kinds},
            inputs=self.inputs,
            few=FEW,
            most=MOST_SENTENCES,
            summary=[*summary, *([overview] if len(self.rows) > 1 else [])],
            sections=sorted(self.sections, key=lambda one: not one["first"]),
            names={one["number"]: one["name"] for one in self.sections},
            linked=lambda href: not href.startswith("#s") or href in kept,
            about={
                "command": f"{self.typed[0]} {shlex.join(self.typed[1:])}",
                "settings": "; ".join(f"{name} = {value}" for name, value in self.settings.items())
                or "all settings have their defaults",
                "version": f"visionnmf {__version__}, Python {platform.python_version()}",
                "machine": f"{platform.system()} {platform.machine()}",
                "begun": time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(self.began)),
                "took": f"{seconds:.1f} s",
            },
            limits=[(what, count) for what, count in self.limits.items() if count > 0],
            style=style,
            script=script,
            digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
        output_folder(self.file.parent)
        with output_file(self.file, force=self.force) as temporary:
            temporary.write_text(content, "utf-8")


def cell(value: Any, *, bar: float | None = None, shade: float = 0.0, **more: str) -> Block:
    """Return a table's cell: `text`, what it is sorted by, a `bar` (>= 0) or `shade` (0 to 1), `colour` and `href`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = "" if value is None or (number and not math.isfinite(value)) else _number(value)
    sort = value if number and text else text
    bar = None if bar is None or not math.isfinite(bar) else max(0.0, bar)
    return {"text": text, "sort": sort, "number": number, "bar": bar, "shade": shade, "colour": "", "href": ""} | more


def share_cell(share: float) -> Block:
    """Return a share, 0 to 1, as a cell in per cent."""
    return cell(round(100 * share, 2), bar=share, text=f"{100 * share:.2f}")


def written(report: Report, ending: str) -> str:
    """Return the written file whose name ends so; an empty text if there is none."""
    return next((file for file in report.outputs if file.endswith(ending)), "")


def _number(value: Any) -> str:
    """Return a value as text, numbers with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _brief(value: Any) -> str:
    """Return a figure as text; nothing for one that is long or has parts."""
    if isinstance(value, list | tuple) and 0 < len(value) <= 2 and all(isinstance(one, int) for one in value):
        value = " x ".join(map(str, value))
    return text if isinstance(value, float | int | str) and len(text := _number(value)) <= MOST_LETTERS else ""


def as_image(picture: Any, longest: int, alt: str = "") -> Image:
    """Return a grey or RGB picture as JPEG, small ones as PNG, and a figure of matplotlib, or such a file, as SVG."""
    if hasattr(picture, "savefig"):  # its letters are drawn, so that it needs no font
        buffer = io.BytesIO()
        picture.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
        return Image(address(buffer.getvalue(), VECTOR), 0, 0, alt)
    if isinstance(picture, str) and picture.endswith(".svg"):
        return Image(address(Path(picture).read_bytes(), VECTOR), 0, 0, alt)
    small = reduced(read_image(picture) if isinstance(picture, str) else picture, longest)
    height, width = small.shape[:2]
    kind, options = ("png", []) if small.size <= PNG_PIXELS else ("jpeg", [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    stored = np.ascontiguousarray(small[..., ::-1] if small.ndim == 3 else small)
    content = cv2.imencode(f".{kind}", stored, options)[1].tobytes()
    return Image(address(content, f"image/{kind}"), width, height, alt)


def address(content: bytes, kind: str) -> str:
    """Return the address that holds a content of a MIME type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def as_clip(preview: str | Path, n_panels: int, caption: int, *, frames: int, most: int, width: int) -> Clip:
    """Return panels of a preview, without `caption` rows, at most `width` wide, as videos of `most` of its `frames`."""
    every = -(-frames // most)
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.mp4" for number in range(n_panels)]
        with open_video(preview) as reader, ExitStack() as stack:
            rate = max(1.0, float(reader.frame_rate) / every)
            writers: list[VideoWriter] = []
            for frame in islice(reader.timed(), 0, every * most, every):
                parts = [reduced(part, width) for part in np.split(frame.picture[caption:], n_panels, axis=1)]
                high, wide = (max(2, side // 2 * 2) for side in parts[0].shape[:2])  # H.264 takes even sides
                if not writers:
                    shape = {"width": wide, "height": high, "frame_rate": rate}
                    made = [VideoWriter(file, codec="h264", force=True, **shape) for file in files]
                    writers = [stack.enter_context(writer) for writer in made]
                times.append(frame.time)
                for writer, part in zip(writers, parts, strict=True):
                    writer.write(np.ascontiguousarray(part[:high, :wide]))
        panels = [address(file.read_bytes(), "video/mp4") for file in files]
    return Clip(panels, wide, high, rate, times)
