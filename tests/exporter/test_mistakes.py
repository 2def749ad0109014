"""What people do wrong, and the line that each mistake gets: what is wrong, where, and what to do about it."""

import datetime
import ipaddress
import os
import socket
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.certificates import make_extensions

JOB = "1 0 0 4 2 -1 -1 2 10 -1 1 1 -1 -1 -1 -1 -1 -1\n"
FILES = {
    "one.swf": JOB,
    "empty.swf": "",
    "noise": "what is this?\n",
    "typo.toml": '[web]\nlisten_adress = ":1"\n',
    "kind.toml": '[batch]\ninterval = "soon"\n',
    "choice.toml": '[metrics]\nprofile = ["jobstat"]\n',
    "broken.toml": "[metrics\n",
    "typo.yml": "tls_server_confg: {cert_file: a.crt}\n",
    "nocert.yml": "tls_server_config: {cert_file: a.crt, key_file: a.key}\n",
    "plain.yml": "basic_auth_users: {ann: secret}\n",
    "machine/total_cpu": "16\n",
    "job/allocated_cpu": "8\n",
}
IN_A_JOB = {"MACHINEFEATURES": "machine", "JOBFEATURES": "job"}
J, X = "jobfeatures", "jobfeatures-exporter"
NO_FLAG, NO_JOB = "there is no flag", 'in a job: eval "$(jobfeatures env)"'
SERVE = f"{X} serve --features.root FOLDER/root --batch.sources spool --spool.directory FOLDER"
LISTENING = f"{SERVE} --web.listen-address 127.0.0.1:0 --web.config.file FOLDER"
ANY_PORT = "--web.listen-address"

# command (FOLDER, HTTP_PORT and TLS_PORT stand for a folder, a port where HTTP is spoken, and one with an expired
# certificate), what its last line says behind the program's name, exit status
MISTAKES = [
    # flags and commands
    (f"{J} gett allocated_cpu", f": there is no command 'gett'; did you mean get? (see {J} --help)", 2),
    (f"{J} get --all KEY", f" get: {NO_FLAG} '--all' (see {J} get --help)", 2),
    (f"{X} top --onec", f" top: {NO_FLAG} '--onec'; did you mean --once? (see {X} top --help)", 2),
    (f"{X} serve --role controler", ": --role: must be one of node, controller, not 'controler'; did you mean controller?", 2),
    (f"{X} serve --set web.listen_address", f" serve: --set: must be KEY=VALUE, not 'web.listen_address' (see {X} serve --help)", 2),
    (f"{X} summaries", f" summaries: the following arguments are required: --prometheus (see {X} summaries --help)", 2),
    (f"{J} drain set --at yesterday", ": --at: must be a time (epoch seconds, +3600, +2h or 2027-01-15T08:00:00+01:00), not 'yesterday'", 2),
    # the settings file
    (f"{X} check-config --config.file FOLDER/typo.toml", ": FOLDER/typo.toml:2: web.listen_adress: there is no such setting; did you mean web.listen_address?", 2),
    (f"{X} check-config --config.file FOLDER/kind.toml", ": FOLDER/kind.toml:2: batch.interval: must be a duration such as 500ms, 10s, 2m, or a number of seconds, not 'soon'", 2),
    (f"{X} check-config --config.file FOLDER/choice.toml", ": FOLDER/choice.toml:2: metrics.profile: must be some of treydock, jobstats, slurm-job-exporter, ceems, process-exporter, not \"['jobstat']\"; did you mean jobstats?", 2),
    (f"{X} check-config --config.file FOLDER/broken.toml", ": FOLDER/broken.toml: is not TOML: Expected ']' at the end of a table declaration (at line 1, column 9)", 2),
    (f"{X} check-config --config.file FOLDER/none.toml", ": FOLDER/none.toml: cannot be read: there is no such file", 2),
    (f"{X} check-config --privacy hash", ": privacy: hash needs privacy_key_file, such as one made by: head -c 32 /dev/urandom | base64", 2),
    # the daemon's start
    (f"{SERVE} {ANY_PORT} 127.0.0.1:HTTP_PORT", ": web.listen_address: cannot listen on 127.0.0.1:HTTP_PORT: Address already in use; stop what listens there, or choose another port with --web.listen-address", 2),
    (f"{SERVE} {ANY_PORT} 192.0.2.1:9819", ": web.listen_address: cannot listen on 192.0.2.1:9819: Cannot assign requested address; it is not an address of this machine", 2),
    (f"{SERVE} {ANY_PORT} :99999", ": --web.listen-address: must be HOST:PORT, [IPV6]:PORT or :PORT, not ':99999'", 2),
    (f"{X} serve --features.root FOLDER/open --batch.sources spool --spool.directory FOLDER", ": features.root: others may write to FOLDER/open (mode 777); chmod go-w FOLDER/open", 2),
    (f"{X} serve --features.root FOLDER/root --batch.sources spool", ": spool.directory: is not set: the spool source needs it", 2),
    (f"{LISTENING}/none.yml", ": web.config_file: FOLDER/none.yml: cannot be read: No such file or directory", 2),
    (f"{LISTENING}/typo.yml", ": web.config_file: FOLDER/typo.yml:1: unknown key; allowed are basic_auth_users, http_server_config, rate_limit, tls_server_config: 'tls_server_confg'", 2),
    (f"{LISTENING}/nocert.yml", ": web.config_file: FOLDER/nocert.yml:tls_server_config.cert_file: cannot read FOLDER/a.crt: No such file or directory", 2),
    (f"{LISTENING}/plain.yml", ": web.config_file: FOLDER/plain.yml:1:basic_auth_users.ann: is not a bcrypt hash: make one with htpasswd -nBC 10 USER", 2),
    (f"{SERVE} --sonar.cluster c --sonar.sinks kafka --sonar.kafka-brokers k:9092", ": sonar.sinks: kafka needs confluent-kafka: pip install 'jobfeatures-exporter[kafka]'", 2),
    # servers
    (f"{X} report 4711 --prometheus http://127.0.0.1:1", ": http://127.0.0.1:1/api/v1/query: Connection refused; does the server run there? --prometheus must name the Prometheus server that scrapes the nodes", 1),
    (f"{X} report 4711 --prometheus http://127.0.0.1:TLS_PORT", ": http://127.0.0.1:TLS_PORT/api/v1/query: the server expects TLS: https:// instead of http://? Use --prometheus https://127.0.0.1:TLS_PORT, and --prometheus.ca-file for a CA of your own", 1),
    (f"{X} top --once --url http://127.0.0.1:TLS_PORT", ": http://127.0.0.1:TLS_PORT/metrics: the server expects TLS: https:// instead of http://? Use --url https://127.0.0.1:TLS_PORT/metrics, and --url.ca-file for a CA of your own", 1),
    (f"{J} drain plan --metrics http://127.0.0.1:TLS_PORT", ": http://127.0.0.1:TLS_PORT/metrics: the server expects TLS: https:// instead of http://? Use --metrics https://127.0.0.1:TLS_PORT/metrics, and --metrics.ca-file for a CA of your own", 1),
    (f"{J} drain plan --prometheus http://127.0.0.1:TLS_PORT/", ": http://127.0.0.1:TLS_PORT/api/v1/query: the server expects TLS: https:// instead of http://? Use --prometheus https://127.0.0.1:TLS_PORT, and --prometheus.ca-file for a CA of your own", 1),
    (f"{X} report 4711 --prometheus http://127.0.0.1:HTTP_PORT", ": http://127.0.0.1:HTTP_PORT: answered with HTTP status 404: is this the address of a Prometheus server?", 1),
    (f"{X} report 4711 --prometheus prometheus", ": --prometheus: must be an address such as http://node1:9820, not 'prometheus'", 2),
    (f"{X} top --once --url https://127.0.0.1:HTTP_PORT", ": https://127.0.0.1:HTTP_PORT/metrics: the server does not use TLS: http:// instead of https://?", 1),
    (f"{X} top --once --url https://127.0.0.1:TLS_PORT --url.ca-file FOLDER/old.crt", ": https://127.0.0.1:TLS_PORT/metrics: the server's certificate is refused: certificate has expired", 1),
    (f"{X} top --once --url http://no.such.host.invalid", ": http://no.such.host.invalid/metrics: Name or service not known; is the host's name right?", 1),
    (f"{J} drain plan --metrics http://127.0.0.1:1/metrics", ": http://127.0.0.1:1/metrics: Connection refused; does the server run there?", 1),
    # jobs
    (f"{J} get allocated_cpu", f": no features can be read: neither $MACHINEFEATURES nor $JOBFEATURES is set; {NO_JOB}", 3),
    (f"{J} report --used-cpu 5", f": $JOBSTATUS: is not set; {NO_JOB}, else name --directory", 2),
    (f"{J} show 4711 --features.root FOLDER/root", ": nothing is published for job 4711 in FOLDER/root; jobfeatures show lists others", 1),
    (f"{J} drain set --at +1h --job 77 --features.root FOLDER/root", ": --job: nothing is published here for this job: '77'", 1),
    (f"{J} env", ": --batch: must be given, because none of SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, _CONDOR_JOB_AD, JOB_ID, OAR_JOB_ID is set", 2),
    # logs
    (f"{J} convert FOLDER/none.swf FOLDER/out.xml", ": FOLDER/none.swf: cannot read: No such file or directory", 2),
    (f"{J} convert FOLDER FOLDER/out.xml", ": FOLDER: cannot read: Is a directory", 2),
    (f"{J} convert FOLDER/noise FOLDER/out.xml", ": FOLDER/noise: is not recognised as a log: if you know its kind, give it with --from", 2),
    (f"{J} convert FOLDER/one.swf FOLDER/out", ": FOLDER/out: the file name does not show the kind: give it with --to", 2),
    (f"{J} convert FOLDER/one.swf /dev/full --to sss", ": /dev/full: cannot write: No space left on device", 2),
    (f"{J} convert FOLDER/one.swf FOLDER/out.xml --zone Europe/Berln", ": --zone: no such zone: 'Europe/Berln'; did you mean Europe/Berlin?", 2),
    (f"{J} schedule FOLDER/empty.swf", ": FOLDER/empty.swf: holds no jobs", 1),
    (f"{J} expect 9 --log FOLDER/one.swf --share 3", ": FOLDER/one.swf: no job '9' is known", 1),
]  # fmt: skip


class NotFound(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def serving(context=None):
    """Return a server that knows nothing, and runs."""
    server = HTTPServer(("127.0.0.1", 0), NotFound)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def expired(folder):
    """Return what serves with a certificate that ended yesterday."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]),
    )
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now - 9 * day, now - day)
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = built.add_extension(host, critical=False)
    for extension, is_critical in make_extensions(key.public_key(), key.public_key(), is_authority=False):
        built = built.add_extension(extension, is_critical)
    text = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "old.crt").write_bytes(text)
    (folder / "old.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "old.crt", folder / "old.key")
    return context


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return what stands for FOLDER, HTTP_PORT and TLS_PORT."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "root").mkdir(mode=0o755)
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    plain, tls = serving(), serving(expired(folder))
    yield {"FOLDER": str(folder), "HTTP_PORT": str(plain.server_port), "TLS_PORT": str(tls.server_port)}
    for server in (plain, tls):
        server.shutdown()
        server.server_close()


def filled(text, places):
    for word, place in places.items():
        text = text.replace(word, place)
    return text


@pytest.fixture
def by_nobody_else(monkeypatch):
    """No name is looked up anywhere, and nothing optional is installed."""

    def lookup(host, *rest, **options):
        if not host[0].isdigit():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *rest, **options)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)


@pytest.mark.parametrize(("command", "said", "status"), MISTAKES)
def test_a_mistake_is_named_with_its_place_and_a_remedy(places, by_nobody_else, call, command, said, status):
    program, *words = filled(command, places).split()
    done = call(program, *words)
    assert done.stderr.splitlines()[-1] == program + filled(said, places)
    assert done.returncode == status


@pytest.mark.parametrize(
    ("command", "said", "status"),
    [
        ("get alocated_cpu", "'alocated_cpu' is not a machine/job features key; did you mean allocated_cpu?", 1),
        ("get max_rss_bytes", "max_rss_bytes is unknown or unlimited here; jobfeatures show lists what is known", 1),
        ("remaining", "no limit is known for this job; jobfeatures show lists what is known", 1),
    ],
)  # fmt: skip
def test_in_a_job(places, call, command, said, status):
    environ = {name: f"{places['FOLDER']}/{folder}" for name, folder in IN_A_JOB.items()}
    done = call(J, *command.split(), environ=environ)
    assert (done.stderr, done.returncode) == (f"{J}: {said}\n", status)


def test_features_that_nobody_serves(call):
    done = call(J, "get", "allocated_cpu", environ={"JOBFEATURES": "http://127.0.0.1:1/x"})
    said = "no features can be read: http://127.0.0.1:1/x/allocated_cpu: Connection refused"
    assert (done.stderr, done.returncode) == (f"{J}: {said}\n", 3)


def test_a_misspelt_variable_is_named_and_others_are_not(call):
    environ = {
        "JOBFEATURES_BATCH_INTERVALL": "9s",
        "JOBFEATURES_URL": "http://x",
        "JOBFEATURES_OF_SITE": "1",
    }
    done = call(X, "check-config", "--no-features.publish", environ=environ)
    said = "JOBFEATURES_BATCH_INTERVALL: there is no such setting; did you mean JOBFEATURES_BATCH_INTERVAL?"
    assert (done.stderr, done.returncode) == (f"{X}: {said}\n", 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_who_may_not_read_or_write_is_told_so(places, call, monkeypatch, tmp_path):
    (tmp_path / "root").mkdir(mode=0o700)
    log = tmp_path / "root/log.swf"
    log.write_text(JOB)
    tmp_path.chmod(0o755)
    read = f"{log}: cannot read: Permission denied"
    write = f"{tmp_path}/root: Permission denied; run as root"
    try:
        os.seteuid(65534)
        denied = call(J, "convert", str(log), "/dev/null", "--to", "sss")
        drained = call(J, "drain", "set", "--at", "+1h", "--features.root", f"{tmp_path}/root")
    finally:
        os.seteuid(0)
    assert (denied.stderr, denied.returncode) == (f"{J}: {read}\n", 2)
    assert (drained.stderr, drained.returncode) == (f"{J}: {write}\n", 1)


def test_there_are_thirty_and_more():
    assert len({command for command, _, _ in MISTAKES}) >= 40
