"""How results say what they were made of."""

import numpy as np
from PIL import Image

from visionnmf.apps.made import made_of


def test_the_digest_of_several_pictures_is_that_of_their_content(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder / "frames").mkdir(parents=True)
        for number in range(2):
            level = 90 if folder == "a" else 10 * number  # BMP files of one size, whatever they show
            Image.fromarray(np.full((6, 8), level, np.uint8)).save(tmp_path / folder / "frames" / f"{number}.bmp")
    first, second = (made_of(tmp_path / folder / "frames", {})["input"] for folder in ("a", "b"))
    assert first != second and first.startswith("frames ")
    assert first == made_of(tmp_path / "a" / "frames", {})["input"]
