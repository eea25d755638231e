"""Generating text with tc beside other engines, in one run on one machine.

`python -m tests.bench.language MODEL.gguf [--packages FOLDER]`. Every engine has a process of its
own; rounds go from engine to engine, so that a slow moment of the machine meets all of them. All
read the same tokens and generate greedily; `tc-8bit` is tc with a tolerance at which it multiplies
packed weights by numbers of 8 bits, as the others do. One line of JSON is printed for each engine,
number of threads and length of prompt, and a table at the end:

prefill, decode  tokens a second, of the fastest round; decode behind a prompt of that length
share            of the machine's read bandwidth, measured in the same run with as many threads,
                 that the weights of a .gguf file account for where each token reads them once; keys
                 and values, which others keep in other formats, are not counted
peak             resident memory of the process so far, which maps the file
alike            how many letters the answer begins with that tc's has too

An engine that is not installed, or fails, has its reason in place of numbers. Engines read the
.gguf file; --model ENGINE=PATH gives one what it reads instead (onnxruntime-genai a folder of its
builder, without which it is left out).
"""

import argparse
import collections
import contextlib
import json
import os
import sys
from pathlib import Path

from tests.bench.language_worker import ENGINES
from tests.bench.peers import PATIENCE_SECONDS, ROOT, Process, search_path

PEERS = tuple(name for name in ENGINES if name != "bandwidth")
TEXT = (
    "the steam engine was invented in the eighteenth century and changed the world because it made "
    "work possible where there was neither wind nor water. "
)


class Worker(Process):
    """An engine's process; `state` is what it said first, or why it ended."""

    def __init__(
        self,
        engine: str,
        model: str,
        threads: int,
        context: int,
        packages: Path | None,
        patience: float = PATIENCE_SECONDS,
    ):
        own = None if ENGINES[engine].package == "tc" else packages
        path = search_path(own, ROOT, os.environ.get("PYTHONPATH"))
        super().__init__(
            ["tests.bench.language_worker", engine, model, str(threads), str(context)],
            {**os.environ, "PYTHONPATH": path, "TC_LOG": ""},
            patience,
        )
        self.state = self.answer()
        self.runs: dict[int, list[dict]] = collections.defaultdict(list)

    @property
    def works(self) -> bool:
        return "load_seconds" in self.state

    def generate(self, prompt: list[int], count: int) -> None:
        self.tell({"prompt": prompt, "tokens": count})
        found = self.answer()
        if "failed" in found:
            self.state = found
        else:
            self.runs[len(prompt)].append(found)


def facts_of(file) -> dict:
    """Of a .gguf file: its context, the format of most of its bytes, and the bytes of weights that
    a token reads: all but a table of embeddings that is no last layer too."""
    from tc.gguf.parameters import parameters_of

    table, sizes = file.tensors["token_embd.weight"], collections.Counter()
    for tensor in file.tensors.values():
        sizes[tensor.type_name] += tensor.size
    whole = sum(sizes.values())
    return {
        "context": parameters_of(file).context,
        "format": sizes.most_common(1)[0][0],
        "bytes": whole - (table.size if "output.weight" in file.tensors else 0),
    }


def bandwidth(threads: int) -> float | None:
    """Bytes that this machine reads a second."""
    with contextlib.closing(Worker("bandwidth", "", threads, 0, None)) as worker:
        return worker.state.get("read")


def prompt_of(tokenizer, length: int) -> list[int]:
    """So many tokens of a text."""
    tokens = tokenizer.encode(TEXT)
    return tokenizer.encode(TEXT * (length // max(1, len(tokens) - 2) + 1))[:length]


def compare(models: dict[str, str], facts: dict, tokenizer, threads: int, arguments) -> list[dict]:
    """A row for each engine and length."""
    context = max(arguments.lengths) + arguments.tokens
    prompts = {length: prompt_of(tokenizer, length) for length in arguments.lengths}
    read = [bandwidth(threads)]
    workers = {
        name: Worker(name, model, threads, context, arguments.packages, arguments.patience)
        for name, model in models.items()
    }
    order = list(workers)
    for number in range(arguments.rounds):
        for prompt in prompts.values():
            for name in order[number % len(order) :] + order[: number % len(order)]:
                if workers[name].works:
                    workers[name].generate(prompt, arguments.tokens)
    for worker in workers.values():
        worker.close()
    read.append(bandwidth(threads))
    best = max(filter(None, read), default=None)
    table = []
    for length in prompts:
        found = [row(name, length, worker, arguments.tokens) for name, worker in workers.items()]
        texts = [text_of(tokenizer, worker.runs[length]) for worker in workers.values()]
        for name, each, text in zip(workers, found, texts):
            rate = each.get("decode_per_second")
            table.append(
                each
                | {
                    "threads": threads,
                    "format": facts["format"],
                    "bytes_per_second": best,
                    "share": rate * facts["bytes"] / best if rate and best else None,
                    "alike": len(os.path.commonprefix([text, texts[0]]))
                    if rate and order[0] == "tc"
                    else None,
                }
            )
    return table


def text_of(tokenizer, runs: list[dict]) -> str:
    """The answer of the first round."""
    answer = runs[0]["answer"] if runs else ""
    return answer if isinstance(answer, str) else tokenizer.decode(answer)


def row(name: str, length: int, worker: Worker, count: int) -> dict:
    """One engine at one length; speeds are those of the fastest round."""
    found, runs = {"engine": name, "length": length}, worker.runs[length]
    if not runs:
        return found | {
            key: worker.state[key] for key in ("missing", "failed") if key in worker.state
        }
    return found | {
        "prefill_per_second": length / min(run["prefill_seconds"] for run in runs),
        "decode_per_second": (count - 1) / min(run["decode_seconds"] for run in runs),
        "prefill_seconds": [run["prefill_seconds"] for run in runs],
        "decode_seconds": [run["decode_seconds"] for run in runs],
        "peak_megabytes": max(run["peak_megabytes"] for run in runs),
        **{key: worker.state.get(key) for key in ("build_seconds", "load_seconds")},
    }


HEAD = (
    f"{'length':>6s} {'threads':>7s} {'engine':18s} {'prefill/s':>9s} {'decode/s':>9s} "
    f"{'share':>6s} {'peak MB':>8s} {'build s':>8s} {'load s':>7s} {'alike':>5s}"
)


def line(found: dict) -> str:
    head = f"{found['length']:6d} {found['threads']:7d} {found['engine']:18s}"
    if "decode_per_second" not in found:
        reason = found.get("failed") or f"not installed ({found.get('missing')})"
        return f"{head} {reason}"
    part = "" if found["share"] is None else f"{100 * found['share']:.0f} %"
    return (
        f"{head} {found['prefill_per_second']:9.1f} {found['decode_per_second']:9.1f} {part:>6s} "
        f"{found['peak_megabytes']:8.0f} {found['build_seconds']:8.2f} "
        f"{found['load_seconds']:7.2f} {'' if found['alike'] is None else found['alike']:>5}"
    )


def models_of(arguments, parser) -> dict[str, str]:
    """What each engine reads."""
    own = {}
    for text in arguments.model:
        name, equals, path = text.partition("=")
        if not equals or name not in PEERS:
            parser.error(f"--model takes ENGINE=PATH of {', '.join(PEERS)}, not '{text}'")
        own[name] = path
    return {
        name: own.get(name, str(arguments.file))
        for name in arguments.engines
        if name in own or name != "onnxruntime-genai"
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.language",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--engines", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="ENGINE=PATH",
        help="what an engine reads in place of the file",
    )
    parser.add_argument(
        "--packages",
        type=Path,
        metavar="FOLDER",
        help="site-packages of an environment that has the other engines",
    )
    parser.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        default=[128, 1024, 4096],
        help="of prompts; those that the model's context has no room for are left out",
    )
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_SECONDS,
        help="seconds that an engine may need to load, or for an answer",
    )
    parser.add_argument("--json", type=Path, help="write the rows there too")
    arguments = parser.parse_args()
    if arguments.tokens < 2 or min([*arguments.lengths, *arguments.threads, arguments.rounds]) < 1:
        parser.error(
            "give answers of at least 2 tokens, and lengths, threads and rounds of at least 1"
        )
    from tc.gguf.file import open_file
    from tc.gguf.tokenizer import Tokenizer

    file = open_file(arguments.file)
    models, facts, tokenizer = models_of(arguments, parser), facts_of(file), Tokenizer(file)
    most = facts["context"] - arguments.tokens
    arguments.lengths = [length for length in arguments.lengths if length <= most]
    if not arguments.lengths:
        parser.error(
            f"the model's context of {facts['context']} tokens has room for none of the lengths"
        )
    table = []
    for threads in arguments.threads:
        for found in compare(models, facts, tokenizer, threads, arguments):
            table.append(found)
            print(json.dumps(found), flush=True)
    print(
        f"{arguments.file.name}: {facts['format']}, {facts['bytes'] * 1e-6:.1f} MB of weights a token"
    )
    for threads in arguments.threads:
        read = next(found["bytes_per_second"] for found in table if found["threads"] == threads)
        if read:
            print(f"{threads} thread{'s' * (threads > 1)} read {read * 1e-9:.1f} GB/s")
    print("\n".join([HEAD, *map(line, table)]))
    if arguments.json:
        arguments.json.write_text(json.dumps({"model": facts, "rows": table}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
