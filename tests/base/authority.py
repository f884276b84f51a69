"""Certificates of an authority, as people make them with a tool."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from farref import TLS


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = self._write(name, self._key, self._key, name, ca=True)[0]

    def sign(self, name: str, shows: Authority | None = None, at: str = "") -> TLS:
        """A certificate for *name*, and the address *at*; its holder believes *shows*."""
        private = ec.generate_private_key(ec.SECP256R1())
        cert, key = self._write(name, private, self._key, name or "nobody", at=at)
        return TLS(cert, key, (shows or self).path)

    def _write(
        self, name: str, key: Any, signer: Any, file: str, *, ca: bool = False, at: str = ""
    ) -> Any:
        def named(text: str) -> x509.Name:
            named = [x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)] if text else []
            return x509.Name(named)

        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        unsigned = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            # Python 3.13 verifies strictly, and wants all of these.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
            )
            .add_extension(_usage(ca=ca), critical=True)
        )
        if at:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(at))])
            unsigned = unsigned.add_extension(names, critical=not name)
        made = unsigned.sign(signer, hashes.SHA256())
        pem = serialization.Encoding.PEM
        form, bare = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        cert, private = self._folder / f"{file}.crt", self._folder / f"{file}.key"
        cert.write_bytes(made.public_bytes(pem))
        private.write_bytes(key.private_bytes(pem, form, bare))
        return cert, private


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
