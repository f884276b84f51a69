"""Messages that no correct peer sends, built field by field from a command's words.

The types of a message's fields say how each word is read. The parts of a structure are joined by
commas, in their order; those of a list by ``+``, or by commas if they are ids. A pair may have a
colon in its middle::

    rref=B/1  forks=B/1,B/2      an id, and ids
    child=A/1,A/2,B,A,loan       a descriptor: reference, fork, owner, parent, passing
    moved=A/1,A/2,B,A            the same
    loans=B/1,A/1,B,held,C/1:D   a report: reference, fork, owner, held or not; C/1 is at D
    removed=B/1,A/1,C/1:D        reference and fork, and the same
"""

from __future__ import annotations

import re
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from ..protocol.delivery import Packet
from ..protocol.ids import CallId, ForkId, Number, RRefId, WorkerId
from ..protocol.messages import (
    BY_NAME,
    Bulky,
    Cargo,
    Descriptor,
    Flow,
    Message,
    Moved,
    Part,
    Passing,
    Tell,
)
from .errors import BadCommandError

if TYPE_CHECKING:
    from collections.abc import Callable

_IDS = (RRefId, ForkId, CallId)


def parse_id(text: str, worker: Callable[[str], WorkerId]) -> tuple[WorkerId, int]:
    """``A/1`` as any kind of id. Raises `BadCommandError` if it is none."""
    name, slash, number = text.partition("/")
    if not slash or not number.isdecimal():
        raise BadCommandError(f"{text!r} is not an id such as A/1")
    return worker(name), int(number)


def forged(name: str, words: list[str], worker: Callable[[str], WorkerId]) -> Message | Packet:
    """The message or packet in the words. An unused word is an error."""
    given: dict[str, str] = {}
    for word in words:
        field, equals, value = word.partition("=")
        if not equals:
            raise BadCommandError(f"{word!r} is not of the form field=value")
        given[field] = value
    if name == "Packet":
        made: Message | Packet = _packet(given)
    elif name in BY_NAME:
        made = _Forge(worker).message(BY_NAME[name], given)
    else:
        raise BadCommandError(f"{name!r} is none of {', '.join([*BY_NAME, 'Packet'])}")
    if given:
        raise BadCommandError(f"unknown fields: {', '.join(given)}")
    return made


def _packet(given: dict[str, str]) -> Packet:
    count, first, expects = (_number(given, name) for name in ("messages", "first", "expects"))
    tells = tuple(Tell(cargo=Cargo(payload=f"m{i + 1}")) for i in range(count))
    return Packet(first, tells, expects)


def _number(given: dict[str, str], name: str) -> int:
    value = given.pop(name, "")
    if re.fullmatch(r"-?\d+", value) is None:
        raise BadCommandError(f"{name}={value}: give a number")
    return int(value)


class _Forge:
    """Reads words; *worker* makes a `WorkerId` from a name."""

    def __init__(self, worker: Callable[[str], WorkerId]) -> None:
        self._worker = worker

    def message(self, kind: type[Message], given: dict[str, str]) -> Message:
        """The message of *kind*. Takes its fields out of *given*."""
        made: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            word = "child" if field.type is Cargo else field.name
            if word in given:
                made[field.name] = self._value(field.type, given.pop(word), word)
            elif field.type is Cargo:
                made[field.name] = Cargo()
            elif field.required:
                raise BadCommandError(f"the field {word}= is missing")
        return kind(**made)

    def _value(self, kind: Any, text: str, name: str) -> Any:
        """*text*, the word or a part of the word *name*, as a *kind*."""
        parts = get_args(kind)
        if kind in _IDS:
            return kind(*parse_id(text, self._worker))
        if kind is WorkerId:
            return self._worker(text)
        if kind == Number:
            return _number({name: text}, name)
        if kind is bool:
            return text == name
        if kind in (Bulky, Flow):
            return text
        if kind is Passing:
            ways = {way.value: way for way in Passing}
            if text not in ways:
                raise BadCommandError(f"{text!r} is none of {', '.join(ways)}")
            return ways[text]
        if kind is Cargo:
            return Cargo(descriptors=self._value(tuple[Descriptor, ...], text, name))
        if kind is Moved:
            fork = self._value(Descriptor, text, name)
            return Moved(fork=fork, path=(fork.rref,))
        if get_origin(kind) is UnionType:
            return self._value(parts[0], text, name)
        if isinstance(kind, type) and issubclass(kind, Part):
            return self._part(kind, text, name)
        if parts and parts[-1] is Ellipsis:
            items = text.split("," if parts[0] in _IDS else "+")
            return tuple(self._value(parts[0], item, name) for item in items if item)
        if get_origin(kind) is tuple:
            words = re.split("[,:]", text)
            if len(words) != len(parts):
                raise BadCommandError(f"{name}={text}: give a pair")
            return tuple(self._value(*each, name) for each in zip(parts, words, strict=True))
        raise BadCommandError(f"{name}= cannot be forged")

    def _part(self, kind: type[Part], text: str, name: str) -> Part:
        """A structure from its parts; all words from `borrowers` on are of these."""
        words, fields = text.split(","), msgspec.structs.fields(kind)
        needed = [field.name for field in fields if field.required]
        last = next((n for n, field in enumerate(fields) if field.name == "borrowers"), None)
        if last is not None and len(words) > last:
            words[last:] = ["+".join(words[last:])]
        if not len(needed) <= len(words) <= len(fields):
            raise BadCommandError(f"{name}={text}: give {','.join(needed)}")
        pairs = zip(fields, words, strict=False)
        return kind(**{it.name: self._value(it.type, word, it.name) for it, word in pairs})
