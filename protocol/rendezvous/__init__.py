"""Rendezvous: nodes that meet, agree who they are, and meet again when that changes.

One machine for two shells. `State` is a plain value and `State.apply` its only transitions; it
holds no times. Whoever looks at it does so with an `Observer`, which has a clock: there is one in
the service, an actor that keeps the states of its runs (`Run`), and one at each node where the
state is shared by compare-and-set (`Attendant`). `encode` and `decode` are how a state travels.
"""

from .attendant import Attendant, Decision
from .codec import decode, encode
from .commands import Beat, Close, Command, Finish, Join, Leave
from .limits import Limits, Timeouts
from .observer import Observer
from .run import Run
from .state import Member, Membership, Seat, State

__all__ = [
    "Attendant",
    "Beat",
    "Close",
    "Command",
    "Decision",
    "Finish",
    "Join",
    "Leave",
    "Limits",
    "Member",
    "Membership",
    "Observer",
    "Run",
    "Seat",
    "State",
    "Timeouts",
    "decode",
    "encode",
]
