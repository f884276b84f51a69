"""The store of a round: keys and values, and the effect of each operation.

Names and meaning are those of `torch.distributed.Store`, with details measured there: `compare_set`
of a missing key creates it if "" is expected, and otherwise returns the *expected* value; `add`
keeps decimal digits. Nothing here waits: a caller that wants a missing key asks again when a
`changed` key is among its wanted keys.

Exactly once: a caller repeats an operation if the answer was lost, together with its sender. The
operation must not take effect twice. So each operation has its caller and a number, and the answer
is kept until the caller says that it has come (`settled`: it waits for no smaller number). A
standby that repeats the operations in their order has the same keys and the same answers.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal, assert_never

import msgspec

from .ids import WorkerId

Change = Literal["set", "add", "append", "compare_set", "delete"]


class Op(msgspec.Struct, frozen=True):
    """One change. *values* belong to the keys; for `compare_set`: expected and desired value."""

    caller: WorkerId
    number: int
    settled: int
    """The caller waits for no operation of a smaller number."""
    what: Change
    keys: tuple[str, ...]
    values: tuple[bytes, ...] = ()
    amount: int = 0


Answer = bytes | int | bool | str | None
"""A `str` says why the operation could not be done."""


class Table(msgspec.Struct, eq=False):
    """The keys and values of one round."""

    values: dict[str, bytes] = {}
    _answers: dict[WorkerId, OrderedDict[int, Answer]] = {}

    def has(self, keys: tuple[str, ...]) -> bool:
        return all(key in self.values for key in keys)

    def do(self, op: Op) -> Answer:
        """Make a change, once. Returns its answer, also when it is asked again."""
        answers = self._answers.setdefault(op.caller, OrderedDict())
        if op.number not in answers:
            answers[op.number] = self._change(op)
        answer = answers[op.number]
        # An operation that overtook smaller numbers may keep their answers a while longer.
        while answers and next(iter(answers)) < op.settled:
            answers.popitem(last=False)
        return answer

    def callers(self) -> tuple[WorkerId, ...]:
        """The callers that have an answer here, in case they ask again."""
        return tuple(self._answers)

    def forget(self, caller: WorkerId) -> None:
        """*caller* will ask for no answer again."""
        self._answers.pop(caller, None)

    def _change(self, op: Op) -> Answer:
        match op.what:
            case "set":
                self.values.update(zip(op.keys, op.values, strict=True))
                return None
            case "add":
                return self._add(op.keys[0], op.amount)
            case "append":
                self.values[op.keys[0]] = self.values.get(op.keys[0], b"") + op.values[0]
                return None
            case "compare_set":
                return self._compare_set(op.keys[0], *op.values)
            case "delete":
                return self.values.pop(op.keys[0], None) is not None
            case _:
                assert_never(op.what)

    def _add(self, key: str, amount: int) -> int | str:
        try:
            number = int(self.values.get(key, b"0")) + amount
        except ValueError:
            return f"the value of {key!r} is not a whole number, so nothing can be added to it"
        self.values[key] = str(number).encode()
        return number

    def _compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        current = self.values.get(key)
        if current is None and expected:
            return expected
        if current is not None and current != expected:
            return current
        self.values[key] = desired
        return desired
