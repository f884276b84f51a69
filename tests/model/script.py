"""The actions of a program's endpoints: the verbs of the API, as data.

A program gives each endpoint a script, a tuple of actions. Messages carry such tuples as their
*body*: the actions of the receiver's function or handler. References have names. A receiver uses
the sender's names for them while its handler runs, and longer if it says `Keep`. Every action is
hashable, so that states with actions can be compared.
"""

from __future__ import annotations

import msgspec

from farref.protocol.ids import WorkerId


class Own(msgspec.Struct, frozen=True):
    """*name* is a new object here, whose value contains the references *inside*.

    If it is not *serial*, its requests run beside each other.
    """

    name: str
    inside: tuple[str, ...] = ()
    serial: bool = True


class Remote(msgspec.Struct, frozen=True):
    """*body* makes *name* on *to*; its value contains the references *returns*.

    If *body* returns the bare reference *alias*, *name* stands for that.
    """

    name: str
    to: str
    refs: tuple[str, ...] = ()
    body: tuple[Action, ...] = ()
    returns: tuple[str, ...] = ()
    method_of: str | None = None
    readable: bool = True
    alias: str | None = None


class Say(msgspec.Struct, frozen=True):
    """Send *to* a one-way message; if it is not *readable*, unpickling fails there."""

    to: str
    refs: tuple[str, ...] = ()
    body: tuple[Action, ...] = ()
    readable: bool = True


class Ask(msgspec.Struct, frozen=True):
    """Call a function on *to*; the caller does *then* with the references in the reply."""

    call: str
    to: str
    refs: tuple[str, ...] = ()
    body: tuple[Action, ...] = ()
    returns: tuple[str, ...] = ()
    then: tuple[Action, ...] = ()
    readable: bool = True


class Method(msgspec.Struct, frozen=True):
    """Call a method of the object *name*; otherwise like `Ask`."""

    call: str
    name: str
    refs: tuple[str, ...] = ()
    body: tuple[Action, ...] = ()
    returns: tuple[str, ...] = ()
    then: tuple[Action, ...] = ()


class Get(msgspec.Struct, frozen=True):
    """Fetch the value of *name*; its references are kept as `inside0`, `inside1` ...

    Without *copy* only ask whether there is a value; with *direct* an alias tells its place.
    """

    call: str
    name: str
    direct: bool = False
    copy: bool = True


class Wait(msgspec.Struct, frozen=True):
    """Go on when *call* has settled; without *patient*, go on at any time."""

    call: str
    patient: bool = True


class Await(msgspec.Struct, frozen=True):
    """The same in an `async` method: meanwhile other requests run on its object."""

    call: str
    patient: bool = True


class Need(msgspec.Struct, frozen=True):
    """Go on when there is a handle *name*."""

    name: str


class Take(msgspec.Struct, frozen=True):
    """This handler takes over the handle *name*, which outlived its own handler."""

    name: str


class Revoke(msgspec.Struct, frozen=True):
    """Cancel *call*; with *interrupt* also if a plain function runs it."""

    call: str
    interrupt: bool = False


class Heed(msgspec.Struct, frozen=True):
    """Go on when *call*, which was cancelled, has settled, or its callee has refused."""

    call: str


class Drop(msgspec.Struct, frozen=True):
    """Drop the handle *name*; waits until there is one."""

    name: str


class Keep(msgspec.Struct, frozen=True):
    """The handle *name* outlives the handler (as *under*); an older one is dropped."""

    name: str
    under: str | None = None


class Put(msgspec.Struct, frozen=True):
    """Move the handle *name* into the value of *into*, which lives here; *into* may be ``self``.

    With *copy* the value gets a handle of its own.
    """

    name: str
    into: str
    copy: bool = False


class Pull(msgspec.Struct, frozen=True):
    """Move the last handle in the value of *out_of*, which lives here, out of it, as *name*."""

    name: str
    out_of: str


class Open(msgspec.Struct, frozen=True):
    """Have the value of *name*, which lives here, in a variable, without a handle of *name*."""

    name: str


class Shut(msgspec.Struct, frozen=True):
    """Drop the value of *name* from that variable."""

    name: str


class Rest(msgspec.Struct, frozen=True):
    """Go on when nothing else happens; no endpoint searches for garbage before."""


class Pickle(msgspec.Struct, frozen=True):
    """Fork (or lend) *name* for a message to *to* that is not finished yet."""

    name: str
    to: str
    for_call: bool = False


class Abandon(msgspec.Struct, frozen=True):
    """The message could not be finished: undo what `Pickle` did."""


Action = (
    Own
    | Remote
    | Say
    | Ask
    | Method
    | Get
    | Wait
    | Await
    | Need
    | Take
    | Revoke
    | Heed
    | Drop
    | Keep
    | Put
    | Pull
    | Open
    | Shut
    | Rest
    | Pickle
    | Abandon
)
Script = tuple[Action, ...]


class Code(msgspec.Struct, frozen=True):
    """The payload of every message: how it is read, and the receiver's actions."""

    names: tuple[str, ...] = ()
    body: Script = ()
    returns: tuple[str, ...] = ()
    then: Script = ()
    readable: bool = True
    serial: int = 0
    """Distinguishes two equal messages of one sender."""
    alias: str | None = None
    issued: tuple[WorkerId, int] | None = None
    """In programs that are `Program.ordered`: the asker, and the number of its request."""
    error: bool = False
    """The reply says that the object is lost."""

    def __str__(self) -> str:
        """An empty text: the steps of the receiver show its content."""
        return ""
