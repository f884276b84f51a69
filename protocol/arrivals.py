"""References that arrive: what comes with a message is taken over before anybody unpickles it.

Each descriptor beside a payload makes its entry here be held once by the message, until the
message has been handled. What no correct peer sends is refused before anything has changed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from .errors import ProtocolError
from .messages import Cargo, Passing
from .names import Names
from .owner import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .effects import Effect
    from .ids import CallId, ForkId, RRefId, WorkerId
    from .messages import Descriptor

_NOTHING_LENT: Mapping[ForkId, RRefId] = MappingProxyType({})


class Arrivals(Names):
    """The tables, and how references get into them from outside."""

    def release(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """A message or reply has been handled: its own hold on its references ends."""
        return self._finish(self._release(descriptors))

    def abandon(self, descriptors: Iterable[Descriptor]) -> list[Effect]:
        """Undo forks whose message could not be pickled, or never left."""
        effects: list[Effect] = []
        for descriptor in descriptors:
            entry = self._find(descriptor.rref)
            children = entry.forks if isinstance(entry, Owner) else entry.children if entry else {}
            back = descriptor.passing is Passing.BACK  # the lender's fork, and none of ours
            if entry is not None and descriptor.fork in children and not back:
                effects += self._after(entry, entry.abandon(descriptor.fork))
        return effects

    def _accept_request(self, sender: WorkerId, call: CallId, cargo: Cargo) -> list[Effect]:
        effects = self._accept(sender, cargo, lendable=True)
        if cargo.descriptors:
            self._serving[call] = cargo.descriptors
        return effects

    def _accept(
        self,
        sender: WorkerId,
        cargo: Cargo,
        *,
        lendable: bool = False,
        lent: Mapping[ForkId, RRefId] = _NOTHING_LENT,
    ) -> list[Effect]:
        """Take over every reference in *cargo*; the message holds each once from now on."""
        self._check_cargo(sender, cargo, lendable=lendable, lent=lent)
        effects: list[Effect] = []
        for descriptor in cargo.descriptors:
            if descriptor.owner == self.me:
                home, lost = self._own_or_await(descriptor.rref)
                effects += [*self._filter(home.arrive(descriptor, self.me)), *lost]
            else:
                user = self._use(descriptor.rref, descriptor.owner)
                effects += self._filter(user.arrive(descriptor))
        return effects

    def _check_cargo(
        self,
        sender: WorkerId,
        cargo: Cargo,
        *,
        lendable: bool = False,
        lent: Mapping[ForkId, RRefId] = _NOTHING_LENT,
    ) -> None:
        """*lendable*: it is a request; *lent*: it is a reply, to a call that lent these."""
        # A loan comes back as often as the reply has handles of it.
        new = [each.fork for each in cargo.descriptors if each.passing is not Passing.BACK]
        if len(set(new)) < len(new):
            raise ProtocolError(f"{sender} sent one fork twice")
        for descriptor in cargo.descriptors:
            back = descriptor.passing is Passing.BACK
            parent = self.me if back else sender
            if descriptor.parent != parent or descriptor.fork.parent != parent:
                raise ProtocolError(f"{sender} sent {descriptor.rref} with a fork not its own")
            if back and lent.get(descriptor.fork) != descriptor.rref:
                raise ProtocolError(f"{sender} gives {descriptor.rref} back, which it was not lent")
            if descriptor.passing is Passing.LOAN and not lendable:
                raise ProtocolError(f"{sender} lent {descriptor.rref}, but not for a call")
            if descriptor.passing is Passing.LOAN and not self.discipline.lends:
                raise ProtocolError(f"{sender} lent {descriptor.rref}; this system forks in calls")
            user = self.users.get(descriptor.rref)
            if user is not None and user.owner != descriptor.owner:
                raise ProtocolError(f"{sender} names a wrong owner of {descriptor.rref}")
            if descriptor.rref in self.owners and descriptor.owner != self.me:
                raise ProtocolError(f"{sender} names another owner of {descriptor.rref}")
            if descriptor.owner == self.me:
                self._check_mine(descriptor.rref)
                mine = self.owners.get(descriptor.rref)
                if sender == self.me and (mine is None or descriptor.fork not in mine.forks):
                    raise ProtocolError(f"{sender} sent itself fork {descriptor.fork} twice")
