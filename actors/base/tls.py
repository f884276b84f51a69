"""Encrypts connections between hosts: TLS 1.3, by Python's ``ssl``.

**Trust** is not decided here, but by the shared key (:mod:`.handshake`).  So each program makes a
certificate when it starts a system, and no dialler verifies it: both ends put its hash into the
proofs of the key.  A system with :class:`.TLS` has an authority.  Then each end also requires a
certificate of that authority from the other.

TLS 1.3 only: no older version, no resumed session and no early data, which somebody could replay.

A :class:`SecureSocket` behaves like a non-blocking socket.  So the connections need not know of
TLS, except in two matters:

- a record is read whole, so bytes may wait in it that no poller sees: ``pending()`` counts them;
- bytes that the kernel has not taken must be offered again, the same ones first.  The queue of an
  outgoing connection does that anyway.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import hashlib
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from . import keys, rundir
from .certificates import TLS, Encryption
from .errors import HandshakeError, InvalidCertificate
from .handshake import DISBELIEF, MAGIC, Dialler, Disbelieved

RECORD: Final = 1 << 14  # bytes of the largest record of TLS
RECORD_HEAD: Final = 5  # bytes at the beginning of a record, which OpenSSL reads alone
# OpenSSL's reasons if these bytes begin no record; from 3.2 on the second one, once there are keys.
NO_RECORD: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
GATHER: Final = 4 * RECORD  # small parts are encrypted together, up to so many bytes
HOUR: Final = datetime.timedelta(hours=1)
FOREVER: Final = datetime.timedelta(days=36_500)  # nobody verifies the certificate
NAME: Final = "farref"
NOTHING_TO_SHOW: Final = Encryption(b"", b"")
"""For a dialler, which shows a certificate only if there is an authority."""


def hash_of(certificate: bytes) -> bytes:
    """The hash of *certificate* (DER) that both ends put into their proofs."""
    return hashlib.sha256(certificate).digest()


def make() -> Encryption:
    """A fresh certificate, signed by itself.

    Raises :class:`InvalidCertificate` if the package that makes it is not installed.
    """
    try:
        from cryptography import x509  # noqa: PLC0415 - only programs with host= need it
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
    except ImportError as error:
        raise InvalidCertificate(
            f"messages between hosts are encrypted, and that needs a package that is missing"
            f" ({error}): pip install cryptography; or give tls=TLS(...)"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HOUR)
        .not_valid_after(now + FOREVER)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    shown = made.public_bytes(serialization.Encoding.DER)
    return Encryption(made.public_bytes(serialization.Encoding.PEM), private, digest=hash_of(shown))


def read(given: TLS) -> Encryption:
    """The certificates in the files of *given*.  Raises :class:`InvalidCertificate`."""
    if not isinstance(given, TLS):
        raise InvalidCertificate(f"tls must be a TLS(cert=, key=, ca=), not {given!r}")
    try:
        cert, key, ca = (Path(path).read_bytes() for path in (given.cert, given.key, given.ca))
        first = cert[cert.index(b"-----BEGIN CERTIFICATE") :]
        end = b"-----END CERTIFICATE-----"
        shown = ssl.PEM_cert_to_DER_cert((first[: first.index(end)] + end).decode())
        if not ca.strip():
            raise ValueError(f"{given.ca} is empty")  # noqa: TRY301 - handled below
        found = Encryption(cert, key, ca, hash_of(shown))
        _context(ssl.PROTOCOL_TLS_SERVER, found)
    except (OSError, ValueError) as error:  # `ssl.SSLError` is an OSError
        raise InvalidCertificate(
            f"{given} cannot be used: {error}; give files in the form PEM, and a private key"
            " without a passphrase"
        ) from error
    return found


@functools.lru_cache(maxsize=8)
def _context(side: int, given: Encryption) -> ssl.SSLContext:
    """The settings of one *side*.  Raises OSError if the certificates are wrong."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if given.ca else ssl.CERT_NONE
    context.sslsocket_class = SecureSocket
    if given.ca:
        context.load_verify_locations(cadata=given.ca.decode())
    if given.ca or side == ssl.PROTOCOL_TLS_SERVER:
        with _file(given.cert + b"\n" + given.key) as path:
            context.load_cert_chain(path, password=_no_passphrase)
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # nobody resumes a session
    return context


def _no_passphrase() -> str:
    raise ValueError("the private key has a passphrase")


@contextlib.contextmanager
def _file(text: bytes) -> Iterator[str]:
    """A temporary file with *text*: OpenSSL reads private keys only from files."""
    path = rundir.draft(rundir.private_directory())
    keys.write(path, text)
    try:
        yield str(path)
    finally:
        path.unlink()


def accept(sock: socket.socket, given: Encryption) -> SecureSocket:
    """Encrypt *sock* at the accepting end.  The first reads make the connection.

    Raises OSError, and closes *sock*, if the other end has gone.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, given)
    return _secure(context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False))


def dial(sock: socket.socket, given: Encryption) -> SecureSocket:
    """Encrypt *sock* at the dialling end: then :meth:`SecureSocket.meet`.

    Raises OSError, and closes *sock*, if the other end has gone.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, given)
    return _secure(context.wrap_socket(sock, do_handshake_on_connect=False))


def _secure(made: ssl.SSLSocket) -> SecureSocket:
    """*made*, unless the peer has gone: then Python's `ssl` would leave it unencrypted."""
    if getattr(made, "_sslobj", None) is None:
        made.close()
        raise ConnectionResetError(errno.ECONNRESET, "the other end has gone")
    return cast("SecureSocket", made)


def shake_hands(sock: SecureSocket, dialler: Dialler) -> None:
    """One step of the dialling end's handshake, which is over when *dialler* is `done`.

    Raises BlockingIOError if the other end must come first, ConnectionAbortedError if it has hung
    up without a word, :class:`HandshakeError` as :meth:`.Dialler.feed` does or if there can be no
    encryption, and OSError.
    """
    try:
        data = b""
        if dialler.waits_for_tls:
            certificate, data = sock.meet()
            if certificate:
                sock.send_first(dialler.bind(certificate))
        data = data or sock.recv(4096)
        if not data:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the other end has hung up")
        answer = dialler.feed(data)
        if answer:
            sock.send(answer)  # a few hundred bytes into an empty buffer
    except Disbelieved:
        sock.send(DISBELIEF)
        raise
    except ssl.SSLError as error:
        raise explained(error) from error


def explained(error: ssl.SSLError) -> HandshakeError:
    """The error to raise for *error*, which ends a connection that is being made."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeError(
            f"the certificate of the other end is not of our authority: {error.verify_message}"
        )
    why = (error.reason or type(error).__name__).lower().replace("_", " ")
    return HandshakeError(f"the connection cannot be encrypted: {why}")


class SecureSocket(ssl.SSLSocket):
    """An encrypted connection, with the methods of a non-blocking socket."""

    _refused = False
    """Whether the other end has sent something other than TLS."""

    def meet(self) -> tuple[bytes, bytes]:
        """For a dialler: go on with making the connection.

        Returns the hash of the acceptor's certificate when it is made; or nothing, and the bytes in
        the clear that the other end has sent in place of TLS, maybe a notice.  Raises
        BlockingIOError if more must come first, and :class:`HandshakeError`.
        """
        if self._refused:
            return b"", socket.socket.recv(self, RECORD)
        try:
            self.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError(errno.EAGAIN, "TLS waits for the other end") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # the latter from Python 3.11.2
            return b"", b""
        except ssl.SSLError as error:
            if error.reason not in NO_RECORD:
                raise explained(error) from error
            # OpenSSL has taken five bytes, and keeps them.  If this is a notice, they are these.
            # Other bytes are not taken for a notice, whatever comes first.
            self._refused = True
            return b"", MAGIC[:RECORD_HEAD]
        certificate = self.getpeercert(binary_form=True)
        if certificate is None:
            raise HandshakeError("the acceptor has shown no certificate")
        return hash_of(certificate), b""

    def send_first(self, data: bytes) -> None:
        """For a dialler: send *data*, the first bytes after :meth:`meet` has returned a hash.

        In TLS 1.3 the dialler's certificate comes last.  So an acceptor may have refused it by now,
        and closed the connection: then this raises the reason that it has sent before.
        """
        try:
            self.send(data)
        except (ConnectionError, ssl.SSLEOFError):
            try:
                super().recv(1)
            except OSError as error:
                if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
                    raise explained(error) from error
            raise ConnectionResetError(errno.ECONNRESET, "the acceptor has hung up") from None

    @property
    def made(self) -> bool:
        """Whether the connection is encrypted by now."""
        return self.version() is not None

    def notify(self, notice: bytes) -> None:
        """Send *notice* if there is room, in the clear before the connection is made."""
        with contextlib.suppress(OSError):
            if self.made:
                self.send(notice)
                return
            with contextlib.suppress(BlockingIOError):
                socket.socket.recv(self, 1 << 16)  # see `gate.hang_up`
            socket.socket.send(self, notice)

    # -- the methods of a socket ------------------------------------------------------

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError(errno.EAGAIN, "nothing to read") from None
        except ssl.SSLError as error:
            if error.reason in NO_RECORD and not self.server_side:
                # A notice: for the acceptor, TLS has not begun.
                raise ConnectionResetError(errno.ECONNRESET, "the acceptor has hung up") from None
            if self.made:
                raise
            raise explained(error) from error

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """As of a socket, but read several records if there are any and *buffer* has room."""
        view = memoryview(buffer)[:nbytes].cast("B")
        done = 0
        try:
            while done < len(view):
                count = super().recv_into(view[done:], None, flags)
                if not count:
                    break
                done += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not done:
                raise BlockingIOError(errno.EAGAIN, "nothing to read") from None
        return done

    def send(self, data: Any, flags: int = 0) -> int:
        """As of a socket.  Offer the bytes that were not taken again before any others."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += super().send(view[done:], flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not done:
                raise BlockingIOError(errno.EAGAIN, "no room") from None
        return done

    def sendmsg(self, buffers: Sequence[Any], *_: Any) -> int:  # type: ignore[override] # the others are not for TLS
        """As of a socket, but of many *buffers* it only takes the first ones."""
        return self.send(_first_of(buffers))


def _first_of(buffers: Sequence[Any]) -> Any:
    """The first of *buffers*, with the next ones as long as they share a few records.

    The same buffers, and maybe more of them, give a piece that is as long or longer: TLS demands
    that when bytes are offered again.
    """
    size = 0
    for number, each in enumerate(buffers):
        size += len(each)
        if size > GATHER:
            return b"".join(buffers[:number]) if number else each
    return b"".join(buffers)
