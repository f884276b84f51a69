"""An object on B is given a reference in its `__init__`, and both are freed.

A `multiprocessing.Manager` never frees an object whose proxy was passed to another of its objects:
its server keeps the object, even when no process has a proxy any more.

Look for
  - the second creation: its argument is a reference to the table, which the reader keeps;
  - the end: the program drops the reader. B frees it, its reference with it, and so the table.
"""

from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from typing import Any

from farref import System, remote
from farref.examples.harness import run_alone

SHARING = "lend"


class Table:
    alive = 0

    def __init__(self) -> None:
        Table.alive += 1

    def __del__(self) -> None:
        Table.alive -= 1


class Reader:
    def __init__(self, table: Any) -> None:
        self.table = table

    def ready(self) -> bool:
        return True


def alive() -> int:
    return Table.alive


class Manager(BaseManager):
    pass


for each in (Table, Reader, alive):
    Manager.register(each.__name__, each)


def fault() -> str | None:
    with Manager(ctx=get_context("spawn")) as manager:
        server: Any = manager
        table = server.Table()
        reader = server.Reader(table)
        del reader, table  # the server frees what nobody has before these return
        left = server.alive()._getvalue()
    return f"no process has a proxy, but the server keeps {left} table" if left else None


def play(system: System) -> None:
    system.worker("B")
    reader = remote("B", Reader, args=(remote("B", Table),))
    assert reader.rpc_sync().ready()
    del reader


if __name__ == "__main__":
    run_alone(__doc__, play)
