"""How references in the arguments of calls are shared: three disciplines, one interface.

A reference in a one-way message, a reply or a value forks, always (see `user`). One in the
arguments of a call is *lent*, and the discipline of the system says what that costs:

==========  ===================================  ========================================
discipline  while the call runs                  if the callee keeps it
==========  ===================================  ========================================
`fork`      the callee is a user like any other  it is one already
`lend`      the lender pins; nothing is sent     it asks the owner when it replies
`borrow`    the lender pins; nothing is sent     the reply says so, and the owner asks it
==========  ===================================  ========================================

Each is a pair of classes, an owner's view and a user's, with these methods beyond forking:

========================  =========================================================
`lend`                    lender: share *fork* with the callee
`loan_ended`              lender: the call has run, and this is the callee's report
`borrow`                  callee: a loan arrived
`end_loan`                callee: the call has run; what to report of the loan
`died`                    callee: somebody died; is the owner to be told of us?
========================  =========================================================
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from .borrowing import BorrowingOwner, BorrowingUser
from .lending import LendingOwner, LendingUser
from .owner import Owner
from .user import User

Sharing = Literal["lend", "fork", "borrow"]


class Discipline(NamedTuple):
    """The two views of a reference, and what they are made of."""

    owner: type[Owner]
    user: type[User]

    @property
    def lends(self) -> bool:
        """References in calls are lent, and do not fork like all others."""
        return self.user is not User


DISCIPLINES: dict[str, Discipline] = {
    "lend": Discipline(LendingOwner, LendingUser),
    "fork": Discipline(Owner, User),
    "borrow": Discipline(BorrowingOwner, BorrowingUser),
}
