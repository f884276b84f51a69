"""The programs of `succession`: small systems, and what may happen to them."""

from .succession import Passing

SUCCESSIONS = (
    Passing("a worker is ordered", orders=(("e0", "w", 1),)),
    Passing("two order the same name", orders=(("e0", "w", 1), ("e1", "w", 0))),
    Passing("the registrar dies", crashes=(0,)),
    Passing(
        "the registrar dies, and an endpoint too",
        hosts=3,
        crashes=(0,),
        dying=("e1",),
        settling=("e2",),
    ),
    Passing("the registrar dies while a worker is ordered", crashes=(0,), orders=(("e1", "w", 1),)),
    Passing(
        "the registrar dies while two order the same name",
        hosts=3,
        crashes=(0,),
        orders=(("e1", "w", 1), ("e2", "w", 2)),
    ),
    Passing(
        "the registrar dies with an endpoint that orders", crashes=(0,), orders=(("e0", "w", 1),)
    ),
    Passing(
        "a death is settled under two registrars",
        crashes=(0,),
        more=("x1", "y1"),
        dying=("x1",),
        settling=("y1",),
    ),
    Passing("the registrar dies while an endpoint joins", crashes=(0,), late=("late1",)),
    Passing("the lease ends too early", leases=1, dying=("e1",), settling=("e0",)),
    Passing(
        "the lease ends too early, and a worker is ordered", leases=1, orders=(("e1", "w", 0),)
    ),
    Passing("the registrar dies, and its successor gets no answer", crashes=(0,), unsure=1),
    Passing("answers of the store are lost", unsure=2, dying=("e1",)),
    Passing("an answer is lost, and the lease ends", unsure=1, leases=1),
    Passing("answers are lost, and the lease ends", unsure=1, leases=1, dying=("e0",), slow=True),
    Passing(
        "the registrar dies while the store writes",
        crashes=(0,),
        stepwise=True,
        orders=(("e1", "w", 1),),
    ),
    Passing(
        "a registrar is deposed while the store writes",
        leases=1,
        stepwise=True,
        late=("l1",),
    ),
    Passing("one registrar after the other dies", hosts=3, crashes=(0, 1)),
    Passing("the system is ended", ending=(1,)),
    Passing("the system is ended twice", hosts=3, ending=(1, 2)),
    Passing("the registrar dies while the system ends", hosts=3, crashes=(0,), ending=(1,)),
    Passing("a host dies while the system ends", hosts=3, crashes=(1,), ending=(0,)),
    Passing("the lease ends while the system ends", leases=1, ending=(0,)),
    Passing("a living host is given up", hosts=3, wrong=(1,), dying=("e2",)),
    Passing("the earlier registrar's host is given up, and comes back", leases=1, wrong=(0,)),
)
