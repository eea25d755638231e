"""Sessions of tuning on a Ray cluster of this machine, whose workers and nodes are killed
meanwhile: `python ray_session.py JSON`, in namespaces of its own for processes and the network
(test_ray.py).

The last line of the output is a JSON object of what was seen.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import tc
from tc import cluster, fleet, ray_relay

STORE_BYTES = 80 << 20


class Fleet:
    """A cluster of a head without processors and some nodes, with a token and TLS. The folder for
    Ray's own files has a short path, as sockets need it."""

    def __init__(self, folder, files, nodes, cpus):
        self.credentials = str(folder / "credentials")
        cluster.init(self.credentials)
        cluster.use_credentials(cluster.node_folder(self.credentials), True)
        # Ray writes the cluster's address there, and makes no folder for it.
        os.environ["RAY_TMPDIR"] = str(files)
        (Path(files) / "ray").mkdir(parents=True, exist_ok=True)
        from ray.cluster_utils import Cluster  # reads the environment

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "node_ip_address": "127.0.0.1",
                "object_store_memory": STORE_BYTES,
                "include_dashboard": False,
                "temp_dir": files,
            },
        )
        self.nodes = [
            self.cluster.add_node(
                num_cpus=cpus, object_store_memory=STORE_BYTES, node_ip_address="127.0.0.1"
            )
            for _ in range(nodes)
        ]
        self.builders = f"ray://{self.cluster.address}"
        self.killed = {"workers": 0, "nodes": 0}
        self.seen = set()  # process ids of workers

    def workers(self):
        """Process ids of the workers of all nodes that the cluster knows."""
        found = []
        for node in self.nodes:
            for each in node.all_processes.get("raylet", []):
                children = Path(f"/proc/{each.process.pid}/task/{each.process.pid}/children")
                for pid in children.read_text().split():
                    with contextlib.suppress(OSError):
                        command = Path(f"/proc/{pid}/cmdline").read_bytes()
                        if command.startswith(b"ray::"):
                            found.append(int(pid))
        self.seen.update(found)
        return found

    def kill_worker(self):
        """Kills a worker that builds, if there is one; returns whether there was."""
        for pid in self.workers():
            with contextlib.suppress(OSError):
                if b"ray::build" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    self.killed["workers"] += 1
                    return True
        return False

    def kill_node(self):
        node = self.nodes.pop()
        self.cluster.remove_node(node, allow_graceful=False)
        self.killed["nodes"] += 1

    @contextlib.contextmanager
    def kills(self, most, every):
        """Meanwhile, a worker that builds is killed in every so many batches of the tuner, in none
        more than one (so that none is built in vain four times), but not more than `most`, and a
        node after the second. The value is called when a batch begins."""
        ended, begun = threading.Event(), threading.Event()
        batches = itertools.count()

        def batch_begins(_):
            if next(batches) % every == 0:
                begun.set()

        def work():
            while not ended.wait(0.01):
                if begun.is_set() and self.killed["workers"] < most and self.kill_worker():
                    begun.clear()
                    if self.killed["workers"] == 2:
                        self.kill_node()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield batch_begins
        finally:
            ended.set()
            thread.join()


def foreign_listeners():
    """Addresses beyond loopback at which a process of this namespace listens."""
    found = []
    for name, loopback in (
        ("tcp", ("0100007F",)),
        ("tcp6", ("0000000000000000FFFF00000100007F", "00000000000000000000000001000000")),
    ):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A" and local.partition(":")[0] not in loopback:
                found.append(local)
    return found


def listeners():
    return sum(
        line.split()[3] == "0A"
        for name in ("tcp", "tcp6")
        for line in Path("/proc/net", name).read_text().splitlines()[1:]
    )


def answer_to_a_stranger(address, folder):
    """(seconds, words) of what a relay with the credentials in `folder` answers to a request."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RAY_AUTH", "RAY_TLS", "RAY_USE_TLS"))
    }
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tc.ray_relay", "--address", address, "--credentials", str(folder)],
        input=ray_relay.packed([b"1", b"build"]),
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    at = [0]

    def read(count):
        at[0] += count
        return done.stdout[at[0] - count : at[0]]

    words = ray_relay.read_words(read) or []
    return round(time.monotonic() - begin, 1), [word.decode() for word in words]


def strangers(fleet_, folder):
    """What clients are told that lack a credential of the cluster."""
    own = Path(cluster.node_folder(fleet_.credentials))
    found = {}
    for name in ("token", "certificate", "authority"):
        cluster.init(folder / name)
        other = Path(cluster.node_folder(folder / name))
        keep = {"token": ("builder.pem", "builder.key", "ca.pem"), "certificate": ("token",)}
        for file in keep.get(name, ("token",)):
            (other / file).write_bytes((own / file).read_bytes())
        if name == "certificate":
            for file in ("builder.pem", "builder.key"):
                (other / file).unlink()
        found[name] = answer_to_a_stranger(fleet_.cluster.address, other)
    return found


def records(log):
    return sorted(
        [r.workload, r.trace, r.outcome, r.median, r.ratio, r.worst_error, r.chosen]
        for r in tc.Log(log).records()
    )


def run(folder, models, trials, nodes, cpus, kills, every=1):
    with tempfile.TemporaryDirectory(prefix="tc-", dir="/tmp", ignore_cleanup_errors=True) as files:
        return run_with(
            Path(folder), Fleet(Path(folder), files, nodes, cpus), models, trials, (kills, every)
        )


def run_with(folder, fleet_, models, trials, kills):
    """Tunes the models at once, by the cluster and by processes."""
    seen = {}
    boards = [["--name", "board", "--runner", "qemu", "--vector-bits", "256"]]
    # A device whose lease ends because this machine is busy would leave schedules out.
    with fleet.Local(*boards, tracker=["--lease-ms", "60000"]) as programs:

        def tune(builders, log, progress=False):
            begin = time.monotonic()
            found = tc.tune(
                models,
                "rv64gcv",
                threads=1,
                trials=trials,
                log=folder / log,
                tracker=programs.address,
                insecure=True,
                credentials=fleet_.credentials,
                builders=builders,
                progress=progress,
            )
            best = [[[k.label, k.best] for k in each.kernels] for each in found.models]
            row = {
                "seconds": round(time.monotonic() - begin, 1),
                "trials": found.trials,
                "best": best,
                "gains": [each.model_gain for each in found.models],
                "records": records(folder / log),
            }
            return row

        with fleet_.kills(*kills) as batch_begins:
            seen["ray"] = tune(fleet_.builders, "ray.db", batch_begins)
        seen["foreign"], seen["listeners"] = foreign_listeners(), listeners()
        seen["processes"] = tune("processes:2", "processes.db")
    seen["killed"] = fleet_.killed
    seen["workers"] = len(fleet_.seen)
    seen["strangers"] = strangers(fleet_, folder)
    fleet_.cluster.shutdown()
    return seen


if __name__ == "__main__":
    print(json.dumps(run(**json.loads(sys.argv[1]))))
