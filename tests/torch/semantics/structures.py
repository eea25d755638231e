"""Python around tensors: loops, lists, dictionaries, early returns, None, strings and classes of
results."""

import collections
import math

import torch
from torch.nn import functional

from .cases import Cases, floats, whole

CASES = Cases()
of = CASES.of
Pair = collections.namedtuple("Pair", "first second")


@of(floats(3))
def dictionary_out(x):
    return {"a": x + 1, "b": {"c": x * 2, "d": [x, -x]}}


@of(floats(3))
def tuple_of_tuples(x):
    return (x, (x + 1, (x + 2,)), [])


@of(floats(3))
def named_tuple_out(x):
    return Pair(x, first_of(x))


def first_of(x):
    return x[0]


@of(floats(3))
def none_and_numbers_out(x):
    return x, None, 3, 2.5, True, "text"


@of(floats(3))
def constant_out(x):
    return torch.ones(2), torch.tensor(3)


@of({"x": floats(2), "scale": 3.0}, [floats(2), None])
def nested_in(given, pair):
    return given["x"] * given["scale"] + pair[0]


@of(floats(3), None)
def none_argument(x, bias):
    return x if bias is None else x + bias


@of(floats(3), "double")
def string_argument(x, mode):
    if mode == "double":
        return x * 2
    raise ValueError(mode)


@of(floats(3), 2, 0.5, True)
def number_arguments(x, count, scale, negate):
    for _ in range(count):
        x = x * scale
    return -x if negate else x


@of((floats(2), (floats(2), [floats(2)])))
def deep_tuple_argument(given):
    a, (b, (c,)) = given
    return a + b * c


@of(floats(2, 3), floats(2, 3))
def same_values_twice(x, y):
    return x - y


@of(floats(4))
def early_return_by_shape(x):
    if x.shape[0] > 3:
        return x[:3]
    return x * 100


@of(floats(4))
def early_return_in_loop(x):
    for number in range(10):
        x = x + number
        if number == 3:
            return x
    return x * 0


@of(floats(2, 3))
def nested_loops(x):
    rows = []
    for i in range(x.shape[0]):
        row = x[i, 0]
        for j in range(1, x.shape[1]):
            row = row * 0.5 + x[i, j] * (i + j)
        rows.append(row)
    return torch.stack(rows)


@of(floats(6))
def while_loop_of_numbers(x):
    step = 1
    while step < x.shape[0]:
        x = x + x.roll(step)
        step *= 2
    return x


@of(floats(2, 5))
def list_is_built_and_changed(x):
    parts = [x[:, n] for n in range(5)]
    parts.insert(0, parts.pop())
    parts[1:3] = [parts[2] * 2]
    parts.reverse()
    del parts[0]
    return torch.stack(parts + [x[:, 0]] * 2, 1)


@of(floats(2, 5))
def list_comprehension_with_condition(x):
    return torch.cat([x[:, n : n + 1] for n in range(5) if n % 2 == 0], 1)


@of(floats(2, 5))
def dictionary_is_built(x):
    by_name = {}
    for number, name in enumerate("abcde"):
        by_name.setdefault(name if number % 2 else "even", []).append(x[:, number])
    return {name: sum(parts) for name, parts in sorted(by_name.items())}


@of(floats(2, 5))
def variable_is_rebound(x):
    y = x
    x = x + 1
    y = y * x
    x = y - x
    return x, y


@of(floats(2, 5))
def closure(x):
    scale = 3

    def scaled(value, by=scale):
        return value * by + x.mean()

    scale = 4
    return scaled(x) + scale


@of(floats(2, 5))
def recursion(x):
    def halves(value):
        if value.shape[1] == 1:
            return value
        middle = value.shape[1] // 2
        return halves(value[:, :middle]) - halves(value[:, middle:])

    return halves(x)


@of(floats(2, 5))
def reduce_by_sum(x):
    return sum(row for row in x) + sum(x[0])


@of(floats(2, 5))
def iteration_and_unpacking(x):
    first, second = x
    a, *rest = first
    return second * a + torch.stack(rest).sum()


@of(floats(2, 5))
def enumerate_and_zip(x):
    total = torch.zeros(2)
    for number, (column, factor) in enumerate(zip(x.t(), (1.0, -1.0, 2.0))):
        total = total + column * factor * number
    return total


@of(floats(2, 5))
def format_and_assert(x):
    assert x.dim() == 2, f"{x.shape} is not a matrix"
    return x.view(*map(int, f"{x.shape[1]},{x.shape[0]}".split(",")))


@of(floats(2, 5))
def sizes_as_numbers(x):
    height, width = x.size()
    return x / math.sqrt(width) + len(x) * x.numel() / (height + 1)


@of(floats(2, 5))
def tensor_of_sizes(x):
    return torch.tensor(x.shape) * 2, torch.tensor([x.size(0) / 2])


@of(floats(2, 5))
def exception_is_caught(x):
    try:
        return x @ x
    except RuntimeError:
        return x @ x.t()


@of(floats(2, 5))
def conditional_expression(x):
    return (x if x.ndim > 2 else x[None]) * (1 if x.is_floating_point() else 2)


@of(floats(2, 5))
def type_decides(x):
    return x.double() if x.dtype == torch.float32 else x


@of(floats(2, 5))
def no_gradient_inside(x):
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        z = y + 1
    return z.detach()


@of(floats(1, 2, 6, 6))
def module_functions_with_strings(x):
    return functional.interpolate(
        x, scale_factor=0.5, mode="bilinear", align_corners=False
    ) + functional.adaptive_avg_pool2d(x, 3)


@of(floats(2, 5))
def unused_results(x):
    x.sort(1)
    x.unfold(1, 2, 1)
    return x.max(1)[1]


@of(floats(2, 5))
def dead_code_with_refused_operator(x):
    x.nonzero()
    return x + 1


@of(floats(2, 5))
def results_of_one_operator_in_other_order(x):
    values, places = x.topk(3)
    low, high = torch.aminmax(x)
    return places, high, values, low


@of(floats(2, 5), refused="`if x.sum\\(\\) > 0:` decides by numbers that only a run knows")
def truth_of_data(x):
    if x.sum() > 0:
        return x
    return -x


@of(floats(2, 5))
def number_of_data_as_operand(x):
    return x * x.sum().item()


@of(floats(2, 5))
def map_and_filter(x):
    return list(map(torch.sum, filter(lambda row: row.dim() == 1, x)))


@of(floats(2, 5))
def star_arguments(x):
    def total(*values, start=0.0, **others):
        return sum(values, start) + others["extra"]

    return total(*x, start=1.0, **{"extra": x[0]})


@of(floats(3, 4))
def generator(x):
    def rows():
        for row in x:
            yield row * 2

    return torch.stack(tuple(rows()), 1)


@of(floats(3, 4))
def set_and_sorted_keys(x):
    return torch.stack([x[n] for n in sorted({2, 0, 2})])


@of(floats(3, 4), whole(3, low=1, high=5))
def lengths_as_mask(x, lengths):
    mask = torch.arange(4)[None] < lengths[:, None]
    return x.masked_fill(~mask, 0).sum(1) / lengths


@of(floats(3, 4))
def matrix_operators(x):
    return x @ x.T, x.T.__matmul__(x), 1 - x, 2 / x, 2**x, -x, +x, abs(x)


@of(floats(3, 4))
def reverse_range_loop(x):
    state = torch.zeros(4)
    for place in range(2, -1, -1):
        state = torch.tanh(state + x[place])
    return state


@of(floats(5, 2, 3))
def recurrence_with_gates(x):
    hidden, outputs = torch.zeros(2, 3), []
    for step in x:
        gate = torch.sigmoid(step + hidden)
        hidden = gate * hidden + (1 - gate) * step.tanh()
        outputs.append(hidden)
    return torch.stack(outputs), hidden


@of(floats(2, 3, 4))
def batched_loop_over_views(x):
    result = torch.zeros_like(x)
    for batch, out in zip(x, result):
        out[1:] = batch[:-1]
        out[0] = batch.mean(0)
    return result


@of(floats(4))
def walrus_and_chained_comparison(x):
    if (size := x.shape[0]) > 2 and 1 < size < 10:
        return x * size
    return x


@of(floats(4))
def integer_and_float_division_of_sizes(x):
    return x[: x.shape[0] // 2] * (x.shape[0] / 3) % 2


@of(floats(2, 3))
def slice_objects(x):
    window = (slice(None), slice(None, None, 2))
    return x[window], x[(slice(1, None),)]


@of(floats(2, 3))
def setitem_by_slice_object(x):
    y = x.clone()
    y[(Ellipsis, slice(0, 1))] = 9
    return y


@of(floats(3))
def tensor_in_list_literal(x):
    return torch.stack([x[0], x[1] * 2, x.new_tensor(4.0)])


@of([floats(2), floats(3)], {"a": floats(2)})
def structures_come_back(parts, by_name):
    return [part * 2 for part in parts], {**by_name, "n": len(parts)}


@of(floats(2, 2))
def ordered_dictionary_out(x):
    return collections.OrderedDict(second=x * 2, first=x)
