"""The table of PyTorch's operators: every row is an operator of PyTorch, and the page of the docs
is made of the table."""

import os

import torch

from tc.torch.aten import TABLE
from tests.support import ROOT

PAGE = ROOT / "docs" / "pytorch_operators.md"


def overload_of(name):
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(
        getattr(getattr(torch.ops, namespace), packet, None), overload or "default", None
    )


def page():
    families = {}
    for name, row in TABLE.items():
        families.setdefault(row.family, {}).setdefault(row.ops, []).append(name)
    refused = sum(row.ops == "refused" for row in TABLE.values())
    text = [
        "# Operators of PyTorch",
        "",
        "Generated from the table (`frontend/tc/torch/aten`) by `./check --update`; a test fails when it is stale. What has no row is "
        "decomposed by PyTorch into what has.",
        "",
        f"{len(TABLE)} overloads: {len(TABLE) - refused} become operators of tc ([operators.md](operators.md)), {refused} are refused with "
        "their reason.",
        "",
    ]
    for family, rows in sorted(families.items()):
        text += [
            f"## {family} ({sum(map(len, rows.values()))})",
            "",
            "| of PyTorch | becomes |",
            "|---|---|",
        ]
        text += [
            f"| {', '.join(name.removeprefix('aten::') for name in sorted(names))} | {ops} |"
            for ops, names in sorted(rows.items(), key=lambda item: min(item[1]))
        ]
        text.append("")
    return "\n".join(text)


def test_page_is_generated():
    if os.environ.get("TC_UPDATE"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(), "stale: run ./check --update"


def test_rows_are_operators_of_pytorch():
    unknown = [
        name for name in TABLE if not name.startswith("torchvision::") and overload_of(name) is None
    ]
    assert unknown == []
    writing = [
        name
        for name in TABLE
        if (overload := overload_of(name)) is not None and overload._schema.is_mutable
    ]
    # In-place forms are made functional before; batch normalisation in training mode is refused.
    assert all("batch_norm" in name or name == "aten::detach_" for name in writing), writing
