"""The namespaces of functions that came from other processes, and the functions themselves.

The functions of one module of one sender share a namespace here: the dict that is the
``__globals__`` of each. So one function finds in ``cache`` what another one put there, and a later
call finds what an earlier one did.

A sender that has bound a global anew begins a new *generation* of the namespace (see
`definitions`). Here the new generation begins as a copy of the one before, with the new binding in
it. So the effects of functions on the other globals go on. Calls that still run, with functions of
the old generation, keep the old binding. So ``for n in range(3): rpc_async("w", lambda: n)`` gives
0, 1 and 2, in whatever order the calls run.

Each endpoint has namespaces of its own, one for each sender and module. A function that is passed
on by its receiver comes, for the next one, from that receiver.

A namespace that has not been used for long is let go of when there are too many. That costs only
what the functions did to it: the next definition brings all globals that it uses.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .definitions import SPACE, Header, Missing, bounded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..protocol.ids import WorkerId
    from .definitions import Definition

MOST_SPACES = 256
"""The most namespaces that one endpoint keeps."""


class Generation:
    """One generation of a namespace."""

    __slots__ = ("names", "number", "since")

    def __init__(self, number: int, names: dict[str, Any], since: dict[str, int]) -> None:
        self.number = number
        self.names = names
        """The globals themselves."""
        self.since = since
        """The sender's number of each binding."""

    def next(self, number: int, since: dict[str, int]) -> Generation:
        """A copy of it, without the globals that *since* says are bound anew."""
        copy = Generation(number, self.names.copy(), self.since.copy())
        for name, bound in since.items():
            if copy.since.get(name, bound) != bound:
                del copy.since[name]
                copy.names.pop(name, None)
        return copy

    def fill(self, values: dict[str, Any], since: dict[str, int]) -> None:
        """Bind those of *values* that are not bound so far."""
        for name, value in values.items():
            if name not in self.since:
                self.since[name] = since[name]
                if value is not Missing:
                    self.names[name] = value


class Spaces:
    """The namespaces of one endpoint, which makes the functions in them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # as in `Library`
        self._latest: OrderedDict[tuple[WorkerId, int], Generation] = OrderedDict()

    def make(self, definition: Definition) -> Any:
        """The function or class of *definition*, made at its first use.

        Raises the errors of unpickling.
        """
        if not definition.is_made:
            made = self._made(definition)
            with self._lock:
                if not definition.is_made:  # another thread may have been faster
                    definition.made = made
        return definition.made

    def _made(self, definition: Definition) -> Any:
        rows, data = pickle.loads(definition.data)  # noqa: S301 - peers are trusted
        headers = {row[0]: Header(*row) for row in rows}
        # Without the lock: unpickling runs code of the user's, which may do anything.
        generations = {n: self._enter(definition.origin, header) for n, header in headers.items()}
        unpickler = _Maker(data, generations)
        made = unpickler.load()
        values: dict[int, dict[str, Any]] = {number: {} for number in headers}
        while (each := unpickler.load()) is not None:
            number, name, value = each
            values[number][name] = value
        with self._lock:
            for number, generation in generations.items():
                generation.fill(values[number], headers[number].since)
        return made

    def _enter(self, origin: WorkerId, header: Header) -> Generation:
        """The generation of the namespace that a definition of *origin* uses."""
        key, number = (origin, header.number), header.generation
        with self._lock:
            latest = self._latest.get(key)
            if latest is None:
                found = Generation(number, dict(header.base), {})
            elif number == latest.number:
                found = latest
            else:
                found = latest.next(number, header.since)
            if latest is None or number >= latest.number:  # else it is late, and not for others
                self._latest[key] = found
                self._latest.move_to_end(key)
                bounded(self._latest, MOST_SPACES)
            return found

    def forget(self, origins: Iterable[WorkerId]) -> list[Generation]:
        """Let go of the namespaces of dead senders; the caller drops them, without any lock."""
        dead = set(origins)
        with self._lock:
            keys = [key for key in self._latest if key[0] in dead]
            return [self._latest.pop(key) for key in keys]


class _Maker(pickle.Unpickler):
    """Unpickles one definition."""

    def __init__(self, data: bytes, generations: dict[int, Generation]) -> None:
        super().__init__(io.BytesIO(data))
        self._generations = generations

    def persistent_load(self, pid: Any) -> dict[str, Any]:
        kind, number = pid
        if kind != SPACE or number not in self._generations:
            raise pickle.UnpicklingError("it names a namespace that did not come with it")
        return self._generations[number].names
