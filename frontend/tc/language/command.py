"""The command `python -m tc generate`."""

import sys

from ..arguments import WEIGHTS
from ..errors import Error, printable, printable_lines
from ..parser import LANGUAGE_TOLERANCE, add_running, number


def _generate(arguments):
    if arguments.export is not None:
        return _export(arguments)
    for name in ("target", "tokenizer", "weights"):
        if getattr(arguments, name) is not None:
            raise Error(f"--{name} belongs to --export FILE, which writes a program")
    from .generating import Generation, language_for, tokens_of
    from .sampling import Sampling
    from .session import Session

    language = language_for(arguments.model, arguments.threads, tolerance=arguments.tolerance)
    sampling = Sampling(
        arguments.temperature, arguments.top_k, arguments.top_p, arguments.min_p, arguments.seed
    )
    system = [{"role": "system", "content": arguments.system}] if arguments.system else []

    def turn(session, prompt):
        run = Generation(session, prompt, sampling, arguments.max_tokens, arguments.stop)
        text = ""
        for piece in run.pieces():
            text += piece
            if not arguments.json:
                print(printable_lines(piece), end="", flush=True)
        if not arguments.json:
            print()
        return run, text

    if arguments.prompt is not None:
        prompt = arguments.prompt
        if arguments.chat or system:
            prompt = [*system, {"role": "user", "content": prompt}]
        run, text = turn(Session(language), tokens_of(language, prompt))
        return _result(language, [run], text)
    return _chat(language, system, turn)


def _export(arguments):
    from .exporting import export_program

    if arguments.prompt is not None:
        raise Error("--export writes a program and generates nothing; give --prompt to the program")
    name = export_program(
        arguments.model,
        arguments.export,
        arguments.tokenizer,
        target=arguments.target or "native",
        threads=arguments.threads,
        weights=arguments.weights or "inside",
        tolerance=arguments.tolerance,
    )
    files = {"program": arguments.export, "tokenizer": arguments.tokenizer}
    shown = " and ".join(printable(file) for file in files.values() if file is not None)
    return {"model": name, **files}, f"{printable(name)}: wrote {shown}"


def _chat(language, system, turn):
    """A conversation in which each line of the standard input is a message, up to the end of the
    input. What the model has read already is not read again."""
    from .generating import common_length, tokens_of
    from .session import Session

    session, messages, runs, text = Session(language), list(system), [], ""
    while (line := _line()) is not None:
        if not line.strip():
            continue
        messages.append({"role": "user", "content": line})
        tokens = tokens_of(language, messages)
        session.truncate(common_length(session.tokens, tokens[:-1]))
        run, text = turn(session, tokens[session.length :])
        messages.append({"role": "assistant", "content": text})
        runs.append(run)
    return _result(language, runs, text, messages)


def _line():
    """A line of the standard input, or None at its end."""
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _rate(count, seconds):
    return count / seconds if seconds else None


def _result(language, runs, text, messages=None):
    totals = {
        name: sum(getattr(run.times, name) for run in runs)
        for name in ("prompt_tokens", "prompt_seconds", "tokens", "seconds")
    }
    # Tokens that needed a run of their own: all but the first, which comes from the prompt's run.
    behind = sum(max(0, run.times.tokens - 1) for run in runs)
    rates = {
        "prefill_per_second": _rate(totals["prompt_tokens"], totals["prompt_seconds"]),
        "decode_per_second": _rate(behind, totals["seconds"]),
    }
    result = {
        "model": language.name,
        "text": text,
        "reason": runs[-1].reason if runs else None,
        **totals,
        **rates,
    }
    if messages is not None:
        result["messages"] = messages
    shown = " · ".join(
        f"{name} {count} tokens" + (f", {rate:.1f} tokens/s" if rate else "")
        for name, count, rate in (
            ("prompt", totals["prompt_tokens"], rates["prefill_per_second"]),
            ("answer", totals["tokens"], rates["decode_per_second"]),
        )
    )
    return result, f"{printable(language.name)}: {shown}"


def add_command(command):
    whole, real = number(int, 1, "a whole number"), number(float, 0, "a number")
    added = command(
        "generate",
        _generate,
        "Generate text with a language model, or chat with it where no prompt is given.",
    )
    added.add_argument("model", help="a .gguf file, or a folder of transformers")
    added.add_argument(
        "--prompt",
        metavar="TEXT",
        help="a text that the model goes on with; default: a chat by lines of the standard input",
    )
    added.add_argument(
        "--chat", action="store_true", help="--prompt is the first message of a chat"
    )
    added.add_argument("--system", metavar="TEXT", help="what the model is told before a chat")
    added.add_argument(
        "--max-tokens", type=whole, default=256, help="tokens of an answer at most (default 256)"
    )
    added.add_argument(
        "--temperature",
        type=real,
        default=0.0,
        help="0 (default): the likeliest token each time; else tokens are drawn",
    )
    added.add_argument(
        "--top-k", type=whole, metavar="COUNT", help="draw of the likeliest tokens alone"
    )
    added.add_argument(
        "--top-p",
        type=real,
        metavar="SHARE",
        help="draw of the fewest tokens whose probabilities reach this sum",
    )
    added.add_argument(
        "--min-p",
        type=real,
        metavar="SHARE",
        help="draw of tokens of at least this share of the likeliest one",
    )
    added.add_argument("--seed", type=number(int, 0, "a whole number"), default=0)
    added.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end before this text; may be given several times",
    )
    add_running(added, LANGUAGE_TOLERANCE)
    added.add_argument(
        "--export",
        metavar="FILE",
        help="write a static program that generates text (FILE generate --tokens 1,2,3), and end",
    )
    added.add_argument("--target", help="of --export; default: this machine")
    added.add_argument(
        "--weights",
        choices=WEIGHTS,
        help="of --export: inside the program (default), or in a file beside it (separate)",
    )
    added.add_argument(
        "--tokenizer",
        metavar="FILE",
        help="of --export: also write the file with which the program turns texts into tokens",
    )
