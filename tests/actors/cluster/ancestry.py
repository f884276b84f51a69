"""The processes of a host, as the operating system shows them."""

from __future__ import annotations

import os

import psutil

import farref


def maker_of(worker: str) -> psutil.Process:
    """The parent of the worker *worker*: the registrar, or the agent or proxy of its host."""
    parent = psutil.Process(farref.rpc_sync(worker, os.getpid)).parent()
    assert parent is not None
    return parent


def admin_of(worker: str) -> psutil.Process:
    """The admin of the host of *worker*: all other processes of the host descend from it."""
    admin = maker_of(worker).parent()
    assert admin is not None
    return admin


def processes_of(worker: str) -> list[psutil.Process]:
    """The processes of the host of *worker*, the admin first."""
    admin = admin_of(worker)
    return [admin, *admin.children(recursive=True)]
