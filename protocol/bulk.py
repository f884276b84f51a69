"""Many control messages of one kind to one endpoint, as one message in columns.

A step may end very many references at once, or begin them. Then it has as many `Delete`s,
`ForkRequest`s, `Ack`s or `ChildAck`s for one endpoint. The shell puts them `together`: one `Bulk`
has their kind, and the numbers of their objects and forks, two to six bytes for each. The
receiver's delivery takes it `apart`, and `Context.take_all` takes the messages in one loop. Each of
them takes effect, or is refused, as if it had come alone.

Only the deliveries know a `Bulk`. The machines send and take single messages, and a message that is
recorded is a single one, too.
"""

from __future__ import annotations

from .columns import MANY
from .effects import Effect, Send
from .errors import ProtocolError
from .ids import ForkId, RRefId, WorkerId
from .messages import Ack, Bulk, Bulky, ChildAck, Delete, ForkRequest, InBulk

MOST = 10_000
"""The most messages in a `Bulk`. The receiver takes them in one step, and all others wait."""
TOO_LARGE = 1 << 64
"""No id of a single message has such a number."""
_OTHERS: dict[Bulky, type[ForkRequest | Ack | ChildAck]] = {
    "ForkRequest": ForkRequest,
    "Ack": Ack,
    "ChildAck": ChildAck,
}
KINDS: dict[type, Bulky] = {Delete: "Delete", **{kind: name for name, kind in _OTHERS.items()}}
"""The classes of the messages that travel in bulk, with their names."""


def together(effects: list[Effect], me: WorkerId) -> list[Effect]:
    """The same *effects* of a step at *me*, with a `Bulk` in place of many messages of a kind."""
    others: list[Effect] = []
    groups: dict[tuple[object, ...], list[Send]] = {}
    for effect in effects:
        if type(effect) is not Send or type(effect.message) not in KINDS or effect.to == me:
            others.append(effect)
            continue
        message: InBulk = effect.message  # type: ignore[assignment]  # of one of these kinds
        to, kind, creator = effect.to, type(message), message.rref.creator
        if isinstance(message, Delete):
            if len(message.forks) != 1 or message.borrowers:
                others.append(effect)
                continue
            fork_parent = message.forks[0].parent
        else:
            fork_parent = message.fork.parent
        groups.setdefault((to, kind, creator, fork_parent), []).append(effect)
    for group in groups.values():
        if len(group) < MANY:
            others += group
        else:
            others += [_bulk(group[it : it + MOST]) for it in range(0, len(group), MOST)]
    return others


def _bulk(group: list[Send]) -> Effect:
    """One effect in place of all of *group*."""
    messages: list[InBulk] = [each.message for each in group]  # type: ignore[misc]  # as above
    first = messages[0]
    names = [it.forks[0] if isinstance(it, Delete) else it.fork for it in messages]
    numbers, forks = [it.rref.number for it in messages], [it.number for it in names]
    number, fork = min(numbers), min(forks)
    bulk = Bulk(
        kind=KINDS[type(first)],
        creator=first.rref.creator,
        fork_parent=names[0].parent,
        number=number,
        fork=fork,
        numbers=tuple([each - number for each in numbers]),
        forks=tuple([each - fork for each in forks]),
    )
    return Send(group[0].to, bulk)


def apart(bulk: Bulk) -> list[InBulk]:
    """The messages in *bulk*. Raises `ProtocolError` if no correct peer sends it."""
    creator, fork_parent, least, first = bulk.creator, bulk.fork_parent, bulk.number, bulk.fork
    many = len(bulk.numbers)
    if many != len(bulk.forks) or not 0 < many <= MOST:
        raise ProtocolError(f"a bulk has {many} objects and {len(bulk.forks)} forks")
    if least + max(bulk.numbers) >= TOO_LARGE or first + max(bulk.forks) >= TOO_LARGE:
        raise ProtocolError("a number in a bulk is out of range")
    both = zip([least + it for it in bulk.numbers], [first + it for it in bulk.forks], strict=True)
    if bulk.kind == "Delete":
        return [
            Delete(rref=RRefId(creator, number), forks=(ForkId(fork_parent, fork),))
            for number, fork in both
        ]
    kind = _OTHERS[bulk.kind]
    return [
        kind(rref=RRefId(creator, number), fork=ForkId(fork_parent, fork)) for number, fork in both
    ]
