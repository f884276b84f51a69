"""What an arrow says: a few ways for each kind of message, the longest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .names import Names
    from .records import Record

FEW = 3
"""References that are named one by one; more are counted."""


class Labels:
    """Words for the messages of one trace. A reply says what it answers, so order matters."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._asked: dict[str, str] = {}

    def of(self, record: Record) -> tuple[str, ...]:
        """The labels of a message; they name what fits in the picture, which takes the first."""
        if record.message in ("ForkRequest", "Ack", "ChildAck", "Delete"):
            return self._control(record)
        return self._user(record)

    def _control(self, record: Record) -> tuple[str, ...]:
        fork = self._names.id(record.text("fork"))
        match record.message:
            case "ForkRequest":
                return f"fork request {fork}", f"fork req {fork}", f"fork {fork}"
            case "Ack":
                return f"ACK {fork}", "ACK"
            case "ChildAck":
                return f"child ACK {fork}", f"cACK {fork}", "cACK"
            case _:
                return f"delete {self._list(list(record.forks))}", "delete"

    def _user(self, record: Record) -> tuple[str, ...]:
        name, rref = record.text("label"), self._names.id(record.text("rref"))
        brings = self._list([each.rref for each in record.carries])
        call = record.text("call")
        match record.message:
            case "Create":
                made = f"{name}({brings})"
                return f"remote {made} as {rref}", f"remote {made}", f"remote {name}()", f"{name}()"
            case "Call":
                self._asked[call] = f"{name}()"
                return f"call {name}({brings})", f"{name}({brings})", f"{name}()"
            case "Invoke":
                self._asked[call] = f"{name}()"
                return f"call {rref}.{name}({brings})", f"{rref}.{name}()", f".{name}()"
            case "Fetch":
                wanted = "to_here" if record.fields.get("copy", True) else "wait"
                self._asked[call] = f"{wanted} {rref}"
                return f"{wanted} {rref}", wanted
            case "Reply":
                reply = f"reply [{brings}]" if brings else "reply"
                asked = self._asked.get(call)
                return (f"{reply} to {asked}", reply, "reply") if asked else (reply, "reply")
            case "Tell":
                said = name if name.startswith(("ask ", "answer ")) else f"tell {name}".rstrip()
                brings = f"({brings})" if brings else ""
                short = said.partition(" ")[2] or said
                return f"{said}{brings}", f"{short}{brings}", short
            case other:
                return (other.lower(),)

    def _list(self, ids: list[str]) -> str:
        if len(ids) > FEW:
            return f"{len(ids)} references"
        return ", ".join(self._names.id(each) for each in ids)
