"""The wheels of build_rules/wheels.py: what is in them, and that they work in a root file system
without development packages, and on riscv64."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from tests.build_rules import bare_root
from tests.qemu import qemu_path

onnx = pytest.importorskip("onnx")
pytest.importorskip("auditwheel", reason="auditwheel is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Libraries that every Debian 12 with Python has; all others come with the wheel.
BASE_LIBRARIES = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "libz.so.1",
}
COMPILERS_LIBRARIES = re.compile(r"LLVM|isl|grpc|protobuf|absl|sqlite|gmp")


def make(folder, *options, **environment):
    """The lines that build_rules/wheels.py prints, and the wheels by name."""
    done = subprocess.run(
        [sys.executable, ROOT / "build_rules/wheels.py", folder, "--compression", "0", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines(), {path.name: path for path in pathlib.Path(folder).iterdir()}


def chosen(wheels, pattern):
    """The one wheel whose name matches."""
    found = [path for name, path in wheels.items() if re.fullmatch(pattern, name)]
    assert len(found) == 1, sorted(wheels)
    return found[0]


def needed_by(path):
    """The dynamic libraries that an ELF file names."""
    listing = subprocess.run(
        ["readelf", "-d", path], check=True, text=True, capture_output=True
    ).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", listing))


def elf_files(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def full(made, tmp_path_factory):
    """The wheel tc-compiler, unpacked."""
    folder = tmp_path_factory.mktemp("full")
    with zipfile.ZipFile(chosen(made[1], r"tc_compiler-.*x86_64\.whl")) as archive:
        archive.extractall(folder)
    return folder


def test_licences_of_what_is_in_the_wheel_come_with_it(full):
    """Of each library that auditwheel put in, and of those linked into the programs."""
    texts = {
        path.stem: path.read_text(encoding="utf-8")
        for path in full.glob("*.dist-info/licenses/*.txt")
    }
    assert {"libllvm19", "libisl-dev", "libgrpc++-dev", "libsqlite3-dev"} <= texts.keys()
    assert all(len(text) > 200 for text in texts.values())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model's file."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal((16, 8), np.float32), "w"),
        numpy_helper.from_array(random.standard_normal(8, np.float32), "b"),
    ]
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        weights,
    )
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


@pytest.fixture(scope="module")
def compiler(made, model, tmp_path_factory):
    """A bare root with the wheel tc-compiler and the model."""
    root = bare_root.make(tmp_path_factory.mktemp("compiler"))
    root.install(chosen(made[1], r"tc_compiler-.*x86_64\.whl"))
    shutil.copy(model, root.folder / "tmp")
    return root


@pytest.fixture(scope="module")
def runtime(made, tmp_path_factory):
    """A bare root with the wheel tc-compiler-runtime."""
    root = bare_root.make(tmp_path_factory.mktemp("runtime"))
    root.install(chosen(made[1], r"tc_compiler_runtime-.*linux_x86_64\.whl"))
    return root


# Compiles argv[1] as argv[2], runs it once on what `inputs` makes of its ports, keeps the result in
# argv[2].npy.
INPUTS = """
import sys, numpy, tc
def inputs(module):
    return [numpy.random.default_rng(1).standard_normal(port.shape, numpy.float32) for port in module.inputs]
"""
COMPILE = (
    INPUTS
    + """
module = tc.compile(sys.argv[1])
module.save(sys.argv[2])
numpy.save(sys.argv[2] + ".npy", module(*inputs(module)))
"""
)
LOAD = (
    INPUTS
    + """
module = tc.load(sys.argv[1])
result, expected = module(*inputs(module)), numpy.load(sys.argv[1] + ".npy")
mapped = open("/proc/self/maps").read()
print({"file": tc.__file__, "equal": bool((result == expected).all()), "shape": result.shape,
       "compiler": "libLLVM" in mapped})
"""
)


def test_names_and_metadata(made):
    lines, wheels = made
    assert [line for line in lines if not line.startswith("==")] == [
        str(path) for path in sorted(wheels.values(), key=lambda path: lines.index(str(path)))
    ]
    with zipfile.ZipFile(chosen(wheels, r"tc_compiler-.*-manylinux_2_\d\d_x86_64\.whl")) as archive:
        text = archive.read("tc_compiler-0.1.0.dist-info/METADATA").decode()
        entries = archive.read("tc_compiler-0.1.0.dist-info/entry_points.txt").decode()
    assert (
        "\nName: tc-compiler\n" in text
        and "Requires-Dist: rich\n" in text
        and "Provides-Extra: torch\n" in text
    )
    assert (
        entries
        == "[console_scripts]\ntcompile = tc.command:run\n\n[torch_dynamo_backends]\ntc = tc.torch.backend:backend\n"
    )
    with zipfile.ZipFile(chosen(wheels, r"tc_compiler_runtime-.*-linux_x86_64\.whl")) as archive:
        text = archive.read("tc_compiler_runtime-0.1.0.dist-info/METADATA").decode()
    assert "\nName: tc-compiler-runtime\n" in text and re.findall("Requires-Dist: (.*)", text) == [
        "numpy"
    ]


def test_the_wheels_share_no_file(made):
    names = []
    for pattern in r"tc_compiler-.*\.whl", r"tc_compiler_runtime-.*linux_x86_64\.whl":
        with zipfile.ZipFile(chosen(made[1], pattern)) as archive:
            names.append(set(archive.namelist()))
    assert not names[0] & names[1]


def test_the_runtime_has_no_part_of_the_compiler(made, tmp_path):
    wheels = [path for name, path in made[1].items() if name.startswith("tc_compiler_runtime")]
    for number, path in enumerate(wheels):
        assert path.stat().st_size < 1_000_000
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / str(number))
        files = list(elf_files(tmp_path / str(number)))
        assert [file.name for file in files] == ["_runtime.so"]
        assert not any(COMPILERS_LIBRARIES.search(name) for name in needed_by(files[0]))


def test_the_full_wheel_has_every_library(full):
    inside = {path.name for path in full.glob("tc_compiler.libs/*")}
    assert any(name.startswith("libLLVM") for name in inside)
    for path in elf_files(full):
        assert needed_by(path) <= inside | BASE_LIBRARIES, path
    for path in [full / "tc/_tc.so", full / "tc/bin/tc-builder", *full.glob("tc_compiler.libs/*")]:
        listing = subprocess.run(["ldd", path], check=True, text=True, capture_output=True).stdout
        found = dict(re.findall(r"^\s*(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$", listing, re.M))
        for name, place in found.items():
            assert name in BASE_LIBRARIES or os.path.realpath(place).startswith(
                f"{full}{os.sep}"
            ), (path, name, place)


def test_compiles_without_development_packages(compiler):
    assert not any(re.search(r"-dev$|llvm|protobuf|grpc|isl", name) for name in compiler.packages)
    compiler.python(COMPILE, "small.onnx", "small.so")
    compiler.python(
        "import tc; tc.compile('small.onnx', target='rv64gcv').export('small-riscv64', kind='executable')"
    )
    header = (compiler.folder / "tmp/small-riscv64").read_bytes()[:20]
    assert header[:4] == b"\x7fELF" and header[18] == 243
    compiler.run(
        bare_root.PYTHON, "-m", "tc", "compile", "small.onnx", "--kind", "executable", "-o", "small"
    )
    np.save(compiler.folder / "tmp/x.npy", np.ones((4, 16), np.float32))
    compiler.run("/tmp/small", "--input", "x=x.npy", "--output-dir", "out")
    assert np.load(compiler.folder / "tmp/out/y.npy").shape == (4, 8)


@pytest.mark.parametrize("name", ["agent", "tracker"])
def test_programs_run_without_development_packages(compiler, name):
    assert "tc-" + name in compiler.run(bare_root.PYTHON, "-m", "tc", name, "--help")


def test_tunes_without_development_packages(compiler):
    told = compiler.python("""
import tc
print(tc.tune("small.onnx", log="log.db", trials=4).trials)
""")
    assert int(told.split()[-1]) >= 4


def run_in_both(compiler, runtime, name):
    """NAME.onnx compiled and run by the wheel tc-compiler, then loaded and run by
    tc-compiler-runtime: what LOAD prints."""
    compiler.python(COMPILE, f"{name}.onnx", f"{name}.so")
    for file in f"{name}.so", f"{name}.so.npy":
        shutil.copy(compiler.folder / "tmp" / file, runtime.folder / "tmp")
    return ast.literal_eval(runtime.python(LOAD, f"{name}.so"))


def test_runs_without_the_compiler(compiler, runtime):
    assert run_in_both(compiler, runtime, "small") == {
        "file": f"/{bare_root.SITE}/tc_runtime/__init__.py",
        "equal": True,
        "shape": (4, 8),
        "compiler": False,
    }


def test_the_runtime_says_what_it_is(runtime):
    told = runtime.python("""
import runpy, tc
try:
    tc.compile("small.onnx")
except tc.Error as error:
    print(error)
try:
    runpy.run_module("tc", run_name="__main__", alter_sys=True)
except SystemExit as error:
    print(error.code)
""")
    sentence = (
        "this is tc's runtime alone: it loads and runs compiled models and does not compile; the "
        "compiler is another package: pip install tc-compiler"
    )
    assert told == f"{sentence}\nerror: {sentence}\n"


def test_import_takes_less_than_five_megabytes(runtime):
    program = """
import re
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""
    own, numpy = (
        min(int(runtime.python(first + program)) * 1024 / 1e6 for _ in range(3))
        for first in ("import numpy, tc", "import numpy")
    )
    print(f"import tc: {own - numpy:.1f} MB over numpy's {numpy:.1f} MB")
    assert own - numpy < 5


@pytest.mark.parametrize("again", ["tc", "tc_runtime"])
def test_both_may_be_installed(made, tmp_path, again):
    """The compiler's is the one that is imported, in whatever order they came; each goes without
    the other's files."""
    first = (
        chosen(made[1], r"tc_compiler-.*\.whl"),
        chosen(made[1], r"tc_compiler_runtime-.*linux_x86_64\.whl"),
    )
    for wheel in first if again == "tc" else first[::-1]:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path)
    search = os.pathsep.join([str(tmp_path), str(pathlib.Path(np.__file__).parents[1])])
    program = "import tc, tc.errors; print(tc.__file__, tc.errors.Error is tc.Error)"

    def imported():
        return subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            text=True,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": search},
        ).stdout

    assert imported() == f"{tmp_path}/tc/__init__.py True\n"
    shutil.rmtree(tmp_path / "tc")
    assert imported() == f"{tmp_path}/tc_runtime/__init__.py True\n"


def test_squeezenet_without_the_compiler(compiler, runtime):
    zoo = pytest.importorskip("tests.zoo", reason="torch is not installed")
    shutil.copy(zoo.export("squeezenet1_1"), compiler.folder / "tmp/squeezenet.onnx")
    told = run_in_both(compiler, runtime, "squeezenet")
    assert told["equal"] and told["shape"] == (1, 1000) and not told["compiler"]


class RiscV64:
    """Python of riscv64 under qemu, with the packages that build_rules/riscv64_python.lock
    names."""

    LIBRARIES = "/usr/lib/riscv64-linux-gnu"

    def __init__(self, folder):
        laid_out = pathlib.Path(
            os.environ.get("TC_PYTHON_RISCV64") or os.path.expanduser("~/.cache/tc/python-riscv64")
        )
        if not (laid_out / "packages.txt").exists():
            pytest.skip("the Python of riscv64 was not laid out: build_rules/wheels.sh does it")
        if qemu_path() is None:
            pytest.skip("qemu-riscv64 is not installed")
        self.folder = folder
        (folder / "usr").symlink_to(laid_out / "usr")
        (folder / "lib").symlink_to("usr/lib")
        self.python_path = next((laid_out / "usr/bin").glob("python3.*[0-9]"))

    def python(self, program, *arguments):
        numpy_folder = self.folder / "usr/lib/python3/dist-packages"
        search = (
            f"{self.LIBRARIES}/blas:{self.LIBRARIES}/lapack"  # as Debian's alternatives have them
        )
        return subprocess.run(
            [
                qemu_path(),
                "-L",
                self.folder,
                "-cpu",
                "rv64,v=true,vlen=256,vext_spec=v1.0",
                "-E",
                f"LD_LIBRARY_PATH={search}",
                "-E",
                f"PYTHONPATH={self.folder / 'site'}:{numpy_folder}",
                "-E",
                "PYTHONDONTWRITEBYTECODE=1",
                self.python_path,
                "-c",
                program,
                *arguments,
            ],
            check=True,
            text=True,
            capture_output=True,
            cwd=self.folder,
        ).stdout


def test_runs_on_riscv64(made, model, tmp_path):
    tc = pytest.importorskip("tc")
    machine = RiscV64(tmp_path)
    with zipfile.ZipFile(
        chosen(made[1], r"tc_compiler_runtime-.*-cp313-cp313-linux_riscv64\.whl")
    ) as archive:
        archive.extractall(tmp_path / "site")
    tc.compile(model, target="rv64gcv").save(str(tmp_path / "small.so"))
    x = np.random.default_rng(1).standard_normal((4, 16), np.float32)
    np.save(tmp_path / "x.npy", x)
    machine.python("""
import numpy, platform, tc
assert platform.machine() == "riscv64"
numpy.save("y.npy", tc.load("small.so", threads=1)(numpy.load("x.npy")))
""")
    expected = tc.compile(model, threads=1)(x)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-4, atol=1e-5)


NO_RUNTIME = "== no wheel of tc-compiler-runtime for riscv64: the packages of riscv64_python.lock were not laid out"
NO_AGENT = (
    "== the wheel tc-compiler has no agent for riscv64 boards: the packages of riscv64_packages.lock were not "
    "laid out"
)


def test_says_that_the_runtime_for_riscv64_is_left_out(tmp_path):
    lines, wheels = make(tmp_path / "wheels", "--only-runtime", TC_PYTHON_RISCV64=str(tmp_path))
    assert lines == [str(*wheels.values()), NO_RUNTIME]


@pytest.mark.full
def test_says_that_the_agent_is_left_out(tmp_path):
    lines, wheels = make(
        tmp_path / "wheels", TC_PYTHON_RISCV64=str(tmp_path), TC_SYSROOT_RISCV64=str(tmp_path)
    )
    assert lines[1:3] == [NO_RUNTIME, NO_AGENT]
    with zipfile.ZipFile(chosen(wheels, r"tc_compiler-.*x86_64\.whl")) as archive:
        programs = [name for name in archive.namelist() if name.startswith("tc/bin/")]
    assert "tc/bin/tc-agent" in programs and "tc/bin/riscv64/tc-agent" not in programs


def readme_examples():
    """The lines of README's first block of Python."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return (
        re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
        .replace("time_limit=180", "time_limit=3")
        .splitlines()
    )


# What README's examples read: a model of one input, and of PyTorch's a module.
BEFORE_EXAMPLES = """
import numpy as np
x = np.ones((4, 16), np.float32)
"""
TORCH_BEFORE_EXAMPLES = """
import torch
module = torch.nn.Linear(16, 8)
"""


def of_packages(line):
    """Whether an example needs a package besides numpy."""
    return any(word in line for word in ("tflite", "gguf", "torch", "(module"))


def test_readme_in_an_empty_environment(compiler, model):
    shutil.copy(model, compiler.folder / "tmp/model.onnx")
    lines = [line for line in readme_examples() if not of_packages(line)]
    assert len(lines) >= 6 and "m = tc.compile(" in lines[1]
    # The tests' own environment says that there is no log.
    begin = "import os\nos.environ.pop('TC_LOG', None)\n"
    compiler.python(begin + BEFORE_EXAMPLES + "\n".join(lines) + "\nassert y.shape == (4, 8)\n")
    assert (compiler.folder / "tmp/model").exists() and (compiler.folder / "tmp/model.o").exists()


@pytest.mark.full
def test_readme_with_the_extras(made, model, tmp_path):
    """All examples and the console script, with the packages of this environment behind the wheel's
    own."""
    pytest.importorskip("torch")
    pytest.importorskip("tflite")
    pytest.importorskip("gguf")
    pytest.importorskip("transformers")
    from tests.frontend.test_gguf import written
    from tests.frontend.tflite_models import relu

    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run(
        [
            environment / "bin/python",
            "-m",
            "pip",
            "install",
            "-qq",
            "--no-index",
            "--no-deps",
            chosen(made[1], r"tc_compiler-.*x86_64\.whl"),
        ],
        check=True,
    )
    (site,) = environment.glob("lib/python3.*/site-packages")
    (site / "others.pth").write_text(str(pathlib.Path(np.__file__).parents[1]) + "\n")
    shutil.copy(model, tmp_path / "model.onnx")
    (tmp_path / "model.tflite").write_bytes(bytes(relu()))
    written(tmp_path, "llama")[0].rename(tmp_path / "model.gguf")

    def run(*arguments):
        done = subprocess.run(
            [environment / "bin" / arguments[0], *arguments[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TC_LOG": str(tmp_path / "log.db"), "PYTHONPATH": ""},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    lines = BEFORE_EXAMPLES + TORCH_BEFORE_EXAMPLES + "\n".join(readme_examples())
    told = run(
        "python",
        "-c",
        lines
        + "\nassert y.shape == (4, 8) and f(torch.ones(4, 16)).shape == (4, 8)\nprint(tc.__file__)\n",
    )
    assert told == f"{site}/tc/__init__.py\n"
    assert run("tcompile", "--version").startswith("tc ")
    assert "wrote  model.so" in run("tcompile", "compile", "model.onnx")
