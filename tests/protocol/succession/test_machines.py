"""The rules of `protocol.succession`, one by one. The explorer plays them together."""

from __future__ import annotations

from farref.protocol.succession.campaign import (
    Campaign,
    Deposed,
    Expired,
    Follow,
    Grant,
    Granted,
    Holder,
    Renew,
    Stand,
    TakeOver,
    Vacant,
    WhoLeads,
)
from farref.protocol.succession.ledger import MOST, Ledger, Written
from farref.protocol.succession.line import RegistrarLine


def leading() -> Campaign:
    """A candidate that leads, in term 3."""
    campaign = Campaign("me")
    assert campaign.tick() == WhoLeads()
    assert campaign.answered(Vacant()) == []
    assert campaign.tick() == Grant()
    assert campaign.answered(Granted(7)) == []
    assert campaign.tick() == Stand(7)
    assert campaign.answered(Holder(3, "me", 7)) == [TakeOver(3)]
    return campaign


def test_a_candidate_asks_one_question_at_a_time() -> None:
    campaign = leading()
    assert campaign.tick() == Renew(7)
    assert campaign.tick() is None


def test_a_candidate_without_its_lease_has_no_role_and_needs_a_new_one() -> None:
    campaign = leading()
    campaign.tick()
    assert campaign.answered(Expired()) == [Deposed()]
    assert campaign.tick() == WhoLeads()
    campaign.answered(Vacant())
    assert campaign.tick() == Grant()
    assert campaign.answered(Expired()) == []  # it has been deposed already


def test_a_candidate_that_gets_the_role_back_takes_over_anew() -> None:
    """Another one may have had it in between, and may have changed the facts."""
    campaign = leading()
    campaign.tick()
    assert campaign.answered(Holder(5, "me", 7)) == [TakeOver(5)]
    campaign.tick()
    assert campaign.answered(Holder(5, "me", 7)) == []


def test_a_candidate_that_did_not_hear_looks_before_it_stands_again() -> None:
    campaign = Campaign("me")
    campaign.tick()
    campaign.answered(Vacant())
    campaign.tick()
    assert campaign.answered(None) == []
    assert campaign.tick() == WhoLeads()


def test_a_candidate_follows_a_later_registrar_only() -> None:
    campaign = Campaign("me")
    campaign.tick()
    other = Holder(4, "other", 1)
    assert campaign.answered(other) == [Follow(other)]
    campaign.tick()
    assert campaign.answered(other) == []
    assert campaign.tick() == WhoLeads()  # until it is heard of
    campaign.answered(None)
    campaign.heard(3)
    assert campaign.tick() == WhoLeads()
    campaign.answered(None)
    campaign.heard(4)
    assert campaign.tick() is None
    campaign.suspect()
    assert campaign.tick() == WhoLeads()


def test_messages_wait_for_all_changes_before_them() -> None:
    ledger = Ledger(3, 10)
    ledger.send("nothing to wait for")
    assert ledger.released() == ["nothing to wait for"]
    ledger.change("a", b"1")
    ledger.send("after a")
    first = ledger.write()
    assert first is not None
    assert (first.term, first.number, first.after) == (3, 1, 10)
    ledger.send("also after a")
    ledger.change("b", None)
    ledger.send("after b")
    assert ledger.write() is None  # one at a time
    assert ledger.released() == []
    assert ledger.answered(None) == first
    second = ledger.answered(Written(11))
    assert ledger.released() == ["after a", "also after a"]
    assert second is not None
    assert (second.number, second.after, second.changes) == (2, 11, (("b", None),))
    assert not ledger.idle
    assert ledger.answered(Written(12)) is None
    assert ledger.released() == ["after b"]
    assert ledger.idle


def test_many_changes_take_several_writes_in_their_order() -> None:
    ledger = Ledger(1, 0)
    for number in range(MOST + 1):
        ledger.change(str(number), b"old")
    ledger.change("0", b"new")  # it is the last change now
    ledger.send("after all")
    first = ledger.write()
    assert first is not None
    assert [key for key, _ in first.changes] == [str(n) for n in range(1, MOST + 1)]
    second = ledger.answered(Written(1))
    assert ledger.released() == []
    assert second is not None
    assert second.changes == (("0", b"new"),)
    ledger.answered(Written(2))
    assert ledger.released() == ["after all"]


def test_a_line_sends_what_is_not_done_to_the_next_registrar() -> None:
    line = RegistrarLine()
    one, two = line.keep("one"), line.keep("two")
    assert line.follow(1, "A") == [one, two]
    assert line.follow(1, "A") is None
    line.done(one.number)
    assert line.follow(3, "B") == [two]
    assert line.registrar == "B"
    assert not line.believes(2)
    assert line.believes(3)
    line.done_if(lambda request: request == "two")
    assert line.follow(4, "C") == []
