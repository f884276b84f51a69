"""The runtime directory: the sockets of this host, in one private directory per user.

All files of a user are in one directory of mode 0700, because a process that may connect to one of
these sockets can make its owner unpickle code:

=======================  ====================================================
``lock``                 held for the instant in which a system claims its name
``<name>.admin``         the well-known socket of the system called *name*
``<id>.alive``           locked (shared) by processes of the system *id*
``<id>-<random>``        the socket of one actor of the system *id*
``x-<random>``           the socket of one outside program (or ``private()``)
``.new-<pid>-<random>``  a file that its process will rename when it is complete
``host-<pid>-<random>.host``  the entry of a program that has made this machine a host
``key``                  secret for TCP over loopback, made on first use
``thespian.log``         Thespian's own log, unless ``THESPLOG_FILE`` says another
=======================  ====================================================

Every program of a user finds the same directory, as long as its environment names the same
``XDG_RUNTIME_DIR`` and ``TMPDIR``.  It is the first of these that is safe to use:

1. ``$XDG_RUNTIME_DIR/farref``;
2. ``farref-<uid>`` in the temporary directory, then in ``/tmp``;
3. ``farref-<uid>-<random>`` there, made when another user has taken that name.  Other users cannot
   make a directory that belongs to us, so we recognise ours by its owner.

*Safe* means that no other user can enter it, or put another directory in its place.  So each
directory above it belongs to root or to us, and if others may write there, the sticky bit keeps
them from renaming ours.

A socket file outlives a process that was killed.  So the next program that starts a system, or
looks for one, sweeps: it removes the sockets of a system if no process locks its ``.alive``, and
sockets that refuse connections.  A socket that is bound but does not listen yet would look dead.
So a socket is bound under a hidden name, and renamed when it listens.  Names are random, except an
admin's, which is taken while :func:`claiming`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import keys, lives
from .errors import BaseError, InvalidAddress, OtherUsersDirectory, PathTooLong, UnsafeDirectory

MAX_SOCKET_PATH = 103  # sun_path is 104 bytes on macOS with its final NUL, and 108 on Linux
LONGEST_NAME = 40  # the longest file name this module makes, ".new-" included
BACKLOG = 4096
THESPIAN_LOG = "THESPLOG_FILE"  # Thespian's environment variable
_log = ""
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")


def private_directory() -> Path:
    """The user's directory, made if needed and verified; see the module's text.

    Raises :class:`UnsafeDirectory` when no directory is safe, or others may enter ours.
    """
    runtime, name = os.environ.get("XDG_RUNTIME_DIR", ""), f"farref-{os.getuid()}"
    candidates = [Path(runtime, "farref")] if runtime and os.path.isdir(runtime) else []
    candidates += [Path(tempfile.gettempdir(), name), Path("/tmp", name)]  # noqa: S108 (it is verified)
    reasons = []
    for directory in dict.fromkeys(candidates):
        try:
            return verified(directory)
        except (OtherUsersDirectory, PathTooLong, OSError) as error:
            reasons.append(str(error))
        if directory.name == name:
            with contextlib.suppress(BaseError, OSError):
                return _fresh(directory.parent, f"{name}-")
    raise UnsafeDirectory("there is no safe directory for our sockets: " + "; ".join(reasons))


def _fresh(parent: Path, prefix: str) -> Path:
    """Our directory in *parent* with a random name, as another user has the usual name."""
    _check_above(parent / prefix)
    found = _first_safe(parent, prefix)
    if found is None:
        made = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        found = _first_safe(parent, prefix)  # another program of ours may have made one, too
        if found != made:
            made.rmdir()
    if found is None:
        raise PathTooLong(f"{parent}: sockets below it would not fit in {MAX_SOCKET_PATH} bytes")
    return found


def _first_safe(parent: Path, prefix: str) -> Path | None:
    for found in sorted(parent.glob(f"{prefix}*")):
        with contextlib.suppress(BaseError):
            return verified(found)
    return None


def _check_above(directory: Path) -> None:
    """Raise :class:`OtherUsersDirectory` if another user can put something else at *directory*."""
    literal = Path(os.path.abspath(directory)).parents
    real = Path(os.path.realpath(directory.parent) + "/x").parents
    for above in dict.fromkeys((*literal, *real)):
        status = above.lstat()
        if status.st_uid not in {os.getuid(), 0}:
            raise OtherUsersDirectory(
                f"{above} belongs to uid {status.st_uid}, who can replace {directory}"
            )
        shared = stat.S_IMODE(status.st_mode) & 0o022 and not stat.S_ISLNK(status.st_mode)
        if shared and not status.st_mode & stat.S_ISVTX:
            raise OtherUsersDirectory(
                f"other users may write in {above} (mode {stat.S_IMODE(status.st_mode):04o}), and"
                f" replace {directory}: chmod go-w {above}, or set XDG_RUNTIME_DIR"
            )


def thespian_log(directory: Path) -> Path:
    """The file of Thespian's own log."""
    return directory / "thespian.log"


def log_for_thespian(directory: Path) -> None:
    """Have Thespian write its own log, if it writes one, into *directory*.

    Its default is ``thespian.log`` in the temporary directory, where another user can put a
    symbolic link in its place.  Every process that this one starts does the same.
    """
    global _log  # noqa: PLW0603 (what this process has put into its environment)
    if os.environ.get(THESPIAN_LOG, _log) == _log:  # else the user has chosen one
        _log = os.environ[THESPIAN_LOG] = str(thespian_log(directory))


def verified(directory: Path) -> Path:
    """*directory*, which is made with mode 0700 if it is missing, and must be ours alone.

    Raises :class:`OtherUsersDirectory`, :class:`UnsafeDirectory`, :class:`PathTooLong`, OSError.
    """
    if len(os.fsencode(directory)) + 1 + LONGEST_NAME > MAX_SOCKET_PATH:
        raise PathTooLong(
            f"{directory}: sockets in this directory would not fit in {MAX_SOCKET_PATH} bytes;"
            " point XDG_RUNTIME_DIR or TMPDIR to a shorter path"
        )
    _check_above(directory)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    status = directory.lstat()  # a symbolic link may lead anywhere tomorrow: look at it itself
    if status.st_uid != os.getuid():
        raise OtherUsersDirectory(
            f"{directory} belongs to uid {status.st_uid}, not to {os.getuid()}:"
            " another user could read and answer our messages; remove it or set XDG_RUNTIME_DIR"
        )
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafeDirectory(f"{directory} is not a directory; remove it")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UnsafeDirectory(
            f"{directory} has mode {stat.S_IMODE(status.st_mode):04o}:"
            " other users may enter it; chmod it to 0700"
        )
    return directory


def checked_name(name: str) -> str:
    """*name* if it can name a system (1 to 24 letters, digits, ``_`` or ``.``)."""
    if not 1 <= len(name) <= 24 or not set(name) <= NAME_CHARACTERS or name.startswith("."):
        raise InvalidAddress(
            f"{name!r} cannot name a system: use 1 to 24 letters, digits, '_' or '.',"
            " not starting with '.'"
        )
    return name


def admin_path(directory: Path, name: str) -> str:
    """The well-known socket of the system called *name*."""
    return str(directory / f"{name}.admin")


def listen_at(path: str) -> socket.socket:
    """A listening socket published at *path*; ``FileExistsError`` if the name is taken."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise PathTooLong(f"{path}: longer than {MAX_SOCKET_PATH} bytes")
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "a socket has this name already", path)
    hidden = str(draft(Path(path).parent))
    with contextlib.ExitStack() as undo:
        sock = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        sock.bind(hidden)
        undo.callback(os.unlink, hidden)
        sock.listen(BACKLOG)
        os.rename(hidden, path)  # not `link`: macOS is not known to link sockets
        undo.pop_all()
        return sock


def draft(directory: Path) -> Path:
    """A fresh name in *directory* for a file that this process will rename when it is complete."""
    return directory / f".new-{os.getpid()}-{os.urandom(4).hex()}"


def _is_abandoned(own: Path) -> bool:
    """Whether the process that has made the file *own*, and whose pid is in its name, has ended."""
    try:
        pid = int(own.name.split("-")[1])
        return not lives.Watched(pid, lives.started(pid)).alive()
    except (ProcessLookupError, ValueError):
        return True


def answers(path: str) -> bool:
    """Whether some process listens at *path*."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError as error:
            # A full backlog (EAGAIN) is a listener too, only a busy one.
            return error.errno == errno.EAGAIN
        return True


def remove_if_dead(path: str) -> bool:
    """Unlink the socket at *path* if no process listens there. Return whether it was removed."""
    if answers(path):
        return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        return True
    return False


@contextlib.contextmanager
def claiming(directory: Path) -> Iterator[None]:
    """Hold the user's lock, so that of several starters of one name only one wins.

    Hold it for a probe and a bind only, never across the start of a process.
    """
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Closing would not unlock if another thread has forked: its child has a copy.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def declare_alive(directory: Path, system_id: str, name: str = "") -> int:
    """Mark system *system_id* as alive for as long as the returned descriptor is open.

    With a *name* the caller is its admin, and others can find that out (:func:`mark_of`).
    """
    descriptor = os.open(
        directory / f"{system_id}.alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    if name:
        os.pwrite(descriptor, f"{name}\n{os.getpid()}\n".encode(), 0)
    return descriptor


def mark_of(directory: Path, name: str) -> tuple[Path, int] | None:
    """The mark of the system called *name*, if its admin has made one, and the admin's pid."""
    for mark in directory.glob("*.alive"):
        with contextlib.suppress(OSError, ValueError):  # it has just ended; its admin has no mark
            found, pid = mark.read_text().split()
            if found == name:
                return mark, int(pid)
    return None


def remove_system(directory: Path, system_id: str) -> None:
    """Unlink every socket of the system *system_id*, then the mark of its life."""
    for entry in directory.glob(f"{system_id}-*"):
        entry.unlink(missing_ok=True)
    (directory / f"{system_id}.alive").unlink(missing_ok=True)


def sweep(directory: Path) -> None:
    """Remove the files of ended processes.  Call it while :func:`claiming`."""
    for mark in directory.glob("*.alive"):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # a process of that system lives
            else:
                remove_system(directory, mark.stem)
            finally:
                os.close(descriptor)
    for pattern in ("*.admin", "x-*"):
        for entry in directory.glob(pattern):
            remove_if_dead(str(entry))
    for own in directory.glob(".new-*"):
        if _is_abandoned(own):
            own.unlink(missing_ok=True)


def loopback_key(directory: Path) -> bytes:
    """The secret that authenticates TCP over loopback when no key was given.

    Any user of this host may connect to a loopback port.  Only this user can read the key,
    so only this user gets in.  The file is complete or missing, never empty: an empty key would
    let strangers in.
    """
    path = directory / "key"
    with claiming(directory):
        if not path.exists() or path.stat().st_size != keys.SIZE:
            hidden = draft(directory)
            keys.write(hidden, os.urandom(keys.SIZE))
            os.replace(hidden, path)
        return path.read_bytes()
