"""The pages of `farref dashboard`, as an ASGI application: read only, and for one address only.

    /TOKEN/         the page
    /TOKEN/events   the tables of `farref top`, again and again, as Server-Sent Events, and with
                    `calls` the requests of the last minute
    /TOKEN/refs     the references to the objects that match a text, as JSON
    /TOKEN/why      why the object with this id is alive, as JSON

Who knows the token may read everything here. A browser knows it from the address that the user
opened, and tells no other site: the page links to none, and sends no referrer. Other sites cannot
guess it. `_refusal` holds against them also if they learn it: their scripts reach this server only
with their own name in `Host` or `Origin`.

The system is looked at only while a page is open, and once for all pages. What a page gets is
searched, sorted and cut to `MOST` rows here, however large the system is. A page that takes no more
data for a while gets none in that time, and then the newest.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec

from ..actors.inspect.why import seconds_text
from ..console import Text
from ..hostnames import are_ours
from ..plurals import counted
from ..printable import printable
from ..protocol.errors import FarrefError, SystemDownError
from ..refs.table import BAD, QUIET
from ..top.figures import Looks, newest_first
from ..top.screen import MAKERS, SORTS, Pane, TopView, head, holds_pane
from .strangers import Strangers
from .timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from ..actors.api.system import System
    from ..actors.inspect.inspection import ReferenceInfo
    from ..actors.inspect.why import Reason
    from ..top.figures import Figures

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

MOST = 100
"""Rows of a table that a page gets."""
EDGES = 16
"""Edges of the graph that stand for one pair of endpoints."""
EVERY = 1.0
"""Seconds between two looks, or more: see `Looks.look`."""
WHY = 10
"""An endpoint has so many times longer to list its references than to count them."""
TABLES = ("endpoints", "who holds what", "events", "streams", "objects", "newest")
"""Their places on the page."""
REFERENCES = (
    ("reference", "left"),
    ("type", "left"),
    ("held by", "left"),
    ("as", "left"),
    ("state", "left"),
    ("for", "right"),
    ("created at", "rest"),
)
ALL_COLUMNS = 10_000
STYLES = {BAD: "bad", QUIET: "quiet"}
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Dashboard:
    """The application. *names* are those by which browsers may ask, besides the address."""

    def __init__(self, system: System, names: Iterable[str], timeout: float) -> None:
        self.token = secrets.token_urlsafe(24)
        self.ended = ""
        """Why there is no more to see; pages get that as their last event."""
        self._system = system
        self._names = tuple(names)
        self._timeout = timeout
        self._page = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
        self._looks = Looks()
        self._looking = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._seen: tuple[Figures, float] | None = None
        """The latest figures, and when to look again."""
        self._timeline = Timeline(system)
        self.strangers = Strangers()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        self.strangers.known(scope["client"])
        query = {
            key: values[-1] for key, values in parse_qs(scope["query_string"].decode()).items()
        }
        match scope["path"].removeprefix(f"/{self.token}/"):
            case "":
                nonce = secrets.token_urlsafe(16)
                policy = (
                    f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}';"
                    " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
                    " frame-ancestors 'none'"
                )
                page = self._page.replace("NONCE", nonce)
                kind = "text/html; charset=utf-8"
                await _answer(send, 200, page, kind, {"content-security-policy": policy})
            case "events":
                await self._events(query, receive, send)
            case "refs" | "why" as what:
                status, found = await self._asked(what, query)
                await _answer(send, status, msgspec.json.encode(found), "application/json")
            case _:
                await _answer(send, 404, "no such page")

    def _refusal(self, scope: Mapping[str, Any]) -> tuple[int, str] | None:
        """The status and the reason if this request gets no answer."""
        fields: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            fields.setdefault(name, []).append(value.decode("latin-1"))
        hosts = fields.get(b"host", [])
        if len(hosts) != 1 or not are_ours(hosts, scope["server"][0], self._names):
            say = "ask by the address of this server, or give farref dashboard the --host you use"
            return 421, say
        for origin in fields.get(b"origin", []):
            if not re.fullmatch(rf"https?://{re.escape(hosts[0])}", origin):
                return 403, "only the dashboard's own page may ask"
        given = scope["path"].removeprefix("/").partition("/")[0]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return 403, "open the address that farref dashboard has printed; each start has its own"
        if scope["method"] != "GET":
            return 405, "there is nothing to change here"
        return None

    async def _events(self, query: Mapping[str, str], receive: Receive, send: Send) -> None:
        sort = query.get("sort", "")
        view = TopView(search=query.get("search", ""), sort=sort if sort in SORTS else "calls/s")
        await send(_start(200, "text/event-stream"))
        gone = asyncio.ensure_future(_disconnected(receive))
        due = 0.0
        with self._timeline.shown() if "calls" in query else contextlib.nullcontext():
            while not (gone.done() or self.ended):
                if time.monotonic() >= due:
                    try:
                        figures, due = await self._look()
                    except SystemDownError as error:
                        self.ended = str(error)
                        break
                    told = await asyncio.to_thread(_told, figures, view, due - time.monotonic())
                    await send(_part(b"data: %b\n\n" % told, more=True))
                if "calls" in query:
                    told = await asyncio.to_thread(self._timeline.told, view)
                    await send(_part(b"event: calls\ndata: %b\n\n" % told, more=True))
                # In short steps, as the command's thread sets `ended`.
                await asyncio.wait({gone}, timeout=max(0.0, min(EVERY, due - time.monotonic())))
        gone.cancel()
        ended = msgspec.json.encode(printable(self.ended))
        await send(_part(b"event: end\ndata: %b\n\n" % ended if self.ended else b""))

    async def _look(self) -> tuple[Figures, float]:
        async with self._looking:  # the other pages wait for this look, and get its figures
            if self._seen is None or time.monotonic() >= self._seen[1]:
                self._seen = await asyncio.to_thread(
                    self._looks.look, self._system, EVERY, self._timeout
                )
            return self._seen

    async def _asked(self, what: str, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        async with self._asking:  # an answer is work for each endpoint
            try:
                ask = self._why if what == "why" else self._refs
                return 200, await asyncio.to_thread(ask, query)
            except LookupError as error:
                return 404, {"error": printable(error.args[0])}
            except FarrefError as error:
                return 503, {"error": printable(error)}

    def _why(self, query: Mapping[str, str]) -> dict[str, Any]:
        return _reason(self._system.why(query.get("id", ""), timeout=WHY * self._timeout))

    def _refs(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Who holds the objects with the id or text *of*: from which endpoint, and to which."""
        found = self._system.references(timeout=WHY * self._timeout)
        of = query.get("of", "")
        has = TopView(search=of).has
        rows = found.of(of) or [r for r in found if has(r.rref, r.type or "", r.site or "")]
        held = [row for row in rows if row.worker != row.owner]
        pairs = Counter((row.worker, row.owner) for row in held)
        holds = [(*pair, count) for pair, count in pairs.items()]
        note = ", held by no endpoint but the owner" if rows and not held else ""
        if found.silent:
            note += f"; {counted(len(found.silent), 'endpoint')} did not answer"

        def asked(end: str, name: str) -> bool:
            return query.get(end, "") in ("", printable(name))

        chosen = [r for r in held if asked("holder", r.worker) and asked("owner", r.owner)]
        chosen.sort(key=lambda row: newest_first(row.age, row.owner, row.rref))
        pane = Pane("references", REFERENCES, chosen, _reference)
        return {
            "time": time.strftime("%H:%M:%S"),
            "objects": len({row.rref for row in rows}),
            "note": note,
            "holds": _table(holds_pane(holds, TopView())),
            "references": _table(pane),
        }


def _reference(row: ReferenceInfo) -> list[Text]:
    kind = row.type or f"({row.owner_state or row.state})"
    texts = row.rref, kind, row.worker, row.role, row.state, seconds_text(row.age)
    return [*map(Text, texts), Text(row.site or "", style=QUIET)]


def _table(pane: Pane) -> dict[str, Any]:
    """*pane* as JSON: its first rows. Who holds what has all as a graph, too."""
    rows = [
        [[cell.plain, STYLES.get(str(cell.style), str(cell.style))] for cell in pane.row(item)]
        for item in pane.items[:MOST]
    ]
    columns, count = pane.columns, len(pane.items)
    told: dict[str, Any] = {"title": pane.title, "columns": columns, "rows": rows, "count": count}
    if pane.title == "who holds what":
        told["graph"] = graph(pane.items)
    if pane.title == "events":
        details = (event.details for event, _ in pane.items[:MOST])
        told["more"] = [printable(each, lines=True) for each in details]
    return told


def graph(holds: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int, int]]:
    """Edges: a holder, an owner, and the number of its objects; each stands for so many pairs.

    Those with the most objects are drawn one by one, and the others together, for each owner that
    is drawn. They have no holder, and maybe no owner.
    """
    drawn, owners = holds[:EDGES], {owner for _, owner, _ in holds[:EDGES]}
    others: dict[str, list[int]] = {}
    for _, owner, count in holds[EDGES:]:
        others.setdefault(owner if owner in owners else "", []).append(count)
    return [
        *((printable(holder), printable(owner), count, 1) for holder, owner, count in drawn),
        *(("", printable(owner), sum(each), len(each)) for owner, each in others.items()),
    ]


def _told(figures: Figures, view: TopView, left: float) -> bytes:
    """What a page shows, as JSON. The next comes in *left* seconds."""
    tables = [_table(MAKERS[title](figures, view, ALL_COLUMNS)) for title in TABLES]
    said: dict[str, Any] = {
        "system": printable(figures.system),
        "head": head(figures).plain,
        "tables": tables,
    }
    said |= {"sort": view.sort, "sorts": list(SORTS), "next": max(0.0, left)}
    return msgspec.json.encode(said)


def _reason(reason: Reason) -> dict[str, Any]:
    """*reason* as JSON, with texts to show, and the id of each reference for the next question."""
    return {
        "kind": reason.kind,
        "text": printable(reason.text),
        "where": printable(reason.where),
        "rref": reason.rref,
        "children": [_reason(child) for child in reason.children],
    }


async def _disconnected(receive: Receive) -> None:
    """Wait until the browser has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _start(status: int, kind: str, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    fields = {"content-type": kind, **HEADERS, **(more or {})}
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    return {"type": "http.response.start", "status": status, "headers": headers}


def _part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _answer(
    send: Send,
    status: int,
    body: str | bytes,
    kind: str = "text/plain; charset=utf-8",
    more: Mapping[str, str] | None = None,
) -> None:
    content = body.encode() if isinstance(body, str) else body
    await send(_start(status, kind, {"content-length": str(len(content)), **(more or {})}))
    await send(_part(content))
