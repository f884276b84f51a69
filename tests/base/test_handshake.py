"""The handshake, cut at every byte, and every stranger it must refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from farref.actors.base import Address, HandshakeError
from farref.actors.base.errors import CrowdedOut, NobodyThere
from farref.actors.base.handshake import (
    ANY_ADMIN,
    CROWDED,
    DISBELIEF,
    GONE,
    MAGIC,
    NONCE,
    PROOF,
    REFUSED,
    VERSION,
    Acceptor,
    Dialler,
    _introduction,
    missing,
    preamble,
    wanted,
)

KEY = b"k" * 32
CERTIFICATE = b"c" * 32
ME = Address("me-1", "/run/me-1", "10.0.0.1", 4000)


def dialler(want: str = "you", key: bytes = KEY) -> Dialler:
    return Dialler(want, ME, key, b"d" * NONCE)


def acceptor(key: bytes = KEY, nonce: bytes = b"a" * NONCE, want: str = "you") -> Acceptor:
    return Acceptor(Address("you"), key, nonce, preamble=preamble(want), certificate=CERTIFICATE)


def said(one: Dialler) -> bytes:
    """The first bytes of *one* that are for the acceptor: the port has read the preamble."""
    return one.bind(CERTIFICATE) if one.waits_for_tls else one.opening


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def converse(one: Dialler, other: Acceptor, size: int) -> None:
    """Carry every byte of both, in pieces of *size*."""
    to_acceptor, to_dialler = said(one), b""
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
    assert astuple(other.peer) == astuple(ME)


@pytest.mark.parametrize("key", [b"", KEY], ids=["local", "keyed"])
def test_what_follows_the_handshake_is_kept(key: bytes) -> None:
    one, other = dialler(key=key), acceptor(key=key)
    data = said(one)
    if key:
        answer = other.feed(data)
        data = one.feed(answer)
    other.feed(data + b"frames")
    assert other.rest == b"frames"


def test_the_key_is_never_sent() -> None:
    one, other = dialler(), acceptor()
    nonce = said(one)
    challenge = other.feed(nonce)
    assert KEY not in one.opening + nonce + challenge + one.feed(challenge)


def test_a_dialler_with_another_key_is_refused_by_both() -> None:
    one, other = dialler(key=b"x" * 32), acceptor()
    with pytest.raises(HandshakeError, match="acceptor does not know"):
        one.feed(other.feed(said(one)))
    with pytest.raises(HandshakeError, match="it has another key"):
        other.feed(DISBELIEF)
    stubborn = acceptor()
    stubborn.feed(b"d" * NONCE)
    forged = bytes(PROOF) + _introduction("you", ME)
    with pytest.raises(HandshakeError, match="dialler does not know"):
        stubborn.feed(forged)
    assert other.peer is stubborn.peer is None


def test_a_replayed_session_is_refused() -> None:
    one, other = dialler(), acceptor()
    recorded = [said(one)]
    recorded.append(one.feed(other.feed(recorded[0])))
    other.feed(recorded[1])
    assert other.peer is not None
    later = acceptor(nonce=b"b" * NONCE)
    later.feed(recorded[0])
    with pytest.raises(HandshakeError, match="dialler does not know"):
        later.feed(recorded[1])


def test_a_reflected_proof_is_refused() -> None:
    # The stranger has the acceptor prove itself to another dialler, and uses that proof.
    victim = acceptor()
    challenge = victim.feed(b"d" * NONCE)
    with pytest.raises(HandshakeError, match="does not know the shared key"):
        victim.feed(challenge[1 + NONCE :][:PROOF] + _introduction("you", ME))


def test_an_altered_introduction_is_refused() -> None:
    one, other = dialler(), acceptor()
    final = one.feed(other.feed(said(one)))
    with pytest.raises(HandshakeError):
        other.feed(final[:-1] + bytes([final[-1] ^ 1]))


def test_another_certificate_is_refused() -> None:
    """Somebody between the two has ended TLS, and begun it anew."""
    one, other = dialler(), acceptor()
    with pytest.raises(HandshakeError, match="altered the connection"):
        one.feed(other.feed(one.bind(b"m" * 32)))


def test_the_opening_for_this_host_is_refused_at_the_port_and_the_other_way_round() -> None:
    with pytest.raises(HandshakeError):
        missing(dialler(key=b"").opening)
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


def test_exactly_the_preamble_is_read() -> None:
    """However the bytes come: what follows the preamble is for the actor that it names."""
    opening = dialler().opening + b"\x16\x03\x01"  # TLS begins
    whole = len(preamble("you"))
    for cut in range(whole):
        assert 0 < missing(opening[:cut]) <= whole - cut
    assert missing(opening[:whole]) == 0
    assert wanted(opening[:whole]) == "you"


@pytest.mark.parametrize("name", ["", "ä" * 150, "a/../b\0c"])
def test_any_name_may_be_wanted(name: str) -> None:
    """It is checked where it is looked up."""
    assert missing(preamble(name)) == 0
    assert wanted(preamble(name)) == name


def test_a_name_without_end_is_refused() -> None:
    with pytest.raises(HandshakeError, match="a name of 65535 bytes"):
        missing(MAGIC + b"\xff\xff")
    with pytest.raises(HandshakeError, match="the dialler wants is not UTF-8"):
        wanted(MAGIC + b"\0\x01\xff")


@pytest.mark.parametrize("other", [VERSION - 1, 12])
def test_another_version_is_named(other: int) -> None:
    """By the port, which reads a preamble, and by a dialler, which reads a notice."""
    told = rf"speaks version {other} .* speaks version {VERSION}: install"
    with pytest.raises(HandshakeError, match=f"the dialler {told}"):
        missing(b"FARREF%d\nT" % other)
    with pytest.raises(HandshakeError, match=f"the other host {told}"):
        feed_all(dialler(), in_pieces(b"FARREF%d\nthis is another version\n" % other, 1))


def feed_all(one: Dialler, pieces: list[bytes]) -> None:
    for piece in pieces:
        one.feed(piece)


@pytest.mark.parametrize("size", [1, 5, 100])
def test_notices(size: int) -> None:
    for notice, error, why in (
        (CROWDED, CrowdedOut, "you has too many strangers"),
        (GONE, NobodyThere, "you is not on its host"),
        (REFUSED, HandshakeError, "does not speak this protocol"),
    ):
        with pytest.raises(error, match=why):
            feed_all(dialler(), in_pieces(notice, size))


@pytest.mark.parametrize("answer", [b"x", b"FARREFx", MAGIC[:-1] + b" ", MAGIC + b"a" * 100])
def test_an_acceptor_that_is_something_else(answer: bytes) -> None:
    with pytest.raises(HandshakeError, match="does not speak this protocol"):
        dialler().feed(answer)


def test_the_name_of_an_admin_is_learned() -> None:
    """And an acceptor believes it only if nobody has altered the wanted name on the way."""
    one, other = dialler(want=ANY_ADMIN), acceptor(want=ANY_ADMIN)
    final = one.feed(other.feed(said(one)))
    other.feed(final)
    assert (one.met, other.peer) == ("you", ME)
    one, other = dialler(want=ANY_ADMIN), acceptor(want="you")
    with pytest.raises(HandshakeError, match="altered"):
        one.feed(other.feed(said(one)))


def test_another_name_than_the_dialled_one_is_refused() -> None:
    one, other = dialler(want="another"), acceptor(want="another")
    with pytest.raises(HandshakeError, match="does not call itself another, but you"):
        one.feed(other.feed(said(one)))


def test_a_talkative_acceptor_is_refused() -> None:
    one, other = dialler(), acceptor()
    with pytest.raises(HandshakeError, match="more than its proof"):
        one.feed(other.feed(said(one)) + b"!")
