"""What notebooks show: escaped text, and pictures that decode to what they show."""

import base64
import re

import cv2
import numpy as np

from visionnmf._html import SIDE, table, thumbnail
from visionnmf.apps.background import Separated
from visionnmf.apps.faces import Identity
from visionnmf.apps.report import Report
from visionnmf.apps.segmentation import segment
from visionnmf.datasets import make_mosaic
from visionnmf.io import write_image


def pictures(page):
    """The pictures of a page, as RGB."""
    found = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    return [cv2.imdecode(np.frombuffer(base64.b64decode(each), np.uint8), 1)[..., ::-1] for each in found]


def test_tables_are_escaped_and_short_and_thumbnails_show_the_picture():
    page = table({"<b>": "<script>" + "x" * 500, "share": 0.123456})
    assert "<script>" not in page and "&lt;b&gt;" in page and "0.1235" in page and len(page) < 300
    assert "&quot;" in thumbnail(np.zeros((2, 2), np.uint8), '"')
    colours = np.zeros((4, 5, 3), np.uint8)
    colours[..., 0] = 200
    assert (pictures(thumbnail(colours))[0] == colours).all()
    assert pictures(thumbnail(np.zeros((1000, 10), np.uint16)))[0].shape[0] == SIDE
    labels = np.arange(12, dtype=np.uint16).reshape(3, 4)
    assert len(np.unique(pictures(thumbnail(labels))[0])) == 12  # labels can be told apart
    large = np.kron(np.array([[0, 100], [100, 0]], np.uint16), np.ones((317, 319), np.uint16))
    assert len(np.unique(pictures(thumbnail(large))[0])) == 2  # no mean of two labels


def test_results_have_their_pictures(tmp_path):
    result = segment(make_mosaic(48, 64, random_state=0).image, 3)
    assert (pictures(result._repr_html_())[0] == result.overlay()).all()
    mask = np.zeros((6, 8), np.uint8)
    mask[:3] = 255
    page = Separated(4, mask, mask, mask)._repr_html_()
    assert len(pictures(page)) == 3 and "50.00 %" in page
    assert "<td>ann</td>" in Identity("ann", "ann", 0.2, 0.4, 0.0)._repr_html_()
    write_image(tmp_path / "a.png", np.full((3, 4, 3), 90, np.uint8))
    page = Report(lines=["<b>"], outputs=[str(tmp_path / "a.png"), "gone.png"])._repr_html_()
    assert "&lt;b&gt;" in page and pictures(page)[0].shape == (3, 4, 3)
