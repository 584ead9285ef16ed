"""The same content told in another way gives the same answer or an error, never another answer in silence."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pandas

from visionnmf._pixel_range import BITS, in_eight_bits
from visionnmf.exceptions import MediaError
from visionnmf.io import read_image, write_image
from visionnmf.io.tables import read_tables
from visionnmf.io.video.timeline import Timeline


class Equivalents:
    """Cases by turns: a picture in other bits, frames with other time stamps, a table in another dialect."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.done: Counter[str] = Counter()
        self.turns = 0
        self._seed, self._folder = seed, folder
        folder.mkdir()

    def ready(self) -> bool:
        return True

    def stop(self) -> None:
        """Leave nothing behind: each case overwrites the files of the one before."""

    def step(self) -> list[str]:
        self.turns += 1
        self.done["equivalents"] += 1
        return self.case(self.turns - 1)

    def case(self, number: int) -> list[str]:
        """Compare what the case of this number draws, and return what was wrong."""
        compare = (self.bits, self.times, self.table)[number % 3]
        draw = random.Random(f"{self._seed}:{number}")
        found = compare(draw, np.random.default_rng(draw.randrange(1 << 32)))
        return [f"equivalents:{self._seed}:{number} {compare.__name__}: {found}"] if found else []

    def bits(self, draw: random.Random, rng: np.random.Generator) -> str:
        eight = rng.integers(0, 256, (draw.randrange(20, 90), draw.randrange(20, 90), 3)).astype(np.uint8)
        bits, hot = draw.choice(BITS), draw.randrange(2)
        stored = np.rint(eight / 255 * (2**bits - 1)).astype(np.uint16)
        stored[:hot, :hot] = 65535
        write_image(self._folder / "a.png", stored, force=True)
        apart = np.abs(in_eight_bits(read_image(self._folder / "a.png")).astype(int) - eight)[hot:, hot:].max()
        return f"{bits} bits with {hot} hot pixels: {apart} levels apart" if apart else ""

    def times(self, draw: random.Random, rng: np.random.Generator) -> str:
        """Stamps with an offset, jittered by less than half a frame, some doubled or left out."""
        step, count = draw.choice((1 / 60, 0.04, 0.1, 1.0)), draw.randrange(20, 200)
        even = step * np.arange(count)
        kept = np.flatnonzero((rng.random(count) > 0.05) | (np.arange(count) == 0))
        stamps = even[kept] + draw.choice((0.0, 600.0, 95_443.0)) + 0.4 * step * rng.random(len(kept))
        doubled = [stamp for stamp in stamps for _ in range(1 + (draw.random() < 0.03))]
        timeline = Timeline(step, None)
        times = [timeline.add(stamp) for stamp in doubled]
        if not (np.diff(times) > 0).all():
            return f"times do not rise: {doubled}"
        # doubled frames delay the ones after them for a while
        off = abs(times[-1] - (even[kept[-1]] - even[kept[0]]))
        return f"the last frame is {off / step:.1f} frames off: {doubled}" if off > 5 * step else ""

    def table(self, draw: random.Random, rng: np.random.Generator) -> str:
        columns = [f"feature {i}" for i in range(draw.randrange(2, 7))] if draw.random() < 0.7 else None
        values = rng.normal(size=(draw.randrange(3, 30), len(columns or "abc"))).round(4)
        frame = pandas.DataFrame(values, columns=columns)
        sep, decimal = draw.choice(((",", "."), (";", ","), (";", "."), ("\t", ".")))
        options = {"sep": sep, "decimal": decimal, "index": draw.random() < 0.5, "header": draw.random() < 0.7}
        frame.to_csv(self._folder / "a.csv", **options)
        try:
            (found,) = read_tables(self._folder / "a.csv")
        except MediaError:
            return ""
        same = found.X.shape == frame.shape and np.allclose(found.X, frame)
        return "" if same else f"{options}, columns {columns}: {frame.shape} became {found.X.shape}"
