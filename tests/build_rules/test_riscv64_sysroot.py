"""The riscv64 packages come from a mirror on any of its days: a fake one on loopback, with an index
that is behind, files that are gone, wrong, slow or refused."""

import hashlib
import http.server
import os
import re
import subprocess
import sys
import threading
import time

import pytest

SCRIPT = os.path.join(os.path.dirname(__file__), "../../build_rules/riscv64_sysroot.py")
NAMES = "liba-dev", "libb+-dev"


def make_package(folder, name, version):
    """A package for riscv64 with one file, below the pool of the mirror in `folder`."""
    root = folder / f"root-{name}-{version}"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: riscv64\nMaintainer: none\n"
        "Description: for a test\n"
    )
    (root / "usr/lib").mkdir(parents=True)
    (root / f"usr/lib/{name}.a").write_text(version)
    (root / "usr/share").mkdir()
    (root / "usr/share/notes").write_text("left out")
    path = folder / f"mirror/pool/{name}_{version}_riscv64.deb"
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "-b", root, path], check=True, stdout=subprocess.DEVNULL)
    return path


class Mirror(http.server.ThreadingHTTPServer):
    """Serves folder/mirror; `gone`, `slow` and `flaky` are patterns of paths, `requests` what was
    asked for. Of a path that `flaky` matches the first two requests fail."""

    def __init__(self, folder):
        self.gone = self.slow = self.flaky = None
        self.requests = []
        self.folder = folder / "mirror"
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def write_index(self, listed_size=None):
        """dists/now with both packages of the newest version; `listed_size` is a wrong size of the
        index in the release file."""
        index = ""
        for path in sorted((self.folder / "pool").iterdir()):
            name, version, _ = path.name.split("_")
            content = path.read_bytes()
            index += (
                f"Package: {name}\nVersion: {version}\nArchitecture: riscv64\n"
                f"Filename: pool/{path.name}\nSize: {len(content)}\n"
                f"SHA256: {hashlib.sha256(content).hexdigest()}\n\n"
            )
        where = self.folder / "dists/now/main/binary-riscv64"
        where.mkdir(parents=True, exist_ok=True)
        (where / "Packages").write_text(index)
        digest = hashlib.sha256(index.encode()).hexdigest()
        (self.folder / "dists/now/Release").write_text(
            "Origin: Debian\nLabel: Debian\nSuite: now\nCodename: now\nArchitectures: riscv64\n"
            "Components: main\nDate: Sat, 21 Nov 2026 09:15:44 UTC\nSHA256:\n"
            f" {digest} {listed_size or len(index)} main/binary-riscv64/Packages\n"
        )


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, request, client, server):
        super().__init__(request, client, server, directory=str(server.folder))

    def do_GET(self):
        mirror = self.server
        mirror.requests.append(self.path)
        if mirror.gone and re.search(mirror.gone, self.path):
            return self.send_error(404)
        if (
            mirror.flaky
            and re.search(mirror.flaky, self.path)
            and mirror.requests.count(self.path) < 3
        ):
            return self.send_error(503)
        if mirror.slow and re.search(mirror.slow, self.path):
            time.sleep(6)
        return super().do_GET()

    def log_message(self, *_):
        pass


class Setting:
    """A mirror with two packages, the lock file of them and a folder to lay them out in."""

    def __init__(self, folder):
        self.folder, self.mirror = folder, Mirror(folder)
        paths = [make_package(folder, name, "1.0") for name in NAMES]
        self.mirror.write_index()
        self.lock = folder / "packages.lock"
        self.lock.write_text(
            "# a comment\nsuite now\n"
            + "".join(
                f"{name} 1.0 pool/{path.name.replace('+', '%2b')} {path.stat().st_size} "
                f"{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
                for name, path in zip(NAMES, paths)
            )
        )
        self.target = folder / "cache/sysroot"

    def run(self, *options, mirror=None, seconds=60):
        """Returns exit code and output of the script; `seconds` is the limit of each fetch, by
        default one that a busy machine keeps as well."""
        done = subprocess.run(
            [
                sys.executable,
                SCRIPT,
                *([] if "--renew" in options else [self.target]),
                *options,
                "--lock",
                self.lock,
                "--unsigned",
                "--seconds",
                str(seconds),
                "--pauses",
                "0.1",
                "0.1",
                "--mirror",
                mirror or self.mirror.address,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def contents(self):
        """The laid-out libraries and their versions, and the kind of stamp."""
        files = {path.name: path.read_text() for path in (self.target / "usr/lib").iterdir()}
        assert not (self.target / "usr/share").exists()
        return files, (self.target / "packages.txt").read_text().split()[0]

    def nothing_left(self):
        return not (self.folder / "cache").exists() or not os.listdir(self.folder / "cache")


@pytest.fixture
def setting(tmp_path):
    made = Setting(tmp_path)
    yield made
    made.mirror.shutdown()
    made.mirror.server_close()


FIRST = {"liba-dev.a": "1.0", "libb+-dev.a": "1.0"}


def test_takes_the_locked_files_and_asks_no_more(setting):
    assert setting.run() == (0, "")
    assert setting.contents() == (FIRST, "lock")
    assert not any("dists" in path for path in setting.mirror.requests)
    count = len(setting.mirror.requests)
    assert setting.run() == (0, "")
    assert len(setting.mirror.requests) == count
    assert os.listdir(setting.folder / "cache") == ["sysroot"]


def test_index_behind_its_release_file_does_no_harm(setting):
    setting.mirror.write_index(listed_size=12345)
    assert setting.run() == (0, "")
    assert setting.contents() == (FIRST, "lock")


def test_tries_again(setting):
    setting.mirror.flaky = "liba-dev"
    assert setting.run() == (0, "")
    assert setting.contents() == (FIRST, "lock")


def test_file_that_is_gone_comes_by_the_index(setting):
    (setting.mirror.folder / "pool/liba-dev_1.0_riscv64.deb").unlink()
    make_package(setting.folder, "liba-dev", "1.1")
    setting.mirror.write_index()
    assert setting.run() == (0, "")
    assert setting.contents() == ({**FIRST, "liba-dev.a": "1.1"}, "index")
    # What the index gave is kept until the lock file changes.
    count = len(setting.mirror.requests)
    assert setting.run() == (0, "")
    assert len(setting.mirror.requests) == count


def test_wrong_hash_is_never_laid_out(setting):
    path = setting.mirror.folder / "pool/libb+-dev_1.0_riscv64.deb"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    code, out = setting.run()
    assert code == 3 and setting.nothing_left()
    assert re.fullmatch(
        r"== riscv64 packages of Debian could not be fetched, the build goes on without the agent of "
        r"riscv64 boards \(by path: .*libb%2b-dev_1.0_riscv64.deb: its SHA-256 is \w{64}, the lock "
        r"file's \w{64}; by apt's index: .*\)\n",
        out,
    ), out


def test_gone_and_index_behind(setting):
    setting.mirror.gone = "liba-dev"
    setting.mirror.write_index(listed_size=12345)
    code, out = setting.run()
    assert code == 3 and setting.nothing_left()
    assert out.count("\n") == 1 and "404" in out and "unexpected size" in out


def test_slow_mirror_ends_in_time(setting):
    setting.mirror.slow = "."
    begin = time.monotonic()
    code, out = setting.run(seconds=3)
    assert code == 3 and setting.nothing_left() and time.monotonic() - begin < 30
    assert "not there after 3 s" in out and "apt-get update: not done after 3 s" in out


def test_refused_connection(setting):
    code, out = setting.run(mirror="http://127.0.0.1:9")
    assert code == 3 and setting.nothing_left()
    assert out.count("\n") == 1 and "could not be fetched" in out


def test_a_folder_of_before_stays_in_use(setting):
    assert setting.run()[0] == 0
    setting.lock.write_text(setting.lock.read_text().replace("# a comment", "# another"))
    code, out = setting.run(mirror="http://127.0.0.1:9")
    assert code == 0 and "those of before are used" in out
    assert setting.contents() == (FIRST, "lock")


def test_renew_writes_what_the_index_has(setting):
    make_package(setting.folder, "liba-dev", "1.1")
    setting.mirror.write_index()
    assert setting.run("--renew") == (0, "")
    text = setting.lock.read_text()
    assert text.startswith("# a comment\nsuite now\n")
    assert re.search(r"^liba-dev 1\.1 pool/liba-dev_1\.1_riscv64\.deb \d+ \w{64}$", text, re.M)
    assert setting.run() == (0, "")
    assert setting.contents() == ({**FIRST, "liba-dev.a": "1.1"}, "lock")


def test_renew_leaves_the_lock_file_where_the_index_is_behind(setting):
    before = setting.lock.read_text()
    setting.mirror.write_index(listed_size=12345)
    code, out = setting.run("--renew")
    assert code == 3 and "the lock file stays as it is" in out
    assert setting.lock.read_text() == before


@pytest.mark.parametrize(
    "name, call, purpose",
    [
        (
            "SYSROOT",
            "lay_out_riscv64 SYSROOT sysroot-riscv64 none.lock 'the agent of riscv64 boards'",
            "the agent of riscv64 boards",
        ),
        ("PYTHON", "lay_out_riscv64_python", "the runtime's wheel for riscv64"),
    ],
)
def test_setup_goes_on_without_a_named_folder(tmp_path, name, call, purpose):
    """What ./quickstart, ./check and build_rules/wheels.sh do with a folder that has no
    packages."""
    script = f'. {os.path.dirname(SCRIPT)}/setup.sh; {call}; echo "then <$LAID_OUT>"'
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, f"TC_{name}_RISCV64": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (
        0,
        f"""\
== TC_{name}_RISCV64 names {tmp_path}, which has no packages.txt: the build goes on without {purpose}
then <>
""",
    )
