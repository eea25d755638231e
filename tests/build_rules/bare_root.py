"""A root file system with the files of a few Debian packages and of those they depend on, copied
from this machine. No development package is in it, and no library that only such a package
brings."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

PACKAGES = ("python3.11", "libstdc++6")
PYTHON = "/usr/bin/python3.11"
SITE = "usr/local/lib/python3.11/dist-packages"
# What a program of this machine expects to find beside its files.
MOUNTED = ("proc", "dev", "sys")
_SHARE = "/usr/share/"

_MOUNT_AND_ENTER = (
    "".join(f'mount --rbind /{name} "$0/{name}" && ' for name in MOUNTED)
    + 'exec unshare --root="$0" --wd=/tmp "$@"'
)


def packages_of(names):
    """The packages and all that they depend on, as dpkg knows them."""
    listing = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n"],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    depends, provider = {}, {}
    for line in listing.splitlines():
        name, needed, provides = line.split("\t")
        depends[name] = needed
        provider.update({virtual: name for virtual in words(provides)})
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        for group in depends[name].split(","):
            known = [provider.get(word, word) for word in words(group.replace("|", ","))]
            known = [word for word in known if word in depends]
            todo += known[:1]
    return sorted(found)


def words(field):
    """Names of a field of relations, without versions and architectures."""
    return [re.match(r"[^\s:(]+", each.strip())[0] for each in field.split(",") if each.strip()]


class BareRoot:
    """The root file system in `folder`, with numpy as it is installed here (from its wheel)."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.folder / "usr" / name).mkdir(parents=True)
            (self.folder / name).symlink_to(f"usr/{name}")
        for name in (*MOUNTED, "tmp"):
            (self.folder / name).mkdir()
        self.packages = packages_of(PACKAGES)
        listing = subprocess.run(
            ["dpkg-query", "-L", *self.packages], check=True, text=True, stdout=subprocess.PIPE
        ).stdout
        for name in listing.splitlines():
            if name.startswith("/") and not name.startswith(_SHARE):
                self.copy(name)
        self.install_numpy()

    def copy(self, name):
        """Copies a file of this machine to the same place."""
        target = self.folder / name[1:]
        if (
            target.exists()
            or target.is_symlink()
            or (os.path.isdir(name) and not os.path.islink(name))
        ):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, target, follow_symlinks=False)

    def install_numpy(self):
        import numpy

        package = pathlib.Path(numpy.__file__).parent
        for name in ("numpy", "numpy.libs"):
            shutil.copytree(
                package.parent / name,
                self.folder / SITE / name,
                ignore=shutil.ignore_patterns("tests", "__pycache__"),
            )

    def install(self, wheel):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-qq",
                "--disable-pip-version-check",
                "--no-deps",
                "--no-index",
                "--no-compile",
                "--target",
                self.folder / SITE,
                wheel,
            ],
            check=True,
        )

    def run(self, *command):
        """Runs a program in it, from /tmp; returns what it printed."""
        done = subprocess.run(
            [*namespace(), "sh", "-c", _MOUNT_AND_ENTER, self.folder, *map(str, command)],
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
            env={
                "HOME": "/tmp",
                "PATH": "/usr/bin:/usr/sbin",
                "PYTHONDONTWRITEBYTECODE": "1",
                "TC_LOG": "",
            },
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, program, *arguments):
        return self.run(PYTHON, "-c", program, *arguments)


def namespace():
    """The command that gives a program mounts of its own, or None where this machine has none to
    give."""
    for command in (["unshare", "--mount", "--map-root-user"], ["unshare", "--mount"]):
        try:
            tried = subprocess.run(
                [*command, "sh", "-c", "mount --rbind /proc /proc"],
                check=False,
                capture_output=True,
            )
        except FileNotFoundError:
            return None
        if tried.returncode == 0:
            return command
    return None


def why_not():
    """Why a bare root file system can't be made here, or None."""
    if sys.version_info[:2] != (3, 11) or not os.path.exists(PYTHON):
        return "this Python is not Debian 12's 3.11, which the root file system has"
    try:
        packages_of(PACKAGES)
    except (FileNotFoundError, KeyError, subprocess.CalledProcessError) as error:
        return f"dpkg does not know Debian 12's packages {PACKAGES}: {error!r}"
    return None if namespace() else "this machine gives no mount namespace"


def make(folder):
    """A bare root file system, or a skip that says why there is none."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    return BareRoot(folder)
