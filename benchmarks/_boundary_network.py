"""The training of the small network that says where people draw boundaries, for ``segmentation_train.py``.

The output is, at half the size, the share of people who drew a boundary within a pixel, and at a quarter of the size a
vector for each pixel; two pixels whose vectors are far apart were seldom put into one segment.

One picture in eight is drawn, so that the network finds nothing in flat areas. Pictures are turned, scaled, recoloured
and, half of them, spoilt as in ``segmentation.py corrupted``. Batches depend on the network and the number of the step
only, so a run that goes on from its checkpoint gives what an uninterrupted one does. It needs PyTorch.

The networks of the package were trained in parts: 6000 steps (10,400 of the one that learnt from all photographs)
without drawn pictures, then 700 with them, at a rate of about 1e-3.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from visionnmf.apps.reproduce.data import Photograph
from visionnmf.apps.segmentation.network import LEVELS
from visionnmf.apps.segmentation.pictures import NOISE_BLUR, remove_impulses

CHANNELS, BLOCKS, JOINED, VECTOR = (16, 32, 64, 112), (1, 2, 2, 3), 32, 8
DILATIONS = (1, 2, 4)  # of the blocks at a sixteenth of the size
SIDE, BATCH = 224, 6
RATE, DECAY, WARM_UP, KEEP = 4e-3, 0.02, 500, 0.999
LAST, LAST_RATE, LAST_KEEP = 0.1, 1e-3, 0.997  # of the last tenth of the steps
PEOPLE, PAIRS = 5, 2048
TURN = 200  # steps from one checkpoint to the next
DRAWN = 0.125  # share of drawn pictures
SPOILT = {"impulses": 4, "text": 6, "spots": 3, "jpeg": 14, "noise": 6, "blur": 5, "small": 6}


# --- the network ------------------------------------------------------------------------------------------------------


def unit(n_in: int, n_out: int, size: int = 3, *, stride: int = 1, dilation: int = 1, active: bool = True) -> nn.Module:
    """Return a convolution, a batch norm and, if `active`, a rectifier."""
    padding = dilation * (size // 2)
    layers = [nn.Conv2d(n_in, n_out, size, stride, padding, dilation, bias=False), nn.BatchNorm2d(n_out)]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if active else []))


class Block(nn.Module):
    """Two convolutions, whose result is added to what goes in."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.first = unit(channels, channels, dilation=dilation)
        self.second = unit(channels, channels, dilation=dilation, active=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return as many channels, of the same size."""
        return functional.relu(x + self.second(self.first(x)))


class BoundaryNetwork(nn.Module):
    """Residual blocks at a half to a sixteenth of the size, joined from the coarsest to the finest."""

    def __init__(self) -> None:
        super().__init__()
        stages = []
        for level, (channels, blocks) in enumerate(zip(CHANNELS, BLOCKS, strict=True)):
            first = unit(3, channels, 5, stride=2) if not level else unit(CHANNELS[level - 1], channels, stride=2)
            dilations = DILATIONS if level == len(CHANNELS) - 1 else (1,) * blocks
            stages.append(nn.Sequential(first, *(Block(channels, d) for d in dilations)))
        self.stages = nn.ModuleList(stages)
        widths = (CHANNELS[0], JOINED, JOINED, JOINED)
        self.laterals = nn.ModuleList(unit(c, w, 1, active=False) for c, w in zip(CHANNELS, widths, strict=True))
        self.downs = nn.ModuleList(unit(JOINED, w, 1, active=False) for w in widths[:-1])
        self.joins = nn.ModuleList(unit(w, w) for w in widths[:-1])
        self.sides = nn.ModuleList(nn.Conv2d(w, 1, 1) for w in widths)
        self.vectors = nn.Conv2d(JOINED, VECTOR, 1)

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the logits of boundaries from the finest level to the coarsest, and the vectors."""
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        joined = functional.relu(self.laterals[3](features[3]))
        outputs, vectors = [self.sides[3](joined)], joined
        for level in (2, 1, 0):
            upper = functional.interpolate(self.downs[level](joined), scale_factor=2.0, mode="nearest")
            joined = self.joins[level](functional.relu(self.laterals[level](features[level]) + upper))
            outputs.append(self.sides[level](joined))
            if level == 1:
                vectors = self.vectors(joined)
        return outputs[::-1], vectors


def weights(network: nn.Module, pictures: list[NDArray[np.uint8]]) -> dict[str, NDArray[Any]]:
    """Return the whole numbers of ``network.py``, with each batch norm in the convolution before it.

    The steps of what goes into a convolution are those with which nearly all values of pictures are below the limit.
    """
    peaks: dict[nn.Module, float] = {}

    def record(module: nn.Module, values: tuple[Tensor]) -> None:
        peaks[module] = max(peaks.get(module, 1e-6), float(np.quantile(values[0].abs().numpy(), 0.9999)))

    found: dict[str, NDArray[Any]] = {}

    def add(name: str, convolution: Any, norm: Any = None) -> None:
        kernel, offsets = convolution.weight.detach(), convolution.bias
        if norm is not None:
            gain = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
            kernel, offsets = kernel * gain[:, None, None, None], norm.bias - norm.running_mean * gain
        # so that no weight is above 127, and no sum above 2^24, of which rounding may take a part
        sizes = kernel.abs()
        steps = torch.maximum(sizes.amax((1, 2, 3)) / 127, sizes.sum((1, 2, 3)) * (1.05 * LEVELS / 2**24)).clamp(
            min=1e-12
        )
        whole = torch.round(kernel / steps[:, None, None, None]).to(torch.int8)
        assert whole.float().abs().sum((1, 2, 3)).max() * LEVELS < 2**24, name
        step = peaks[convolution] / LEVELS
        found[f"{name}.w"] = np.ascontiguousarray(whole.permute(2, 3, 1, 0).numpy())
        found[f"{name}.step"] = np.float32(step)
        found[f"{name}.gain"] = (steps * step).numpy()
        found[f"{name}.b"] = offsets.detach().numpy()

    hooks = [m.register_forward_pre_hook(record) for m in network.modules() if isinstance(m, nn.Conv2d)]
    with torch.no_grad():
        for picture in pictures:
            network(prepare(picture[np.newaxis]))
    for hook in hooks:
        hook.remove()
    peaks[network.stages[0][0][0]] = LEVELS / 128  # so a level of a picture of 8 bits is two steps
    for level, stage in enumerate(network.stages):
        add(f"stage{level}", *stage[0][:2])
        for place, block in enumerate(stage[1:]):
            add(f"stage{level}.{place}.0", *block.first[:2])
            add(f"stage{level}.{place}.1", *block.second[:2])
        add(f"lateral{level}", *network.laterals[level])
        if level < 3:
            add(f"down{level}", *network.downs[level])
            add(f"join{level}", *network.joins[level][:2])
    add("boundary", network.sides[0])
    add("vectors", network.vectors)
    return found


# --- photographs ------------------------------------------------------------------------------------------------------


class Example(NamedTuple):
    """A photograph (height, width, 3 and, in the fourth channel, 255 times the share of people with a boundary)."""

    picture: NDArray[np.uint8]
    people: NDArray[np.uint8]


def boundary_share(segmentations: NDArray[Any]) -> NDArray[np.uint8]:
    """Return 255 times the share of people who drew a boundary at a pixel or beside it."""
    total = np.zeros(segmentations.shape[1:], np.float32)
    for labels in segmentations:
        drawn = np.zeros(labels.shape, np.uint8)
        drawn[:, :-1] |= labels[:, :-1] != labels[:, 1:]
        drawn[:-1] |= labels[:-1] != labels[1:]
        total += cv2.dilate(drawn, np.ones((3, 3), np.uint8))
    return np.rint(total * (255 / len(segmentations))).astype(np.uint8)


def example(photograph: Photograph) -> Example:
    people = np.array(photograph.segmentations)
    return Example(
        np.dstack([photograph.image, boundary_share(people)]), people.astype(np.min_scalar_type(people.max()))
    )


def drawn_picture(rng: np.random.Generator) -> Example:
    """Draw up to ten shapes, or none, each of one colour or with a gradient, on such a background; noise on some."""
    height, width = 320, 400
    labels, n_shapes = np.zeros((height, width), np.uint8), int(rng.integers(1, 11)) * int(rng.random() < 0.7)
    for label in range(1, n_shapes + 1):
        y, x = rng.integers(0, (height, width))
        kind, size = int(rng.integers(5)), float(np.exp(rng.uniform(np.log(12), np.log(140))))
        if kind == 0:
            axes = max(1, round(size * rng.uniform(0.3, 1))), round(size)
            cv2.ellipse(labels, (int(x), int(y)), axes, rng.uniform(0, 180), 0, 360, label, -1)
        elif kind == 1:
            cv2.rectangle(labels, (int(x), int(y)), (int(x + size), int(y + size * rng.uniform(0.3, 3))), label, -1)
        elif kind == 2:
            angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 9))))
            corners = (x, y) + size * rng.uniform(0.4, 1, (len(angles), 1)) * np.transpose(
                [np.cos(angles), np.sin(angles)]
            )
            cv2.fillPoly(labels, [np.rint(corners).astype(np.int32)], label)
        elif kind == 3:
            end = (int(rng.integers(width)), int(rng.integers(height)))
            cv2.line(labels, (int(x), int(y)), end, label, int(rng.integers(5, 30)))
        else:  # larger and bolder than the letters that spoil photographs
            letters = "".join(chr(c) for c in rng.integers(65, 91, 8))
            cv2.putText(
                labels, letters, (int(x) - 100, int(y)), 0, rng.uniform(1.8, 4), label, int(rng.integers(5, 14))
            )
    rows, columns = np.indices(labels.shape, np.float32) / np.float32(width)
    colours, slopes = rng.uniform(0, 256, (n_shapes + 1, 3)), np.zeros((2, n_shapes + 1, 3))
    kinds = rng.random(n_shapes + 1)
    colours[kinds < 0.3] = colours[kinds < 0.3, :1]  # grey
    colours[kinds < 0.2] = 255 * (colours[kinds < 0.2] > 128)  # black or white
    even = rng.random(n_shapes + 1) < 0.6
    slopes[:, ~even] = rng.normal(0, 60, (2, np.count_nonzero(~even), 3))
    picture = colours[labels] + slopes[0][labels] * rows[..., None] + slopes[1][labels] * columns[..., None]
    if rng.random() < 0.4:
        picture += rng.uniform(0.5, 6) * rng.standard_normal(picture.shape, np.float32)
    people = labels[np.newaxis]
    return Example(np.dstack([np.clip(np.rint(picture), 0, 255).astype(np.uint8), boundary_share(people)]), people)


def spoil(image: NDArray[np.uint8], kind: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Spoil a picture; repair dead pixels and noise as `segment` does, and smooth blocks as it did before 6de6a36."""
    height, width = image.shape[:2]
    if kind == "impulses":
        where = rng.random((height, width)) < rng.uniform(0.03, 0.35)
        image[where] = rng.choice(np.array([0, 255], np.uint8), (np.count_nonzero(where), 1))
        return np.asarray(remove_impulses(image))
    if kind == "noise":
        deviation = rng.uniform(4, 30)
        noise = rng.standard_normal(image.shape, np.float32) * np.float32(deviation)
        noisy = np.clip(image + noise, 0, 255)
        if deviation > 7:
            noisy = cv2.GaussianBlur(noisy, (0, 0), NOISE_BLUR)
        return noisy.astype(np.uint8)
    if kind == "blur":
        return np.asarray(cv2.GaussianBlur(image, (0, 0), rng.uniform(0.6, 2.5)), np.uint8)
    if kind == "jpeg":
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(6, 40))]
        total = np.zeros(image.shape, np.float32)
        shifts = ((0, 0), (4, 4), (0, 4), (4, 0)) if rng.random() < 0.6 else ((0, 0),)
        image = np.asarray(cv2.imdecode(cv2.imencode(".jpg", image, quality)[1], cv2.IMREAD_COLOR), np.uint8)
        for down, right in shifts:
            moved = cv2.copyMakeBorder(image, down, 0, right, 0, cv2.BORDER_REFLECT)
            total += cv2.imdecode(cv2.imencode(".jpg", moved, quality)[1], cv2.IMREAD_COLOR)[down:, right:]
        return np.rint(total / len(shifts)).astype(np.uint8)
    if kind == "small":
        times = rng.uniform(1.3, 5)
        small = cv2.resize(image, (round(width / times), round(height / times)), interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)
    image = np.ascontiguousarray(image)
    if kind == "spots":
        for _ in range(int(rng.integers(5, 25))):
            place = int(rng.integers(width)), int(rng.integers(height))
            cv2.circle(image, place, int(rng.integers(2, 10)), (255, 255, 255), -1, cv2.LINE_AA)
        return image
    step = int(rng.integers(30, 80))
    for y in range(int(rng.integers(10, step)), height + step, step):
        letters = "".join(chr(c) for c in rng.choice([32, *range(65, 91), *range(97, 123)], 24))
        colour = tuple(rng.integers(0, 256, 3).tolist()) if rng.random() < 0.3 else (255 * int(rng.random() < 0.5),) * 3
        size, thick, font = rng.uniform(0.5, 1.4), int(rng.integers(1, 4)), int(rng.integers(0, 5))
        cv2.putText(image, letters, (int(rng.integers(-80, 60)), y), font, size, colour, thick, cv2.LINE_AA)
    return image


def change_colours(image: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Change the gain, offset and gamma of each channel, and sometimes remove the colour."""
    levels = np.linspace(0, 1, 256)
    gain, gamma = np.exp(rng.normal(0, 0.12, 3) + rng.normal(0, 0.15)), np.exp(rng.normal(0, 0.25))
    table = (levels[:, np.newaxis] ** gamma - 0.5) * gain + 0.5 + rng.normal(0, 0.05) + rng.normal(0, 0.02, 3)
    image = cv2.LUT(image, np.clip(np.rint(255 * table), 0, 255).astype(np.uint8)[:, np.newaxis])
    if rng.random() < 0.08:
        image = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    return np.asarray(image, np.uint8)


def draw(example: Example, rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
    """Return a random part of a photograph, its boundaries (both SIDE pixels wide) and its segments by PEOPLE."""
    picture, people = example
    height, width = picture.shape[:2]
    turn = rng.uniform(-12, 12) + (90 * rng.integers(4) if rng.random() < 0.35 else 0)
    scale, stretch = np.exp(rng.uniform(np.log(0.6), np.log(1.6))), np.exp(rng.uniform(-0.12, 0.12))
    cos, sin = np.cos(np.deg2rad(turn)), np.sin(np.deg2rad(turn))
    turned = np.array([[cos * stretch, sin / stretch], [-sin * stretch, cos / stretch]]) * scale
    if rng.random() < 0.5:
        turned[:, 0] *= -1
    # where the middle may lie, so that little of the part is outside
    reach = SIDE / 2 / scale * 0.9
    middle = [rng.uniform(min(reach, side / 2), max(side - reach, side / 2)) for side in (width, height)]
    shift = SIDE / 2 - turned @ middle
    matrix = np.hstack([turned, shift[:, np.newaxis]])
    if scale < 0.8:
        picture = cv2.blur(picture, (2, 2))
    part = cv2.warpAffine(picture, matrix, (SIDE, SIDE), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    image, target = np.ascontiguousarray(part[..., :3]), part[..., 3]
    image = change_colours(image, rng)
    if rng.random() < 0.5:
        kinds = list(SPOILT)
        weights = np.array(list(SPOILT.values()), float)
        image = spoil(image, kinds[rng.choice(len(kinds), p=weights / weights.sum())], rng)
    quarter = matrix / 4
    quarter[:, 2] -= 0.375
    chosen = rng.choice(len(people), PEOPLE)
    segments = [
        cv2.warpAffine(people[k], quarter, (SIDE // 4,) * 2, flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_REFLECT_101)
        for k in chosen
    ]
    return image, target, np.stack(segments)


def batch(examples: list[Example], key: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return pictures, boundaries at half the size, segments, and the pairs of pixels that are compared."""
    rng = np.random.default_rng(key)
    chosen = rng.integers(len(examples), size=BATCH)
    parts = [draw(drawn_picture(rng) if rng.random() < DRAWN else examples[k], rng) for k in chosen]
    images, targets, segments = (np.stack(each) for each in zip(*parts, strict=True))
    side = SIDE // 4
    a = rng.integers(side, size=(2, BATCH, PAIRS))
    length, angle = np.exp(rng.uniform(np.log(2), np.log(40), a.shape[1:])), rng.uniform(0, 2 * np.pi, a.shape[1:])
    b = np.clip(a + np.rint(length * np.stack([np.sin(angle), np.cos(angle)])).astype(int), 0, side - 1)
    pairs = np.stack([places[0] * side + places[1] for places in (a, b)])
    return prepare(images), half_size(targets), torch.from_numpy(segments).flatten(2), torch.from_numpy(pairs)


def prepare(images: NDArray[np.uint8]) -> Tensor:
    """Return pictures (n, height, width, 3) as the network takes them."""
    return (torch.from_numpy(images).permute(0, 3, 1, 2).float() - 127.5) / 64


def half_size(targets: NDArray[np.uint8]) -> Tensor:
    return functional.avg_pool2d(torch.from_numpy(targets)[:, None].float() / 255, 2)


# --- training ---------------------------------------------------------------------------------------------------------


def boundary_loss(logits: Tensor, target: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits.float(), target, weight=1 + 4 * target)


def pair_loss(vectors: Tensor, segments: Tensor, pairs: Tensor) -> Tensor:
    """Compare the distances of vectors with the share of people who parted the two pixels."""
    flat = vectors.flatten(2).float()
    first, second = (flat.gather(2, p[:, None].expand(-1, VECTOR, -1)) for p in pairs)
    distance = ((first - second).square().sum(1) + 1e-4).sqrt()
    parted = [segments.gather(2, p[:, None].expand(-1, segments.shape[1], -1)) for p in pairs]
    target = (parted[0] != parted[1]).float().mean(1)
    return functional.binary_cross_entropy_with_logits(4 * (distance - 1), target)


def losses(outputs: list[Tensor], vectors: Tensor, target: Tensor, segments: Tensor, pairs: Tensor) -> list[Tensor]:
    found = [boundary_loss(outputs[0], target)]
    coarse = target
    side = torch.zeros(())
    for output in outputs[1:]:
        coarse = functional.max_pool2d(coarse, 2)
        side = side + boundary_loss(output, coarse)
    return [*found, side, pair_loss(vectors, segments, pairs)]


class Run:
    """A network in training, and the running mean of its weights, which is what is used."""

    def __init__(self, name: str, examples: list[Example], held_out: list[Example], folder: Path) -> None:
        self.name, self.examples = name, examples
        self.path, self.log = folder / f"{name}.pt", folder / f"{name}.csv"
        self.number = sum(name.encode())
        torch.manual_seed(self.number)
        self.network = BoundaryNetwork().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.mean = BoundaryNetwork().to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        self.optimiser = torch.optim.AdamW(self.network.parameters(), RATE, weight_decay=DECAY, fused=True)
        self.step, self.seconds = 0, 0.0
        rng = np.random.default_rng(0)
        self.tests = []
        for picture, _ in held_out:
            top, left = (int(rng.integers(side - 288)) for side in picture.shape[:2])
            part = picture[top : top + 288, left : left + 288]
            self.tests.append((part[..., :3], part[..., 3]))
        if self.path.exists():
            self.load(torch.load(self.path))

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.network.load_state_dict(state["network"])
        self.mean.load_state_dict(state["mean"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds = state["step"], state["seconds"]

    def save(self) -> None:
        """Write a checkpoint, and the weights as ``network.npz`` has them."""
        parts = {name: getattr(self, name).state_dict() for name in ("network", "mean", "optimiser")}
        unfinished = self.path.with_suffix(".part")
        torch.save({**parts, "step": self.step, "seconds": self.seconds}, unfinished)
        unfinished.replace(self.path)
        pictures = [picture[:320, :320, :3] for picture, _ in self.examples[:4]]
        np.savez_compressed(self.path.with_suffix(".npz"), **weights(self.mean, pictures))

    def turn(self, n_steps: int, rate: float, keep: float) -> None:
        """Take some steps, and log their number, processor seconds, losses (boundary, coarse, pairs) and the test."""
        begin, total = time.process_time(), np.zeros(3)
        self.network.train()
        for _ in range(n_steps):
            images, *truth = batch(self.examples, (self.number, self.step))
            for group in self.optimiser.param_groups:
                group["lr"] = rate * min(1.0, (self.step + 1) / WARM_UP)
            with torch.autocast("cpu", torch.bfloat16):
                outputs, vectors = self.network(images.contiguous(memory_format=torch.channels_last))
            parts = losses(outputs, vectors, *truth)
            self.optimiser.zero_grad(set_to_none=True)
            (parts[0] + 0.3 * parts[1] / 3 + 0.5 * parts[2]).backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimiser.step()
            self.step += 1
            total += [float(part.detach()) for part in parts]
            self.update_mean(keep)
        self.seconds += time.process_time() - begin
        row = [self.step, round(self.seconds), *np.round(total / n_steps, 4), *np.round(self.test(), 4)]
        with self.log.open("a") as file:
            file.write(",".join(str(value) for value in row) + "\n")
        print(self.name, *row, flush=True)

    @torch.no_grad()
    def update_mean(self, keep: float) -> None:
        """Move the mean towards the network; early means forget faster."""
        keep = min(keep, (1 + self.step) / (10 + self.step))
        for mean, value in zip(self.mean.state_dict().values(), self.network.state_dict().values(), strict=True):
            if mean.is_floating_point():
                mean.lerp_(value, 1 - keep)

    @torch.no_grad()
    def test(self) -> list[float]:
        """Return the loss, and the best F of single pixels, on parts of photographs held out, if there are any."""
        if not self.tests:
            return []
        total, counts = 0.0, np.zeros((2, 50))
        for image, target in self.tests:
            truth = half_size(target[np.newaxis])
            logits = self.mean(prepare(image[np.newaxis]).contiguous(memory_format=torch.channels_last))[0][0]
            total += float(boundary_loss(logits, truth))
            found, weight = torch.sigmoid(logits).flatten().numpy(), truth.flatten().numpy()
            bins = np.minimum((found * 50).astype(int), 49)
            counts[0] += np.bincount(bins, minlength=50)
            counts[1] += np.bincount(bins, weight, 50)
        above, right = np.cumsum(counts[0][::-1]), np.cumsum(counts[1][::-1])
        return [total / len(self.tests), float((2 * right / (above + right[-1])).max())]


def train(name: str, photographs: list[Photograph], held_out: list[Photograph], folder: Path, n_steps: int) -> Path:
    """Train a network up to a number of steps, from its checkpoint in `folder` if there is one; return its weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that the sums do not depend on the machine
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(name, [example(p) for p in photographs], [example(p) for p in held_out[::4]], folder)
    while run.step < n_steps:
        last = run.step >= round((1 - LAST) * n_steps)
        run.turn(min(TURN, n_steps - run.step), *((LAST_RATE, LAST_KEEP) if last else (RATE, KEEP)))
        run.save()
    torch.set_num_threads(threads)
    return run.path.with_suffix(".npz")
