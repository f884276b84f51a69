"""The addresses by which an actor knows the actors that it creates, while anybody holds them.

Thespian returns a numbered local address from `createActor` at once, and lists the real address
under that number when it is known. The list never shrinks, so an actor that looks another one up by
its global name, again and again, grows with each call. Here an entry lasts as long as a local
address with its number.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from ._thespian import ActorAddress, ActorAddressManager


class _Slot:
    """The real address of a created actor. Its local addresses keep it."""

    __slots__ = ("__weakref__", "real")

    def __init__(self) -> None:
        self.real: ActorAddress | None = None


class _Slots:
    """Thespian's list, as far as Thespian uses it."""

    def __init__(self) -> None:
        self._slots: WeakValueDictionary[int, _Slot] = WeakValueDictionary()
        self._next = 0

    def __len__(self) -> int:
        return self._next

    def append(self, _nothing: None) -> None:
        """A number for another actor."""
        self._next += 1

    def __getitem__(self, number: int) -> ActorAddress | None:
        slot = self._slots.get(number)
        return None if slot is None else slot.real

    def __setitem__(self, number: int, address: ActorAddress) -> None:
        self.slot(number).real = address

    def slot(self, number: int) -> _Slot:
        """The slot to keep for *number*."""
        return self._slots.setdefault(number, _Slot())


class _Addresses(ActorAddressManager):
    _managed: _Slots

    def getLocalAddress(self, instanceNum: int) -> ActorAddress:  # noqa: N803 (Thespian's)
        address: ActorAddress = super().getLocalAddress(instanceNum)
        address.addressDetails.slot = self._managed.slot(instanceNum)
        return address


def forget_unused(manager: Any) -> None:
    """Have *manager*, of any base, forget the addresses that nobody holds.

    Without effect if it has created actors already.
    """
    addresses = getattr(manager, "_addrManager", None)  # the in-process base has no local ones
    if addresses is not None and not addresses._managed:
        addresses.__class__, addresses._managed = _Addresses, _Slots()
