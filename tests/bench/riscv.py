"""tc, ONNX Runtime and XNNPACK on riscv64, side by side in the model of a core: `python -m
tests.bench.riscv`.

Executed instructions, their vector share, simulated cycles (caches on) of one warm run, which is
what a second run adds to the first; the largest memory of the process and the size of its files.
All programs run under the same qemu, the same counting plugin and the same table of the core
(runtime/qemu/cycle_model.h).

    python -m tests.bench.riscv OPTION ... NAME ...

    without a name       the layers and the networks of seconds
    NAME ...             some of them: names of the zoo, beginnings of names of layers; "packed" are
                         products with weights of few bits
    NAME:int8            a network as tests.bench.quantised has it
    --dlen 128,256 NAME  one on several datapaths
    --full               all layers at DLEN 128 and 256 beside XNNPACK, nine networks at DLEN 128
                         beside ONNX Runtime; lists goals of riscv_goals.py that are missed, with
                         exit status 1 (more than two hours with one job; --jobs N)
    --cpu CORE           on another core of ir/target/riscv_cores.h, compiled for it
    --kernels NAME       one, kernel by kernel; with --listing NUMBER a kernel, instruction by
                         instruction

ONNX Runtime and XNNPACK are Debian's packages for riscv64; where they can't be fetched, a line says
so and tc stands alone. Of a layer, tc's cycles are those of the kernels that compute it; what the
change between the file's layout and the kernels' takes is a column of its own, since XNNPACK is
given its own layout.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from tests import zoo
from tests.bench import quantised, riscv_goals
from tests.bench.riscv_layers import LAYERS, PACKED, save
from tests.memory import SYMBOLS
from tests.qemu import cores, qemu_cpu, qemu_path
from tests.qemu.kernels import kernel_ranges, link_with_symbols, listing, measure, tool
from tests.support import input_options

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "build_rules" / "riscv64_peers.lock"
# Those whose simulation takes seconds for tc and a minute or two for ONNX Runtime.
NETWORKS = ("squeezenet1_1", "mobilenet_v2", "nsnet2", "tinybert")
PEERS = "xnnpack,onnxruntime"
KNOWN = {**LAYERS, **PACKED}
INT8 = ":int8"  # behind a network's name: as tests.bench.quantised has it


@dataclass
class Row:
    """What one program did for one layer or network."""

    name: str
    dlen: int  # bits of the datapath
    peer: str
    multiply_adds: int
    instructions: int
    vector_share: float  # of the instructions
    cycles: int
    other_cycles: int  # in kernels that change the layout, not in `cycles`
    per_cycle: float  # multiply-adds
    share_of_peak: float
    peak_bytes: int  # largest resident memory, qemu's own with an empty program not counted
    file_bytes: int  # the program's, of ONNX Runtime its libraries' and the model's


class Peers:
    """Programs of ONNX Runtime and XNNPACK for riscv64; `folder` is None where the packages can't
    be had."""

    def __init__(self, scratch):
        self.scratch, self.programs = Path(scratch), {}
        self.folder = Path(
            os.environ.get("TC_PEERS_RISCV64") or Path.home() / ".cache" / "tc" / "peers-riscv64"
        )
        if "TC_PEERS_RISCV64" not in os.environ:
            done = subprocess.run(
                [
                    sys.executable,
                    str(ROOT / "build_rules" / "riscv64_sysroot.py"),
                    str(self.folder),
                    "--lock",
                    str(LOCK),
                    "--purpose",
                    "ONNX Runtime and XNNPACK",
                ],
                capture_output=True,
                text=True,
            )
            print(done.stdout, end="")
        if not (self.folder / "packages.txt").exists():
            self.folder = None
            return
        # What Debian's base system has: scripts of the linker name files in it.
        if not (self.folder / "lib").exists():
            (self.folder / "lib").symlink_to("usr/lib")

    def program(self, source, *flags):
        """Compiles one of the project's C programs for riscv64."""
        if source not in self.programs:
            output = self.scratch / Path(source).stem
            subprocess.run(
                [
                    tool("clang"),
                    "--target=riscv64-linux-gnu",
                    f"--sysroot={self.folder}",
                    f"--gcc-toolchain={self.folder}/usr",
                    "-fuse-ld=lld",
                    "-std=c99",
                    "-O2",
                    "-D_GNU_SOURCE",
                    f"-I{ROOT}",
                    str(ROOT / source),
                    *flags,
                    "-o",
                    str(output),
                    "-lm",
                    "-Wl,--allow-shlib-undefined",
                ],
                check=True,
            )
            self.programs[source] = output
        return self.programs[source]

    def xnnpack(self):
        return self.program("tests/bench/xnnpack_layer.c", "-lXNNPACK", "-lpthreadpool")

    def onnxruntime(self):
        return self.program(
            "tests/runtime/run_onnxruntime.c",
            f"-I{self.folder}/usr/include/onnxruntime",
            "-lonnxruntime",
        )

    def library_bytes(self, *names):
        """Sizes of shared libraries and of what they need, the C library's apart."""
        libraries = self.folder / "usr" / "lib" / "riscv64-linux-gnu"
        seen, names = set(), list(names)
        while names:
            name = names.pop()
            path = libraries / name
            if name in seen or not path.exists() or name.startswith(("libc.", "libm.", "ld-linux")):
                continue
            seen.add(name)
            text = subprocess.run(
                [tool("llvm-objdump"), "-p", str(path)], capture_output=True, text=True
            ).stdout
            names += [
                line.split()[1] for line in text.splitlines() if line.split()[:1] == ["NEEDED"]
            ]
        return sum((libraries / name).stat().st_size for name in seen)


class Machine:
    """The core's table, and memory under qemu."""

    def __init__(self, options, dlen, scratch):
        core = cores()[options.cpu]
        self.core, self.vlen, self.dlen = core.name, options.vlen or core.vlen, dlen or core.dlen
        self.target = options.target or (
            f"rv64gcv_zvl{self.vlen}b" if core.name == "generic" else core.name
        )
        self.peak = self.dlen / 32 * core.vector_units
        empty = Path(scratch) / "empty"
        subprocess.run(
            [
                tool("clang"),
                "--target=riscv64-linux-gnu",
                "-nostdlib",
                "-static",
                "-fuse-ld=lld",
                "-x",
                "c",
                "-",
                "-o",
                str(empty),
            ],
            input=b'void _start(void) { __asm__("li a0, 0; li a7, 93; ecall"); }',
            check=True,
        )
        self.empty_bytes = self.resident(empty, [])

    def resident(self, program, arguments, libraries=None):
        """Largest resident bytes of a run without the plugin, qemu's included."""
        command = [qemu_path(), "-cpu", qemu_cpu(cores()[self.core], self.vlen)]
        command += ["-L", str(libraries)] if libraries else []
        # A process of its own: the largest of all children is what it can ask for.
        script = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *command, str(program), *arguments],
            check=True,
            capture_output=True,
            text=True,
        )
        return int(done.stdout) * 1024

    def row(
        self, name, peer, work, run, program, arguments, files, libraries=None, cycles=None, other=0
    ):
        cycles = run.cycles if cycles is None else cycles
        peak = self.resident(program, arguments("1"), libraries) - self.empty_bytes
        return Row(
            name,
            self.dlen,
            peer,
            work,
            run.total,
            run.vectors / max(run.total, 1),
            cycles,
            other,
            work / max(cycles, 1),
            work / max(cycles, 1) / self.peak,
            peak,
            files,
        )

    def measure(self, program, arguments, **options):
        return measure(
            program, arguments, vlen=self.vlen, dlen=self.dlen, core=self.core, **options
        )


def is_reorder(report):
    """A kernel that copies between layouts alone."""
    return report["label"].endswith("(reorder)")


def network_of(name):
    return name.removesuffix(INT8)


def compiled(name, target, folder):
    """The module, its ONNX file and the options that name its inputs' files."""
    import tc

    path = folder / "model.onnx"
    if name in KNOWN:
        save(KNOWN[name], path)
        tolerance = KNOWN[name].tolerance
        keywords = {} if tolerance is None else {"tolerance": tolerance}
        module = tc.compile(str(path), target=target, threads=1, log=False, **keywords)
        return module, path, []
    path = quantised.export(network_of(name)) if name.endswith(INT8) else zoo.export(name)
    inputs = zoo.example(network_of(name))
    module = tc.compile(
        str(path),
        target=target,
        threads=1,
        log=False,
        shapes={key: value.shape for key, value in inputs.items()},
    )
    return module, path, input_options(inputs, folder)


def seeded_options(module, folder):
    """Inputs of a layer: small numbers with a spread."""
    import numpy

    draw = numpy.random.default_rng(2)
    return input_options(
        {
            port.name: draw.standard_normal(port.shape).astype(numpy.float32)
            for port in module.inputs
        },
        folder,
    )


def tc_program(name, machine, folder):
    """(module, executable with symbols, arguments by repeats, ONNX file)."""
    module, model, options = compiled(name, machine.target, folder)
    options = options or seeded_options(module, folder)
    executable = folder / "tc"
    link_with_symbols(module, executable)
    return (
        module,
        executable,
        lambda repeat: [*options, "--threads", "1", "--repeat", repeat],
        model,
    )


def rows_of(name, machine, peers, wanted):
    """Rows of one layer or network."""
    with tempfile.TemporaryDirectory(prefix="tc-riscv-") as folder:
        folder = Path(folder)
        module, executable, arguments, model = tc_program(name, machine, folder)
        if name in KNOWN:
            work = KNOWN[name].multiply_adds()
        else:
            work = zoo.NETWORKS[network_of(name)].multiply_adds
        run = machine.measure(executable, arguments, profile=name in KNOWN)
        other = cycles = None
        if name in KNOWN:
            ranges = kernel_ranges(executable)
            spent = [
                (is_reorder(report), run.within(*ranges[report["kernel"]])[1])
                for report in module.kernels
            ]
            other = sum(each for reorders, each in spent if reorders)
            cycles = sum(each for reorders, each in spent if not reorders)
        plain = folder / "plain"
        module.export(str(plain), kind="executable")
        rows = [
            machine.row(
                name,
                "tc",
                work,
                run,
                plain,
                arguments,
                plain.stat().st_size,
                cycles=cycles,
                other=other or 0,
            )
        ]
        if peers.folder and "xnnpack" in wanted and name in LAYERS:
            program = peers.xnnpack()
            numbers = [str(int(number)) for number in LAYERS[name].numbers]
            given = lambda repeat: ["--repeat", repeat, LAYERS[name].kind, *numbers]
            run = machine.measure(program, given, libraries=peers.folder)
            rows.append(
                machine.row(
                    name,
                    "xnnpack",
                    work,
                    run,
                    program,
                    given,
                    program.stat().st_size + peers.library_bytes("libXNNPACK.so.0.20241108"),
                    peers.folder,
                )
            )
        if peers.folder and "onnxruntime" in wanted and name not in PACKED:
            program = peers.onnxruntime()
            symbols = [f"{key}={value}" for key, value in SYMBOLS.get(network_of(name), {}).items()]
            given = lambda repeat: [str(model), "--threads", "1", "--repeat", repeat, *symbols]
            run = machine.measure(program, given, libraries=peers.folder)
            size = (
                program.stat().st_size
                + peers.library_bytes("libonnxruntime.so.1.21")
                + model.stat().st_size
            )
            rows.append(
                machine.row(name, "onnxruntime", work, run, program, given, size, peers.folder)
            )
        return rows


HEADER = (
    f"{'layer or network':28} {'DLEN':>4} {'by':11} {'M macs':>8} {'M instr':>9} {'vector':>6} {'M cycles':>9} {'reorders':>8} "
    f"{'macs/cycle':>10} {'of peak':>7} {'MB peak':>8} {'MB files':>8}"
)


def line(row):
    return (
        f"{row.name:28} {row.dlen:4} {row.peer:11} {row.multiply_adds / 1e6:8.2f} {row.instructions / 1e6:9.2f} {row.vector_share:6.1%} "
        f"{row.cycles / 1e6:9.3f} {row.other_cycles / 1e6:8.3f} {row.per_cycle:10.2f} {row.share_of_peak:7.1%} "
        f"{row.peak_bytes / 1e6:8.2f} {row.file_bytes / 1e6:8.2f}"
    )


def show_kernels(name, machine, number):
    """Prints where one network's or layer's cycles go."""
    with tempfile.TemporaryDirectory(prefix="tc-riscv-") as folder:
        module, executable, arguments, _ = tc_program(name, machine, Path(folder))
        run = machine.measure(executable, arguments, profile=True)
        ranges = kernel_ranges(executable)
        if number is not None:
            print("\n".join(listing(executable, *ranges[number], run)))
            return
        print(f"{run.cycles / 1e6:.2f} M cycles, {run.total / 1e6:.2f} M instructions in one run")
        work, calls = {}, {}
        for report in module.kernels:
            work[report["kernel"]] = work.get(report["kernel"], 0) + report["multiply_adds"]
            calls.setdefault(report["kernel"], []).append(report["label"])
        rows = [(*run.within(*ranges[kernel]), kernel) for kernel in work]
        print(
            f"{'kernel':>6} {'calls':>5} {'M macs':>8} {'M instr':>8} {'M cycles':>9} {'macs/cycle':>10} {'lost':>7}  label"
        )
        for instructions, cycles, kernel in sorted(
            rows, key=lambda row: -(row[1] - work[row[2]] / machine.peak)
        ):
            print(
                f"{kernel:6} {len(calls[kernel]):5} {work[kernel] / 1e6:8.2f} {instructions / 1e6:8.2f} {cycles / 1e6:9.3f} "
                f"{work[kernel] / max(cycles, 1):10.2f} {(cycles - work[kernel] / machine.peak) / 1e6:7.2f}  {calls[kernel][0]}"
            )


def names_of(wanted):
    """Names of the zoo and of layers; a beginning stands for all layers that begin so."""
    if not wanted:
        return [*LAYERS, *NETWORKS]
    names = []
    for each in wanted:
        found = [name for name in KNOWN if name.startswith(each)] or [
            each for name in zoo.NETWORKS if name == network_of(each)
        ]
        if not found:
            sys.exit(
                f"'{each}' is no network of the zoo, and no layer's name begins so; layers are: {', '.join(KNOWN)}"
            )
        names += found
    return list(dict.fromkeys(names))


def work_of(options, scratch):
    """(name, machine, who stands beside tc) of each comparison, in the order of the table."""
    if options.full:
        own = (options.names, options.dlen, options.vlen, options.target, options.kernels)
        if any(own) or options.cpu != "generic" or options.peers != PEERS:
            sys.exit(
                "--full has names, a core, datapaths and peers of its own: leave those options out"
            )
    machines = [
        Machine(options, dlen, scratch)
        for dlen in (riscv_goals.DATAPATHS if options.full else options.dlen or [None])
    ]
    if not options.full:
        return [
            (name, machine, options.peers.split(","))
            for machine in machines
            for name in names_of(options.names)
        ]
    layers = [(name, machine, ["xnnpack"]) for machine in machines for name in LAYERS]
    return layers + [(name, machines[0], ["onnxruntime"]) for name in riscv_goals.NETWORKS]


def compared(work, peers, jobs):
    """Rows of all comparisons in their order; printed as they come, `jobs` of them at a time."""
    if peers.folder:  # Before processes part, so that each program is compiled once.
        wanted = {peer for _, _, each in work for peer in each}
        for peer in wanted & {"xnnpack", "onnxruntime"}:
            getattr(peers, peer)()
    # What takes longest begins first, so that no worker is left alone with it: networks, large
    # before small.
    size = lambda at: (
        0 if work[at][0] in LAYERS else zoo.NETWORKS[network_of(work[at][0])].multiply_adds
    )
    order = range(len(work)) if jobs == 1 else sorted(range(len(work)), key=size, reverse=True)
    found = {}
    with ProcessPoolExecutor(jobs) as pool:
        running = {
            pool.submit(rows_of, work[at][0], work[at][1], peers, work[at][2]): at for at in order
        }
        try:
            for done in as_completed(running):
                found[running[done]] = done.result()
                for row in done.result():
                    print(line(row), flush=True)
        except BaseException:  # Without this the pool would first run all that still waits.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [row for at in range(len(work)) for row in found[at]]


def widths_of(text):
    """Bits of datapaths, by commas."""
    return [int(each) for each in text.split(",")]


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.riscv", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "names",
        nargs="*",
        help="networks of the zoo (with ':int8' behind it, as ONNX Runtime quantises it), beginnings of layers' names",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="all layers on two datapaths and nine networks, held to riscv_goals.py",
    )
    parser.add_argument(
        "--cpu", choices=cores(), default="generic", help="the core that is modelled (generic)"
    )
    parser.add_argument(
        "--target",
        help="what is compiled for (that core; for the generic one rv64gcv with its vectors' length)",
    )
    parser.add_argument(
        "--vlen", type=int, help="bits of a vector register (the core's; 256 of the generic one)"
    )
    parser.add_argument(
        "--dlen",
        type=widths_of,
        help="bits of the model's datapath (the core's; 128 of the generic one), several by commas",
    )
    parser.add_argument(
        "--peers", default=PEERS, help="who stands beside tc, by commas; none: tc alone"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="comparisons at a time: cycles do not depend on load (1)",
    )
    parser.add_argument("--json", help="a file for the rows")
    parser.add_argument("--plot", help="a picture of the ratios (.svg, .png; needs matplotlib)")
    parser.add_argument("--kernels", action="store_true", help="where the cycles of each name go")
    parser.add_argument(
        "--listing", type=int, help="with --kernels: the instructions of this kernel"
    )
    options = parser.parse_args()
    if qemu_path() is None:
        sys.exit("qemu-riscv64 is not installed: apt install qemu-user")
    if options.plot:
        import matplotlib  # noqa: F401  Missing: better told now than after an hour.
    with tempfile.TemporaryDirectory(prefix="tc-riscv-") as scratch:
        work = work_of(options, scratch)
        if options.kernels:
            for name, machine, _ in work:
                print(f"== {name}, DLEN {machine.dlen}")
                show_kernels(name, machine, options.listing)
            return 0
        peers = Peers(scratch)
        if options.full and peers.folder is None:
            sys.exit("--full needs the packages of XNNPACK and ONNX Runtime for riscv64")
        print(HEADER, flush=True)
        rows = [asdict(row) for row in compared(work, peers, options.jobs)]
    machine = work[0][1]
    if options.json:
        Path(options.json).write_text(
            json.dumps({"cpu": machine.core, "vlen": machine.vlen, "rows": rows}, indent=1) + "\n"
        )
    if options.plot:
        riscv_goals.draw(rows, options.plot)
    told = [*riscv_goals.absent(rows), *riscv_goals.missed(rows)] if options.full else []
    for each in told:
        print(each)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
