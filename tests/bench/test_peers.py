"""The comparison with other runtimes measures, reports what is missing or wrong, and judges."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import zoo
from tests.bench import peers, unseen

ROOT = Path(__file__).resolve().parent.parent.parent


def test_measures_onnx_runtime():
    results = peers.compare(zoo.export("nsnet2_step"), ["onnxruntime"], 1, 2, 0.01)["onnxruntime"]
    assert results["error"] < 1e-4
    assert 0 < results["best_ms"] <= results["median_ms"]
    assert results["runs"] >= 4
    assert results["peak_megabytes"] > 20


def test_reports_a_peer_that_fails(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    source = zoo.export("nsnet2_step").with_suffix(".ref.npz")
    (tmp_path / "broken.ref.npz").write_bytes(source.read_bytes())
    result = peers.compare(tmp_path / "broken.onnx", ["onnxruntime"], 1, 1, 0.01)["onnxruntime"]
    assert "INVALID_PROTOBUF" in result["failed"]


def test_reports_a_process_that_dies():
    worker = peers.Worker("onnxruntime", zoo.export("nsnet2_step"), 1)
    assert worker.works
    worker.process.kill()
    worker.process.wait()
    worker.measure(0.01)
    worker.close()
    assert worker.state == {"failed": "ended by SIGKILL: no message"}


def test_gives_up_a_peer_that_takes_too_long():
    result = peers.compare(zoo.export("nsnet2_step"), ["onnxruntime"], 1, 1, 0.01, patience=0.01)
    assert result == {"onnxruntime": {"failed": "no answer within 0 s"}}


def test_reports_a_peer_that_is_missing(tmp_path, monkeypatch):
    (tmp_path / "onnxruntime.py").write_text("import a_part_that_nobody_has\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = peers.compare(zoo.export("nsnet2_step"), ["onnxruntime"], 1, 1, 0.01)["onnxruntime"]
    assert result == {"missing": "No module named 'a_part_that_nobody_has'"}


PROBE = """
import ctypes, mmap, sys
# mov eax, edi; mov ecx, 0; push rbx; INSTRUCTION; mov eax, REGISTER; pop rbx; ret
def cpuid(leaf, register):
    move = {"a": b"\\x89\\xc0", "b": b"\\x89\\xd8", "d": b"\\x89\\xd0"}[register]
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\\x89\\xf8\\xb9\\0\\0\\0\\0\\x53" + bytes.fromhex(sys.argv[1]) + move + b"\\x5b\\xc3")
    function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(
        ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return function(leaf)
b, d = cpuid(7, "b"), cpuid(7, "d")
print(b >> 5 & 1, b >> 16 & 1, d >> 24 & 1, cpuid(0x1d, "a"))
"""
of_x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="CPUID is of x86-64")


def probe(change: str | None, instruction: bytes) -> subprocess.CompletedProcess:
    """A process that asks with that instruction, with cpuid.c or without."""
    environment = dict(os.environ)
    if change:
        environment |= {"LD_PRELOAD": peers.cpuid_library(), "TC_PEER_CPUID": change}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, instruction.hex()],
        env=environment,
        capture_output=True,
        text=True,
    )
    if "CPUID cannot be answered here" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done


def processor(change: str | None, instruction: bytes = peers.CPUID_CODE) -> list[int]:
    """What CPUID tells a process of AVX2, AVX-512, AMX and its palettes."""
    done = probe(change, instruction)
    assert done.returncode == 0, done.stderr
    return list(map(int, done.stdout.split()))


@of_x86
@pytest.mark.parametrize(
    "change, instruction", [("avx2", peers.CPUID_CODE), ("avx2-patched", peers.UNDEFINED_CODE)]
)
def test_peers_can_be_held_to_avx2(change, instruction):
    avx2 = processor(None)[0]
    assert processor(change, instruction)[:3] == [avx2, 0, 0]


@of_x86
def test_peers_can_be_told_of_tiles():
    avx2, avx512, amx, palettes = processor(None)
    assert processor("amx") == [avx2, avx512, amx, palettes if not amx else 1]


@of_x86
@pytest.mark.parametrize(
    "change, instruction",
    [(None, peers.UNDEFINED_CODE), ("avx2-patched", bytes.fromhex("0f0b"))],
    ids=["alone", "other"],
)
def test_other_illegal_instructions_end_a_process(change, instruction):
    assert probe(change, instruction).returncode == -signal.SIGILL


LIBRARY = """
#include <cpuid.h>
static unsigned a, features, c, d;
__attribute__((constructor)) static void choose(void) { __cpuid_count(7, 0, a, features, c, d); }
unsigned avx512(void) { return features >> 16 & 1; }
unsigned constant(void) { return 0xa20f; }
"""
PACKAGE = """
import ctypes, pathlib
for folder in "held", "held.libs":
    library = ctypes.CDLL(pathlib.Path(__file__).parent.parent / folder / "library.so.1")
    print(library.avx512(), library.constant())
"""


@of_x86
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
def test_copies_stand_in_where_the_processor_cannot_fault(tmp_path, monkeypatch):
    for folder in "held", "held.libs":
        (tmp_path / folder).mkdir()
        subprocess.run(
            [
                os.environ.get("CC", "cc"),
                "-O2",
                "-shared",
                "-fPIC",
                "-xc",
                "-",
                "-o",
                tmp_path / folder / "library.so.1",
            ],
            input=LIBRARY,
            text=True,
            check=True,
        )
    (tmp_path / "held" / "__init__.py").write_text(PACKAGE)
    before = (tmp_path / "held" / "library.so.1").read_bytes()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(peers, "can_fault_on_cpuid", lambda: False)
    environment = os.environ | peers.cpuid_environment("avx2", "held")
    done = subprocess.run(
        [sys.executable, "-c", "import held"], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["0", str(0xA20F)] * 2, done.stderr
    assert (tmp_path / "held" / "library.so.1").read_bytes() == before


def test_ratio_is_of_the_best_peer():
    results = {
        "onnxruntime": {"best_ms": 3.0, "error": 1e-6},
        "openvino": {"best_ms": 2.0, "error": 1e-6},
        "iree": {"best_ms": 1.0, "error": 0.5},
        "openvino-default": {"best_ms": 1.0, "error": 0.08},
        "onnxruntime-avx2": {"best_ms": 9.0, "error": 1e-6},
        "tc": {"best_ms": 4.0},
        "tc-loose": {"best_ms": 0.5},
        "tc-avx2": {"best_ms": 6.0},
    }
    assert peers.ratio(results) == 0.5
    assert peers.best_peer(results) == "openvino"  # What is wrong does not count.
    assert peers.ratio(results, "tc-loose") == 2.0
    assert peers.ratio(results, "tc-avx2") == 1.5
    assert set(peers.ratios(results)) == {"tc", "tc-loose", "tc-avx2"}
    assert peers.ratio({"onnxruntime": results["onnxruntime"], "tc": {"missing": "tc"}}) is None
    assert peers.geometric_mean([0.5, 2.0]) == pytest.approx(1)


def row(ratio, variant="tc", threads=1, network="n", **own):
    return {
        "network": network,
        "threads": threads,
        "peers": {variant: own},
        "ratios": {variant: {"best": ratio}},
    }


def test_means():
    table = [
        row(0.5, network="a"),
        row(2.0, network="b"),
        row(None, network="c"),
        row(3.0, threads=2, network="a"),
        row(5.0, "tc-loose", 2, "a"),
    ]
    assert [
        (
            mean["threads"],
            mean["variant"],
            mean["networks"],
            mean["mean"],
            mean["least"],
            mean["least_network"],
        )
        for mean in peers.means(table)
    ] == [
        (1, "tc", 2, pytest.approx(1.0), 0.5, "a"),
        (2, "tc", 1, pytest.approx(3.0), 3.0, "a"),
        (2, "tc-loose", 1, pytest.approx(5.0), 5.0, "a"),
    ]


def test_judges():
    good = [row(0.5, error=1e-6), row(2.0, error=1e-6)]
    assert peers.complaints(good, ["tc"], 0.99, 0.4) == []
    assert peers.complaints(good, ["tc"], 1.1, 0.4) == [
        "the geometric mean of tc on 1 is below 1.1"
    ]
    assert peers.complaints(good, ["tc"], 0, 0.6) == ["n on 1: best peer / tc is 0.5, below 0.6"]
    assert peers.complaints([row(1.0, error=2e-4)], ["tc"], 0, 0) == [
        "n on 1: tc is wrong by 2.0e-04 of the largest output"
    ]
    assert peers.complaints([row(1.0, "tc-loose", error=2e-4)], ["tc-loose"], 0, 0) == []
    assert peers.complaints([row(1.0, "tc-loose", error=float("inf"))], ["tc-loose"], 0, 0) == [
        "n on 1: tc-loose is wrong by inf of the largest output"
    ]
    assert peers.complaints([row(None, failed="why")], ["tc"], 0, 0) == ["n on 1: tc failed: why"]
    assert len(peers.complaints([row(None, missing="tc")], ["tc"], 0.7, 0.35)) == 2


def test_named_lists():
    assert set(peers.ZOOS["issue5"]) < set(zoo.NETWORKS) and len(peers.ZOOS["issue5"]) == 13
    assert not set(unseen.NETWORKS) & set(zoo.NETWORKS)
    judged = {peer for against, _ in peers.AGAINST.values() for peer in against}
    assert judged | set(peers.AGAINST) == set(peers.ALL_PEERS)


def peers_program(tmp_path, *arguments):
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.bench.peers",
            "--json",
            str(tmp_path / "peers.json"),
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    return result, json.loads((tmp_path / "peers.json").read_text())


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2])
def test_is_fast_untuned(threads, tmp_path):
    """Best peer / tc over the zoo: a geometric mean of 0.7, no network below 0.35."""
    pytest.importorskip("openvino")
    result, found = peers_program(
        tmp_path, "--threads", str(threads), "--least-mean", "0.7", "--least", "0.35"
    )
    assert len(found["rows"]) == len(zoo.NETWORKS), result.stdout + result.stderr
    assert result.returncode == 0, result.stdout


@pytest.mark.full
def test_every_peer_runs_or_says_why_not(tmp_path):
    """All of them on a small network, and the picture of it."""
    picture = tmp_path / "peers.svg"
    plot = ["--plot", str(picture)] if has_matplotlib() else []
    result, found = peers_program(
        tmp_path,
        "nsnet2_step",
        "--peers",
        "all",
        "--threads",
        "1",
        "--rounds",
        "2",
        "--seconds",
        "0.1",
        *plot,
    )
    (measured,) = (row["peers"] for row in found["rows"])
    assert set(measured) == set(peers.ALL_PEERS)
    for peer, state in measured.items():
        if "missing" not in state and "cannot be answered here" not in state.get("failed", ""):
            assert state["error"] < (0.1 if peer == "openvino-default" else 1e-4), (peer, state)
    assert not plot or picture.stat().st_size > 1000


def has_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", unseen.NETWORKS)
def test_networks_not_seen_before_agree_with_float64(name, threads):
    import tc

    inputs, expected = unseen.reference(name)
    for tolerance in (0, 1e-4):
        actual = tc.compile(str(unseen.export(name)), threads=threads, tolerance=tolerance).run(
            inputs
        )
        for output in expected:
            assert zoo.agrees(actual[output], expected[output]), (
                tolerance,
                zoo.distance(actual[output], expected[output]),
            )


@pytest.mark.full
@pytest.mark.parametrize("name", unseen.NETWORKS)
def test_networks_not_seen_before_are_the_published_ones(name):
    from tests.zoo import count

    network = unseen.NETWORKS[name]
    with unseen.known():
        shapes = zoo.shapes(name)
        assert zoo.parameters(name) == network.parameters
        assert count.multiply_adds(zoo.outline(name), shapes) == network.multiply_adds
    for exact, published in zip((network.parameters, network.multiply_adds), network.published):
        assert exact == pytest.approx(published, rel=network.tolerance)
