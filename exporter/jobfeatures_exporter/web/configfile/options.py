"""Parses the web configuration file of Prometheus' exporters into options. Pure.

Source: prometheus/exporter-toolkit, docs/web-configuration.md. A setting that Python's ssl cannot honour is
an error where ignoring it would weaken access control, and otherwise a warning; docs/security.md has a table,
key by key.
"""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jobfeatures_exporter.web.configfile.yamlfile import ANY, YamlFile

MAX_COST: Final = 16  # of a bcrypt hash: a check takes some seconds

# Go's names for TLS 1.2, as crypto/tls lists them in CipherSuites(), and OpenSSL's.
CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
# TLS 1.3 suites: accepted by Go too, but selectable neither there nor here.
CIPHERS_13: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
OLD_VERSIONS: Final = ("TLS10", "TLS11")
VERSIONS: Final = ("TLS12", "TLS13")
HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
_HASH = re.compile(r"\$2[abxy]\$([0-9]{2})\$[./A-Za-z0-9]{53}", re.ASCII)
_DURATION = re.compile(r"(?:(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"([0-9.]+)([a-zµμ]+)")
_SECS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class ClientAuth(enum.Enum):
    """Whether clients must present a certificate."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a private key: a file's path, or the text itself. `key` names the setting."""

    key: str
    path: str = ""
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """TLS parameters of a listener. Ciphers and curve have OpenSSL's names; None: OpenSSL's default.

    `client_ca` has the authorities that sign clients' certificates. `allowed_sans` are the alternative names
    of which a client's certificate must have one (None: any).
    """

    certificate: Pem
    private_key: Pem
    client_ca: Pem | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    allowed_sans: frozenset[str] | None = None
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    ciphers: tuple[str, ...] | None = None  # of TLS 1.2
    prefer_server_ciphers: bool = True
    curve: str | None = None


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket: holds `burst` requests, refilled by one every `interval_secs`."""

    interval_secs: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    """The options in a web configuration file, each None or empty if it is not set.

    `users` are bcrypt hashes of passwords by name, `headers` are added to each response, and `rate` limits
    requests. `warnings` name the settings that are ignored, and why.
    """

    tls: TlsOptions | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)  # bcrypt hashes by name
    headers: Mapping[str, str] = field(default_factory=dict)
    rate: RateLimit | None = None
    warnings: tuple[str, ...] = ()


def parse_web_config(content: bytes, source: str) -> WebOptions:
    """Return the file's options; relative paths in it are relative to its folder.

    Raises ParseError naming line and key, without quoting any secret.
    """
    return _Parser(source).parse(content)


class _Parser(YamlFile):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._folder = posixpath.dirname(source)
        self._warnings: list[str] = []

    def parse(self, content: bytes) -> WebOptions:
        found = self.read(content, _KINDS)
        return WebOptions(
            tls=self._tls(found["tls_server_config"]),
            headers=self._http(found["http_server_config"]),
            users=self._users(found["basic_auth_users"]),
            rate=self._rate(found["rate_limit"]),
            warnings=tuple(self._warnings),
        )

    def _warn(self, key: str, reason: str) -> None:
        self._warnings.append(f"{key}: {reason}")

    # --- TLS --------------------------------------------------------------------

    def _tls(self, found: dict[str, Any]) -> TlsOptions | None:
        key = "tls_server_config"
        certificate, private_key, client_ca = (
            self._pem(found, each) for each in ("cert", "key", "client_ca")
        )
        ciphers, curve = self._ciphers(found["cipher_suites"]), self._curve(found["curve_preferences"])
        low, high = self._versions(found["min_version"], found["max_version"])
        if not (certificate or private_key or client_ca or found["client_auth_type"]):
            if any(value not in ("", None) for value in found.values()):
                self._warn(key, "TLS is off, because neither cert_file nor key_file is set")
            return None
        if certificate is None:
            raise self.fault("is missing: name the certificate's file", f"{key}.cert_file")
        if private_key is None:
            raise self.fault("is missing: name the private key's file", f"{key}.key_file")
        auth = self._client_auth(found["client_auth_type"])
        if auth is ClientAuth.NONE and client_ca is not None:
            raise self.fault(
                "must be RequireAndVerifyClientCert, because client_ca_file is set", f"{key}.client_auth_type"
            )
        if auth is not ClientAuth.NONE and client_ca is None:
            raise self.fault(f"must be set for client_auth_type {auth.value}", f"{key}.client_ca_file")
        sans = found["client_allowed_sans"]
        if sans is not None and auth is not ClientAuth.REQUIRED:
            raise self.fault(
                "can be used only with client_auth_type: RequireAndVerifyClientCert",
                f"{key}.client_allowed_sans",
            )
        if sans is not None and not sans:
            raise self.fault("is empty, so no client could connect", f"{key}.client_allowed_sans")
        if low == "TLS12" == high and ciphers == ():
            raise self.fault(
                "needs a cipher suite of TLS 1.2, because max_version is TLS12", f"{key}.cipher_suites"
            )
        return TlsOptions(
            certificate=certificate,
            private_key=private_key,
            client_ca=client_ca,
            client_auth=auth,
            allowed_sans=None if sans is None else frozenset(sans),
            min_version="TLS13" if ciphers == () else low,
            max_version=high,
            ciphers=ciphers or None,
            prefer_server_ciphers=found["prefer_server_cipher_suites"] is not False,
            curve=curve,
        )

    def _pem(self, found: Mapping[str, str], name: str) -> Pem | None:
        here, path = found[name], found[f"{name}_file"]
        if here and path:
            raise self.fault(
                f"cannot be combined with {name}_file: remove one of them", f"tls_server_config.{name}"
            )
        if path:
            return Pem(f"tls_server_config.{name}_file", path=posixpath.join(self._folder, path))
        return Pem(f"tls_server_config.{name}", text=here) if here else None

    def _client_auth(self, word: str) -> ClientAuth:
        key = "tls_server_config.client_auth_type"
        if word == "RequestClientCert":
            self._warn(key, "RequestClientCert has no effect, because it does not verify certificates")
            return ClientAuth.NONE
        if word in ("RequireAnyClientCert", "RequireClientCert"):
            raise self.fault(
                f"{word} accepts any certificate unverified, which is not supported:"
                " use RequireAndVerifyClientCert and client_ca_file",
                key,
            )
        try:
            return ClientAuth(word or "NoClientCert")
        except ValueError:
            allowed = ", ".join(each.value for each in ClientAuth)
            raise self.fault(f"must be one of {allowed}", key, word) from None

    def _versions(self, low: str, high: str) -> tuple[str, str]:
        for name, word in (("min_version", low), ("max_version", high)):
            if word and word not in (*OLD_VERSIONS, *VERSIONS):
                raise self.fault("must be one of TLS12, TLS13", f"tls_server_config.{name}", word)
        low, high = low or "TLS12", high or "TLS13"
        if high in OLD_VERSIONS:
            raise self.fault("must be TLS12 or TLS13", "tls_server_config.max_version", high)
        if low in OLD_VERSIONS:
            self._warn("tls_server_config.min_version", f"{low} is not supported: TLS12 is used")
            low = "TLS12"
        if low > high:
            raise self.fault("is above max_version", "tls_server_config.min_version")
        return low, high

    def _ciphers(self, names: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return OpenSSL's names of the TLS 1.2 suites; empty if only TLS 1.3 suites are named."""
        key = "tls_server_config.cipher_suites"
        if not names:
            return None
        for name in names:
            if name not in CIPHERS and name not in CIPHERS_13:
                raise self.fault("is an unknown cipher suite", key, name)
        if any(name in CIPHERS_13 for name in names):
            self._warn(key, "cipher suites of TLS 1.3 cannot be chosen: all of them are always offered")
        return tuple(CIPHERS[name] for name in names if name in CIPHERS)

    def _curve(self, names: Sequence[str] | None) -> str | None:
        key = "tls_server_config.curve_preferences"
        if not names:
            return None
        for name in names:
            if name not in CURVES:
                raise self.fault(f"must be one of {', '.join(CURVES)}", key, name)
        if len(names) > 1:
            raise self.fault(
                "only one curve can be set here: name one, or remove the key for OpenSSL's own list", key
            )
        return CURVES[names[0]]

    # --- HTTP -------------------------------------------------------------------

    def _http(self, found: dict[str, Any]) -> dict[str, str]:
        key = "http_server_config"
        if found["http2"]:
            self._warn(f"{key}.http2", "HTTP/2 is not supported: HTTP/1.1 is used")
        headers: dict[str, str] = {name: value for name, value in found["headers"].items() if value}
        for name, value in headers.items():
            allowed = HEADERS[name]
            if allowed and value not in allowed:
                raise self.fault(f"must be {' or '.join(allowed)}", f"{key}.headers.{name}", value)
            if not value.isprintable() or not value.isascii():
                raise self.fault("must be one line of ASCII", f"{key}.headers.{name}")
        return headers

    def _users(self, users: dict[str, str]) -> dict[str, str]:
        key = "basic_auth_users"
        for name, value in users.items():
            if not name or ":" in name or not name.isprintable():
                raise self.fault("has a user name that is empty, unprintable or contains a colon", key)
            match = _HASH.fullmatch(value)
            if match is None:
                raise self.fault("is not a bcrypt hash: make one with htpasswd -nBC 10 USER", f"{key}.{name}")
            if not 4 <= int(match[1]) <= MAX_COST:
                raise self.fault(f"the cost of the bcrypt hash must be 4 to {MAX_COST}", f"{key}.{name}")
        return users

    def _rate(self, found: Mapping[str, str]) -> RateLimit | None:
        text, burst = found["interval"], found["burst"]
        if not re.fullmatch(r"[0-9]{0,9}", burst):
            raise self.fault("must be a whole number", "rate_limit.burst")
        if text in ("", "0"):
            return None
        if not _DURATION.fullmatch(text):
            raise self.fault("must be a duration such as 100ms or 1s", "rate_limit.interval")
        interval_secs = sum(float(number) * _SECS[unit] for number, unit in _PART.findall(text))
        if interval_secs == 0:
            return None
        if int(burst or 0) == 0:
            raise self.fault("must be 1 or more: otherwise all requests would be refused", "rate_limit.burst")
        return RateLimit(interval_secs, int(burst))


_KINDS: Final[dict[str, Any]] = {
    "tls_server_config": {
        **dict.fromkeys(("cert", "cert_file", "key", "key_file", "client_ca", "client_ca_file"), str),
        **dict.fromkeys(("client_auth_type", "min_version", "max_version"), str),
        **dict.fromkeys(("client_allowed_sans", "cipher_suites", "curve_preferences"), list),
        "prefer_server_cipher_suites": bool,
    },
    "http_server_config": {"http2": bool, "headers": dict.fromkeys(HEADERS, str)},
    "basic_auth_users": {ANY: str},
    "rate_limit": {"interval": str, "burst": str},
}
