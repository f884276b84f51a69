"""However many announcements are lost, no object is freed that a living endpoint holds (G4)."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from pathlib import Path
from typing import Any

import pytest

import farref
from farref import RRef, System, WorkerDiedError
from farref.protocol.sharing import Sharing
from farref.testing import Faults, cut, heal, set_faults

from ..actors.calls.test_sharing import keep, kept, let_go, read_kept
from ..actors.helpers import Box, assert_nothing_held, hold, until
from .conftest import GRACE

pytestmark = pytest.mark.processes


def lend_and_wait(name: str, ref: RRef[Any], gate: Path) -> None:
    """Lend on, and go on only when the gate is open."""
    farref.rpc_async(name, keep_and_wait, (ref, gate)).result()


def keep_and_wait(ref: RRef[Any], gate: Path) -> None:
    keep(ref)
    hold(gate)


def number_kept() -> int:
    return len(kept)


@pytest.mark.parametrize("sharing", ["lend", "borrow"])
def test_the_grace_waits_for_announcements_on_a_cut_link(sharing: Sharing, tmp_path: Path) -> None:
    """The middle borrower dies, and its borrower does not reach the owner for four graces."""
    with System(sharing=sharing, orphan_grace=GRACE, timeout=20, silence=None) as system:
        gate = tmp_path / "gate"
        system.worker("B")
        system.worker("C")
        set_faults(system, Faults())
        box = Box()
        ref, watch = RRef(box), weakref.ref(box)
        del box
        call = farref.rpc_async("B", lend_and_wait, ("C", ref, gate))
        assert until(system, lambda: bool(farref.rpc_sync("C", number_kept)))
        pid = farref.rpc_sync("B", os.getpid)
        del ref
        gc.collect()
        cut(system, "program", "C")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError):
            call.result()
        del call
        gc.collect()
        assert until(system, lambda: len(system.workers()) == 2)
        assert not until(system, lambda: watch() is None, 4 * GRACE)
        heal(system, "program", "C")
        gate.touch()
        assert [type(each) for each in farref.rpc_sync("C", read_kept)] == [Box]
        assert farref.rpc_sync("C", let_go) == 1
        assert_nothing_held(system)
