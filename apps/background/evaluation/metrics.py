"""Metrics of masks as changedetection.net defines them, and of backgrounds as scenebackgroundmodeling.net does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = ["BACKGROUND_ERRORS", "CDNET_METRICS", "Confusion", "background_errors"]

FrameArray = NDArray[np.uint8]

CDNET_METRICS = ("recall", "specificity", "fpr", "fnr", "pwc", "precision", "f_measure")
BACKGROUND_ERRORS = ("age", "peps", "pceps", "psnr", "ms_ssim")

FOREGROUND, LAST_BACKGROUND = 255, 50  # values of true masks; 50 is shadow, 85 and 170 are not scored
ERROR_PIXEL = 20  # grey levels

# Wang, Simoncelli, Bovik 2003: weights of the five scales; the window, and the constants of SSIM
WEIGHTS = np.array([0.0448, 0.2856, 0.3001, 0.2363, 0.1333])
WINDOW, WINDOW_SIGMA = 11, 1.5
C1, C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


@dataclass
class Confusion:
    """Counts of pixels: true and false positives and negatives, foreground being positive, and of true masks."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0
    masks: int = 0

    def add(self, mask: FrameArray, truth: FrameArray) -> None:
        """Count one frame.

        Both masks have shape (height, width). In `mask` 255 is foreground. In `truth` 255 is foreground, 0 background
        and 50 shadow, which counts as background; every other value is not counted.
        """
        found = mask == FOREGROUND
        foreground = truth == FOREGROUND
        background = truth <= LAST_BACKGROUND
        self.tp += int(np.count_nonzero(found & foreground))
        self.fn += int(np.count_nonzero(~found & foreground))
        self.fp += int(np.count_nonzero(found & background))
        self.tn += int(np.count_nonzero(~found & background))
        self.masks += 1

    def metrics(self) -> dict[str, float | None]:
        """Return the seven metrics of CDnet by name, None where there is nothing to divide by.

        ``pwc`` is the percentage of wrong classifications.
        """
        tp, fp, fn, tn = self.tp, self.fp, self.fn, self.tn
        return {
            "recall": _ratio(tp, tp + fn),
            "specificity": _ratio(tn, tn + fp),
            "fpr": _ratio(fp, fp + tn),
            "fnr": _ratio(fn, tp + fn),
            "pwc": _ratio(100 * (fn + fp), tp + fp + fn + tn),
            "precision": _ratio(tp, tp + fp),
            "f_measure": _ratio(2 * tp, 2 * tp + fp + fn) if tp + fn else None,
        }


def background_errors(background: FrameArray, truth: FrameArray) -> dict[str, float | None]:
    """Return how far a background is from the true one, in grey.

    ``age`` is the mean of the absolute differences of grey levels; ``peps`` the share of error pixels, which differ by
    more than 20; ``pceps`` the share of error pixels whose four neighbours are error pixels, too; ``psnr`` is in
    decibels, None for equal pictures; ``ms_ssim`` is the multi-scale structural similarity (Wang, Simoncelli & Bovik
    2003), None for pictures with a side under 176 pixels, which do not have five scales.
    """
    found, true = _grey(background), _grey(truth)
    difference = np.abs(found - true)
    wrong = difference > ERROR_PIXEL
    inner = np.pad(wrong, 1)
    clustered = wrong & inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:]
    square = float((difference**2).mean())
    return {
        "age": float(difference.mean()),
        "peps": float(wrong.mean()),
        "pceps": float(clustered.mean()),
        "psnr": None if square == 0 else 10 * math.log10(255**2 / square),
        "ms_ssim": _ms_ssim(found, true),
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _grey(picture: FrameArray) -> NDArray[Any]:
    grey = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return grey.astype(np.float64)


def _ms_ssim(a: NDArray[Any], b: NDArray[Any]) -> float | None:
    """Return the multi-scale structural similarity of two grey pictures, or None if they are too small."""
    if min(a.shape) < WINDOW * 2 ** (len(WEIGHTS) - 1):
        return None
    parts = []
    for scale in range(len(WEIGHTS)):
        if scale:
            a, b = _halved(a), _halved(b)
        similarity, contrast = _ssim(a, b)
        parts.append(similarity if scale == len(WEIGHTS) - 1 else contrast)
    return float(np.prod(np.maximum(parts, 0) ** WEIGHTS))


def _halved(a: NDArray[Any]) -> NDArray[Any]:
    """Return half the size: the mean of each second pixel and its three neighbours above and to the left."""
    return np.asarray(cv2.blur(a, (2, 2), borderType=cv2.BORDER_REFLECT)[::2, ::2])


def _ssim(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, float]:
    """Return the means of the structural similarity, and of its part without luminance."""

    def window(x: NDArray[Any]) -> NDArray[Any]:
        edge = WINDOW // 2
        return np.asarray(cv2.GaussianBlur(x, (WINDOW, WINDOW), WINDOW_SIGMA))[edge:-edge, edge:-edge]

    mean_a, mean_b = window(a), window(b)
    var_a, var_b = window(a * a) - mean_a**2, window(b * b) - mean_b**2
    together = window(a * b) - mean_a * mean_b
    contrast = (2 * together + C2) / (var_a + var_b + C2)
    luminance = (2 * mean_a * mean_b + C1) / (mean_a**2 + mean_b**2 + C1)
    return float((luminance * contrast).mean()), float(contrast.mean())
