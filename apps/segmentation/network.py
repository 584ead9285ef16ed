"""The small network that tells, for each pixel, which share of people would draw a boundary there, and how it looks.

It is a residual network with features joined from the coarsest to the finest. ``benchmarks/segmentation_train.py``
trained it on photographs, clean and spoilt, and wrote ``network.npz``. It is run by matrix products, so that nothing
has to be imported. Their entries are whole numbers of 8 bits whose sums stay below 2^24, which float32 holds exactly,
so that the order of the sums, and with it the number of threads, changes nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.blocks import Block, blocks, map_blocks, one_blas_thread

Floats = NDArray[np.float32]

FILE = Path(__file__).with_name("network.npz")
MARGIN = 16  # pixels by which a picture is reflected at its frame, where the network sees less
STEP = 16  # pixels of the picture for one of the coarsest level, to a multiple of which its sides are padded
LEVELS = 255  # of what goes into a convolution
CHUNK = 2**17  # entries of a matrix, which then stays in a processor's cache


@cache
def load_network(path: Path = FILE) -> dict[str, Floats]:
    """Read the numbers of each convolution.

    name.w (size, size, n_in, n_out) are whole numbers from -127 to 127. What goes in is divided by name.step and
    rounded; what comes out is multiplied by name.gain (n_out,), and name.b (n_out,) is added.
    """
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name].astype(np.float32) for name in arrays}


@one_blas_thread()  # the products are small, and BLAS's own threads wait for one another on a busy machine
def find_boundaries(image: Floats, network: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Run the network on an sRGB picture (height, width, 3) in [0, 1].

    Returns the share of people who would draw a boundary within a pixel, (height, width), and a vector for each pixel,
    (height, width, 8); two pixels with distant vectors would seldom be in one segment.
    """
    height, width = image.shape[:2]
    below, right = (MARGIN + (-side) % STEP for side in (height, width))
    framed = cv2.copyMakeBorder(image, MARGIN, below, MARGIN, right, cv2.BORDER_REFLECT)
    x = (framed - np.float32(0.5)) * np.float32(255 / 64)
    features = []
    for level in range(4):
        x = np.maximum(_convolve(x, network, f"stage{level}", stride=2), 0)
        block = 0
        while f"stage{level}.{block}.0.w" in network:
            dilation = 2**block if level == 3 else 1
            inner = np.maximum(_convolve(x, network, f"stage{level}.{block}.0", dilation=dilation), 0)
            x = np.maximum(x + _convolve(inner, network, f"stage{level}.{block}.1", dilation=dilation), 0)
            block += 1
        features.append(x)
    joined = np.maximum(_convolve(features[3], network, "lateral3"), 0)
    for level in (2, 1, 0):
        upper = _convolve(joined, network, f"down{level}").repeat(2, axis=0).repeat(2, axis=1)
        upper += _convolve(features[level], network, f"lateral{level}")
        joined = np.maximum(_convolve(np.maximum(upper, 0), network, f"join{level}"), 0)
        if level == 1:
            vectors = _convolve(joined, network, "vectors")
    logits = _convolve(joined, network, "boundary")
    found = []
    for values in (1 / (1 + np.exp(-logits)), vectors):
        full: Any = cv2.resize(values, framed.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        found.append(np.ascontiguousarray(full[MARGIN : MARGIN + height, MARGIN : MARGIN + width]))
    return found[0], found[1]


def _convolve(x: Floats, network: dict[str, Floats], name: str, *, stride: int = 1, dilation: int = 1) -> Floats:
    """Convolve x (height, width, n_in), with zeros around it."""
    weights = network[f"{name}.w"]
    size, _, n_in, n_out = weights.shape
    height, width = x.shape[0] // stride, x.shape[1] // stride
    reach = dilation * (size // 2)
    framed = np.zeros((x.shape[0] + 2 * reach, x.shape[1] + 2 * reach, n_in), np.float32)
    inner = framed[reach : reach + x.shape[0], reach : reach + x.shape[1]]
    np.divide(x, network[f"{name}.step"], out=inner)
    np.rint(inner, out=inner)
    np.clip(inner, -LEVELS, LEVELS, out=inner)
    down, right, deep = framed.strides
    strides = (stride * down, stride * right, dilation * down, dilation * right, deep)
    patches: Any = np.lib.stride_tricks.as_strided(framed, (height, width, size, size, n_in), strides, writeable=False)
    matrix = weights.reshape(-1, n_out)
    out = np.empty((height, width, n_out), np.float32)
    rows = max(1, CHUNK // (width * len(matrix)))

    def multiply(block: Block) -> None:
        """Write these rows of the result."""
        part = slice(*block)
        np.matmul(patches[part].reshape(-1, len(matrix)), matrix, out=out[part].reshape(-1, n_out))

    map_blocks(multiply, blocks(height, rows))
    out *= network[f"{name}.gain"]
    out += network[f"{name}.b"]
    return out
