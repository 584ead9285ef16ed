"""Files as layers of napari, without napari: labels, models, videos frame by frame, and what they refuse."""

import json

import av
import numpy as np
import pytest
from helpers import run_command

from visionnmf import NMF
from visionnmf.apps.background import BackgroundModel, ModelSettings, RegionSettings, VideoSettings
from visionnmf.apps.segmentation import Outputs, WantedSegments, process_image
from visionnmf.apps.viewer.layers import call, command, read, reader, samples_of, write_labels
from visionnmf.datasets import load_surveillance, make_surveillance
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import VideoReader, read_image, write_image
from visionnmf.io.video.frames import VideoFrames


@pytest.mark.parametrize("name", ["photo_labels", "photo_scribbles"])
def test_labels_are_shown_from_one_on_and_written_as_they_were(name, rng, tmp_path):
    labels = rng.integers(0, 300, (20, 30)).astype(np.uint16)
    labels[:, 0] = 65535  # outside a mask
    file = tmp_path / f"{name}.png"
    write_image(file, labels)
    ((data, attributes, kind),) = reader(str(file))(str(file))
    assert kind == "labels" and attributes["name"] == name
    np.testing.assert_array_equal(data[:, 0], 0)
    np.testing.assert_array_equal(data[:, 1:], labels[:, 1:] + 1)
    assert write_labels(str(tmp_path / "again.png"), data, attributes) == [str(tmp_path / "again.png")]
    np.testing.assert_array_equal(read_image(tmp_path / "again.png")[..., 0], labels)


def test_without_napari_the_command_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr("visionnmf.apps.cli.view.find_spec", lambda name: None)
    done = run_command("view", tmp_path / "photo.png")
    assert done.exit_code == 2
    assert done.stderr == "visionnmf: napari is needed to view files; `sh setup.sh napari` installs it\n"


@pytest.mark.slow
def test_what_segment_writes_are_labels(tmp_path):
    process_image("sample:coffee", wanted=WantedSegments(n_segments=3), out=tmp_path)
    ((data, _, kind),) = read(tmp_path / "coffee_labels.png")
    assert kind == "labels" and np.unique(data).tolist() == [1, 2, 3]


def test_a_coloured_picture_is_not_taken_for_labels(rng, tmp_path):
    write_image(tmp_path / "a_labels.png", rng.integers(0, 9, (8, 8, 3)).astype(np.uint8))
    with pytest.raises(UnsupportedError, match="not labels"):
        read(tmp_path / "a_labels.png")


@pytest.mark.parametrize("data", [np.zeros((2, 3, 3), int), np.full((2, 2), -1), np.full((2, 2), 65536)])
def test_what_does_not_fit_into_a_picture_of_labels_is_refused(data, tmp_path):
    with pytest.raises(ParameterError, match="labels must be a picture"):
        write_labels(str(tmp_path / "a.png"), data, {})
    assert not list(tmp_path.iterdir())


def test_a_photograph_is_as_it_is_read(tmp_path):
    ((data, attributes, kind),) = read("sample:coffee")
    np.testing.assert_array_equal(data, read_image("sample:coffee"))
    assert (attributes["name"], attributes["rgb"], kind) == ("coffee", True, "image")


def test_models_show_their_pictures_and_components(rng, tmp_path):
    background = BackgroundModel().fit(make_surveillance(20, 48, 64, random_state=0).frames)
    background.save(tmp_path / "a.npz")
    shown = {attributes["name"]: data for data, attributes, _ in read(tmp_path / "a.npz")}
    np.testing.assert_array_equal(shown["a background"], background.background_)
    model = NMF(2, random_state=0).fit(rng.random((20, 9)))
    model.save(tmp_path / "b.npz")
    ((data, attributes, kind),) = reader(str(tmp_path / "b.npz"))(str(tmp_path / "b.npz"))
    np.testing.assert_array_equal(data, model.components_)
    assert (attributes["name"], kind) == ("b components", "image")


def test_other_archives_are_left_to_other_readers_and_refused_by_the_command(rng, tmp_path):
    np.savez(tmp_path / "a.npz", header=np.zeros(3), b=rng.random(3))
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 damaged")
    for file in (tmp_path / "a.npz", tmp_path / "b.npz"):
        assert reader(str(file)) is None
        with pytest.raises(UnsupportedError, match="not a model of visionnmf"):
            read(file)
    assert reader(["a_labels.png", "b_labels.png"]) is None  # a stack
    with pytest.raises(UnreadableError, match="no such file"):
        read(tmp_path / "c.npz")


@pytest.mark.parametrize("kind", ["masquerade", "annotation"])
def test_a_model_without_pictures_says_so(kind, tmp_path):
    header = json.dumps({"format": "visionnmf", "kind": kind, "version": 1, "state": None}).encode()
    np.savez(tmp_path / "a.npz", header=np.frombuffer(header, np.uint8))
    with pytest.raises(UnsupportedError, match=f"{kind}.* has no pictures to show"):
        read(tmp_path / "a.npz")


def write_video(path, codec, options, n=90):
    """Write a clip of which each frame is different."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, width=64, height=48, pix_fmt="yuv420p", options=options)
        for number in range(n):
            picture = np.full((48, 64, 3), 2 * number % 256, np.uint8)
            picture[:, number % 60 : number % 60 + 4] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {"g": "12", "bf": "3"}),
        ("a.mkv", "libx264", {"g": "80", "bf": "3"}),
        ("a.ts", "libx264", {"g": "12", "bf": "2"}),  # entering it lands too late
        ("a.mpg", "mpeg2video", {"bf": "2"}),  # packets without time stamps
        ("a.avi", "mpeg4", {"bf": "2"}),  # stamps of packets are not those of frames
    ],
)
def test_each_frame_of_a_video_is_that_of_the_reader_in_any_order(name, codec, options, rng, tmp_path):
    path = write_video(tmp_path / name, codec, options)
    frames, expected = VideoFrames(path), np.stack(list(VideoReader(path)))
    assert frames.shape == expected.shape
    for number in [*rng.permutation(len(expected))[:30].tolist(), 0, -1]:
        np.testing.assert_array_equal(frames[number], expected[number])
    np.testing.assert_array_equal(frames[80:3:-9, 5:7, 3], expected[80:3:-9, 5:7, 3])
    np.testing.assert_array_equal(np.asarray(frames), expected)
    np.testing.assert_allclose(frames.times, [frame.time for frame in VideoReader(path).timed()], atol=1e-3)
    with pytest.raises(IndexError):
        frames[len(expected)]


def test_frames_far_ahead_are_entered_and_few_are_kept(monkeypatch, tmp_path):
    path = write_video(tmp_path / "a.mp4", "libx264", {"g": "10"}, n=300)
    monkeypatch.setattr("visionnmf.io.video.frames.KEPT", 5 * 48 * 64 * 3)
    frames, expected = VideoFrames(path), list(VideoReader(path))
    for number in (0, 299, 0):
        np.testing.assert_array_equal(frames[number], expected[number])
        assert frames._can_enter and len(frames._kept) <= 5


def test_a_video_that_is_cut_off_shows_what_is_there(tmp_path):
    whole = load_surveillance().path.read_bytes()
    path = tmp_path / "a.mkv"
    write_video(path, "libx264", {})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    expected = list(VideoReader(path))
    frames = VideoFrames(path)
    np.testing.assert_array_equal(frames[len(expected) - 2], expected[-2])
    (tmp_path / "b.mp4").write_bytes(whole[:1000])
    with pytest.raises(UnreadableError):
        VideoFrames(tmp_path / "b.mp4")


def test_a_damaged_video_shows_what_the_reader_gets_in_any_order(tmp_path):
    path = write_video(tmp_path / "a.mp4", "libx264", {"g": "10"}, n=30)
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        packet = next(packet for packet in container.demux(video=0) if packet.pts and packet.is_keyframe)
        data[packet.pos : packet.pos + packet.size] = bytes([255]) * packet.size
    path.write_bytes(data)
    expected = list(VideoReader(path))
    assert 10 <= len(expected) < 30
    for numbers in ((0, 15, 5), (19, len(expected) - 1, 0), range(len(expected))):
        frames = VideoFrames(path)
        for number in numbers:
            shown = frames[number]
        np.testing.assert_array_equal(shown, expected[number])
    assert len(frames) == 30
    with pytest.raises(UnreadableError, match="frame 29 cannot be decoded"):
        frames[29]


def test_rows_of_a_stack_are_pixels_or_pictures(rng):
    stack = rng.random((4, 5, 6)).astype(np.float32)
    X, shape = samples_of(stack, "pixels")
    assert X.shape == (30, 4) and shape == (5, 6)
    np.testing.assert_array_equal(X[7], stack[:, 1, 1])
    X, shape = samples_of(stack, "pictures")
    np.testing.assert_array_equal(X[2].reshape(shape), stack[2])
    colours = rng.integers(0, 255, (5, 6, 3))
    np.testing.assert_array_equal(samples_of(colours, "pixels", rgb=True)[0][7], colours[1, 1])
    with_alpha = np.dstack([colours, rng.integers(0, 255, (5, 6))])
    np.testing.assert_array_equal(samples_of(with_alpha, "pixels", rgb=True)[0], colours.reshape(-1, 3))
    for wrong, samples, rgb in (
        (stack[0], "pixels", False),
        (stack[None], "pictures", False),
        (colours, "pictures", 1),
    ):
        with pytest.raises(ParameterError, match="image stack must be pictures behind each other"):
            samples_of(wrong, samples, rgb=rgb)
    with pytest.raises(TooLargeError, match="values are factorised"):
        samples_of(np.broadcast_to(np.float32(0), (300, 1000, 1000)), "pixels")


def test_only_what_is_not_the_default_is_repeated():
    records = {"video": VideoSettings(end=2.5, every=2), "model": ModelSettings(keep_model=True)}
    assert command("background", "a b.mp4", **records) == (
        "visionnmf background 'a b.mp4' --every 2 --end 2.5 --keep-model"
    )
    given = {"outputs": Outputs(formats=("coco", "svg")), "out": "a folder", "force": True}
    assert command("segment", "a.jpg", **given) == (
        "visionnmf segment a.jpg --formats coco,svg --out 'a folder' --force"
    )
    assert call("m", "f", "a.jpg", **{**given, "force": False}) == (
        "from m import Outputs, f\n\nf('a.jpg', outputs=Outputs(formats=('coco', 'svg')), out='a folder')"
    )
    region = RegionSettings(roi=("1,2,3,4", "5,6,7,8"))
    assert command("background", "a.mp4", region=region) == ("visionnmf background a.mp4 --roi 1,2,3,4 --roi 5,6,7,8")
    assert call("m", "f", "a b.mp4", **records, region=ModelSettings()) == (
        "from m import ModelSettings, VideoSettings, f\n\n"
        "f('a b.mp4', video=VideoSettings(every=2, end=2.5), model=ModelSettings(keep_model=True))"
    )
