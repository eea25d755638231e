"""Models that run again and again on a microcontroller: instructions of a step, and the duty cycle.

`python -m tests.bench.streams [--target TARGET] [--clock MHZ] [--profile COUNT]`. The models are
the audio front end of TensorFlow Lite Micro's signal library alone (every 20 ms), the same with
MLPerf Tiny's streaming wake word behind it (every 20 ms), and silero_vad (every 32 ms). Each is
exported as kind `bare`, boots on an emulated board and takes STEPS steps; the emulator counts the
instructions of all but the first. The duty cycle is the share of the core's time, if it takes one
cycle for an instruction: instructions of a step times steps a second by the clock. Fails where a
step's result is not that of tc on this machine (of floats: within 1e-3).
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy
import tc

from tests.bench.microcontrollers import count, plugin, print_profile, program_of
from tests.frontend.stream_models import front_end_model, sounds, stream_model
from tests.runtime.bare_models import write_samples
from tests.support import models_folder, verdict

STEPS = 9
TARGETS = ["cortex-m4", "cortex-m55", "rv32imfc+zba,+zbb"]
PROGRAM = """
#include "board.h"
#include "model.h"
#include "samples.h"
static MODEL_OUTPUT_0_TYPE output[MODEL_OUTPUT_0_ELEMENTS];
__attribute__((noinline)) void measure_begin(void) { __asm__ volatile("nop"); }
__attribute__((noinline)) void measure_end(void) { __asm__ volatile("nop"); }
int example_main(void) {
  int status = model_reset(model_arena) | model_run(samples[0], output, model_arena);
  measure_begin();
  for (unsigned i = 1; i < SAMPLES; ++i) status |= model_run(samples[i], output, model_arena);
  measure_end();
  for (unsigned i = 0; i < sizeof output; ++i) {
    const unsigned byte = ((const unsigned char*)output)[i];
    const char text[3] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15], 0};
    board_write(text);
  }
  return status != MODEL_DONE;
}
"""


def models():
    """Rows of (name, model, samples, options, steps a second)."""
    wake_word = models_folder() / "mlperf_tiny" / "str_ww_ref_model.tflite"
    voice = models_folder() / "silero_vad" / "silero_vad_op18_ifless.onnx"
    draw = numpy.random.default_rng(0)
    noise = [(0.1 * draw.standard_normal((1, 576))).astype(numpy.float32) for _ in range(STEPS)]
    options = {"states": {"state": "stateN"}, "values": {"sr": numpy.array(16000, numpy.int64)}}
    options["shapes"] = {"input": (1, 576), "state": (2, 1, 128)}
    return [
        ("front end", front_end_model(), sounds(STEPS), {}, 50),
        ("wake word", stream_model(wake_word.read_bytes()), sounds(STEPS), {}, 50),
        ("silero_vad", voice, noise, options, 31.25),
    ]


def measure(target, row, folder, counting):
    """(executions by address, sizes, whether the last result is right, the program)."""
    _, model, samples, options, _ = row
    module = tc.compile(model, target=target, log=False, **options)
    sizes = module.export(folder / "model.o", kind="bare")
    write_samples(folder, samples)
    (folder / "main.c").write_text(PROGRAM)
    program = program_of(folder, target)
    counts, output = count(program, target, folder, counting)
    here = tc.compile(model, threads=1, log=False, **options)
    wanted = numpy.asarray([here(sample) for sample in samples][-1])
    found = numpy.frombuffer(output, wanted.dtype).reshape(wanted.shape)
    near = 0 if wanted.dtype != numpy.float32 else 1e-3
    return counts, sizes, numpy.allclose(found, wanted, atol=near, rtol=0), program


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--clock", type=float, default=100, metavar="MHZ")
    parser.add_argument("--profile", type=int, default=0, metavar="COUNT")
    given = parser.parse_args(arguments)
    print(
        f"{'':12} {'target':18} {'a step':>12} {'steps/s':>8} {'duty':>7} {'flash':>9} {'RAM':>8} {'stack':>6}"
    )
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        counting = plugin(Path(place))
        for target in given.target or TARGETS:
            for number, row in enumerate(models()):
                if row[0] == "silero_vad" and target == "cortex-m55":
                    continue  # its board has 512 KB for constants
                work = Path(place) / f"{len(target)}.{number}"
                work.mkdir()
                counts, sizes, is_right, program = measure(target, row, work, counting)
                if not is_right:
                    wrong.append(f"{row[0]} on {target}")
                step, rate = sum(counts.values()) / (STEPS - 1), row[4]
                print(
                    f"{row[0]:12} {target:18} {step:12,.0f} {rate:8} {step * rate / given.clock / 1e6:7.2%}"
                    f" {sizes['constants'] + sizes['code']:9,} {sizes['arena'] + sizes['zeros']:8,} {sizes['stack']:6,}",
                    flush=True,
                )
                if given.profile:
                    print_profile(program, counts, given.profile)
    return verdict(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
