"""python -m tc certs init: a small certificate authority, and credentials for a fleet.

The certificates are made by the openssl program: it is everywhere that TLS is, and making them with
code of our own, or with a Python package that is one more thing to keep up to date, would be worse.
"""

import datetime
import os
import re
import secrets
import socket
import subprocess
import tempfile

from .errors import DeviceError

# What each program may be: the extended key usage of its certificate.
_USES = {"tracker": "serverAuth", "agent": "serverAuth,clientAuth", "client": "clientAuth"}
_AUTHORITY_DAYS = 3650
_DAYS = 1095

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
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise DeviceError("the program openssl, which makes the certificates, is missing; install "
                          "it (Debian: apt-get install openssl)") from None
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


def _host_line(host):
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
    # The address towards the rest of the world; connecting a datagram socket sends nothing.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            hosts.append(probe.getsockname()[0])
        except OSError:
            pass
    return hosts


def _known_hosts(folder):
    """Those of the tracker's present certificate."""
    path = os.path.join(folder, "tracker.pem")
    if not os.path.exists(path):
        return []
    text = _openssl("x509", "-in", path, "-noout", "-ext", "subjectAltName")
    return [host for kind, host in re.findall(r"(DNS|IP Address):([^,\s]+)", text)]


def _write(folder, name, text, mode):
    """Puts the file there in one step, so that no reader sees half of it."""
    path = os.path.join(folder, name)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=name + ".")
    with os.fdopen(handle, "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    os.replace(temporary, path)


def _certificate(work, name, uses="", hosts="", authority=None, days=_DAYS):
    """(certificate, key) as PEM texts, signed by (certificate, key) files or by itself."""
    paths = {end: os.path.join(work, "new." + end) for end in ("cnf", "key", "csr", "pem")}
    with open(paths["cnf"], "w") as file:
        file.write(_CONFIG.format(name=name, work=work, uses=uses or "clientAuth",
                                  hosts=hosts or "DNS:tc"))
    open(os.path.join(work, "index.txt"), "w").close()
    _openssl("req", "-new", "-config", paths["cnf"], "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-keyout", paths["key"], "-out", paths["csr"])
    now = datetime.datetime.now(datetime.timezone.utc)
    # From yesterday on: the clocks of boards are not all right.
    begin, end = now - datetime.timedelta(days=1), now + datetime.timedelta(days=days)
    signer = ["-selfsign", "-keyfile", paths["key"], "-extensions", "authority_extensions"]
    if authority:
        signer = ["-cert", authority[0], "-keyfile", authority[1], "-extensions",
                  "program_extensions"]
    _openssl("ca", "-batch", "-notext", "-config", paths["cnf"], "-in", paths["csr"], "-out",
             paths["pem"], "-startdate", f"{begin:%Y%m%d%H%M%SZ}", "-enddate",
             f"{end:%Y%m%d%H%M%SZ}", *signer)
    with open(paths["pem"]) as certificate, open(paths["key"]) as key:
        return certificate.read(), key.read()


def init(folder=None, hosts=()):
    """Makes an authority in `folder`, or keeps the one there, and issues tracker, agent and client
    credentials anew. `hosts` are names and addresses of the tracker's machine besides this one's
    and those named before. Returns {"folder", "authority": "new" | "kept", "hosts", "days"}.
    """
    folder = os.path.abspath(folder or credentials_folder())
    files = {name: os.path.join(folder, name) for name in ("ca.pem", "ca.key")}
    there = [name for name, path in files.items() if os.path.exists(path)]
    if len(there) == 1:
        raise DeviceError(f"{folder} has {there[0]} without "
                          f"{'ca.key' if there[0] == 'ca.pem' else 'ca.pem'}: its authority was made "
                          "elsewhere; run this where it was made, or name another --folder")
    lines = []
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for host in [*_own_hosts(), *_known_hosts(folder), *hosts]:
            try:
                line = _host_line(host)
            except DeviceError:
                if host in hosts:
                    raise
                continue  # an odd name of this machine's own
            if line not in lines:
                lines.append(line)
        with tempfile.TemporaryDirectory() as work:
            if not there:
                name = f"tc authority {secrets.token_hex(4)}"
                certificate, key = _certificate(work, name, days=_AUTHORITY_DAYS)
                _write(folder, "ca.key", key, 0o600)
                _write(folder, "ca.pem", certificate, 0o644)
            for role, uses in _USES.items():
                names = ",".join([f"DNS:tc-{role}", *(lines if role == "tracker" else [])])
                certificate, key = _certificate(work, f"tc-{role}", uses, names,
                                                (files["ca.pem"], files["ca.key"]))
                _write(folder, role + ".key", key, 0o600)
                _write(folder, role + ".pem", certificate, 0o644)
    except OSError as error:
        raise DeviceError(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    return {"folder": folder, "authority": "kept" if there else "new",
            "hosts": [line.partition(":")[2] for line in lines], "days": _DAYS}


def run(arguments):
    """The command: (result, text)."""
    hosts = [host for text in arguments.hosts for host in text.split(",") if host]
    result = init(arguments.folder, hosts)
    folder = result["folder"]
    text = [f"authority    {folder}/ca.pem ({result['authority']}; ca.key signs, keep it here)",
            f"tracker      {folder}/tracker.pem, tracker.key for {', '.join(result['hosts'])}",
            f"agent        {folder}/agent.pem, agent.key: copy them and ca.pem to each board",
            f"client       {folder}/client.pem, client.key: copy them and ca.pem to who tunes",
            f"valid for    {result['days']} days; the same command issues new ones"]
    return result, "\n".join(text)
