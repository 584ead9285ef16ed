"""The widget Segment in the real viewer: what is painted on the segments themselves, saved, undone and laid aside."""

import json

import numpy as np
import pytest
from real_viewer import SAID, click, labels_of, needs_napari, opened, stroke, wait, wait_for_next

from visionnmf.apps.segmentation.settings import FORMATS
from visionnmf.io import read_image, write_image

pytestmark = needs_napari


def test_formats_have_what_was_drawn_by_hand(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    seen = widget.made("segments").data
    seen[:9], seen[20:60, 30:80], seen[200:210] = 70, 33, 0
    expected = seen.copy()
    widget.formats.value = tuple(FORMATS)
    click(widget.save)
    labels = labels_of(tmp_path)
    np.testing.assert_array_equal(labels == 65535, expected == 0)
    numbers = np.unique(expected[expected > 0])  # numbered without gaps, but not in what is seen
    np.testing.assert_array_equal(numbers[labels[expected > 0]], expected[expected > 0])
    np.testing.assert_array_equal(widget.made("segments").data, expected)
    coco = json.loads((tmp_path / "photo_coco.json").read_text())["annotations"]
    assert [each["area"] for each in coco] == np.bincount(labels[labels < 65535]).tolist()
    assert coco[int(labels[30, 40])]["bbox"] == [30, 20, 50, 40]
    assert len(list(tmp_path.glob("photo_*"))) == 1 + len(FORMATS)


def test_saving_changes_nothing_that_is_undone_or_drawn_after_it(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    widget.way.value, widget.number.value, widget.formats.value = "n_segments", 5, ("coco",)
    click(widget.start)
    wait(widget)
    layer = widget.made("segments")
    before = layer.data.copy()
    layer.fill(tuple(np.argwhere(before == 2)[0]), 0)
    wait(widget)
    click(widget.save)
    layer.undo()
    np.testing.assert_array_equal(layer.data, before)
    wait(widget)
    click(widget.save)
    np.testing.assert_array_equal(labels_of(tmp_path), before - 1)
    for columns in ((40, 200), (180, 400)):  # one thing
        stroke(layer, 50, 60, columns)
        wait(widget)
        click(widget.save)
    drawn = (layer.data == 50).sum()
    coco = json.loads((tmp_path / "photo_coco.json").read_text())["annotations"]
    assert len(coco) == 6 and coco[-1]["area"] == drawn == (labels_of(tmp_path) == 5).sum()


def test_what_is_drawn_on_segments_is_kept(viewer, photo):
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    viewer.layers.selection.active = layer = widget.made("segments")
    drawn = []
    for scale in (0.5, 0.7):
        shown = layer.data.copy()
        layer.paint((60, 60), 77)
        wait(widget)
        assert not widget.command.value and "No command repeats" in widget.python.value
        layer.undo()
        wait(widget)
        assert widget.command.value and np.array_equal(layer.data, shown)
        layer.redo()
        drawn.append(layer.data.copy())
        widget.scale.value = scale
        wait(widget)
        assert "in the layer 'segments (by hand)" in SAID[0].pop() and widget.command.value
        assert viewer.layers.selection == {layer} and 77 not in layer.data
    kept = [each for each in viewer.layers if each.name.startswith("segments (by hand)")]
    np.testing.assert_array_equal([each.data for each in kept], drawn)
    widget.way.value, widget.markers.value = "markers", kept[1]  # which are chosen as scribbles
    wait(widget)
    numbers = np.unique(drawn[1])
    np.testing.assert_array_equal(numbers[layer.data - 1], drawn[1])


def test_segments_are_painted_and_saved_without_scribbles(viewer, photo, tmp_path, request):
    import napari

    write_image(tmp_path / "zoo.png", read_image(photo)[::-1])
    widget = opened(viewer, photo, "Segment")
    widget.way.value, widget.formats.value = "markers", ("coco",)
    click(widget.start)
    for name in ("photo", "zoo"):
        wait_for_next(widget, name)
        layer = widget.made("segments")
        assert "draw a scribble on each thing" in widget.state.value and " of 2)" in widget.state.value
        assert not SAID[0] and not widget.command.value
        click(widget.save)
        assert "draw a scribble on each thing" in SAID[0].pop() and not (tmp_path / f"{name}_labels.png").exists()
        viewer.layers.selection.active, layer.mode = layer, "paint"
        for label, row in ((3, 60), (5, 200)):
            stroke(layer, label, row, (40, 400))
        wait(widget)
        click(widget.following)
        assert "Not saved: segments; press Save." in SAID[0].pop()
        click(widget.save)
        assert widget.state.value == f"Saved {name}_labels.png, {name}_coco.json."
        labels = labels_of(tmp_path, f"{name}_labels.png")
        np.testing.assert_array_equal(labels, np.select([layer.data == 3, layer.data == 5], [0, 1], 65535))
        coco = json.loads((tmp_path / f"{name}_coco.json").read_text())
        names = {each["id"]: each["name"] for each in coco["categories"]}
        assert [names[each["category_id"]] for each in coco["annotations"]] == ["3", "5"]
        painted = layer.data.copy()
        click(widget.following)
    assert widget.state.value == "zoo is the last photograph of its folder."
    another = napari.Viewer()
    request.addfinalizer(another.close)
    widget = opened(another, tmp_path / "zoo.png", "Segment")
    click(widget.start)
    wait(widget)
    assert widget.way.value == "markers" and widget.state.value == "2 segments (photograph 2 of 2)" and not SAID[0]
    np.testing.assert_array_equal(widget.made("segments").data, painted)


def test_formats_keep_the_names_of_scribbles_where_a_segment_was_painted_over(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    click(widget.draw)
    wait(widget)
    for label, row in ((1, 60), (2, 180), (3, 280)):
        stroke(widget.markers.value, label, row, (40, 400))
    widget.formats.value = ("coco",)
    wait(widget)
    seen = widget.made("segments").data
    seen[seen == 1] = 3
    area = {"2": np.count_nonzero(seen == 2), "3": np.count_nonzero(seen == 3)}
    click(widget.save)
    wait(widget)
    coco = json.loads((tmp_path / "photo_coco.json").read_text())
    names = {each["id"]: each["name"] for each in coco["categories"]}
    assert {
        names[each["category_id"]]: each["area"]
        for each in coco["annotations"]
        if names[each["category_id"]] != "segment"
    } == area


@pytest.mark.parametrize("ends", ["saved", "removed", "left"])
def test_a_drawing_that_was_laid_aside_is_asked_about_by_name(ends, viewer, photo, tmp_path):
    for name in ("q", "r"):
        write_image(tmp_path / f"{name}.png", read_image(photo)[::-1])
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    stroke(widget.made("segments"), 50, 60, (40, 400))
    widget.scale.value = 0.5
    wait(widget)
    click(widget.save)
    SAID[0].clear()
    click(widget.following)
    assert SAID[0].pop().startswith("Not saved: segments (by hand); select it and press File > Save.")
    layer = viewer.layers["segments (by hand)"]
    if ends == "saved":
        viewer.layers.selection.active = layer
        viewer.layers.save(str(tmp_path / "aside.png"), selected=True, plugin="visionnmf")
        assert 49 in labels_of(tmp_path, "aside.png")
    if ends == "removed":
        viewer.layers.remove(layer)
    widget._repeat()  # what was asked before no longer counts
    for name in ("q", "r"):
        for _ in range(1 + (ends == "left" and name == "q")):
            click(widget.following)
        wait_for_next(widget, name)
        assert not SAID[0] or (ends == "left" and SAID[0].pop())
