"""Pickling with reference hooks: a reference in a message forks a child as it is pickled.

The hooks are pickle's *persistent ids*. A `Reference` becomes the number of its descriptor
in the message's list; an object of an *inert* type (an actor address) becomes its number
in the side list. The bytes therefore hold no reference and no address at all:

* the descriptors travel beside the bytes, so a receiver that cannot unpickle still
  settles them (G5);
* pickling happens once, eagerly, in the sending call, which raises any error. References
  are forked only when the bytes are complete;
* one object is forked once per message, however often it occurs in it. On the other side it is
  one handle again;
* a list or tuple of nothing but references, each to another object, is one persistent id: the
  numbers of the first and the last. So pickling calls no function for each of very many;
* a call with a few references among its arguments has holes instead (`holes`).

Everything else is cloudpickle's work, or that of `by_value`. Contiguous buffers, and large bytes
objects, go out of band. They are copied once, here, so that the sender may change them as soon as
the call returns: into the message, or into memory that both share (see `shared`).

A value is pickled first (`Pickled`), and then shared with one receiver; a frozen value (see
`frozen`) is shared with many.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from ..protocol import columns
from ..protocol.errors import FarrefError, OutOfBandPickleError, SerializationError
from ..protocol.messages import Descriptor
from . import by_pickle, shared
from .by_pickle import NAMED, is_by_name
from .by_value import ByValuePickler, CachedFunction, is_shared_main
from .definitions import Definition
from .failures import CAUGHT, name_of, pass_on, text_of
from .library import Library
from .payload import Buffer, Payload
from .shared import Segment
from .spaces import SPACES, function_in

if TYPE_CHECKING:
    from .tensors import Tensors

INERT = "i"
BYTES = "b"
BYTEARRAY = "a"
FUNCTION = "f"
LIST = "l"
TUPLE = "t"

DEFINABLE = (FunctionType, type, CachedFunction)
"""The types of the things that are pickled by value, if their names are not enough."""

FUTURES = ("torch.futures.Future", "_asyncio.Future", "_asyncio.Task")
"""The types of futures, not ours, that an error of pickling may name."""

TOO_LITTLE = "this process has too little memory for it; pass it in parts, or pass an RRef to it"

MAX_REFERENCES = columns.MOST
"""Objects that one message may refer to."""


class Reference:
    """The base of objects that fork when they are pickled in a message.

    They cannot be pickled in any other way.
    """

    __slots__ = ("_id",)

    _id: Any
    """The name of the object referred to."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse, also for `copy`: outside a message the owner could not count the copy.

        Raises:
            OutOfBandPickleError: always.
        """
        raise OutOfBandPickleError(
            f"{self!r} was pickled or copied outside a message, where its owner could not count "
            "the copy; pass it in a call, a reply or an actor message, or use the same handle"
        )


class Hooks(Protocol):
    """The endpoint's part in pickling."""

    def fork(self, references: tuple[Reference, ...]) -> tuple[Descriptor, ...]:
        """Fork a child of each of *references* for the receiver of the message.

        If that raises an error, none is forked.
        """

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        """Undo forks: their message will not be sent."""

    def join(self, descriptors: tuple[Descriptor, ...]) -> tuple[Reference, ...]:
        """A handle for each reference that arrived."""


class Pickled(msgspec.Struct, frozen=True, eq=False):
    """A value as bytes, with its buffers, references and inert objects. Nothing is forked yet."""

    data: bytes
    buffers: tuple[Buffer, ...]
    references: tuple[Reference, ...]
    """One handle for each object referred to; the handle keeps it alive."""
    inert: tuple[object, ...]
    functions: tuple[Definition, ...] = ()
    """The definitions of the functions and classes in it that are pickled by value."""

    @property
    def size(self) -> int:
        """Bytes of the user's data."""
        return len(self.data) + sum(map(len, self.buffers))


class Pickler(ByValuePickler):
    """cloudpickle with five kinds of persistent ids.

    They are references, lists of references, inert objects, large bytes, and definitions. The
    fourth kind is needed because pickle itself cannot send bytes objects out of band. A reference's
    id is its number alone: a message may have very many, and pickle asks for the id of each part of
    an id.
    """

    def __init__(
        self,
        file: io.BytesIO,
        inert: type | tuple[()],
        library: Library | None = None,
        functions: Sequence[Definition] = (),
        beside: Callable[[pickle.PickleBuffer], object] | None = None,
    ) -> None:
        """Without *library*, functions and classes go into the bytes.

        *functions* are definitions that the message has already. *beside* takes each buffer.
        """
        super().__init__(file, protocol=5, buffer_callback=beside)
        self.addresses = inert
        self._special: tuple[Any, ...] = (Reference, inert, bytes, bytearray)
        if library is not None:
            self._special += (*DEFINABLE, Definition)
        self._library = library
        self.functions = list(functions)
        self._defined: dict[int, int] = {}
        """By the `id` of each definition: its number."""
        self.references: list[Reference] = []
        """One handle for each object referred to."""
        self._numbers: dict[Any, int] = {}
        """By the name of each object: its number."""
        self._bytes: dict[int, tuple[int, object]] = {}
        """By `id`: the object's number, and the object itself, so that no other gets its `id`."""
        self._lists: dict[int, tuple[tuple[object, ...], object]] = {}
        """The same for lists and tuples of references, with the persistent id of each."""
        self.inert: list[object] = []
        self._tensors: Tensors | None = None
        self._place: tuple[type, str] | None = None
        """The class, which has a definition, and the name there of the function that is next."""

    def persistent_id(self, obj: object) -> int | tuple[object, ...] | None:
        """The number of a reference; a kind and a number for the other four kinds; else None."""
        if (type(obj) is list or type(obj) is tuple) and len(obj) >= columns.MANY:
            return self._many(obj)
        if not isinstance(obj, self._special):
            return None
        if isinstance(obj, Reference):
            number = self._numbers.setdefault(obj._id, len(self._numbers))
            if number == len(self.references):
                self.references.append(obj)
            return number
        if isinstance(obj, bytes | bytearray):
            return self._bytes_id(obj)
        if type(obj) is Definition:
            return self._id_of(obj)
        if self._library is not None and isinstance(obj, DEFINABLE):
            if type(obj) in NAMED and obj in by_pickle.BY_NAME:  # nearly always
                return None
            return self._function_id(obj, self._library)
        self.inert.append(obj)
        return INERT, len(self.inert) - 1

    def reduce_single(self, obj: Any, name: str) -> Any:
        """An object that is one of its kind, if it is a global of a module by value."""
        if self._library is not None and self._library.has_global(obj):
            definition = self._library.define(obj)
            if definition is not None:
                return _itself, (definition,)
        return super().reduce_single(obj, name)

    def reducer_override(self, obj: Any) -> Any:
        """Tensors and storages share one buffer for each storage; the rest is by value, or not."""
        if is_of_torch(type(obj)):
            if self._tensors is None:
                from .tensors import Tensors  # noqa: PLC0415 - it loads PyTorch, which is there

                self._tensors = Tensors()
            reduced = self._tensors.reduced(obj)
            if reduced is not NotImplemented:
                return reduced
        return super().reducer_override(obj)

    def choose(self, views: list[memoryview]) -> None:
        """When all is pickled: put the parts of storages that are sent into *views*."""
        if self._tensors is not None:
            self._tensors.choose(views)

    def _many(self, obj: list[Any] | tuple[Any, ...]) -> tuple[object, ...] | None:
        """The id of *obj* if it has nothing but references to different objects, all new here."""
        known = self._lists.get(id(obj))
        if known is not None:
            return known[0]
        parts = tuple(obj)  # another thread may change a list
        kind = type(parts[0])
        if not issubclass(kind, Reference) or set(map(type, parts)) != {kind}:
            return None
        start, more = len(self.references), len(parts)
        numbers = dict(zip([each._id for each in parts], range(start, start + more), strict=True))
        if len(numbers) < more or not numbers.keys().isdisjoint(self._numbers):
            return None
        self._numbers |= numbers
        self.references += parts
        pid = LIST if type(obj) is list else TUPLE, start, more, len(self._lists)
        self._lists[id(obj)] = pid, obj
        return pid

    def _function_id(self, obj: Any, library: Library) -> tuple[object, ...] | None:
        named = is_by_name(obj) if type(obj) in NAMED else is_shared_main(obj)
        if named:
            return None
        place = SPACES.place_in_class(obj) if type(obj) is FunctionType else None
        if place is not None and library.define(place[0]) is not None:
            self._place = place
            return None
        definition = library.define(obj)
        return None if definition is None else self._id_of(definition)

    def reduce_function(self, function: FunctionType) -> Any:
        """A function of a class by value is the one that the class has at the receiver."""
        place = self._place  # of another one, if that is in the pickle already
        if place is not None and function_in(*place) is function:
            return function_in, place
        return super().reduce_function(function)

    def _id_of(self, definition: Definition) -> tuple[object, ...]:
        number = self._defined.setdefault(id(definition), len(self.functions))
        if number == len(self.functions):
            self.functions.append(definition)
        return FUNCTION, number

    def _bytes_id(self, obj: bytes | bytearray) -> tuple[object, ...] | None:
        if len(obj) < shared.THRESHOLD or type(obj) not in {bytes, bytearray}:
            return None
        kind = BYTES if type(obj) is bytes else BYTEARRAY
        known = self._bytes.get(id(obj))
        if known is not None:
            return kind, known[0], None
        number = len(self._bytes)
        self._bytes[id(obj)] = number, obj
        return kind, number, pickle.PickleBuffer(obj)


def is_of_torch(kind: type) -> bool:
    """Whether *kind* is one of PyTorch's tensors or storages."""
    torch = sys.modules.get("torch")  # where nobody has imported it there are none
    if torch is None:
        return False
    kinds: list[Any] = [
        getattr(torch, name, None) for name in ("Tensor", "UntypedStorage", "TypedStorage")
    ]
    return None not in kinds and issubclass(kind, tuple(kinds))


class _Unpickler(pickle.Unpickler):
    """pickle with the five kinds of persistent ids."""

    def __init__(
        self,
        data: bytes,
        buffers: Iterable[Any],
        inert: Sequence[object],
        handles: Sequence[Reference],
        *,
        functions: Sequence[Any],
    ) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._inert = inert
        self._handles = handles
        self._functions = functions
        self._bytes: dict[int, object] = {}
        self._lists: dict[int, object] = {}

    def persistent_load(self, pid: Any) -> object:
        if type(pid) is int:
            if not 0 <= pid < len(self._handles):  # -1 is not the last one's
                raise _no_such_object(self._handles)
            return self._handles[pid]
        kind, number, *buffer = pid
        if kind in (BYTES, BYTEARRAY):
            return self._bytes_of(bytes if kind == BYTES else bytearray, number, *buffer)
        if kind in (LIST, TUPLE):
            return self._many(list if kind == LIST else tuple, number, *buffer)
        known: Sequence[Any] = self._functions if kind == FUNCTION else self._inert
        if type(number) is not int or not 0 <= number < len(known):
            raise _no_such_object(known)
        return known[number].make() if kind == FUNCTION else known[number]

    def _many(self, kind: type[Any], first: int, number: int, place: int) -> object:
        """The list or tuple number *place*: *number* handles from *first*; once, as in a memo."""
        if not 0 <= first < first + number <= len(self._handles):
            raise _no_such_object(self._handles)
        found = self._lists.get(place)
        if found is None:
            found = self._lists[place] = kind(self._handles[first : first + number])
        return found

    def _bytes_of(self, kind: type[Any], number: int, buffer: object) -> object:
        """The object *number*, of type *kind*: *buffer* itself if it has this type, else a copy.

        If *buffer* is None, the pickle names the object once more: the same one is returned.
        """
        if buffer is None:
            return self._bytes[number]
        if not isinstance(buffer, bytes | bytearray | memoryview):
            raise pickle.UnpicklingError(f"a {type(buffer).__name__} is not a buffer")
        return self._bytes.setdefault(number, buffer if type(buffer) is kind else kind(buffer))


def _itself(value: object) -> object:
    return value


def _no_such_object(known: Sequence[object]) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(
        f"it names an object that is not among the {len(known)} that came with it"
    )


def pickle_value(
    value: object,
    inert: type | tuple[()],
    place: Callable[[list[memoryview]], tuple[Buffer, ...]],
    kind: type[Pickler] = Pickler,
    *,
    library: Library | None = None,
    functions: Sequence[Definition] = (),
) -> Pickled:
    """*value* as bytes; *place* copies the buffers beside them.

    *library*, *functions*: see `Pickler`. Raises `SerializationError`, and the errors of *place*.
    """
    views: list[memoryview] = []
    file = io.BytesIO()
    pickler = kind(file, inert, library, functions, lambda buffer: views.append(buffer.raw()))
    try:
        pickler.dump(value)
        pickler.choose(views)
    except FarrefError:
        raise
    except CAUGHT as error:
        pass_on(error)
        raise SerializationError(
            f"cannot pickle {name_of(type(value))} for a message: {_why(error)}"
        ) from error
    references = pickler.references
    if len(references) > MAX_REFERENCES:
        raise SerializationError(
            f"this message has {len(references)} references, but the limit is {MAX_REFERENCES}: "
            "send several messages, or put them into one object and pass an RRef to it"
        )
    return Pickled(
        file.getvalue(),
        place(views) if views else (),
        tuple(references),
        tuple(pickler.inert),
        tuple(pickler.functions),
    )


def share(
    pickled: Pickled,
    hooks: Hooks,
    *,
    peers: Callable[[Sequence[Descriptor], list[object]], tuple[object, ...]] = lambda *_: (),
    tag: object = None,
    frozen: bool = False,
) -> tuple[Payload, tuple[Descriptor, ...]]:
    """Fork every reference in *pickled* for one receiver. Raises the errors of the hooks.

    *peers* returns the endpoints to introduce, for the forks and the inert objects in the value.
    """
    descriptors = hooks.fork(pickled.references) if pickled.references else ()
    try:
        introduced = peers(descriptors, list(pickled.inert))
    except BaseException:
        hooks.abandon(descriptors)
        raise
    own = pickled.data, pickled.buffers, pickled.inert
    return Payload(*own, introduced, tag, frozen, functions=pickled.functions), descriptors


def _why(error: BaseException) -> str:
    """The reason why a value cannot be pickled, and the way out."""
    # cloudpickle renames the error that says that the value is too deep.
    if isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError):
        return (
            "it is nested deeper than Python's pickle can follow; cut it into parts that refer "
            "to each other by RRefs, or keep it where it is and pass an RRef to it"
        )
    if isinstance(error, MemoryError):
        return TOO_LITTLE
    text = text_of(error)
    way_out = "pass something picklable, or keep it where it is and pass an RRef to it"
    if any(future in text for future in FUTURES):
        way_out = (
            "a future stays where it was made: wait for it and pass its value, or return a "
            "farref.Future"
        )
    return f"{name_of(type(error))}: {text}; {way_out}"


def placed(views: list[memoryview], near: Callable[[], bool]) -> tuple[Buffer, ...]:
    """A copy of each: the large ones shared, if the receiver is near; *near* is asked only then.

    Raises `SharedMemoryFullError`.
    """
    if sum([view.nbytes for view in views]) < shared.THRESHOLD or not near():
        return tuple(map(shared.copied, views))
    return shared.copies(views, least=shared.THRESHOLD, passing=True)


def loads(
    payload: Payload, descriptors: tuple[Descriptor, ...], hooks: Hooks, *, again: bool = False
) -> Any:
    """Unpickle a payload, with a handle for every reference.

    With *again* the payload can be unpickled once more, until its buffers are `shared.used`.

    Raises:
        SenderDiedError: a part of it was in shared memory that is gone.
        SerializationError: it cannot be unpickled here. The handles are dropped.
    """
    buffers = opened(payload.buffers)
    handles = hooks.join(descriptors)
    value = unpickle(payload.data, buffers, payload.inert, handles, functions=payload.functions)
    if buffers and not again:
        shared.used(payload.buffers)
    return value


def opened(buffers: Sequence[Buffer], *, copy: bool = True) -> list[Any]:
    """The bytes of buffers, in order. Raises the errors of `Segment.buffer`."""
    return shared.opened(buffers, partial(Segment.buffer, copy=copy))


def unpickle(
    data: bytes,
    buffers: Sequence[Any],
    inert: Sequence[object],
    handles: Sequence[Reference],
    *,
    functions: Sequence[Any] = (),
) -> Any:
    """The value again, with *handles* for its references. Raises `SerializationError`."""
    try:
        return _Unpickler(data, buffers or handles, inert, handles, functions=functions).load()
    except CAUGHT as error:
        pass_on(error)
        size = len(data) + sum(map(len, buffers))
        raise cannot_unpickle(f"a message of {size} bytes", error) from error


def cannot_unpickle(what: str, error: BaseException) -> SerializationError:
    """The error to raise when *what* cannot be unpickled because of *error*."""
    why = TOO_LITTLE
    if not isinstance(error, MemoryError):
        why = (
            f"{name_of(type(error))}: {text_of(error)}; the modules that it names must be "
            "importable in the receiving process"
        )
    return SerializationError(f"cannot unpickle {what} here: {why}")
