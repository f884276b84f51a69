"""Rules of the owner: counting, freeing, and one request at a time."""

from farref.protocol.owner import Owner

from .mutant import Mutant


def _owner(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, Owner, method, old, new)


OWNER = (
    _owner("frees what has no value yet", "unused", "self.resolved or", "True or"),
    _owner("frees what has handles", "unused", "not self.handles", "True"),
    _owner("frees what has forks", "unused", "not self.forks", "True"),
    _owner("frees what it asked something of", "unused", "not self.pending", "True"),
    _owner("frees what runs a request", "unused", "not self.running", "True"),
    _owner("frees what it is asked about", "unused", "not self.asking", "True"),
    _owner("frees nothing", "settle", "if self.unused else []", "if False else []"),
    _owner("does not free at the last delete", "delete", "return self.settle()", "return []"),
    _owner("does not free when nobody wants the value", "resolve", "or self.settle()", "or []"),
    _owner("does not free when the last request ends", "done", "or self.settle()", "or []"),
    _owner("does not free after a burial", "forget", "return self.settle()", "return []"),
    _owner("does not free after an abandoned fork", "abandon", "return self.settle()", "return []"),
    _owner("does not count a fork it makes", "fork", "self.forks[fork] = to"),
    _owner("keeps an abandoned fork", "abandon", "del self.forks[fork]"),
    _owner("does not hold what comes home", "arrive", "self.messages += 1"),
    _owner(
        "does not acknowledge what comes home",
        "arrive",
        "[Send(descriptor.parent, ChildAck(rref=self.rref, fork=descriptor.fork))]",
        "[]",
    ),
    _owner("keeps its own fork", "arrive", "del self.forks[descriptor.fork]"),
    _owner("acknowledges to itself", "arrive", "descriptor.parent == me", "False"),
    _owner(
        "acknowledges a fork it does not count", "fork_request", "self.forks[message.fork] = sender"
    ),
    _owner(
        "counts a fork and does not say so",
        "fork_request",
        "[Send(sender, Ack(rref=self.rref, fork=message.fork))]",
        "[]",
    ),
    _owner("counts a deleted fork", "delete", "    del self.forks[fork]", "    pass"),
    _owner(
        "acknowledges a creation whose fork it does not count",
        "create",
        "self.forks[message.fork] = sender",
    ),
    _owner("counts itself as a user", "create", "if sender != me:", "if True:"),
    _owner("forgets that it was created", "create", "self.created = True"),
    _owner("forgets whose method creates it", "create", "self.target = message.target"),
    _owner(
        "does not look again at what overtook the creation",
        "create",
        "self._refuse_self_waits()",
        "[]",
    ),
    _owner(
        "refuses everything that overtook the creation",
        "_refuse_self_waits",
        "if self._waits_for_itself(request):",
        "if True:",
    ),
    _owner(
        "lets a request wait for itself", "enqueue", "if self._waits_for_itself(request):", "if 0:"
    ),
    _owner(
        "does not see that a running request waits for itself",
        "_waits_for_itself",
        "self.running or",
        "",
    ),
    _owner(
        "does not see that an unfinished creation waits for itself",
        "_waits_for_itself",
        "self.rref in chain and (self.running or not self.resolved)",
        "self.rref in chain and self.running",
    ),
    _owner(
        "does not see that a queued creation waits for its target",
        "_waits_for_itself",
        "self.target in chain",
        "False",
    ),
    _owner("runs two requests at once", "_next", "self.running or", ""),
    _owner("runs a request before there is a value", "_next", "not self.resolved or", ""),
    _owner("runs a request without saying so", "_next", "self.running = request.call"),
    _owner("starts nothing when the value comes", "resolve", "self._next() or", ""),
    _owner("starts nothing when a request ends", "done", "self._next() or", ""),
    _owner("never ends a request", "done", "self.running = None"),
    _owner("frees what awaits", "unused", "not self.aside", "True"),
    _owner("keeps its turn while it awaits", "pause", "self.running = None"),
    _owner("forgets who awaits", "pause", "self._step_aside(call)"),
    _owner("starts nothing when a request awaits", "pause", "self._next()", "[]"),
    _owner("gives no turn to who can go on", "resume", "self._next()", "[]"),
    _owner(
        "lets who can go on jump the line",
        "resume",
        "self._line_up(call.caller, Resume(call))",
        "self.queue = deque([(call.caller, Resume(call)), *self.queue])",
    ),
    _owner(
        "lets go on without a turn",
        "resume",
        "self._line_up(call.caller, Resume(call))",
        "return [Resume(call)]",
    ),
    _owner("takes who goes on for one who awaits", "_next", "self.aside.discard(request.call)"),
    _owner("starts the last one first", "_next", "popleft()", "pop()"),
    _owner("cancels who has begun", "cancel", "continue", "pass"),
    _owner("gives turns where there are none", "_next", "not self.serial", "False"),
    _owner("does not know who runs beside", "_all", "self._step_aside(request.call)"),
    _owner("never ends who runs beside", "done", "self.aside.discard(call)"),
    _owner(
        "cancels without an answer",
        "cancel",
        "[Refuse(sender, request, why, ring), *self.settle()]",
        "[]",
    ),
    _owner("answers a cancel and runs the request", "cancel", "del self.queue[index]"),
    _owner("cancels nothing", "cancel", "if caller == sender", "if False"),
    _owner("counts the dead", "forget", "if to != worker", "if True"),
    _owner("forgets the living with the dead", "forget", "if to != worker", "if False"),
)
