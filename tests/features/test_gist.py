"""GIST against the formulas, and on gratings."""

import numpy as np
import pytest
from skimage.data import camera

from visionnmf.exceptions import ParameterError
from visionnmf.features import GIST

SIDE = 128


def naive_gist(grey, n_scales=4, n_orientations=8, n_cells=4):
    """The published program's steps, each filter at full size; `grey` is square, 0 to 255."""
    side = len(grey)
    logs = np.pad(np.log(grey + 1.0), 5, mode="symmetric")
    f = np.fft.fftfreq(len(logs), 1 / len(logs))
    blur = np.exp(-(f[:, None] ** 2 + f**2) / (4 / np.sqrt(np.log(2))) ** 2)
    contrast = logs - np.fft.ifft2(np.fft.fft2(logs) * blur).real
    deviation = np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(contrast**2) * blur)))
    image = np.pad((contrast / (0.2 + deviation))[5:-5, 5:-5], side // 4, mode="symmetric")
    n = len(image)
    f = np.fft.fftfreq(n, 1 / n)
    radius, angle = np.hypot(f[:, None], f), np.arctan2(f[:, None], f[None, :])
    found = []
    for scale in range(n_scales):
        for orientation in range(n_orientations):
            turned = angle + np.pi / n_orientations * orientation
            turned = turned + 2 * np.pi * (turned < -np.pi) - 2 * np.pi * (turned > np.pi)
            centre, width = 0.3 / 1.85**scale, 16 * n_orientations**2 / 32**2
            gabor = np.exp(-10 * 0.35 * (radius / n / centre - 1) ** 2 - 2 * width * np.pi * turned**2)
            answer = np.abs(np.fft.ifft2(np.fft.fft2(image) * gabor))[side // 4 : -side // 4, side // 4 : -side // 4]
            step = side // n_cells
            found += [
                answer[r : r + step, c : c + step].mean() for r in range(0, side, step) for c in range(0, side, step)
            ]
    return np.array(found)


@pytest.mark.parametrize("corner", [(100, 150), (0, 300), (300, 200)])
def test_gist_is_that_of_the_formulas(corner):
    grey = np.ascontiguousarray(camera()[corner[0] : corner[0] + SIDE, corner[1] : corner[1] + SIDE])
    found, expected = GIST().fit_transform([grey])[0], naive_gist(grey.astype(float))
    assert np.linalg.norm(found - expected) < 0.01 * np.linalg.norm(expected)
    np.testing.assert_allclose(found, expected, atol=0.03 * expected.max())  # coarse answers are sampled thinly


@pytest.mark.parametrize("scale", range(4))
def test_a_grating_answers_in_its_scale_and_orientation(scale):
    rows, columns = np.indices((SIDE, SIDE))
    extractor = GIST().fit([np.zeros((4, 4))])
    gratings = []
    for orientation in range(8):
        angle, frequency = -np.pi * orientation / 8, 0.3 / 1.85**scale
        wave = np.cos(2 * np.pi * frequency * (columns * np.cos(angle) + rows * np.sin(angle)))
        gratings.append(np.rint(128 + 60 * wave).astype(np.uint8))
    energy = extractor.transform(gratings).reshape(8, 4, 8, 16).mean(axis=-1)
    for orientation in range(8):
        assert np.unravel_index(energy[orientation].argmax(), (4, 8)) == (scale, orientation)


def test_a_shift_of_light_changes_little_and_a_mirror_exchanges_orientations():
    grey = np.ascontiguousarray(camera()[100 : 100 + SIDE, 150 : 150 + SIDE])
    extractor = GIST().fit([grey])
    first, dim, mirrored = extractor.transform(
        [grey, (0.5 * grey).astype(np.uint8), np.ascontiguousarray(grey[:, ::-1])]
    )
    assert np.linalg.norm(first - dim) < 0.1 * np.linalg.norm(first)
    cells = first.reshape(4, 8, 4, 4)[:, [0, 7, 6, 5, 4, 3, 2, 1], :, ::-1]
    np.testing.assert_allclose(mirrored.reshape(4, 8, 4, 4), cells, atol=0.02 * first.max())
    with pytest.raises(ParameterError, match="size must be a multiple of 16 and of 4"):
        GIST(size=100).fit([np.zeros((4, 4))])
