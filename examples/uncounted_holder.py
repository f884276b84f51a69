"""The program passes a reference to C, which keeps it, and drops its own.

A `multiprocessing.Manager` does not count the proxies in the arguments of a spawned process. Its
count is zero as soon as the program drops its own, and the object is freed under its holder.

Look for
  - C's reply: C has kept the reference, so it asks B to count it. The program unpins its own
    when C says that B has (G2);
  - the end: C calls the table, drops it, and only then does B free it.
"""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.managers import RemoteError
from typing import Any

from farref import RRef, System, remote, rpc_sync
from farref.examples.harness import run_alone

SHARING = "lend"
CONTEXT = get_context("spawn")
kept: list[RRef[dict[str, int]]] = []


def fault() -> str | None:
    here, there = CONTEXT.Pipe()
    with CONTEXT.Manager() as manager:
        table = manager.dict({"a": 1})
        holder = CONTEXT.Process(target=hold, args=(table, there))
        holder.start()
        here.recv()  # it has the proxy
        del table
        left = manager._number_of_objects()  # type: ignore[attr-defined]
        here.send("call it")
        error = here.recv()
        holder.join()
    return error and f"{left} objects are counted, and the process that holds one gets {error}"


def hold(table: Any, there: Connection) -> None:
    there.send("have it")
    there.recv()
    try:
        table.get("a")
        there.send(None)
    except RemoteError as error:
        there.send(str(error).splitlines()[-2])


def keep(table: RRef[dict[str, int]]) -> None:
    kept.append(table)


def use() -> object:
    return kept.pop().rpc_sync().get("a")


def play(system: System) -> None:
    for name in "BC":
        system.worker(name)
    table = remote("B", dict, args=({"a": 1},))
    rpc_sync("C", keep, args=(table,))
    del table
    assert rpc_sync("C", use) == 1


if __name__ == "__main__":
    run_alone(__doc__, play)
