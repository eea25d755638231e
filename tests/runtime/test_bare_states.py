"""Models that keep something from one run to the next, as artefacts without a runtime: it is in the
arena, and a function gives it its first value."""

import ctypes

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import ROOT, models_folder
from .bare_models import BARE, MACHINES, defined_globals, link, run_as_process, write_samples
from .c_models import CModel, compiler_of
from .cortex_m import boot, link_for_board
from .test_bare_boot import boot as boot_virt

# Runs the samples as a stream, twice from the beginning. The function's other results are those of
# a run.
STREAM = """
#include "board.h"
#include "model.h"
#include "samples.h"
static MODEL_OUTPUT_0_TYPE output[MODEL_OUTPUT_0_ELEMENTS];
static void write_output(void) {
  for (unsigned i = 0; i < sizeof output; ++i) {
    const unsigned byte = ((const unsigned char*)output)[i];
    const char text[3] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15], 0};
    board_write(text);
  }
  board_write("\\n");
}
int example_main(void) {
  if (model_reset(0) != MODEL_NULL || model_reset(model_arena + 1) != MODEL_MISALIGNED) return 1;
  for (unsigned round = 0; round < 2; ++round) {
    if (model_reset(model_arena) != MODEL_DONE) return 1;
    for (unsigned i = 0; i < SAMPLES; ++i) {
      if (model_run(samples[i], output, model_arena) != MODEL_DONE) return 1;
      write_output();
    }
  }
  return 0;
}
"""


def streamed(folder, target, module, samples, on_board=False):
    """The outputs of a bare artefact of the module for a stream of samples."""
    module.export(folder / "model.o", kind="bare")
    write_samples(folder, samples)
    (folder / "stream.c").write_text(STREAM)
    if not on_board:
        board = [ROOT / "tests/runtime/bare_linux.c"]
        output = run_as_process(link(folder, target, [folder / "stream.c", *board]), target)
    else:
        if target.startswith("rv"):
            board = [BARE / "virt_riscv64.S", BARE / "virt_riscv64.c"]
            script = ("-T", BARE / "virt_riscv64.ld")
            program = link(folder, target, [folder / "stream.c", *board], *script)
            code, output = boot_virt(program, target)
        else:
            code, output = boot(link_for_board(folder, target, [folder / "stream.c"]), target)
        assert code == 0, output
    port = module.outputs[0]
    return [
        numpy.frombuffer(bytes.fromhex(line), port.dtype).reshape(port.shape)
        for line in output.split()
    ]


def run_here(model, samples, **options):
    module = tc.compile(model, threads=1, log=False, **options)
    return [module(sample) for sample in samples]


def running_sum():
    pytest.importorskip("tflite")
    from ..frontend.test_tflite_variables import running_sum as model

    draw = numpy.random.default_rng(0)
    return model(), [draw.standard_normal((1, 3)).astype(numpy.float32) for _ in range(6)]


@pytest.mark.parametrize("target", MACHINES)
def test_a_sum_that_goes_on(target, tmp_path):
    model, samples = running_sum()
    module = tc.compile(model, target=target, threads=1, log=False)
    found = streamed(tmp_path, target, module, samples)
    wanted = numpy.array([[1, 2, 3]]) + numpy.cumsum(samples, 0)
    assert len(found) == 12
    numpy.testing.assert_allclose(found[:6], wanted, rtol=1e-5)
    numpy.testing.assert_array_equal(found[6:], found[:6])
    assert defined_globals(tmp_path / "model.o") == [
        "model_arena",
        "model_reset",
        "model_run",
        "model_weights",
    ]


def test_the_header_tells_what_is_kept(tmp_path):
    model, _ = running_sum()
    tc.compile(model, target="cortex-m4", log=False).export(tmp_path / "sum.o", kind="bare")
    header = (tmp_path / "sum.h").read_text()
    assert (
        "It allocates nothing, keeps 'sum'\n * in the arena from run to run: call sum_reset before"
        in header
    )
    assert "int sum_run(const float* input_x, float* output_after, void* arena);" in header
    assert "int sum_reset(void* arena);" in header and "SUM_INPUT_1" not in header
    other = tc.compile(crossed(), target="cortex-m4", log=False)
    other.export(tmp_path / "other.o", kind="bare")
    header = (tmp_path / "other.h").read_text()
    assert "keeps nothing between runs" in header and "reset" not in header
    assert "OTHER_INPUT_2_ELEMENTS" in header


def crossed():
    """Two states, each of which becomes the other one, and a third that is kept as it is; the
    output is a sum. No order of steps gives each output the memory of its input."""
    ports = lambda names: [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names
    ]
    nodes = [
        helper.make_node("Add", ["x", "a"], ["t"]),
        helper.make_node("Add", ["t", "c"], ["y"]),
        helper.make_node("Mul", ["b", "half"], ["a2"]),
        helper.make_node("Add", ["a", "x"], ["b2"]),
        helper.make_node("Identity", ["c"], ["c2"]),
    ]
    half = numpy_helper.from_array(numpy.float32(0.5), "half")
    graph = helper.make_graph(
        nodes, "g", ports(["x", "a", "b", "c"]), ports(["y", "a2", "b2", "c2"]), [half]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


STATES = {"a": "a2", "b": "b2", "c": "c2"}


def crossed_results(samples):
    a, b, results = numpy.zeros(4, numpy.float32), numpy.zeros(4, numpy.float32), []
    for x in samples:
        results.append(x + a)
        a, b = numpy.float32(0.5) * b, a + x
    return results


def test_states_of_an_onnx_file():
    samples = [
        numpy.random.default_rng(n).standard_normal(4).astype(numpy.float32) for n in range(5)
    ]
    module = tc.compile(crossed(), states=STATES, log=False)
    assert [port.name for port in module.inputs] == ["x"] and sorted(module.state) == [
        "a",
        "b",
        "c",
    ]
    numpy.testing.assert_allclose(
        [module(sample) for sample in samples], crossed_results(samples), rtol=1e-6
    )
    module.reset_state()
    numpy.testing.assert_array_equal(module(samples[0]), samples[0])


@pytest.mark.parametrize("target", ["rv32imfc", "cortex-m4"])
def test_states_that_change_places(target, tmp_path):
    samples = [
        numpy.random.default_rng(n).standard_normal(4).astype(numpy.float32) for n in range(5)
    ]
    module = tc.compile(crossed(), target=target, states=STATES, log=False)
    found = streamed(tmp_path, target, module, samples)
    numpy.testing.assert_allclose(found[:5], crossed_results(samples), rtol=1e-6)
    numpy.testing.assert_array_equal(found[5:], found[:5])


@pytest.mark.parametrize(
    "states, text",
    [
        ({"d": "a2"}, "states: model 'g' has no input 'd'; it has x, a, b, c"),
        ({"a": "d"}, "states: model 'g' has no output 'd'; it has y, a2, b2, c2"),
        ({"a": "a2", "b": "a2"}, "states: 'b' or 'a2' is given twice"),
        (["a"], "states is ['a']; give a dictionary: {'state': 'stateN'}"),
    ],
)
def test_what_is_no_state(states, text):
    with pytest.raises(tc.Error) as raised:
        tc.compile(crossed(), states=states, log=False)
    assert str(raised.value) == text


def test_a_state_has_one_shape():
    model = crossed()
    model.graph.output.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [1]))
    model.graph.node.append(helper.make_node("ReduceSum", ["t"], ["s"], keepdims=1))
    with pytest.raises(tc.Error) as raised:
        tc.compile(model, states={"a": "s"}, log=False)
    assert str(raised.value) == (
        "states: output 's' of model 'g' is f32[1], and input 'a' f32[4]; a state has one type and shape"
    )


def test_states_on_the_command_line(tmp_path):
    from tc.cli import main

    (tmp_path / "m.onnx").write_bytes(crossed().SerializeToString())
    compile_it = ["compile", str(tmp_path / "m.onnx"), "--target", "cortex-m4", "--kind", "bare"]
    compile_it += ["-o", str(tmp_path / "m.o")]
    assert main([*compile_it, "--state", "a=a2", "--state", "b=b2"]) == 0
    header = (tmp_path / "m.h").read_text()
    assert (
        "int m_run(const float* input_x, const float* input_c, float* output_y, float* output_c2, void* arena);"
        in header
    )


def test_a_state_without_an_output(tmp_path, capsys):
    from tc.cli import main

    (tmp_path / "m.onnx").write_bytes(crossed().SerializeToString())
    assert main(["compile", str(tmp_path / "m.onnx"), "--state", "a"]) != 0
    assert "--state takes INPUT=OUTPUT, not 'a'" in capsys.readouterr().err


@pytest.mark.parametrize("compiler", ["gcc", "loops"])
def test_c_source_keeps_states(compiler, tmp_path):
    model, samples = running_sum()
    tc.compile(model, threads=1, log=False).export(tmp_path / "sum.c", kind="c")
    kept = CModel(tmp_path / "sum.c", compiler_of(compiler))
    reset = lambda: kept.library.sum_reset(kept.arena.ctypes.data_as(ctypes.c_void_p))
    wanted = numpy.array([[1, 2, 3]]) + numpy.cumsum(samples, 0)
    assert kept.library.sum_reset(None) == 1
    for _ in range(2):
        assert reset() == 0
        for sample, total in zip(samples, wanted):
            (found,) = kept.run([sample], [numpy.zeros((1, 3), numpy.float32)])
            numpy.testing.assert_allclose(found, total, rtol=1e-5)


def wake_word():
    pytest.importorskip("tflite")
    from ..frontend.stream_models import sounds, stream_model

    path = models_folder() / "mlperf_tiny" / "str_ww_ref_model.tflite"
    return stream_model(path.read_bytes()), sounds(50)


@pytest.mark.parametrize("target", ["cortex-m4", "rv32imfc"])
def test_a_wake_word_boots_and_runs_fifty_steps(target, tmp_path):
    """Samples of 20 ms in, classes out: front end, features of the last frames, network."""
    model, samples = wake_word()
    module = tc.compile(model, target=target, log=False)
    found = streamed(tmp_path, target, module, samples, on_board=True)
    numpy.testing.assert_array_equal(found[:50], run_here(model, samples))
    numpy.testing.assert_array_equal(found[50:], found[:50])
    assert len({each.tobytes() for each in found}) > 1


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "rv32imfc+zba,+zbb"])
def test_the_front_end_on_boards(target, tmp_path):
    pytest.importorskip("tflite")
    from ..frontend.stream_models import front_end_model, sounds

    model, samples = front_end_model(), sounds(20)
    module = tc.compile(model, target=target, log=False)
    target = target.partition("+")[0]
    found = streamed(tmp_path, target, module, samples, on_board=True)
    numpy.testing.assert_array_equal(found[:20], run_here(model, samples))
    numpy.testing.assert_array_equal(found[20:], found[:20])


@pytest.mark.parametrize("target", ["cortex-m4", "rv32imfc"])
def test_a_detector_of_voice(target, tmp_path):
    """silero_vad, an LSTM whose state is an input and an output of the file; 20 steps of 32 ms."""
    path = models_folder() / "silero_vad" / "silero_vad_op18_ifless.onnx"
    options = {"states": {"state": "stateN"}, "values": {"sr": numpy.array(16000, numpy.int64)}}
    options["shapes"] = {"input": (1, 576), "state": (2, 1, 128)}
    draw = numpy.random.default_rng(0)
    samples = [(0.1 * draw.standard_normal((1, 576))).astype(numpy.float32) for _ in range(20)]
    module = tc.compile(path, target=target, log=False, **options)
    found = streamed(tmp_path, target, module, samples)
    numpy.testing.assert_allclose(found[:20], run_here(path, samples, **options), atol=1e-4)
    numpy.testing.assert_array_equal(found[20:], found[:20])
