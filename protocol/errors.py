"""Every error that farref raises.

::

    FarrefError
    ├── ProtocolError           a message that no correct peer sends; nothing was changed
    ├── ReferenceLostError      the reference is valid, but its object is gone
    │   ├── OwnerDiedError      the process that held the value died, and the value with it
    │   ├── AliasCycleError     an alias that stands for itself, by way of others
    │   └── RefLostError        never created, or collected; or the reference was collected
    │       └── GivenUpError    this endpoint was silent for too long, and counts as dead
    ├── WorkerDiedError         the callee died before it replied
    │   └── SenderDiedError     ... and its data is gone (an `OwnerDiedError`, too)
    ├── CreationError           a worker or an actor could not be created; the text has the cause
    │   └── NameTakenError      its name belongs to another one
    ├── WorkerNotFoundError     no worker of that name, id or address in this system
    ├── RemoteError             a remote exception whose own type cannot be rebuilt here
    ├── FetchTimeoutError       the wait ended first (also a `TimeoutError`)
    ├── WouldBlockError         a blocking call that would stop the endpoint it is made in
    │   └── SelfWaitError       a call that would wait for itself
    ├── OutOfBandPickleError    a reference pickled or copied outside a message
    ├── OverloadedError         a queue is full, and nothing was started; see docs/limits.md
    ├── SharedMemoryFullError   no memory to share a large value (also a `MemoryError`)
    ├── SerializationError      something in a message cannot be pickled or unpickled
    ├── NotAnEndpointError      references, or calls, sent to a plain actor
    ├── NoHandlerError          an actor has no handler for a message (also a `TypeError`)
    ├── DebuggerError           `breakpoint()` in an actor, and no terminal for the session
    ├── ForeignReferenceError   a reference used in another system than its own
    ├── RendezvousError         a group could not be formed, or is no more
    │   ├── RendezvousClosedError        the run was closed, for everybody
    │   ├── RendezvousGracefulExitError  the run was closed, and this node was a spare: all is well
    │   ├── RendezvousTimeoutError       too few nodes came in time (also a `TimeoutError`)
    │   ├── RendezvousStateError         the shared state is corrupt, or contradicts this node
    │   └── RendezvousConnectionError    the service or the backend cannot be reached
    └── SystemDownError         the actor system could not be started, found, or has ended
        └── VersionError        it runs on another version of Python, farref or cloudpickle

Every message says what happened, to which reference, and what to do.
"""

from __future__ import annotations


class FarrefError(RuntimeError):
    """The root of every error that the library raises on purpose.

    A `RuntimeError`, as PyTorch's errors are: a ported ``except RuntimeError`` catches it.
    """


class ProtocolError(FarrefError):
    """A message that no correct peer sends. It was refused, and nothing has changed."""


class ReferenceLostError(FarrefError):
    """The object is gone, or in one case of `RefLostError` the reference itself."""


class OwnerDiedError(ReferenceLostError):
    """The endpoint that owned the object died, and the value died with it.

    Every further use of the reference raises this. Make the object again elsewhere.
    """


class AliasCycleError(ReferenceLostError):
    """Tasks returned references to each other's results in a circle: there is no value."""


class RefLostError(ReferenceLostError):
    """The owner lives, but the object or the reference is gone.

    The object was never created if its creator died before the creation had left. An object in a
    ring of references was collected with the ring. A reference in a cycle of Python objects was
    collected with the cycle, before Python called the cycle's `__del__` methods (docs/cycles.md).
    An object that was freed too early would need a grace that ends before all endpoints have
    settled a death, against guarantee G4.
    """


class GivenUpError(RefLostError):
    """The endpoint of this code was silent for too long, and counts as dead.

    It was stopped or cut off. The others have released everything that it held, so all its
    references are gone. They no longer believe its messages.
    """


class WorkerDiedError(FarrefError):
    """The callee died before it replied; whether the call took effect is unknown."""


class SenderDiedError(WorkerDiedError, OwnerDiedError):
    """A message arrived, but its sender died before the receiver had opened its shared memory.

    The message may have been the reply of a callee, or a value from its owner.
    """


class CreationError(FarrefError):
    """A worker or an actor could not be created, or ended before it had started.

    The text has the cause.
    """


class NameTakenError(CreationError):
    """The name of a new worker or actor belongs to another one of this system."""


class WorkerNotFoundError(FarrefError):
    """No worker of that name, id or address is known in this system."""


class RemoteError(FarrefError):
    """A remote exception whose own type could not be rebuilt in this process.

    The text names that type and its message, and carries the remote traceback (G7).
    """


class FetchTimeoutError(FarrefError, TimeoutError):
    """The wait ended before the value came. The reference stays usable: ask again."""


class WouldBlockError(FarrefError):
    """A blocking call that would stop its endpoint; the text names what to do instead."""


class SelfWaitError(WouldBlockError):
    """A call that would wait for itself: it is queued behind the call that made it.

    Or it is queued behind a call that waits for it through others: the text names each wait of that
    ring.
    """


class OutOfBandPickleError(FarrefError):
    """A reference was pickled or copied outside a message, where farref cannot count it."""


class OverloadedError(FarrefError):
    """A queue is full: nothing was sent, or nothing was started. Wait, and try again."""


class SerializationError(FarrefError):
    """Something in a message cannot be pickled, or cannot be unpickled at the receiver."""


class SharedMemoryFullError(FarrefError, MemoryError):
    """There is not enough memory to share a large value. Nothing was sent, no reference shared."""


class NotAnEndpointError(FarrefError):
    """References were sent to an actor that is not a `RefActor` and so cannot hold any.

    A call of a plain actor raises it, too.
    """


class NoHandlerError(FarrefError, TypeError):
    """The actor has no handler for a message of this type; the text names the handlers it has."""


class DebuggerError(FarrefError):
    """`breakpoint()` was called in an actor, and no terminal is there for its session."""


class ForeignReferenceError(FarrefError):
    """A reference was used in a system other than its own."""


class SystemDownError(FarrefError):
    """The actor system could not be started or found, or it has ended."""


class VersionError(SystemDownError):
    """The system runs on other versions than this program, so the two could not talk to each other.

    The text names both. Python's minor version, farref's version and cloudpickle's minor version
    must be the same in all of a system.
    """


class RendezvousError(FarrefError):
    """The root of the errors of a group that forms, or has formed."""


class RendezvousClosedError(RendezvousError):
    """The run was closed: no node can join it, and no further round will form."""


class RendezvousGracefulExitError(RendezvousError):
    """The run was closed while this node was a spare. The node can end; nothing went wrong."""


class RendezvousTimeoutError(RendezvousError, TimeoutError):
    """The round did not form in time, and this node has left it."""


class RendezvousStateError(RendezvousError):
    """The shared state is corrupt, or it contradicts this node's expectations."""


class RendezvousConnectionError(RendezvousError):
    """The rendezvous service, or the backend that keeps its state, cannot be reached."""
