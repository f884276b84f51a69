"""A function that is called against its duty is found (`farref.actors.core.duties`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from farref import System

from ...duties import broken

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.processes
def test_a_broken_duty_is_an_error_and_is_written_down(own_folder: Path) -> None:
    with System() as system:
        core = system.endpoint.core
        with pytest.raises(AssertionError, match="record_no_more was not called under the lock"):
            core.record_no_more()
        with core.lock:
            core.record_no_more()
        assert "record_no_more was not called under the lock" in broken().read_text()
