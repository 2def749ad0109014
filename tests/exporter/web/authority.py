"""Certificates made for the tests."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.certificates import make_extensions

NOW = datetime.datetime.now(datetime.UTC)


DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates and writes them into a folder: NAME.pem and NAME.key."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name(name)
        certificate = self._sign(self.name, self.key, [], is_authority=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(certificate)

    def make(self, name: str, *names: x509.GeneralName) -> tuple[Path, Path]:
        """Return the paths of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        sans = names or (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        certificate = self._sign(_name(name), key, [x509.SubjectAlternativeName(sans)])
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate)
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def _sign(self, subject, key, extensions, *, is_authority=False) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - DAY)
            .not_valid_after(NOW + DAY)
        )
        usual = make_extensions(key.public_key(), self.key.public_key(), is_authority=is_authority)
        for each, critical in [*((each, False) for each in extensions), *usual]:
            builder = builder.add_extension(each, critical=critical)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
