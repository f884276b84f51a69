"""Messages that no correct peer sends: each is refused, and changes nothing.

Every check that raises `ProtocolError` has an entry here, which notices a mutant without the check.
The messages come to B. It owns one object of its own and one that A created, and uses two objects
of C (one confirmed, one not). It has shared them, and waits for a reply from A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from farref.protocol.context import Context
from farref.protocol.delivery import Channel, Packet
from farref.protocol.errors import ProtocolError
from farref.protocol.ids import CallId, ForkId, RRefId, WorkerId
from farref.protocol.messages import (
    Ack,
    AliasRef,
    Call,
    Cancel,
    CancelRefused,
    Cargo,
    ChildAck,
    Create,
    Delete,
    Descriptor,
    Fetch,
    ForkRequest,
    Invoke,
    Message,
    NotifyRefRemoved,
    Passing,
    Probe,
    RefRemoved,
    Reply,
    Report,
    Returned,
    Tell,
)
from farref.protocol.sharing import Sharing

from .state import freeze
from .wire import message

A, B, C = WorkerId("A", 1), WorkerId("B", 1), WorkerId("C", 1)
X, OF_A = RRefId(B, 1), RRefId(A, 1)
"""B's own object, and the one that A created on B."""
CONFIRMED, ASKED = RRefId(C, 1), RRefId(C, 2)
"""Objects of C that B uses: C gave it the first, A the second."""


def reference(
    rref: RRefId, fork: ForkId, owner: WorkerId, passing: Passing = Passing.FORK
) -> Descriptor:
    """A reference from the endpoint that *fork* names."""
    return Descriptor(rref=rref, fork=fork, owner=owner, parent=fork.parent, passing=passing)


def tell(*references: Descriptor) -> Tell:
    """A one-way message that brings *references*."""
    return Tell(cargo=Cargo(descriptors=references))


def endpoint(sharing: Sharing = "lend") -> Context:
    """B, in the middle of its work."""
    context = Context(B, sharing)
    assert context.own() == X
    context.fork_all((X,), A)
    context.fork_all((X,), B)
    context.receive(C, tell(reference(CONFIRMED, ForkId(C, 1), C)))
    context.fork_all((CONFIRMED,), A)
    context.receive(A, tell(reference(ASKED, ForkId(A, 1), C)))
    context.receive(A, Create(call=CallId(A, 6), rref=OF_A, fork=ForkId(A, 2), cargo=Cargo()))
    context.receive(C, ForkRequest(rref=OF_A, fork=ForkId(A, 3)))
    context.receive(A, Fetch(call=CallId(A, 7), rref=OF_A))
    context.call(A, Cargo())
    context.call(A, Cargo(descriptors=context.lend_all((X, CONFIRMED), A)))
    return context


borrowing = partial(endpoint, "borrow")
forking = partial(endpoint, "fork")


def acknowledged() -> Context:
    """The same, after the acknowledgement of one loan, before the reply."""
    context = endpoint()
    context.receive(A, ChildAck(rref=CONFIRMED, fork=ForkId(B, 5)))
    return context


def overtaken() -> Context:
    """The same, after a fork request that has overtaken the creation of its object."""
    context = endpoint()
    context.receive(C, ForkRequest(rref=RRefId(A, 8), fork=ForkId(A, 8)))
    return context


def channel() -> Channel:
    """A channel that has sent two messages and got one."""
    half = Channel()
    half.send(message(0))
    half.send(message(1))
    half.packet(0)
    half.receive(Packet(0, (message(0),), 1), 0)
    return half


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """*give* hands a machine a message or packet that no correct peer sends."""

    name: str
    build: Callable[[], object]
    give: Callable[[object], object]
    ignored: bool = False
    """It is not refused, because it may come late: it only has no effect."""

    def __str__(self) -> str:
        return self.name

    def flaw(self) -> str | None:
        """The fault of the answer, if there is one."""
        machine = self.build()
        before = freeze(machine)
        try:
            answer = self.give(machine)
        except ProtocolError:
            return None if freeze(machine) == before else "refused, and something changed"
        except Exception as error:  # any other exception of a machine is a finding
            return f"{type(error).__name__}: {error}"
        if self.ignored and answer == [] and freeze(machine) == before:
            return None
        return f"taken: {answer}"


def _to_b(
    name: str,
    sender: WorkerId,
    wrong: Message,
    *,
    ignored: bool = False,
    build: Callable[[], Context] = endpoint,
) -> Foreign:
    def give(machine: object) -> object:
        assert isinstance(machine, Context)
        return machine.receive(sender, wrong)

    return Foreign(name, build, give, ignored)


def _returned(rref: RRefId, number: int, owner: WorkerId) -> Returned:
    """A's report on the loan *number* of B."""
    report = Report(rref=rref, fork=ForkId(B, number), owner=owner, held=False)
    return Returned(loans=(report,))


def _packet(name: str, packet: Packet) -> Foreign:
    def give(machine: object) -> object:
        assert isinstance(machine, Channel)
        return machine.receive(packet, 0)

    return Foreign(name, channel, give)


CREATION = Create(call=CallId(A, 9), rref=RRefId(A, 9), fork=ForkId(A, 9), cargo=Cargo())
LOAN = reference(ASKED, ForkId(A, 9), C, Passing.LOAN)

FOREIGN = (
    _to_b("a delete of one fork twice", A, Delete(rref=X, forks=(ForkId(B, 1),) * 2)),
    _to_b("a delete of another's fork", C, Delete(rref=X, forks=(ForkId(B, 1),))),
    _to_b("a cancel of another's call", C, Cancel(call=CallId(A, 7), rref=OF_A), ignored=True),
    _to_b("a refused cancel by another", C, CancelRefused(call=CallId(B, 1))),
    _to_b("a refused cancel of what was not asked", A, CancelRefused(call=CallId(B, 9))),
    _to_b("a refused cancel of another's call", A, CancelRefused(call=CallId(A, 1))),
    _to_b("a second creation", A, replace(CREATION, rref=OF_A)),
    _to_b(
        "a creation with a known fork",
        A,
        replace(CREATION, call=CallId(A, 8), rref=RRefId(A, 8), fork=ForkId(A, 8)),
        build=overtaken,
    ),
    _to_b("a request of a known fork", A, ForkRequest(rref=X, fork=ForkId(B, 1))),
    _to_b("an ACK of what was not requested", C, Ack(rref=CONFIRMED, fork=ForkId(C, 1))),
    _to_b("an ACK from another than the owner", A, Ack(rref=ASKED, fork=ForkId(A, 1))),
    _to_b("a child's ACK from another", C, ChildAck(rref=CONFIRMED, fork=ForkId(B, 3))),
    _to_b("a call in another's name", A, Call(call=CallId(C, 1), cargo=Cargo())),
    _to_b("a fetch in another's name", A, Fetch(call=CallId(C, 1), rref=OF_A)),
    _to_b("a method in another's name", A, Invoke(call=CallId(C, 1), rref=X, cargo=Cargo())),
    _to_b(
        "an alias's question in another's name",
        A,
        AliasRef(call=CallId(C, 1), rref=X, alias=OF_A, label=OF_A),
    ),
    _to_b("a probe of another's wait", C, Probe(start=X, call=CallId(A, 7), rref=OF_A)),
    _to_b("a creation in another's name", A, replace(CREATION, rref=RRefId(C, 9))),
    _to_b("a creation with another's fork", A, replace(CREATION, fork=ForkId(C, 9))),
    _to_b(
        "a creation by a method of what is not owned here", A, replace(CREATION, target=CONFIRMED)
    ),
    _to_b("a reply from another", C, Reply(call=CallId(B, 1), cargo=Cargo())),
    _to_b("a reply to what was not asked", A, Reply(call=CallId(B, 9), cargo=Cargo())),
    _to_b("one fork twice", C, tell(*[reference(CONFIRMED, ForkId(C, 9), C)] * 2)),
    _to_b(
        "a reference from another parent",
        A,
        tell(Descriptor(rref=X, fork=ForkId(A, 9), owner=B, parent=C)),
    ),
    _to_b(
        "a reference with another's fork",
        A,
        tell(Descriptor(rref=X, fork=ForkId(C, 9), owner=B, parent=A)),
    ),
    _to_b("a reference with a wrong owner", A, tell(reference(ASKED, ForkId(A, 9), A))),
    _to_b(
        "a reference to what was never here",
        A,
        tell(reference(X, ForkId(A, 8), B), reference(RRefId(B, 9), ForkId(A, 9), B)),
    ),
    _to_b("a fork to itself twice", B, tell(reference(X, ForkId(B, 9), B))),
    _to_b("a delete of what is not here", A, Delete(rref=RRefId(A, 9), forks=())),
    _to_b("an ACK of what is not used", C, Ack(rref=RRefId(C, 9), fork=ForkId(C, 9))),
    _to_b("a fork request to a user", A, ForkRequest(rref=CONFIRMED, fork=ForkId(A, 9))),
    _to_b("a fetch of what is freed", A, Fetch(call=CallId(A, 9), rref=RRefId(B, 9))),
    _to_b("a creation by another's call", A, replace(CREATION, call=CallId(C, 9))),
    _to_b(
        "a report of what was not lent for this call",
        A,
        Reply(call=CallId(B, 1), cargo=Cargo(), loans=_returned(X, 4, B).loans),
    ),
    _to_b(
        "what was not lent for this call is given back",
        A,
        Reply(
            call=CallId(B, 1),
            cargo=Cargo(descriptors=(reference(X, ForkId(B, 4), B, Passing.BACK),)),
        ),
    ),
    _to_b("a loan without a call", A, tell(LOAN)),
    _to_b(
        "a loan where calls fork",
        A,
        Call(call=CallId(A, 9), cargo=Cargo(descriptors=(LOAN,))),
        build=forking,
    ),
    _to_b("a report to an owner who forks", A, _returned(X, 4, B), build=forking),
    _to_b("a report to a user who forks", A, _returned(CONFIRMED, 5, C), build=forking),
    _to_b("a report of another's loan to the owner", C, _returned(X, 4, B), ignored=True),
    _to_b("a report of another's loan", C, _returned(CONFIRMED, 5, C), ignored=True),
    _to_b(
        "a report of another's loan to a borrower",
        C,
        _returned(CONFIRMED, 5, C),
        ignored=True,
        build=borrowing,
    ),
    _to_b("a loan's ACK from another", C, ChildAck(rref=CONFIRMED, fork=ForkId(B, 5))),
    _to_b("a loan's ACK twice", A, ChildAck(rref=CONFIRMED, fork=ForkId(B, 5)), build=acknowledged),
    _to_b(
        "one removal twice",
        A,
        RefRemoved(removed=(Delete(rref=X, forks=(ForkId(B, 1),)),) * 2),
        build=borrowing,
    ),
    _to_b(
        "a removal of another's fork, after a right one",
        A,
        RefRemoved(
            removed=(
                Delete(rref=X, forks=(ForkId(B, 1),)),
                Delete(rref=OF_A, forks=(ForkId(A, 3),)),
            )
        ),
        build=borrowing,
    ),
    _to_b(
        "a notice of what another owns",
        A,
        NotifyRefRemoved(loans=((CONFIRMED, ForkId(A, 9)),)),
        build=borrowing,
    ),
    _to_b("a delete of nothing", A, Delete(rref=X, forks=None)),  # type: ignore[arg-type]  # wrong on purpose
    _packet("an acknowledgement of what was not sent", Packet(1, (), 3)),
    _packet("a negative number", Packet(-1, (message(0),), 0)),
    _packet("a message outside the window", Packet(5000, (message(0),), 0)),
)
