"""Finds the places where the compiler and the runtime refuse something, and what they say."""

import re

from .support import ROOT

FOLDERS = ("ir", "frontend", "scheduler", "codegen", "runtime")
# The programs around the tuner have tests of their own.
ELSEWHERE = (
    "runtime/agent",
    "runtime/rpc",
    "runtime/tracker",
    "runtime/serve",
    "frontend/python/tune",
    "frontend/pipeline/tune",
    "frontend/tc/certs",
    "frontend/tc/fleet",
    "frontend/tc/log",
    "frontend/tc/tun",
)
CALL = re.compile(
    r"\b(?:fail|fail_at|error|unsupported|refuse|refusal|damaged|raise \w*Error|throw Error)\s*\("
)
PYTHON_CALL = re.compile(r"\braise \w*Error\s*\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*f?"((?:[^"\\]|\\.)*)")*')
# What a text has between its fixed parts: printf's directives, Python's braces.
HOLES = re.compile(r"%[0-9.*]*[a-z]*[dsxulz]+|\{[^{}]*\}|\\n|\\\"")
SHORTEST = 10


def argument_text(source, begin):
    """The arguments of a call that opens just before `begin`."""
    depth, at, inside = 1, begin, False
    while at < len(source) and depth:
        c = source[at]
        if inside:
            at += c == "\\"
            inside = c != '"'
        elif c == '"':
            inside = True
        else:
            depth += (c == "(") - (c == ")")
        at += 1
    return source[begin : at - 1]


def pieces(arguments):
    """The fixed parts of the texts among the arguments; parts of one literal on several lines are
    one."""
    joined = re.sub(r'"\s*f?"', "", arguments)
    found = []
    for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', joined):
        found += [part.strip() for part in HOLES.split(literal)]
    return [part for part in found if len(part) >= SHORTEST]


def sites():
    """(file, longest fixed part of the text) of every refusal that a user can meet."""
    found = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix not in (".cc", ".h", ".py") or name.startswith(ELSEWHERE):
                continue
            source = re.sub(r"^\s*(//|#).*$", "", path.read_text(), flags=re.M)
            pattern = PYTHON_CALL if path.suffix == ".py" else CALL
            for call in pattern.finditer(source):
                arguments = argument_text(source, call.end())
                # A bug of tc itself: nothing that a user gives leads there.
                if "ErrorKind::Internal" in arguments:
                    continue
                parts = pieces(arguments)
                if parts:
                    found.add((name, max(parts, key=len)))
    return sorted(found)


def is_quoted(piece, tests):
    """Whether a test quotes the piece, or most of it."""
    size = min(len(piece), max(SHORTEST + 2, len(piece) // 2))
    return any(piece[at : at + size] in tests for at in range(len(piece) - size + 1))


def all_tests():
    """All tests as one text, without what splits a literal in two."""
    texts = []
    for path in sorted((ROOT / "tests").rglob("*")):
        golden = path.suffix == ".txt" and path.parent.name in ("golden", "primitives")
        if (
            path.suffix in (".cc", ".py")
            and path.name not in ("error_sites.py", "test_error_texts.py")
        ) or golden:
            texts.append(re.sub(r'"\s*\n\s*f?"', "", path.read_text()))
    return "\n".join(texts)
