"""Downloads, against a server on this machine: checksum, cache, and everything that goes wrong on a network."""

import hashlib
import http.server
import io
import re
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import needs_data
from PIL import Image
from scipy.io import savemat

from visionnmf.datasets import _fetch, cache_folder, fetch_orl, fetch_yale, fetch_yaleb, local
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 4, 4), dtype=np.uint8)
LABELS = np.array([1, 1, 2, 2, 3, 3])


def checksum(images=IMAGES, labels=LABELS):
    return hashlib.sha256(images.tobytes() + np.asarray(labels, "<i8").tobytes()).hexdigest()


def mat(images=IMAGES, labels=LABELS):
    file = io.BytesIO()
    savemat(file, {"fea": images.swapaxes(1, 2).reshape(len(images), -1), "gnd": labels[:, None].astype(float)})
    return file.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        answer = self.server.answers.get(self.path, (404, {}, [b"nothing here"]))
        status, headers, blocks = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for block in blocks:
                if isinstance(block, float):
                    time.sleep(block)
                else:
                    self.wfile.write(block)
        except OSError:
            pass  # the client has hung up, as it should where it refuses

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.answers, server.seen = {}, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def whole(content, **headers):
    return 200, {"Content-Length": str(len(content)), **headers}, [content]


@pytest.fixture
def cache(server, tmp_path, monkeypatch):
    """Name /one and /two the addresses of ORL, and an empty folder the cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("VISIONNMF_CACHE", str(folder))
    addresses = (f"{server.url}/one", f"{server.url}/two")
    remote = _fetch._Remote("the ORL faces, 32x32", ".mat", addresses, checksum(), max_bytes=5000)
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
    assert server.seen == ["/one"]
    assert kept(cache) == ["orl_32x32.mat"]
    again = fetch_orl()
    np.testing.assert_array_equal(again.images, IMAGES)
    assert server.seen == ["/one"]


def test_images_come_sorted_by_person_whatever_the_order_in_the_file(server, cache):
    order = np.array([4, 0, 2, 1, 3, 5])
    server.answers["/one"] = whole(mat(IMAGES[order], LABELS[order]))
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)


def test_a_redirection_is_followed_to_http_only(server, cache, tmp_path):
    (tmp_path / "x.mat").write_bytes(mat())
    server.answers["/there"] = whole(mat())
    server.answers["/one"] = (302, {"Location": (tmp_path / "x.mat").as_uri()}, [])
    server.answers["/two"] = (302, {"Location": "ftp://127.0.0.1/x.mat"}, [])
    message = refused("/one cannot be read: .*not allowed")
    assert "/two cannot be read: unknown url type: ftp" in message
    server.answers["/two"] = (301, {"Location": "/two"}, [])
    refused("/two cannot be read: .*")
    server.answers["/two"] = (302, {"Location": "/there"}, [])
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((404, {}, [b"x"]), "/one cannot be read: HTTP Error 404|/one cannot be read: Not Found"),
        ((500, {}, []), "/one cannot be read: "),
        (whole(mat(IMAGES ^ 1)), r"/one holds other data than the ORL faces, 32x32: checksum \w{16}\.\.\., not "),
        (whole(b"<html>this host is parked</html>"), "/one is no file of MATLAB 5 to 7"),
        (whole(b""), "/one is no file of MATLAB 5 to 7"),
        ((200, {"Content-Length": str(len(mat()))}, [mat()[:-9]]), r"/one was cut off after \d+ of \d+ bytes"),
        ((200, {}, [mat()[:-9]]), "/one cannot be read as a MATLAB file"),
        (
            (200, {"Transfer-Encoding": "chunked"}, [b"64\r\n", mat()[:100], b"\r\n40\r\n", b"short"]),
            r"/one (cannot be read: |was cut off|is no file|cannot be read as)",
        ),
        ((200, {"Content-Length": "9" * 12}, [bytes(6000)]), "/one has more than 5000 bytes"),
        ((200, {}, [bytes(3000)] * 2), "/one has more than 5000 bytes"),
        ((200, {"Content-Length": "-7"}, [mat()]), "/one (was cut off|cannot be read)"),
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


def test_an_endless_answer_is_not_read_to_its_end(server, cache):
    sent = []

    def blocks():
        while len(sent) < 10_000:
            sent.append(1)
            yield bytes(1000)

    server.answers["/one"] = (200, {}, blocks())
    refused("/one has more than 5000 bytes")
    assert len(sent) < 10_000


def test_without_a_network_the_message_says_what_to_do(server, cache, monkeypatch):
    remote = _fetch._Remote("the ORL faces, 32x32", ".mat", ("http://127.0.0.1:9/x.mat",), checksum())
    monkeypatch.setitem(_fetch._REMOTES, "orl_32x32", remote)
    refused(r"http://127.0.0.1:9/x.mat cannot be read: .*\. *Download http://127.0.0.1:9/x.mat by hand and save it as ")
    cache.mkdir(exist_ok=True)
    (cache / "orl_32x32.mat").write_bytes(mat())
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)


@pytest.mark.parametrize(("limit", "blocks"), [("_TIMEOUT", [mat()[:50], 2.0]), ("_DEADLINE", [b"x", 0.15] * 20)])
def test_a_server_that_stalls_is_given_up(server, cache, monkeypatch, limit, blocks):
    monkeypatch.setattr(_fetch, limit, 0.2)
    server.answers["/one"] = (200, {}, blocks)
    start = time.monotonic()
    refused("/one (cannot be read: .*timed out|took more than 0.2 seconds)")
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_nothing(server, cache, monkeypatch, stop):
    content = mat()  # once: its header has the time in it
    server.answers["/one"] = whole(content)
    seen = []

    def read(path, remote):
        seen.append(path.name)
        raise stop

    with monkeypatch.context() as patch, pytest.raises(stop):
        patch.setattr(_fetch, "_read", read)
        fetch_orl()
    assert len(seen) == 1 and seen[0] != "orl_32x32.mat", "nothing has the final name before it is checked"
    assert kept(cache) == []

    def replace(source, target):
        assert Path(source).read_bytes() == content, "the file appears at once, and whole"
        raise stop

    monkeypatch.setattr(_fetch.os, "replace", replace)
    with pytest.raises(stop):
        fetch_orl()
    assert kept(cache) == []


def test_a_damaged_file_in_the_cache_is_replaced_and_kept_while_nothing_better_is_there(server, cache):
    cache.mkdir()
    path = cache / "orl_32x32.mat"
    path.write_bytes(mat(IMAGES ^ 1))
    message = refused("the file there: .*orl_32x32.mat holds other data than the ORL faces")
    assert "/one cannot be read" in message
    assert path.read_bytes() == mat(IMAGES ^ 1)
    server.answers["/two"] = whole(mat())
    np.testing.assert_array_equal(fetch_orl().images, IMAGES)
    assert kept(cache) == ["orl_32x32.mat"]
    np.testing.assert_array_equal(fetch_orl(download_if_missing=False).images, IMAGES)


def test_the_network_and_the_folder_can_be_chosen(server, cache, tmp_path):
    with pytest.raises(UnreadableError, match="download_if_missing is False"):
        fetch_orl(download_if_missing=False)
    assert server.seen == []
    assert kept(cache) == []
    server.answers["/one"] = whole(mat())
    fetch_orl(data_home=tmp_path / "deep" / "er")
    assert kept(tmp_path / "deep" / "er") == ["orl_32x32.mat"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(MediaError, match=r"cannot be written .*; set VISIONNMF_CACHE or data_home to a folder"):
        fetch_orl(data_home=tmp_path / "file" / "in")


def test_unknown_resolutions_are_refused():
    with pytest.raises(ParameterError, match=r"resolution must be one of .*; got '64x64'"):
        fetch_orl(resolution="64x64")
    with pytest.raises(ParameterError, match=r"resolution must be one of .*; got 32"):
        fetch_yale(resolution=32)


@pytest.mark.parametrize("prefix", ["", "orl_faces/"])
def test_the_original_orl_faces_come_as_an_archive(server, cache, monkeypatch, prefix):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{prefix}README", "x")
        for i in reversed(range(6)):
            picture = io.BytesIO()
            Image.fromarray(IMAGES[i]).save(picture, "PPM")
            archive.writestr(f"{prefix}s{(2, 10, 33)[i // 2]}/{(9, 10)[i % 2]}.pgm", picture.getvalue())
    remote = _fetch._Remote("the ORL faces, 112x92", ".zip", (f"{server.url}/one",), checksum())
    monkeypatch.setitem(_fetch._REMOTES, "orl_112x92", remote)
    server.answers["/one"] = whole(file.getvalue())
    faces = fetch_orl(resolution="112x92")
    np.testing.assert_array_equal(faces.images, IMAGES)
    assert faces.names == ("2", "10", "33")
    assert kept(cache) == ["orl_112x92.zip"]
    (cache / "orl_112x92.zip").write_bytes(file.getvalue()[:-30])
    np.testing.assert_array_equal(fetch_orl(resolution="112x92").images, IMAGES)
    assert server.seen == ["/one", "/one"]


def test_an_archive_without_faces_is_refused(server, cache, monkeypatch):
    remote = _fetch._Remote("the ORL faces, 112x92", ".zip", (f"{server.url}/one",), checksum())
    monkeypatch.setitem(_fetch._REMOTES, "orl_112x92", remote)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("README", "x")
    for content, sentence in ((file.getvalue(), "/one holds no s1/1.pgm"), (b"PK\x03\x04", "/one cannot be read")):
        server.answers["/one"] = whole(content)
        with pytest.raises(UnreadableError, match=sentence):
            fetch_orl(resolution="112x92")


def test_each_function_asks_for_its_own_set(cache, tmp_path):
    for fetch, name in (
        (fetch_orl, "orl_32x32.mat"),
        (lambda **o: fetch_orl(resolution="112x92", **o), "orl_112x92.zip"),
        (fetch_yale, "yale_32x32.mat"),
        (lambda **o: fetch_yale(resolution="64x64", **o), "yale_64x64.mat"),
        (fetch_yaleb, "yaleb_32x32.mat"),
    ):
        with pytest.raises(UnreadableError, match=re.escape(f"save it as {tmp_path / name}.")):
            fetch(data_home=tmp_path, download_if_missing=False)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"VISIONNMF_CACHE": "/somewhere/else", "XDG_CACHE_HOME": "/x"}, "/somewhere/else"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/visionnmf"),
        ("linux", {"VISIONNMF_CACHE": ""}, "~/.cache/visionnmf"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "~/Library/Caches/visionnmf"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/visionnmf"),
        ("win32", {}, "~/AppData/Local/visionnmf"),
    ],
)
def test_the_cache_is_where_the_platform_wants_it(monkeypatch, platform, variables, expected):
    monkeypatch.setattr("sys.platform", platform)
    for name in ("VISIONNMF_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected).expanduser()


def test_the_registry_names_web_addresses_and_checksums():
    for name, remote in _fetch._REMOTES.items():
        assert name in local.FACE_SETS
        assert all(re.match(r"https?://[\w.-]+/\S+$", address) for address in remote.addresses)
        assert re.fullmatch("[0-9a-f]{64}", remote.checksum)


@needs_data
@pytest.mark.parametrize("name", _fetch._REMOTES)
def test_the_checksums_are_those_of_the_real_data(name):
    faces = local.load_face_set(name)
    assert checksum(faces.images, faces.labels) == _fetch._REMOTES[name].checksum
