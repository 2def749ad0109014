"""Extensions of certificates that strict verification asks for, which is Python's own since 3.13. See RFC 5280, 4.2."""

from __future__ import annotations

from cryptography import x509
from cryptography.x509 import ExtensionType

_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def make_extensions(public_key, signer_key, *, is_authority: bool) -> list[tuple[ExtensionType, bool]]:
    """Return the extensions of an authority's certificate or another one, and whether each is critical."""
    allowed = {"key_cert_sign", "crl_sign"} if is_authority else {"digital_signature"}
    return [
        (x509.BasicConstraints(ca=is_authority, path_length=None), True),
        (x509.KeyUsage(**{name: name in allowed for name in _USAGES}), True),
        (x509.SubjectKeyIdentifier.from_public_key(public_key), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key), False),
    ]
