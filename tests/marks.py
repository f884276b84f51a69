"""Marks of tests that need a feature of Linux: `make elsewhere` skips them, with the reason."""

from importlib.util import find_spec

import pytest

from farref.features import has
from farref.serialization import shared

NAMES = pytest.mark.skipif(not has("procfs"), reason="without a /proc processes keep their names")
SHARED_MEMORY = pytest.mark.skipif(not shared.USABLE, reason="shared memory by memfd is Linux's")
COUNTED = pytest.mark.skipif(
    not (shared.USABLE and has("epoll") and has("eventfd")),
    reason="the counts are those of Linux's ways",
)
TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed here")
