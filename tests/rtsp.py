"""A camera in forty lines: an RTSP server on this machine that sends MPEG-TS in RTP over its own connection."""

import contextlib
import socketserver
import struct
import threading

TS_PACKET = 188
LINES = ["v=0", "o=- 0 0 IN IP4 127.0.0.1", "s=yard", "c=IN IP4 0.0.0.0", "t=0 0", "m=video 0 RTP/AVP 33", ""]
SDP = "\r\n".join(LINES)


class _Camera(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            while line := self.rfile.readline().decode():
                method, headers = line.split()[0], {}
                while header := self.rfile.readline().decode().strip():
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                self.server.asked.append(method)
                self.answer(method, headers)
                if method == "PLAY":
                    self.send(self.server.parts.pop(0) if self.server.parts else b"")
                    return  # and the connection breaks off

    def answer(self, method, headers):
        body = SDP if method == "DESCRIBE" else ""
        lines = ["RTSP/1.0 200 OK", f"CSeq: {headers['cseq']}", "Session: 1"]
        if method == "OPTIONS":
            lines.append("Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN")
        if method == "SETUP":
            lines.append("Transport: RTP/AVP/TCP;unicast;interleaved=0-1")
        if body:
            lines += ["Content-Type: application/sdp", f"Content-Length: {len(body)}"]
        self.wfile.write("\r\n".join([*lines, "", body]).encode())

    def send(self, data):
        for number, start in enumerate(range(0, len(data), 7 * TS_PACKET)):
            payload = struct.pack(">BBHII", 0x80, 33, number, number * 900, 1) + data[start : start + 7 * TS_PACKET]
            self.wfile.write(struct.pack(">cBH", b"$", 0, len(payload)) + payload)


@contextlib.contextmanager
def camera(parts):
    """Serve parts of a stream, one a connection; yields the address and what was asked."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Camera) as server:
        server.daemon_threads, server.parts, server.asked = True, list(parts), []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"rtsp://127.0.0.1:{server.server_address[1]}/yard", server.asked
        server.shutdown()
