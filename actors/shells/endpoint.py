"""One endpoint, put together from its parts.

This is the one file that knows all parts. It makes each part after the parts that it uses, and
calls each when something is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from thespian.actors import ActorAddress

from ...protocol.errors import FarrefError, SystemDownError
from ...protocol.ids import WorkerId
from ..base.interrupts import undisturbed
from ..base.loop import RunLoop
from ..calls.calls import Calls, Take
from ..calls.placing import Placing
from ..calls.unasked import Unasked
from ..calls.waiter import Leader
from ..calls.waits import Waits
from ..cluster.deaths import Deaths
from ..core import notices
from ..core.core import Core, Internal
from ..core.counters import Counters
from ..core.delivery import Delivery
from ..core.duties import in_mailbox_thread
from ..core.port import Port
from ..core.registrar_client import RegistrarClient
from ..cycles.collector import Collector
from ..handles.front import Front
from ..handles.rref import RRef
from ..inspect.counting import Counting
from ..inspect.debugging import Debugging
from ..inspect.inspector import Inspector
from ..inspect.watching import Watchers
from ..recording.tracefile import FileSink
from ..recording.tracing import NOTHING
from ..serving.pulls import Pulls
from ..serving.server import Server
from ..telemetry import switch as telemetry
from ..values.objects import Objects
from ..values.packing import Packer
from ..wire.codec import Data
from ..wire.messages import Joined, check_wire
from ..wire.settings import Settings
from .ports import Alarm


class Endpoint(Internal):
    """The run-time half of one endpoint."""

    def __init__(
        self,
        me: WorkerId,
        port: Port,
        settings: Settings,
        registrar: ActorAddress,
        *,
        threads: int,
        hand: Take,
    ) -> None:
        """*hand* gives a one-way message to the user: its cargo and its sender's address."""
        self._alarm: Alarm | None = None
        """On our own base."""
        self.core = core = Core(me, port, settings, threads=threads)
        core.hooks = telemetry.hooks_for(core)
        self.registrar_client = RegistrarClient(core, registrar)
        self.delivery = Delivery(core, self.registrar_client)
        self.objects = Objects(core)
        self.packer = Packer(core, self.registrar_client)
        self.waits = Waits(core)
        self.calls = Calls(core, self.delivery, self.packer, self.waits, hand)
        self.unasked = Unasked(core, self.objects, self.calls)
        self.server = Server(
            core,
            registrar_client=self.registrar_client,
            delivery=self.delivery,
            objects=self.objects,
            packer=self.packer,
            waits=self.waits,
            calls=self.calls,
        )
        self.deaths = Deaths(core, self.registrar_client, self.delivery, self.calls, self.close)
        self.collector = Collector(core, self.objects)
        self.counting = Counting(
            core,
            delivery=self.delivery,
            calls=self.calls,
            server=self.server,
            deaths=self.deaths,
            collector=self.collector,
        )
        self.inspector = Inspector(
            core,
            registrar_client=self.registrar_client,
            delivery=self.delivery,
            objects=self.objects,
            counting=self.counting,
            collector=self.collector,
        )
        self.watchers = Watchers(core)
        self.debugging = Debugging(core, self.registrar_client)
        front = Front(
            core=core,
            registrar_client=self.registrar_client,
            objects=self.objects,
            waits=self.waits,
            calls=self.calls,
            placing=Placing(core, self.registrar_client),
            unasked=self.unasked,
            count=self.count,
            pulls=Pulls(core, self.calls, self.packer),
        )
        core.handles = partial(RRef._of, front)
        core.takers[Joined] = self._joined
        if core.hooks is not None:
            telemetry.observe(self.counting)

    def _joined(self, joined: Joined) -> None:
        """Begin to work: the registrar has answered, so this endpoint can make its first step.

        No earlier message has taken effect, so it holds nothing of endpoints that are dead already.
        """
        core = self.core
        core.address = joined.address
        with core.lock:
            core.context.outlive(joined.dead)
            if core.settings.trace:
                from ..recording.tables_json import tables_of  # noqa: PLC0415 - few programs trace

                known = tables_of(core.context) if joined.dead else NOTHING
                sink = FileSink(core.settings.trace, core.me)
                core.record().begin(sink, core.settings.sharing, known)
        if core.settings.silence is not None and core.port.runs_by_itself:
            self.deaths.begin_to_beat()
        self.registrar_client.answered = joined.answered
        self.deaths.live_with(joined.pids)
        self.deaths.died(joined.dying)
        core.wake()

    def run_on(
        self, loop: RunLoop, alarm: Alarm, drain: Callable[[], object], *, guests: bool
    ) -> None:
        """Work in the thread that runs the *loop* of our own base, maybe one that waits.

        Packets bypass Thespian's manager, which would check each of them for a message of its own:
        that takes longer than all the rest. *alarm* wakes this endpoint. *drain* is called when
        other threads have left work. *guests*: see `Leader`.
        """
        core = self.core
        self._alarm = alarm
        loop.work(core.brief)
        core.brief.looks, core.brief.leads = loop.looks, loop.is_leader
        loop.take_raw(self.take_packet)
        loop.on_nudge(drain)
        self.calls.leader = Leader(core, self.waits, loop, guests=guests)

    @in_mailbox_thread
    def take(self, message: object) -> bool:
        """Take a packet, or an answer of the registrar. Returns false if *message* is neither.

        Raises nothing: a malformed message is refused, counted and logged.
        """
        with undisturbed:  # on the in-process base this is the program's own thread
            try:
                check_wire(message)
                self.core.takers[type(message)](message)
            except Exception as error:
                self.core.refuse(type(message).__name__, error)
                return False
            return True

    @in_mailbox_thread
    def take_packet(self, data: Data, address: ActorAddress) -> None:
        """Take the bytes of a packet from *address*. Raises nothing, like `take`."""
        try:
            self.delivery.take_raw(data, address)
        except Exception as error:
            self.core.refuse("a packet", error)
        alarm = self._alarm
        if alarm is not None and self.core.context.state.now < alarm.open_until:
            alarm.set(self.pause)

    def drain(self) -> None:
        """Do the work that other threads have left. Called when the mailbox thread was woken."""
        core = self.core
        with undisturbed:
            core.woken = False
            core.threads.again()
            self.deaths.leave()
            if self.server.forgotten:
                self.server.end_forgotten()
            if core.discards.ended or self.delivery.links.left:  # else another step did it all
                core.step(list, gather=False)
            if core.soon:
                core.chores.submit(core.do_soon)

    @in_mailbox_thread
    def tick(self) -> float | None:
        """Do everything that is due now. Returns the seconds until something is due again."""
        now = time.monotonic()
        with undisturbed:
            # An interrupt may have kept the bell from ringing: see `Core.wake`.
            self.core.woken = False
            self.core.threads.again()
            self.deaths.bury(now)
            self.core.step(list, gather=False)
            self.deaths.beat(now)
            self.packer.tidy(now)
            self.waits.look(now)
            self.calls.end_late(now)
            self.collector.look(now)
            self.delivery.resend(now)
            for line in notices.counts(notices.OFTEN):
                self.core.chores.submit(notices.notice, *line)
        return self.pause()

    def pause(self) -> float | None:
        """Return the seconds until `tick` has something to do, or None if nothing will be due."""
        now = time.monotonic()
        with self.core.lock:
            ends = (
                self.delivery.links.deadline(),
                self.deaths.deadline(),
                self.waits.deadline(),
                self.calls.deadline(),
                self.collector.deadline(),
                self.core.threads.deadline(),
            )
        dues = [due for due in ends if due is not None]
        return max(0.0, min(dues) - now) if dues else None

    def count(self) -> Counters:
        """Do the work that other threads have left, and return the counters."""
        self.drain()
        return self.counting.read()

    # ---- the end

    def close(self, reason: str, error: FarrefError | None = None) -> None:
        """End: every wait fails with *error* or a `SystemDownError`, and nothing more is sent."""
        core = self.core
        with core.lock:
            if error is not None:
                core.ended = error
            core.closed = True
            core.discards.close()
            waiting = self.calls.end()
            self.delivery.progress.notify_all()
        self.deaths.close()
        forgotten = core.pool.close()
        core.chores.close()
        self.inspector.close()
        why = f"{reason}; {core.me} waits for nothing any more"
        for future in waiting:
            future.finish(error=type(error)(str(error)) if error else SystemDownError(why))
        self.registrar_client.end(why)
        core.callbacks.end(forgotten)
        self.delivery.close()
        told, core.closing = core.closing, []
        for tell in told:
            tell()
        with core.lock:
            if core.tracer:
                core.tracer.close()
