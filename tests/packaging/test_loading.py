"""The modules that ``import farref`` loads; a plain program loads no more later.

Whatever an import loads, each process of a system has in its memory.
"""

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

before = loaded()
with farref.System() as system:
    system.worker("B")
    assert farref.rpc_sync("B", pow, args=(2, 3)) == 8
    ref = farref.remote("B", list, args=((1,),))
    assert ref.to_here() == [1]
    there = farref.rpc_sync("B", loaded)
print(*(loaded() | there) - before)
"""
FORKS = """
import random, sys
from multiprocessing import get_context
random.Random("seed")
process = get_context("fork").Process(target=int)
process.start()
process.join()
print(*sys.modules)
"""
"""What Python itself loads for a fork: from 3.14 on the tracker of resources and json, too."""
EXIT = """
import os, sys
import farref

def say_what_is_loaded():
    import atexit, multiprocessing.util
    report = lambda: os.write(1, " ".join(sys.modules).encode())
    multiprocessing.util.Finalize(None, report, exitpriority=0)

with farref.System() as system:
    system.worker("B")
    farref.rpc_sync("B", say_what_is_loaded)
"""
ASYNC = """
import sys
import threading
import farref

def loops():
    import sys, threading
    names = [each.name for each in threading.enumerate()]
    return "asyncio" in sys.modules, [name for name in names if name.startswith("farref loop")]

async def nothing():
    pass

with farref.System() as system:
    system.worker("B")
    print(farref.rpc_sync("B", loops))
    farref.rpc_async("B", nothing).result()
    print(farref.rpc_sync("B", loops))
"""
HANDLERS = """
import sys
import farref
print("asyncio" in sys.modules)

class Handles(farref.RefActor):
    pass

print("asyncio" in sys.modules)
"""
PACKAGES = {"cloudpickle", "farref", "msgspec", "thespian", "typing_extensions"}
"""All that is loaded besides Python's library; the last is msgspec's, if it is installed."""
BY_PATH = {"_distutils_hack", "_farref", "sitecustomize"}
"""Loaded at Python's start: by files in site-packages, and by Debian's Python."""
LATE = {
    *("sysconfig", "unittest", "xml", "email", "http", "json"),
    *("asyncio", "_asyncio", "ctypes", "_ctypes"),
    *("ssl", "_ssl", "hashlib", "_hashlib", "hmac", "secrets"),  # they load OpenSSL
}
"""Parts of Python's library that take long to load, and that a plain program does not need."""
RARE = {
    *("farref.actors.rendezvous", "farref.actors.cluster.registrar_proxy"),
    *("farref.actors.cluster.etcd", "farref.protocol.succession", "farref.rpc", "farref.ray"),
}
"""Parts of farref that most programs do not need."""
MOST_OURS = 224
"""The most modules of farref that an import may load. Each takes a quarter of a millisecond."""


def printed(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout


def modules(script: str) -> set[str]:
    return set(printed(script).split())


def test_the_packages_that_an_import_loads() -> None:
    found = modules(LOADED)
    tops = {name.partition(".")[0] for name in found}
    packages = {top for top in tops if not top.startswith("__")} - sys.stdlib_module_names - BY_PATH
    assert packages | {"typing_extensions"} == PACKAGES
    assert not tops & LATE
    assert "farref.actors.cluster.registrar" in found
    assert not RARE & found
    assert len([each for each in found if each.partition(".")[0] == "farref"]) <= MOST_OURS


@pytest.mark.processes
def test_a_system_a_worker_and_a_call_load_no_more() -> None:
    """What is left out of the import is not left to the first call."""
    later = {name for name in modules(LATER) if not name.startswith("encodings.")}
    assert later <= modules(FORKS)


@pytest.mark.processes
def test_a_worker_ends_without_asyncio() -> None:
    loaded = modules(EXIT)
    assert "farref" in loaded
    assert not {name.partition(".")[0] for name in loaded - modules(FORKS)} & LATE


@pytest.mark.processes
def test_a_worker_has_a_loop_from_its_first_async_function_on() -> None:
    assert printed(ASYNC).splitlines() == ["(False, [])", "(True, ['farref loop B'])"]


def test_a_class_with_handlers_loads_asyncio_before_any_fork() -> None:
    assert printed(HANDLERS).split() == ["False", "True"]
