"""Answers to a look whose parts are of different moments."""

from __future__ import annotations

from farref.protocol.context import Context
from farref.protocol.effects import Collect, Effect, Looked, Scan, Weigh
from farref.protocol.holders import SOME
from farref.protocol.ids import RRefId, WorkerId


def test_what_a_holder_leads_to_lives_if_the_holder_has_gone_meanwhile() -> None:
    """The finding names the holder, and there is nothing to tell of how that is held."""
    context = Context(WorkerId("A", 1))
    held, holder = context.own(), context.own()
    report = context.holder_reports.begin([held], exact=True)
    context.holder_reports.count(report, context.holder_reports.entries_of([held, holder]))
    report.see({held: {holder: 1}})
    context.drop(holder)
    assert context.holder_reports.finish(report) == ()


def test_an_answer_is_silent_about_what_the_living_lead_to() -> None:
    """The search would find out that it lives: so this makes answers shorter, and no more."""
    context = Context(WorkerId("A", 1))
    living, led, further = (context.own() for _ in range(3))
    report = context.holder_reports.begin([further], exact=True)
    context.holder_reports.count(report, context.holder_reports.entries_of([living, led, further]))
    report.see({further: {led: 1}, led: {living: 1}})  # a variable has *living*
    assert context.holder_reports.finish(report) == ()


def test_handles_are_those_of_the_moment_of_the_finding() -> None:
    context = Context(WorkerId("A", 1))
    rref = context.own()
    context.hold(rref)  # one in its value, and one in a variable
    report = context.holder_reports.begin([rref], exact=True)
    context.holder_reports.count(report, context.holder_reports.entries_of([rref]))
    report.see({rref: {rref: 1}})
    context.drop(rref)
    assert context.holder_reports.finish(report) == ()
    report = context.holder_reports.begin([rref], exact=True)
    context.holder_reports.count(report, context.holder_reports.entries_of([rref]))
    report.see({rref: {rref: 1}})
    (grip,) = context.holder_reports.finish(report)
    assert grip.by == (rref,)


def test_an_object_that_was_not_counted_lives() -> None:
    context = Context(WorkerId("A", 1))
    rref = context.own()
    report = context.holder_reports.begin([rref], exact=True)
    report.see({rref: {rref: 1}})
    assert context.holder_reports.finish(report) == ()


def test_the_cuts_of_one_search_are_made_some_at_a_time() -> None:
    """A death ends no search that has been judged: what it has found stays garbage."""
    context = Context(WorkerId("A", 1))
    rrefs = [context.own() for _ in range(2 * SOME + 1)]
    found = {rref: {rref: 1} for rref in rrefs}
    collected: list[RRefId] = []
    reported: list[RRefId] = []
    steps = 0
    ahead = context.suspect_cycle(rrefs)
    while ahead:
        assert sum(isinstance(each, Collect) for each in ahead) <= SOME
        follow: list[Effect] = []
        for effect in ahead:
            match effect:
                case Scan(asker=asker, look=look):
                    report = context.holder_reports.begin(effect.rrefs, exact=effect.exact)
                    context.holder_reports.count(report, context.holder_reports.entries_of(rrefs))
                    report.see(found)
                    follow += context.scanned(asker, look, context.holder_reports.finish(report))
                case Weigh(start=start):
                    follow += context.weigh_cycle(start)
                case Collect(rref=rref):
                    collected.append(rref)
                    steps += 1
                    if steps == 2:
                        follow += context.died(WorkerId("B", 2))
                case Looked(garbage=garbage):
                    reported += [each.objects[0] for each in garbage]
        ahead = follow
    assert collected == reported == rrefs
    assert not context.state.searches
