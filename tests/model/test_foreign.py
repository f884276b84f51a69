"""Each message that no correct peer sends is refused, and changes nothing."""

import pytest

from .foreign import FOREIGN, Foreign


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
def test_a_foreign_message_changes_nothing(foreign: Foreign) -> None:
    assert foreign.flaw() is None
