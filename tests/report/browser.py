"""A headless browser driven over a pipe: enough of the DevTools protocol to look at a page and use it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """Return the path of a Chromium, or None."""
    named = os.environ.get("TRACETOOL_CHROMIUM")
    return named or next((p for n in PROGRAMS if (p := shutil.which(n))), None)


class Page:
    """One open page: messages it printed, and ways to look at it."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self.messages: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if time.monotonic() > deadline:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._receive, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.messages.append(f"console: {[a.get('value') for a in params['args']]}")
        elif method == "Runtime.exceptionThrown":
            self.messages.append(f"exception: {params['exceptionDetails']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.messages.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                self.messages.append(f"asked the network for {url}")
        elif method == "Page.javascriptDialogOpening":
            self.messages.append(f"dialog: {params['message']}")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        number = self._count
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 200
        while True:
            answer = self._read(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return dict(answer["result"])

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window's size and the system's color scheme."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def on_paper(self) -> None:
        """Show the page as it is printed."""
        self._call("Emulation.setEmulatedMedia", media="print")

    def open(self, path: Path) -> float:
        """Open a file and return the seconds until it is ready to use."""
        begun = time.perf_counter()
        self._call("Page.navigate", url=path.absolute().as_uri())
        self.wait("document.readyState === 'complete'")
        return time.perf_counter() - begun

    def run(self, script: str) -> Any:
        """Evaluate JavaScript and return its value."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"])
        return done["result"].get("value")

    def wait(self, condition: str, seconds: float = 200) -> None:
        """Wait until a JavaScript condition holds."""
        deadline = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press a key on what has the focus."""
        text = {"text": key} if len(key) == 1 else {}
        if key == "Enter":
            text = {"text": "\r"}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def point(self, x: float, y: float) -> None:
        """Move the pointer to a place in the window."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path, *, whole: bool = True) -> Path:
        """Write a screenshot."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """Start a browser, give a page, and end the browser; the test is skipped where there is none."""
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here (set TRACETOOL_CHROMIUM)")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # the protocol speaks on file descriptors 3 and 4
    shuffle = f'exec 3<&{to_read} 4>&{from_write}; exec "$0" "$@"'
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--remote-debugging-pipe", "--disable-background-networking"]  # fmt: skip
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        started = subprocess.Popen(
            ["bash", "-c", shuffle, program, *arguments, f"--user-data-dir={profile}"],
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Page(to_write, from_read)
        finally:
            os.close(to_write)
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(5)
            if started.poll() is None:
                os.killpg(started.pid, 9)
                started.wait()
            os.close(from_read)
