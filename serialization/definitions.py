"""Functions and classes that are pickled by value, as they travel: once to each endpoint.

The sender makes definitions in its `library`, and a receiver makes functions of them in `spaces`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Hashable
from types import FunctionType
from typing import Any

import msgspec

from ..protocol.ids import WorkerId
from .sources import keep
from .spaces import MARK, Missing, Space, bind


class Exported(msgspec.Struct, frozen=True, array_like=True):
    """A definition in a message on the wire: its index in the export cache of the message's flow.

    If the receiver does not have it, the other fields bring it.
    """

    index: int
    origin: WorkerId | None = None
    number: int = 0
    data: bytes = b""


class Definition:
    """A function or class, pickled by the endpoint *origin* as its definition number *number*."""

    __slots__ = ("__weakref__", "_loaded", "data", "name", "number", "origin")

    def __init__(self, origin: WorkerId, number: int, data: bytes) -> None:
        self.origin = origin
        self.number = number
        self.name: Hashable = (origin, number)
        """Distinguishes it from all other definitions."""
        self.data = data
        self._loaded: tuple[Any, Any] | None = None

    def make(self) -> Any:
        """The function, class or other global, made at its first use.

        Raises the errors of unpickling.
        """
        return self._load()[0]

    def called(self) -> Any:
        """The same for one call, with the globals that it reads as they were when it was sent."""
        function, reads = self._load()
        if reads is None:
            return function
        module, bindings = reads
        names = {**module.base, MARK: module, "__builtins__": __builtins__}
        for name, number, value in bindings:
            now = module.names.get(name, Missing) if module.has({name: number}) else value
            if now is not Missing:
                names[name] = now
        code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
        made = FunctionType(code, names, None, defaults, closure)
        made.__kwdefaults__, made.__dict__ = function.__kwdefaults__, function.__dict__
        made.__qualname__ = function.__qualname__
        return made

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            self._loaded = load(self.data)
        return self._loaded


def load(data: bytes) -> tuple[Any, tuple[Space, list[Any]] | None]:
    """Unpickle a definition: the thing itself, and what `Definition.called` needs.

    That is the module of a function, and the bindings that it reads; None for other things.
    Unpickling runs the user's code, so no lock is held.
    """
    unpickler = DefinitionUnpickler(io.BytesIO(data))
    (made, reads, _), (bindings, sources) = unpickler.load(), unpickler.load()
    keep(sources)
    bind(bindings)
    if reads is not None:
        module, names = reads
        reads = module, [rest for space, *rest in bindings if space is module and rest[0] in names]
    return made, reads


class DefinitionUnpickler(pickle.Unpickler):
    def persistent_load(self, binding: Any) -> Any:
        """A global, which is one object however often it comes."""
        return binding[0].once(*binding[1:])
