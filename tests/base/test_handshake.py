"""The handshake, cut at every byte, and every stranger it must refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farref.actors.base import Address, HandshakeError
from farref.actors.base.handshake import MAGIC, NONCE, PROOF, Acceptor, Dialler

KEY = b"k" * 32
ME = Address("me-1", "/run/me-1", "10.0.0.1", 4000)


def dialler(want: str = "you", key: bytes = KEY) -> Dialler:
    return Dialler(want, ME, key, b"d" * NONCE)


def acceptor(key: bytes = KEY, nonce: bytes = b"a" * NONCE) -> Acceptor:
    return Acceptor(Address("you"), key, nonce)


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def converse(one: Dialler, other: Acceptor, size: int) -> None:
    """Carry every byte of both, in pieces of *size*."""
    to_acceptor, to_dialler = one.opening, b""
    while to_acceptor or to_dialler:
        to_dialler = b"".join(other.feed(piece) for piece in in_pieces(to_acceptor, size))
        to_acceptor = b"".join(one.feed(piece) for piece in in_pieces(to_dialler, size))


@pytest.mark.parametrize("key", [b"", KEY], ids=["local", "keyed"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 31, 64, 1000])
def test_both_know_each_other_whatever_the_pieces(key: bytes, size: int) -> None:
    one, other = dialler(key=key), acceptor(key=key)
    converse(one, other, size)
    assert one.done
    assert other.peer is not None
    assert (other.peer.key, other.peer.path, other.peer.host, other.peer.port) == (
        ME.key,
        ME.path,
        ME.host,
        ME.port,
    )


@pytest.mark.parametrize("key", [b"", KEY], ids=["local", "keyed"])
def test_what_follows_the_handshake_is_kept(key: bytes) -> None:
    one, other = dialler(key=key), acceptor(key=key)
    data = one.opening
    if key:
        answer = other.feed(data)
        data = one.feed(answer)
    other.feed(data + b"frames")
    assert other.rest == b"frames"


def test_the_key_is_never_sent() -> None:
    one, other = dialler(), acceptor()
    challenge = other.feed(one.opening)
    assert KEY not in one.opening + challenge + one.feed(challenge)


def test_a_dialler_with_another_key_is_refused_by_both() -> None:
    one, other = dialler(key=b"x" * 32), acceptor()
    with pytest.raises(HandshakeError, match="acceptor does not know"):
        one.feed(other.feed(one.opening))
    forged = bytes(PROOF) + one._introduction
    with pytest.raises(HandshakeError, match="dialler does not know"):
        other.feed(forged)
    assert other.peer is None


def test_a_replayed_session_is_refused() -> None:
    one, other = dialler(), acceptor()
    recorded = [one.opening, one.feed(other.feed(one.opening))]
    other.feed(recorded[1])
    assert other.peer is not None
    later = acceptor(nonce=b"b" * NONCE)
    later.feed(recorded[0])
    with pytest.raises(HandshakeError, match="dialler does not know"):
        later.feed(recorded[1])


def test_a_reflected_proof_is_refused() -> None:
    # The stranger has the acceptor prove itself to another dialler, and uses that proof.
    victim = acceptor()
    challenge = victim.feed(MAGIC + b"K" + b"d" * NONCE)
    with pytest.raises(HandshakeError):
        victim.feed(challenge[NONCE:] + dialler()._introduction)


def test_an_altered_introduction_is_refused() -> None:
    one, other = dialler(), acceptor()
    final = one.feed(other.feed(one.opening))
    with pytest.raises(HandshakeError):
        other.feed(final[:-1] + bytes([final[-1] ^ 1]))


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(HandshakeError):
        acceptor().feed(dialler(key=b"").opening)
    with pytest.raises(HandshakeError):
        acceptor(key=b"").feed(dialler().opening)


def test_somebody_else_is_wanted() -> None:
    one, other = dialler(want="another", key=b""), acceptor(key=b"")
    with pytest.raises(HandshakeError, match="not here"):
        other.feed(one.opening)


def test_an_endless_introduction_is_refused() -> None:
    with pytest.raises(HandshakeError, match="introduction of 65535"):
        acceptor(key=b"").feed(MAGIC + b"L" + b"\xff\xff")


@given(st.binary(min_size=1, max_size=300), st.integers(1, 40))
def test_garbage_is_refused_or_waits(garbage: bytes, size: int) -> None:
    for key in (b"", KEY):
        other = acceptor(key=key)
        try:
            for piece in in_pieces(garbage, size):
                other.feed(piece)
        except HandshakeError:
            continue
        assert other.peer is None


def test_every_cut_of_the_keyed_opening() -> None:
    opening = dialler().opening
    for cut in range(len(opening)):
        other = acceptor()
        answers = [other.feed(opening[:cut]), other.feed(opening[cut:])]
        assert [len(a) for a in answers if a] == [NONCE + PROOF]


def test_a_talkative_acceptor_is_refused() -> None:
    one, other = dialler(), acceptor()
    with pytest.raises(HandshakeError, match="more than its proof"):
        one.feed(other.feed(one.opening) + b"!")
