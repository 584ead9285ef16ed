"""The pages of the commands: which figures come first, and which blocks show a report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import cv2
import numpy as np

from visionnmf._html import reduced
from visionnmf._text import counted, printable
from visionnmf.apps.drawing import enlarged
from visionnmf.apps.report import Report
from visionnmf.apps.runner import score_columns
from visionnmf.exceptions import OutputExistsError, ParameterError, installed_by
from visionnmf.io import check_outputs, check_parents, read_image, read_photograph

from .page import LARGE, MOST_ROWS, SMALL, Block, Clip, Page, as_clip, cell, share_cell, written

CLIP_FRAMES, CLIP_WIDTH = 150, 320  # of a video's players
CAPTION = 20  # pixel rows above the panels of a preview
MOST_POINTS = 2000  # sessions of a timeline, events of a video
WIDTH, HEIGHT, EDGE, TOP, LEFT = 900, 300, 12, 36, 70  # of a timeline; what is below, above and left of its points
FACE, LEAST_FACE = 640, 200  # pixels of a photograph's longer side: at most, and at least
PANELS = ("as read", "corrupted pixels", "cleaned", "reconstructed")  # of a face
BLIND = ("no picture", "frozen", "changed", "pause", "too dark")  # reasons why a camera saw nothing for a while
FEW = 5  # methods whose score is in the headline
VERDICTS = ("confirmed", "level", "reversed")
SESSIONS = {"alarm": "alarms", "own": "own sessions", "learning": "learning sessions", "too short": "short sessions"}
SESSIONS["unknown user"] = "unknown-user sessions"
QUICK = "A quick run: fewer splits, starts or ranks. No claim is judged; do not cite the figures."


class SegmentPage(Page):
    """A slider between photograph and overlay, and a table of segments."""

    heading, inputs, n_lines, pictured = "Segments", "images", 1, "_overlay.png"
    columns = ("picture", "image", "segments", "state", "result")

    def numbers(self, report: Report) -> list[Any]:
        """Return how many segments there are."""
        return [len(report.sizes) if isinstance(report.figures.get("sizes"), list) else None]

    def count(self, report: Report) -> None:
        """Count the segments, and images."""
        self.counts.update({"segments": self.numbers(report)[0] or 0, "images": 1})

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield the slider and the table."""
        if isinstance(report.sizes, dict):  # of each method, with --method paper
            yield from super().blocks(report)
            yield self.table(["method", "segments"], [[name, len(own)] for name, own in report.sizes.items()])
            return
        pictures = read_photograph(report.inputs[0]), read_image(written(report, "_overlay.png"))
        names = ("photograph", "segments")
        images = [self.image(picture, name) for picture, name in zip(pictures, names, strict=True)]
        colours = _colours(*pictures, read_image(written(report, "_labels.png")), len(report.sizes))
        rows = [
            [cell(label, colour=own), cell(mean, colour=mean), size, share_cell(size / sum(report.sizes))]
            for label, (size, (own, mean)) in enumerate(zip(report.sizes, colours, strict=True))
        ]
        table = self.table(["segment", "mean colour", "pixels", "share, %"], rows)
        yield {"kind": "pair", "images": [] if None in images else images, "names": names, "table": table}


def _colours(photograph: Any, overlay: Any, labels: Any, count: int) -> Iterator[list[str]]:
    """Yield how each segment looks in the overlay, whose borders and numbers count little, and in the photograph."""
    small = reduced(photograph, LARGE)
    size: dict[str, Any] = {"dsize": small.shape[1::-1], "interpolation": cv2.INTER_NEAREST}
    drawn, labels = (cv2.resize(each, **size) for each in (overlay, labels))
    for label in range(count):
        inside = labels.reshape(*small.shape[:2], -1)[..., 0] == label
        # a segment may be too small for the reduced picture
        found = (np.median(drawn[inside], axis=0), small[inside].mean(axis=0)) if inside.any() else (0, 0)
        yield ["#" + np.broadcast_to(np.rint(colour).astype(np.uint8), 3).tobytes().hex() for colour in found]


class BackgroundPage(Page):
    """Players of frame, background and mask, and a timeline of events."""

    heading, inputs, pictured, stacked = "Background and foreground", "videos", "_background.png", True
    columns = ("background", "video", "events", "foreground, %", "state", "result")

    def headline(self) -> list[tuple[str, str]]:
        """Return the share of foreground, and the number of events where they were asked for."""
        what = "of the pixels are foreground" + ", mean over the videos" * (len(self.collected) > 1)
        shares = [(f"{np.mean(self.collected):.2%}", what)] if self.collected else []
        return [*shares, *super().headline()]

    def count(self, report: Report) -> None:
        """Note the share of foreground, and count the events; a live run that was finished already has no frames."""
        n_events, share = self.numbers(report)
        self.collected += [] if share is None else [share["bar"]]
        if share is not None and n_events is not None:
            self.counts["events"] += n_events

    def numbers(self, report: Report) -> list[Any]:
        """Return the number of events and the share of foreground, of a live run or another one."""
        found, events = report.figures.get("masks", report), report.figures.get("events")
        share = getattr(found, "foreground_share", None) if report.figures.get("frames") else None
        return [None if events is None else len(events), share if share is None else share_cell(share)]

    def state(self, report: Report) -> str:
        """Return what became of a video, and why the camera could not see."""
        reasons = dict.fromkeys(row["reason"] for row in report.figures.get("unseen", ()))
        return ", ".join([super().state(report), *reasons])

    def text(self, report: Report) -> list[str]:
        """Return the lines, without those of events, which are a block, and the notes."""
        name = self.name(report)
        notes = [f"  {note.removeprefix(f'{name}: ')}" for note in report.notes]
        return [line for line in report.lines if not line.startswith(("  events", "    "))] + notes

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield the players, or the background where there is no preview, and the events."""
        if not report.outputs:
            return
        first, clip = report.shown.get("first_time", 0.0), None
        preview, overlay = written(report, "_preview.mp4"), written(report, "_overlay.mp4")
        names = ("frame", "background", "foreground") if preview else ("overlay",)
        if (preview or overlay) and self.room > 0:
            rows, width = (CAPTION, CLIP_WIDTH) if preview else (0, 2 * CLIP_WIDTH)
            limits = {"frames": report.frames, "most": CLIP_FRAMES, "width": width}
            clip = as_clip(preview or overlay, len(names), rows, **limits)
            clip = clip if self.taken(*clip.panels) else None
        if clip is not None:
            codes = [_clock(first + time) for time in clip.times]
            caption = f"{len(codes)} of {counted(report.frames, 'frame')}, {clip.width} x {clip.height} pixels"
            yield {"kind": "players", "clip": clip, "names": names, "codes": codes, "caption": caption}
        else:
            yield from self.figure(written(report, "_background.png"), "background")
        if report.events or any(row["reason"] in BLIND for row in report.figures.get("unseen", [])):
            yield from self._events(report, clip, first)

    def _events(self, report: Report, clip: Clip | None, first: float) -> Iterator[Block]:
        """Yield when events were, when nothing was seen, and a table whose pictures lead to the moments of events."""
        padding = report.shown.get("padding", 0.0)
        moments = first + np.array(clip.times if clip is not None else [0.0])
        # other reasons have no times of their own, such as damage and little contrast
        blind = [row for row in report.figures.get("unseen", []) if row["reason"] in BLIND]
        events = report.events or []
        last = max(moments[-1], report.shown.get("last_time", first), *(row["end"] or 0.0 for row in [*events, *blind]))

        def span(start: float, end: float | None) -> Block:
            """Return the place of a stretch on the timeline, in percent; one without an end goes on to the last."""
            sides = (
                100 * min(max(side - first, 0.0) / max(last - first, 1e-9), 1.0)
                for side in (start, last if end is None else end)
            )
            left, right = sides
            return {"left": round(left, 2), "wide": round(right - left, 2)}

        names, rows = ["picture", "event", "from", "to", "seconds", "area, %", "clip", "note"], list[list[Any]]()
        spans: list[Block] = []
        ends: list[float] = []  # when the last event ends in each lane, so that none hides another
        for event in events:
            start, end, results = event["start"], event["end"], Path(report.outputs[0])
            lane = next((i for i, before in enumerate(ends) if before <= start), len(ends))
            ends[lane : lane + 1] = [end]
            spans.append(span(start, end) | {"lane": lane})
            file = results.with_name(event["thumbnail"])
            is_shown = len(rows) < MOST_ROWS and file.is_file()
            image = self.image(str(file), f"event {event['event']}", SMALL) if is_shown else None
            frame = None if clip is None else int(np.abs(moments - event["peak_time"]).argmin())
            times = [cell(_clock(start)) | {"sort": start}, cell(_clock(end)) | {"sort": end}]
            times.append(cell(round(end - start, 1), text=f"{end - start:.1f}"))
            clip_file = event["clip"] and os.path.relpath(results.with_name(event["clip"]), self.file.parent)
            link = clip_file and cell(event["clip"], href=quote(os.fsencode(clip_file)))  # the page may be elsewhere
            seek = image and cell("") | {"image": image, "frame": frame}
            rows.append([seek, event["event"], *times, share_cell(event["peak_area"]), link, event["note"]])
        self.limits["events of the timeline"] += max(0, len(spans) - MOST_POINTS)
        self.limits["hatched stretches of the timeline"] += max(0, len(blind) - MOST_POINTS)
        block = {"kind": "events", "events": spans[:MOST_POINTS], "lanes": max(1, len(ends))}
        block |= {"blind": [span(row["start"], row["end"]) | {"reason": row["reason"]} for row in blind[:MOST_POINTS]]}
        asked = "Events were not asked for" if report.events is None else counted(len(rows), "event")
        yield block | {"ends": (_clock(first), _clock(last)), "caption": asked}
        if not rows:
            return
        kept = [place for place, values in enumerate(zip(*rows, strict=True)) if any(values)]
        caption = "Table of events" + f": times include up to {padding:g} s before and after" * (padding > 0)
        yield self.table([names[i] for i in kept], [[row[i] for i in kept] for row in rows], caption)


class FacesPage(Page):
    """Decisions with distances, and what was judged corrupted."""

    heading, inputs, n_lines, first = "Faces and who they are", "images", 1, ("known faces",)

    def summary(self) -> Iterator[Block]:
        """Yield the table of all faces."""
        columns = ["image", "person", "nearest", "distance", "threshold", "unlikeness", "limit", "corrupted, %"]
        rule = "a face, neither empty nor noise, is named if its distance is at most the threshold"
        yield self.table(columns, self.collected, f"Decisions: {rule}, and its unlikeness at most its limit")

    def row(self, report: Report, link: str) -> list[Any]:
        """Return nothing, because the faces have a table of their own, to which those of the image are added."""
        words = {None: "known faces", "unknown": "unknown faces", "unlike": "probable non-faces"}
        for one in [report.identity, *report.others] if report.state == "done" else []:
            self.counts[words[one.reason]] += 1
            distance = cell(one.distance, bar=one.distance)
            name = cell(self.name(report), href=link)
            unlikeness = one.unlikeness, one.unlikeness_limit
            decision = one.nearest, distance, one.threshold, *unlikeness, share_cell(one.corrupted)
            self.collected.append([name, _who(one), *decision])
        return []

    def comes_first(self, report: Report) -> bool:
        """Return whether a face is doubtful: nobody known, or no face."""
        return super().comes_first(report) or any(one.reason for one in (report.identity, *report.others))

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield the photograph with its faces, then each face, its corrupted pixels, cleaned, and reconstructed."""
        photograph = read_image(report.inputs[0])
        small = reduced(photograph, FACE)
        scale = len(small) / len(photograph)
        drawn = np.ascontiguousarray(np.broadcast_to(small.reshape(*small.shape[:2], -1), (*small.shape[:2], 3)))
        for box in report.boxes:
            row, column, height, width = (round(scale * side) for side in box)
            cv2.rectangle(drawn, (column, row), (column + width, row + height), (255, 64, 64), 2)
        yield from self.figure(enlarged(drawn, LEAST_FACE), "photograph")
        faces = [report.identity, *report.others]
        for one, *panels in zip(faces, *report.shown["panels"](), strict=True):
            for name, panel in zip(PANELS, panels, strict=True):
                yield from self.figure(enlarged(panel, LEAST_FACE), f"{_who(one)}: {name}")
        ranking = [[n, who, cell(away, bar=away)] for n, one in enumerate(faces, 1) for who, away in one.ranking]
        if len(ranking) > 1:
            yield self.table(["face", "person", "distance"], ranking, "Nearest people")


def _who(one: Any) -> str:
    """Return who is on a face, or why it has no name."""
    return {"unknown": "nobody known", "unlike": "probably not a face"}.get(one.reason) or str(one.person)


class TrainingPage(Page):
    """The people, the error rates, components, and what was judged corrupted on the training images."""

    heading, counted = "People that a model knows", (("people", "people"), ("images", "images"))


class ClusterPage(Page):
    """Contact sheets of groups of faces."""

    heading, n_lines = "Faces in clusters", 1

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield a sheet for each cluster."""
        numbers = np.unique(report.clusters)
        self.counts.update({"clusters": len(numbers), "images": len(report.clusters)})
        if report.accuracy is not None:
            self.cards.append((f"{report.accuracy:.1%}", "accuracy against the known people"))
        for number in numbers:
            members = np.flatnonzero(report.clusters == number)
            tiles = [(report.shown["images"][i], _short(report.images[i])) for i in members]
            yield self.sheet(tiles, f"Cluster {number}: {counted(len(members), 'image')}")


class AnnotatePage(Page):
    """Pictures with their words, and the training pictures behind each."""

    heading, n_lines, stacked = "Words for photographs", 0, True

    def name(self, report: Report) -> str:
        """Return how many images there are."""
        return counted(len(report.images), "image") if report.figures else super().name(report)

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield a picture and a table of words for each image, then how often each word was given."""
        words = Counter(one.word for image in report.images for one in image.words)
        self.counts.update({"images": len(report.images), "different words": len(words)})
        for name, given, unlike in report.images[:MOST_POINTS]:
            rows = [[w.word, cell(round(w.score, 3), bar=w.score), ", ".join(map(_short, w.because))] for w in given]
            # a table of features may name pictures that are elsewhere
            image = self.image(name, _short(name), 2 * SMALL) if Path(name).is_file() else None
            caption = _short(name) + ", unlike the training photographs" * (unlike > 1)
            table = self.table(["word", "score", "because of"], rows, caption, whole=report.shown.get("whole", 0))
            yield {"kind": "pair", "images": [image] * (image is not None), "table": table}
        self.limits["images"] += max(0, len(report.images) - MOST_POINTS)
        rows = [[word, cell(count, bar=count)] for word, count in words.most_common()]
        yield self.table(["word", "images"], rows, "How often each word was given")


class ViewsPage(Page):
    """The usage map: how much of each component is in each view."""

    heading, n_lines, tables = "Components of several views", 1, (("views", "Views"),)
    others = (("hardly_shared", "hardly shared (over 90 % in one view)"), ("private", "private components"))
    counted = (("samples", "samples"), ("n_components", "components"), ("shared", "shared components"), *others)

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield the usage map and the table of views."""
        rows = [[k, *(cell(round(share, 3), shade=share) for share in shares)] for k, shares in enumerate(report.usage)]
        names = [view["name"] for view in report.views]
        yield self.table(["component", *names], rows, "Usage: share of a component's energy in each view")
        yield from super().blocks(report)


class FilledPage(Page):
    """What was filled in, in each view."""

    heading, n_lines, tables = "Views filled in", 1, (("views", "Views"),)
    counted = (("samples", "samples"), ("n_components", "components"), ("filled", "views filled in"))


class UsersPage(Page):
    """The users, with the threshold of each, and doubtful sessions."""

    heading, n_lines, tables = "Users that a model knows", 0, (("users", "Users"),)

    def count(self, report: Report) -> None:
        """Count users, sessions, doubtful ones, and users whose sessions raise no alarm yet."""
        self.counts["users"] += len(report.users)
        words = {"sessions": "sessions", "doubtful": "doubtful sessions", "learning": "users with too few sessions"}
        self.counts.update({what: sum(row[name] for row in report.users) for name, what in words.items()})


class MasqueradePage(Page):
    """The timeline of scores, and the commands behind each alarm."""

    heading, inputs, overview, stacked = "Command sessions", "alarms", "Alarms", True
    columns = ("session", "score", "threshold", "severity", "begun", "log")
    most_sections, first = 200, ("alarms",)

    def name(self, report: Report) -> str:
        """Return the user, and the number of the session."""
        return f"{report.user}, session {report.index}"

    def has_section(self, report: Report) -> bool:
        """Return whether a session is an alarm."""
        return bool(report.verdict == "alarm")

    def row(self, report: Report, link: str) -> list[Any]:
        """Return the row of an alarm, and nothing for other sessions; each with a score gets a point."""
        if report.state != "done":
            return []
        self.counts[SESSIONS[report.verdict]] += 1
        if report.score is not None:
            words = f"{report.verdict}, {report.score:.1f} (threshold {report.threshold:.1f})"
            text = printable(", ".join(filter(None, (self.name(report), report.start, words))))
            above = report.score - report.threshold
            point = {"above": above, "of": report.verdict, "href": link, "text": text, "user": report.user}
            self.limits["points of the timeline"] += len(self.collected) == MOST_POINTS
            self.collected.append(point)
            del self.collected[:-MOST_POINTS]
        session = cell(self.name(report), href=link)
        row = [session, report.score, report.threshold, report.severity, report.start, report.source]
        return row if self.has_section(report) else []

    def summary(self) -> Iterator[Block]:
        """Yield the timeline: a band for each user, in the order of their first sessions."""
        users: dict[str, list[Block]] = {}
        for point in self.collected:
            users.setdefault(point["user"], []).append(point)
        if not (points := [*chain.from_iterable(users.values())]):
            return
        above = [point["above"] for point in points]
        low, high = min(-1.0, *above), max(1.0, *above)
        unit = 10.0 ** np.floor(np.log10(high - low))
        step = unit * (2 if high - low > 5 * unit else 1 if high - low > 2 * unit else 0.5)  # of two to six ticks
        ticks = (step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)).tolist()
        # ticks, then points, from the top
        y = np.round(TOP + (HEIGHT - TOP - EDGE) * (high - np.array([*ticks, *above])) / (high - low), 1).tolist()
        edges = np.linspace(LEFT, WIDTH, len(points) + 1)  # of the room of each point
        x = np.round((edges[1:] + edges[:-1]) / 2, 1).tolist()
        points = [point | {"x": i, "y": j} for point, i, j in zip(points, x, y[len(ticks) :], strict=True)]
        ends = edges[np.cumsum([0, *map(len, users.values())])].round(1).tolist()
        caption = "Score minus the user's threshold, in standard deviations: the sessions of each user in their order"
        found = {"axis": list(zip(ticks, y, strict=False)), "bands": list(zip(users, pairwise(ends), strict=True))}
        yield found | {"kind": "timeline", "size": (WIDTH, HEIGHT), "points": points, "caption": caption}

    def text(self, report: Report) -> list[str]:
        """Return the score, and the commands that are usual for the user."""
        return [report.lines[0], *([f"usual for {report.user}: {', '.join(report.usual)}"] if report.usual else [])]

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield the commands behind an alarm."""
        rows = []
        for one in report.reasons:
            where = "; ".join(f"{line['file']}:{line['line']}: {line['text']}" for line in one["lines"])
            rows.append([one["command"], one["count"], share_cell(one["share"]), one["sentence"], where])
        yield self.table(["command", "times", "share, %", "why", "where"], rows, "Commands behind this alarm")


class EvaluationPage(Page):
    """The table of methods, and curves."""

    heading = "Comparison of methods"

    def text(self, report: Report) -> list[str]:
        """Return what was compared; the table says the rest."""
        return [report.heading]

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield the table of means, all rows, and the curves."""
        methods = dict.fromkeys(row.get("method") for row in report.table)
        scores = score_columns(report.table)
        if scores and len(report.table) == len(methods) <= FEW:
            self.cards += [(cell(row[scores[0]])["text"], f"{scores[0]}: {row['method']}") for row in report.table]
        else:
            self.counts["methods"] += len(methods)
        yield self.records(report.table, "Means, and standard deviations over splits where there are several")
        if len(report.rows) > len(report.table):  # otherwise each mean is that of one row
            yield self.records(report.rows, "All rows")
        yield from super().blocks(report)


class ReproducePage(Page):
    """What the papers have beside ours, with curves."""

    heading, inputs = "Tables and figures of the papers", "items"
    most_sections = 200  # all of them, of which the last may lack their pictures
    columns = ("item", "data", "result")

    def name(self, report: Report) -> str:
        """Return the name and the title of an item; a failure of the whole run has neither."""
        return f"{report.figures['name']}: {report.title}" if report.figures else super().name(report)

    def row(self, report: Report, link: str) -> list[Any]:
        """Return the row of an item: its data, and how many claims came out, or why there is no result."""
        if "quick" in self.settings:
            self.tell("Notes", QUICK)
        if not report.figures:
            return super().row(report, link)
        verdicts = {kind: n for kind in VERDICTS if (n := sum(row[-1] == kind for row in report.rows))}
        self.counts.update({"items": 1} | {f"{kind} claims": n for kind, n in verdicts.items()})
        found = ", ".join(f"{n} {kind}" for kind, n in verdicts.items()) or counted(len(report.rows), "row")
        took = "not run" if report.seconds is None else f"{found}; {report.seconds:.1f} s"
        return [cell(self.name(report), href=link), report.available, report.error or took]

    def text(self, report: Report) -> list[str]:
        """Return what the paper claims, which data were used, and what was chosen."""
        names = {"claim": "The paper", "data": "Data", "replaced": "Other data than the paper's"}
        names |= {"missing": "Not repeated"}
        said = [f"{words}: {report.figures[name]}" for name, words in names.items() if report.figures[name]]
        return ["", *said, *report.protocol]

    def blocks(self, report: Report) -> Iterator[Block]:
        """Yield the comparison, the figures and the tables."""
        yield self.table(["what", "paper", "ours", "difference"], report.rows, "Paper and ours")
        for caption, file in zip(report.pictures, report.outputs, strict=True):
            yield from self.figure(file, caption)
        for caption, (columns, *rows) in report.tables.items():
            yield self.table(columns, rows, caption)


def _short(file: str) -> str:
    """Return a file with its folder, because many folders have a 0.png."""
    return str(Path(*Path(file).parts[-2:]))


def _clock(seconds: float) -> str:
    """Return a time as 1:02.3."""
    tenths = round(10 * seconds)
    return f"{tenths // 600}:{tenths // 10 % 60:02d}.{tenths % 10}"


KINDS: dict[str, type[Page]] = {
    "segment": SegmentPage,
    "background": BackgroundPage,
    "faces train": TrainingPage,
    "faces identify": FacesPage,
    "faces cluster": ClusterPage,
    "annotate predict": AnnotatePage,
    "multiview fit": ViewsPage,
    "multiview impute": FilledPage,
    "masquerade train": UsersPage,
    "masquerade score": MasqueradePage,
    "reproduce": ReproducePage,
}
"""The pages by the names of commands; those of `evaluate` share one, and other commands have the general one."""


def open_page(file: Path, typed: Sequence[str], settings: Mapping[str, Any], *, force: bool | None) -> Page:
    """Return the page of a run, as it was `typed`; `force` is None for a command that replaces nothing."""
    if find_spec("jinja2") is None:
        raise ParameterError(f"report needs jinja2, which is not installed; {installed_by('report')}")
    if file.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"report must be a file that ends in .html; got {str(file)!r}")
    try:
        check_outputs([file], bool(force))
    except OutputExistsError as error:
        if force is None:  # the command has no --force
            raise OutputExistsError(f"{file}: exists already; give another name, or remove it") from error
        raise
    check_parents([file], created=True)
    name = typed[0].partition(" ")[2]
    kind = EvaluationPage if name.startswith("evaluate") else KINDS.get(name, Page)
    return kind(file, typed, settings, bool(force))
