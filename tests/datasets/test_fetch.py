"""Downloads, against a server on this machine: checksum, cache, and everything that goes wrong on a network."""

import hashlib
import io
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import data_file, needs_data, serving
from scipy.io import savemat

from visionnmf.datasets import _fetch, cache_folder, fetch_orl, fetch_yale, fetch_yaleb, load_faces
from visionnmf.exceptions import MediaError, UnreadableError

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 4, 4), dtype=np.uint8)
LABELS = np.array([1, 1, 2, 2, 3, 3])


def checksum(images=IMAGES, labels=LABELS):
    return hashlib.sha256(images.tobytes() + np.asarray(labels, "<i8").tobytes()).hexdigest()


def mat(images=IMAGES, labels=LABELS):
    file = io.BytesIO()
    savemat(file, {"fea": images.swapaxes(1, 2).reshape(len(images), -1), "gnd": labels[:, None].astype(float)})
    return file.getvalue()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    answers = {}

    def answer(request):
        status, headers, blocks = answers.get(request.path, (404, {}, [b"nothing here"]))
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        for block in blocks:
            if isinstance(block, float):
                time.sleep(block)
            else:
                request.wfile.write(block)

    with serving(answer) as found:
        found.answers = answers
        yield found


def whole(content, **headers):
    return 200, {"Content-Length": str(len(content)), **headers}, [content]


@pytest.fixture
def cache(server, tmp_path, monkeypatch):
    """Name /one and /two the addresses of ORL, and an empty folder the cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("VISIONNMF_CACHE", str(folder))
    addresses = (f"{server.url}/one", f"{server.url}/two")
    remote = _fetch._Remote("the ORL faces, 32x32", addresses, checksum())
    monkeypatch.setattr(_fetch, "_MAX_BYTES", 5000)
    monkeypatch.setitem(_fetch._REMOTES, "orl_32x32", remote)
    return folder


def refused(sentence, error=UnreadableError):
    with pytest.raises(error, match=sentence) as caught:
        fetch_orl()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def kept(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_what_was_downloaded_once_is_never_asked_for_again(server, cache):
    server.answers["/one"] = whole(mat())
    faces = fetch_orl()
    np.testing.assert_array_equal(faces.images, IMAGES)
    np.testing.assert_array_equal(faces.labels, LABELS)
    assert faces.names == ("1", "2", "3")
    assert server.asked == ["/one"]
    assert kept(cache) == ["orl_32x32.mat"]
    again = fetch_orl()
    np.testing.assert_array_equal(again.images, IMAGES)
    assert server.asked == ["/one"]


def test_images_come_sorted_by_person_whatever_the_order_in_the_file(server, cache):
    order = np.array([4, 0, 2, 1, 3, 5])
    server.answers["/one"] = whole(mat(IMAGES[order], LABELS[order]))
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)


def test_a_redirection_is_followed_to_http_only(server, cache, tmp_path):
    (tmp_path / "x.mat").write_bytes(mat())
    server.answers["/there"] = whole(mat())
    server.answers["/one"] = (302, {"Location": (tmp_path / "x.mat").as_uri()}, [])
    server.answers["/two"] = (302, {"Location": "ftp://127.0.0.1/x.mat"}, [])
    message = refused("/one cannot be read: No connection adapters were found for 'file:")
    assert "/two cannot be read: No connection adapters were found for 'ftp:" in message
    server.answers["/two"] = (301, {"Location": "/two"}, [])
    refused("/two cannot be read: .*")
    server.answers["/two"] = (302, {"Location": "/there"}, [])
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((404, {}, [b"x"]), "/one cannot be read: 404 Client Error: Not Found"),
        ((500, {}, []), "/one cannot be read: "),
        (whole(mat(IMAGES ^ 1)), r"/one holds other data than the ORL faces, 32x32: checksum \w{16}\.\.\., not "),
        (whole(b"<html>this host is parked</html>"), "/one: not a file of MATLAB 4 to 7, or damaged"),
        (whole(b""), "/one: the file is empty"),
        ((200, {}, [mat()[:-9]]), "/one: not a file of MATLAB 4 to 7, or damaged"),
        (
            (200, {"Transfer-Encoding": "chunked"}, [b"64\r\n", mat()[:100], b"\r\n40\r\n", b"short"]),
            "/one(:| cannot be read)",
        ),
        ((200, {"Content-Length": "9" * 12}, [bytes(6000)]), "/one has more than 5000 bytes"),
        ((200, {}, [bytes(3000)] * 2), "/one has more than 5000 bytes"),
    ],
)
def test_a_bad_answer_is_told_leaves_nothing_and_the_next_address_serves(server, cache, answer, sentence):
    server.answers["/one"] = answer
    message = refused(sentence)
    assert re.search("/two cannot be read", message)
    assert message.endswith(f"Download {server.url}/one by hand and save it as {cache / 'orl_32x32.mat'}.")
    assert kept(cache) == []
    server.answers["/two"] = whole(mat())
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)
    assert kept(cache) == ["orl_32x32.mat"]


def test_without_a_network_the_message_says_what_to_do(server, cache, monkeypatch):
    remote = _fetch._Remote("the ORL faces, 32x32", ("http://127.0.0.1:9/x.mat",), checksum())
    monkeypatch.setitem(_fetch._REMOTES, "orl_32x32", remote)
    refused(r"http://127.0.0.1:9/x.mat cannot be read: .*\. *Download http://127.0.0.1:9/x.mat by hand and save it as ")
    cache.mkdir(exist_ok=True)
    (cache / "orl_32x32.mat").write_bytes(mat())
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)


def test_a_server_that_stalls_is_given_up(server, cache, monkeypatch):
    monkeypatch.setattr("visionnmf.datasets._fetch._TIMEOUT", 0.2)
    server.answers["/one"] = (200, {}, [mat()[:50], 2.0])
    start = time.monotonic()
    refused("/one cannot be read: .*timed out")
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_nothing(server, cache, monkeypatch, stop):
    server.answers["/one"] = whole(mat())
    seen = []

    def read(path, remote):
        seen.append(path.name)
        raise stop

    with monkeypatch.context() as patch, pytest.raises(stop):
        patch.setattr(_fetch, "_read", read)
        fetch_orl()
    assert len(seen) == 1 and seen[0] != "orl_32x32.mat", "nothing has the final name before it is checked"
    assert kept(cache) == []


def test_a_damaged_file_in_the_cache_is_replaced_and_kept_while_nothing_better_is_there(server, cache):
    cache.mkdir()
    path = cache / "orl_32x32.mat"
    damaged = mat(IMAGES ^ 1)  # holds the time of the day
    path.write_bytes(damaged)
    message = refused("the file there: .*orl_32x32.mat holds other data than the ORL faces")
    assert "/one cannot be read" in message
    assert path.read_bytes() == damaged
    server.answers["/two"] = whole(mat())
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)
    assert kept(cache) == ["orl_32x32.mat"]


def test_a_folder_that_cannot_be_written_is_named(server, cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("VISIONNMF_CACHE", str(tmp_path / "file" / "in"))
    with pytest.raises(MediaError, match=r"cannot be written .*; set VISIONNMF_CACHE to a folder"):
        fetch_orl()
    assert server.asked == []


def test_each_function_asks_for_its_own_set(monkeypatch):
    asked = []
    monkeypatch.setattr(_fetch, "_fetch", asked.append)
    for fetch in (fetch_orl, fetch_yale, fetch_yaleb):
        fetch()
    assert asked == list(_fetch._REMOTES)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"VISIONNMF_CACHE": "/somewhere/else", "XDG_CACHE_HOME": "/x"}, "/somewhere/else"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/visionnmf"),
        ({"VISIONNMF_CACHE": ""}, "~/.cache/visionnmf"),
    ],
)
def test_the_cache_is_where_the_platform_wants_it(monkeypatch, variables, expected):
    for name in ("VISIONNMF_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected).expanduser()


@needs_data
@pytest.mark.parametrize("name", _fetch._REMOTES)
def test_the_checksums_are_those_of_the_real_data(name):
    faces = load_faces(data_file(f"{name}.npz"))
    assert checksum(faces.images, faces.labels) == _fetch._REMOTES[name].checksum
