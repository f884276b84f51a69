"""`System.overview`: of a large table only a part is looked at."""

from farref import RRef, System

EACH = 10_000


def test_objects_that_are_made_in_turns_are_all_seen() -> None:
    """Of four objects in a row one is looked at, and not always the first."""
    with System("simpleSystemBase") as system:
        refs: list[RRef[object]] = []
        for number in range(EACH):
            refs += RRef(number), RRef(str(number))
        groups = system.overview().endpoints["program"].groups
        found = {each.type: each.count for each in groups}
        assert found.keys() == {"int", "str"}
        assert all(0.8 * EACH < count < 1.2 * EACH for count in found.values()), found
        assert len(refs) == 2 * EACH
