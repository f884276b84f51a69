"""One order for the steps of many endpoints: by cause, never by clock.

Two rules give the order: an endpoint's own steps keep their order, and a message is sent before it
is received. Steps that neither rule orders were concurrent; any order of them is true. The same
rules always choose one, so the same recording always gives the same picture:

1. A message is received right after it was sent, if its receiver has nothing to do before. This
   takes one row instead of two, so two rows always mean a real overtaking.
2. Then come the effects at the receiver. Then come local steps of other endpoints, late receipts,
   sends that can be received at once, and the other sends. Among equals, the endpoint whose name
   sorts first comes first.
3. The news of a death waits, if possible, for the last steps of the dead endpoint. (An endpoint
   that was only declared dead may go on acting: that does not contradict the news.)
"""

from __future__ import annotations

from collections import deque

from .progress import Progress, silent
from .records import Record, Recording, TraceError

Name = tuple[str, str, int]


def merge(recording: Recording, progress: Progress = silent) -> list[Record]:
    """The steps of all endpoints in one causal order.

    A receipt whose send was not recorded (its sender's file is missing) follows nothing.

    Raises:
        TraceError: the files contradict each other, so that there is no such order.
    """
    return _Merge(recording.steps).run(progress)


class _Merge:
    def __init__(self, steps: dict[str, list[Record]]) -> None:
        self._left = {at: deque(steps[at]) for at in sorted(steps)}
        self._unsent = _unique(steps, "send")
        for name, receipt in _unique(steps, "receive").items():
            sent = self._unsent.get(name)
            if sent is not None and sent.message != receipt.message:
                raise TraceError(
                    f"message {name[2]} from {name[0]} to {name[1]} is a {sent.message} where it "
                    f"was sent and a {receipt.message} where it was received; are these the files "
                    "of one run?"
                )

    def run(self, progress: Progress) -> list[Record]:
        merged: list[Record] = []
        whole = sum(map(len, self._left.values()))
        while True:
            progress(len(merged), whole)
            at = self._choose(merged[-1] if merged else None)
            if at is None:
                break
            record = self._left[at].popleft()
            if record.kind == "send":
                self._unsent.pop(record.name, None)
            merged.append(record)
        if stuck := [at for at, left in self._left.items() if left]:
            raise TraceError(
                f"the steps of {', '.join(stuck)} contradict each other: each waits for a message "
                "that the other sends later; are these the files of one run?"
            )
        return merged

    def _head(self, at: str) -> Record | None:
        left = self._left.get(at)
        return left[0] if left else None

    def _choose(self, last: Record | None) -> str | None:
        if last is not None and last.kind == "send" and self._awaits(last):
            return last.peer
        if last is not None and self._rank(last.at) == 0:
            return last.at  # the effects of a message stand below it
        best: tuple[int, str] | None = None
        for at in self._left:
            rank = self._rank(at)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, at
                if rank == 0:
                    break
        return best[1] if best else None

    def _rank(self, at: str) -> int | None:
        """The urgency of the next step of *at*, 0 the highest; None if it is not possible yet."""
        head = self._head(at)
        if head is None:
            return None
        if head.kind == "receive":
            return None if head.name in self._unsent else 1
        if head.kind == "send":
            return 2 if self._awaits(head) else 3
        if head.kind == "died" and self._head(head.peer) is not None:
            return 4
        return 0

    def _awaits(self, sent: Record) -> bool:
        """Whether the receiver's very next step is to receive *sent*."""
        head = self._head(sent.peer)
        return head is not None and head.kind == "receive" and head.name == sent.name


def _unique(steps: dict[str, list[Record]], kind: str) -> dict[Name, Record]:
    found: dict[Name, Record] = {}
    for records in steps.values():
        for record in records:
            if record.kind != kind:
                continue
            if record.name in found:
                sender, receiver, number = record.name
                raise TraceError(
                    f"message {number} from {sender} to {receiver} has two {kind} records; are "
                    "these the files of one run?"
                )
            found[record.name] = record
    return found
