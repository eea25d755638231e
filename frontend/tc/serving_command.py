"""The command `python -m tc serve`."""

from .errors import printable
from .parser import LANGUAGE_TOLERANCE, add_listener, add_running, number


def _serve(arguments):
    from .serving.server import serve

    found = serve(arguments)
    return found, (
        f"{printable(found['model'])}: {found['requests']} requests, prompts of "
        f"{found['prompt_tokens']} tokens, answers of {found['tokens']}"
    )


def add_command(command):
    whole = number(int, 1, "a whole number")
    added = command(
        "serve",
        _serve,
        "Serve a language model over HTTP, with the endpoints of OpenAI's interface.",
    )
    added.add_argument("model", help="a .gguf file, or a folder of transformers")
    add_listener(added, 8080)
    added.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with the token that clients have to show; default: "
        "$TC_SERVE_TOKEN, else one that is drawn and printed at the start",
    )
    added.add_argument(
        "--no-token", action="store_true", help="answer whoever asks; not where other machines can"
    )
    added.add_argument("--tls-certificate", metavar="FILE", help="a chain of certificates, PEM")
    added.add_argument("--tls-key", metavar="FILE", help="the key of the certificate, PEM")
    added.add_argument("--name", help="what clients call the model; default: the file's name")
    added.add_argument(
        "--parallel",
        type=whole,
        default=8,
        metavar="COUNT",
        help="requests that are answered by turns (default 8); each has keys and values in memory",
    )
    added.add_argument(
        "--queue",
        type=number(int, 0, "a whole number"),
        default=64,
        metavar="COUNT",
        help="requests that wait for a place; more are refused (default 64)",
    )
    added.add_argument(
        "--wait",
        type=number(float, 0, "a number"),
        default=60.0,
        metavar="SECONDS",
        help="how long one waits at most (default 60)",
    )
    added.add_argument(
        "--context",
        type=whole,
        metavar="TOKENS",
        help="of prompt and answer at most; default: what the model can read",
    )
    added.add_argument(
        "--no-reuse",
        action="store_true",
        help="read each prompt from its beginning, where one before began alike too",
    )
    added.add_argument(
        "--no-batching",
        action="store_true",
        help="read the tokens of each sequence in runs of its own, so that other requests change no "
        "bit of an answer's logits",
    )
    add_running(added, LANGUAGE_TOLERANCE)
