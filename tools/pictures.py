"""The pictures of the README, made of the real thing: `make pictures` writes docs/pictures.

A trace of the README's program; `farref top`, and `farref dashboard` in a Chromium, beside
`training.py`.
"""

# ruff: noqa: T201, S603 (a command line tool that runs this Python)

from __future__ import annotations

import base64
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from farref.commands.refs import attached
from farref.top.figures import Looks
from farref.top.screen import TopView, picture
from farref.trace.saving import WIDTH, canvas, svg

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
FARREF = (sys.executable, "-P", "-m", "farref")
HEIGHT = 26
"""Lines of the terminal that `top` is shown in."""
EVENTS = 3
"""Deaths and errors that it shows."""
WORKING = 20
"""Seconds after which the page has enough to show."""

RECORD = "[...document.querySelectorAll('button')].find(e => e.innerText == 'record')?.click()"
"""The calls of the last minute are recorded if one asks for it."""

sys.path[:0] = [str(ROOT)]  # the README's program and the browser are as the tests have them
from tests.commands.browser import Browser  # noqa: E402 - the path is set above
from tests.docs.pages import blocks  # noqa: E402


def trace(folder: Path) -> None:
    """The lanes of the README's program."""
    program = next(each for each in blocks("README.md") if each.language == "python").body
    recorded = program.replace("farref.System()", f"farref.System(trace={str(folder)!r})")
    (folder / "program.py").write_text(recorded, encoding="utf-8")
    subprocess.run([sys.executable, folder / "program.py"], check=True)
    (folder / "program.py").unlink()
    picture = PICTURES / "trace.svg"
    subprocess.run([*FARREF, "trace", folder, "--save", picture], check=True, stdout=sys.stderr)


def top(name: str) -> None:
    """What a terminal shows."""
    console, looks = canvas(WIDTH), Looks()
    with attached(name) as system:
        figures = looks.figures(system.overview())
        while len(figures.events) < EVENTS:
            time.sleep(1)
            figures = looks.figures(system.overview())
        console.print(picture(figures, TopView(), WIDTH, HEIGHT))
    (PICTURES / "top.svg").write_text(svg(console), encoding="utf-8")


def dashboard(name: str, profile: Path) -> None:
    """What a browser shows."""
    command = [*FARREF, "dashboard", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None  # noqa: S101
        address = server.stdout.readline().rpartition(" ")[2].strip()
        with Browser(profile, width=1200, height=900) as browser:
            browser.open(address)
            browser.shows("trainer-1")
            browser.js(RECORD)
            time.sleep(WORKING)
            taken = browser.do("Page.captureScreenshot", format="png")
        server.send_signal(signal.SIGINT)
    (PICTURES / "dashboard.png").write_bytes(base64.b64decode(taken["data"]))


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        trace(Path(folder))
    # Whatever folder this is, no line of the program shows it.
    running = "exec(compile(open('training.py').read(), 'training.py', 'exec'))"
    command = [sys.executable, "-c", running]
    with (
        subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE) as program,
        tempfile.TemporaryDirectory() as profile,
    ):
        assert program.stdout is not None  # noqa: S101
        program.stdout.readline()
        try:
            top("training")
            dashboard("training", Path(profile))
        finally:
            program.send_signal(signal.SIGINT)
    for each in sorted(PICTURES.iterdir()):
        print(f"{each.relative_to(ROOT)}  {each.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
