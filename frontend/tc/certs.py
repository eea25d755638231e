"""python -m tc certs: a small certificate authority, and credentials with names for a fleet.

A certificate names its holder by the URI tc://ROLE/NAME; an agent's also has the host name
NAME.tc-agent, which TLS compares. The folder has, besides the credentials of this machine's own
tracker, agent and client, a folder to copy for each other device (devices/NAME) and client
(clients/NAME), a list of all certificates issued (issued.txt: serial, role, name, last day) and one
of those revoked (revoked.txt).

The program openssl makes the certificates. It is installed wherever TLS is used; own code, or a
Python package that has to be kept up to date, would be worse.
"""

import contextlib
import datetime
import getpass
import os
import re
import shutil
import socket
import subprocess
import tempfile

from .errors import DeviceError, lines_text
from .files import replaced
from .interrupts import temporary

# The extended key usage of each role's certificate.
_USES = {
    "tracker": "serverAuth",
    "agent": "serverAuth,clientAuth",
    "client": "clientAuth",
    "builder": "serverAuth,clientAuth",  # a node of a Ray cluster (cluster.py)
}
_AUTHORITY_DAYS = 3650
_DAYS = 1095
WARN_DAYS = 30
# Folders with the credentials of other devices and clients than this machine's.
_FOLDERS = {"agent": "devices", "client": "clients"}
_ISSUED, _REVOKED = "issued.txt", "revoked.txt"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[ca]
default_ca = authority
[authority]
database = {work}/index.txt
new_certs_dir = {work}
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[authority_extensions]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[program_extensions]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = {uses}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {hosts}
"""


def credentials_folder():
    """$TC_CREDENTIALS, else $XDG_CONFIG_HOME/tc, else ~/.config/tc: as the native programs."""
    if os.environ.get("TC_CREDENTIALS"):
        return os.environ["TC_CREDENTIALS"]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "tc")


def _openssl(*arguments):
    try:
        done = subprocess.run(
            ["openssl", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise DeviceError(
            "the program openssl, which makes the certificates, is missing; install "
            "it (Debian: apt-get install openssl)"
        ) from None
    except subprocess.TimeoutExpired:
        raise DeviceError("openssl does not come to an end; try again") from None
    if done.returncode != 0:
        raise DeviceError(f"openssl {arguments[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def _is_ip(host):
    for family in socket.AF_INET, socket.AF_INET6:
        try:
            socket.inet_pton(family, host)
            return True
        except OSError:
            pass
    return False


def check_name(name):
    """Returns the name if a certificate may contain it; an error otherwise."""
    if not _NAME.fullmatch(name):
        raise DeviceError(
            f"'{name}' is no name for a device or a client: it has 1 to 63 lower-case letters, digits "
            "and the characters '._-', with a letter or digit in front"
        )
    return name


def _own_name(text, otherwise):
    """The name of this machine or its user, made fit for a certificate."""
    return re.sub(r"^[._-]+", "", re.sub(r"[^a-z0-9._-]", "-", text.lower()))[:63] or otherwise


def _host_line(host):
    if host.lower().endswith(".tc-agent"):
        raise DeviceError(f"--hosts takes no '{host}': names that end so are those of devices")
    if _is_ip(host):
        return f"IP:{host}"
    if not re.fullmatch(r"[A-Za-z0-9_*]([A-Za-z0-9_.*-]{0,251})", host):
        raise DeviceError(f"--hosts takes host names and addresses, not '{host}'")
    return f"DNS:{host}"


def _own_hosts():
    """Names and addresses of this machine."""
    hosts = ["localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()]
    try:
        hosts += [row[4][0].split("%")[0] for row in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:
        pass
    # The address that this machine uses towards other networks; connecting a datagram socket sends
    # nothing.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            hosts.append(probe.getsockname()[0])
        except OSError:
            pass
    return hosts


def _known_hosts(folder):
    """The names and addresses in the tracker's present certificate."""
    path = os.path.join(folder, "tracker.pem")
    if not os.path.exists(path):
        return []
    text = _openssl("x509", "-in", path, "-noout", "-ext", "subjectAltName")
    return [
        host
        for kind, host in re.findall(r"(DNS|IP Address):([^,\s]+)", text)
        if host != "tc-tracker"
    ]


def _known_name(folder, role):
    """The name in the folder's present certificate of the role; None where there is no certificate,
    or no name in it."""
    path = os.path.join(folder, role + ".pem")
    if not os.path.exists(path):
        return None
    found = re.search(
        rf"URI:tc://{role}/([^,\s]+)",
        _openssl("x509", "-in", path, "-noout", "-ext", "subjectAltName"),
    )
    return found[1] if found else None


def _write(folder, name, text, mode):
    """Puts the file there in one step, so that no reader sees half of it."""
    with replaced(
        os.path.join(folder, name), durable=True
    ) as place:  # a key that is lost cannot be made again
        with open(place, "w", opener=lambda path, flags: os.open(path, flags, mode)) as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)


def _certificate(work, name, uses="", hosts="", authority=None, days=_DAYS):
    """(certificate, key) as PEM texts, signed by (certificate, key) files or by itself."""
    paths = {end: os.path.join(work, "new." + end) for end in ("cnf", "key", "csr", "pem")}
    with open(paths["cnf"], "w") as file:
        file.write(
            _CONFIG.format(name=name, work=work, uses=uses or "clientAuth", hosts=hosts or "DNS:tc")
        )
    open(os.path.join(work, "index.txt"), "w").close()
    _openssl(
        "req",
        "-new",
        "-config",
        paths["cnf"],
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        paths["key"],
        "-out",
        paths["csr"],
    )
    now = datetime.datetime.now(datetime.timezone.utc)
    # Valid from yesterday on, because clocks of boards may be wrong.
    begin, end = now - datetime.timedelta(days=1), now + datetime.timedelta(days=days)
    signer = ["-selfsign", "-keyfile", paths["key"], "-extensions", "authority_extensions"]
    if authority:
        signer = [
            "-cert",
            authority[0],
            "-keyfile",
            authority[1],
            "-extensions",
            "program_extensions",
        ]
    _openssl(
        "ca",
        "-batch",
        "-notext",
        "-config",
        paths["cnf"],
        "-in",
        paths["csr"],
        "-out",
        paths["pem"],
        "-startdate",
        f"{begin:%Y%m%d%H%M%SZ}",
        "-enddate",
        f"{end:%Y%m%d%H%M%SZ}",
        *signer,
    )
    with open(paths["pem"]) as certificate, open(paths["key"]) as key:
        return certificate.read(), key.read()


class _Authority:
    """The certificate authority of a folder, created where there is none."""

    def __init__(self, folder, create=False):
        self.folder = os.path.abspath(folder or credentials_folder())
        self.files = [os.path.join(self.folder, name) for name in ("ca.pem", "ca.key")]
        there = [os.path.basename(path) for path in self.files if os.path.exists(path)]
        if len(there) == 1:
            raise DeviceError(
                f"{self.folder} has {there[0]} without "
                f"{'ca.key' if there[0] == 'ca.pem' else 'ca.pem'}: its authority was made "
                "elsewhere; run this where it was made, or name another --folder"
            )
        if not there and not create:
            raise DeviceError(
                f"{self.folder} has no authority; make one with `python -m tc certs init`, or name "
                "its --folder"
            )
        self.kept = bool(there)

    def make(self):
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        if self.kept:
            return
        with tempfile.TemporaryDirectory() as work, temporary(work):
            certificate, key = _certificate(
                work, f"tc authority {os.urandom(4).hex()}", days=_AUTHORITY_DAYS
            )
        _write(self.folder, "ca.key", key, 0o600)
        _write(self.folder, "ca.pem", certificate, 0o644)

    def issue(self, role, name, folder=None, hosts=(), days=_DAYS):
        """Writes ROLE.pem and ROLE.key for that holder into the folder (None: the authority's own
        folder)."""
        names = [f"URI:tc://{role}/{name}", *hosts]
        if role == "agent":
            names.append(f"DNS:{name}.tc-agent")
        with tempfile.TemporaryDirectory() as work, temporary(work):
            certificate, key = _certificate(
                work, f"tc-{role}", _USES[role], ",".join(names), self.files, days
            )
            path = os.path.join(work, "new.pem")
            serial = _openssl("x509", "-in", path, "-noout", "-serial").strip().partition("=")[2]
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
        # Listed before it can be used: a certificate that is not in the list cannot be revoked by
        # name.
        _append(self.folder, _ISSUED, f"{serial} {role} {name} {end:%Y-%m-%d}\n")
        folder = folder or self.folder
        if folder != self.folder:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._copy_to(folder, "ca.pem", _REVOKED)
        _write(folder, role + ".key", key, 0o600)
        _write(folder, role + ".pem", certificate, 0o644)

    def _copy_to(self, folder, *names):
        for name in names:
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                with open(path) as file:
                    _write(folder, name, file.read(), 0o644)

    def revoke(self, lines):
        """Adds lines to the list of revoked certificates, here and in the folders of devices and
        clients."""
        _append(self.folder, _REVOKED, lines)
        for role in _FOLDERS:
            for name in self.known(role):
                self._copy_to(self.folder_of(role, name), _REVOKED)

    def folder_of(self, role, name):
        return os.path.join(self.folder, _FOLDERS[role], name)

    def known(self, role):
        """Names of the devices or clients that have a folder here."""
        place = os.path.join(self.folder, _FOLDERS[role])
        return sorted(
            name
            for name in (os.listdir(place) if os.path.isdir(place) else [])
            if _NAME.fullmatch(name)
        )

    def issued(self):
        """A dict for each certificate that was issued, oldest first."""
        revoked = {line.split()[0] for line in _lines(self.folder, _REVOKED)}
        rows = []
        for line in _lines(self.folder, _ISSUED):
            words = line.split()
            if len(words) == 4:
                rows.append(
                    {
                        "serial": words[0],
                        "role": words[1],
                        "name": words[2],
                        "ends": words[3],
                        "revoked": words[0] in revoked,
                    }
                )
        return rows


def _lines(folder, name):
    try:
        with open(os.path.join(folder, name)) as file:
            return [line for line in file if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        return []


def _append(folder, name, text):
    """Adds lines to a list in one step, as _write() does."""
    path = os.path.join(folder, name)
    before = ""
    if os.path.exists(path):
        with open(path) as file:
            before = file.read()
    _write(folder, name, before + text, 0o644)


@contextlib.contextmanager
def writing(folder):
    """Where a file cannot be written meanwhile, the error says so."""
    try:
        yield
    except OSError as error:
        raise DeviceError(
            f"{error.filename or folder} cannot be written: {error.strerror}"
        ) from None


def init(folder=None, hosts=(), devices=()):
    """Makes an authority in `folder`, or keeps the one there, and issues credentials anew: those of
    the tracker, the agent and the client of this machine, and of all devices and clients that have
    a folder here or are in `devices`. `hosts` are names and addresses of the tracker's machine
    besides this one's and those named before. Returns {"folder", "authority": "new" | "kept",
    "hosts", "agent", "client", "devices", "clients", "days"}.
    """
    for name in devices:
        check_name(name)
    authority = _Authority(folder, create=True)
    folder = authority.folder
    lines = []
    with writing(folder):
        authority.make()
        for host in [*_own_hosts(), *_known_hosts(folder), *hosts]:
            try:
                line = _host_line(host)
            except DeviceError:
                if host in hosts:
                    raise
                continue  # this machine's own name is unusual
            if line not in lines:
                lines.append(line)
        agent = _known_name(folder, "agent") or _own_name(socket.gethostname(), "agent")
        client = _known_name(folder, "client") or _own_name(_user(), "client")
        authority.issue("tracker", "tracker", hosts=lines)
        authority.issue("agent", agent)
        authority.issue("client", client)
        others = {role: authority.known(role) for role in _FOLDERS}
        others["agent"] = sorted({*others["agent"], *devices})
        for role, names in others.items():
            for name in names:
                authority.issue(role, name, authority.folder_of(role, name))
    return {
        "folder": folder,
        "authority": "kept" if authority.kept else "new",
        "hosts": [line.partition(":")[2] for line in lines],
        "agent": agent,
        "client": client,
        "devices": others["agent"],
        "clients": others["client"],
        "days": _DAYS,
    }


def _user():
    """The user's name, for the name of the client."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def add(names, folder=None, role="agent", days=_DAYS):
    """Issues credentials for devices, or for clients (role "client"), each in a folder of its own
    that is to be copied there. Those of a name that has some already stay valid until they end or
    are revoked. Returns the folders."""
    for name in names:
        check_name(name)
    authority = _Authority(folder)
    folders = [authority.folder_of(role, name) for name in names]
    with writing(authority.folder):
        for name, place in zip(names, folders):
            authority.issue(role, name, place, days=days)
    return folders


def issue_builders(folder, place, hosts):
    """Issues a certificate for builders at these hosts, by the authority of `folder`, which is made
    where there is none, into the folder `place`. Returns the hosts."""
    authority = _Authority(folder, create=True)
    authority.make()
    lines = list(dict.fromkeys(map(_host_line, hosts)))
    authority.issue("builder", "builders", place, hosts=lines)
    return [line.partition(":")[2] for line in lines]


def revoke(names, folder=None, role="agent"):
    """Puts all certificates that were issued to these names into the list of revoked ones, which
    trackers and agents read again when it changes, and removes their folders. Returns the rows of
    issued() concerned."""
    authority = _Authority(folder)
    rows = []
    for name in names:
        found = [row for row in authority.issued() if (row["role"], row["name"]) == (role, name)]
        if not found:
            known = sorted({row["name"] for row in authority.issued() if row["role"] == role})
            raise DeviceError(
                f"no certificate was issued to {role} '{name}' by {authority.folder}; it has issued "
                f"some to {', '.join(known) or 'nobody'}"
            )
        rows += [row for row in found if not row["revoked"]]
    today = datetime.datetime.now(datetime.timezone.utc)
    with writing(authority.folder):
        if role in _FOLDERS:
            for name in names:
                shutil.rmtree(authority.folder_of(role, name), ignore_errors=True)
        authority.revoke(
            "".join(
                f"{row['serial']} {row['role']} {row['name']} {today:%Y-%m-%d}\n" for row in rows
            )
        )
    return rows


def issued(folder=None):
    """All certificates that the folder's authority has issued: dicts of serial, role, name, ends,
    revoked."""
    return _Authority(folder).issued()


def _run_init(arguments):
    hosts = [host for text in arguments.hosts for host in text.split(",") if host]
    result = init(arguments.folder, hosts, arguments.devices)
    folder = result["folder"]
    text = [
        f"authority    {folder}/ca.pem ({result['authority']}; ca.key signs, keep it here)",
        f"tracker      {folder}/tracker.pem, tracker.key for {', '.join(result['hosts'])}",
        f"agent        {folder}/agent.pem, agent.key for this machine, as the device '{result['agent']}'",
        f"client       {folder}/client.pem, client.key as '{result['client']}'",
    ]
    text += [
        f"device       {folder}/devices/{name}: copy what is in it to that board"
        for name in result["devices"]
    ]
    text += [
        f"client       {folder}/clients/{name}: copy it to who tunes" for name in result["clients"]
    ]
    text += [
        "             `python -m tc certs add NAME` makes those of one more board"
        + ("" if result["devices"] else "; each needs its own"),
        f"valid for    {result['days']} days; the same command issues new ones",
    ]
    return result, lines_text(text)


def _run_add(arguments):
    folders = add(arguments.names, arguments.folder, arguments.role or "agent")
    return (
        {"folders": folders},
        lines_text(
            f"{folder}: copy what is in it to its machine; valid for {_DAYS} days"
            for folder in folders
        ),
    )


def _run_revoke(arguments):
    rows = revoke(arguments.names, arguments.folder, arguments.role or "agent")
    text = [f"revoked {row['serial']} of {row['role']} '{row['name']}'" for row in rows] or [
        "all were revoked already"
    ]
    text.append(
        f"the list is {_Authority(arguments.folder).folder}/{_REVOKED}: copy it to the tracker's folder and to "
        "those of the agents, which read it again when it changes"
    )
    return {"revoked": rows}, lines_text(text)


def _state(row):
    end = datetime.date.fromisoformat(row["ends"])
    left = (end - datetime.datetime.now(datetime.timezone.utc).date()).days
    if row["revoked"]:
        return "revoked"
    if left < 0:
        return "ended"
    return f"ends in {left} days" if left <= WARN_DAYS else "valid"


def _run_list(arguments):
    rows = issued(arguments.folder)
    text = [
        f"{row['role']:8} {row['name']:20} {row['ends']}  {_state(row):16} {row['serial']}"
        for row in rows
    ]
    return {"issued": rows}, lines_text(text) or "this authority has issued nothing yet"


def run(arguments):
    """The command: (result, text)."""
    takes_names = arguments.action in ("add", "revoke")
    if takes_names != bool(arguments.names):
        raise DeviceError(
            f"certs {arguments.action} "
            + (
                "needs the names of devices (or of clients, with --role client)"
                if takes_names
                else "takes no names; --devices has those of init"
            )
        )
    return {"init": _run_init, "add": _run_add, "revoke": _run_revoke, "list": _run_list}[
        arguments.action
    ](arguments)


def add_arguments(parser):
    """Adds the arguments of this command."""
    parser.add_argument(
        "action",
        choices=["init", "add", "revoke", "list"],
        help="init: an authority and credentials, anew where there are some; add, revoke: of the "
        "devices (or clients) NAME; list: what was issued",
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder", help="default: $TC_CREDENTIALS, else ~/.config/tc")
    parser.add_argument(
        "--hosts",
        nargs="+",
        default=[],
        metavar="HOST",
        help="init: more names and addresses of the tracker's machine",
    )
    parser.add_argument(
        "--devices",
        nargs="+",
        default=[],
        metavar="NAME",
        help="init: boards to make credentials for",
    )
    parser.add_argument(
        "--role", choices=["agent", "client", "tracker"], help="add, revoke: whose (default: agent)"
    )
