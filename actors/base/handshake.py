"""Authenticates peers before anything is unpickled: a pure machine, no sockets here.

**On one host** the kernel vouches for the peer.  The socket lies in a directory that only this user
may enter, and the caller compares the uid that the kernel reports for the other end
(``SO_PEERCRED``) with ours.  The dialler introduces itself and starts to send at once::

    dialler -> acceptor   MAGIC  'L'  introduction

**Between hosts** the dialler first names the actor that it wants, at the one port of that host
(:mod:`.gate`), which passes the connection on.  Then both ends prove that they know the shared key,
and neither ever sends it::

    dialler -> port       MAGIC  wanted name                                the preamble
    both                  TLS 1.3; all that follows is inside it
    dialler -> acceptor   nonce_d
    acceptor -> dialler   'K'  nonce_a  HMAC(key, "acceptor", transcript)  name
    dialler -> acceptor   HMAC(key, "dialler", transcript, introduction)  introduction

    transcript = preamble  certificate  nonce_d  nonce_a  name

- Both nonces are fresh and random, so a recorded session proves nothing later.
- The two proofs start with different labels, so neither can be reflected as the other.
- The acceptor's proof comes first: the dialler introduces itself only after it.
- The acceptor proves its own *name*, the key of its address: an admin's is ``host:port`` as other
  hosts dial it.  The dialler compares it with the name that it wants.  So it does not matter by
  which way it came: by NAT, a published port or a tunnel.  And its bytes cannot be passed on to
  another actor, or to the admin of another host, that has the same key.
- A dialler that does not know the admin's name yet wants :data:`ANY_ADMIN`, and learns the name.
- The preamble is part of the transcript.  So nobody can alter it on the way.
- So is the hash of the acceptor's certificate (:mod:`.tls`), as each end has seen it.  A man in the
  middle who ends the one TLS connection and begins another one has another certificate, because he
  lacks the private key of the acceptor's.  So the proofs differ, and the dialler hangs up before it
  has proved anything.  The certificate itself need not be trusted.
- Proofs are compared in constant time.
- Nothing is negotiated: there is one version, and no mode without TLS.

The introduction names the actor that the dialler wants, and the dialler.

**Notices.**  Before TLS has begun (then in the clear), or in place of its proof, an acceptor or a
port may send one of :data:`NOTICES` and close the connection: there is no room for the dialler, the
wanted actor is not there, or the dialler speaks another version of this protocol.  A stranger can
send a notice too.  But the dialler then only dials again or gives up, as it does when the
connection breaks.  Each notice begins with :data:`MAGIC`, so the dialler can name the acceptor's
version, too.

A dialler that does not believe the proof of the acceptor sends :data:`DISBELIEF`, and hangs up.  So
the acceptor's log can tell a wrong key from a dialler that ended.
"""

from __future__ import annotations

import re
from typing import Final

from .addresses import MAX_PORT, Address, is_address
from .errors import CrowdedOut, HandshakeError, NobodyThere

VERSION: Final = 4
MAGIC: Final = b"FARREF%d\n" % VERSION
LOCAL: Final = b"L"
ANSWER: Final = b"K"
"""The first byte of the acceptor's proof; a notice begins with another one."""
NONCE: Final = 32
PROOF: Final = 32  # bytes of a SHA-256
CROWDED: Final = MAGIC + b"there is no room\n"
GONE: Final = MAGIC + b"this actor is not here\n"
REFUSED: Final = MAGIC + b"this is another version\n"
NOTICES: Final = (CROWDED, GONE, REFUSED)
DISBELIEF: Final = MAGIC + b"this is not the key, or not the name\n"
ANY_ADMIN: Final = "admin"
"""The name that a dialler wants, if it does not know the name of the admin at an address."""
MAX_INTRODUCTION: Final = 1024
MAX_NAME: Final = 300
_LENGTH: Final = 2
_HEAD: Final = len(MAGIC) + _LENGTH  # bytes of a preamble before its name
_ANY_MAGIC: Final = rb"FARREF([0-9]{1,4})\n"
_BEGUN: Final = rb"FARREF([0-9]{1,4}\n|[0-9]{0,4}\Z)|F?\Z|FA\Z|FAR\Z|FARR\Z|FARRE\Z"
"""The beginning of any version's :data:`MAGIC`, whole or not."""


def _proof(key: bytes, who: bytes, *transcript: bytes) -> bytes:
    import hmac  # noqa: PLC0415 - it loads OpenSSL, and only connections between hosts need it

    # Every element of the transcript has a fixed length, or begins with its length, so that no two
    # transcripts concatenate to the same bytes.
    message = b"farref.actors.base/%d " % VERSION + who + b"\0" + b"".join(transcript)
    return hmac.digest(key, message, "sha256")


def _proves(shown: bytes, key: bytes, who: bytes, *transcript: bytes) -> bool:
    import hmac  # noqa: PLC0415 - as above

    return hmac.compare_digest(shown, _proof(key, who, *transcript))


def _measured(text: bytes) -> bytes:
    return len(text).to_bytes(_LENGTH, "big") + text


def _introduction(want: str, me: Address) -> bytes:
    text = "\0".join((want, me.key, me.path, me.host, str(me.port))).encode()
    if len(text) > MAX_INTRODUCTION:
        raise HandshakeError(f"an introduction of {len(text)} bytes; is {me} a real address?")
    return _measured(text)


def _introduced(text: bytes) -> tuple[str, Address]:
    try:
        want, key, path, host, port = text.decode().split("\0")
        if not key or not 0 <= int(port) <= MAX_PORT or (host and not is_address(host)):
            raise HandshakeError("the introduction has no address to answer")
        return want, Address(key, path, host, int(port))
    except ValueError as error:
        raise HandshakeError(f"the introduction cannot be read: {error}") from None


def _check_magic(received: bytes, who: str) -> None:
    """Raise an error if *received* is not the beginning of our :data:`MAGIC`, or of more."""
    version = re.match(_ANY_MAGIC, received)
    if version and version[0] != MAGIC:
        raise OtherVersion(int(version[1]), who)
    if not re.match(_BEGUN, received):
        raise HandshakeError(f"{who} does not speak this protocol")


def preamble(want: str) -> bytes:
    """The bytes by which a dialler names the actor that it wants."""
    return MAGIC + _measured(want.encode())


def missing(received: bytes) -> int:
    """How many bytes of a preamble are missing at least, after *received*; 0 if it is whole.

    Raises :class:`HandshakeError` for a stranger, as early as it is recognised.
    """
    _check_magic(received, "the dialler")
    if len(received) < _HEAD:
        return _HEAD - len(received)
    size = int.from_bytes(received[len(MAGIC) : _HEAD], "big")
    if size > MAX_NAME:
        raise HandshakeError(f"the dialler wants a name of {size} bytes")
    return _HEAD + size - len(received)


def wanted(received: bytes) -> str:
    """The name that a whole preamble wants.  Raises :class:`HandshakeError`."""
    try:
        return received[_HEAD:].decode()
    except ValueError as error:
        raise HandshakeError(f"the name that the dialler wants is not UTF-8: {error}") from None


class OtherVersion(HandshakeError):
    """The other end speaks another version of this protocol."""

    def __init__(self, theirs: int, who: str) -> None:
        super().__init__(
            f"{who} speaks version {theirs} of the protocol between farref's hosts, and this"
            f" program speaks version {VERSION}: install the same farref on both"
        )


class Disbelieved(HandshakeError):
    """The dialler does not believe the acceptor, and sends it :data:`DISBELIEF`."""


class Dialler:
    """The connecting end.  Send :attr:`opening`, then what :meth:`feed` returns."""

    def __init__(self, want: str, me: Address, key: bytes, nonce: bytes) -> None:
        """Dial the actor with key *want*.

        *nonce* is 32 fresh random bytes; *key* is empty where the kernel vouches for both ends.
        With a key, call :meth:`bind` as soon as the connection is encrypted.
        """
        self._want = want
        self._me = me
        self._key = key
        self._nonce = nonce
        self._binding = b""
        self._received = b""
        self._preamble = preamble(want)
        self.done = not key
        self.met = want
        """The name of the acceptor, once it has proved it."""
        self.opening = self._preamble if key else MAGIC + LOCAL + _introduction(want, me)

    @property
    def waits_for_tls(self) -> bool:
        """Whether :meth:`bind` is to be called."""
        return bool(self._key) and not self._binding

    def bind(self, certificate: bytes) -> bytes:
        """The connection is encrypted; *certificate* is the hash of the acceptor's.

        Returns the bytes to send in it now.
        """
        self._binding = certificate
        return self._nonce

    def feed(self, data: bytes) -> bytes:
        """Take *data* from the acceptor. Return the bytes to send now (empty: wait for more).

        Raises :class:`Disbelieved` when the acceptor does not prove that it knows the key and is
        the one that was dialled, :class:`CrowdedOut` when it has no room for us,
        :class:`NobodyThere` when there is no such actor, and :class:`HandshakeError` when it does
        not speak this protocol.
        """
        self._received += data
        if self.done:
            raise HandshakeError("the acceptor sent more than its proof")
        if self._received[:1] != ANSWER:
            return self._noticed()
        fixed = 1 + NONCE + PROOF
        if len(self._received) < fixed + _LENGTH:
            return b""
        end = fixed + _LENGTH + int.from_bytes(self._received[fixed : fixed + _LENGTH], "big")
        if len(self._received) < end:
            return b""
        if len(self._received) > end:
            raise HandshakeError("the acceptor sent more than its proof")
        theirs, proof = self._received[1 : 1 + NONCE], self._received[1 + NONCE : fixed]
        seen = (self._preamble, self._binding)
        transcript = (*seen, self._nonce, theirs, self._received[fixed:])
        if not _proves(proof, self._key, b"acceptor", *transcript):
            raise Disbelieved(
                "the acceptor does not know the shared key, or somebody between the two hosts has"
                " altered the connection"
            )
        name = self._received[fixed + _LENGTH :].decode(errors="replace")
        if self._want not in {name, ANY_ADMIN}:
            raise Disbelieved(
                f"the acceptor does not call itself {self._want}, but {name}: dial a host by the"
                " address that its system was given as host= or advertise="
            )
        self.met = name
        self.done = True
        introduction = _introduction(name, self._me)
        return _proof(self._key, b"dialler", *transcript, introduction) + introduction

    def _noticed(self) -> bytes:
        """The acceptor has sent a notice, or a part of one, or nonsense."""
        received = self._received
        _check_magic(received, "the other host")
        if received == CROWDED:
            raise CrowdedOut(f"{self._want} has too many strangers, and closed this connection")
        if received == GONE:
            raise NobodyThere(f"{self._want} is not on its host (any more)")
        if received in NOTICES or len(received) >= max(map(len, NOTICES)):
            raise HandshakeError("the other host does not speak this protocol")
        return b""


class Acceptor:
    """The accepting end.  Feed it until :attr:`peer` is set; :attr:`rest` has the later bytes."""

    def __init__(
        self,
        me: Address,
        key: bytes,
        nonce: bytes,
        *,
        preamble: bytes = b"",
        certificate: bytes = b"",
    ) -> None:
        """Answer diallers that want *me*.

        *nonce* is 32 fresh random bytes; *key* is empty where the kernel vouches for both ends.
        With a key, *preamble* is the one that the port has read, whole, and *certificate* the hash
        of our own.
        """
        self._me = me
        self._key = key
        self._nonce = nonce
        self._seen = preamble + certificate
        self._received = b""
        self._challenge = b""
        self.peer: Address | None = None
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take *data* from the dialler. Return the bytes to send now (empty: wait for more).

        Raises :class:`HandshakeError` for a stranger, as early as it is recognised.
        """
        self._received += data
        if not self._key:
            start = MAGIC + LOCAL
            if not start.startswith(self._received[: len(start)]):
                raise HandshakeError("the dialler does not speak this protocol")
            self._introduced(len(start), 0)
            return b""
        answer = b""
        if not self._challenge and len(self._received) >= NONCE:
            name = _measured(self._me.key.encode())
            self._challenge = self._seen + self._received[:NONCE] + self._nonce + name
            proof = _proof(self._key, b"acceptor", self._challenge)
            answer = ANSWER + self._nonce + proof + name
        if self._challenge:
            if self._received[NONCE:] == DISBELIEF:
                raise HandshakeError(
                    "it has another key, or dialled another name than the address of this system"
                )
            self._introduced(NONCE, PROOF)
        return answer

    @property
    def silent(self) -> bool:
        return not self._received and self.peer is None

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
            shown, name = self._received[start:head], self._received[head:end]
            if not _proves(shown, self._key, b"dialler", self._challenge, name):
                raise HandshakeError("the dialler does not know the shared key")
        want, peer = _introduced(self._received[length_end:end])
        # On its own host an admin is also known by the path of its socket.
        if want != self._me.key and (self._key or not self._me.well_known or want != self._me.path):
            raise HandshakeError(f"{peer} wants {want}, which is not here (any more)")
        self.rest = self._received[end:]
        self._received = b""
        self.peer = peer
