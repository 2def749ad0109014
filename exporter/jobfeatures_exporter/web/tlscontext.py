"""What a web configuration asks of TLS, as a context of Python's ssl."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from jobfeatures.errors import ParseError
from jobfeatures.publish.tls import load_chain, new_context, read_pem, reason_of
from jobfeatures_exporter.web.webconfig import ClientAuth, Pem, TlsOptions

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def make_context(options: TlsOptions, source: str) -> ssl.SSLContext:
    """Return the context of a listener. Raises ParseError naming `source`, the key and the file."""
    context = new_context()
    context.minimum_version = _VERSIONS[options.min_version]
    context.maximum_version = _VERSIONS[options.max_version]
    if options.prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    _choose(context, options, source)
    certificate, key = _read(options.certificate, source), _read(options.private_key, source)
    try:
        load_chain(context, certificate, key)
    except (OSError, ValueError) as error:
        reported = (
            f"cannot use {_name(options.certificate)} with {_name(options.private_key)}: {reason_of(error)}"
        )
        raise ParseError(reported, source=source, field=options.private_key.key) from None
    context.verify_mode = _VERIFY[options.client_auth]
    if options.client_ca is not None:
        authorities = _read(options.client_ca, source)
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (OSError, ValueError) as error:
            reported = f"cannot use {_name(options.client_ca)}: {reason_of(error)}"
            raise ParseError(reported, source=source, field=options.client_ca.key) from None
    return context


def _choose(context: ssl.SSLContext, options: TlsOptions, source: str) -> None:
    """Offer the suites and the curve that are named; not every machine's OpenSSL allows all of them."""
    name = "cipher_suites"
    try:
        if options.ciphers is not None:
            context.set_ciphers(":".join(options.ciphers))
        name = "curve_preferences"
        if options.curve is not None:
            context.set_ecdh_curve(options.curve)
    except (OSError, ValueError) as error:
        reported = f"OpenSSL refuses it on this machine: {reason_of(error)}"
        raise ParseError(reported, source=source, field=f"tls_server_config.{name}") from None


def _name(pem: Pem) -> str:
    return pem.path or "the text given"


def _read(pem: Pem, source: str) -> bytes:
    if pem.text:
        return pem.text.encode("utf-8", "replace")
    try:
        return read_pem(pem.path)
    except (OSError, ValueError) as error:
        raise ParseError(
            f"cannot read {pem.path}: {reason_of(error)}", source=source, field=pem.key
        ) from None


def is_allowed(certificate: Mapping[str, Any] | None, allowed: Collection[str] | None) -> bool:
    """Return whether a verified certificate, as `getpeercert` gives it, has one of the allowed names."""
    return allowed is None or any(name in allowed for name in names_of(certificate or {}))


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the subject's alternative names: DNS, e-mail and IP addresses, URIs, as Go writes them."""
    for kind, name in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            try:
                yield str(ipaddress.ip_address(name.strip()))
            except ValueError:
                continue
        elif kind in ("DNS", "email", "URI"):
            yield name
