"""Events of single objects: the track of a connected part of the masks, from its first frame to its last.

Parts are linked by the assignment of least cost. A small part where an object is expected is a piece of it. Where a
part covers several objects, each that has been seen for at least `SETTLED` seconds is followed on in it; when it falls
apart, place, size and colour tell them apart. A part where no object is expected begins a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from .event_tables import Box, EventBuilder, MotionEvent
from .frame_arrays import FrameArray, Separated

Numbers = NDArray[np.float64]

MOST_PARTS = 100  # of a frame, the largest ones
LOST = 1.0  # seconds in which an object may be out of sight, but no longer than it was seen before
SETTLED = 1.0  # seconds after which an object that touches another remains one of its own
REACH = 1.0  # cost of not being found: the distance from the expected place, in sizes of the object
SIZE_COST, COLOUR_COST = 0.25, 1 / 64  # of e times the pixels, and of a grey level
LONGEST = 3.0  # times the usual distance between two frames, where some between them are missing
UNSURE = 0.5  # weight of the distance for an object that was hidden in a part with others
MEMORY = 0.3  # seconds over which speed and colour are averaged
INSIDE = 0.5  # share of a box that lies in another one, where it counts as inside
SPREAD = 1.3  # pieces of an object are together at most so many times as wide and high as the object was in one part
MINOR = 0.25  # objects that have less than this share of another's pixels do not hide where it is
SUDDEN = 0.2  # share of the picture: a larger part that objects have less than `MINOR` of is something else


@dataclass(eq=False)
class _Part:
    """A connected part of a mask, or several pieces of one object."""

    box: Numbers  # x, y, width, height in pixels
    area: float  # pixels
    colour: Numbers  # mean of its pixels
    is_whole: bool = True
    tracks: list[_Track] = field(default_factory=list)  # the objects in it, first the one that is assigned to it

    def shows_mainly(self, track: _Track) -> bool:
        """Return whether this part of a mask shows mainly `track`; others have less than a quarter of its pixels."""
        others = sum(other.area for other in self.tracks) - track.area
        return track is self.tracks[0] and others < MINOR * track.area


@dataclass(eq=False)
class _Track:
    """An object: its event, and what is known from the frames that show it alone."""

    event: MotionEvent
    box: Numbers  # where it was seen or is expected now, in pixels
    area: float
    colour: Numbers
    time: float  # of the last frame that shows it alone
    size: Numbers  # width and height when it was seen in one part
    speed: Numbers = field(default_factory=lambda: np.zeros(2))  # pixels a second, in x and y
    alone: float = 0.0  # seconds between the frames that show it alone
    weight: float = 1.0  # of the distance from the expected place

    def observe(self, part: _Part, time: float, passed: float) -> None:
        """Take over box, pixels, colour and speed from a part that shows this object alone, `passed` after a frame."""
        since = time - self.time
        self.alone += passed
        gain = min(1.0, max(passed / self.alone, since / MEMORY))
        # `box` is where the present speed had the object expected, so that the difference corrects the speed.
        self.speed += gain * (_centre(part.box) - _centre(self.box)) / since
        self.colour += gain * (part.colour - self.colour)
        self.size, self.weight = part.box[2:] if part.is_whole else self.size, 1.0
        self.box, self.area, self.time = part.box, part.area, time

    def stay_in(self, box: Numbers, passed: float) -> None:
        """Move the expected box back into a part's `box`, no faster than the object has moved in `passed` seconds."""
        # The box was moved by the speed already: up to twice as far back is the same speed in the other direction.
        most = 2 * passed * np.abs(self.speed)
        # the last upper left corner from which this box still lies in the other, if it is not larger
        last = np.maximum(box[:2] + box[2:] - self.box[2:], box[:2])
        inside = np.clip(self.box[:2], box[:2], last)
        self.box[:2] += np.clip(inside - self.box[:2], -most, most)
        self.weight = UNSURE


class ObjectFinder:
    """Links the parts of masks to objects as frames come; takes the place of :class:`.EventFinder`."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder  # opens, extends and ends events
        self._lost: list[MotionEvent] = []  # of objects that do not come back, until their padding has passed
        self._tracks: list[_Track] = []  # the objects that are in sight or may come back
        self._clock = 0.0  # seconds for which objects have moved

    def add(self, part: Separated, boxes: list[Box]) -> list[MotionEvent]:
        """Take the next frame and the boxes of its mask; return the events that have ended.

        Tracks that were not seen for longer than LOST seconds, or than they were seen before, are given up, the others
        moved to where they are expected. Then parts are assigned to tracks, and parts without one begin new ones. Of
        several tracks in a part, those go on that have lasted long enough or that it mainly shows. The others are
        dropped with their events, because they were pieces of an object or hardly seen.
        """
        builder, frame, mask = self._builder, part.frame, part.mask
        passed = self._advance(part)
        for track in list(self._tracks):
            if builder.unseen(track.event) > min(LOST, track.event.age):
                self._tracks.remove(track)
                self._lost.append(track.event)
            track.box = track.box + np.append(track.speed * passed, (0, 0))
        found = self._without_pieces([_part(frame, mask, box) for box in boxes[:MOST_PARTS]])
        self._assign(found)
        for each in found:
            share = each.area / mask.size
            if share > SUDDEN and sum(track.area for track in each.tracks) < MINOR * each.area:
                each.tracks = []
            if not each.tracks:
                if builder.may_begin(part):
                    event = builder.open(frame, _in_picture(each.box, mask.shape))
                    builder.extend(event, frame, [event.box], share)
                    self._tracks.append(_Track(event, each.box, each.area, each.colour, self._clock, each.box[2:]))
                continue
            staying = [track for track in each.tracks if track.event.age >= SETTLED or each.shows_mainly(track)]
            staying = staying or each.tracks[:1]
            self._tracks = [track for track in self._tracks if track in staying or track not in each.tracks]
            for track in staying:
                alone = len(staying) == 1 or each.shows_mainly(track)
                if alone:
                    track.observe(each, self._clock, passed)
                else:
                    track.stay_in(each.box, passed)
                # a hidden object may be expected outside the picture
                box = _in_picture(track.box, mask.shape)
                builder.extend(track.event, frame, [box] if box[2] and box[3] else [], share if alone else 0.0)
        # an event goes on for `padding` seconds after the object was last seen, so it ends only then
        self._end([event for event in self._lost if part.time - event.last >= builder.settings.padding])
        return builder.settled()

    def _advance(self, part: Separated) -> float:
        """Take the time of the next frame; return the seconds for which objects have moved."""
        timeline = self._builder.timeline
        before, is_first = timeline.time, timeline.count == 0
        self._builder.advance_to(part)
        passed = 0.0 if is_first else timeline.time - before
        # Time stamps that are off the declared rate by less than half a frame are taken for jitter.
        if abs(passed - timeline.step) < timeline.step / 2:
            passed = timeline.step
        self._clock += passed
        # How many times as far as usual an object may have moved; not more, or it would be taken for any other one.
        self._longer = min(max(1.0, passed / max(timeline.step, timeline.usual)), LONGEST)
        return passed

    def end(self) -> list[MotionEvent]:
        """End all events, those of objects in sight (`_tracks`) too; return those that are not too short."""
        self._lost += [track.event for track in self._tracks]
        self._tracks = []
        self._end(self._lost)
        return self._builder.settled(at_end=True)

    def _end(self, events: list[MotionEvent]) -> None:
        """End some of the events of objects that do not come back (`_lost`)."""
        self._lost = [event for event in self._lost if event not in events]
        self._builder.over += events

    def _without_pieces(self, parts: list[_Part]) -> list[_Part]:
        """Return the parts, pieces of an object joined with the part that shows most of it, its body."""
        pieces: list[_Part] = []  # parts that were joined with a body
        # row (n_parts,): how many pixels of the expected box lie in the box of each part
        for track, row in zip(self._tracks, _common(self._tracks, parts), strict=True):
            inside = [part for part, pixels in zip(parts, row, strict=True) if pixels >= INSIDE * part.box[2:].prod()]
            body = parts[int(row.argmax())] if inside else None
            for part in inside:
                if body is None or part is body or part in pieces or body in pieces:
                    continue
                corner = np.minimum(body.box[:2], part.box[:2])
                end = np.maximum(body.box[:2] + body.box[2:], part.box[:2] + part.box[2:])
                if (end - corner <= SPREAD * track.size).all():
                    body.box, body.area, body.is_whole = np.append(corner, end - corner), body.area + part.area, False
                    pieces.append(part)
        return [part for part in parts if part not in pieces]

    def _assign(self, parts: list[_Part]) -> None:
        """Set the attribute `tracks` of the parts: the objects that they show."""
        if not parts or not self._tracks:
            return
        tracks = self._tracks
        old, new = _boxes(tracks)[:, None], _boxes(parts)
        # (n_tracks, n_parts): distance of the centres, where x and y are divided by the mean width and height
        distance = np.hypot(*np.moveaxis((_centre(old) - _centre(new)) / ((old + new)[..., 2:] / 2), -1, 0))
        sizes = np.log([[part.area / track.area for part in parts] for track in tracks])
        colours = np.array([[np.abs(part.colour - track.colour).mean() for part in parts] for track in tracks])
        # less of objects that were hidden in a part, and after frames that are missing
        distance *= np.array([[track.weight] for track in tracks]) / self._longer
        cost = np.minimum(distance + SIZE_COST * np.abs(sizes) + COLOUR_COST * colours, REACH)
        pairs = dict(zip(*(found.tolist() for found in linear_sum_assignment(cost)), strict=True))
        alone = {row: column for row, column in pairs.items() if cost[row, column] < REACH}
        for row, column in alone.items():
            parts[column].tracks.append(tracks[row])
        inside = _common(tracks, parts) / old[..., 2:].prod(axis=-1)
        for row, column in enumerate(inside.argmax(axis=1)):
            if row not in alone and inside[row, column] >= INSIDE:
                parts[column].tracks.append(tracks[row])


def _part(frame: FrameArray, mask: FrameArray, box: Box) -> _Part:
    """Return what is in a box of a mask: its box, the number of its pixels and their mean colour."""
    x, y, width, height = box
    inside = mask[y : y + height, x : x + width]
    colour = cv2.mean(frame[y : y + height, x : x + width], inside)[:3]
    return _Part(np.array(box, float), cv2.countNonZero(inside), np.array(colour))


def _boxes(found: Sequence[_Part] | Sequence[_Track]) -> Numbers:
    """Return the boxes (n, 4) of parts or tracks."""
    return np.array([each.box for each in found]).reshape(-1, 4)


def _centre(box: Numbers) -> Numbers:
    """Return the centres (..., 2) of boxes (..., 4)."""
    return box[..., :2] + box[..., 2:] / 2


def _common(tracks: list[_Track], parts: list[_Part]) -> Numbers:
    """Return how many pixels the box of each track has in common with that of each part (n_tracks, n_parts)."""
    old, new = _boxes(tracks)[:, None], _boxes(parts)
    corner = np.maximum(old[..., :2], new[..., :2])
    end = np.minimum(old[..., :2] + old[..., 2:], new[..., :2] + new[..., 2:])
    return np.maximum(end - corner, 0).prod(axis=-1)


def _in_picture(box: Numbers, shape: tuple[int, ...]) -> Box:
    """Return what of a box (x, y, width, height) lies in a picture of `shape`, in whole pixels; it may be empty."""
    whole = np.rint(box).astype(int)
    left, top, right, bottom = np.append(whole[:2], whole[:2] + whole[2:]).clip(0, [*shape[1::-1]] * 2).tolist()
    return left, top, right - left, bottom - top
