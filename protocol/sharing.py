"""Sharing references in the arguments of calls: three disciplines, one interface.

A reference in a one-way message, a reply or a value always forks (see `user`). A reference in the
arguments of a call is *lent*. The discipline of the system decides the messages of a loan:

==========  =====================================  =======================================
discipline  while the call runs                    if the callee keeps the reference
==========  =====================================  =======================================
`fork`      the callee is a user like any other    it is a user already
`lend`      the lender pins; no message is sent    it asks the owner when it replies
`borrow`    the lender pins; no message is sent    its reply says so; the owner asks it
==========  =====================================  =======================================

A discipline is a pair of classes, an owner's view and a user's view. Beyond forking they have these
methods:

========================  =========================================================
`lend`                    lender: share *fork* with the callee
`loan_ended`              lender: the call has run, and this is the callee's report
`borrow`                  callee: a loan arrived
`end_loan`                callee: the call has run; the report of the loan
`died`                    callee: a worker died; must the owner be told of us?
========================  =========================================================
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .borrowing import BorrowingOwner, BorrowingUser
from .lending import LendingOwner, LendingUser
from .owner import Owner
from .user import User

Sharing = Literal["lend", "borrow", "fork"]


class Discipline(msgspec.Struct, frozen=True):
    """The two views of a reference."""

    owner: type[Owner]
    user: type[User]
    pins: bool = False
    """A loan is a pin at its lender, and no more: both ends may end it without a word."""
    batches: bool = False
    """It has messages that a step joins (`batched`)."""
    lends: bool = True
    """References in calls are lent; if not, they fork like all others."""


DISCIPLINES: dict[Sharing, Discipline] = {
    "lend": Discipline(LendingOwner, LendingUser, pins=True),
    "fork": Discipline(Owner, User, lends=False),
    "borrow": Discipline(BorrowingOwner, BorrowingUser, batches=True),
}
