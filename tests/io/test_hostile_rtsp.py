"""RTSP servers that mean harm: answers without an end, rubbish in place of packets, redirections, declared sizes."""

import contextlib
import resource
import socketserver
import threading
import time

import pytest
from rtsp import SDP

from visionnmf.exceptions import UnreadableError
from visionnmf.io.video.live import LiveReader

TIMEOUT = 1.0  # of opening, and of each read
LONGEST = 20.0  # seconds, on a busy machine
MOST_MEMORY = 400 << 20
CHUNK = 1 << 16


def answer(request: bytes, *lines: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    """Return an answer to a request, with further header lines."""
    number = next((line for line in request.split(b"\r\n") if line.lower().startswith(b"cseq")), b"CSeq: 1").decode()
    size = [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([f"RTSP/1.0 {status}", number, "Session: 1", *lines, *size, "", ""]).encode() + body


def described(request: bytes, sdp: str = SDP) -> bytes:
    """Return the answer to DESCRIBE, SETUP or another request of a sound camera."""
    method = request.split(b" ")[0]
    if method == b"DESCRIBE":
        return answer(request, "Content-Type: application/sdp", body=sdp.encode())
    if method == b"SETUP":
        return answer(request, "Transport: RTP/AVP/TCP;unicast;interleaved=0-1")
    return answer(request, "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN")


def without_end(request):
    yield b"RTSP/1.0 200 OK\r\n"
    while True:
        yield b"X-More: " + b"x" * CHUNK + b"\r\n"


def declared_huge(request):
    yield answer(request)[:-2] + b"Content-Length: 2147483647\r\nContent-Type: application/sdp\r\n\r\n"
    while True:
        yield b"a=x\r\n" * (CHUNK // 5)


def many_streams(request):
    media = "".join(f"m=video 0 RTP/AVP 33\r\na=control:track{number}\r\n" for number in range(20_000))
    yield described(request, SDP + media)


def control_is_a_file(request):
    yield described(request, SDP + "a=control:file:///etc/passwd\r\n")


def redirected_to_a_file(request):
    yield answer(request, "Location: file:///etc/passwd", status="302 Found")


def redirected_for_ever(request):
    address = request.split(b" ")[1].decode(errors="replace")
    yield answer(request, f"Location: {address}", status="302 Found")


def silent(request):
    time.sleep(LONGEST)
    yield b""


def then(packets):
    """Return a server that is sound until PLAY, and then sends packets."""

    def serve(request):
        yield described(request)
        if request.startswith(b"PLAY"):
            yield from packets()

    serve.__name__ = packets.__name__
    return serve


def rubbish():
    while True:
        yield bytes(range(256)) * 256


def packets_of_nothing():
    while True:
        yield b"$\x00\x00\x00" * 1000


PLAYING = tuple(map(then, (rubbish, packets_of_nothing)))
HOSTILE = (
    *(without_end, declared_huge, many_streams, control_is_a_file, redirected_to_a_file, redirected_for_ever, silent),
    *PLAYING,
)


class _Server(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            self.request.settimeout(LONGEST)
            while data := self.request.recv(CHUNK):
                self.server.asked.append(data)
                for part in self.server.serve(data):
                    self.request.sendall(part)


@contextlib.contextmanager
def hostile_server(serve):
    """Answer each request by what `serve` yields; yields the address and the requests."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Server) as server:
        server.daemon_threads, server.serve, server.asked = True, serve, []
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"rtsp://127.0.0.1:{server.server_address[1]}/yard", server.asked
        server.shutdown()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("serve", HOSTILE, ids=lambda serve: serve.__name__)
def test_a_hostile_camera_is_one_line_in_bounded_time_and_memory(serve):
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with hostile_server(serve) as (address, asked), pytest.raises(UnreadableError) as caught:
        for _ in LiveReader(address, timeout=TIMEOUT, patience=1):
            pass
    assert asked and (serve not in PLAYING or any(request.startswith(b"PLAY") for request in asked))
    assert "\n" not in str(caught.value) and str(caught.value).startswith("rtsp://127.0.0.1:")
    assert time.monotonic() - began < LONGEST
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MOST_MEMORY
