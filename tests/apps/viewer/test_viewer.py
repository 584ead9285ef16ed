"""The widgets in the real viewer on a virtual screen: what is drawn gives what the functions and the commands give.

`make test-napari` runs these tests where napari is installed; they need Xvfb.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from helpers import run_command
from real_viewer import SAID, click, labels_of, needs_napari, opened, repeated, run_shown, stroke, wait

from visionnmf import NMF
from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.segmentation import segment
from visionnmf.apps.viewer.layers import read
from visionnmf.datasets import load_surveillance
from visionnmf.io import VideoReader, VideoWriter, read_image, write_image

pytestmark = needs_napari


def test_strokes_change_the_segments_as_the_function_and_the_command_do(viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    tree = segment(read_image(photo))
    np.testing.assert_array_equal(viewer.layers["segments"].data, tree.at(scale=widget.scale.value) + 1)
    click(widget.draw)
    drawn = widget.markers.value
    seconds = []
    for label, row, columns in ((1, 60, (40, 300)), (2, 200, (200, 300)), (1, 300, (20, 460)), (3, 190, (330, 420))):
        before = time.process_time(), time.perf_counter()
        stroke(drawn, label, row, columns)
        wait(widget)
        seconds.append((time.process_time() - before[0], time.perf_counter() - before[1]))
        shown = viewer.layers["segments"].data
        np.testing.assert_array_equal(shown, tree.at(scale=widget.scale.value, markers=drawn.data) + 1)
        assert (shown[drawn.data == label] == label).all()
    print(f"a stroke on {shown.shape}, seconds of the processor and of the clock:", np.round(seconds, 3).tolist())
    assert min(seconds)[0] < 0.2
    drawn.undo()
    wait(widget)
    np.testing.assert_array_equal(
        viewer.layers["segments"].data, tree.at(scale=widget.scale.value, markers=drawn.data) + 1
    )
    click(widget.save)
    assert {file.name for file in tmp_path.iterdir()} == {"photo.png", "photo_labels.png", "photo_scribbles.png"}
    expected = viewer.layers["segments"].data.astype(int) - 1
    np.testing.assert_array_equal(labels_of(tmp_path), expected)
    for folder in repeated(widget, tmp_path):
        np.testing.assert_array_equal(labels_of(folder), expected)


@pytest.mark.parametrize(
    ("way", "number", "fewest"), [("n_segments", 5, 2), ("n_segments", 400, 300), ("markers", 0, 2), ("scale", 0.15, 9)]
)
def test_each_way_of_cutting_is_that_of_the_command(way, number, fewest, viewer, photo, tmp_path):
    widget = opened(viewer, photo, "Segment")
    if way != "markers":  # a scribble begins as well
        click(widget.start)
    click(widget.draw)
    wait(widget)
    for label, row in ((1, 60), (2, 280)):
        stroke(widget.markers.value, label, row, (30, 400))
    widget.way.value = way
    if way == "scale":
        widget.scale.value = number
    elif number:
        widget.number.value = number
    wait(widget)
    shown = viewer.layers["segments"].data.astype(int) - 1
    assert len(np.unique(shown)) >= fewest
    is_fewer = way == "n_segments" and len(np.unique(shown)) < number
    assert (f", of {number} asked for: a scribble joins some" in widget.state.value) == is_fewer
    click(widget.save)
    for folder in repeated(widget, tmp_path):
        np.testing.assert_array_equal(labels_of(folder), shown)


def test_a_stroke_on_twelve_megapixels_takes_less_than_a_second(viewer, tmp_path):
    write_image(tmp_path / "photo.png", cv2.resize(read_image("sample:coffee"), (4000, 3000)))
    widget = opened(viewer, tmp_path / "photo.png", "Segment")
    click(widget.start)
    wait(widget)
    click(widget.draw)
    wait(widget)
    seconds = []
    for label, row in ((1, 600), (2, 1700), (3, 2500)):
        before = time.process_time(), time.perf_counter()
        stroke(widget.markers.value, label, row, (800, 3000))
        wait(widget)
        seconds.append((time.process_time() - before[0], time.perf_counter() - before[1]))
    print("a stroke on 12 megapixels, seconds of the processor and of the clock:", np.round(seconds, 2).tolist())
    assert min(seconds)[0] < 1


def test_the_window_answers_while_the_tree_is_grown_and_further_clicks_wait(viewer, photo):
    from qtpy.QtCore import QTimer

    widget = opened(viewer, photo, "Segment")
    ticks = []
    timer = QTimer()
    timer.timeout.connect(lambda: ticks.append(widget._worker is not None))
    timer.start(5)
    for _ in range(3):
        click(widget.start)
    for scale in (0.1, 0.5, 0.3):
        widget.scale.value = scale
    wait(widget)
    timer.stop()
    assert sum(ticks) >= 3 and not SAID[0]
    expected = segment(read_image(photo)).at(scale=0.3) + 1
    np.testing.assert_array_equal(viewer.layers["segments"].data, expected)


def test_what_cannot_be_segmented_is_said_in_a_sentence(viewer, photo):
    widget = opened(viewer, photo, "Segment")
    click(widget.start)
    wait(widget)
    viewer.add_labels(np.ones((5, 5), int), name="small")
    widget.markers.value = viewer.layers["small"]
    wait(widget)
    assert "markers must have the image's shape" in SAID[0][-1] and "markers must" in widget.state.value
    viewer.add_image(np.zeros((3, 20, 20)), name="stack")
    widget.image.value = viewer.layers["stack"]
    click(widget.start)
    wait(widget)
    assert "one picture" in SAID[0][-1]


def test_layers_of_others_are_kept_whatever_their_names(viewer, photo):
    widget = opened(viewer, photo, "Segment")
    own = {"segments": np.full((321, 481), 7)}
    viewer.add_labels(own["segments"], name="segments")
    click(widget.start)
    wait(widget)
    widget.scale.value = 0.5
    wait(widget)
    np.testing.assert_array_equal(widget.made("segments").data, segment(read_image(photo)).at(scale=0.5) + 1)
    assert [layer.name for layer in widget.markers.choices if layer is not None] == ["segments"]
    widget = opened(viewer, load_surveillance().path, "Background")
    for name in ("foreground", "background"):
        own[name] = np.full((4, 5), 0.5)
        viewer.add_image(own[name], name=name)
    widget.video.value, widget.read[1].value = viewer.layers["surveillance"], 2.0
    click(widget.learn)
    wait(widget)
    assert widget.made("foreground").data.shape == (20, 240, 320)
    assert {layer.name for layer in widget.video.choices} == {"photo", "surveillance", "foreground", "background"}
    widget.threshold.value = 4.0
    viewer.layers.remove(widget.made("foreground"))
    widget._masked(0)  # of the work that goes on
    wait(widget)
    for name, data in own.items():
        assert viewer.layers[name].data is data


def test_the_segmented_picture_is_seen_and_undoing_brings_back_no_older_cut(viewer, photo, tmp_path):
    opened(viewer, photo, "Segment")
    (tmp_path / "bird.png").write_bytes(photo.read_bytes())
    widget = opened(viewer, tmp_path / "bird.png", "Segment")
    widget.image.value = viewer.layers["photo"]
    click(widget.start)
    wait(widget)
    layer = widget.made("segments")
    assert not viewer.layers["bird"].visible
    widget.image.value = viewer.layers["bird"]
    click(widget.start)
    wait(widget)
    assert viewer.layers.index(layer) > viewer.layers.index("bird")
    assert viewer.layers["bird"].visible and not viewer.layers["photo"].visible
    stroke(layer, 50, 100, (100, 300))
    widget.scale.value = 0.8
    wait(widget)
    shown = layer.data.copy()
    layer.undo()
    np.testing.assert_array_equal(layer.data, shown)


def test_pixels_that_no_file_holds_have_no_command(viewer, photo):
    widget = opened(viewer, photo, "Segment")
    viewer.layers["photo"].data = 255 - viewer.layers["photo"].data
    click(widget.start)
    wait(widget)
    assert widget.command.value == "" and "not what a file holds" in widget.python.value


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_grey_photograph_that_napari_opened_has_its_command(kind, viewer, photo, tmp_path):
    write_image(
        tmp_path / "photo.png", read_image(photo)[..., 1].astype(kind) * kind(np.iinfo(kind).max // 255), force=True
    )
    viewer.open(str(photo), plugin="napari")
    widget = viewer.window.add_plugin_dock_widget("visionnmf", "Segment")[1]
    click(widget.start)
    wait(widget)
    assert viewer.layers["photo"].ndim == 2 and not viewer.layers["photo"].rgb
    click(widget.save)
    for folder in repeated(widget, tmp_path):
        np.testing.assert_array_equal(labels_of(folder), labels_of(tmp_path))


def test_what_napari_did_not_turn_is_saved_under_its_name_without_a_command(viewer, photo, tmp_path):
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"  # to be turned right
    jpeg = cv2.imencode(".jpg", read_image(photo))[1].tobytes()
    file = tmp_path / "turned.jpg"
    file.write_bytes(jpeg[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + jpeg[2:])
    viewer.open(str(file), plugin="napari")
    assert read_image(file).shape == (481, 321, 3) and viewer.layers["turned"].data.shape == (321, 481, 3)
    widget = viewer.window.add_plugin_dock_widget("visionnmf", "Segment")[1]
    click(widget.start)
    wait(widget)
    assert not widget.command.value and "not turned as the camera says" in widget.python.value
    click(widget.save)
    assert widget.state.value == "Saved turned_labels.png." and (tmp_path / "turned_labels.png").exists()


def test_labels_are_opened_and_saved_by_napari_itself(viewer, rng, tmp_path):
    labels = rng.integers(0, 9, (20, 30)).astype(np.uint16)
    write_image(tmp_path / "photo_labels.png", labels)
    (layer,) = viewer.open(str(tmp_path / "photo_labels.png"), plugin="visionnmf")
    np.testing.assert_array_equal(layer.data, labels + 1)
    layer.save(str(tmp_path / "again.png"), plugin="visionnmf")
    np.testing.assert_array_equal(labels_of(tmp_path, "again.png"), labels)
    (clip,) = viewer.open(str(load_surveillance().path), plugin="visionnmf")
    assert clip.data.shape == (300, 240, 320, 3)


def test_foreground_and_regions_are_those_of_the_command(viewer, tmp_path):
    widget = opened(viewer, load_surveillance().path, "Background")
    start, end, *_ = widget.read
    start.value, end.value = 2.0, 6.0
    widget.threshold.value = 4.0
    viewer.dims.set_current_step(0, 45)
    click(widget.learn)
    click(widget.learn)
    wait(widget)
    layer = viewer.layers["foreground"]
    frames = np.stack(list(VideoReader(load_surveillance().path, start=2.0, end=6.0)))
    masks = np.stack([part.mask for part in BackgroundModel(threshold=4.0).fit(frames).apply(frames)])
    np.testing.assert_array_equal(layer.data > 0, masks > 0)
    assert layer.translate[0] == 20 and layer.data.any() and (layer.data == 2).any()
    for area in (0.002, 0.0):
        widget.min_area.value = area
        wait(widget)
        for mask, labels in zip(masks, layer.data, strict=True):
            sizes = cv2.connectedComponentsWithStats(mask, connectivity=8)[2][1:, cv2.CC_STAT_AREA]
            assert np.count_nonzero(labels == 1) == sizes[sizes >= area * mask.size].sum()
    click(widget.draw["ignore"])
    widget.regions["ignore"].value.add(np.array([[100, 10], [100, 200], [230, 200], [230, 10]]), shape_type="ellipse")
    click(widget.draw["roi"])
    widget.regions["roi"].value.add(np.array([[20, 0], [239, 0], [200, 300]]), shape_type="polygon")
    wait(widget)
    assert np.count_nonzero(layer.data) < np.count_nonzero(masks)
    for folder in repeated(widget, tmp_path):
        pictures = sorted((folder / "surveillance_masks").glob("*.png"))
        assert len(pictures) == 40
        for picture, labels in zip(pictures, layer.data, strict=True):
            np.testing.assert_array_equal(read_image(picture)[..., 0] > 0, labels > 0)


def test_a_smaller_scale_is_shown_in_place(viewer):
    widget = opened(viewer, load_surveillance().path, "Background")
    for control, value in zip(widget.read, (1.0, 3.0, 0.5, 2), strict=True):
        control.value = value
    click(widget.learn)
    wait(widget)
    layer = viewer.layers["foreground"]
    assert layer.data.shape == (10, 120, 160)
    assert layer.scale.tolist() == [2, 2, 2] and layer.translate[0] == 10
    assert layer.extent.world[1].max() <= 321


@pytest.mark.parametrize("first", ["foreground", "surveillance"])
def test_frames_that_were_not_learnt_say_so(first, viewer):
    widget = opened(viewer, load_surveillance().path, "Background")
    widget.read[0].value, widget.read[1].value = 2.0, 5.0
    click(widget.learn)
    wait(widget)
    text = viewer.canvas.overlays.text
    assert widget.state.value == "30 of 30 frames are masked." and text.visible
    for frame, said in ((19, "before 2 s"), (20, ""), (49, ""), (50, "after 5 s"), (299, "after 5 s"), (30, "")):
        viewer.dims.set_current_step(0, frame)
        wait(widget)
        time, *beyond = text.text.splitlines()
        assert time == f"{frame / 10:.2f} s" and [said in line for line in beyond] == [True] * bool(said)
    viewer.dims.set_current_step(0, 150)
    assert widget.command.value
    second = "surveillance" if first == "foreground" else "foreground"
    viewer.layers.remove(first)
    wait(widget)
    assert not widget.command.value and not widget.python.value
    foreground, video = "Press Learn: the foreground was removed.", "Open the video again: it was removed."
    assert widget.state.value == (foreground if first == "foreground" else video)
    assert text.text == "15.00 s" or first != "foreground"
    widget.threshold.value = 4.0
    viewer.layers.remove(second)
    wait(widget)
    assert widget.state.value == foreground and not widget.command.value
    viewer.layers.clear()
    wait(widget)
    assert not text.visible


@pytest.mark.parametrize("colour", [0, 90])
def test_the_background_without_black_frames_is_that_of_the_command(colour, viewer, tmp_path):
    frames = list(VideoReader(load_surveillance().path, end=4.0))
    frames[3:30] = [np.full_like(frames[0], colour)] * 27  # more than half: a median over all would be blank
    with VideoWriter(tmp_path / "spoilt.mkv", width=320, height=240, frame_rate=10, codec="ffv1") as writer:
        for frame in frames:
            writer.write(frame)
    widget = opened(viewer, tmp_path / "spoilt.mkv", "Background")
    click(widget.learn)
    wait(widget)
    assert "Note: not learnt: 27 frames without a picture" in widget.state.value
    learnt = viewer.layers["background"].data
    truth = BackgroundModel().fit([*frames[:3], *frames[30:]]).background_
    np.testing.assert_array_equal(learnt, truth)
    assert widget.folder.value == tmp_path
    (tmp_path / "results").mkdir()
    widget.folder.value = tmp_path / "results"
    assert widget.state.value.startswith("40 of 40 frames are masked.")  # and not once more
    os.chdir("/")
    run_shown(widget)
    np.testing.assert_array_equal(read_image(tmp_path / "results" / "spoilt_background.png"), learnt)


@pytest.mark.parametrize("name", ["Segment", "Background", "Components"])
def test_a_small_window_shows_all_controls(name, viewer, photo, rng):
    from qtpy.QtCore import QPoint, QPointF, Qt
    from qtpy.QtGui import QWheelEvent
    from qtpy.QtWidgets import QApplication

    viewer.add_image(rng.random((30, 12, 15)), name="stack")
    widget = opened(viewer, load_surveillance().path if name == "Background" else photo, name)
    window = viewer.window._qt_window
    window.resize(1024, 700)
    wait(widget)
    if name == "Components":
        widget.stack.value, widget.controls[1].value = viewer.layers["stack"], 12
        click(widget.start)
        wait(widget)
        widget.curves.draw()
        (axes,) = widget.curves.figure.axes
        for part in (axes.get_legend().get_window_extent(), axes.get_tightbbox()):
            assert part.x0 >= 0 and part.y0 >= 0 and part.x1 <= axes.figure.bbox.x1 and part.y1 <= axes.figure.bbox.y1
    widget.done("a/long/path/of/a/file" * 20)  # without a space
    window.resize(1024, 700)
    wait(widget)
    column = widget.column
    assert (window.width(), window.height()) == (1024, 700) and window.minimumSizeHint().height() < 650
    assert column.widget().width() <= column.viewport().width()
    assert widget.state.native.height() >= widget.state.native.document().size().height() > 60
    bar = column.verticalScrollBar()
    bar.setValue(bar.maximum())
    assert bar.maximum() >= column.widget().height() - column.viewport().height() > 0
    bar.setValue(0)
    turned = widget.controls[1] if name == "Components" else widget.number if name == "Segment" else widget.threshold
    before, place = turned.value, QPointF(5, 5)
    turn = QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    event = QWheelEvent(place, place, *turn, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(turned.native, event)
    assert turned.value == before and not event.isAccepted()


def test_a_video_that_is_cut_off_says_so(viewer, tmp_path):
    path = tmp_path / "cut.mkv"
    with VideoWriter(path, width=320, height=240, frame_rate=10, codec="ffv1") as writer:
        for frame in VideoReader(load_surveillance().path, end=6.0):
            writer.write(frame)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    n_frames = len(list(reader := VideoReader(path)))
    widget = opened(viewer, path, "Background")
    for end, said in ((0.5, ""), (60.0, "".join(f"\nNote: {note}." for note in reader.notes))):
        widget.read[1].value = end
        click(widget.learn)
        wait(widget)
        n_learnt = min(n_frames, round(end * 10))
        assert widget.state.value == f"{n_learnt} of {n_learnt} frames are masked.{said}"
    assert "cut off or damaged" in said and 5 < n_frames < 60


def test_a_second_video_is_chosen_and_its_foreground_seen(viewer, tmp_path):
    widget = opened(viewer, load_surveillance().path, "Background")
    (tmp_path / "again.mp4").write_bytes(load_surveillance().path.read_bytes())
    widget.read[1].value = 2.0
    click(widget.learn)
    wait(widget)
    shown = widget.command.value
    ((data, attributes, _),) = read(tmp_path / "again.mp4")
    viewer.add_image(data, **attributes)
    wait(widget)
    first, second = viewer.layers["surveillance"], viewer.layers["again"]
    assert widget.video.value is second and not widget.command.value and not widget.python.value
    assert widget.state.value == "Press Learn: another video is chosen."
    widget.video.value = first
    wait(widget)
    assert widget.command.value == shown
    for video, name in ((second, "again.mp4"), (first, "surveillance")):
        widget.video.value = video
        click(widget.learn)
        wait(widget)
        assert name in widget.command.value and (first.visible, second.visible) == (video is first, video is second)
        assert viewer.layers.index(widget.made("foreground")) > viewer.layers.index(video)


def test_what_is_not_a_video_is_said_in_a_sentence(viewer, photo):
    widget = opened(viewer, photo, "Background")
    click(widget.learn)
    wait(widget)
    assert "photo.png" in SAID[0][-1] and "\n" not in SAID[0][-1]
    viewer.add_image(np.zeros((3, 20, 20)), name="stack")
    widget.video.value = viewer.layers["stack"]
    click(widget.learn)
    assert "Open a video first" in SAID[0][-1]
    np.save(photo.parent / "cube.npy", np.zeros((3, 20, 20)))
    viewer.open(str(photo.parent / "cube.npy"), plugin="napari")
    assert widget.video.value is viewer.layers["stack"]


@pytest.mark.parametrize("samples", ["pixels", "pictures"])
def test_components_are_those_of_the_estimator_and_the_command(samples, viewer, rng, tmp_path):
    maps, spectra = rng.random((2, 12, 15)), rng.random((8, 2))
    np.save(tmp_path / "cube.npy", np.tensordot(spectra, maps, 1).astype(np.float32))
    viewer.open(str(tmp_path / "cube.npy"), plugin="napari")
    widget = viewer.window.add_plugin_dock_widget("visionnmf", "Components")[1]
    widget.controls[0].value, widget.controls[1].value = samples, 2
    click(widget.start)
    click(widget.start)
    wait(widget)
    assert not SAID[0]
    X = np.load(tmp_path / "cube.npy").reshape(8, -1)
    model = NMF(2, random_state=0)
    codes = model.fit_transform(X.T if samples == "pixels" else X)
    shown = {name: viewer.layers[name].data for name in ("codes", "components")}
    pictures = codes.T if samples == "pixels" else model.components_
    np.testing.assert_array_equal(shown["codes" if samples == "pixels" else "components"], pictures.reshape(2, 12, 15))
    names = {}
    exec(widget.python.value, names)
    np.testing.assert_array_equal(names["components"], model.components_)
    (axes,) = widget.curves.figure.axes
    assert widget.curves.isVisible() and axes.get_title() == ("components" if samples == "pixels" else "codes")
    curves = model.components_ if samples == "pixels" else codes.T
    for line, curve in zip(axes.lines, curves, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), curve)


def test_pixels_and_pictures_take_turns_in_the_same_layers(viewer, rng, tmp_path):
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", rng.random((8, 12, 15)).astype(np.float32))
        viewer.open(str(tmp_path / f"{name}.npy"), plugin="napari")
        widget = viewer.window.add_plugin_dock_widget("visionnmf", "Components")[1]
    layers = []
    for samples in ("pixels", "pictures", "pixels"):
        widget.controls[0].value = samples
        click(widget.start)
        wait(widget)
        viewer.screenshot(canvas_only=True, flash=False)  # in which napari crashes if layers were exchanged
        pictures, curves = ("codes", "components")[:: 1 if samples == "pixels" else -1]
        assert viewer.layers[pictures].data.shape == (4, 12, 15) and viewer.layers[pictures].visible
        assert viewer.layers[curves].data.shape == ((4, 8) if samples == "pixels" else (8, 4))
        layers.append({id(layer) for layer in viewer.layers})
    assert layers[0] == layers[1] == layers[2] and not SAID[0]


@pytest.mark.parametrize("samples", ["pixels", "pictures"])
def test_the_first_component_is_looked_at_wherever_the_slider_was(samples, viewer, rng, tmp_path):
    np.save(tmp_path / "stack.npy", rng.random((60, 12, 15)).astype(np.float32))
    (stack,) = viewer.open(str(tmp_path / "stack.npy"), plugin="napari")
    widget = viewer.window.add_plugin_dock_widget("visionnmf", "Components")[1]
    widget.controls[0].value, widget.controls[1].value = samples, 6
    for _ in range(2):
        viewer.dims.set_current_step(0, 29)
        click(widget.start)
        wait(widget)
        shown, other = widget.made("pictures"), widget.made("curves")
        assert (shown.name, other.name) == (("codes", "components") if samples == "pixels" else ("components", "codes"))
        assert (stack.visible, shown.visible, other.visible) == (False, True, False)
        assert viewer.dims.point[0] == 0 and shown.data.shape == (6, 12, 15)
        for number in (0, 5):
            viewer.dims.set_current_step(0, number)
            np.testing.assert_allclose(shown.contrast_limits, (shown.data[number].min(), shown.data[number].max()))
            assert viewer.screenshot(canvas_only=True, flash=False)[..., :3].std() > 10  # 0 where nothing is shown
        for visible, last in ((True, 59), (False, 5)):
            stack.visible = visible
            assert viewer.dims.range[0].stop == last
        viewer.add_points([[1, 2]])  # napari then computes the range of the slider again
        assert viewer.dims.range[0].stop == 5
    assert "viewer.layers['stack']" not in widget.python.value
    stack.data = 1 - stack.data
    click(widget.start)
    wait(widget)
    assert "viewer.layers['stack'].data" in widget.python.value


@pytest.mark.parametrize("name", ["small.png", "small.tif"])
def test_the_colours_of_a_photograph_are_factorised_and_wrong_stacks_are_refused(name, viewer, photo, tmp_path):
    picture = cv2.resize(read_image(photo), (48, 32), interpolation=cv2.INTER_AREA)
    if name == "small.tif":  # grey, which other readers give another shape
        picture[:] = picture[..., :1]
        assert cv2.imwrite(str(tmp_path / name), picture[..., 0])
    else:
        write_image(tmp_path / name, picture)
    widget = opened(viewer, tmp_path / name, "Components")
    widget.controls[1].value = 2
    click(widget.start)
    wait(widget)
    assert viewer.layers["codes"].data.shape == (2, 32, 48) and viewer.layers["components"].data.shape == (2, 3)
    names = {}
    exec(widget.python.value, names)
    np.testing.assert_array_equal(names["components"], viewer.layers["components"].data)
    widget.controls[0].value = "pictures"
    click(widget.start)
    wait(widget)
    assert "choose pixels as samples" in SAID[0][-1]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (-np.ones((6, 8, 9)), "image stack must hold no values below 0; got -1 in stack; choose another layer"),
        (np.full((6, 8, 9), np.nan), "image stack must be finite; got NaN or infinite values in stack; choose"),
        (np.zeros((6, 8, 9)), "image stack must hold something; got nothing but 0 in stack; choose another layer"),
        (np.full((6, 8, 9), 1e20), "image stack must have a mean from 1e-12 to 1e+12; got 1e+20 in stack; choose"),
        (np.ones((6, 1, 1)), "n components must be at most 1, because stack has 1 pixel of 6 values; got 4"),
        (np.ones((3, 8, 9)), "n components must be at most 3, because stack has 72 pixels of 3 values; got 4"),
        (np.ones((8, 9)), "image stack must be pictures behind each other; got 2 axes instead of 3, or choose"),
    ],
)
def test_data_that_cannot_be_factorised_are_refused_in_words_of_napari(values, said, viewer, rng):
    good = viewer.add_image(rng.random((6, 8, 9)), name="good")
    widget = viewer.window.add_plugin_dock_widget("visionnmf", "Components")[1]
    click(widget.start)
    wait(widget)
    assert widget.python.value and widget.curves.isVisible()
    viewer.add_image(values, name="stack")
    widget.stack.value = viewer.layers["stack"]
    click(widget.start)
    wait(widget)
    assert said in SAID[0][-1] and widget.state.value == f"{SAID[0][-1]}. The layers show the run before."
    assert not widget.python.value and not widget.curves.isVisible()
    widget.stack.value = good
    click(widget.start)
    wait(widget)
    assert "viewer.layers['good']" in widget.python.value and widget.curves.isVisible()
    assert widget.state.value.startswith("4 components: the model is off by ")
    viewer.layers.remove(good)
    wait(widget)
    assert "viewer.layers" not in widget.python.value and "was removed" in widget.python.value
    widget.stack.value = viewer.layers["stack"]
    click(widget.start)
    wait(widget)
    viewer.layers.remove(widget.made("curves"))
    wait(widget)
    assert not widget.python.value and not widget.curves.isVisible() and widget.state.value == SAID[0][-1]


def test_view_opens_all_kinds_of_files(screen, photo, tmp_path, monkeypatch):
    import napari

    shown, docked = [], []

    def look():
        shown.extend((layer.name, type(layer).__name__) for layer in napari.current_viewer().layers)
        docked[:] = sorted(napari.current_viewer().window.dock_widgets)
        napari.current_viewer().close()

    monkeypatch.setattr(napari, "run", look)
    write_image(tmp_path / "photo_labels.png", np.zeros((321, 481), np.uint16))
    clip = load_surveillance()
    BackgroundModel().fit(VideoReader(clip.path, end=2.0)).save(tmp_path / "model.npz")
    (tmp_path / "bad.png").write_bytes(b"bad")
    run = run_command("view", photo, tmp_path / "photo_labels.png", clip.path, tmp_path / "model.npz")
    assert run.exit_code == 0, run.output
    names = ["photo", "photo_labels", "surveillance", "model background"]
    assert shown == list(zip(names, ["Image", "Labels", "Image", "Image"], strict=True))
    assert docked == ["Background (visionnmf)", "Segment (visionnmf)"]
    shown.clear()
    run = run_command("view", tmp_path / "bad.png", photo)
    assert run.exit_code == 1 and "bad.png" in run.stderr and len(shown) == 1
    shown.clear()
    assert run_command("view", tmp_path / "bad.png").exit_code == 2 and not shown
    (tmp_path / "folder").mkdir()
    for name in ("a", "b", "c"):
        write_image(tmp_path / "folder" / f"{name}.png", read_image(photo))
    write_image(tmp_path / "folder" / "a_labels.png", np.zeros((321, 481), np.uint16))
    assert run_command("view", tmp_path / "folder").exit_code == 0
    assert shown == [("b", "Image")]


def test_view_without_a_screen_ends_with_a_line(photo):
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    command = [Path(sys.executable).with_name("visionnmf"), "view", photo]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "no window can be opened (qt." in done.stderr
