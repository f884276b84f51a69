"""Two machines' folders, and the `scp` that copies between them: here the machines share a disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SCP = """\
#!/bin/sh
# scp FILE 10.0.0.2:
test "$2" = "10.0.0.2:" && cp -p "$1" "$SECOND/"
"""


def two_homes(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The folder of each machine, in *folder*, and the environment of commands there."""
    homes = {name: folder / name for name in ("first", "second")}
    tools = folder / "tools"
    for each in (*homes.values(), tools):
        each.mkdir()
    (tools / "scp").write_text(SCP, encoding="utf-8")
    (tools / "scp").chmod(0o755)
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    return homes, {**os.environ, "PATH": path, "SECOND": str(homes["second"])}
