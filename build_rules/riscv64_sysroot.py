#!/usr/bin/env python3
"""Lays out packages of riscv64 in a folder, from Debian: headers and static libraries (gRPC and
what it stands on), which the agent of riscv64 boards is linked with. With another lock file
(riscv64_python.lock), the Python that the runtime's wheel for riscv64 is built for and tested with.

    build_rules/riscv64_sysroot.py [FOLDER]     default: ~/.cache/tc/sysroot-riscv64
    build_rules/riscv64_sysroot.py --renew      writes the lock file anew from the signed index

The lock file beside this script says version, path, size and SHA-256 of each package. The files are
fetched by path from the Debian mirror that this machine's apt uses, and compared with the hashes,
so that an index of packages that is out of step with its signature does no harm. Where a file is
gone from the mirror (a point release replaced it), all packages come through apt's index instead,
which apt checks by Debian's signature. Nothing of this machine's own packages changes.

Exit codes: 0 the folder is laid out; 3 the packages could not be fetched (a line on standard output
says why, and nothing half-made stays behind); 2 usage.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import typing
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
LOCK = os.path.join(HERE, "riscv64_packages.lock")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
HELPER = "/usr/lib/apt/apt-helper"

# Seconds to wait before each further try of one file.
BACK_OFF = (1, 4)
# A file may take so many seconds, and one more for so many bytes.
MIN_SECONDS = 30
BYTES_PER_SECOND = 100_000


class FetchError(Exception):
    """What could not be fetched and why, in one line."""


class Package(typing.NamedTuple):
    """A line of the lock file; `path` is the file's below the mirror's address,
    percent-encoded."""

    name: str
    version: str
    path: str
    size: int
    sha256: str


class Lock(typing.NamedTuple):
    suite: str
    packages: list
    stamp: str  # of the file's content; the first line of a folder's packages.txt has it


def read_lock(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    if not rows or rows[0][0] != "suite" or any(len(row) != 5 for row in rows[1:]):
        raise SystemExit(
            f"{path}: expected `suite NAME` and lines of name, version, path, size, "
            "SHA-256; --renew writes it anew"
        )
    packages = [
        Package(name, version, file, int(size), sha256)
        for name, version, file, size, sha256 in rows[1:]
    ]
    return Lock(rows[0][1], packages, hashlib.sha256(text.encode()).hexdigest())


def write_lock(path, suite, packages):
    """Writes the packages; the comment at the file's head stays."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if line.startswith("#")]
    lines += [
        f"suite {suite}",
        *(" ".join(str(field) for field in package) for package in packages),
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def file_hash(path):
    with open(path, "rb") as file:
        return (
            hashlib.file_digest(file, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else hashlib.sha256(file.read()).hexdigest()
        )


def fetch_file(mirror, package, folder, seconds, pauses):
    """Fetches one package into `folder`, with apt's own transport (its proxies and
    certificates)."""
    address = f"{mirror}/{package.path}"
    target = os.path.join(folder, urllib.parse.unquote(os.path.basename(package.path)))
    limit = seconds or MIN_SECONDS + package.size / BYTES_PER_SECOND
    reason = ""
    for pause in (0, *pauses):
        time.sleep(pause)
        try:
            done = subprocess.run(
                [
                    HELPER,
                    "-o",
                    "Acquire::Retries=0",
                    "-o",
                    "APT::Sandbox::User=root",
                    "download-file",
                    address,
                    target,
                ],
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FetchError(f"{address}: not there after {limit:.0f} s") from None
        if done.returncode == 0 and os.path.exists(target):
            break
        reason = next(
            (line[3:] for line in done.stderr.splitlines() if line.startswith("E: ")),
            f"apt-helper ended with {done.returncode}",
        )
        if "404" in reason:  # gone for good: no further try
            raise FetchError(reason)
    else:
        raise FetchError(reason)
    if file_hash(target) != package.sha256:
        raise FetchError(
            f"{address}: its SHA-256 is {file_hash(target)}, the lock file's {package.sha256}"
        )


class AptIndex:
    """apt for riscv64 with an index of its own, in a folder that goes with the block."""

    def __init__(self, mirror, suite, unsigned):
        self.folder = tempfile.mkdtemp(prefix="tc-apt-")
        for name in "lists/partial", "archives/partial", "state", "download":
            os.makedirs(os.path.join(self.folder, name))
        option = "trusted=yes" if unsigned else f"signed-by={KEYRING}"
        self.write("status", "")
        self.write("sources.list", f"deb [{option}] {mirror} {suite} main\n")
        self.write(
            "apt.conf",
            f"""
APT::Architecture "riscv64";
APT::Architectures {{ "riscv64"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::State "{self.folder}/state";
Dir::State::lists "{self.folder}/lists";
Dir::State::status "{self.folder}/status";
Dir::Cache "{self.folder}";
Dir::Cache::archives "{self.folder}/archives";
Dir::Etc::sourcelist "{self.folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
""",
        )

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *arguments, seconds):
        """Runs apt-get in the download folder; returns what it printed."""
        try:
            done = subprocess.run(
                ["apt-get", "-qq", *arguments],
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                cwd=os.path.join(self.folder, "download"),
                env=dict(os.environ, APT_CONFIG=os.path.join(self.folder, "apt.conf")),
            )
        except subprocess.TimeoutExpired:
            raise FetchError(f"apt-get {arguments[0]}: not done after {seconds:.0f} s") from None
        errors = [line[3:] for line in done.stderr.splitlines() if line.startswith("E: ")]
        if done.returncode or errors:
            raise FetchError(
                errors[0] if errors else f"apt-get {arguments[0]} ended with {done.returncode}"
            )
        return done.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


def locked_files(mirror, lock, folder, seconds, pauses):
    """Fetches the lock file's packages into `folder`."""
    for package in lock.packages:
        fetch_file(mirror, package, folder, seconds, pauses)


def indexed_files(mirror, lock, folder, seconds, unsigned):
    """Fetches the same packages, of whatever version the suite's signed index has now."""
    with AptIndex(mirror, lock.suite, unsigned) as index:
        index.run("update", seconds=seconds or 300)
        index.run("download", *(package.name for package in lock.packages), seconds=seconds or 900)
        for name in os.listdir(os.path.join(index.folder, "download")):
            shutil.move(os.path.join(index.folder, "download", name), folder)


def lay_out(archives, folder, stamp):
    """Unpacks the packages; `folder` appears, or changes, once all is there."""
    root = os.path.join(archives, "root")
    names = sorted(name for name in os.listdir(archives) if name.endswith(".deb"))
    for name in names:
        done = subprocess.run(
            ["dpkg-deb", "-x", os.path.join(archives, name), root],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise FetchError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    # Documentation is the better half of the files.
    shutil.rmtree(os.path.join(root, "usr/share"), ignore_errors=True)
    with open(os.path.join(root, "packages.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join([stamp, *names]) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(root, folder)


def stamp_of(folder):
    """First line of a folder's list of packages; "" where it is not laid out."""
    try:
        with open(os.path.join(folder, "packages.txt"), encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""


def own_mirror():
    return subprocess.run(
        [os.path.join(HERE, "debian_mirror.sh")], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def make(folder, options):
    """Lays the folder out unless it is; returns the exit code."""
    lock = read_lock(options.lock)
    wanted = f"lock {lock.stamp}", f"index {lock.stamp}"
    if stamp_of(folder) in wanted:
        return 0
    os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
    # Beside the folder, so that the last step is a rename.
    archives = tempfile.mkdtemp(
        prefix=os.path.basename(folder) + ".", dir=os.path.dirname(os.path.abspath(folder))
    )
    try:
        mirror = (options.mirror or own_mirror()).rstrip("/")
        try:
            locked_files(mirror, lock, archives, options.seconds, options.pauses)
            stamp = wanted[0]
        except FetchError as by_path:
            try:
                for name in os.listdir(archives):
                    os.remove(os.path.join(archives, name))
                indexed_files(mirror, lock, archives, options.seconds, options.unsigned)
                stamp = wanted[1]
            except FetchError as by_index:
                raise FetchError(f"by path: {by_path}; by apt's index: {by_index}") from None
        lay_out(archives, folder, stamp)
    except (FetchError, OSError, subprocess.CalledProcessError) as error:
        what = (
            "those of before are used"
            if stamp_of(folder)
            else f"the build goes on without {options.purpose}"
        )
        print(f"== riscv64 packages of Debian could not be fetched, {what} ({error})")
        return 0 if stamp_of(folder) else 3
    finally:
        shutil.rmtree(archives, ignore_errors=True)
    return 0


def renew(options):
    """Writes the lock file anew from the suite's signed index."""
    lock = read_lock(options.lock)
    mirror = (options.mirror or own_mirror()).rstrip("/")
    with AptIndex(mirror, options.suite or lock.suite, options.unsigned) as index:
        index.run("update", seconds=options.seconds or 300)
        names = [package.name for package in lock.packages]
        rows = []
        for line in index.run("--print-uris", "download", *names, seconds=60).splitlines():
            address, name, size, digest = line.split()
            parts = urllib.parse.unquote(name).split("_")
            rows.append(
                Package(
                    parts[0],
                    parts[1],
                    address.strip("'")[len(mirror) :].lstrip("/"),
                    int(size),
                    digest.removeprefix("SHA256:"),
                )
            )
    found = {row.name for row in rows}
    if found != set(names) or any(len(row.sha256) != 64 for row in rows):
        print(
            f"the index of {options.suite or lock.suite} lacks "
            f"{', '.join(sorted(set(names) - found)) or 'SHA-256 sums'}",
            file=sys.stderr,
        )
        return 3
    write_lock(options.lock, lock.suite, sorted(rows))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument(
        "folder", nargs="?", default=os.path.expanduser("~/.cache/tc/sysroot-riscv64")
    )
    parser.add_argument("--renew", action="store_true", help="write the lock file anew")
    parser.add_argument(
        "--suite", help="with --renew: the suite's other name, where its own index is out of step"
    )
    parser.add_argument("--lock", default=LOCK, help="the lock file")
    parser.add_argument(
        "--purpose",
        default="the agent of riscv64 boards",
        help="what is left out where the packages can't be fetched",
    )
    parser.add_argument("--mirror", help="default: the one that apt uses")
    parser.add_argument("--seconds", type=float, help="limit for each step (default: by size)")
    parser.add_argument(
        "--pauses",
        type=float,
        nargs="*",
        default=BACK_OFF,
        metavar="SECONDS",
        help="before each further try of a file (default: %(default)s)",
    )
    parser.add_argument(
        "--unsigned",
        action="store_true",
        help="take an index without a signature: for tests with a mirror of their own",
    )
    options = parser.parse_args()
    if options.renew:
        try:
            return renew(options)
        except FetchError as error:
            print(f"the lock file stays as it is: {error}", file=sys.stderr)
            return 3
    return make(options.folder, options)


if __name__ == "__main__":
    sys.exit(main())
