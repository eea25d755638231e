"""Sizes that follow from the sizes of inputs: expressions of sympy, described as nodes on vectors
of one number."""

import sympy
import torch
from torch.utils._sympy import functions as torch_functions

_TWO = {sympy.Min: "Min", sympy.Max: "Max"}
for _name, _op in (("Min", "Min"), ("Max", "Max")):
    if hasattr(torch_functions, _name):
        _TWO[getattr(torch_functions, _name)] = _op


def describe_size(g, expression):
    """The name of a vector with one whole number; each expression is described only once."""
    if expression not in g.sizes:
        g.sizes[expression] = _describe(g, expression)
    return g.sizes[expression]


def _describe(g, expression):
    if expression.is_Integer:
        return g.constant([int(expression)], torch.int64)
    if expression.is_Symbol:
        return _symbol(g, expression)
    kind, arguments = type(expression), expression.args
    if kind is sympy.Add or kind is sympy.Mul:
        return _chain(g, "Add" if kind is sympy.Add else "Mul", arguments)
    if kind in _TWO:
        return g.node(_TWO[kind], [describe_size(g, each) for each in arguments])
    if kind is sympy.Pow and arguments[1].is_Integer and 0 < arguments[1] <= 8:
        return _chain(g, "Mul", [arguments[0]] * int(arguments[1]))
    if kind.__name__ in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
        return g.node("Div", [describe_size(g, each) for each in arguments[:2]])
    if kind.__name__ == "CeilToInt" or kind.__name__ == "CeilDiv":
        g.refuse(f"the size {expression} is rounded up")
    if kind.__name__ in ("Mod", "PythonMod"):
        return g.node("Mod", [describe_size(g, each) for each in arguments])
    if kind.__name__ == "ModularIndexing":
        quotient = g.node("Div", [describe_size(g, each) for each in arguments[:2]])
        return g.node("Mod", [quotient, describe_size(g, arguments[2])])
    if kind.__name__ == "FloorToInt" and arguments[0].is_Mul:
        return describe_size(g, _floored(g, arguments[0]))
    if kind.__name__ in ("ToFloat", "Identity", "TruncToInt", "RoundToInt"):
        return describe_size(g, arguments[0])
    return g.refuse(f"the size {expression} is no sum, product or quotient of sizes of inputs")


def _floored(g, product):
    """floor(x * p / q) as a quotient of whole numbers."""
    number, rest = product.as_coeff_Mul()
    ratio = sympy.nsimplify(number, rational=True)
    if not ratio.is_Rational:
        g.refuse(f"the size floor({product}) is no quotient of whole numbers")
    return torch_functions.FloorDiv(
        rest.replace(torch_functions.ToFloat, lambda each: each) * ratio.p, sympy.Integer(ratio.q)
    )


def _chain(g, op, arguments):
    # Numbers come first, so that the importer turns sums and products of symbols into polynomials.
    names = [describe_size(g, each) for each in arguments]
    result = names[0]
    for name in names[1:]:
        result = g.node(op, [result, name])
    return result


def _symbol(g, symbol):
    place = g.symbol_place(symbol)
    if place is None:
        g.refuse(f"the size {symbol} depends on data")
    if isinstance(place, str):
        return place
    name, axis = place
    return g.node("Shape", [name], start=axis, end=axis + 1)
