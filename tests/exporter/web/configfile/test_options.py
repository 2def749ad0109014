"""The web configuration file. All files here are constructed, as its documentation describes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.web.configfile.options import (
    CIPHERS,
    CIPHERS_13,
    ClientAuth,
    Pem,
    RateLimit,
    WebOptions,
    parse_web_config,
)

HASH = "$2y$10$" + "a" * 53
TLS = "tls_server_config:\n  cert_file: server.pem\n  key_file: keys/server.key\n"
CA = TLS + "  client_ca_file: /etc/ca.pem\n"


def parse(text):
    return parse_web_config(text.encode("utf-8", "surrogateescape"), "/etc/site/web.yml")


def fault(text):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("/etc/site/web.yml:")
    return str(caught.value)


def test_a_whole_file_is_read():
    options = parse(
        CA
        + f"""  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [scraper.example, 10.0.0.1]
  min_version: TLS12
  max_version: TLS12
  cipher_suites:
    - TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP384]
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    Strict-Transport-Security: max-age=300
    Content-Security-Policy: ""
basic_auth_users:
  alice: {HASH}
  123: {HASH}
rate_limit:
  interval: 1m0.5s
  burst: 20
"""
    )
    assert options == WebOptions(
        tls=options.tls,
        users={"alice": HASH, "123": HASH},
        headers={"X-Frame-Options": "deny", "Strict-Transport-Security": "max-age=300"},
        rate=RateLimit(60.5, 20),
    )
    tls = options.tls
    assert tls.certificate == Pem("tls_server_config.cert_file", path="/etc/site/server.pem")
    assert tls.private_key.path == "/etc/site/keys/server.key"
    assert tls.client_ca.path == "/etc/ca.pem"
    assert tls.client_auth is ClientAuth.REQUIRED
    assert tls.allowed_sans == {"scraper.example", "10.0.0.1"}
    assert (tls.min_version, tls.max_version) == ("TLS12", "TLS12")
    assert tls.ciphers == ("ECDHE-RSA-AES256-GCM-SHA384",)
    assert tls.prefer_server_ciphers is False
    assert tls.curve == "secp384r1"


def test_defaults_are_those_of_the_format():
    tls = parse(TLS).tls
    assert (tls.min_version, tls.max_version, tls.client_auth) == ("TLS12", "TLS13", ClientAuth.NONE)
    assert tls.prefer_server_ciphers
    assert tls.ciphers is None


def test_certificates_may_stand_in_the_file():
    tls = parse("tls_server_config:\n  cert: |\n    CERT\n    MORE\n  key: KEY\n").tls
    assert tls.certificate == Pem("tls_server_config.cert", text="CERT\nMORE\n")
    assert tls.private_key.text == "KEY"


@pytest.mark.parametrize("text", ["{}", "tls_server_config:\n", "basic_auth_users: {}\n", "rate_limit: ~"])
def test_a_file_may_ask_for_nothing(text):
    assert parse(text) == WebOptions()


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~", "\ufeff"])
def test_an_empty_file_is_a_fault_because_it_looks_like_a_half_written_one(text):
    assert "is empty" in fault(text)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("tls_config: {}", 1, "unknown key"),
        (TLS + "  certfile: x", 4, "tls_server_config: unknown key"),
        ("basic_auth_users: [a]", 1, "basic_auth_users: must be a mapping"),
        ("- a", 1, "must be a mapping"),
        ("tls_server_config: {cert_file: [a], key_file: b}", 1, "cert_file: must be a string"),
        ("tls_server_config: {key_file: b}", 1, "cert_file: is missing"),
        ("tls_server_config: {cert_file: b}", 1, "key_file: is missing"),
        ("tls_server_config: {client_auth_type: NoClientCert}", 1, "cert_file: is missing"),
        (TLS + "  cert: here\n", 4, "tls_server_config.cert: cannot be combined with cert_file"),
        (TLS + "  min_version: TLS14\n", 4, "min_version: must be one of"),
        (TLS + "  max_version: TLS11\n", 4, "max_version: must be TLS12 or TLS13"),
        (TLS + "  min_version: TLS13\n  max_version: TLS12\n", 4, "min_version: is above max_version"),
        (
            TLS + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n",
            4,
            "cipher_suites: is an unknown cipher suite",
        ),
        (TLS + "  cipher_suites: TLS_AES_128_GCM_SHA256\n", 4, "cipher_suites: must be a list"),
        (TLS + "  curve_preferences: [P-256]\n", 4, "curve_preferences: must be one of"),
        (TLS + "  curve_preferences: [X25519, CurveP256]\n", 4, "only one curve can be set"),
        (TLS + "  prefer_server_cipher_suites: 1\n", 4, "must be true or false"),
        (TLS + "  client_auth_type: Maybe\n", 4, "client_auth_type: must be one of"),
        (TLS + "  client_auth_type: RequireAnyClientCert\n", 4, "use RequireAndVerifyClientCert"),
        (TLS + "  client_auth_type: RequireClientCert\n", 4, "use RequireAndVerifyClientCert"),
        (TLS + "  client_auth_type: RequireAndVerifyClientCert\n", 2, "client_ca_file: must be set"),
        (TLS + "  client_auth_type: VerifyClientCertIfGiven\n", 2, "client_ca_file: must be set"),
        (CA, 2, "client_auth_type: must be RequireAndVerifyClientCert"),
        (
            CA + "  client_auth_type: VerifyClientCertIfGiven\n  client_allowed_sans: [a]\n",
            6,
            "client_allowed_sans: can be used only with",
        ),
        (
            CA + "  client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: []\n",
            6,
            "no client could connect",
        ),
        (
            TLS + "  max_version: TLS12\n  cipher_suites: [TLS_AES_128_GCM_SHA256]\n",
            5,
            "needs a cipher suite of TLS 1.2",
        ),
        ("http_server_config: {headers: {Server: x}}", 1, "http_server_config.headers: unknown key"),
        ("http_server_config: {headers: {X-Frame-Options: never}}", 1, "must be deny or sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "a\\r\\nB: c"}}', 1, "one line of ASCII"),
        ("basic_auth_users: {alice: hunter2}", 1, "basic_auth_users.alice: is not a bcrypt hash"),
        ("basic_auth_users: {alice: }", 1, "basic_auth_users.alice: is not a bcrypt hash"),
        (f"basic_auth_users: {{alice: $2y$31${'a' * 53}}}", 1, "the cost of the bcrypt hash must be 4 to 16"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", 1, "contains a colon"),
        (f"basic_auth_users:\n  alice: {HASH}\n  alice: {HASH}\n", 3, "occurs twice"),
        ("rate_limit: {}\nrate_limit: {}", 2, "rate_limit: occurs twice"),
        ("rate_limit: {interval: 5, burst: 1}", 1, "rate_limit.interval: must be a duration"),
        ("rate_limit: {interval: -1s, burst: 1}", 1, "rate_limit.interval: must be a duration"),
        ("rate_limit: {interval: 1s}", 1, "rate_limit.burst: must be 1 or more"),
        ("rate_limit: {interval: 1s, burst: x}", 1, "rate_limit.burst: must be a whole number"),
        ("a: &a [1]\nb: *a\n", 2, "has an alias"),
        ("? [a]\n: b\n", 1, "has a key that is not text"),
        ("tls_server_config: {\n", 2, "is not YAML"),
        ("tls_server_config:\n\tcert_file: x", 2, "is not YAML"),
        ("[" * 5000, 1, "nested too deeply"),
        ("{}\n---\n{}\n", 2, "is not YAML: expected a single document in the stream, but found another"),
        ("{}\n# \0\n", 2, "is not YAML: unacceptable character #x0000"),
        ("http_server_config: {http2: !!bool [a]}", 1, "http_server_config.http2: must be true or false"),
        ("http_server_config: {http2: !!bool maybe}", 1, "http_server_config.http2: must be true or false"),
    ],
)
def test_a_fault_is_one_line_with_file_line_and_key(text, line, reason):
    said = fault(text)
    assert said.startswith(f"/etc/site/web.yml:{line}:"), said
    assert reason in said


def test_an_escape_beyond_unicode_is_a_fault():
    assert fault('basic_auth_users: {"\\UFFFFFFFF": x}').startswith("/etc/site/web.yml: is not YAML")


def test_no_secret_is_shown_in_a_fault():
    assert "hunter2" not in fault("basic_auth_users: {alice: hunter2}")
    assert "PRIVATE" not in fault("tls_server_config: {key: PRIVATE}")
    assert HASH not in repr(parse(f"basic_auth_users: {{alice: {HASH}}}"))


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (TLS + "  min_version: TLS10\n", "min_version: TLS10 is not supported"),
        (
            TLS + "  client_auth_type: RequestClientCert\n",
            "client_auth_type: RequestClientCert has no effect",
        ),
        (TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", "cipher_suites: cipher suites of TLS 1.3"),
        ("http_server_config: {http2: true}", "http_server_config.http2: HTTP/2"),
        ("tls_server_config: {min_version: TLS13}", "tls_server_config: TLS is off"),
    ],
)
def test_what_is_not_done_is_a_warning(text, warning):
    [said] = parse(text).warnings
    assert warning in said


def test_suites_of_tls_13_alone_switch_tls_12_off():
    tls = parse(TLS + f"  cipher_suites: [{CIPHERS_13[0]}]\n").tls
    assert (tls.min_version, tls.ciphers) == ("TLS13", None)


def test_every_suite_is_known_to_openssl():
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in CIPHERS.values():
        context.set_ciphers(name)
        assert name in [each["name"] for each in context.get_ciphers()]


@pytest.mark.parametrize(
    ("text", "secs"), [("1s", 1), ("100ms", 0.1), ("1h2m", 3720), ("1.5s", 1.5), ("2us", 2e-6), ("3ns", 3e-9)]
)
def test_durations_are_gos(text, secs):
    assert parse(f"rate_limit: {{interval: {text}, burst: 1}}").rate.interval_secs == pytest.approx(secs)


@pytest.mark.parametrize("text", ["0", "0s", "", "~"])
def test_an_interval_of_0_limits_nothing(text):
    assert parse(f"rate_limit:\n  interval: {text}\n  burst: 3\n").rate is None


def test_a_file_that_is_too_long_is_not_parsed():
    assert "is longer than" in fault("#" * 200_000)


def assert_reads_or_refuses(content):
    said = ""
    try:
        parse_web_config(content, "x")
    except ParseError as error:
        said = str(error)
    assert "\n" not in said


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(content):
    assert_reads_or_refuses(content)


KEYS = st.sampled_from(
    [
        *(
            "tls_server_config",
            "http_server_config",
            "basic_auth_users",
            "rate_limit",
            "headers",
            "cert_file",
        ),
        *("key_file", "client_auth_type", "min_version", "cipher_suites", "interval", "burst", "http2", "&x"),
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.sampled_from(["TLS12", "1s", "true", "*x", "!!python/object:os.system", "<<", HASH, "\\u0000"]),
        st.text(max_size=8),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def as_yaml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {as_yaml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    return "~" if value is None else str(value)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_no_structure_raises_anything_else(value):
    assert_reads_or_refuses(as_yaml(value).encode("utf-8", "surrogateescape"))
