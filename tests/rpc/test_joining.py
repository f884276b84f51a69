"""Ranks that come and leave when they like: `init_rpc` without a *world_size*."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from ..actors.scripts import started
from ..waiting import eventually

pytestmark = pytest.mark.processes

KEEPER = "farref.rpc.keeper"
MIXED = "RPC group mixes statically and dynamically initialized members which is not supported"
PROGRAM = """
import os, signal, sys, threading, time
import farref.rpc as rpc

os.environ["MEETING"] = os.path.dirname(sys.argv[0])  # marks the keeper, too

def begin(name, rank, **size):
    method = "file://" + os.environ["MEETING"] + "/meet"
    options = rpc.TensorPipeRpcBackendOptions(init_method=method, rpc_timeout=30)
    rpc.init_rpc(name, rank=rank, rpc_backend_options=options, **size)

def there():
    found = []
    for rank in range(5):
        try:
            found.append(rpc.rpc_sync(rank, rpc.get_worker_info).name)
        except RuntimeError:
            found.append(None)
    return found

events, came = [], threading.Condition()

def tell(what):
    with came:
        events.append(what)
        came.notify_all()

def wait_for(what):
    with came:
        assert came.wait_for(lambda: what in events, 30), what

def until(expected):
    end = time.monotonic() + 30
    while (found := there()) != expected and time.monotonic() < end:
        time.sleep(0.01)
    print(found)

if sys.argv[1] == "first":
    begin("first", 0)
    wait_for("second is here")
    print(there(), rpc.get_worker_info("second").id, rpc.rpc_sync("second", abs, args=(-1,)))
    tell("second may leave")
    wait_for("third is here")
    print(there())
    rpc.shutdown()
    sys.exit()
if sys.argv[1] == "killed":
    begin("first", 0)
    rpc.rpc_sync("third", tell, args=("rank 0 is here",))
    os.kill(os.getpid(), signal.SIGKILL)
begin("second", 3)
while there()[0] is None:
    time.sleep(0.01)
rpc.rpc_sync(0, tell, args=("second is here",))
rpc.rpc_sync("first", wait_for, args=("second may leave",))
rpc.shutdown()
for name, rank, size in (("other", 1, {"world_size": 2}), ("first", 1, {})):
    try:
        begin(name, rank, **size)
    except ValueError as error:
        print(str(error).partition(". ")[0])
begin("third", 3)
rpc.rpc_sync(0, tell, args=("third is here",))
until([None, None, None, "third", None])
wait_for("rank 0 is here")
until([None, None, None, "third", None])
rpc.shutdown()
print("done")
"""


def test_they_come_and_leave(tmp_path: Path) -> None:
    """In any order: rank 0 comes last, leaves first, comes again, and is killed."""
    with ExitStack() as stack:
        second, first = (
            stack.enter_context(started(tmp_path, PROGRAM, name)) for name in ("second", "first")
        )
        assert first.communicate(timeout=100) == (
            "['first', None, None, 'second', None] 3 1\n['first', None, None, 'third', None]\n",
            "",
        )
        killed = stack.enter_context(started(tmp_path, PROGRAM, "killed"))
        assert killed.wait(100) == -signal.SIGKILL
        alone = "[None, None, None, 'third', None]\n"
        assert second.communicate(timeout=100) == (
            f"{MIXED}\nname 'first' is not unique: ranks 0 and 1 have it\n{alone}{alone}done\n",
            "",
        )
    eventually(lambda: not keepers(tmp_path), "the keeper goes on")


def keepers(folder: Path) -> list[psutil.Process]:
    return [
        each
        for each in psutil.process_iter(["cmdline", "environ"])
        if KEEPER in (each.info["cmdline"] or ())
        and (each.info["environ"] or {}).get("MEETING") == str(folder)
    ]
