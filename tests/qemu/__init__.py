"""Runs riscv64 executables under qemu-user, with executed instructions counted by class."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FOLDER = _ROOT / "runtime" / "qemu"
_SOURCES = tuple(sorted(path.name for path in _FOLDER.glob("*.cc")))
_HEADERS = tuple(sorted(path.name for path in _FOLDER.glob("*.h")))

_CORES = _ROOT / "ir" / "target" / "riscv_cores.h"

VECTOR_LENGTHS = (128, 256, 512)


@dataclass(frozen=True)
class Core:
    """What a run needs to know of a row of ir/target/riscv_cores.h."""

    name: str
    features: tuple  # LLVM's, without the sign
    vlen: int
    dlen: int
    vector_units: int


def cores():
    """The rows of ir/target/riscv_cores.h by name."""
    table = _CORES.read_text().partition("kRiscvCores[]")[2]
    rows = {}
    for text in table.split("{.name = ")[1:]:
        name, features = re.match(r'"([^"]+)".*?\.features = "([^"]*)"', text, re.S).groups()
        number = {
            field: int(found[1]) if (found := re.search(rf"\.{field} = (\d+)", text)) else 1
            for field in ("vector_bits", "datapath_bits", "vector_units")
        }
        rows[name] = Core(
            name,
            tuple(re.findall(r"\+(\w+)", features)),
            number["vector_bits"],
            number["datapath_bits"],
            number["vector_units"],
        )
    return rows


def qemu_path():
    """The qemu-riscv64 to run ($TC_QEMU, else on PATH), or None where there is none."""
    return os.environ.get("TC_QEMU") or shutil.which("qemu-riscv64")


def plugin_path():
    """The counting plugin, built where needed.

    $TC_QEMU_PLUGIN names one; else Bazel's, if it is not older than the sources; else the sources
    are compiled into the user's cache folder, under their hash.
    """
    if os.environ.get("TC_QEMU_PLUGIN"):
        return pathlib.Path(os.environ["TC_QEMU_PLUGIN"])
    files = [
        *(_FOLDER / name for name in _SOURCES + _HEADERS),
        _CORES,
        _CORES.with_name("core_row.h"),
    ]
    built = _ROOT / "bazel-bin" / "runtime" / "qemu" / "libcount_plugin.so"
    newest = max(file.stat().st_mtime for file in files)
    if built.exists() and built.stat().st_mtime >= newest:
        return built
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    cached = cache / "tc" / "qemu" / digest / "libcount_plugin.so"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("clang++-19")
        if compiler is None:
            raise RuntimeError(
                "no C++ compiler to build the qemu plugin with: set CXX, or build "
                "//runtime/qemu:libcount_plugin.so with bazel"
            )
        # Written under a name of its own first, so that parallel runs never load half a file.
        with tempfile.NamedTemporaryFile(dir=cached.parent, suffix=".so", delete=False) as partial:
            pass
        subprocess.run(
            [
                compiler,
                "-std=c++20",
                "-O2",
                "-fPIC",
                "-shared",
                "-fvisibility=hidden",
                f"-I{_ROOT}",
                *(str(_FOLDER / name) for name in _SOURCES),
                "-o",
                partial.name,
            ],
            check=True,
        )
        os.replace(partial.name, cached)
    return cached


def qemu_cpu(core, vlen, vector=True, extensions=()):
    """What `qemu-riscv64 -cpu` takes for a core with vectors of `vlen` bits, and with more
    extensions as qemu spells them."""
    own = [name.capitalize() if name == "zfh" else name for name in core.features]  # Zfh, but zba
    features = [f"{extension}=true" for extension in dict.fromkeys([*own, *extensions])]
    return ",".join(
        [
            "rv64",
            *(["v=true", f"vlen={vlen}", "vext_spec=v1.0"] if vector else ["v=false"]),
            *features,
        ]
    )


def run_riscv64(
    executable,
    args=(),
    vlen=None,
    vector=True,
    count=False,
    ranges=(),
    cycles=False,
    cache=False,
    dlen=None,
    core="generic",
    extensions=(),
    stdin=None,
    timeout=600,
    profile=False,
    libraries=None,
):
    """Runs a riscv64 executable and returns (exit code, stdout, stderr, counts or None).

    The core has the vector extension 1.0 with registers of `vlen` bits (those of the row `core` of
    ir/target/riscv_cores.h, whose extensions it has, too), or is rv64gc where `vector` is false;
    `extensions` names more, as qemu spells them ("Zfh"). stdout and stderr are bytes; the exit code
    is negative for a signal. With `count`, the counts are a dict of the executed instructions by
    class (`total` is their sum), restricted to the address ranges `[(start, end), ...]` if there
    are any; None if the guest died by a signal.

    `cycles` and `cache` (each implies `count`) add "simulated_cycles" to the counts: the time of
    the row `core` in the model that cycle_model.h describes, with a vector datapath of `dlen` bits
    (the row's), and with `cache` also with that model's caches and their misses. `profile` (with
    one of them) adds "profile": by address of an instruction, how often it executed and the cycles
    that passed from the issue of the one before it to its own.

    A dynamically linked executable finds its libraries below the folder `libraries`.
    """
    qemu = qemu_path()
    if qemu is None:
        raise RuntimeError("qemu-riscv64 is not installed: apt install qemu-user")
    row = cores()[core]
    vlen, dlen = vlen or row.vlen, dlen or row.dlen
    cpu = qemu_cpu(row, vlen, vector, extensions)
    command = [qemu, "-cpu", cpu, "-seed", "1", *(["-L", str(libraries)] if libraries else [])]
    count = count or cycles or cache
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "counts.json"
        if count:
            # A comma separates qemu's plugin arguments; one inside a value is written twice.
            plugin = [str(plugin_path()), f"out={output}"]
            plugin += [f"range={start:#x}-{end:#x}" for start, end in ranges]
            if cycles or cache:
                plugin += [
                    "cycles=on",
                    f"cache={'on' if cache else 'off'}",
                    f"core={core}",
                    f"vlen={vlen}",
                    f"dlen={dlen}",
                ]
            profile_file = pathlib.Path(folder) / "profile.txt"
            if profile:
                plugin += [f"profile={profile_file}"]
            command += ["-plugin", ",".join(part.replace(",", ",,") for part in plugin)]
        command += [str(executable), *map(str, args)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=timeout, check=False
        )
        counts = json.loads(output.read_text()) if count and output.exists() else None
        if counts and profile:
            rows = (line.split() for line in profile_file.read_text().splitlines())
            counts["profile"] = {
                int(address, 16): (int(executions), int(spent))
                for address, executions, spent in rows
            }
    return done.returncode, done.stdout, done.stderr, counts
