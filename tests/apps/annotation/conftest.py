"""Made images of a few themes, whose words follow from the theme."""

import cv2
import numpy as np
import pytest

THEMES = {"Meer": (20, 60, 200), "łąka": (40, 180, 40), "火": (220, 60, 20)}


def theme_image(rng, colour, size=(24, 32)):
    return np.clip(np.array(colour) + rng.normal(0, 25, (*size, 3)), 0, 255).astype(np.uint8)


@pytest.fixture
def photos(tmp_path, rng):
    """A folder with 30 photographs of three themes and their table of words."""
    folder = tmp_path / "photos"
    (folder / "unter").mkdir(parents=True)
    lines = ["file,words"]
    for i in range(30):
        word = list(THEMES)[i % 3]
        name = f"unter/{i}.png" if i % 2 else f"{i}.png"
        cv2.imwrite(str(folder / name), theme_image(rng, THEMES[word])[..., ::-1])
        lines.append(f"{name},{word};alle")
    table = tmp_path / "words.csv"
    table.write_text("\n".join(lines), "utf-8")
    return folder, table
