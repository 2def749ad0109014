"""Makes the context of Python's ssl from the TLS options of a web configuration file."""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from jobfeatures.errors import ParseError
from jobfeatures.system.tls import load_chain, new_context, read_pem, reason_of
from jobfeatures_exporter.web.configfile.options import ClientAuth, Pem, TlsOptions

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def make_context(options: TlsOptions, source: str) -> ssl.SSLContext:
    """Return a listener's TLS context. Raises ParseError naming `source`, the key and the file."""
    context = new_context()
    context.minimum_version = _VERSIONS[options.min_version]
    context.maximum_version = _VERSIONS[options.max_version]
    if options.prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    # OpenSSL may be built or configured without some suites and curves.
    if options.ciphers is not None:
        with _failing("OpenSSL refuses it on this machine", source, "tls_server_config.cipher_suites"):
            context.set_ciphers(":".join(options.ciphers))
    if options.curve is not None:
        with _failing("OpenSSL refuses it on this machine", source, "tls_server_config.curve_preferences"):
            context.set_ecdh_curve(options.curve)
    certificate, key = _read(options.certificate, source), _read(options.private_key, source)
    names = f"{_name(options.certificate)} with {_name(options.private_key)}"
    with _failing(f"cannot use {names}", source, options.private_key.key):
        load_chain(context, certificate, key)
    context.verify_mode = _VERIFY[options.client_auth]
    if options.client_ca is not None:
        authorities = _read(options.client_ca, source)
        with _failing(f"cannot use {_name(options.client_ca)}", source, options.client_ca.key):
            context.load_verify_locations(cadata=authorities.decode("ascii"))
    return context


@contextlib.contextmanager
def _failing(reason: str, source: str, key: str) -> Iterator[None]:
    """Turn errors of OpenSSL or the system into ParseError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ParseError(f"{reason}: {reason_of(error)}", source=source, field=key) from None


def _name(pem: Pem) -> str:
    return pem.path or "the text given"


def _read(pem: Pem, source: str) -> bytes:
    if pem.text:
        return pem.text.encode("utf-8", "replace")
    with _failing(f"cannot read {pem.path}", source, pem.key):
        return read_pem(pem.path)


def is_allowed(certificate: Mapping[str, Any] | None, allowed: Collection[str] | None) -> bool:
    """Return whether a client may connect: its certificate has one of the `allowed` names.

    If `allowed` is None, every client may, even one without a certificate. `certificate` is the verified one
    that `getpeercert` returns.
    """
    return allowed is None or any(name in allowed for name in names_of(certificate or {}))


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield a certificate's subject alternative names (DNS, e-mail, IP, URI), as Go writes them."""
    for kind, name in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            try:
                yield str(ipaddress.ip_address(name.strip()))
            except ValueError:
                continue
        elif kind in ("DNS", "email", "URI"):
            yield name
