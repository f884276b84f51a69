"""The accepted keys, from bytes and from files; keys that others may know or guess are refused."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from farref.actors.base import KeyRequired, keys, system_base

RAW = hashlib.sha512(b"random, but the same in every process that runs the tests").digest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a key"
    keys.make(path)
    return path


def test_a_made_key_is_ours_alone_and_random(file: Path, tmp_path: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    assert keys.read(file) == bytes.fromhex(file.read_text())
    other = tmp_path / "other"
    keys.make(other)
    assert len({keys.read(file), keys.read(other)}) == 2
    assert len(keys.read(file)) == 32


def test_a_key_is_made_once(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (file, link):
        with pytest.raises(FileExistsError):
            keys.make(taken)
    assert file.read_bytes() == before
    assert not (tmp_path / "elsewhere").exists()


def test_openssl_writes_keys(tmp_path: Path) -> None:
    file = tmp_path / "key"
    command = ["openssl", "rand", "-hex", "-out", str(file), "32"]
    subprocess.run(command, check=True, umask=0o077)
    assert len(keys.read(file)) == 32


def test_a_file_and_its_bytes_are_the_same_key(file: Path) -> None:
    for content in (file.read_bytes(), RAW, RAW.hex().encode(), RAW.hex().upper().encode()):
        file.write_bytes(content)
        key = keys.read(file)
        assert key == keys.checked(content) == keys.checked(key)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"", "0 bytes"),
        (b"short", "5 bytes; it needs at least 32"),
        (RAW[:31], "31 bytes"),
        (RAW[:16].hex().encode(), "16 bytes"),
        (RAW.hex()[1:].encode(), "an odd number"),
        (b"correcthorsebatterys", "20 bytes"),
        (b"correct horse battery staple, and some more of it", "may be guessed"),
        ("Donaudampfschifffahrtselektrizitätenhauptbetriebswerk".encode(), "may be guessed"),
        (base64.b64encode(RAW), "may be guessed"),
        (b"correct horse battery staple, and more".hex().encode(), "may be guessed"),
        (bytes(1000), "1 different bytes"),
        (b"1234567890" * 8, "5 different bytes"),
        (b"deadbeef" * 8, "4 different bytes"),
    ],
)
def test_what_may_be_guessed_is_refused(file: Path, bad: bytes, why: str) -> None:
    file.write_bytes(bad)
    for key in (bad, file):
        with pytest.raises(KeyRequired, match=why) as refused:
            system_base(host="192.0.2.7", port=1900, key=key)
        assert "farref key FILE" in str(refused.value)


def test_random_bytes_are_taken() -> None:
    for _ in range(10_000):
        key = os.urandom(32)
        assert keys.checked(key) == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_may_get_at_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(KeyRequired, match=f"chmod 600 '{file}'"):
        keys.read(file)
    file.chmod(0o400)
    keys.read(file)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(file: Path) -> None:
    os.chown(file, 12345, -1)
    with pytest.raises(KeyRequired, match="belongs to uid 12345"):
        keys.read(file)
