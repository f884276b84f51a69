"""B reads a value in shared memory and ends. Then C reads it.

Python's `multiprocessing.shared_memory` has a resource tracker for each family of processes. That
of a reader removes the memory when the reader ends, even if others use it (CPython issue 82300).

Look for
  - the two fetches: B and C read the same memory, which the program owns. B has ended between them;
  - the end: the program's object is freed when C's call has returned the loan, and not before.
"""

import subprocess
import sys
import time
from multiprocessing.resource_tracker import unregister
from multiprocessing.shared_memory import SharedMemory

from thespian.actors import ActorExitRequest

from farref import RRef, System, rpc_sync
from farref.examples.harness import run_alone

SHARING = "lend"
SIZE = 1 << 20
READER = """
from multiprocessing.shared_memory import SharedMemory
SharedMemory({name!r}).close()
"""


def fault() -> str | None:
    memory = SharedMemory(create=True, size=SIZE)
    subprocess.run(  # noqa: S603 - the text above
        [sys.executable, "-c", READER.format(name=memory.name)],
        check=True,
        capture_output=True,  # which ends with its tracker, and has its warning of a leak
    )
    memory.close()
    try:
        SharedMemory(memory.name).close()
    except FileNotFoundError as error:
        unregister(f"/{memory.name}", "shared_memory")
        return f"the next reader gets {type(error).__name__}: {error}"
    memory.unlink()
    return None


def length(value: RRef[bytes]) -> int:
    return len(value.to_here())


def play(system: System) -> None:
    for name in "BC":
        system.worker(name)
    value = RRef(bytes(SIZE), frozen=True)
    for name in "BC":
        assert rpc_sync(name, length, args=(value,)) == SIZE
        system.tell(name, ActorExitRequest())
        while any(worker.name == name for worker in system.workers()):
            time.sleep(0.01)


if __name__ == "__main__":
    run_alone(__doc__, play)
