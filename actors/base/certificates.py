"""The certificates that a system may have.

Only :mod:`.tls` uses them.  It loads OpenSSL, which takes 5 ms, and no system on one host needs it.
So other modules import it where a connection between hosts begins.
"""

from __future__ import annotations

import os

from .discreet import Discreet


class TLS(Discreet, frozen=True):
    """Certificates of one's own: each end shows one that *ca* has signed, and asks for one.

    *cert*, *key* and *ca* are paths of files in the form PEM: this host's certificate (with the
    certificates between it and the authority, if there are any), its private key without a
    passphrase, and the authority's.  Names in certificates are not compared with addresses.  The
    shared key of the system is needed all the same.
    """

    cert: str | os.PathLike[str]
    key: str | os.PathLike[str]
    ca: str | os.PathLike[str]


class Encryption(Discreet, frozen=True):
    """The certificates of one system, as they are sent to each of its processes."""

    cert: bytes
    key: bytes
    ca: bytes = b""
    """The certificate of the authority; empty if there is none."""
    digest: bytes = b""
    """The hash of our certificate, as diallers see it."""
