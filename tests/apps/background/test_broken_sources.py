"""Sources that break off: what the command says of them."""

import io
import json
import subprocess
import sys

import av
import numpy as np
import pytest
from background_settings import follow
from clips import encode
from helpers import serving, write_video


@pytest.fixture
def cut(tmp_path, rng):
    path = tmp_path / "cut.mkv"
    write_video(path, rng.integers(0, 256, (40, 48, 64, 3), dtype=np.uint8))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("live", [False, True])
def test_half_a_file_on_standard_input_is_reported(cut, tmp_path, live):
    command = [sys.executable, "-m", "visionnmf.apps.cli", "background", "-", "--json", "--out", str(tmp_path / "out")]
    with cut.open("rb") as file:
        piped = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
        ended = subprocess.run([*command, *["--live"] * live], stdin=piped.stdout, capture_output=True, check=False)
        piped.stdout.close()
        piped.wait()
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1]) if live else json.loads(ended.stdout)
    assert "of 4.00 declared seconds" in report["warnings"][0] and report["unseen"][0]["reason"] == "cut off"
    assert not any("declared" in note for note in report["notes"])
    if not live:
        assert report["truncated"] and "of 4.00 declared seconds" in report["problem"]


@pytest.mark.slow
def test_an_mp4_in_a_pipe_needs_its_index_at_the_beginning(tmp_path, rng):
    frames = list(rng.integers(0, 256, (40, 240, 320, 3), dtype=np.uint8))
    path = encode(tmp_path / "clip.mp4", "libx264", "yuv420p", frames=frames, rate=10)
    command = [sys.executable, "-m", "visionnmf.apps.cli", "background", "-", "--out", str(tmp_path / "out")]
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as piped:
        ended = subprocess.run(command, stdin=piped.stdout, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "an MP4 whose index stands at its end cannot be read from a pipe: save it to a file" in ended.stderr
    assert "-movflags +faststart" in ended.stderr


@pytest.mark.slow
def test_a_signal_while_a_lost_source_is_looked_for_finishes_the_results(tmp_path):
    file = io.BytesIO()
    with av.open(file, "w", format="mpegts") as output:  # no duration: as a camera's
        stream = output.add_stream("mpeg2video", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(30):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")))
        output.mux(stream.encode(None))

    def answer(request):
        if len(server.asked) > 1:
            request.send_error(503)
            return
        request.send_response(200)
        request.end_headers()
        request.wfile.write(file.getvalue())

    with serving(answer) as server:
        settings = {"out": tmp_path / "out", "masks": "ffv1", "until": lambda: len(server.asked) > 1}
        report = follow(f"{server.url}/yard", **settings)
    assert report.frames == 30 and len(server.asked) == 2
    assert (tmp_path / "out" / "yard_foreground.mkv").exists() and (tmp_path / "out" / "yard_background.png").exists()


@pytest.mark.slow
def test_sound_that_is_dropped_is_told_of_what_comes_but_once(tmp_path):
    source = encode(tmp_path / "loud.mkv", "libx264", "yuv420p", sound=20)
    command = [sys.executable, "-m", "visionnmf.apps.cli", "background", "-", "--json", "--out", str(tmp_path / "out")]
    with open(source, "rb") as file:
        ended = subprocess.run(command, stdin=file, capture_output=True, check=True)
    notes = json.loads(ended.stdout)["notes"]
    assert notes.count("the sound of the video is not in the results") == 1
