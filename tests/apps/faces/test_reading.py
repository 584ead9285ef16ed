"""Faces are found on photographs."""

import numpy as np
import pytest
from PIL import Image

from visionnmf.apps.faces import FaceReading
from visionnmf.apps.faces.reading import find_faces, open_faces, read_face
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import read_image, write_image


@pytest.mark.slow
def test_a_face_is_found_at_any_size():
    image = read_image("sample:astronaut")
    row, column, height, width = find_faces(image)[0]
    assert 40 < row < 110 and 150 < column < 200 and 60 < height < 150 and 60 < width < 150
    large = image.repeat(3, axis=0).repeat(3, axis=1)
    found = np.array(find_faces(large)[0]) / 3
    assert np.abs(found - (row, column, height, width)).max() < 25


def test_where_there_is_no_face_it_is_said(tmp_path):
    assert find_faces(np.zeros((100, 100, 3), np.uint8)) == []
    assert find_faces(np.zeros((10, 10, 3), np.uint8)) == []
    Image.new("RGB", (80, 80)).save(tmp_path / "black.png")
    with pytest.raises(UnreadableError, match="no upright frontal face was found"):
        read_face(tmp_path / "black.png")


@pytest.mark.parametrize("named", [True, False])
def test_a_folder_without_any_face_says_so_with_a_picture_and_the_cure(named, tmp_path, rng):
    folder = tmp_path / "people"
    for person in ("ada", "ben"):
        (folder / person).mkdir(parents=True)
        for i in range(2):
            write_image(folder / person / f"{i}.png", rng.integers(0, 255, (90, 80, 3)).astype(np.uint8))
    (folder / "ben" / "2.png").write_bytes(b"no picture")
    with pytest.raises(UnreadableError) as refused:
        open_faces(folder, reading=FaceReading(detect=True), named=named)
    said = str(refused.value)
    assert f"none of 5 pictures can be used, {folder}/ada/0.png and 3 more: no upright frontal face was found" in said
    assert f"{folder}/ben/2.png" in said and "leave out detect=True" in said
    for picture in folder.glob("*/[01].png"):
        picture.unlink()
    with pytest.raises(UnreadableError) as refused:
        open_faces(folder, reading=FaceReading(detect=True), named=named)
    assert "none of 1 picture can be used" in str(refused.value) and "detect" not in str(refused.value)


def test_detection_is_for_folders_and_fetched_faces_are_scaled(faces, tmp_path, monkeypatch):
    np.savez(tmp_path / "faces.npz", images=faces.images, labels=faces.labels)
    for source in (tmp_path / "faces.npz", "orl"):
        with pytest.raises(ParameterError, match="detect must be left out for a source that is not a folder"):
            open_faces(source, reading=FaceReading(detect=True))
    monkeypatch.setattr("visionnmf.datasets.fetch_orl", lambda: faces)
    assert open_faces("orl", reading=FaceReading(size=8))[0].images.shape == (24, 8, 8)
