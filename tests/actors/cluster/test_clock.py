"""Somebody sets the clock of the machine: no process counts as dead because of that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from farref.actors.base.lives import Watched
from farref.features import has


@pytest.mark.skipif(not has("procfs"), reason="the start of the machine is read from /proc")
def test_the_clock_is_set_while_a_process_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel then tells another time of the machine's start, an hour later here."""
    before = psutil.boot_time()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        watched = Watched.of(process.pid)
        assert watched is not None
        for each in Path("/proc").iterdir():
            if each.name != "stat":
                (tmp_path / each.name).symlink_to(each)
        lines = Path("/proc/stat").read_text().splitlines()
        later = [f"btime {before + 3600:.0f}" if x.startswith("btime") else x for x in lines]
        (tmp_path / "stat").write_text("\n".join(later))
        monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
        assert psutil.boot_time() == before + 3600
        assert watched.alive()
        assert watched.running()
        monkeypatch.undo()
        process.communicate()
    assert not watched.alive()
