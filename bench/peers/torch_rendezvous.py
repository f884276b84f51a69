"""torch's own rendezvous handler, over a `TCPStore`: a thread of this process for each node.

The handler asks the store again and again until it succeeds.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousTimeout,
)

from ..peer import PATIENCE, Clock, Peer
from . import NotOffered

MOST_NODES = 300
"""More of them take longer than anyone waits."""
LIMIT = timedelta(seconds=PATIENCE)


class TorchRendezvous(Peer):
    def rendezvous(self, amount: int, point: int) -> float:
        if point > MOST_NODES:
            raise NotOffered("it takes minutes")
        return sum(_round(point) for _ in range(amount))


def _round(nodes: int) -> float:
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=LIMIT)
    done: list[int] = []
    failed: list[str] = []

    def meet() -> None:
        own = TCPStore("127.0.0.1", store.port, is_master=False, timeout=LIMIT)
        handler = DynamicRendezvousHandler.from_backend(
            run_id="run",
            store=own,
            backend=c10d.C10dRendezvousBackend(own, "run"),
            min_nodes=nodes,
            max_nodes=nodes,
            local_addr="127.0.0.1",
            timeout=RendezvousTimeout(
                join=LIMIT, last_call=timedelta(seconds=1), close=LIMIT, heartbeat=LIMIT
            ),
            keep_alive_interval=60,
        )
        try:
            done.append(handler.next_rendezvous().rank)
        except Exception as error:
            failed.append(repr(error))

    threads = [threading.Thread(target=meet, daemon=True) for _ in range(nodes)]
    with Clock() as clock:
        end = time.monotonic() + PATIENCE
        for thread in threads:
            thread.start()
        while len(done) + len(failed) < nodes and time.monotonic() < end:
            time.sleep(0.005)
    if len(done) < nodes:
        why = failed[0] if failed else "the others still try"
        raise TimeoutError(f"{len(done)} of {nodes} nodes have met; {why}")
    return clock.seconds
