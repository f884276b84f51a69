"""Too little memory, or a full disk: an error for the one request, and the rest goes on."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest

from ..scripts import run, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes
LITTLE = """
    import resource
    import farref

    MB = 1 << 20

    def limit(more):
        now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + more if more else -1, -1))

    def pieces(number):
        return [b"%1000d" % n for n in range(number)]

    class Grows:
        def __reduce__(self):
            return bytearray, (1 << 30,)

    if __name__ == "__main__":
        with farref.System(timeout=20) as system:
            system.worker("B")
            mine = farref.remote("B", list, ("abc",))
            asks = {
                "allocates": lambda: farref.rpc_sync("B", bytearray, (1 << 30,)),
                "creates": lambda: farref.remote("B", bytearray, (1 << 30,)).to_here(),
                # First: what it has freed afterwards may be there for the next one, or not.
                "is not pickled": lambda: len(farref.rpc_sync("B", pieces, (75_000,))),
                "is sent": lambda: len(farref.rpc_sync("B", pieces, (55_000,))),
                "is not mapped": lambda: farref.rpc_sync("B", len, (bytes(200 * MB),)),
                "is not unpickled": lambda: farref.rpc_sync("B", type, (Grows(),)),
            }
            for name, ask in asks.items():
                farref.rpc_sync("B", limit, (100 * MB,))
                try:
                    print(name, ask())
                except MemoryError:
                    print(name, "MemoryError")
                except farref.SerializationError as error:
                    print(name, str(error).rpartition(": ")[2])
                assert farref.rpc_sync("B", abs, (-1,)) == 1
                farref.rpc_sync("B", limit, (0,))
            assert mine.to_here() == ["a", "b", "c"]
            assert farref.rpc_sync("B", len, (bytes(200 * MB),)) == 200 * MB
"""
TOO_LITTLE = "this process has too little memory for it; pass it in parts, or pass an RRef to it"
ENDS = f"""\
allocates MemoryError
creates MemoryError
is not pickled {TOO_LITTLE}
is sent 55000
is not mapped MemoryError
is not unpickled {TOO_LITTLE}
"""


def test_too_little_memory_ends_one_request(tmp_path: Path) -> None:
    assert run(tmp_path, LITTLE) == ENDS


FULL = """
    import contextlib, itertools, os, sys
    import farref

    here = os.environ["XDG_RUNTIME_DIR"]

    def fill(pages=0):
        with contextlib.suppress(OSError), open(f"{here}/fill", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(f"{here}/fill", os.path.getsize(f"{here}/fill") - 4096 * pages)
        with contextlib.suppress(OSError):
            for number in itertools.count() if not pages else ():
                open(f"{here}/fill{number}", "x").close()

    def free():
        for name in os.listdir(here):
            if name.startswith("fill"):
                os.unlink(f"{here}/{name}")

    def second():
        with farref.System():
            pass

    if __name__ == "__main__":
        told = set()
        for pages in range(4):
            fill(pages)
            try:
                second()
            except farref.SystemDownError as error:
                told.add(str(error).split("; ")[-1])
            free()
        print("start", *told)
        with farref.System() as system:
            system.worker("B")
            asks = {
                "worker": lambda: system.worker("C"),
                "second system": second,
                "attach": lambda: farref.System.attach(system.name).shutdown(),
            }
            fill()
            for name, ask in asks.items():
                try:
                    ask()
                except farref.FarrefError as error:
                    print(name, type(error).__name__, str(error).split("; ")[-1])
                else:
                    print(name)
            assert len(farref.rpc_sync("B", bytes, (1 << 20,))) == 1 << 20
            free()
            for ask in asks.values():
                ask()
            fill()
        free()
"""


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    with tempfile.TemporaryDirectory() as disk:  # a short path: sockets are there
        mount = f"mount -t tmpfs -o size=256k,nr_inodes=60 tmpfs {disk}"
        enter = f'{mount} && XDG_RUNTIME_DIR={disk} exec "$0" "$@"'
        with started(tmp_path, FULL, on=["unshare", "-m", "sh", "-c", enter]) as program:
            out, said = program.communicate(timeout=60)
    if "unshare" in said or "mount:" in said:
        pytest.skip(said)
    what = "free some space there, or set `XDG_RUNTIME_DIR` to a folder on another disk"
    names = (
        "start",
        "worker CreationError",
        "second system SystemDownError",
        "attach SystemDownError",
    )
    assert (out, program.returncode) == ("".join(f"{each} {what}\n" for each in names), 0), said
