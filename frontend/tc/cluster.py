"""python -m tc cluster: credentials of a Ray cluster, and its nodes.

Ray runs whatever its clients send. So no node starts without a token, which all of a cluster share,
nor without TLS in both directions, unless it is of this machine alone. The credentials have an
authority of their own (FOLDER/cluster), so that no certificate of a board opens the cluster, and
lie in FOLDER/cluster/node, which is copied to each node.
"""

import contextlib
import importlib.util
import ipaddress
import os
import re
import socket
import stat
import sys

from . import certs, interrupts
from .errors import DeviceError, lines_text

PORT = 6379
CHECK_SECONDS = 5
_OBJECT_STORE_BYTES = 200 << 20
_TOKEN, _FILES = "token", ("builder.pem", "builder.key", "ca.pem")
_TOKEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_TLS_VARIABLES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


def check_installed():
    """An error unless the package ray is here."""
    if importlib.util.find_spec("ray") is None:
        raise DeviceError(
            "builders on a cluster need the package ray, which is not installed here: pip install "
            "'tc-compiler[ray]'"
        )


def node_folder(credentials=None):
    """Where a machine has its credentials as a node of a cluster."""
    return os.path.join(
        os.path.abspath(credentials or certs.credentials_folder()), "cluster", "node"
    )


def relay_command(credentials=None):
    """The command of the program that hands candidates on to Ray."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Without -m, whose search path begins with the folder that the user happens to be in.
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tc import ray_relay; sys.exit(ray_relay.main())"
    return [sys.executable, "-c", start, package, f"--credentials={node_folder(credentials)}"]


def is_loopback(address):
    """Whether HOST:PORT is an address of this machine that no other reaches. A name is looked up by
    nobody: only localhost is taken for one."""
    host = address.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


# --- credentials ----------------------------------------------------------------------------------


def _new_token(path):
    """Makes a token that only this user can read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w") as token:
        token.write(os.urandom(32).hex())


def _check_private(path):
    """An error where others can read the file, or where it is not this user's."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise DeviceError(f"{path} cannot be read: {error.strerror}") from None
    if (
        not stat.S_ISREG(found.st_mode)
        or found.st_mode & 0o077
        or found.st_uid not in (0, os.getuid())
    ):
        raise DeviceError(f"{path} is a secret that others can read; chmod 600 {path}")


def init(folder=None, hosts=()):
    """Makes an authority and a token for a cluster, or keeps those that are there, and a
    certificate for nodes at these names and addresses; all in FOLDER/cluster. Returns {"folder",
    "hosts"}."""
    place = node_folder(folder)
    with certs.writing(place):
        os.makedirs(place, mode=0o700, exist_ok=True)
        hosts = certs.issue_builders(os.path.dirname(place), place, ["127.0.0.1", *hosts])
        token = os.path.join(place, _TOKEN)
        if not os.path.exists(token):
            _new_token(token)
    _check_private(token)
    return {"folder": place, "hosts": hosts}


def use_credentials(folder, loopback):
    """Sets what Ray reads of this process's environment: the token, and TLS unless the cluster is
    of this machine alone and the folder has no certificate. Returns whether TLS is used."""
    environment = os.environ
    environment["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray tells its makers nothing
    environment["RAY_AUTH_MODE"] = "token"
    if not any(environment.get(name) for name in _TOKEN_VARIABLES):
        path = os.path.join(folder, _TOKEN)
        if not os.path.exists(path):
            raise DeviceError(
                f"{folder} has no token of a Ray cluster; `python -m tc cluster init` makes one, and "
                "each node needs a copy of that folder"
            )
        _check_private(path)
        environment["RAY_AUTH_TOKEN_PATH"] = path
    if environment.get("RAY_USE_TLS") == "1" and all(environment.get(n) for n in _TLS_VARIABLES):
        return True
    paths = [os.path.join(folder, name) for name in _FILES]
    if all(map(os.path.exists, paths)):
        _check_private(paths[1])
        environment["RAY_USE_TLS"] = "1"
        environment.update(zip(_TLS_VARIABLES, paths))
        return True
    if not loopback:
        raise DeviceError(
            f"{folder} has no certificate of a Ray cluster, without which only one of this machine "
            "alone (127.0.0.1) can be used; `python -m tc cluster init --hosts ADDRESS` makes one"
        )
    environment["RAY_USE_TLS"] = "0"
    return False


def own_options(folder):
    """The options of ray.init() for a Ray of this machine alone, with a token of its own; `folder`
    exists no longer than the Ray does."""
    path = os.path.join(folder, _TOKEN)
    _new_token(path)
    for name in _TOKEN_VARIABLES:
        os.environ.pop(name, None)
    use_credentials(folder, True)
    return {
        "address": "local",  # never one that happens to run on this machine
        "num_cpus": os.cpu_count(),
        "include_dashboard": False,
        "object_store_memory": _OBJECT_STORE_BYTES,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": folder,
    }


# --- before anything is sent ----------------------------------------------------------------------


def check_listens(address, tls):
    """An error where nobody listens at HOST:PORT, or not with TLS under a certificate of ours: Ray
    itself would try for minutes."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    import ssl  # with OpenSSL 5 MB, which the other commands do without

    try:
        with socket.create_connection((host, int(port)), CHECK_SECONDS) as connection:
            if tls:
                _shake_hands(connection, host)
            elif _speaks_tls(connection):
                raise DeviceError(
                    f"the Ray cluster at '{address}' has TLS, and this machine no certificate for it; copy "
                    "the folder that `python -m tc cluster init` made"
                )
    except ssl.SSLCertVerificationError as error:
        raise DeviceError(
            f"the certificate of the Ray cluster at '{address}' is not one of "
            f"{os.environ['RAY_TLS_CA_CERT']} for '{host}': {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        raise DeviceError(
            f"the Ray cluster at '{address}' does not speak TLS with this certificate ({error.reason}); "
            "its nodes have to be started with `python -m tc cluster`"
        ) from None
    except (OSError, ValueError, OverflowError) as error:
        raise DeviceError(
            f"no Ray cluster answers at '{address}': {error}; start one with `python -m tc cluster head`"
        ) from None


def _shake_hands(connection, host):
    import ssl

    context = ssl.create_default_context(cafile=os.environ["RAY_TLS_CA_CERT"])
    context.load_cert_chain(os.environ["RAY_TLS_SERVER_CERT"], os.environ["RAY_TLS_SERVER_KEY"])
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(connection, server_hostname=host):
        pass


def _speaks_tls(connection):
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(connection):
            return True
    except OSError:  # an SSLError is one
        return False


def check_nodes(nodes, tls):
    """An error where a cluster without TLS has a node on another machine."""
    for node in nodes:
        address = str(node.get("NodeManagerAddress", ""))
        if node.get("Alive") and not tls and not is_loopback(address + ":0"):
            raise DeviceError(
                f"the Ray cluster has a node at '{address}' and no TLS, so that others on the network can "
                "read and change what it builds; `python -m tc cluster init` makes certificates"
            )


# --- commands -------------------------------------------------------------------------------------


def _start(arguments, *options):
    """Replaces this process by a node of Ray."""
    check_installed()
    folder = node_folder(arguments.credentials)
    use_credentials(folder, is_loopback(arguments.host + ":0"))
    words = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--block",
        "--disable-usage-stats",
        f"--node-ip-address={arguments.host}",
        f"--object-store-memory={_OBJECT_STORE_BYTES}",
        *options,
    ]
    if arguments.cpus is not None:
        words.append(f"--num-cpus={arguments.cpus}")
    sys.stdout.flush()
    interrupts.hand_over()
    os.execv(sys.executable, words)


def _run_init(arguments):
    found = init(arguments.credentials, arguments.hosts)
    return found, lines_text(
        [
            f"{found['folder']}: copy what is in it to each node, as cluster/node of its credentials",
            f"for nodes at {', '.join(found['hosts'])}",
        ]
    )


def _run(arguments):
    if arguments.action == "init":
        if arguments.head:
            raise DeviceError("cluster init takes no address; --hosts has those of the nodes")
        return _run_init(arguments)
    if arguments.action == "head":
        if arguments.head:
            raise DeviceError(
                "cluster head takes no address; --host and --port say where it listens"
            )
        return _start(arguments, "--head", f"--port={arguments.port}", "--include-dashboard=false")
    if not arguments.head or not re.fullmatch(r"[^\s-]\S*:\d{1,5}", arguments.head):
        raise DeviceError("cluster node needs the address of the head, as HOST:PORT")
    return _start(arguments, f"--address={arguments.head}")


def add_command(command):
    """Adds the command; `command(name, function, text)` gives its parser."""
    added = command(
        "cluster", _run, "Make credentials of a Ray cluster for builders, or start a node."
    )
    added.add_argument(
        "action",
        choices=["init", "head", "node"],
        help="init: credentials, anew where there are some; head: the cluster's first node, on this "
        "machine; node: one more",
    )
    added.add_argument("head", nargs="?", metavar="HOST:PORT", help="node: the head's address")
    added.add_argument(
        "--credentials", metavar="FOLDER", help="default: $TC_CREDENTIALS, else ~/.config/tc"
    )
    added.add_argument(
        "--hosts",
        nargs="+",
        default=[],
        metavar="HOST",
        help="init: addresses of all machines that are to be nodes",
    )
    added.add_argument(
        "--host",
        default="127.0.0.1",
        help="head, node: this machine's address, by which the others reach it (default 127.0.0.1)",
    )
    added.add_argument(
        "--port", type=int, default=PORT, help=f"head: where it listens (default {PORT})"
    )
    added.add_argument("--cpus", type=int, help="head, node: how many it offers; default: all")
