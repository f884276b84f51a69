"""The directory of sockets is ours alone, and sockets of dead processes are swept."""

from __future__ import annotations

import fcntl
import math
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from farref import SystemDownError
from farref.actors.base import (
    InvalidAddress,
    OtherUsersDirectory,
    PathTooLong,
    UnsafeDirectory,
    rundir,
    system_base,
)
from farref.actors.base.addresses import (
    Address,
    admin_address,
    advertised,
    new_address,
    numeric,
    parse,
    place,
    socket_path_of,
)
from farref.actors.base.lookups import Lookups
from farref.actors.base.settings import Limits, SystemSettings
from farref.actors.base.system import shared_key
from farref.actors.hosting.directory import folder

OTHER = 12345
"""The id of another user."""


def test_it_is_made_for_us_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short(tmp_path)))
    directory = rundir.private_directory()
    assert directory.parent == short(tmp_path)
    assert directory.stat().st_mode & 0o777 == 0o700


def short(path: Path) -> Path:
    """A short name for pytest's long *path*, so that sockets fit."""
    link = Path("/tmp", f"t{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    return link


@pytest.fixture(autouse=True)
def no_link_left() -> object:
    yield
    Path("/tmp", f"t{os.getpid()}").unlink(missing_ok=True)


def test_directories_that_are_not_ours_alone(tmp_path: Path) -> None:
    above = short(tmp_path)
    (above / "open").mkdir()
    (above / "open").chmod(0o750)
    (above / "link").symlink_to(tmp_path)
    (above / "file").touch()
    refused = {"open": "0750", "link": "not a directory", "file": "not a directory"}
    if os.getuid() == 0:  # only root can give a directory away
        (above / "given").mkdir(mode=0o700)
        os.chown(above / "given", OTHER, -1)
        refused["given"] = f"uid {OTHER}"
    for name, why in refused.items():
        with pytest.raises(UnsafeDirectory, match=why):
            rundir.verified(above / name)
    with pytest.raises(PathTooLong):
        rundir.verified(tmp_path / ("x" * 90))


def test_a_long_runtime_directory_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert deep not in rundir.private_directory().parents


as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make what is another user's")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory, as on a machine with several users."""
    directory = short(tmp_path)
    tmp_path.chmod(0o1777)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


def test_the_temporary_directory_may_be_shared(temporary: Path) -> None:
    assert rundir.private_directory() == temporary / f"farref-{os.getuid()}"


@as_root
@pytest.mark.parametrize("kind", ["directory", "link", "file"])
def test_a_name_that_another_user_took_is_passed_over(temporary: Path, kind: str) -> None:
    """A fresh directory is used instead, and every program finds the same one."""
    taken = temporary / f"farref-{os.getuid()}"
    match kind:
        case "directory":
            taken.mkdir(mode=0o700)
        case "link":
            (temporary / "real").mkdir(mode=0o700)
            taken.symlink_to(temporary / "real")
        case _:
            taken.touch()
    os.chown(taken, OTHER, -1, follow_symlinks=False)
    bait = temporary / f"{taken.name}-0"  # sorts before any of ours
    bait.mkdir(mode=0o700)
    os.chown(bait, OTHER, -1)
    found = rundir.private_directory()
    assert found.parent == temporary
    assert found.name.startswith(f"{taken.name}-")
    assert found.stat().st_uid == os.getuid()
    assert found.stat().st_mode & 0o777 == 0o700
    assert rundir.private_directory() == found == folder()
    script = "from farref.actors.base import rundir; print(rundir.private_directory())"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == f"{found}\n"


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_directory_that_others_could_replace_is_passed_over(temporary: Path, mode: int) -> None:
    """Others may write in its parent, where no sticky bit prevents a rename."""
    parent = temporary / "above"
    parent.mkdir()
    parent.chmod(mode)
    (parent / "middle").mkdir(mode=0o700)
    with pytest.raises(OtherUsersDirectory, match=f"mode {mode:04o}.*chmod go-w {parent}"):
        rundir.verified(parent / "middle" / "farref")
    assert not (parent / "middle" / "farref").exists()
    parent.chmod(mode | 0o1000)
    assert rundir.verified(parent / "middle" / "farref").exists()


@as_root
@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_directory_below_another_users_is_passed_over(
    temporary: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = temporary / "above"
    if kind == "link":
        (temporary / "real").mkdir(mode=0o700)
        parent.symlink_to(temporary / "real")
    else:
        parent.mkdir(mode=0o700)
    os.chown(parent, OTHER, -1, follow_symlinks=False)
    with pytest.raises(OtherUsersDirectory, match=f"{parent} belongs to uid {OTHER}"):
        rundir.verified(parent / "farref")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(parent))
    assert rundir.private_directory() == temporary / f"farref-{os.getuid()}"


def test_our_own_mistake_is_an_error(temporary: Path) -> None:
    """Our own directory, open to others, is not passed over: we can repair it."""
    (temporary / f"farref-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(UnsafeDirectory, match="0755"):
        rundir.private_directory()
    with pytest.raises(SystemDownError, match="0755"):
        folder()


LOGS = """
    from thespian.actors import ActorSystem
    from thespian.system.utilis import thesplog
    import farref, logging, sys

    if sys.argv[1] == "base":
        from farref.actors.base import system_base
        system = ActorSystem(systemBase=system_base(), transientUnique=True)
    else:
        system = farref.System()
    thesplog("a line of %s", "Thespian's", level=logging.ERROR)
    system.shutdown()
"""


@pytest.mark.processes
@pytest.mark.parametrize("start", ["base", "farref"])
def test_thespians_log_is_in_our_directory(
    temporary: Path, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the temporary directory another user may have made a link of that name."""
    monkeypatch.delenv(rundir.THESPIAN_LOG, raising=False)
    monkeypatch.setenv("THESPLOG_THRESHOLD", "INFO")  # else farref keeps it quiet
    victim = temporary / "victim"
    victim.touch()
    (temporary / "thespian.log").symlink_to(victim)
    command = [sys.executable, "-c", textwrap.dedent(LOGS), start]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert victim.read_bytes() == b""
    assert "a line of Thespian's" in (rundir.private_directory() / "thespian.log").read_text()


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    path = str(short(tmp_path) / "a.admin")
    with rundir.listen_at(path):
        assert rundir.answers(path)
        with pytest.raises(FileExistsError):
            rundir.listen_at(path)
        assert not rundir.remove_if_dead(path)
    assert not rundir.answers(path)
    assert rundir.remove_if_dead(path)
    assert not list(tmp_path.iterdir())


def test_sweeping_takes_the_dead_and_leaves_the_living(tmp_path: Path) -> None:
    directory = short(tmp_path)
    dead = [f"{name}" for name in ("gone-1", "x-1", "b.admin")]
    for name in dead:
        rundir.listen_at(str(directory / name)).close()
    os.close(rundir.declare_alive(directory, "gone"))
    living = rundir.declare_alive(directory, "here")
    with rundir.listen_at(str(directory / "here-1")), rundir.listen_at(str(directory / "x-2")):
        rundir.sweep(directory)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["here-1", "here.alive", "x-2"]
    os.close(living)
    rundir.sweep(directory)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("torn", [None, b"", b"half of"])
def test_the_loopback_key_is_made_once_and_ours(tmp_path: Path, torn: bytes | None) -> None:
    """And anew if it is torn: an empty key would let in every user of this host."""
    directory, file = short(tmp_path), tmp_path / "key"
    if torn is not None:
        file.write_bytes(torn)
        file.chmod(0o600)
    key = shared_key(None, "127.0.0.1", directory)
    assert len(key) == 32
    assert key == shared_key(None, "127.0.0.1", directory) == file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"key", "lock"}


@pytest.mark.parametrize("host", ["", "0.0.0.0", "224.0.0.1", "255.255.255.255", "no such host"])
def test_hosts_that_nobody_can_dial(host: str) -> None:
    with pytest.raises(InvalidAddress, match=r"that others dial|cannot resolve"):
        numeric(host)


@pytest.mark.parametrize("port", [0, -1, 70_000, True, "1900"])
def test_ports_that_nobody_can_dial(port: Any) -> None:
    with pytest.raises(InvalidAddress, match="is no port: use a whole number from 1 to 65535"):
        system_base(host="127.0.0.1", port=port)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "x-1", "n" * 25, "ü"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(InvalidAddress):
        rundir.checked_name(name)


def settings(host: str = "") -> SystemSettings:
    return SystemSettings(
        name="p1900", directory=Path("/d"), system_id="i", host=host, port=1900, limits=Limits()
    )


def test_an_admin_is_found_by_what_is_written() -> None:
    near, far = settings(), settings("10.0.0.1")
    for spec in ("localhost:1900", ("", 1900), "", "127.0.0.1"):
        assert parse(near, spec) == admin_address(near)
        assert parse(far, spec) == admin_address(far)
    assert parse(far, "10.0.0.2:1901") == Address("10.0.0.2:1901")
    assert parse(settings("127.0.0.2"), "127.0.0.1:1900").host == "127.0.0.1"


def test_addresses_of_ipv6() -> None:
    mine = settings("fd00::1")
    assert admin_address(mine).key == "[fd00::1]:1900"
    assert admin_address(mine).well_known
    texts = "[fd00::1]:1900", "[fd00::1]", "fd00::1", "fd00:0::1", "localhost"
    for spec in (*texts, ("fd00::1", "")):
        assert parse(mine, spec) == admin_address(mine)
    assert parse(mine, "[fd00::2]:1901") == Address("[fd00::2]:1901")
    assert (place("fd00::1", 1900), place("fd00::1", 1901)) == ("fd00::1", "[fd00::1]:1901")
    assert numeric("::1") == numeric("0:0::1") == "::1"
    assert numeric("localhost") == "127.0.0.1", "which comes first"
    assert numeric("::ffff:127.0.0.1") == "127.0.0.1"
    assert numeric("::", listen=True) == "::"
    with pytest.raises(InvalidAddress, match="is another machine on each link"):
        numeric("fe80::1")


def test_names_stay_names_where_they_are_advertised() -> None:
    assert advertised("no-such-host.example", 1901) == ("no-such-host.example", 1901)
    assert advertised("a_b:5", 1901) == ("a_b", 5)
    assert advertised("[0:0::2]:5", 1901) == ("::2", 5)
    assert parse(settings("10.0.0.1"), "a.example") == Address("a.example:1900")
    for spec in ("", ":5", "-a", "a b", "a..b", "x" * 64, "0.0.0.0:5", "a:0", "ü"):
        with pytest.raises(InvalidAddress):
            advertised(spec, 1901)


def test_a_stranger_names_no_path() -> None:
    mine = settings("10.0.0.1")
    known = new_address(mine, "i")
    assert socket_path_of(mine, known.key) == known.path
    assert socket_path_of(mine, new_address(mine, "x").key)
    two = 20 * "\N{SUPERSCRIPT TWO}"
    rests = ("", "../../etc", f"../{16 * '0'}", f"{19 * '0'}/", 21 * "0", two)
    for key in ("", "key", "lock", "\0", f"j-{20 * '0'}", *(f"i-{rest}" for rest in rests)):
        assert socket_path_of(mine, key) == ""


def test_a_name_is_looked_up_without_waiting() -> None:
    woken = threading.Event()
    lookups = Lookups(woken.set)
    assert lookups.numeric("::1") == ["::1"]
    assert lookups.numeric("localhost") is None
    assert woken.wait(20)
    assert {"127.0.0.1", "::1"} & set(lookups.numeric("localhost") or ())


def test_a_name_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked up again later: a machine may get its name after its dialler."""
    woken = threading.Event()
    lookups = Lookups(woken.set)
    for name in ("no such host", "x" * 70):
        woken.clear()
        assert lookups.numeric(name) is None
        assert woken.wait(20)
        with pytest.raises(OSError, match=r"Name|resolve"):
            lookups.numeric(name)
    monkeypatch.setattr("farref.actors.base.lookups.monotonic", lambda: math.inf)
    woken.clear()
    assert lookups.numeric("no such host") is None
    assert woken.wait(20)


NONSENSE = ["[::1", "[::1]x", "[h]:1", "h:p:q", "h:0", "h:70000", 5, None, ("a", "b"), ("a",)]


@pytest.mark.parametrize("spec", NONSENSE)
def test_nonsense_is_no_address(spec: object) -> None:
    with pytest.raises(InvalidAddress):
        parse(settings("10.0.0.1"), spec)


def test_another_host_needs_tcp() -> None:
    with pytest.raises(InvalidAddress, match="no TCP"):
        parse(settings(), "10.0.0.2:1900")


@pytest.mark.parametrize("field", ["max_queued_bytes", "stall_timeout"])
def test_limits_are_positive(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Limits(**{field: 0})


def test_a_child_that_is_forked_meanwhile_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Another thread may start a system while this one looks for systems that are gone."""
    with rundir.claiming(tmp_path):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        descriptor = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else BlockingIOError
        os.close(descriptor)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
