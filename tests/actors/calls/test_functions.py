"""What travels as code: lambdas, closures, and what a script defines in ``__main__``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import farref

from ..conftest import BASES
from ..scripts import run

if TYPE_CHECKING:
    from pathlib import Path

    from farref import System


def test_lambdas_and_closures(system: System) -> None:
    factor = 3
    inner = [1, 2]

    def closure(value: int) -> list[int]:
        return [factor * value * each for each in inner]

    assert farref.rpc_sync("B", lambda value: factor * value, (2,)) == 6
    assert farref.rpc_sync("B", closure, (2,)) == [6, 12]
    assert farref.remote("B", lambda: closure).to_here()(1) == [3, 6]


def test_classes_of_a_function(system: System) -> None:
    class Local:
        def __init__(self, value: int) -> None:
            self.value = value

        def twice(self) -> int:
            return 2 * self.value

    ref = farref.remote("B", Local, (4,))
    assert ref.rpc_sync().twice() == 8
    copy: Any = ref.to_here()
    assert copy.twice() == 8


MAIN = """
    import asyncio, sys
    from dataclasses import dataclass
    import farref
    from farref import RefActor, RRef, System

    @dataclass
    class Point:
        x: int
        def shifted(self, by): return Point(self.x + by)

    class Unlucky(Exception):
        pass

    class Holder(RefActor):
        async def receiveMsg_Point(self, message, sender):
            self.send(sender, RRef(message.shifted(1)))

    def make(x): return Point(x)
    async def later(ref): return (await ref).shifted(10)
    def fail(): raise Unlucky("of main")

    with System(sys.argv[1]) as system:
        system.worker("B")

        class Late(Holder):
            "Defined after the system has started."

        ref = farref.remote("B", make, (1,))
        assert ref.to_here() == Point(1)
        assert ref.rpc_sync().shifted(2) == Point(3)
        assert farref.rpc_sync("B", later, (ref,)) == Point(11)
        for kind in (Holder, Late):
            assert system.ask(system.create(kind), Point(5)).to_here() == Point(6)
        try:
            farref.rpc_sync("B", fail)
        except Unlucky as error:
            assert str(error) == "of main"
            print("done")
"""


@pytest.mark.processes
@pytest.mark.parametrize("base", BASES)
def test_functions_and_classes_of_main(base: str, tmp_path: Path) -> None:
    assert run(tmp_path, MAIN, base) == "done\n"
