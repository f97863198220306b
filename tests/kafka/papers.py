"""Certificates of an authority that exists for one test."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runtime.ports import LOOPBACK

VALID = dt.timedelta(days=1)


class Papers:
    """Issues certificates as PEM files in a folder.

    Attributes:
        authorities: the file that whoever trusts them needs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority")
        rights = x509.BasicConstraints(ca=True, path_length=0)
        own = _begun(self._name, self._name, self._key).add_extension(rights, critical=True)
        self.authorities = folder / "ca.crt"
        self.authorities.write_bytes(
            own.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        )

    def certificate(self, name: str) -> Path:
        """Return a new certificate of that name, its key before it, for either end on loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        where = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))])
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        signed = (
            _begun(_named(name), self._name, key)
            .add_extension(where, critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + signed.public_bytes(Encoding.PEM)
        )
        return file


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
    )
