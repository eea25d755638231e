"""The tables of errors and of executed instructions at each length of vectors: their rows, and that
what does not hold is told."""

import pytest

from tests import zoo
from tests.bench import riscv_errors, riscv_lengths
from tests.qemu import qemu_path

pytestmark = pytest.mark.skipif(qemu_path() is None, reason="qemu-riscv64 is not installed")


def row_of(text, name):
    return next(
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in text.splitlines()
        if line.startswith(f"| {name} |")
    )


def test_errors_of_a_file(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["riscv_errors", "mnist-8/model.onnx"])
    assert riscv_errors.main() == 0
    _, *errors, limit = row_of(capsys.readouterr().out, "mnist-8/model.onnx")
    assert (
        len(errors) == 6
        and all(0 < float(error) < 2e-6 for error in errors)
        and float(limit) == 1e-4
    )


def test_a_large_network_takes_five_runs(capsys, monkeypatch):
    runs = []
    targets = []
    run, build = riscv_errors.count_under_qemu, riscv_errors.executable_of
    monkeypatch.setattr(
        riscv_errors,
        "executable_of",
        lambda case, target, folder: targets.append(target) or build(case, target, folder),
    )
    monkeypatch.setattr(riscv_errors, "LARGE", ("mnist-8/model.onnx",))
    monkeypatch.setattr(
        riscv_errors,
        "count_under_qemu",
        lambda *given, **named: runs.append(named["vlen"]) or run(*given, **named),
    )
    monkeypatch.setattr("sys.argv", ["riscv_errors", "mnist-8/model.onnx"])
    assert riscv_errors.main() == 0
    _, *errors, limit = row_of(capsys.readouterr().out, "mnist-8/model.onnx")
    assert runs == [128, 256, 512, 1024, 512] and float(limit) == 1e-4
    assert (
        targets == ["rv64gcv+lengths", "rv64gcv"]
        and len(errors) == 6
        and all(0 < float(error) < 2e-6 for error in errors)
    )


def test_a_wrong_output_is_told(capsys, monkeypatch):
    case = riscv_errors.case_of("mnist-8/model.onnx")
    ((name, expected),) = case.expected.items()
    case.expected = {name: expected * 1.001}
    monkeypatch.setattr(riscv_errors, "case_of", lambda _: case)
    monkeypatch.setattr(riscv_errors, "TARGETS", {"128": ("rv64gcv", (128,))})
    monkeypatch.setattr("sys.argv", ["riscv_errors", "mnist-8/model.onnx"])
    assert riscv_errors.main() == 1
    assert capsys.readouterr().out.endswith("not so: mnist-8/model.onnx\n")


def test_a_wrong_output_of_a_further_input_is_told(capsys, monkeypatch):
    case = riscv_errors.case_of("mnist-8/model.onnx")
    case.others = [(case.inputs, {key: array * 1.001 for key, array in case.expected.items()})]
    monkeypatch.setattr(riscv_errors, "case_of", lambda _: case)
    monkeypatch.setattr(riscv_errors, "TARGETS", {"128": ("rv64gcv", (128,))})
    monkeypatch.setattr("sys.argv", ["riscv_errors", "mnist-8/model.onnx"])
    assert riscv_errors.main() == 1
    assert "| 1.0e-03 |" in capsys.readouterr().out


# ONNX Runtime errs by more each time, so that the last input gives the limit.
@pytest.mark.parametrize(
    "shares, limit",
    [((1.0001, 1.0002, 1.0003, 1.0004), 8e-4), ((1.01, 1.01, 1.01, 1.02), riscv_errors.MOST)],
)
def test_a_model_that_loses_digits_has_more_inputs(monkeypatch, shares, limit):
    assert not riscv_errors.case_of("mnist-8/model.onnx").others
    share = iter(shares)
    evaluate = riscv_errors.evaluate

    def wide(*arguments):
        found, is_wide = evaluate(*arguments)
        factor = next(share)
        return {key: array * factor for key, array in found.items()}, is_wide

    monkeypatch.setattr(riscv_errors, "evaluate", wide)
    case = riscv_errors.case_of("mnist-8/model.onnx")
    assert len(case.others) == riscv_errors.DRAWN and case.limit == pytest.approx(limit, rel=0.02)
    ((name, first),) = case.inputs.items()
    drawn = [inputs[name] for inputs, _ in case.others]
    assert all(
        array.shape == first.shape and first.min() <= array.min() and array.max() <= first.max()
        for array in drawn
    )
    assert not (drawn[0] == drawn[1]).all()


def test_instructions_of_a_network(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["riscv_lengths", "--lengths", "128,256", "nsnet2_step"])
    assert riscv_lengths.main() == 0
    _, short, long, ratio, vector, error, spills = row_of(capsys.readouterr().out, "nsnet2_step")
    assert float(long) < float(short) and not ratio
    # Each weight is used once, at most four registers of 8 lanes at a time.
    assert float(long) * 1e6 > zoo.NETWORKS["nsnet2_step"].multiply_adds / 32
    assert (
        99 <= float(vector.rstrip("%")) <= 100
        and 0 < float(error) <= 1e-4
        and len(spills.split(", ")) == 2
    )


def test_too_many_instructions_are_told(capsys, monkeypatch):
    monkeypatch.setattr(
        riscv_lengths,
        "run",
        lambda name, length, folder: ({256: 100, 512: 56}[length], 1.0, 1e-6, 0),
    )
    monkeypatch.setattr("sys.argv", ["riscv_lengths", "--lengths", "256,512", "nsnet2_step"])
    assert riscv_lengths.main() == 1
    assert "0.560" in (text := capsys.readouterr().out) and text.endswith("not so: nsnet2_step\n")


@pytest.mark.parametrize("bench", [riscv_errors, riscv_lengths])
def test_an_unknown_name(bench, monkeypatch):
    monkeypatch.setattr("sys.argv", ["bench", "lenet"])
    with pytest.raises(SystemExit, match="'lenet' is neither"):
        bench.main()
