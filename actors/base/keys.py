"""The key that all hosts of a system share: makes it, reads it, and refuses bad ones.

A stranger that dials a host gets an HMAC by the key, and can try any number of keys on it offline.
So a key must be random and long enough that guessing is hopeless.  A key is

- 32 random bytes or more, raw, or
- as many in hexadecimal digits, as ``farref key FILE``, ``openssl rand -hex 32`` and Python's
  ``os.urandom().hex()`` write them.

Any other text is refused, however long it is, because it may be a passphrase that somebody has
chosen.  A key that repeats a few bytes is refused, too.  No check can distinguish every chosen key
from a random one: use one that a machine has made.

The file of a key belongs to this user (or to root), and nobody else may read it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from .errors import KeyRequired

SIZE: Final = 32  # bytes
DIFFERENT: Final = 16  # different bytes; 32 random ones have fewer once in 10**17 keys
LARGEST: Final = 1 << 16  # bytes of a file that are read: a device may have no end
HEX: Final = frozenset(b"0123456789abcdefABCDEF")
MAKE: Final = "make one with: farref key FILE"


def new() -> bytes:
    return os.urandom(SIZE)


def make(path: Path) -> None:
    """Write a new key to the new file *path*, which only this user may read.

    Raises FileExistsError, and OSError where no file can be written.
    """
    write(path, os.urandom(SIZE).hex().encode() + b"\n")


def write(path: Path, content: bytes) -> None:
    """Write the new file *path*, which only this user may read, or none.  Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            path.unlink()  # do not leave half a key behind
            raise


def checked(given: bytes, origin: str = "the shared key") -> bytes:
    """The key in the bytes *given*; *origin* names their source.

    A checked key may be checked again.  Raises :class:`KeyRequired` if it is not a key.
    """
    text = given.strip()
    written = bool(text) and set(text) <= HEX
    if written and len(text) % 2:
        raise KeyRequired(f"{origin} has {len(text)} hexadecimal digits, an odd number; {MAKE}")
    key = bytes.fromhex(text.decode()) if written else given
    if len(key) < SIZE:
        raise KeyRequired(f"{origin} has {len(key)} bytes; it needs at least {SIZE}: {MAKE}")
    if _is_text(key):
        raise KeyRequired(
            f"{origin} is text, and text may be guessed; it must be {SIZE} random bytes, or"
            f" {2 * SIZE} hexadecimal digits of such: {MAKE}"
        )
    if len(set(key)) < DIFFERENT:
        raise KeyRequired(f"{origin} repeats {len(set(key))} different bytes; {MAKE}")
    return key


def read(path: str | os.PathLike[str]) -> bytes:
    """The key in the file *path*.

    Raises :class:`KeyRequired` if others may know it, or if it is not a key, and OSError.
    """
    name = os.fspath(path)
    with open(name, "rb") as file:
        status = os.fstat(file.fileno())  # of the open file: the path may lead elsewhere by now
        if status.st_uid not in {os.getuid(), 0}:
            raise KeyRequired(
                f"the key file {name} belongs to uid {status.st_uid}, who knows the key: make"
                f" another one with: farref key FILE"
            )
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            import shlex  # noqa: PLC0415 - nearly all keys are right

            raise KeyRequired(
                f"other users may read or write the key file {name} (mode {mode:04o}): change that"
                f" with: chmod 600 {shlex.quote(name)}"
            )
        return checked(file.read(LARGEST), f"the key file {name}")


def given(text: str) -> bytes:
    """The key in *text*: its hexadecimal digits, or the path of its file.

    Raises as :func:`read` does.
    """
    text = text.strip()  # the line end of a key's file, if that became a variable
    written = len(text) >= 2 * SIZE and set(text.encode()) <= HEX
    return checked(text.encode()) if written else read(text)


def _is_text(key: bytes) -> bool:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)
