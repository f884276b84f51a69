"""The values of an endpoint's objects, from creation until they are freed.

The protocol counts the holders of an object and knows nothing of its value. No code looks at a
value under the endpoint's lock, and a thread lets go of it: its finalizer is user code.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec

from ...printable import logger
from ...protocol.columns import MANY
from ...protocol.effects import Collect, Effect, Free, Lose, Loss
from ...protocol.errors import AliasCycleError, OwnerDiedError, ReferenceLostError, RefLostError
from ...protocol.ids import RRefId, WorkerId
from ...serialization.by_pickle import ATOMS
from ...serialization.errors import Failure
from ...serialization.failures import details_of
from ...serialization.frozen import Frozen
from ..core import sites
from ..core.brief import Later
from ..core.core import Core, Internal
from ..core.current import running_in
from ..core.discards import Hold
from ..core.duties import under_lock
from .cell import Cell

log = logger(__name__)

PAUSE = 0.02
SHARE = 25
"""After a run of Python's collector that freed nothing, the next one waits for `PAUSE` seconds and
`SHARE` times the duration of the run. Each further such run doubles this."""
TRIES = 6
"""After so many runs that freed nothing no further one is made: others have the handles, too."""

_LOSSES: dict[Loss, type[ReferenceLostError]] = {
    Loss.CREATOR: RefLostError,
    Loss.OWNER: OwnerDiedError,
    Loss.CYCLE: AliasCycleError,
}


class Fate(msgspec.Struct):
    """What has become of a failure. All results of one call may have it as their value."""

    objects: int = 0
    """Objects that have it."""
    fetched: bool = False
    """Whether it has been sent to somebody, or raised here."""


class Stored(msgspec.Struct):
    """The value of an object that lives here, or the failure in its place."""

    value: object
    on_delete: Callable[[Any], object] | None = None
    fate: Fate | None = None
    """Of a failure; None for any other value."""

    def get(self) -> Any:
        """The object itself; of a frozen object the read-only value. Raises the failure."""
        if type(self.value) is Failure:
            self.looked_at()
            raise self.value.rebuild()
        return self.value.thaw() if type(self.value) is Frozen else self.value

    def looked_at(self) -> None:
        """Note that a failure has been sent to somebody, or raised here."""
        if self.fate is not None:
            self.fate.fetched = True


_COLLECTED = RefLostError(
    "this object was collected: only objects that held each other held it; keep no reference of "
    "such an object in on_delete or __del__"
)


class Objects(Internal):
    """The values of one endpoint's objects."""

    def __init__(self, core: Core) -> None:
        self._core = core
        core.handlers |= {Lose: self._lose, Free: self._free, Collect: self._collect}
        self._values: dict[RRefId, Stored] = {}
        self._collected: Failure | None = None
        """The error in the place of a collected value, made once: very many may be collected."""
        self.beside: set[RRefId] = set()
        """The objects that are not serial: their methods run beside each other."""
        self._going: list[tuple[Stored, Sequence[Hold]]] = []
        """Values that nobody holds any more, with their handles, until a thread takes them."""
        self.inside: dict[RRefId, list[Hold]] = {}
        """The handles in values, as far as a search for cycles has met them."""
        self._left: list[Hold] = []
        """Handles that were in values, and still exist although the values have gone."""
        self._cleaning = False
        """Whether a thread runs Python's collector for them."""
        self._fates: dict[int, Fate] = {}
        """The fates of the failures here, each under the `id` of its failure."""
        self._awaited: dict[RRefId, dict[Callable[[], None], None]] = {}
        """Objects whose value is being made, and the code that `when_there` is to call."""
        self.unfetched: Callable[[RRefId, Failure, Later], None]
        """Called under the lock for each failure that is freed before anybody has fetched it."""

    def own(
        self, value: object, on_delete: Callable[[Any], object] | None, *, serial: bool = True
    ) -> RRefId:
        """Own *value*; the caller makes the handle that is counted here, `undisturbed`."""
        core = self._core
        core.check_process()
        site = sites.here() if core.sites.wanted else None
        with core.lock:
            core.context.state.now = time.monotonic()
            rref = core.context.own(serial=serial)
            if not serial:
                self.beside.add(rref)
            self._values[rref] = Stored(value, on_delete)
            if site is not None:
                core.sites.note(rref, site, self._values)
        return rref

    def resolve(self, rref: RRefId, cell: Cell, *, serial: bool = True) -> None:
        """The value of a creation, or its `Failure`, has come; it is in *cell*."""
        awaited: list[Callable[[], None]] = []

        def move() -> list[Effect]:
            value = cell.take()
            fate = self._fate_of(value) if type(value) is Failure else None
            self._values[rref] = Stored(value, fate=fate)
            awaited.extend(self._awaited.pop(rref, ()))
            if not serial:
                self.beside.add(rref)
            return self._core.context.resolve(rref, serial=serial)

        self._core.step(move)
        for tell in awaited:
            tell()

    @under_lock
    def _fate_of(self, failure: Failure) -> Fate:
        """The fate of *failure*, which one more object has for a value now."""
        fate = self._fates.setdefault(id(failure), Fate())
        fate.objects += 1
        return fate

    def fail(self, rref: RRefId, failure: Failure) -> None:
        """Put *failure* in the place of the value that *rref* has."""
        with self._core.lock:
            # It is let go of outside of the lock: its `__del__` is user code.
            before, after = self._values[rref], Stored(failure, fate=self._fate_of(failure))
            self._values[rref] = after
        del before

    def stand_for(self, rref: RRefId, cell: Cell) -> None:
        """The result of a creation is a reference, in *cell*: *rref* is an alias of its object."""

        def move() -> list[Effect]:
            target: Any = cell.take()
            return self._core.context.stand_for(rref, target.id)

        self._core.step(move)

    @under_lock
    def _lose(self, effect: Lose, later: Later) -> None:
        """The value of a creation will never come."""
        rref, why = effect.rref, effect.why
        error = _LOSSES[why](f"{rref} has no value: {why.value}; create the object again")
        stored = Failure.of(error, self._core.me.name, "its creation", str(rref))
        self._values[rref] = Stored(stored)  # without a fate: the user's code did not raise it
        later.extend(self._awaited.pop(rref, ()))
        self._core.carry_out(self._core.context.resolve(rref), later)

    @under_lock
    def _free(self, effect: Free, later: Later) -> None:
        """No reference to the object is left: let go of its value, tell the program."""
        rref = effect.rref
        stored, handles = self._values.pop(rref, None), self.inside.pop(rref, ())
        if self.beside:
            self.beside.discard(rref)
        if stored is None or (type(stored.value) in ATOMS and stored.on_delete is None):
            return
        if stored.on_delete is not None:
            self._run_on_delete(rref, stored, stored.on_delete, handles)
        elif type(stored.value) is Failure:
            self._end_fate(rref, stored, later)
        else:  # its __del__ is user code
            self._leave_to_a_thread(stored, handles, later)

    @under_lock
    def _end_fate(self, rref: RRefId, stored: Stored, later: Later) -> None:
        """The failure in *stored* is not the value of *rref* any more."""
        failure, fate = stored.value, stored.fate
        if type(failure) is not Failure or fate is None:  # the user's code did not raise it
            return
        fate.objects -= 1
        if fate.objects == 0:
            self._fates.pop(id(failure), None)
            if not fate.fetched:
                self.unfetched(rref, failure, later)

    @under_lock
    def _collect(self, effect: Collect, later: Later) -> None:
        """The object is garbage in a cycle: let go of its value, tell the program.

        The program finds an error in the place of the value, if `on_delete` or a finalizer keeps a
        handle that leads back to the object.
        """
        rref = effect.rref
        stored = self._values.get(rref)
        if stored is None or (type(stored.value) is Failure and not stored.value.references):
            return
        self._end_fate(rref, stored, later)
        if self._collected is None:
            self._collected = Failure.of(_COLLECTED, self._core.me.name, "its collection")
        failure = msgspec.structs.replace(self._collected, about=str(rref))
        self._values[rref] = Stored(failure)  # without a fate, as in `_lose`
        handles = self.inside.pop(rref, ())
        if stored.on_delete is not None:
            self._run_on_delete(rref, stored, stored.on_delete, handles)
        else:
            self._leave_to_a_thread(stored, handles, later)

    def _run_on_delete(
        self,
        rref: RRefId,
        stored: Stored,
        on_delete: Callable[[Any], object],
        handles: Sequence[Hold],
    ) -> None:
        going = [(stored, handles)]

        def run() -> None:
            [(stored, _)] = going
            try:
                with running_in(self._core):
                    value = stored.value
                    on_delete(value.thaw() if type(value) is Frozen else value)
            except BaseException as error:
                text = details_of(error)
                log.error("on_delete of %s raised on %s:\n%s", rref, self._core.me, text)
            del stored
            value = None
            self._let_go(going)

        self._core.chores.submit(run)

    def _leave_to_a_thread(self, stored: Stored, handles: Sequence[Hold], later: Later) -> None:
        """Have a thread let go of *stored*, and of all that its step frees, after the step."""
        if not self._going:
            later.append(self._send_off)
        self._going.append((stored, handles))

    def _send_off(self) -> None:
        core, later = self._core, list[Callable[[], None]]()
        with core.lock:
            going, self._going = self._going, []
        if len(going) < MANY:
            core.brief.submit(core.chores, Stored, self._let_go, going, later=later)
        else:
            core.chores.submit(self._let_go, going)
        core.conclude(later)

    def _let_go(self, values: list[tuple[Stored, Sequence[Hold]]]) -> None:
        many, started = len(values), time.perf_counter()
        handles = list(chain.from_iterable(map(itemgetter(1), values)))
        values.clear()
        left = [handle for handle in handles if handle() is not None]
        if left:
            self._left.extend(left)
            self._clean_soon()
        if many < MANY:
            self._core.brief.took(Stored, time.perf_counter() - started)

    def _clean_soon(self) -> None:
        """Have Python's collector run: values that have gone may be in cycles of Python's own.

        An idle process would never collect them, and the handles in them would hold their objects.
        """
        with self._core.lock:
            before, self._cleaning = self._cleaning, True
        if not before:
            self._core.chores.submit(self._clean)

    def _clean(self) -> None:
        core, tries = self._core, 0
        left: list[Hold] = []
        while tries < TRIES and not core.closed:
            with core.lock:
                new, self._left = self._left, []
                left += new
                if not left:
                    break
            began = time.monotonic()
            gc.collect()
            still = [handle for handle in left if handle() is not None]
            if len(still) < len(left):
                left, tries = still, 0
                continue
            # A search may have looked at the value just now, or others have its handles, too.
            tries = 1 if new else tries + 1
            pause = (PAUSE + SHARE * (time.monotonic() - began)) * 2**tries
            end = time.monotonic() + pause
            while time.monotonic() < end and not core.closed:
                time.sleep(PAUSE)
        with core.lock:
            self._cleaning = False
            more = bool(self._left)
        if more:
            self._clean_soon()

    def end(self) -> None:
        """Let go of all values. The endpoint has closed, and its process ends."""
        with self._core.lock:  # they are let go of outside of it: a `__del__` is user code
            values, self._values = self._values, {}
            going, self._going = self._going, []
        values.clear()
        going.clear()

    def all(self) -> list[RRefId]:
        return list(self._values)

    @under_lock
    def values(self) -> list[tuple[RRefId, object]]:
        return [(rref, stored.value) for rref, stored in self._values.items()]

    @under_lock
    def unfetched_of(self, creator: WorkerId, most: int) -> list[tuple[RRefId, Failure]]:
        """Failures of objects that *creator* asked for and nobody has fetched.

        Each is given out once, *most* of them at a time.
        """
        found: list[tuple[RRefId, Failure]] = []
        for rref, stored in self._values.items():
            failure, fate = stored.value, stored.fate
            if type(failure) is not Failure or fate is None or fate.fetched:
                continue
            if rref.creator == creator:
                fate.fetched = True
                found.append((rref, failure))
                if len(found) == most:
                    break
        return found

    def stored(self, rref: RRefId) -> Stored | None:
        """The stored value of *rref*; None at a user, and before its creation is over."""
        return self._values.get(rref)

    def local(self, rref: RRefId) -> Stored | None:
        """The stored value of an object that lives here; None while it is being made.

        Raises `ValueError` at a user.
        """
        core = self._core
        with core.lock:
            rref = core.context.whereabouts(rref)
            if rref not in core.context.owners:
                owner = core.context.owner_of(rref)
                raise ValueError(
                    f"{rref} is owned by {owner}, not by {core.me}; use to_here() for a copy, or "
                    "farref.wait to wait for the value without one"
                )
            return self._values.get(rref)

    def when_there(self, rref: RRefId, tell: Callable[[], None]) -> None:
        """Call *tell* once the value is here, maybe at once, in any thread. It must not wait."""
        with self._core.lock:
            rref = self._core.context.whereabouts(rref)
            if rref not in self._values:
                self._awaited.setdefault(rref, {})[tell] = None
                return
        tell()

    def wait_no_more(self, rref: RRefId, tell: Callable[[], None]) -> None:
        """Do not call *tell*, which `when_there` got, any more."""
        with self._core.lock:
            left = self._awaited.get(rref, {})
            left.pop(tell, None)
            if not left:
                self._awaited.pop(rref, None)
