"""References fork while they are pickled: once per message, beside the bytes, undone on error."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import threading
from typing import Any

import cloudpickle
import msgspec
import pytest

from farref import OutOfBandPickleError, OwnerDiedError, SerializationError
from farref.serialization.payload import Payload

from .endpoint import TinyAddress, TinyEndpoint


@pytest.fixture
def a() -> TinyEndpoint:
    return TinyEndpoint("A")


@pytest.fixture
def b() -> TinyEndpoint:
    return TinyEndpoint("B")


def test_a_reference_forks_once_per_message(a: TinyEndpoint, b: TinyEndpoint) -> None:
    ref = a.own()
    payload, descriptors = a.pack([ref, {"again": (ref,)}], b)
    assert len(descriptors) == a.forks(ref) == 1
    first, second = b.unpack(a, payload, descriptors)
    assert first is second["again"][0]
    assert b.context.users[ref.rref].handles == 1


def test_each_message_has_forks_of_its_own(a: TinyEndpoint, b: TinyEndpoint) -> None:
    ref = a.own()
    forks = {a.pack(ref, b)[1][0].fork for _ in range(3)}
    assert len(forks) == a.forks(ref) == 3


def test_the_bytes_hold_no_reference_and_no_address(a: TinyEndpoint, b: TinyEndpoint) -> None:
    ref, address = a.own(), TinyAddress()
    payload, descriptors = a.pack({"ref": ref, "address": address}, b)
    assert b"Handle" not in payload.data
    assert payload.inert == (address,)
    assert pickle.loads(pickle.dumps(payload.data)) == payload.data
    assert b.unpack(a, payload, descriptors)["address"] is address


class RaisesInterrupt:
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


class Endless:
    """Its parts never end."""

    def __reduce__(self) -> Any:
        return Endless, (Endless(),)


class Loops:
    """Its own code never ends."""

    def __reduce__(self) -> Any:
        return self.__reduce__()


class Nested:
    """Pickles its contents by itself, as a cache or a database field would: outside the message."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __reduce__(self) -> Any:
        return bytes, (pickle.dumps(self.inside),)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (threading.Lock, SerializationError, r"cannot pickle.*lock.*keep it where it is"),
        (RaisesInterrupt, KeyboardInterrupt, ""),
        (Endless, SerializationError, "nested deeper"),
        (Loops, SerializationError, "nested deeper"),
        (lambda: Nested(TinyEndpoint("A").own()), OutOfBandPickleError, ""),
    ],
)
def test_pickling_that_fails_undoes_its_forks(
    a: TinyEndpoint, b: TinyEndpoint, make: Any, error: type[BaseException], said: str
) -> None:
    refs = [a.own() for _ in range(5)]
    with pytest.raises(error, match=said or None):
        a.pack([*refs, make()], b)
    assert [a.forks(ref) for ref in refs] == [0] * 5


def test_if_one_reference_is_lost_none_is_forked(a: TinyEndpoint, b: TinyEndpoint) -> None:
    owner = TinyEndpoint("gone", 2)
    (lost,) = a.unpack(owner, *owner.pack([owner.own()], a))
    a.context.died(owner.context.me)
    refs = [a.own() for _ in range(3)]
    with pytest.raises(OwnerDiedError, match="gone"):
        a.pack([*refs[:2], lost, refs[2]], b)
    assert [a.forks(ref) for ref in refs] == [0] * 3


class Broken:
    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("broken")


def test_unpickling_that_fails_settles_the_forks(a: TinyEndpoint, b: TinyEndpoint) -> None:
    """The descriptors travel beside the bytes, so the receiver knows every fork."""
    refs = [a.own() for _ in range(3)]
    payload, descriptors = a.pack(["first", Broken(refs)], b)
    with pytest.raises(SerializationError, match=r"cannot unpickle.*RuntimeError: broken"):
        b.unpack(a, payload, descriptors)
    # In a real endpoint, the collector drops the handles made before the error.
    assert all(b.context.users[ref.rref].handles == 1 for ref in refs)


def test_garbage_is_an_error_of_ours(a: TinyEndpoint, b: TinyEndpoint) -> None:
    for data in (b"", b"garbage", b"\x80\x05."):
        with pytest.raises(SerializationError, match="cannot unpickle"):
            b.unpack(a, Payload(data), ())


@pytest.mark.parametrize(
    "refuse", [pickle.dumps, cloudpickle.dumps, copy.copy, copy.deepcopy], ids=lambda f: f.__name__
)
def test_outside_a_message_it_cannot_be_pickled(a: TinyEndpoint, refuse: Any) -> None:
    with pytest.raises(OutOfBandPickleError, match="call, a reply or an actor message"):
        refuse(a.own())


def test_a_value_that_is_nested_too_deep_is_an_error_and_forks_nothing(
    a: TinyEndpoint, b: TinyEndpoint
) -> None:
    """At any depth at which the pickler gives up; Python 3.11 does so in Python code, too."""
    ref = a.own()
    value: Any = ref
    packed = 0
    for depth in range(1, 200_000):
        value = [value]
        if depth < 700 or depth > 199_990:
            with contextlib.suppress(SerializationError):
                a.pack(value, b)
                packed += 1
            assert a.forks(ref) == packed
    assert packed > 0
    with pytest.raises(SerializationError, match="nested deeper than Python's pickle"):
        a.pack(value, b)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_many_references_is_one_id(
    a: TinyEndpoint, b: TinyEndpoint, kind: type[Any]
) -> None:
    refs = kind(a.own() for _ in range(1_000))
    payload, descriptors = a.pack({"one": refs, "again": refs, "first": refs[0]}, b)
    assert [each.rref for each in descriptors] == [each.rref for each in refs]
    assert len(payload.data) < 100
    value = b.unpack(a, payload, descriptors)
    assert type(value["one"]) is kind
    assert value["one"] is value["again"]
    assert value["first"] is value["one"][0]
    assert [each.rref for each in value["one"]] == [each.rref for each in refs]


def test_a_list_that_names_an_object_twice_keeps_its_order(
    a: TinyEndpoint, b: TinyEndpoint
) -> None:
    refs = [a.own() for _ in range(20)]
    mixed = [refs[3:15], [*refs[10:], refs[0], refs[10]], [*refs[:10], "text"], refs[::-1]]
    payload, descriptors = a.pack(mixed, b)
    assert len(descriptors) == len(refs)
    value = b.unpack(a, payload, descriptors)

    def names(of: Any) -> Any:
        return [getattr(each, "rref", each) for part in of for each in part]

    assert names(value) == names(mixed)
    assert len({id(each) for part in value for each in part if each != "text"}) == len(refs)


@pytest.mark.parametrize("where", [(5, 8), (-1, 9), (0, 0), (0, -3), ("0", 8)])
def test_a_list_beyond_the_references_is_refused(
    a: TinyEndpoint, b: TinyEndpoint, where: tuple[Any, int]
) -> None:
    class Forger(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return ("l", *where, 0) if obj == "here" else None

    payload, descriptors = a.pack([a.own() for _ in range(9)], b)
    file = io.BytesIO()
    Forger(file).dump(["here"])
    payload = msgspec.structs.replace(payload, data=file.getvalue())
    with pytest.raises(SerializationError):
        b.unpack(a, payload, descriptors)
