"""Expressions of sizes in archives of torch.export, as sympy prints them: Add(Integer(1),
Symbol('s0', integer=True))."""

import re

_TOKEN = re.compile(
    r"\s*(?:([A-Za-z_]\w*)|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|'([A-Za-z0-9_.+-]*)'|([(),=]))",
    re.ASCII,
)

_SUMS = ("Add", "Max", "Min")
# Operations whose results have no more digits than the operands have together.
_OTHERS = (
    "Mul",
    "FloorDiv",
    "CleanDiv",
    "CeilDiv",
    "IntTrueDiv",
    "FloatTrueDiv",
    "Mod",
    "PythonMod",
    "ModularIndexing",
    "ToFloat",
    "TruncToInt",
    "TruncToFloat",
    "FloorToInt",
    "CeilToInt",
    "RoundToInt",
    "Identity",
    "Abs",
    "Where",
    "Eq",
    "Ne",
    "Lt",
    "Le",
    "Gt",
    "Ge",
    "Equality",
    "Unequality",
    "StrictLessThan",
    "LessThan",
    "StrictGreaterThan",
    "GreaterThan",
    "And",
    "Or",
    "Not",
    "Piecewise",
    "ExprCondPair",
)
_WORDS = ("true", "false", "True", "False", "None")

_MAX_CHARACTERS = 1 << 16
_MAX_DEPTH = 64
_MAX_DIGITS = 19
_MAX_BITS = 4096
_LARGEST_POWER = 8


class _Problem(Exception):
    pass


def check_expression(text):
    """Why the expression is refused, or None. Accepted are sums, products, quotients, remainders,
    comparisons, minima and maxima of symbols and whole numbers, and small powers."""
    if len(text) > _MAX_CHARACTERS:
        return f"it has {len(text)} characters; at most {_MAX_CHARACTERS} are read"
    try:
        _Parser(text).run()
    except _Problem as problem:
        return str(problem)
    return None


class _Parser:
    """Parses the text. The methods return how many bits the result of an operation may have."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if not found:
                raise _Problem("it is no expression of sizes")
            self.tokens.append(found)
            at = found.end()
        self.at = 0

    def run(self):
        bits = self.expression(0)
        if self.at != len(self.tokens):
            raise _Problem("it is no expression of sizes")
        return bits

    def take(self, group=None, text=None):
        """The next token, where it is of this group and, if one is given, this text."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        found = token and (token.group(group) if group else token.group(token.lastindex))
        if found is None or (text is not None and found != text):
            raise _Problem("it is no expression of sizes")
        self.at += 1
        return found

    def is_next(self, text):
        return self.at < len(self.tokens) and self.tokens[self.at].group(4) == text

    def expression(self, depth):
        if depth > _MAX_DEPTH:
            raise _Problem(f"it is nested more than {_MAX_DEPTH} times")
        if self.at < len(self.tokens) and self.tokens[self.at].group(2) is not None:
            return self.number()
        name = self.take(1)
        if not self.is_next("("):
            # Another form in which sympy prints symbols.
            if name not in _WORDS and not re.fullmatch(r"[suz]\w*\d+", name):
                raise _Problem(f"{name} is no symbol of a size")
            return 64
        self.take(4, "(")
        bits = self.call(name, depth)
        if bits > _MAX_BITS:
            raise _Problem("its numbers grow without a bound")
        return bits

    def number(self):
        text = self.take(2)
        if len(text) > _MAX_DIGITS + 1 or "e" in text.lower():
            raise _Problem(f"a number in it has more than {_MAX_DIGITS} digits")
        return 64

    def call(self, name, depth):
        if name == "Symbol":
            self.take(3)
            while self.is_next(","):
                self.take(4, ",")
                self.take(1), self.take(4, "="), self.take(1)
            self.take(4, ")")
            return 64
        if name in ("Float", "Integer", "Rational"):
            return self.literal()
        if name == "Pow":
            return self.power(depth)
        if name not in _SUMS + _OTHERS:
            raise _Problem(f"{name} is no operation of sizes")
        operands = [self.expression(depth + 1)]
        while self.is_next(","):
            self.take(4, ",")
            operands.append(self.expression(depth + 1))
        self.take(4, ")")
        return max(operands) + len(operands) if name in _SUMS else sum(operands)

    def literal(self):
        """A number; a Rational has two, and a Float has a precision."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        text = (
            token.group(3)
            if token and token.group(3) is not None
            else token.group(2)
            if token
            else None
        )
        if text is None or not re.fullmatch(r"-?\d{1,19}(\.\d{0,40})?", text):
            raise _Problem("a number in it is not read")
        self.at += 1
        while self.is_next(","):
            self.take(4, ",")
            if self.at < len(self.tokens) and self.tokens[self.at].group(1) == "precision":
                self.take(1), self.take(4, "=")
                if int(self.take(2)) > 64:
                    raise _Problem("a number in it is of a precision beyond 64 bits")
            else:
                self.number()
        self.take(4, ")")
        return 64

    def power(self, depth):
        base = self.expression(depth + 1)
        self.take(4, ",")
        if self.at < len(self.tokens) and self.tokens[self.at].group(1) == "Integer":
            self.take(1), self.take(4, "(")
            exponent = self.take(2)
            self.take(4, ")")
        else:
            exponent = self.take(2)
        self.take(4, ")")
        if (
            not exponent.lstrip("-").isdigit()
            or len(exponent) > 2
            or abs(int(exponent)) > _LARGEST_POWER
        ):
            raise _Problem(f"a power in it is larger than {_LARGEST_POWER}")
        return base * max(abs(int(exponent)), 1)
