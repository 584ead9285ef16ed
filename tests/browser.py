"""Headless Chromium for tests of pages, over the pipe of its DevTools protocol, so that nothing else is needed."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

import pytest

BINARY = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(BINARY is None, reason="no Chromium (Debian: apt-get install chromium)")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"),
    *("--no-first-run", "--hide-scrollbars", "--autoplay-policy=no-user-gesture-required", "--remote-debugging-pipe"),
)


class Browser:
    """One tab; `messages` are what the page said on its console, and `requests` the addresses that it asked for."""

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._commands = os.pipe()
        self._answers, ours = os.pipe()
        # the protocol is spoken on the file descriptors 3 and 4
        line = f'exec "$@" 3<&{theirs} 4>&{ours}'
        words = ["bash", "-c", line, "bash", BINARY, *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"]
        nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(words, pass_fds=(theirs, ours), **nowhere)
        os.close(theirs)
        os.close(ours)
        self._buffer, self._number, self._session = b"", 0, None
        self.messages, self.requests = [], []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *error):
        self._process.terminate()
        self._process.wait(30)
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def _next(self):
        """Return the next message of the browser."""
        while b"\0" not in self._buffer:
            assert select.select([self._answers], [], [], 60)[0], "the browser does not answer"
            piece = os.read(self._answers, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, message):
        """Keep what the page has said or asked for; return the name of the event."""
        said = message.get("params", {})
        if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.messages.append(json.dumps(said))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        return message.get("method")

    def call(self, method, **parameters):
        """Call a method of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def open(self, file, *, width=1200, height=900, dark=False):
        """Open a page of this size, and wait until it has loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.messages, self.requests = [], []
        self.call("Page.navigate", url=file.resolve().as_uri())
        while self._note(self._next()) != "Page.loadEventFired":
            pass

    def value(self, expression):
        """Return the value of an expression of JavaScript, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression, seconds=20):
        """Wait until an expression of JavaScript is true."""
        until = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < until, expression
            time.sleep(0.05)

    def press(self, key):
        """Press a key."""
        numbers = {"Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Space": 32}
        named = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": numbers[key]}
        text = {"Enter": {"text": "\r"}, "Space": {"text": " "}}.get(key, {})
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)
