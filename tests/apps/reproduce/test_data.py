"""The papers' data: where they are looked for, and photographs with the segmentations beside them."""

import numpy as np
import pytest
from PIL import Image

from visionnmf.apps.reproduce import data
from visionnmf.exceptions import UnreadableError
from visionnmf.io import write_image


def test_without_the_data_the_message_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path / "absent"))
    assert data.data_folder() is None
    with pytest.raises(UnreadableError, match=r"VISIONNMF_DATA names '.*absent', which is not a folder\. Set it"):
        data.load_face_set("orl_32x32")
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    assert data.data_folder() == tmp_path
    with pytest.raises(UnreadableError, match=r"does not exist\. Set VISIONNMF_DATA"):
        data.load_face_set("orl_32x32")


def test_photographs_come_by_number_with_segmentations_of_any_form(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path))
    truth = np.kron(np.eye(2, dtype=np.uint8), np.ones((4, 5), np.uint8))
    (tmp_path / "bsds").mkdir()
    for number in (10, 9):
        Image.fromarray(rng.integers(0, 256, (8, 10, 3), dtype=np.uint8)).save(tmp_path / "bsds" / f"{number}.jpg")
    np.savez(tmp_path / "bsds" / "9.npz", segmentations=truth[None])
    write_image(tmp_path / "bsds" / "10_1.png", 255 * truth)
    found = list(data.load_photographs())
    assert [one.name for one in found] == ["9", "10"]
    for one in found:
        np.testing.assert_array_equal(one.segmentations, [truth])


def test_what_figures_share_belongs_to_a_folder_of_data(tmp_path, monkeypatch):
    calls = []
    shared = data.kept(lambda *names: calls.append(names) or len(calls))
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv("VISIONNMF_DATA", str(tmp_path / folder))
        assert shared("a") == shared("a") != shared("b")
    assert len(calls) == 4
