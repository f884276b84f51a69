"""Rules of a user: its confirmation, its pins, and its delete."""

from farref.protocol.user import User

from .mutant import Mutant, in_context


def _user(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, User, method, old, new)


CHILD_ACK = "[Send(descriptor.parent, ChildAck(rref=self.rref, fork=descriptor.fork))]"

USER = {
    "a reference returned in the reply, by the owner": (
        _user("deletes what has handles", "unused", "self.handles or", ""),
        _user("deletes what a message holds", "unused", "or self.messages", ""),
        in_context("does not hold what arrives", "accept", "user.messages += 1"),
        _user("asks for what the owner gave", "arrive", "descriptor.parent == self.owner", "False"),
        _user("does not remember that it is counted", "_know", "self.known = (fork,)"),
    ),
    "note: return value": (
        _user("deletes before a request is answered", "unused", "or self.pending", ""),
    ),
    "lent by a user, and not kept [lend]": (
        _user("deletes before its children are confirmed", "unused", "or self.children", ""),
    ),
    "nobody wants the object when its value comes": (
        _user("deletes before it is confirmed", "unused", "and self.requested is None", ""),
        _user(
            "does not delete when confirmed late",
            "ack",
            "effects + self.end_if_unused()",
            "effects",
        ),
        _user("forgets that its creation is outstanding", "create", "self.requested = fork"),
        _user("waits for an acknowledgement that came", "ack", "self.requested = None"),
    ),
    "an own object created by a message to itself": (
        _user("does not delete after the last child", "child_ack", "self.end_if_unused()", "[]"),
        _user("does not pin a fork it makes", "fork", "self.children[fork] = to"),
        _user("pins a confirmed child", "child_ack", "del self.children[message.fork]"),
    ),
    "the child dies": (
        _user(
            "does not delete after a burial", "forget", "return self.end_if_unused()", "return []"
        ),
        _user(
            "pins for the dead",
            "forget",
            "for fork, to in self.children.items() if to != worker",
            "for fork, to in self.children.items()",
        ),
    ),
    "a message that cannot be pickled": (
        _user(
            "does not delete after an abandoned fork",
            "abandon",
            "return self.end_if_unused()",
            "return []",
        ),
        _user("pins an abandoned fork", "abandon", "del self.children[fork]"),
    ),
    "two parents, one of them the owner": (
        _user("forgets its further forks", "_know", "self.known = added(self.known, fork)"),
    ),
    "a user shares with itself, the object is not its own": (
        _user("asks for what it holds confirmed", "arrive", "if self.confirmed:", "if False:"),
        _user("acknowledges before it is confirmed", "arrive", "if self.confirmed:", "if True:"),
        _user("does not acknowledge when confirmed", "arrive", CHILD_ACK, "[]"),
        _user("owes its parent nothing", "arrive", "self.owed[descriptor.fork] = ", "_ = "),
        _user("asks twice", "arrive", "if self.requested is not None:", "if False:"),
        _user("asks and forgets that it did", "arrive", "self.requested = descriptor.fork"),
        _user(
            "does not ask",
            "arrive",
            "[Send(self.owner, ForkRequest(rref=self.rref, fork=descriptor.fork))]",
            "[]",
        ),
        _user(
            "does not acknowledge when it becomes confirmed",
            "_know",
            "for child, parent in owed.items()",
            "for child, parent in ()",
        ),
        _user(
            "acknowledges again and again",
            "_know",
            "owed, self.owed = self.owed, EMPTY",
            "owed = self.owed",
        ),
    ),
    "the owner dies and its users keep what they have": (
        in_context("asks a dead owner", "accept", "user.lost or", ""),
        _user("owes for a dead owner's object", "lose", "self.owed = EMPTY"),
        _user("pins for a dead owner's object", "lose", "self.children = EMPTY"),
    ),
    "the owner sends twice, the user drops in between": (
        _user("deletes only the last fork", "_know", "added(self.known, fork)", "(fork,)"),
    ),
    "the owner dies while a method makes an object": (
        _user("believes in a dead owner", "lose", "self.lost = True"),
        _user("waits for a dead owner's answer", "lose", "self.pending = EMPTY_SET"),
    ),
    "a message is abandoned after its owner died": (
        _user("waits for a dead owner's ACK", "lose", "self.requested = None"),
    ),
    "a stranger dies": (
        _user(
            "unpins the living with the dead",
            "forget",
            "for fork, to in self.children.items() if to != worker",
            "for fork, to in ()",
        ),
        _user(
            "forgets what it owes the living",
            "forget",
            "for fork, parent in self.owed.items() if parent != worker",
            "for fork, parent in ()",
        ),
    ),
}
