"""TorchScript: control flow that stays, lists, dictionaries, optionals and strings of its own."""

from typing import Dict, List, Optional, Tuple

import torch

from .cases import Cases, floats

CASES = Cases()
of = CASES.of


@of(floats(4))
def branch_by_data(self, x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y


@of(floats(4))
def nested_branches_by_data(self, x):
    if x[0] > 0:
        if x[1] > 0:
            y = x + 1
        else:
            y = x + 2
    else:
        y = x + 3
    return y * 2


@of(floats(4))
def early_return_by_data(self, x):
    if bool(x.mean() > 100):
        return x
    return -x


@of(floats(4))
def elif_chain(self, x):
    total = float(x.abs().sum())
    if total > 100.0:
        return x
    elif total > 1.0:
        return x * 2
    else:
        return x * 3


@of(floats(4))
def arithmetic_of_numbers_of_data(self, x):
    count = int(x.abs().sum() * 10)
    share = float(x[0]) / 3.0 + count
    if count % 2 == 0 and not (share < 0.1):
        return x * share
    else:
        return x - count // 2


@of(floats(4))
def loop_with_break(self, x):
    for number in range(10):
        if number == 3:
            break
        x = x + number
    return x


@of(floats(4))
def loop_with_continue(self, x):
    for number in range(6):
        if number % 2 == 0:
            continue
        x = x * number
    return x


@of(floats(4))
def branch_in_loop(self, x):
    for number in range(3):
        if x[number] > 0:
            x = x + 1
        else:
            x = x * 2
    return x


@of(floats(2, 4))
def list_of_tensors(self, x):
    parts: List[torch.Tensor] = []
    for number in range(x.size(1)):
        parts.append(x[:, number] * number)
    parts[0] = parts.pop()
    return torch.stack(parts, 1)


@of(floats(2, 4))
def list_of_numbers(self, x):
    sizes: List[int] = []
    for size in x.shape:
        sizes.append(size * 2)
    sizes.sort(reverse=True)
    return torch.zeros(sizes) + sum(sizes)


@of(floats(2, 4))
def dictionary(self, x):
    found: Dict[str, torch.Tensor] = {}
    found["a"] = x
    found["b"] = found["a"] + 1
    if "c" not in found:
        found["c"] = x * 2
    return [found[key] for key in found.keys()]


@of(floats(2, 4), None)
def optional_argument(self, x, bias: Optional[torch.Tensor]):
    if bias is not None:
        x = x + bias
    return x


@of(floats(2, 4), "mean")
def string_decides(self, x, reduction: str):
    if reduction == "mean":
        return x.mean()
    elif reduction == "sum":
        return x.sum()
    return x


@of(floats(2, 4))
def tuples(self, x):
    pair: Tuple[torch.Tensor, int] = (x, 3)
    value, number = pair
    return value * number, (x, x + pair[1])


@of([floats(2), floats(2)])
def list_argument(self, parts: List[torch.Tensor]):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total, len(parts)


@of({"a": floats(2), "b": floats(2)})
def dictionary_argument(self, given: Dict[str, torch.Tensor]):
    total = torch.zeros(2)
    for key, value in given.items():
        total = total + value
        if key == "b":
            total = total * 2
    return total


@of(floats(2, 4))
def numbers_of_tensors_as_sizes(self, x):
    half = int(x.size(1) / 2)
    return x[:, :half] + x[:, half:]


@of(floats(2, 4))
def slices_in_place(self, x):
    y = x.clone()
    y[:, 1:3] += 1
    y[0] = y[1]
    for n in range(y.size(0)):
        y[n, n] = -1.0
    return y


@of(floats(2, 4))
def while_by_numbers(self, x):
    n = 0
    while n < 3 and x.size(0) == 2:
        x = x + n
        n += 1
    return x, n


@of(floats(2, 4))
def assertion_that_holds(self, x):
    assert x.dim() == 2, "a matrix"
    if x.size(0) > 5:
        raise ValueError("too many rows")
    return x + 1


@of(floats(2, 4))
def list_comprehension(self, x):
    return [row * 2 for row in x.unbind(0)]


@of(floats(2, 4))
def formatting(self, x):
    text = "{} rows".format(x.size(0))
    return x * (2.0 if text == "2 rows" else 3.0)


@of(floats(2, 4))
def arithmetic_of_numbers(self, x):
    a, b = x.size(0), x.size(1)
    return x * (a // b + b % 3 - a**2 + max(a, b) / min(a, b)) + abs(a - b)


@of(floats(2, 4))
def aliases_in_lists(self, x):
    y = x.clone()
    held = [y, y[0]]
    held[0] += 1
    return held[1], y


@of(floats(2, 4))
def optional_becomes_tensor(self, x):
    last: Optional[torch.Tensor] = None
    for n in range(3):
        if last is None:
            last = x * n
        else:
            last = last + x * n
    assert last is not None
    return last


@of(floats(2, 4))
def shadowed_loop_variable(self, x):
    n = 5
    for n in range(2):
        x = x + n
    return x * n


@of(floats(2, 4))
def loop_ends_by_data(self, x):
    while bool(x.sum() < 10.0):
        x = x + 1
    return x


@of(floats(2, 4), refused="depends on data")
def raises_by_data(self, x):
    if bool(x.sum() < -1e9):
        raise ValueError("too small")
    return x


@of(floats(2, 4), refused="branch")
def list_grows_by_data(self, x):
    parts: List[torch.Tensor] = [x]
    if bool(x.sum() > 0):
        parts.append(x)
    return torch.cat(parts)


@of(floats(2, 4))
def numbers_have_the_types_of_torchscript(self, x, n: int = 3, share: float = 2.5):
    whole = (x * 10).to(torch.int64)
    return whole * n**2, whole * round(share), whole * (n // 2), whole / n, x * n**-1, n**2


@of(floats(2, 4))
def lists_grow_in_place(self, x):
    numbers = [1, 2]
    same = numbers
    numbers += [3]
    same.append(4)
    twice = [x]
    twice *= 2
    return x + len(numbers), torch.cat(twice), sum(same), any([False, True]), all([len(same) > 9])
