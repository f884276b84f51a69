"""Rules of the owner: counting, freeing, and one request at a time."""

from farref.protocol.owner import Owner

from .mutant import Mutant


def _owner(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, Owner, method, old, new)


OWNER = {
    "a method of the own object makes an object": (
        _owner("frees what has no value yet", "at_rest", "self.resolved or", "True or"),
        _owner("frees what has handles", "unused", "not self.handles", "True"),
        _owner("frees what it asked something of", "at_rest", "not self.pending", "True"),
        _owner("frees what runs a request", "at_rest", "not self.running", "True"),
        _owner("frees nothing", "end_if_unused", "if self.unused else []", "if False else []"),
        _owner(
            "does not free when nobody wants the value",
            "resolve",
            "or self.end_if_unused()",
            "or []",
        ),
        _owner(
            "does not free when the last request ends", "done", "or self.end_if_unused()", "or []"
        ),
        _owner("counts itself as a user", "create", "if sender != me:", "if True:"),
        _owner("runs a request without saying so", "_next", "self.running = request.call"),
        _owner("never ends a request", "done", "self.running = None"),
    ),
    "a reference returned in the reply, by the owner": (
        _owner("frees what has forks", "unused", "not self.forks", "True"),
        _owner(
            "does not free at the last delete", "delete", "return self.end_if_unused()", "return []"
        ),
        _owner("does not count a fork it makes", "fork", "self.forks[fork] = to"),
        _owner("counts a deleted fork", "delete", "    del self.forks[fork]", "    pass"),
    ),
    "aliases/asked_too_late": (
        _owner("frees what it is asked about", "at_rest", "not self.asking", "True"),
    ),
    "a user dies": (
        _owner(
            "does not free after a burial", "forget", "return self.end_if_unused()", "return []"
        ),
        _owner(
            "counts the dead",
            "forget",
            "to in self.forks.items() if to != worker",
            "to in self.forks.items()",
        ),
    ),
    "a message that cannot be pickled": (
        _owner(
            "does not free after an abandoned fork",
            "abandon",
            "return self.end_if_unused()",
            "return []",
        ),
        _owner("keeps an abandoned fork", "abandon", "del self.forks[fork]"),
    ),
    "the owner shares with itself": (
        _owner("does not hold what comes home", "arrive", "self.messages += 1"),
        _owner("keeps its own fork", "arrive", "del self.forks[descriptor.fork]"),
        _owner("acknowledges to itself", "arrive", "descriptor.parent == me", "False"),
    ),
    "an own object created by a message to itself": (
        _owner(
            "does not acknowledge what comes home",
            "arrive",
            "[Send(descriptor.parent, ChildAck(rref=self.rref, fork=descriptor.fork))]",
            "[]",
        ),
    ),
    "a user shares with itself, the object is not its own": (
        _owner(
            "acknowledges a fork it does not count",
            "fork_request",
            "self.forks[message.fork] = sender",
        ),
        _owner(
            "counts a fork and does not say so",
            "fork_request",
            "[Send(sender, Ack(rref=self.rref, fork=message.fork))]",
            "[]",
        ),
    ),
    "nobody wants the object when its value comes": (
        _owner(
            "acknowledges a creation whose fork it does not count",
            "create",
            "self.forks[message.fork] = sender",
        ),
    ),
    "the creator dies while a method makes an object": (
        _owner("forgets that it was created", "create", "self.created = True"),
    ),
    "a method that waits for what it makes": (
        _owner("forgets whose method creates it", "create", "self.target = message.target"),
        _owner(
            "does not look again at what overtook the creation",
            "create",
            "self._refuse_self_waits(before)",
            "[]",
        ),
        _owner(
            "does not see that a queued creation waits for its target",
            "_waits_for_itself",
            "Busy(self.target, before) in chain",
            "False",
        ),
    ),
    "an argument, kept by the object's owner": (
        _owner(
            "refuses everything that overtook the creation",
            "_refuse_self_waits",
            "if self._waits_for_itself(request, before):",
            "if True:",
        ),
    ),
    "a method that calls its own object and waits": (
        _owner(
            "lets a request wait for itself",
            "enqueue",
            "if self._waits_for_itself(request, before):",
            "if 0:",
        ),
        _owner(
            "does not see that a running request waits for itself",
            "_waits_for_itself",
            "Busy(self.rref, self.running) in chain",
            "False",
        ),
    ),
    "a creation that waits for its own object": (
        _owner(
            "does not see that an unfinished creation waits for itself",
            "_waits_for_itself",
            "names(chain, self.rref)",
            "False",
        ),
    ),
    "requests/a_chain_that_outlives_its_wait": (
        _owner(
            "takes an old chain for a wait",
            "_waits_for_itself",
            "Busy(self.rref, self.running) in chain",
            "names(chain, self.rref)",
        ),
        _owner(
            "takes an old chain for a wait of the target",
            "_waits_for_itself",
            "Busy(self.target, before) in chain",
            "names(chain, self.target)",
        ),
    ),
    "the owner calls its own object": (
        _owner("runs two requests at once", "_next", "self.running or", ""),
        _owner("starts nothing when a request ends", "done", "self._next() or", ""),
    ),
    "note: return value": (
        _owner("runs a request before there is a value", "_next", "not self.resolved or", ""),
        _owner("starts nothing when the value comes", "resolve", "self._next() or", ""),
    ),
    "cancelled calls": (
        _owner(
            "cancels without an answer",
            "cancel",
            "[Refuse(sender, request, why, ring), *self.end_if_unused()]",
            "[]",
        ),
        _owner("answers a cancel and runs the request", "cancel", "del self.queue[call]"),
        _owner("cancels nothing", "cancel", "request is None", "True"),
    ),
    "the end of a chain keeps its object": (
        _owner(
            "forgets the living with the dead",
            "forget",
            "to in self.forks.items() if to != worker",
            "to in ()",
        ),
    ),
    "others run while a method awaits": (
        _owner("keeps its turn while it awaits", "pause", "self.running = None"),
        _owner("forgets who awaits", "pause", "self._step_aside(call)"),
        _owner("gives no turn to who can go on", "resume", "self._next()", "[]"),
        _owner(
            "lets go on without a turn",
            "resume",
            "self._line_up(call.caller, Resume(call))",
            "return [Resume(call)]",
        ),
        _owner("takes who goes on for one who awaits", "_next", "self.aside.discard(request.call)"),
        _owner("starts the last one first", "_next", "iter(self.queue)", "reversed(self.queue)"),
    ),
    "a method that can go on lines up behind new ones": (
        _owner(
            "lets who can go on jump the line",
            "resume",
            "self._line_up(call.caller, Resume(call))",
            "self._line_up(call.caller, Resume(call)); self.queue.move_to_end(call, last=False)",
        ),
    ),
    "a method that awaits a call of its own object": (
        _owner("starts nothing when a request awaits", "pause", "self._next()", "[]"),
    ),
    "a method that awaits is not cancelled": (
        _owner("cancels who has begun", "cancel", "or isinstance(request, Resume) ", ""),
    ),
    "the caller dies while its method awaits": (
        _owner("frees what awaits", "at_rest", "not self.aside", "True"),
    ),
    "an object that is not serial": (
        _owner("gives turns where there are none", "_next", "not self.serial", "False"),
        _owner("does not know who runs beside", "_all", "self._step_aside(request.call)"),
        _owner("never ends who runs beside", "done", "self.aside.discard(call)"),
    ),
}
