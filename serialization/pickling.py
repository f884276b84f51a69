"""Pickling with reference hooks: a reference in a message forks a child as it is pickled.

The hooks are pickle's *persistent ids*. A `Reference` becomes the number of its descriptor
in the message's list; an object of an *inert* type (an actor address) becomes its number
in the side list. The bytes therefore hold no reference and no address at all:

* the descriptors travel beside the bytes, so a receiver that cannot unpickle still
  settles them (G5);
* pickling happens once, eagerly, in the sending call: an error is raised there. References
  are forked only when the bytes are complete, so what cannot be pickled has forked nothing,
  and no fork is made (and maybe left half made) at the end of a deep recursion;
* one object is forked once per message, however often it occurs in it, and is one handle
  again on the other side.

Everything else is cloudpickle's: lambdas, closures, classes and functions of ``__main__``
travel by value, nested to any depth (see `deep`). Large contiguous buffers (NumPy arrays and
the like) go out of band; they are copied once, here, so that the sender may change them as
soon as the call returns.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import cloudpickle

from ..protocol.errors import FarrefError, OutOfBandPickleError, SerializationError
from . import deep
from .payload import Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..protocol.messages import Descriptor

REFERENCE = "r"
INERT = "i"

MAX_REFERENCES = 1_000_000
"""Objects that one message may refer to."""


class Reference:
    """The base of what forks when it is pickled in a message, and cannot be otherwise."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: outside a message nobody would count the copy.

        Raises:
            OutOfBandPickleError: always.
        """
        raise OutOfBandPickleError(
            f"{self!r} was pickled or copied outside a message, where its owner could not count "
            "the copy; pass it in a call, a reply or an actor message, or use the same handle"
        )

    def __copy__(self) -> NoReturn:
        """Refuse, as `__reduce_ex__` does."""
        self.__reduce_ex__(5)

    def __deepcopy__(self, memo: object) -> NoReturn:
        """Refuse, as `__reduce_ex__` does."""
        self.__reduce_ex__(5)


class Hooks(Protocol):
    """What an endpoint does for the pickler."""

    def fork(self, reference: Reference) -> Descriptor:
        """Fork a child of *reference* for the receiver of the message."""

    def abandon(self, descriptors: Iterable[Descriptor]) -> None:
        """Undo forks: their message will not be sent."""

    def join(self, descriptor: Descriptor) -> Reference:
        """A handle for a reference that arrived."""


class _PersistentIds:
    """The two kinds of persistent ids, for either pickler."""

    def __init__(self, file: io.BytesIO, inert: type, **options: Any) -> None:
        super().__init__(file, **options)  # type: ignore[call-arg]
        self._special = (Reference, inert)
        self._numbers: dict[Reference, int] = {}
        self.inert: list[object] = []

    @property
    def references(self) -> list[Reference]:
        """One handle for each object that is referred to."""
        return list(self._numbers)

    def persistent_id(self, obj: object) -> tuple[str, int] | None:
        if not isinstance(obj, self._special):
            return None
        if isinstance(obj, Reference):
            return REFERENCE, self._numbers.setdefault(obj, len(self._numbers))
        self.inert.append(obj)
        return INERT, len(self.inert) - 1


class _Pickler(_PersistentIds, cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle, in C."""


class _DeepPickler(_PersistentIds, deep.DeepPickler):
    """cloudpickle, to any depth."""


class _Unpickler(pickle.Unpickler):
    """pickle with the two kinds of persistent ids."""

    def __init__(self, payload: Payload, descriptors: tuple[Descriptor, ...], hooks: Hooks) -> None:
        super().__init__(io.BytesIO(payload.data), buffers=payload.buffers)
        self._payload = payload
        self._descriptors = descriptors
        self._hooks = hooks
        self._handles: dict[int, Reference] = {}

    def persistent_load(self, pid: Any) -> object:
        kind, number = pid
        known = self._payload.inert if kind == INERT else self._descriptors
        if type(number) is not int or not 0 <= number < len(known):  # -1 is not the last one's
            raise pickle.UnpicklingError(
                f"it names one more than the {len(known)} that came with it"
            )
        if kind == INERT:
            return known[number]
        handle = self._handles.get(number)
        if handle is None:
            handle = self._handles[number] = self._hooks.join(self._descriptors[number])
        return handle


def dumps(
    value: object,
    hooks: Hooks,
    *,
    inert: type,
    peers: Callable[[list[Descriptor], list[object]], tuple[object, ...]] = lambda *_: (),
    tag: object = None,
) -> tuple[Payload, tuple[Descriptor, ...]]:
    """Pickle *value* for one receiver, forking every reference in it.

    *peers* says, of the forks and of what is *inert* in the value, whom to introduce.

    Raises:
        SerializationError: something in it cannot be pickled. Nothing was forked.
        FarrefError: whatever a hook raised, for instance `OwnerDiedError`. Forks are undone.
    """
    try:
        data, buffers, pickler = _pickle(value, inert)
    except FarrefError:
        raise
    except Exception as error:
        raise SerializationError(
            f"cannot pickle {_shorten(value)} for a message: {type(error).__name__}: {error}; "
            "pass something picklable, or keep it where it is and pass an RRef to it"
        ) from error
    if len(pickler.references) > MAX_REFERENCES:
        raise SerializationError(
            f"a message with {len(pickler.references)} references; one may have {MAX_REFERENCES}: "
            "send them in several, or put them into one object and pass an RRef to it"
        )
    descriptors: list[Descriptor] = []
    try:
        for reference in pickler.references:
            descriptors.append(hooks.fork(reference))  # noqa: PERF401 - to undo if the next fails
        introduced = peers(descriptors, pickler.inert)
    except BaseException:
        hooks.abandon(descriptors)
        raise
    return Payload(data, buffers, tuple(pickler.inert), introduced, tag), tuple(descriptors)


def _pickle(
    value: object, inert: type
) -> tuple[bytes, tuple[bytes | bytearray, ...], _PersistentIds]:
    """The bytes, the buffers beside them, and the pickler that met the references."""
    try:
        return _pickle_with(_Pickler, value, inert)
    except Exception as error:
        if not deep.too_deep(error):
            raise
    return _pickle_with(_DeepPickler, value, inert)


def _pickle_with(
    kind: type[_Pickler | _DeepPickler], value: object, inert: type
) -> tuple[bytes, tuple[bytes | bytearray, ...], _PersistentIds]:
    buffers: list[bytes | bytearray] = []

    def out_of_band(buffer: pickle.PickleBuffer) -> bool:
        try:
            view = buffer.raw()
        except BufferError:  # not contiguous: let it go in band
            return True
        buffers.append(bytes(view) if view.readonly else bytearray(view))
        return False

    file = io.BytesIO()
    pickler = kind(file, inert, protocol=5, buffer_callback=out_of_band)
    pickler.dump(value)
    return file.getvalue(), tuple(buffers), pickler


def loads(payload: Payload, descriptors: tuple[Descriptor, ...], hooks: Hooks) -> Any:
    """Unpickle what `dumps` made, with a handle for every reference.

    Raises:
        SerializationError: it cannot be unpickled here. Handles made before are dropped.
    """
    try:
        return _Unpickler(payload, descriptors, hooks).load()
    except Exception as error:
        raise SerializationError(
            f"cannot unpickle a message of {payload.size} bytes here: "
            f"{type(error).__name__}: {error}; the modules that it names must be importable "
            "in the receiving process"
        ) from error


def _shorten(value: object) -> str:
    text = f"{type(value).__module__}.{type(value).__qualname__}"
    return text.removeprefix("builtins.")
