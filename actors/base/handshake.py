"""Authenticates peers before anything is unpickled: a pure machine, no sockets here.

**On one host** the kernel vouches for the peer.  The socket lies in a directory that only this user
may enter, and the caller compares the uid that the kernel reports for the other end
(``SO_PEERCRED``) with ours.  The dialler introduces itself and starts to send at once::

    dialler -> acceptor   MAGIC  'L'  introduction

**Between hosts** both ends prove that they know the shared key, and neither ever sends it::

    dialler -> acceptor   MAGIC  'K'  nonce_d
    acceptor -> dialler   nonce_a  HMAC(key, "acceptor", nonce_d, nonce_a, name)
    dialler -> acceptor   HMAC(key, "dialler", nonce_d, nonce_a, introduction)  introduction

- Both nonces are fresh and random, so a recorded session proves nothing later.
- The two proofs start with different labels, so neither can be reflected as the other.
- The acceptor's proof comes first: the dialler introduces itself only after it.
- The acceptor proves its own *name*, the key of its address: an admin's is ``host:port`` as other
  hosts dial it.  The dialler compares it with the name that it dialled.  So a dialler's bytes
  cannot be passed on to another actor, or to the admin of another host, that has the same key.
- Proofs are compared in constant time.

The frames that follow are *not* encrypted, nor authenticated one by one.  If somebody can alter
packets between the hosts, they can alter messages: use a VPN there.

The introduction names the actor that the dialler wants, and the dialler.  A dialler that wants
another actor than the acceptor is refused: the TCP port may have been recycled.

An acceptor that has no room for a dialler sends the notice :data:`CROWDED` in place of its proof,
and closes the connection.  A stranger can send that notice too, but it only makes the dialler try
again.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from typing import Final

from .addresses import MAX_PORT, Address
from .errors import CrowdedOut, HandshakeError

MAGIC: Final = b"FARREF2\n"
LOCAL: Final = b"L"
KEYED: Final = b"K"
NONCE: Final = 32
PROOF: Final = hashlib.sha256().digest_size
CROWDED: Final = MAGIC + b"there is no room\n"
MAX_INTRODUCTION: Final = 1024
_LENGTH: Final = 2


def _proof(key: bytes, who: bytes, *transcript: bytes) -> bytes:
    # Every element of the transcript has a fixed length but the last, so that no two
    # transcripts concatenate to the same bytes.
    message = b"farref.actors.base/2 " + who + b"\0" + b"".join(transcript)
    return hmac.new(key, message, hashlib.sha256).digest()


def _introduction(want: str, me: Address) -> bytes:
    text = "\0".join((want, me.key, me.path, me.host, str(me.port))).encode()
    if len(text) > MAX_INTRODUCTION:
        raise HandshakeError(f"an introduction of {len(text)} bytes; is {me} a real address?")
    return len(text).to_bytes(_LENGTH, "big") + text


def _introduced(text: bytes) -> tuple[str, Address]:
    try:
        want, key, path, host, port = text.decode().split("\0")
        if host:
            ipaddress.IPv4Address(host)  # connecting to a name could ask a server far away
        if not key or not 0 <= int(port) <= MAX_PORT:
            raise HandshakeError("an introduction of nobody that could be answered")
        return want, Address(key, path, host, int(port))
    except ValueError as error:
        raise HandshakeError("an introduction that cannot be read") from error


class Dialler:
    """The connecting end.  Send :attr:`opening`, then what :meth:`feed` returns."""

    __slots__ = ("_introduction", "_key", "_nonce", "_received", "_want", "done", "opening")

    def __init__(self, want: str, me: Address, key: bytes, nonce: bytes) -> None:
        """Dial the actor with key *want*.

        *nonce* is 32 fresh random bytes; *key* is empty where the kernel vouches for both ends.
        """
        self._want = want
        self._introduction = _introduction(want, me)
        self._key = key
        self._nonce = nonce
        self._received = b""
        self.done = not key
        self.opening = MAGIC + (KEYED + nonce if key else LOCAL + self._introduction)

    def feed(self, data: bytes) -> bytes:
        """Take *data* from the acceptor. Return the bytes to send now (empty: wait for more).

        Raises :class:`HandshakeError` when the acceptor does not prove that it knows the key and is
        the one that was dialled, and :class:`CrowdedOut` when it has no room for us.
        """
        self._received += data
        if self._received == CROWDED and not self.done:
            raise CrowdedOut(f"there are too many strangers at {self._want}, and we had to go")
        if len(self._received) < NONCE + PROOF:
            return b""
        if self.done or len(self._received) > NONCE + PROOF:
            raise HandshakeError("the acceptor sent more than its proof")
        theirs, proof = self._received[:NONCE], self._received[NONCE:]
        expected = _proof(self._key, b"acceptor", self._nonce, theirs, self._want.encode())
        if not hmac.compare_digest(proof, expected):
            raise HandshakeError(
                f"the acceptor does not know the shared key, or does not call itself {self._want}:"
                " dial the address that its system was given as host=, not one that is forwarded"
            )
        self.done = True
        return (
            _proof(self._key, b"dialler", self._nonce, theirs, self._introduction)
            + self._introduction
        )


class Acceptor:
    """The accepting end.  Feed it until :attr:`peer` is set; :attr:`rest` has the later bytes."""

    __slots__ = ("_challenge", "_key", "_me", "_nonce", "_received", "peer", "rest")

    def __init__(self, me: Address, key: bytes, nonce: bytes) -> None:
        """Answer diallers that want *me*.

        *nonce* is 32 fresh random bytes; *key* is empty where the kernel vouches for both ends.
        """
        self._me = me
        self._key = key
        self._nonce = nonce
        self._received = b""
        self._challenge = b""
        self.peer: Address | None = None
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take *data* from the dialler. Return the bytes to send now (empty: wait for more).

        Raises :class:`HandshakeError` for a stranger, as early as it is recognised.
        """
        self._received += data
        mode = KEYED if self._key else LOCAL
        preamble = MAGIC + mode
        if not preamble.startswith(self._received[: len(preamble)]):
            raise HandshakeError("the dialler does not speak this protocol")
        if not self._key:
            self._introduced(len(preamble), 0)
            return b""
        answer = b""
        theirs_end = len(preamble) + NONCE
        if not self._challenge and len(self._received) >= theirs_end:
            theirs = self._received[len(preamble) : theirs_end]
            self._challenge = theirs + self._nonce
            name = self._me.key.encode()
            answer = self._nonce + _proof(self._key, b"acceptor", self._challenge, name)
        if self._challenge:
            self._introduced(theirs_end, PROOF)
        return answer

    @property
    def silent(self) -> bool:
        """Whether nothing has come yet."""
        return not self._received and self.peer is None

    @property
    def left_behind(self) -> str:
        """The likely reason why a dialler hangs up at this point; "": none."""
        if not self._challenge or self.peer is not None:
            return ""
        return (
            "it hung up when it had seen our proof: it has another key, or dialled another address"
            " than the host= of this system"
        )

    def _introduced(self, start: int, proof_size: int) -> None:
        head = start + proof_size
        length_end = head + _LENGTH
        if len(self._received) < length_end:
            return
        end = length_end + int.from_bytes(self._received[head:length_end], "big")
        if end - length_end > MAX_INTRODUCTION:
            raise HandshakeError(f"an introduction of {end - length_end} bytes")
        if len(self._received) < end:
            return
        if proof_size:
            expected = _proof(self._key, b"dialler", self._challenge, self._received[head:end])
            if not hmac.compare_digest(self._received[start:head], expected):
                raise HandshakeError("the dialler does not know the shared key")
        want, peer = _introduced(self._received[length_end:end])
        # On its own host an admin is also known by the path of its socket.
        if want != self._me.key and (self._key or not self._me.well_known or want != self._me.path):
            raise HandshakeError(f"{peer} wants {want}, which is not here (any more)")
        self.rest = self._received[end:]
        self._received = b""
        self.peer = peer
