"""The modules that ``import farref`` loads; a plain program loads no more later."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
import farref
print(*sys.modules)
"""
LATER = """
import sys
import farref

def loaded():
    import sys
    return set(sys.modules)

with farref.System() as system:
    before = loaded()
    system.worker("B")
    assert farref.rpc_sync("B", pow, args=(2, 3)) == 8
    ref = farref.remote("B", list, args=((1,),))
    assert ref.to_here() == [1]
    there = farref.rpc_sync("B", loaded)
    print(*(loaded() | there) - before)
"""
PACKAGES = {"cloudpickle", "farref", "msgspec", "thespian", "typing_extensions"}
"""All that is loaded besides Python's library; the last is msgspec's, if it is installed."""
BY_PATH = {"_distutils_hack", "_farref"}
"""Loaded by files in site-packages, at Python's start."""
LATE = {"sysconfig", "unittest", "xml", "email", "http"}
"""Parts of Python's library that take long to load, and that a plain program does not need."""


def modules(script: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_packages_that_an_import_loads() -> None:
    tops = {name.partition(".")[0] for name in modules(LOADED)}
    packages = {top for top in tops if not top.startswith("__")} - sys.stdlib_module_names - BY_PATH
    assert packages | {"typing_extensions"} == PACKAGES
    assert not tops & LATE


@pytest.mark.processes
def test_a_system_a_worker_and_a_call_load_no_more() -> None:
    """What is left out of the import is not left to the first call."""
    later = {name for name in modules(LATER) if not name.startswith("encodings.")}
    assert later <= {"multiprocessing.popen_fork"}
