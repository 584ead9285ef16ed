"""A generated clip of a fixed camera, with its background and its masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from visionnmf._checks import RandomState, brief, check_count, check_generator, check_number

Image = NDArray[np.float32]

# Written by docs/make_pictures.py.
VIDEO = Path(__file__).with_name("surveillance.mp4")
MASKS = VIDEO.with_suffix(".npz")


@dataclass(frozen=True)
class Surveillance:
    """A clip of a fixed camera with its truth.

    Attributes
    ----------
    frames : ndarray of uint8 [shape=(n_frames, height, width, 3)]
        The clip, RGB.
    background : ndarray of uint8 [shape=(height, width, 3)]
        The scene without objects and noise, at the mean illumination.
    masks : ndarray of bool [shape=(n_frames, height, width)]
        True where an object hides the background.
    """

    frames: NDArray[np.uint8]
    background: NDArray[np.uint8]
    masks: NDArray[np.bool_]

    __repr__ = brief


def make_surveillance(
    n_frames: int = 120,
    height: int = 120,
    width: int = 160,
    *,
    n_objects: int = 3,
    noise: float = 0.02,
    illumination: float = 0.15,
    random_state: RandomState = None,
) -> Surveillance:
    """Make a clip of a street seen by a fixed camera: cars and pedestrians pass, and the illumination drifts.

    The illumination is one slow wave over the clip that is strongest on one side of the scene. Without objects and
    noise the frames have rank 2. Every object enters, crosses and leaves again and again at its own speed; the first
    one stops on its way for a while.

    Parameters
    ----------
    n_frames, height, width : int, >= 1, default=120, 120, 160
        Sizes in frames and pixels.
    n_objects : int, >= 0, default=3
        Cars and pedestrians, alternately.
    noise : float, 0 to 1, default=0.02
        Standard deviation of the sensor noise, as a share of the full range (0.02 is 5 grey levels).
    illumination : float, 0 to 0.5, default=0.15
        Largest relative change of the illumination; above 0.17 the brightest parts may saturate.
    random_state : int, RandomState, Generator or None
        Seed. With the same seed and sizes, 0 objects give the same frames without the objects.

    Returns
    -------
    Surveillance
        A clip takes ``4 * n_frames * height * width`` bytes; :func:`iter_surveillance` makes it frame by frame.

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> from visionnmf.datasets import make_surveillance
    >>> make_surveillance(5, 24, 32, random_state=0)
    Surveillance(frames=<5 x 24 x 32 x 3 uint8>, background=<24 x 32 x 3 uint8>, masks=<5 x 24 x 32 bool>)
    """
    scene = _Scene(n_frames, height, width, n_objects, noise, illumination, random_state)
    frames = np.empty((scene.n_frames, scene.height, scene.width, 3), np.uint8)
    masks = np.empty(frames.shape[:3], bool)
    for t, (frame, mask) in enumerate(scene):
        frames[t], masks[t] = frame, mask
    return Surveillance(frames, _to_uint8(scene.background), masks)


def iter_surveillance(
    n_frames: int = 120,
    height: int = 120,
    width: int = 160,
    *,
    n_objects: int = 3,
    noise: float = 0.02,
    illumination: float = 0.15,
    random_state: RandomState = None,
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.bool_]]]:
    """Make the clip of :func:`make_surveillance` frame by frame, in the memory of a few frames.

    The parameters are the same, and the same seed gives the same clip.

    Returns
    -------
    iterator of (frame, mask)
        An ndarray of uint8 [shape=(height, width, 3)], and one of bool [shape=(height, width)].

    Examples
    --------
    >>> from visionnmf.datasets import iter_surveillance
    >>> [(frame.shape, mask.shape) for frame, mask in iter_surveillance(1, 24, 32, random_state=0)]
    [((24, 32, 3), (24, 32))]
    """
    return iter(_Scene(n_frames, height, width, n_objects, noise, illumination, random_state))


@dataclass(frozen=True)
class SurveillanceVideo:
    """A made clip as a video file, with its truth.

    Attributes
    ----------
    path : Path
        An H.264 file of 300 frames of 320 x 240 pixels, ten a second.
    masks : ndarray of bool [shape=(n_frames, height, width)]
        True where an object hides the background.
    """

    path: Path
    masks: NDArray[np.bool_]

    __repr__ = brief


def load_surveillance() -> SurveillanceVideo:
    """Load the clip that comes with the package: half a minute of a street while a cloud passes.

    It is the clip of ``make_surveillance(300, 240, 320, illumination=0.25, random_state=0)`` after compression. Its
    illumination drifts enough for one picture of the background to fail.

    Returns
    -------
    SurveillanceVideo

    Examples
    --------
    >>> from visionnmf.datasets import load_surveillance
    >>> from visionnmf.io import VideoReader
    >>> clip = load_surveillance()
    >>> len(list(VideoReader(clip.path))) == len(clip.masks)
    True
    """
    with np.load(MASKS, allow_pickle=False) as file:
        masks = np.unpackbits(file["masks"], axis=2, count=320).astype(bool)
    return SurveillanceVideo(VIDEO, masks)


class _Scene:
    """The random choices of a clip; iterating renders its frames and masks."""

    def __init__(
        self, n_frames: int, height: int, width: int, n_objects: int, noise: float, illumination: float,
        random_state: RandomState,
    ) -> None:  # fmt: skip
        """Check the arguments of :func:`make_surveillance`, and draw all random choices but the noise."""
        # Four seeds, for the street, the illumination, the objects and the noise, so that each of these stays the same
        # if another one is changed. `noise` and `illumination` are shares of the full range.
        self.n_frames = check_count(n_frames, "n_frames", 1)
        self.height = check_count(height, "height", 1)
        self.width = check_count(width, "width", 1)
        n_objects = check_count(n_objects, "n_objects", 0)
        self.noise = check_number(noise, "noise", 0, 1)
        self.illumination = check_number(illumination, "illumination", 0, 0.5)
        self._seeds = check_generator(random_state).integers(2**63, size=4)

        scene_rng, light_rng, object_rng, _ = (np.random.default_rng(seed) for seed in self._seeds)
        self.background = _street(self.height, self.width, scene_rng)  # (height, width, 3) in [0, 0.85]
        self._pattern = _light_pattern(self.height, self.width, light_rng)  # (height, width), strength of the drift
        self._phase = light_rng.uniform(0, 2 * np.pi)  # of the wave of the illumination, in radians
        self.objects = [_Object(self, index, object_rng) for index in range(n_objects)]
        # nearer objects hide farther ones
        self.objects.sort(key=lambda o: o.bottom)

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.bool_]]]:
        """Yield each frame (height, width, 3) as grey levels 0 to 255, and the mask of its objects (height, width)."""
        noise_rng = np.random.default_rng(self._seeds[-1])
        for t in range(self.n_frames):
            frame = self.background.copy()
            mask = np.zeros((self.height, self.width), bool)
            for item in self.objects:
                item.draw(frame, mask, t)
            swing = np.float32(np.sin(2 * np.pi * t / self.n_frames + self._phase))
            # The illumination makes one swing over the clip, stronger on one side of the scene.
            frame *= (1 + self.illumination * swing * self._pattern)[:, :, None]
            if self.noise:
                frame += self.noise * noise_rng.standard_normal(frame.shape, np.float32)
            yield _to_uint8(frame), mask


def _to_uint8(image: Image) -> NDArray[np.uint8]:
    """Return an image of shares of the full range, 0 to 1, as grey levels 0 to 255."""
    return np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)


def _grid(height: int, width: int) -> tuple[Image, Image]:
    """Return the pixel centres as shares, from the upper left: of the height (a column) and of the width (a row)."""
    y = ((np.arange(height) + 0.5) / height).astype(np.float32)
    x = ((np.arange(width) + 0.5) / width).astype(np.float32)
    return y[:, None], x[None, :]


def _grain(height: int, width: int, sigma: float, rng: np.random.Generator) -> Image:
    """Return smooth noise of standard deviation 1, clipped at 3; `sigma` is its scale in pixels."""
    field = gaussian_filter(rng.standard_normal((height, width), np.float32), sigma, truncate=3)
    return np.clip(field / max(float(field.std()), 1e-6), -3, 3)


def _light_pattern(height: int, width: int, rng: np.random.Generator) -> Image:
    """Return how strongly the illumination of each pixel (height, width) drifts: 0.2 to 1 along a random direction."""
    y, x = _grid(height, width)
    angle = rng.uniform(0, 2 * np.pi)
    along = (x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle)
    # The largest value of `along`, in a corner of the picture.
    reach = (abs(np.cos(angle)) + abs(np.sin(angle))) / 2
    return (0.6 + 0.4 * along / reach).astype(np.float32)


def _street(height: int, width: int, rng: np.random.Generator) -> Image:
    """Return the background (height, width, 3) within [0, 0.85]: sky, houses, a tree, pavements and a road."""
    # Places are shares of the height (`y`, from the top) and of the width (`x`).
    y, x = _grid(height, width)
    # The sky changes from `high`, its colour at the top, to `low`, that at 0.4 of the height.
    low, high = np.array([0.74, 0.76, 0.77], np.float32), np.array([0.45, 0.57, 0.72], np.float32)
    scene = (high + (low - high) * np.clip(y / 0.4, 0, 1)[..., None]) * np.ones((height, width, 1), np.float32)

    left = -rng.uniform(0, 0.2)  # the first house begins outside the picture
    while left < 1:
        right = left + rng.uniform(0.2, 0.4)
        _house(scene, y, x, left, right, rng)
        left = right

    paint = np.array([1, 1, 0.96], np.float32)
    joints = ((x * 14 + (y - 0.52) * 4) % 1 < 0.06) | ((y > 0.563) & (y < 0.57))
    _fill(scene, (y >= 0.52) & (y < 0.62), 0.56 * paint)  # the far pavement
    _fill(scene, (y >= 0.52) & (y < 0.62) & joints, 0.47 * paint)  # the joints of its slabs
    _fill(scene, y >= 0.62, 0.30 * paint)  # the road
    _fill(scene, (y >= 0.615) & (y < 0.63), 0.66 * paint)  # the far kerb
    _fill(scene, (y >= 0.765) & (y < 0.78) & ((x * 7 + rng.uniform()) % 1 < 0.5), 0.78 * paint)  # lane marks
    _fill(scene, y >= 0.935, 0.52 * paint)  # the near pavement
    _fill(scene, (y >= 0.93) & (y < 0.945), 0.66 * paint)  # the near kerb
    _tree(scene, y, x, rng)

    fine, coarse = _grain(height, width, 0.6, rng), _grain(height, width, max(height, width) / 14, rng)
    scene *= (1 + 0.035 * fine + 0.035 * coarse)[..., None]
    return np.clip(scene, 0, 0.85)


def _fill(scene: Image, where: NDArray[np.bool_], colour: Image) -> None:
    """Paint a part of the scene in one colour (3,); `where` can be a row or a column that stands for all others."""
    scene[np.broadcast_to(where, scene.shape[:2])] = colour


def _house(scene: Image, y: Image, x: Image, left: float, right: float, rng: np.random.Generator) -> None:
    """Paint a house front with rows of windows between two shares of the width, `left` and `right`."""
    # `y` (height, 1) and `x` (1, width) are the places of the pixels as shares. `across` and `down` count the windows
    # from the left and the floors from the top; their fractions are places within a window's share of the wall.
    top, floors = rng.uniform(0.04, 0.24), int(rng.integers(2, 5))
    wall = np.array([0.60, 0.50, 0.40], np.float32) * rng.uniform(0.75, 1.2) + rng.uniform(-0.06, 0.06, 3).astype(
        np.float32
    )
    front = (x >= left) & (x < right) & (y >= top) & (y < 0.52)
    _fill(scene, front, wall)
    _fill(scene, front & (y < top + 0.02), 0.6 * wall)  # the eaves
    across = (x - left) / (right - left) * rng.integers(2, 5)
    down = (y - top - 0.03) / (0.49 - top) * floors
    pane = front & (across % 1 > 0.28) & (across % 1 < 0.72) & (down > 0) & (down % 1 > 0.2) & (down % 1 < 0.75)
    glass = rng.uniform(0.12, 0.42, (floors + 1, 6)).astype(np.float32)  # the brightness of each window
    light = glass[np.clip(down, 0, floors).astype(int), np.clip(across, 0, 5).astype(int)]
    scene[pane] = light[pane][:, None] * np.array([0.85, 0.95, 1.1], np.float32)


def _tree(scene: Image, y: Image, x: Image, rng: np.random.Generator) -> None:
    """Paint a tree with a ragged crown; `y` and `x` are the places of the pixels as shares of height and width."""
    height, width = scene.shape[:2]
    centre = rng.uniform(0.1, 0.9)
    # The trunk, and then an ellipse of leaves whose border and shade follow one smooth noise.
    _fill(scene, (np.abs(x - centre) < 0.010) & (y > 0.3) & (y < 0.55), np.array([0.25, 0.19, 0.14], np.float32))
    ragged = _grain(height, width, max(height, width) / 60, rng)
    crown = ((x - centre) / 0.10) ** 2 + ((y - 0.27) / 0.17) ** 2 + 0.12 * ragged < 1
    leaves = 0.30 + 0.06 * ragged[crown]
    scene[crown] = leaves[:, None] * np.array([0.75, 1.1, 0.6], np.float32)


class _Object:
    """A car or a pedestrian: a patch of an image with a silhouette, and its place in each frame."""

    def __init__(self, scene: _Scene, index: int, rng: np.random.Generator) -> None:
        """Draw size, colours and times of object `index`: a car if it is even, a pedestrian if it is odd."""
        # Lengths are in pixels, times in frames. `bottom` is the row below the object's lowest pixels. `_patch`
        # (height, width, 3) has its colours, `_shape` (height, width) says which of them belong to it. It crosses the
        # scene in `_crossing` frames, stops for `_rest` frames after `_rest_at`, and enters again after a pause, every
        # `_cycle` frames. `_lead` is how far it is in its cycle at the first frame; below 0, it has not entered yet.
        self._scene_width = scene.width
        car = index % 2 == 0
        self._to_right = bool(rng.integers(2))
        if car:
            self.bottom = (0.91 if self._to_right else 0.75) * scene.height  # the near or the far lane
            size = rng.uniform(0.15, 0.18) * scene.height
            self._patch, self._shape = _car(*_pixels(size, 2.3 * size), rng)
            self._crossing, pause = rng.uniform(35, 60), rng.uniform(20, 80)
        else:
            self.bottom = rng.uniform(0.57, 0.61) * scene.height  # on the far pavement
            size = rng.uniform(0.17, 0.21) * scene.height
            self._patch, self._shape = _pedestrian(*_pixels(size, 0.42 * size), rng)
            self._crossing, pause = rng.uniform(80, 130), rng.uniform(10, 60)
        self._rest = rng.uniform(20, 30) if index == 0 else 0.0
        self._rest_at = rng.uniform(0.35, 0.65) * self._crossing
        self._cycle = self._crossing + self._rest + pause
        # the object that rests enters early, so that short clips show it resting
        self._lead = -rng.uniform(4, 12) if index == 0 else rng.uniform(0, self._cycle)

    def draw(self, frame: Image, mask: NDArray[np.bool_], t: int) -> None:
        """Paint the object at its place in frame `t` into `frame` and `mask`."""
        # The frames that it has moved since it entered, without those of its rest, and the share of its way.
        moved = (t + self._lead) % self._cycle
        moved -= min(max(moved - self._rest_at, 0), self._rest)
        share = moved / self._crossing
        if share >= 1:  # it is in the pause between two crossings
            return
        height, width = self._shape.shape
        left = round((share if self._to_right else 1 - share) * (self._scene_width + width)) - width
        top = round(self.bottom) - height  # `bottom` is the row below its lowest pixels
        y0, y1 = max(top, 0), min(top + height, mask.shape[0])
        x0, x1 = max(left, 0), min(left + width, mask.shape[1])
        if y0 >= y1 or x0 >= x1:
            return
        shape = self._shape[y0 - top : y1 - top, x0 - left : x1 - left]
        frame[y0:y1, x0:x1][shape] = self._patch[y0 - top : y1 - top, x0 - left : x1 - left][shape]
        mask[y0:y1, x0:x1] |= shape


def _pixels(height: float, width: float) -> tuple[int, int]:
    """Return a size as whole pixels, at least 1."""
    return max(1, round(height)), max(1, round(width))


_BODY_COLOURS = np.array(
    [[0.72, 0.12, 0.10], [0.10, 0.22, 0.60], [0.82, 0.80, 0.76], [0.80, 0.62, 0.10], [0.08, 0.40, 0.24],
     [0.07, 0.07, 0.09]], np.float32,
)  # fmt: skip


def _paint(height: int, width: int, rng: np.random.Generator) -> Image:
    """Return a patch (height, width, 3) of one colour with texture, darker towards the bottom, in shares of white."""
    y, _ = _grid(height, width)
    texture = 1.08 - 0.25 * y + 0.08 * _grain(height, width, max(0.6, height / 12), rng)
    return np.clip(rng.choice(_BODY_COLOURS) * texture[..., None], 0.02, 0.9)


def _car(height: int, width: int, rng: np.random.Generator) -> tuple[Image, NDArray[np.bool_]]:
    """Return the patch (height, width, 3) of a car seen from the side, and its silhouette (height, width)."""
    # Places are shares of height and width; `across` is the distance from the vertical middle line.
    y, x = _grid(height, width)
    across = np.abs(x - 0.5)
    body = (y > 0.36) & (y < 0.86) & (across + 0.12 * np.abs(y - 0.6) < 0.48)
    slope = 0.20 + 0.22 * y  # the cabin widens downwards
    cabin = (y <= 0.42) & (across < slope)
    windows = (y > 0.08) & (y < 0.36) & (across < slope - 0.05) & (across > 0.02)
    aspect = width / height  # makes the wheels round
    wheels = ((across - 0.28) * aspect) ** 2 + (y - 0.82) ** 2 < 0.17**2
    patch = _paint(height, width, rng)
    patch[windows] = (0.16, 0.19, 0.22)
    patch[wheels] = (0.05, 0.05, 0.05)
    return patch, body | cabin | wheels


def _pedestrian(height: int, width: int, rng: np.random.Generator) -> tuple[Image, NDArray[np.bool_]]:
    """Return the patch (height, width, 3) of a pedestrian, and its silhouette (height, width)."""
    # Places are shares of height and width; `across` is the distance from the vertical middle line.
    y, x = _grid(height, width)
    across = np.abs(x - 0.5)
    head = ((x - 0.5) * width / height) ** 2 + (y - 0.09) ** 2 < 0.085**2
    trunk = (across / 0.42) ** 2 + ((y - 0.40) / 0.25) ** 2 < 1
    legs = (y > 0.55) & (across < 0.36) & (across > 0.30 * (y - 0.6))
    patch = _paint(height, width, rng)
    # The trousers get a colour of their own, which is darker.
    patch[legs & ~trunk] = 0.5 * _paint(height, width, rng)[legs & ~trunk]
    patch[head] = (0.62, 0.46, 0.36)
    return patch, head | trunk | legs
