"""One engine, one language model, one process: loads, then generates on request.

Called by language.py with ENGINE MODEL THREADS CONTEXT. Speaks one JSON object a line: first
`{"build_seconds", "load_seconds", "peak_megabytes"}` (or "missing", or "failed"), then, for each
line `{"prompt": [token, ...], "tokens": COUNT}` read, the greedy answer to it: `{"prefill_seconds",
"decode_seconds", "answer", "peak_megabytes"}`. The time of decoding is that of the COUNT - 1 passes
behind the prompt's, whose logits choose the first token. The answer is a list of tokens or a text,
as the engine gives it. No engine ends an answer by itself.
"""

import json
import os
import sys
import time

from tests.bench.peer_worker import peak_megabytes


class Tc:
    """This project. Building is the compilation of both entries, loading all else."""

    package = "tc"
    options = {}

    def __init__(self, model, threads, context):
        from tc.language.generating import language_for
        from tc.language.session import Session

        self._session = Session(language_for(model, threads, **self.options))
        begin = time.perf_counter()
        self._session.prepare(2, 2)
        self.build_seconds = time.perf_counter() - begin

    def generate(self, prompt, count):
        self._session.reset()
        tokens, begin = [], time.perf_counter()
        tokens.append(int(self._session.prefill(prompt).argmax()))
        middle = time.perf_counter()
        while len(tokens) < count:
            tokens.append(int(self._session.decode(tokens[-1]).argmax()))
        return middle - begin, time.perf_counter() - middle, tokens


class TcOf8Bits(Tc):
    """The same with a tolerance at which packed weights are multiplied by numbers of 8 bits, as the
    other engines do."""

    options = {"tolerance": 0.12}


class LlamaCpp:
    """llama.cpp as the package xllamacpp has it, by the times that it tells itself."""

    package = "xllamacpp"

    def __init__(self, model, threads, context):
        import xllamacpp

        options = xllamacpp.CommonParams()
        options.model.path, options.n_ctx, options.n_parallel = model, context, 1
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
        options.warmup = False
        self._server = xllamacpp.Server(options)

    def generate(self, prompt, count):
        answer = self._server.handle_completions(
            {
                "prompt": prompt,
                "max_tokens": count,
                "temperature": 0.0,
                "cache_prompt": False,
                "ignore_eos": True,
            }
        )
        answer = answer[-1] if isinstance(answer, list) else answer
        if "timings" not in answer:
            raise RuntimeError(str(answer)[:300])
        times = answer["timings"]
        if times["prompt_n"] != len(prompt) or times["predicted_n"] != count:
            raise RuntimeError(
                f"it read {times['prompt_n']} tokens and gave {times['predicted_n']}"
            )
        return (
            1e-3 * times["prompt_ms"],
            1e-3 * times["predicted_ms"],
            answer["choices"][0]["text"],
        )


class OnnxRuntimeGenAi:
    """A folder that its builder wrote."""

    package = "onnxruntime_genai"

    def __init__(self, model, threads, context):
        import onnxruntime_genai as genai

        self._genai, self._context = genai, context
        configuration = genai.Config(model)
        configuration.overlay(
            json.dumps(
                {
                    "model": {
                        "decoder": {
                            "session_options": {
                                "intra_op_num_threads": threads,
                                "inter_op_num_threads": 1,
                            }
                        }
                    }
                }
            )
        )
        self._model = genai.Model(configuration)

    def generate(self, prompt, count):
        import numpy

        options = self._genai.GeneratorParams(self._model)
        length = len(prompt) + count
        options.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator = self._genai.Generator(self._model, options)
        begin = time.perf_counter()
        generator.append_tokens(numpy.array(prompt, numpy.int32))
        generator.generate_next_token()
        middle = time.perf_counter()
        for _ in range(count - 1):
            generator.generate_next_token()
        end = time.perf_counter()
        return (
            middle - begin,
            end - middle,
            [int(token) for token in generator.get_sequence(0)[len(prompt) :]],
        )


class OpenVinoGenAi:
    """A .gguf file, or a folder of optimum-intel, by the times that it tells itself."""

    package = "openvino_genai"

    def __init__(self, model, threads, context):
        import openvino_genai

        self._genai = openvino_genai
        self._pipe = openvino_genai.LLMPipeline(
            model, "CPU", INFERENCE_NUM_THREADS=threads, ATTENTION_BACKEND="SDPA"
        )

    def generate(self, prompt, count):
        import numpy
        import openvino

        options = self._genai.GenerationConfig()
        options.max_new_tokens = options.min_new_tokens = count
        options.do_sample, options.ignore_eos = False, True
        answer = self._pipe.generate(openvino.Tensor(numpy.array([prompt], numpy.int64)), options)
        first = 1e-3 * answer.perf_metrics.get_ttft().mean
        whole = 1e-3 * answer.perf_metrics.get_generate_duration().mean
        return first, whole - first, [int(token) for token in answer.tokens[0]]


class Bandwidth:
    """No engine: what the machine's threads read a second, of memory that no cache holds."""

    package = "tc"

    def __init__(self, model, threads, context):
        from tc import profile

        profile._limits.clear()
        self.read = profile.limits(threads=threads)["bandwidths"][-1]["read_bytes_per_second"]


ENGINES = {
    "tc": Tc,
    "tc-8bit": TcOf8Bits,
    "llama.cpp": LlamaCpp,
    "onnxruntime-genai": OnnxRuntimeGenAi,
    "openvino-genai": OpenVinoGenAi,
    "bandwidth": Bandwidth,
}


def main():
    name, model, threads, context = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print must not mix with the answers.

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    try:
        __import__(ENGINES[name].package)
        begin = time.perf_counter()
        engine = ENGINES[name](model, int(threads), int(context))
    except ImportError as error:
        return answer({"missing": str(error)})
    except Exception as error:
        return answer({"failed": f"{type(error).__name__}: {error}"})
    built = getattr(engine, "build_seconds", 0.0)
    answer(
        {
            "build_seconds": built,
            "load_seconds": time.perf_counter() - begin - built,
            "peak_megabytes": peak_megabytes(),
            "read": getattr(engine, "read", None),
        }
    )
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            prefill, decode, given = engine.generate(asked["prompt"], asked["tokens"])
            answer(
                {
                    "prefill_seconds": prefill,
                    "decode_seconds": decode,
                    "answer": given,
                    "peak_megabytes": peak_megabytes(),
                }
            )
        except Exception as error:
            return answer({"failed": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
