"""Ranks that come and leave when they like: `init_rpc` without a *world_size*."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from ..actors.scripts import started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes

MIXED = "RPC group mixes statically and dynamically initialized members which is not supported"
PROGRAM = """
import os, sys, threading
import farref.rpc as rpc

def begin(name, rank, **size):
    method = "file://" + os.path.dirname(sys.argv[0]) + "/meet"
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

if sys.argv[1] == "first":
    begin("first", 0)
    wait_for("second is here")
    print(there(), rpc.get_worker_info("second").id, rpc.rpc_sync("second", abs, args=(-1,)))
    tell("second may leave")
    wait_for("third is here")
    print(there())
    tell("first leaves")
    rpc.shutdown()  # waits until the others have left
    print(events[-1])
    sys.exit()
begin("second", 3)
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
rpc.rpc_sync(0, wait_for, args=("first leaves",))
for number in range(200):  # if the first one did not wait, it would be gone before the last of them
    assert rpc.rpc_sync(0, abs, args=(-number,)) == number
rpc.rpc_sync(0, tell, args=("third leaves",))
rpc.shutdown()
print("done")
"""


def test_they_come_and_leave(tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(started(tmp_path, PROGRAM, name)) for name in ("first", "second")
        )
        assert [each.communicate(timeout=100) for each in (second, first)] == [
            (f"{MIXED}\nname 'first' is not unique: ranks 0 and 1 have it\ndone\n", ""),
            (
                "['first', None, None, 'second', None] 3 1\n"
                "['first', None, None, 'third', None]\n"
                "third leaves\n",
                "",
            ),
        ]
