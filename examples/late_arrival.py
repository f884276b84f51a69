"""The sender drops its only reference before the receiver has unpickled it.

A `multiprocessing.Manager` counts a proxy when it is unpickled. Until then nothing counts it, and
the object is freed on the way (CPython issue 119937).

Look for
  - the call to C: it lends the table. The program has no handle any more, but its pin keeps the
    table alive until C has replied (G2);
  - the end: only then does the program send its delete, and B frees the table.
"""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.managers import RemoteError

from farref import RRef, System, remote, rpc_async
from farref.examples.harness import run_alone

SHARING = "lend"
CONTEXT = get_context("spawn")


def fault() -> str | None:
    here, there = CONTEXT.Pipe()
    with CONTEXT.Manager() as manager:
        here.send(manager.dict({"a": 1}))
        reader = CONTEXT.Process(target=receive, args=(there,))
        reader.start()
        error = here.recv()
        reader.join()
    return error and f"the table was freed on its way, and the reader gets {error}"


def receive(there: Connection) -> None:
    try:
        there.recv().get("a")
        there.send(None)
    except RemoteError as error:
        there.send(str(error).splitlines()[-2])


def read(tables: list[RRef[dict[str, int]]]) -> object:
    return tables[0].rpc_sync().get("a")


def play(system: System) -> None:
    for name in "BC":
        system.worker(name)
    call = rpc_async("C", read, args=([remote("B", dict, args=({"a": 1},))],))
    assert call.result() == 1


if __name__ == "__main__":
    run_alone(__doc__, play)
