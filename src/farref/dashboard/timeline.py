"""The requests of the last minute, from the steps that endpoints send to a viewer (`farref trace`).

A call, a method or a fetch lasts from the step in which its caller sends it until the one in which
the answer arrives there; a creation from its arrival at the owner until the value is there. So both
steps are one endpoint's, in order and by one clock.

Endpoints may take many more steps than people can look at. So a regular expression finds the few
rows that matter, and of the requests one of `every` is kept. Its id decides, and so both of its
ends are kept. `every` doubles when too many are kept, and halves when there is room again.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from ..actors.api.system import System
from ..actors.api.viewing import Watching
from ..actors.recording.steps import ReceiveStep, decode
from ..printable import printable
from ..protocol.errors import SystemDownError
from ..protocol.messages import Call, Create, Descriptor, Fetch, Invoke, Reply
from ..top.screen import TopView, latency

MINUTE = 60
MOST = 2_000
"""Requests that are kept."""
SHOWN = 500
"""Requests that a page gets."""
REFERENCES = 50
"""References of one request that are kept; the others are counted."""
LOOK = 0.25
REST = 2.0
"""Seconds of rest after each second of work: the reader takes a third of a core at most."""
WORKER = r'\["(?:[^"\\]|\\.)*",\d+\]'
ID = rf"\[{WORKER},\d+\]"
ROW = re.compile(
    rf'\["(send|receive|fail|resolve|stand_for|lose|join|died)",([^,]+),({WORKER}),'
    rf'(?:{WORKER},\d+,\["(\w+)",)?({ID}|{WORKER})?(?:,({ID}))?'
)
"""A step, its time, its endpoint, its message, and the first two ids in it."""


class Request(msgspec.Struct):
    lot: int
    """Whether it is kept."""
    at: str
    """The endpoint that takes its first and its last step, as rows name it."""
    caller: str
    callee: str
    what: str
    references: tuple[str, ...]
    """The object that it is about, if any, and the first ones in its arguments."""
    more: int
    """The others in its arguments."""
    began: float
    """Seconds since the epoch."""
    ended: float | None = None
    outcome: str = ""
    """The type of the exception, or why no answer can come; empty if it went well."""

    def open_at(self, at: str) -> bool:
        """Whether its last step will be one of the endpoint *at*."""
        return self.at == at and self.ended is None


class Timeline:
    """The requests of a system, recorded while a page shows them."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._pages = 0
        self._recording = threading.Lock()
        """Held as long as steps are recorded."""
        self._changing = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._every, self._gaps = 1, 0
        self._requests: dict[str, Request] = {}
        """By the id of the call, or of the object that is created; the latest is the last one."""
        self._counts: Counter[int] = Counter()
        """The number of all requests that began in each second."""
        self._met: set[str] = set()
        self._dead: set[str] = set()

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """A page shows it in this block. In the thread of the pages."""
        self._pages += 1
        try:
            if self._pages == 1:
                threading.Thread(target=self._follow, daemon=True).start()
            yield
        finally:
            self._pages -= 1

    def _follow(self) -> None:
        with self._recording:  # the thread before this one leaves; or else it serves these pages
            with self._changing:
                self._begin()
            watching = Watching(self._system, tables=False)
            with contextlib.suppress(SystemDownError), watching:
                while self._pages:
                    rows, began = watching.lines(LOOK), time.thread_time()
                    with self._changing:
                        for row in rows:
                            self.add(row)
                    time.sleep(REST * (time.thread_time() - began))

    def add(self, row: str) -> None:
        found = ROW.match(row)
        if found is None:
            return
        kind, time_, at, message, first, second = found.groups()
        when = float(time_)
        match kind, message:
            case ("send", "Call" | "Invoke" | "Fetch") | ("receive", "Create"):
                self._counts[int(when)] += 1
                lot = hash(first)
                if lot % self._every == 0:
                    key = f"made {second}" if message == "Create" else first
                    self._requests[key] = _request(row, lot, at)
                    self._thin()
            case "receive", "Reply" if first in self._requests:
                match decode(row):
                    case ReceiveStep(message=Reply(cargo=cargo)):
                        self._end(first, when, printable(cargo.payload or ""))
            case "fail", _:
                self._end(first, when, "its callee died")
            case "resolve" | "stand_for", _:
                self._end(f"made {first}", when, "")
            case "lose", _:
                self._end(f"made {first}", when, "it was lost")
            case "join", _:  # after a gap, which may have had the answers to these
                self._gaps += at in self._met
                self._met.add(at)
                for key in [key for key, each in self._requests.items() if each.open_at(at)]:
                    del self._requests[key]
            case "died", _ if first not in self._dead:
                self._dead.add(first)
                for key, each in self._requests.items():
                    if each.open_at(first):
                        self._end(key, when, printable(f"{msgspec.json.decode(first)[0]} died"))

    def _end(self, key: str, when: float, outcome: str) -> None:
        request = self._requests.get(key)
        if request is not None and request.ended is None:
            request.ended, request.outcome = when, outcome

    def _thin(self) -> None:
        while len(self._requests) > MOST:
            self._every *= 2
            kept = self._requests.items()
            self._requests = {key: each for key, each in kept if each.lot % self._every == 0}

    def told(self, view: TopView) -> bytes:
        """As JSON: the requests of the last minute that *view* searches for, the newest first."""
        now = time.time()
        with self._changing:
            for second in [each for each in self._counts if each < now - MINUTE]:
                del self._counts[second]
            requests = self._requests.items()
            self._requests = {k: it for k, it in requests if (it.ended or now) >= now - MINUTE}
            count, every, gaps = self._counts.total(), self._every, self._gaps
            if count < self._every * MOST // 4:
                self._every = max(1, self._every // 2)
            found = [
                each
                for each in sorted(self._requests.values(), key=lambda each: -each.began)
                if view.has(each.caller, each.callee, each.what, each.outcome, *each.references)
            ]
            while len(found) > SHOWN:
                every *= 2
                found = [each for each in found if each.lot % every == 0]
            calls = [_told(each, now) for each in found]
        told = {"count": count, "every": every, "gaps": gaps, "calls": calls}
        return msgspec.json.encode(told)


def _request(row: str, lot: int, at: str) -> Request:
    """The request in the row of its first step. Its texts can be shown, and have an end."""
    step: Any = decode(row)
    carries: tuple[Descriptor, ...] = ()
    message, caller, callee = step.message, step.at.name, step.peer.name
    match message:
        case Fetch(rref=rref, copy=copy):
            about, what = [rref], f"{'to_here' if copy else 'wait'} {rref}"
        case Call(cargo=cargo):
            about, what, carries = [], f"{cargo.payload}()", cargo.descriptors
        case Invoke(rref=rref, cargo=cargo):
            about, what, carries = [rref], f"{rref}.{cargo.payload}()", cargo.descriptors
        case Create(rref=rref, cargo=cargo, target=target):
            caller, callee = callee, caller
            about, carries = [rref, *([target] if target else [])], cargo.descriptors
            of = f"{target}." if target else ""
            what = f"remote {of}{cargo.payload}() as {rref}"
        case _:
            raise AssertionError("ROW finds no other")
    kept = carries[:REFERENCES]
    references = tuple(map(printable, (*about, *(each.rref for each in kept))))
    caller, callee, what = map(printable, (caller, callee, what))
    more = len(carries) - len(kept)
    return Request(lot, at, caller, callee, what, references, more, step.time)


def _told(request: Request, now: float) -> dict[str, Any]:
    """*request* as JSON. Times are seconds before now."""
    began, ended = request.began, request.ended
    clock = time.strftime("%H:%M:%S", time.localtime(began))
    return {
        "caller": request.caller,
        "callee": request.callee,
        "what": request.what,
        "references": request.references,
        "more": request.more,
        "at": f"{clock}.{int(began % 1 * 1000):03}",
        "began": now - began,
        "ended": None if ended is None else now - ended,
        "took": "" if ended is None else latency(max(0.0, ended - began)),
        "outcome": "running" if ended is None else request.outcome or "ok",
    }
