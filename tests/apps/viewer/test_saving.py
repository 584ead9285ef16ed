"""The widget Segment in the real viewer: what is saved, replaced, brought back another day, and left."""

import json
import os
import shlex

import cv2
import numpy as np
import pytest
from helpers import run_command
from real_viewer import (
    SAID,
    click,
    labels_of,
    needs_napari,
    opened,
    repeated,
    run_shown,
    save_a_stroke,
    stroke,
    wait,
    wait_for_next,
)

from visionnmf.apps.made import made_of
from visionnmf.apps.segmentation import segment
from visionnmf.apps.viewer.layers import read
from visionnmf.io import read_image, recording, write_image

pytestmark = needs_napari


def test_scribbles_have_a_command_while_they_are_as_saved(viewer, photo, tmp_path):
    widget = opened(viewer, "photo.png", "Segment")  # as a person names it who stands there
    click(widget.start)
    click(widget.draw)
    wait(widget)
    without = widget.command.value
    assert without and "--markers" not in without
    layer = widget.markers.value
    stroke(layer, 1, 60, (40, 50))
    wait(widget)
    assert not widget.command.value and widget.python.value.startswith("# Press Save first")
    click(widget.save)
    saved = widget.command.value
    assert f"--markers {tmp_path / 'photo_scribbles.png'}" in saved
    stroke(layer, 1, 280, (40, 400))
    wait(widget)
    assert not widget.command.value and widget.python.value.startswith("# Press Save first")
    layer.undo()
    wait(widget)
    assert widget.command.value == saved
    shown = widget.made("segments").data.astype(int) - 1
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    for folder in repeated(widget, tmp_path):
        np.testing.assert_array_equal(labels_of(folder), shown)
    layer.undo()
    wait(widget)
    widget.folder.value = tmp_path
    assert widget.command.value == without  # the file has the labels that the scribble gave


def test_the_command_finds_what_was_saved_up_to_date(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    save_a_stroke(widget)
    saved = labels_of(tmp_path)
    run = run_command(*[word for word in shlex.split(widget.command.value)[1:] if word != "--force"])
    assert run.exit_code == 0 and "photo_labels.png: exists already" in run.stderr
    run_shown(widget)  # which adds the pictures
    np.testing.assert_array_equal(labels_of(tmp_path), saved)
    assert (tmp_path / "photo_overlay.png").exists()
    widget.scale.value = 0.6
    wait(widget)
    run = run_command(*[word for word in shlex.split(widget.command.value)[1:] if word != "--force"])
    assert run.exit_code == 2 and "photo_labels.png: was made with --scale" in run.stderr
    click(widget.save)
    widget.made("segments").data[:9] = 70  # by hand, which no command repeats
    click(widget.save)
    assert (labels_of(tmp_path)[:9] == 69).all()
    assert not widget.command.value and "No command repeats what was drawn by hand" in widget.python.value
    run = run_command("segment", photo, "--out", tmp_path)
    assert run.exit_code == 2 and "was made with labels=drawn by hand" in run.stderr


def test_what_polygons_buckets_and_code_draw_is_cut_and_saved(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    save_a_stroke(widget)
    layer, tree = widget.markers.value, segment(read_image(photo))
    for label, draw in (
        (3, lambda: layer.paint_polygon([(100, 10), (100, 200), (150, 200), (150, 10)], 3)),
        (2, lambda: layer.fill((200, 300), 2)),
        (0, layer.undo),
    ):
        draw()
        wait(widget)
        assert label in layer.data
        expected = tree.at(scale=widget.scale.value, markers=layer.data) + 1
        np.testing.assert_array_equal(widget.made("segments").data, expected)
    layer.data[300:310, 50:200] = 7  # of which napari says nothing
    click(widget.save)
    wait(widget)
    assert widget.state.value.startswith("Saved ")
    saved = labels_of(tmp_path, "photo_scribbles.png"), labels_of(tmp_path)
    np.testing.assert_array_equal(saved[0], (layer.data.astype(int) - 1) % 65536)
    np.testing.assert_array_equal(saved[1], tree.at(scale=widget.scale.value, markers=layer.data))


def test_another_image_is_neither_cut_nor_saved_before_it_is_segmented(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    (tmp_path / "bird.png").write_bytes(photo.read_bytes())
    write_image(tmp_path / "small.png", read_image(photo)[:200, ::-1])
    save_a_stroke(widget)
    files, shown = sorted(tmp_path.iterdir()), widget.made("segments").data.copy()
    for name in ("bird", "small"):
        ((data, attributes, _),) = read(tmp_path / f"{name}.png")
        viewer.add_image(data, **attributes)
        assert widget.image.value is viewer.layers[name]  # which is seen
        for act in (lambda: None, lambda: setattr(widget.scale, "value", 0.7), lambda: click(widget.save)):
            act()
            wait(widget)
            assert widget.state.value == "Press Segment: another image is chosen."
            assert not widget.command.value and not widget.python.value
        np.testing.assert_array_equal(widget.made("segments").data, shown)
        assert sorted(tmp_path.iterdir()) == files
        widget.image.value = viewer.layers["photo"]
        wait(widget)
        shown = widget.made("segments").data.copy()
        assert widget.state.value.split()[0] == str(len(np.unique(shown))) and "photo.png" in widget.command.value
    widget.image.value = viewer.layers["small"]
    click(widget.start)
    wait(widget)
    assert widget.markers.value is None
    widget.markers.value = viewer.layers["scribbles"]
    wait(widget)
    click(widget.save)
    wait(widget)
    assert "markers must have the image's shape" in SAID[0][-1] and sorted(tmp_path.iterdir()) == files
    widget.markers.value = None
    wait(widget)
    click(widget.save)
    assert {*tmp_path.iterdir()} - {*files} == {tmp_path / "small_labels.png"}
    assert labels_of(tmp_path, "small_labels.png").shape == (200, 481)


def test_each_photograph_has_its_own_scribbles(viewer, photo, tmp_path):
    write_image(tmp_path / "coral.png", read_image(photo)[:, ::-1])
    for name in ("coral", "photo"):
        ((data, attributes, _),) = read(tmp_path / f"{name}.png")
        viewer.add_image(data, **attributes)
    widget = viewer.window.add_plugin_dock_widget("visionnmf", "Segment")[1]
    widget.image.value = viewer.layers["photo"]
    save_a_stroke(widget)
    own = {"photo": widget.markers.value, "coral": None}
    for name in ("coral", "photo", "coral"):
        widget.image.value = viewer.layers[name]
        click(widget.start)
        wait(widget)
        assert widget.markers.value is own[name]
        click(widget.save)
        assert (tmp_path / f"{name}_scribbles.png").exists() == (own[name] is not None)
    own["coral"] = viewer.add_labels(np.zeros((321, 481), np.uint16))  # by napari's own button
    widget.markers.value = own["coral"]
    stroke(own["coral"], 1, 60, (40, 400))
    wait(widget)
    for name in ("photo", "coral"):
        widget.image.value = viewer.layers[name]
        assert widget.markers.value is own[name]


def test_work_is_continued_the_next_day(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    save_a_stroke(widget)
    before, drawn = widget.made("segments").data.copy(), widget.markers.value.data.copy()
    viewer.layers.clear()
    for name in ("photo.png", "photo_labels.png", "photo_scribbles.png"):
        widget = opened(viewer, tmp_path / name, "Segment")
    click(widget.start)
    wait(widget)
    layer = widget.markers.value
    assert layer is viewer.layers["photo_scribbles"]
    np.testing.assert_array_equal(layer.data, drawn)
    np.testing.assert_array_equal(widget.made("segments").data, before)
    assert not viewer.layers["photo_labels"].visible  # which would lie under the new ones
    stroke(layer, 2, 200, (200, 300))
    wait(widget)
    click(widget.save)  # what was opened is replaced
    assert widget.state.value == "Saved photo_labels.png, photo_scribbles.png."
    np.testing.assert_array_equal(labels_of(tmp_path, "photo_scribbles.png"), (layer.data.astype(int) - 1) % 65536)
    shown = widget.made("segments").data.astype(int) - 1
    for folder in repeated(widget, tmp_path):
        np.testing.assert_array_equal(labels_of(folder), shown)
    viewer.layers.remove(layer)  # of whom nobody knows that it was seen
    widget.folder.value = tmp_path
    widget._seen.clear()
    click(widget.draw)
    stroke(widget.markers.value, 3, 100, (200, 300))
    wait(widget)
    click(widget.save)
    assert "photo_labels.png: exists already" in SAID[0][-1]
    click(widget.save)
    assert 2 in labels_of(tmp_path, "photo_scribbles.png") and 1 not in labels_of(tmp_path, "photo_scribbles.png")


@pytest.mark.parametrize(
    ("way", "number", "draws"), [("scale", 0.55, True), ("n_segments", 4, False), ("markers", 0, True)]
)
def test_the_next_day_a_photograph_is_as_it_was_saved(way, number, draws, viewer, photo, tmp_path, request):
    import napari

    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    if draws:
        click(widget.draw)
        stroke(widget.markers.value, 1, 60, (40, 400))
        stroke(widget.markers.value, 2, 260, (40, 400))
    widget.way.value, widget.formats.value = way, ("coco",)
    if number:
        (widget.scale if way == "scale" else widget.number).value = number
    wait(widget)
    widget.made("segments").data[100:120, 50:90] = 40  # by hand
    click(widget.save)
    saved, shown = {file: file.read_bytes() for file in tmp_path.iterdir()}, widget.made("segments").data.copy()
    another = napari.Viewer()
    request.addfinalizer(another.close)
    widget = opened(another, photo, "Segment")
    click(widget.start)
    wait(widget)
    wait(widget)  # what napari says of the layers comes later
    assert widget.way.value == way and widget.formats.value == ["coco"]
    assert not number or (widget.scale if way == "scale" else widget.number).value == number
    np.testing.assert_array_equal(widget.made("segments").data, shown)
    assert (widget.markers.value is not None) == draws and "drawn by hand" in widget.python.value
    assert not widget._unsaved()
    stroke(widget.made("segments"), 41, 200, (40, 400))
    assert widget._unsaved().startswith("Not saved: segments")
    widget.made("segments").undo()
    click(widget.save)  # at the first press, because it was seen
    assert widget.state.value.startswith("Saved ")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == saved


@pytest.mark.parametrize(
    ("words", "way", "control"), [(("--segments", "3"), "n_segments", "number"), (("--scale", "0.9"), "scale", "scale")]
)
def test_what_the_command_made_brings_back_its_settings(words, way, control, viewer, photo, tmp_path):
    assert run_command("segment", photo, *words, "--formats", "csv,coco", "--out", tmp_path).exit_code == 0
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    assert (widget.formats.value, widget.way.value) == (["coco", "csv"], way)
    assert getattr(widget, control).value == float(words[1])
    assert shlex.join(words) in widget.command.value and "--force" in widget.command.value
    (table,) = tmp_path.glob("*.csv")
    before = table.read_text()
    click(widget.save)  # at the first press
    assert "photo_segments.csv" in widget.state.value and not SAID[0]
    assert table.read_text() == before


def test_what_cannot_be_brought_back_takes_nothing_else_with_it(viewer, photo):
    with recording(**made_of(str(photo), {}) | {"settings": {"formats": ["other"], "markers": "a", "scale": 0.9}}):
        write_image(photo.with_name("photo_labels.png"), np.zeros(read_image(photo).shape[:2], np.uint16))
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    assert (widget.formats.value, widget.way.value, widget.scale.value) == ([], "scale", 0.9) and not SAID[0]


@pytest.mark.parametrize(
    "settings", [{"scale": "x"}, {"n_segments": 1e99}, [1], {"formats": [[]], "numbers": [-1]}, None]
)
@pytest.mark.parametrize("fits", [False, True])
def test_labels_of_others_do_not_steer_the_widget(fits, settings, viewer, photo, tmp_path):
    first = made_of(str(photo), {})["input"]
    with recording(input=first, settings=settings):
        write_image(tmp_path / "photo_labels.png", np.zeros(read_image(photo).shape[:2] if fits else (3, 4), np.uint16))
    (tmp_path / "photo_scribbles.png").write_bytes(b"bad")
    widget = opened(viewer, photo, "Segment")
    before = [each.value for each in (widget.way, widget.scale, widget.number, widget.formats)]
    click(widget.start)
    wait(widget)
    assert [each.value for each in (widget.way, widget.scale, widget.number, widget.formats)] == before and not SAID[0]
    if not fits:  # labels of another picture
        assert len(np.unique(widget.made("segments").data)) > 1
        click(widget.save)
        assert "photo_labels.png: exists already" in SAID[0][-1]


def test_next_photograph_goes_on_in_the_folder_and_asks_about_unsaved_work(viewer, photo, tmp_path):
    (tmp_path / "coral.jpg").write_bytes(b"bad")
    write_image(tmp_path / "bird.png", read_image(photo)[:, ::-1])
    write_image(tmp_path / "zoo.png", read_image(photo)[::-1])
    widget = opened(viewer, tmp_path / "bird.png", "Segment")
    save_a_stroke(widget)
    stroke(widget.markers.value, 2, 200, (40, 400))
    wait(widget)
    for draw in (lambda: None, lambda: stroke(widget.made("segments"), 9, 30, (9, 20))):
        draw()
        wait(widget)
        click(widget.following)  # asks again after a further stroke
        assert "Not saved: " in SAID[0][-1] and widget.image.value.name == "bird"
    click(widget.save)
    click(widget.following)
    wait_for_next(widget, "photo")  # neither the damaged one nor results
    assert "coral.jpg" in SAID[0][-1] and not widget.markers.value.data.any()
    widget.markers.value.undo()  # brings back nothing of the other photograph
    wait(widget)
    viewer.layers.selection.active = viewer.layers["segments"]
    click(widget.draw)  # the empty layer is taken again
    assert viewer.layers.selection.active is widget.markers.value and widget.markers.value.mode == "paint"
    assert sorted(layer.name for layer in viewer.layers) == ["photo", "scribbles", "segments"]
    np.testing.assert_array_equal(
        widget.made("segments").data, segment(read_image(photo)).at(scale=widget.scale.value) + 1
    )
    stroke(widget.markers.value, 1, 60, (40, 400))
    wait(widget)
    click(widget.following)
    assert "Not saved: " in SAID[0][-1]
    click(widget.following)  # leaves it
    wait_for_next(widget, "zoo")
    assert not widget.markers.value.data.any() and not (tmp_path / "photo_labels.png").exists()
    click(widget.following)
    assert widget.state.value == "zoo is the last photograph of its folder."
    assert widget.folder.value == tmp_path
    stroke(widget.markers.value, 1, 60, (40, 400))
    wait(widget)
    for button in (widget.previous, widget.following, widget.previous):  # each direction asks on its own
        click(button)
        assert f"Or press {button.text} again" in SAID[0][-1] and widget.image.value.name == "zoo"
    click(widget.previous)
    for name, place in (("photo", "3 of 4"), ("bird", "1 of 4")):  # of which one is damaged
        wait_for_next(widget, name)
        assert widget.state.value.endswith(f" segments (photograph {place})")
        np.testing.assert_array_equal(widget.image.value.data, read_image(tmp_path / f"{name}.png"))
        click(widget.previous)
    assert widget.state.value == "bird is the first photograph of its folder."
    assert widget.markers.value.data.any() and not widget._unsaved()  # what was saved of it is brought back


@pytest.mark.parametrize("draws", [True, False])
def test_annotation_goes_on_the_day_after(draws, viewer, photo, tmp_path, request):
    import napari

    names = ["photo", "photo2", "photo3", "photo4"]
    for name, flipped in zip(names[1:], (np.s_[::-1], np.s_[:300, ::-1], np.s_[::-1, ::-1]), strict=True):
        write_image(tmp_path / f"{name}.png", read_image(photo)[flipped])
    widget = opened(viewer, photo, "Segment")
    if draws:
        save_a_stroke(widget)
    else:
        click(widget.start)
        wait(widget)
        click(widget.save)
    another = napari.Viewer()
    request.addfinalizer(another.close)
    widget = opened(another, photo, "Segment")
    click(widget.start)
    wait(widget)
    wait(widget)
    assert (widget.markers.value is not None) == draws
    for number, name in enumerate(names[1:], start=2):
        if draws:
            layer = widget.markers.value
            another.layers.selection.active, layer.mode, layer.selected_label = layer, "erase", number
        click(widget.following)
        wait_for_next(widget, name)
        image, tree = read_image(tmp_path / f"{name}.png"), segment(read_image(tmp_path / f"{name}.png"))
        np.testing.assert_array_equal(widget.image.value.data, image)
        np.testing.assert_array_equal(widget.made("segments").data, tree.at(scale=widget.scale.value) + 1)
        if draws:
            assert widget.markers.value is layer and another.layers.selection.active is layer
            assert (layer.name, layer.mode, layer.selected_label) == ("scribbles", "paint", 1)
            stroke(layer, layer.selected_label, 60, (40, 400))
            wait(widget)
            click(widget.start)  # nor does this take the brush away
            wait(widget)
            assert layer.mode == "paint"
        click(widget.save)
        assert widget.state.value == f"Saved {name}_labels.png{f', {name}_scribbles.png' if draws else ''}."
        marks = widget.markers.value.data if draws else None
        expected = tree.at(scale=widget.scale.value, markers=marks)
        np.testing.assert_array_equal(labels_of(tmp_path, f"{name}_labels.png"), expected)
        assert (tmp_path / f"{name}_scribbles.png").exists() == draws
    assert not SAID[0] and len(another.layers) == 2 + draws


@pytest.mark.parametrize(("first", "second"), [(1, 257), (257, 1), (16, 1)])
def test_the_next_photograph_has_its_own_contrast(first, second, viewer, photo, tmp_path):
    for name, factor in (("q", first), ("r", second)):
        write_image(tmp_path / f"{name}.png", read_image(photo).astype(np.uint8 if factor == 1 else np.uint16) * factor)
    widget = opened(viewer, tmp_path / "q.png", "Segment")
    click(widget.following)
    wait_for_next(widget, "r")
    layer = widget.image.value
    fresh = viewer.add_image(layer.data, rgb=True)
    assert (
        layer.contrast_limits == fresh.contrast_limits and layer.contrast_limits_range[1] == np.iinfo(layer.dtype).max
    )


@pytest.mark.parametrize("draws", [True, False])
def test_the_brush_is_in_hand_and_fits_the_next_photograph(draws, viewer, photo, tmp_path):
    for name, size in (("q", 0.5), ("r", 2), ("s", 1)):
        write_image(tmp_path / f"{name}.png", cv2.resize(read_image(photo), None, fx=size, fy=size))
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    if draws:
        click(widget.draw)
    layer = widget.markers.value if draws else widget.made("segments")
    layer.brush_size = 20
    for name, size in (("q", 10), ("r", 40), ("s", 20)):
        viewer.layers.selection.active, layer.mode = layer, "erase"
        click(widget.following)
        wait_for_next(widget, name)
        assert (viewer.layers.selection.active, layer.mode, layer.brush_size) == (layer, "paint", size)


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("gone", ["segments", "photo"])
def test_no_command_is_shown_for_what_was_removed(gone, draws, viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    assert widget.command.value
    if draws:
        stroke(widget.made("segments"), 50, 60, (40, 400))
        wait(widget)
        assert widget.state.value.endswith("not saved yet.")
    viewer.layers.remove(gone)
    wait(widget)
    assert not widget.command.value and not widget.python.value
    assert ("segments were" if gone == "segments" else "The image was") + " removed" in widget.state.value
    click(widget.save)
    assert (tmp_path / "photo_labels.png").exists() == (gone == "photo") == (not SAID[0])  # whose segments are there
    widget.scale.value = 0.5
    wait(widget)
    assert bool(widget.command.value) == widget.state.value.endswith("segments") == (gone == "segments")


def test_scribbles_that_were_removed_are_not_said_to_be_unsaved(viewer, photo):
    widget = opened(viewer, photo, "Segment")
    click(widget.draw)
    stroke(widget.markers.value, 1, 60, (40, 400))
    click(widget.following)
    assert widget.state.value.startswith("Not saved: scribbles")
    viewer.layers.remove(widget.markers.value)  # before anything was segmented
    wait(widget)
    assert not widget.state.value and widget.markers.value is None


def test_what_was_said_of_layers_goes_when_they_change(viewer, photo, tmp_path):
    write_image(tmp_path / "zoo.png", read_image(photo)[::-1])
    widget = opened(viewer, photo, "Segment")
    save_a_stroke(widget)
    counted, segments, shown = "(photograph 1 of 2)", widget.made("segments"), widget.command.value
    for layer, label in ((segments, 50), (widget.markers.value, 2)):
        for presses in (0, 1):
            stroke(layer, label, 200, (40, 400))
            wait(widget)
            if presses:
                click(widget.following)
                assert widget.state.value.startswith("Not saved: ")
            assert not widget.command.value and ("not saved" in widget.state.value.lower() or layer is not segments)
            layer.undo()
            wait(widget)
            assert widget.state.value.endswith(counted) and widget.command.value == shown and not widget._unsaved()
    click(widget.save)
    widget.folder.value = tmp_path / "command"
    (tmp_path / "command").mkdir()
    (tmp_path / "command" / "photo_labels.png").write_text("mine")
    click(widget.save)
    assert widget.state.value.endswith("or Save again")
    widget.folder.value = tmp_path
    assert widget.state.value.endswith(counted)
    viewer.layers.remove(widget.markers.value)
    wait(widget)
    assert "--markers" not in widget.command.value and widget.state.value.endswith(counted)


@pytest.mark.parametrize("floats", [True, False])
def test_the_cross_of_the_widget_loses_nothing(floats, screen, photo, monkeypatch):
    import napari
    from napari._qt._qplugins._qnpe2 import _toggle_or_get_widget
    from qtpy.QtWidgets import QMessageBox

    asked, no = [], QMessageBox.StandardButton.No
    monkeypatch.setattr(QMessageBox, "question", lambda *given: asked.append(given[2]) or no)
    viewer = napari.Viewer()
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    click(widget.draw)
    wait(widget)
    stroke(widget.markers.value, 1, 60, (40, 400))
    wait(widget)
    (dock,) = viewer.window._wrapped_dock_widgets.values()
    dock.setFloating(floats)
    dock.titleBarWidget().close_button.click()
    assert not dock.isVisible()
    viewer.window._qt_window.close()
    assert asked == ["Not saved: segments, scribbles; press Save. Close all the same?"]
    _toggle_or_get_widget("visionnmf", "Segment", "Segment (visionnmf)")  # as the menu does
    assert dock.isVisible() and dock.inner_widget() is widget
    viewer.close()


def test_layers_that_are_renamed_stay_chosen(viewer, photo, tmp_path):
    (tmp_path / "bird.png").write_bytes(photo.read_bytes())
    write_image(tmp_path / "zoo.png", read_image(photo)[::-1])
    opened(viewer, photo, "Segment")
    widget = opened(viewer, tmp_path / "bird.png", "Segment")
    widget.image.value = chosen = viewer.layers["photo"]
    click(widget.start)
    wait(widget)
    for _ in range(2):
        click(widget.draw)
        stroke(widget.markers.value, 1, 60, (40, 400))
        wait(widget)
    drawn = widget.markers.value
    chosen.name = drawn.name = "mine"
    viewer.layers["scribbles"].name = "older"
    wait(widget)
    assert widget.image.value is chosen and widget.markers.value is drawn
    assert [*map(str, widget.image.choices)] == ["mine", "bird"]
    assert {*map(str, widget.markers.choices)} == {"None", "older", drawn.name}
    assert widget._drawn_on and len(np.unique(widget.made("segments").data)) > 1
    click(widget.save)
    widget.markers.value = None  # what was drawn for this photograph is not taken for the next
    wait(widget)
    click(widget.save)
    click(widget.following)
    wait_for_next(widget, "zoo")
    assert widget.image.value is chosen and widget.markers.value is None


@pytest.mark.parametrize("way", ["button of the frame", "menu"])
def test_closing_the_window_asks_about_unsaved_work(way, screen, photo, monkeypatch):
    import napari
    from napari._qt.dialogs.confirm_close_dialog import ConfirmCloseDialog
    from qtpy.QtWidgets import QMessageBox

    asked, yes, no = [], QMessageBox.StandardButton.Yes, QMessageBox.StandardButton.No
    answers = [no, yes]
    monkeypatch.setattr(QMessageBox, "question", lambda *given: asked.append(given[2]) or answers[len(asked) - 1])
    monkeypatch.setattr(ConfirmCloseDialog, "exec_", lambda dialog: ConfirmCloseDialog.DialogCode.Accepted)
    for ends in ("not begun", "nothing was drawn", "saved", "answered"):
        viewer = napari.Viewer()
        widget = opened(viewer, photo, "Segment")
        window = viewer.window._qt_window
        if ends != "not begun":
            click(widget.start)
            wait(widget)
        if ends not in ("not begun", "nothing was drawn"):
            click(widget.draw)
            stroke(widget.markers.value, 1, 60 if ends == "saved" else 200, (40, 400))
            wait(widget)
            if ends == "saved":
                click(widget.save)
        for n_asked in (1, 2) if ends == "answered" else (0,):
            assert window.isVisible()
            window.close(confirm_need=True) if way == "menu" else window.windowHandle().close()
            assert len(asked) == n_asked
        assert not window.isVisible()
        viewer.close()
    assert asked[0].startswith("Not saved: ")


def test_a_folder_that_was_chosen_stays(viewer, photo, tmp_path):
    (tmp_path / "results").mkdir()
    write_image(tmp_path / "zoo.png", read_image(photo)[::-1])
    widget = opened(viewer, photo, "Segment")
    widget.folder.value = tmp_path / "results"
    save_a_stroke(widget)
    click(widget.following)
    wait_for_next(widget, "zoo")
    click(widget.save)
    files = {"photo_labels.png", "photo_scribbles.png", "zoo_labels.png"}
    assert {file.name for file in (tmp_path / "results").iterdir()} == files


def test_files_of_others_are_kept(viewer, photo, tmp_path):
    (tmp_path / "photo_labels.png").write_text("mine")
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    click(widget.save)
    assert "exists already" in SAID[0][-1]
    assert (tmp_path / "photo_labels.png").read_text() == "mine"
    (tmp_path / "photo_labels.png").unlink()
    viewer.add_labels(np.full((321, 481), 70_000), name="too large")
    widget.markers.value = viewer.layers["too large"]
    wait(widget)
    click(widget.save)
    assert "labels must be" in SAID[0][-1]
    assert [file.name for file in tmp_path.iterdir()] == ["photo.png"]  # both files or none


def test_formats_are_written_beside_the_labels_as_by_the_command(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    widget.formats.value = ("coco",)
    save_a_stroke(widget)
    assert widget.state.value == "Saved photo_labels.png, photo_scribbles.png, photo_coco.json."
    assert "--formats coco --out" in widget.command.value and "formats=('coco',)" in widget.python.value
    saved = (tmp_path / "photo_coco.json").read_bytes()
    assert len(json.loads(saved)["annotations"]) == len(np.unique(labels_of(tmp_path)))
    for folder in repeated(widget, tmp_path):
        assert (folder / "photo_coco.json").read_bytes() == saved
    (tmp_path / "command" / "photo_coco.json").write_text("mine")
    (tmp_path / "command" / "photo_labels.png").unlink()
    widget.folder.value = tmp_path / "command"
    click(widget.save)
    assert "photo_coco.json: exists already" in SAID[0][-1] and "--force" not in widget.command.value
    assert not (tmp_path / "command" / "photo_labels.png").exists()
