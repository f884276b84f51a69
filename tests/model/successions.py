"""The programs of `succession`: small systems, and what may happen to them."""

from .succession import Takeover

SUCCESSIONS = (
    Takeover("a worker is ordered", orders=(("e0", "w", 1),)),
    Takeover("two order the same name", orders=(("e0", "w", 1), ("e1", "w", 0))),
    Takeover("the registrar dies", crashes=(0,)),
    Takeover(
        "the registrar dies, and an endpoint too",
        hosts=3,
        crashes=(0,),
        dying=("e1",),
        settling=("e2",),
    ),
    Takeover(
        "the registrar dies while a worker is ordered", crashes=(0,), orders=(("e1", "w", 1),)
    ),
    Takeover(
        "the registrar dies while two order the same name",
        hosts=3,
        crashes=(0,),
        orders=(("e1", "w", 1), ("e2", "w", 2)),
    ),
    Takeover(
        "the registrar dies with an endpoint that orders", crashes=(0,), orders=(("e0", "w", 1),)
    ),
    Takeover(
        "a death is settled under two registrars",
        crashes=(0,),
        more=("x1", "y1"),
        dying=("x1",),
        settling=("y1",),
    ),
    Takeover("the registrar dies while an endpoint joins", crashes=(0,), late=("late1",)),
    Takeover("the lease ends too early", leases=1, dying=("e1",), settling=("e0",)),
    Takeover(
        "the lease ends too early, and a worker is ordered", leases=1, orders=(("e1", "w", 0),)
    ),
    Takeover("the registrar dies, and its successor gets no answer", crashes=(0,), unsure=1),
    Takeover("answers of the store are lost", unsure=2, dying=("e1",)),
    Takeover("an answer is lost, and the lease ends", unsure=1, leases=1),
    Takeover("answers are lost, and the lease ends", unsure=1, leases=1, dying=("e0",), slow=True),
    Takeover(
        "the registrar dies while the store writes",
        crashes=(0,),
        stepwise=True,
        orders=(("e1", "w", 1),),
    ),
    Takeover(
        "a registrar is deposed while the store writes",
        leases=1,
        stepwise=True,
        late=("l1",),
    ),
    Takeover("one registrar after the other dies", hosts=3, crashes=(0, 1)),
    Takeover("the system is ended", ending=(1,)),
    Takeover("the system is ended twice", hosts=3, ending=(1, 2)),
    Takeover("the registrar dies while the system ends", hosts=3, crashes=(0,), ending=(1,)),
    Takeover("a host dies while the system ends", hosts=3, crashes=(1,), ending=(0,)),
    Takeover("the lease ends while the system ends", leases=1, ending=(0,)),
    Takeover("a living host is given up", hosts=3, wrong=(1,), dying=("e2",)),
    Takeover("the earlier registrar's host is given up, and comes back", leases=1, wrong=(0,)),
)
