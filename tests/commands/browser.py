"""A real Chromium, driven by its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

from ..waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
START = """
import os, sys
os.dup2(int(sys.argv[1]), 3), os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads its commands from descriptor 3, and answers at 4."""

ANSWER = 100.0
"""Seconds for an answer that takes seconds on an idle machine: about each of 100,000 objects."""


class Browser:
    """A browser with one page. `errors` has those of its console, refusals by policy too."""

    def __init__(self, profile: Path, *, width: int = 1200, height: int = 800) -> None:
        self.errors: list[str] = []
        self._number = 0
        self._session = ""
        self._unread = b""
        reads, self._writes = os.pipe()
        self._reads, writes = os.pipe()
        ends = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (reads, writes)]
        command = [
            *(sys.executable, "-c", START, *map(str, ends), CHROMIUM or ""),
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--remote-debugging-pipe", f"--user-data-dir={profile}"),
            *(f"--window-size={width},{height}", "about:blank"),
        ]
        self._process = subprocess.Popen(command, pass_fds=ends, stderr=subprocess.DEVNULL)
        for each in (reads, writes, *ends):
            os.close(each)

    def __enter__(self) -> Self:
        targets = self.do("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self.do("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.do(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._session = ""
        self.do("Browser.close")
        self._process.wait(60)
        for each in (self._reads, self._writes):
            os.close(each)

    def do(self, method: str, **params: Any) -> Any:
        """The result of one command of the protocol."""
        self._number += 1
        said: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            said["sessionId"] = self._session
        os.write(self._writes, json.dumps(said).encode() + b"\0")
        while True:
            heard = self._heard()
            if heard.get("id") == self._number:
                assert "error" not in heard, heard
                return heard["result"]
            if heard.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(heard["params"]["exceptionDetails"]))
            entry = heard.get("params", {}).get("entry", {})
            if entry.get("level") == "error":
                self.errors.append(entry["text"])

    def _heard(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            read = os.read(self._reads, 1 << 16)
            assert read, "the browser has ended"
            self._unread += read
        first, _, self._unread = self._unread.partition(b"\0")
        heard: dict[str, Any] = json.loads(first)
        return heard

    def open(self, url: str) -> None:
        self.do("Page.navigate", url=url)

    def js(self, expression: str) -> Any:
        """The value of *expression* in the page."""
        done = self.do("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def shows(self, text: str, where: str = "body") -> None:
        """Wait until the element *where* has *text*."""
        seen = f"document.querySelector({where!r})?.innerText ?? ''"
        eventually(lambda: text in self.js(seen), lambda: self.js(seen), ANSWER)

    def press(self, *keys: str) -> None:
        """Press keys: characters, or names such as ``Enter``."""
        codes = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, "")}
        codes |= {"ArrowUp": (38, ""), "ArrowDown": (40, "")}
        for key in keys:
            code, text = codes.get(key, (ord(key[0].upper()), key))
            down = {"key": key, "windowsVirtualKeyCode": code}
            typed = {"text": text} if text else {}
            self.do("Input.dispatchKeyEvent", type="keyDown", **down, **typed)
            self.do("Input.dispatchKeyEvent", type="keyUp", **down)
