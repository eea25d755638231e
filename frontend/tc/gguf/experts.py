"""Files in which each expert has matrices of its own, as llama.cpp wrote them until April 2024:
they are read as the tensors of all experts that files have since then."""

import dataclasses
import re

_OF_EXPERT = re.compile(
    r"(blk\.(?:0|[1-9]\d{0,3})\.ffn_(?:gate|up|down))\.(0|[1-9]\d{0,3})\.weight"
)


def joined_experts(tensors, damaged):
    """The tensors {name: Tensor} with those of single experts as parts of one, in their order.
    `damaged(what)` makes the error for a file."""
    experts, result = {}, {}
    for name, tensor in tensors.items():
        if found := _OF_EXPERT.fullmatch(name):
            experts.setdefault(f"{found[1]}_exps.weight", {})[int(found[2])] = tensor
        else:
            result[name] = tensor
    for name, parts in experts.items():
        first = min(parts.values(), key=lambda part: part.name)
        if name in result:
            raise damaged(f"it has both '{name}' and '{first.name}', which is a part of it")
        for number in range(len(parts)):
            if number not in parts:
                raise damaged(
                    f"of the {len(parts)} experts' tensors like '{first.name}', that of expert "
                    f"{number} is missing"
                )
            part = parts[number]
            if (part.type_name, part.shape) != (parts[0].type_name, parts[0].shape):
                raise damaged(
                    f"the tensors '{parts[0].name}' ({parts[0].type_name} {list(parts[0].shape)}) and "
                    f"'{part.name}' ({part.type_name} {list(part.shape)}) are experts of one layer and "
                    "have to be alike"
                )
        result[name] = dataclasses.replace(
            parts[0],
            name=name,
            shape=(len(parts), *parts[0].shape),
            size=len(parts) * parts[0].size,
            parts=tuple(parts[number] for number in range(len(parts))),
        )
    return result
