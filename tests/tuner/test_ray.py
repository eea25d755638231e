"""Building on a Ray cluster: the same records as from processes of this machine, whatever dies
meanwhile; and nobody gets in who is not meant to."""

import importlib.util
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

import tc
from tc import cluster, fleet, ray_relay
from tc.cli import main

from .test_tune import pooling_model, small_model
from .tuning import save_small_model

pytest.importorskip("onnx")
HAS_RAY = importlib.util.find_spec("ray") is not None


def in_namespace(command, seconds):
    """Runs the command where the network has only loopback and all processes end with it, or
    skips."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("the programs unshare and ip are not installed")
    options = ["-n", "-p", "-f", "--kill-child", "--mount-proc"]
    if os.getuid() != 0:
        options.append("-r")
    begin = ["unshare", *options, "sh", "-c", 'ip link set lo up && "$@"', "sh"]
    tried = subprocess.run([*begin, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this system gives no namespaces: {tried.stderr.strip()[:200]}")
    return subprocess.run(
        [*begin, *command], capture_output=True, text=True, timeout=seconds, check=False
    )


def session(folder, seconds, other=None, **options):
    """What ray_session.py saw, and who was left afterwards; `other` is the second model."""
    if not HAS_RAY:
        pytest.skip("the package ray is not installed")
    if shutil.which("qemu-riscv64") is None:
        pytest.skip("qemu-riscv64 is not installed, which counts the cycles")
    models = [str(folder / "pooling.onnx"), str(folder / "products.onnx")]
    Path(models[0]).write_bytes(pooling_model().SerializeToString())
    if other:
        Path(models[1]).write_bytes(other.SerializeToString())
    else:
        save_small_model(models[1])
    words = json.dumps({"folder": str(folder), "models": models, **options})
    done = in_namespace(
        [sys.executable, str(Path(__file__).with_name("ray_session.py")), words], seconds
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_session(seen, trials):
    by_ray, by_processes = seen["ray"], seen["processes"]
    assert by_ray["trials"] == by_processes["trials"] == trials
    assert by_ray["records"] == by_processes["records"]
    assert by_ray["best"] == by_processes["best"] and by_ray["gains"] == by_processes["gains"]
    assert len(by_ray["records"]) == trials
    assert by_ray["gains"][0] > 1, "whole models, built on the cluster, are compared"
    assert not [row for row in by_ray["records"] if row[2] not in ("ok", "timeout")]
    assert seen["killed"]["nodes"] == 1
    assert seen["killed"]["workers"] >= 0.2 * seen["workers"] > 0, seen["killed"]
    assert seen["foreign"] == [] and seen["listeners"] > 5


def test_a_cluster_that_loses_workers_and_a_node_gives_the_same_records(tmp_path):
    seen = session(tmp_path, 400, trials=24, nodes=2, cpus=1, kills=4)
    check_session(seen, 24)
    for name, due in {
        "token": "the Ray cluster has another token than this node",
        "certificate": "' has TLS, and this machine no certificate for it; copy the folder that `python -m tc cluster init` made",
        "authority": "the certificate of the Ray cluster at",
    }.items():
        seconds, words = seen["strangers"][name]
        assert words[:2] == ["1", "machine"] and due in words[2], (name, words)
        assert seconds < 30, (name, seconds)


@pytest.mark.full
def test_two_thousand_candidates_on_three_nodes(tmp_path):
    # A worker that is killed takes seconds to be replaced, in which it builds nothing.
    # A convolution has thousands of schedules; to find the last ones of small kernels takes long.
    options = {"trials": 2000, "nodes": 3, "cpus": 1, "kills": 10_000, "every": 5}
    seen = session(tmp_path, 3 * 3600, small_model(), **options)
    check_session(seen, 2000)
    print(
        {key: seen[key] for key in ("killed", "workers", "strangers")},
        {key: (seen[key]["seconds"], seen[key]["gains"]) for key in ("ray", "processes")},
    )


COMMANDS = """
set -e
tc() { "$PYTHON" -m tc "$@"; }
tc cluster init --credentials creds --hosts 127.0.0.1
tc cluster head --credentials creds --cpus 1 &
for try in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/6379) && break; sleep 0.2; done
tc cluster node 127.0.0.1:6379 --credentials creds --cpus 1 &
sleep 3
tc tune conv.onnx --threads 1 --trials 6 --log a.db --credentials creds --builders ray://127.0.0.1:6379
tc tune conv.onnx --threads 1 --trials 6 --log b.db --builders ray
"""


@pytest.mark.full
def test_the_commands_of_the_page(tmp_path, monkeypatch):
    """A head, one more node and a tuner, each by its command; a Ray that ends with the tuner."""
    if not HAS_RAY:
        pytest.skip("the package ray is not installed")
    (tmp_path / "conv.onnx").write_bytes(small_model().SerializeToString())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHON", sys.executable)
    done = in_namespace(["bash", "-c", COMMANDS], 600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for log in "a.db", "b.db":
        records = tc.Log(tmp_path / log).records()
        assert len(records) == 6 and {record.outcome for record in records} <= {"ok", "noisy"}


# --- without a cluster ----------------------------------------------------------------------------


def test_without_the_package_ray_a_sentence_says_so(tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ray" else found(name)
    )
    with pytest.raises(
        tc.DeviceError,
        match="need the package ray, which is not installed here: pip install 'tc-compiler.ray.'",
    ):
        tc.tune(small_model(), threads=1, trials=1, log=tmp_path / "log.db", builders="ray")
    assert main(["cluster", "head", "--credentials", str(tmp_path)]) == 1


def test_credentials_are_private_and_stay(tmp_path, capsys):
    found = cluster.init(tmp_path, ["10.0.0.5", "node.example"])
    assert found["hosts"] == ["127.0.0.1", "10.0.0.5", "node.example"]
    folder = Path(cluster.node_folder(tmp_path))
    assert found["folder"] == str(folder)
    for name in ("token", "builder.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert not list(folder.glob("ca.key")), "nodes sign nothing"
    token = (folder / "token").read_text()
    assert len(token) == 64 and int(token, 16)
    words = ["cluster", "init", "--credentials", str(tmp_path), "--hosts", "10.0.0.6"]
    assert main(words) == 0
    assert "for nodes at 127.0.0.1, 10.0.0.6" in capsys.readouterr().out
    assert (folder / "token").read_text() == token
    assert main([*words[:-2], "--hosts", "a b"]) == 1
    assert "--hosts takes host names and addresses, not 'a b'" in capsys.readouterr().err


@pytest.fixture
def environment(monkeypatch):
    """os.environ without what concerns Ray, and as it was before afterwards."""
    monkeypatch.setattr(
        os, "environ", {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    )
    return os.environ


def test_nothing_is_started_without_a_token_or_tls(tmp_path, environment):
    no_token = "has no token of a Ray cluster; `python -m tc cluster init` makes one, and each node needs a copy of that folder"
    with pytest.raises(tc.DeviceError, match=no_token):
        cluster.use_credentials(tmp_path, True)
    token = tmp_path / "token"
    token.write_text("0" * 64)
    token.chmod(0o644)
    with pytest.raises(tc.DeviceError, match="is a secret that others can read; chmod 600"):
        cluster.use_credentials(tmp_path, True)
    token.chmod(0o600)
    assert cluster.use_credentials(tmp_path, True) is False
    assert environment["RAY_AUTH_MODE"] == "token" and environment["RAY_USAGE_STATS_ENABLED"] == "0"
    assert environment["RAY_AUTH_TOKEN_PATH"] == str(token)
    no_certificate = "has no certificate of a Ray cluster, without which only one of this machine alone .127.0.0.1. can be used; `python -m tc cluster init --hosts ADDRESS` makes one"
    with pytest.raises(tc.DeviceError, match=no_certificate):
        cluster.use_credentials(tmp_path, False)
    cluster.init(tmp_path / "made", ["10.0.0.5"])
    folder = cluster.node_folder(tmp_path / "made")
    environment.pop("RAY_AUTH_TOKEN_PATH")
    assert cluster.use_credentials(folder, False) is True
    assert environment["RAY_USE_TLS"] == "1"
    assert environment["RAY_TLS_CA_CERT"] == os.path.join(folder, "ca.pem")
    assert cluster.use_credentials(tmp_path / "none", False) is True, "the environment has all"
    environment.pop("RAY_USE_TLS")
    os.chmod(os.path.join(folder, "builder.key"), 0o640)
    with pytest.raises(tc.DeviceError, match="is a secret that others can read"):
        cluster.use_credentials(folder, False)


def test_a_cluster_that_cannot_be_used_is_a_sentence(tmp_path, environment, monkeypatch):
    """The package ray raises errors of many types."""

    class Ray(types.ModuleType):
        def init(self, **_):
            raise ConnectionError("no raylet\nis here")

    class Nobody:
        def refuse_all(self, text):
            raise AssertionError(text)

    monkeypatch.setitem(sys.modules, "ray", Ray("ray"))
    monkeypatch.setattr(cluster, "check_listens", lambda *_: None)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    cluster.init(tmp_path)
    folder = cluster.node_folder(tmp_path)
    with pytest.raises(tc.DeviceError) as raised:
        ray_relay.connect(Nobody(), "10.0.0.1:6379", folder, str(tmp_path))
    assert str(raised.value) == (
        "the Ray cluster at '10.0.0.1:6379' cannot be used; this machine has to be a node of it (`python -m tc cluster node`), with the same credentials: no raylet\\nis here"
    )
    own = tmp_path / "own"
    own.mkdir()
    with pytest.raises(tc.DeviceError, match="the Ray cluster at 'this machine' cannot be used"):
        ray_relay.connect(Nobody(), "", folder, str(own))
    assert stat.S_IMODE((own / "token").stat().st_mode) == 0o600


def test_only_this_machine_is_loopback():
    for address in ("127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"):
        assert cluster.is_loopback(address)
    for address in ("10.0.0.1:1", "0.0.0.0:1", "localhost.example:1", "127.0.0.1.example:1", ":1"):
        assert not cluster.is_loopback(address)
    nodes = [{"NodeManagerAddress": "127.0.0.1", "Alive": True}]
    cluster.check_nodes(nodes, False)
    nodes.append({"NodeManagerAddress": "10.0.0.1", "Alive": True})
    cluster.check_nodes(nodes, True)
    with pytest.raises(
        tc.DeviceError,
        match="has a node at '10.0.0.1' and no TLS, so that others on the network can read and change what it builds",
    ):
        cluster.check_nodes(nodes, False)


def test_an_address_where_no_cluster_is_is_told_soon(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for address in (f"127.0.0.1:{port}", "127.0.0.1:x", "127.0.0.1:99999"):
        with pytest.raises(tc.DeviceError, match="no Ray cluster answers at"):
            cluster.check_listens(address, False)
    # Somebody who does not speak.
    monkeypatch.setattr(cluster, "CHECK_SECONDS", 0.3)
    monkeypatch.setattr(cluster, "_shake_hands", lambda connection, host: connection.recv(1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(tc.DeviceError, match="no Ray cluster answers at .*: timed out"):
            cluster.check_listens("127.0.0.1:%d" % listener.getsockname()[1], True)


def test_a_server_without_tls_is_none_of_ours(tmp_path, environment):
    cluster.init(tmp_path)
    assert cluster.use_credentials(cluster.node_folder(tmp_path), False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def greet():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1000)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(
            tc.DeviceError,
            match="does not speak TLS with this certificate .*; its nodes have to be started with "
            "`python -m tc cluster`",
        ):
            cluster.check_listens(address, True)
        thread.join()


def test_what_the_command_refuses(tmp_path, capsys):
    for words, due in {
        ("init", "1.2.3.4:5"): "cluster init takes no address; --hosts has those of the nodes",
        (
            "head",
            "1.2.3.4:5",
        ): "cluster head takes no address; --host and --port say where it listens",
        ("node",): "cluster node needs the address of the head, as HOST:PORT",
        ("node", "here"): "cluster node needs the address of the head, as HOST:PORT",
    }.items():
        assert main(["cluster", *words, "--credentials", str(tmp_path)]) == 1
        assert due in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# --- messages -------------------------------------------------------------------------------------


def reader(data):
    at = [0]

    def read(count):
        at[0] += count
        return data[at[0] - count : at[0]]

    return read


def test_messages_that_are_none_are_nothing():
    words = [b"1", b"", b"\x00" * 70_000]
    whole = ray_relay.packed(words)
    assert ray_relay.read_words(reader(whole)) == words
    for size in (0, 3, 4, 7, 9, len(whole) - 1):
        assert ray_relay.read_words(reader(whole[:size])) is None
    assert ray_relay.read_words(reader((20_000).to_bytes(4, "little") + whole)) is None
    assert ray_relay.read_words(reader(b"\x01\0\0\0" + b"\xff" * 8)) is None


class Board:
    """A relay's two ends without any cluster behind it."""

    def __init__(self):
        self.source, self.requests = os.pipe()
        self.answers, self.sink = os.pipe()
        self.relay = ray_relay.Relay(os.fdopen(self.source, "rb"), self.sink)

    def ask(self, *words):
        os.write(self.requests, ray_relay.packed(words))

    def answer(self):
        return ray_relay.read_words(lambda count: os.read(self.answers, count))


def test_whoever_asks_is_told_that_the_cluster_is_at_fault():
    board = Board()
    board.ask(b"1", b"build")
    assert board.relay.requests.get(timeout=5) == [b"1", b"build"]
    board.ask(b"2", b"build")
    thread = threading.Thread(target=board.relay.refuse_all, args=("no node\x1b[1m",))
    thread.start()
    told = {tuple(board.answer()) for _ in range(2)}
    assert told == {(number, b"machine", rb"no node\x1b[1m") for number in (b"1", b"2")}
    os.close(board.requests)
    thread.join(5)
    assert not thread.is_alive()


def request(folder, what=b"build", trace=b""):
    kernel = b'kernel "k"\n  input A f32[64]\n  output B f32[64]\n  copy[i:64]: B[i] = A[i]\n'
    return [b"7", what, kernel, b"", b"1", b"1", b"x86-64-v3", trace, b"0", b"?", folder, b"0"]


@pytest.fixture
def task(monkeypatch):
    """The task of a node, in this process; its builder ends with the test."""
    monkeypatch.setattr(ray_relay, "_builder", [])

    def run(words, build=None):
        message = ray_relay.build(ray_relay.packed(words), build or ray_relay.build_id())
        return ray_relay.read_words(reader(message))

    yield run
    for builder in ray_relay._builder:
        builder.close()


def test_a_node_builds_with_its_own_folders(task):
    first, again = task(request(b"/nowhere")), task(request(b"/elsewhere"))
    assert first[:2] == [b"ok", b"0"] and first[5][:4] == b"\x7fELF" and first == again
    refused = task(request(b"/nowhere", trace=b"split nothing 4 as a b"))
    assert refused[:2] == [b"ok", b"1"] and b"nothing" in refused[2]
    folder = ray_relay._builder[0].folder
    assert os.listdir(folder) == []


def model_request(model, *choices):
    options = b"target rv64gcv\nthreads 1\ntolerance 0.0001\nkind shared\nshape x 1 16 20 20\n"
    empty = [b""] * 4
    return [b"7", b"model", b"m.onnx", model, options, *empty, b"?", b"/nowhere", b"", *choices]


def test_a_node_builds_whole_models(task):
    import onnx

    model = small_model()
    program = task(model_request(model.SerializeToString()))
    assert program[:2] == [b"ok", b"0"] and program[5][:4] == b"\x7fELF", program[2]
    assert program == task(model_request(model.SerializeToString(), b"no kernel of it", b""))
    # Weights that lie in another file are not on the node.
    weight = model.graph.initializer[0]
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.ClearField("raw_data")
    weight.external_data.add(key="location", value="weights.bin")
    refused = task(model_request(model.SerializeToString()))
    assert refused[:2] == [b"ok", b"1"] and b"weights.bin" in refused[2], refused
    assert task(model_request(b"nonsense"))[:2] == [b"ok", b"1"]


def test_a_node_tells_what_it_lacks(task, monkeypatch):
    assert task(request(b""), "0.0 abc")[0] == b"machine"
    assert b"install the same on both" in task(request(b""), "0.0 abc")[1]
    monkeypatch.setattr(ray_relay, "LIBRARY_FOLDER", "/nowhere")
    task(request(b""))
    shutil.rmtree(ray_relay._builder[0].folder)
    kind, text = task(request(b""))
    assert kind == b"machine" and text.startswith(b"on the node '")
    assert b"a candidate cannot be built here" in text


@pytest.mark.parametrize(
    "program, due",
    [
        ("kill -SEGV $$", "the compiler crashed: signal 11"),
        ("exit 0", "the compiler ended early"),
        ("printf '\\377\\377\\377\\377'; cat", "the compiler crashed: signal 9"),
        ("cat > /dev/null", "building it took more than 1 s"),
    ],
)
def test_a_builder_that_dies_or_hangs_fails_its_candidate(
    task, monkeypatch, tmp_path, program, due
):
    script = tmp_path / "builder"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o700)
    monkeypatch.setattr(ray_relay, "program", lambda name: str(script))
    monkeypatch.setattr(ray_relay, "BUILD_SECONDS", 1)
    answer = task(request(b""))
    assert due in b" ".join(answer).decode(), answer
    monkeypatch.setattr(ray_relay, "program", fleet.program)
    monkeypatch.setattr(ray_relay, "BUILD_SECONDS", 60)
    assert task(request(b""))[:2] == [b"ok", b"0"], "the next one has another builder"
