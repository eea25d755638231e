"""The tensors of safetensors files: where each lies, and under which name a GGUF file has it.

A file begins with the length of its header, 8 bytes, and the header, JSON: {name: {"dtype",
"shape", "data_offsets": [begin, end]}}, where offsets count from the end of the header. Every
number in it may be wrong."""

import json
import math
import mmap
import os
import re
import struct

from ..errors import ModelError, UnsupportedError, printable
from ..given_files import open_regular

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAX_JSON = 1 << 26  # bytes of a header, or of another JSON file
_MAX_FILES = 4096
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}

# Names outside of the blocks, and inside of block N, for all architectures.
_OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_INNER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
# Matrices of which each expert has one, and which a GGUF file has as one tensor.
_OF_EXPERTS = {
    "gate_proj": "ffn_gate_exps",
    "up_proj": "ffn_up_exps",
    "down_proj": "ffn_down_exps",
    "w1": "ffn_gate_exps",
    "w3": "ffn_up_exps",
    "w2": "ffn_down_exps",
}
# The norm behind the attention: in front of the network, or, where there are norms behind both, of
# the attention's result.
_NORMS = {False: {"post_attention_layernorm": "ffn_norm"}}
_NORMS[True] = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_OF_EXPERT = re.compile(
    r"model\.layers\.(0|[1-9]\d{0,3})\.(?:mlp|block_sparse_moe)\.experts\.(0|[1-9]\d{0,3})\.(\w+)\.weight"
)
_IN_BLOCK = re.compile(r"model\.layers\.(0|[1-9]\d{0,3})\.(.+)\.(weight|bias)")


def gguf_name(name, post_norms):
    """The name of the tensor in a GGUF file; None where it has none."""
    if name in _OUTER:
        return _OUTER[name]
    found = _IN_BLOCK.fullmatch(name)
    own = found and {**_INNER, **_NORMS[post_norms]}.get(found[2])
    return f"blk.{found[1]}.{own}.{found[3]}" if own else None


def expert_of(name):
    """(name in a GGUF file, number of the expert) of a matrix of one expert; None of others."""
    found = _OF_EXPERT.fullmatch(name)
    own = found and _OF_EXPERTS.get(found[3])
    return (f"blk.{found[1]}.{own}.weight", int(found[2])) if own else None


def read_json(path, what):
    """A JSON file that is an object."""
    name = os.path.basename(path)
    try:
        with open_regular(path) as file:
            data = file.read(MAX_JSON + 1)
    except OSError as error:
        raise ModelError(f"'{name}', {what}, cannot be read: {error.strerror}") from None
    if len(data) > MAX_JSON:
        raise ModelError(f"'{name}' has more than {MAX_JSON >> 20} MB, which no {what} has")
    return _object(data, f"'{name}' is no {what}")


def _object(data, refusal):
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ModelError(f"{refusal}: it is damaged; fetch the folder again") from None
    if not isinstance(found, dict):
        raise ModelError(f"{refusal}: it is {type(found).__name__} and no object of JSON")
    return found


def files_of(folder):
    """The names of a folder's safetensors files."""
    if os.path.exists(os.path.join(folder, SINGLE)):
        return [SINGLE]
    if not os.path.exists(os.path.join(folder, INDEX)):
        raise ModelError(
            f"'{os.path.basename(folder)}' has no {SINGLE} and no {INDEX}: weights in other files are "
            "not read; save the model with safe_serialization=True"
        )
    weights = read_json(os.path.join(folder, INDEX), "list of weights").get("weight_map")
    values = weights.values() if isinstance(weights, dict) else [None]
    if not all(isinstance(each, str) for each in values):
        raise ModelError(f"'{INDEX}' names no files; fetch the folder again")
    names = sorted(set(values))
    if len(names) > _MAX_FILES or any(os.path.basename(each) != each for each in names):
        raise ModelError(f"'{INDEX}' names more than {_MAX_FILES} files, or some of other folders")
    return names


def tensors_of(path):
    """{name: (type, shape, the bytes of the mapped file)}"""
    name = os.path.basename(path)

    def damaged(what):
        return ModelError(f"'{name}' is a damaged safetensors file: {what}; fetch it again")

    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if size else b""
    except OSError as error:
        raise ModelError(f"'{name}' cannot be read: {error.strerror}") from None
    if size < 8:
        raise damaged(f"it has {size} bytes")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(size - 8, MAX_JSON):
        raise damaged(f"its header has {length} bytes, the file {size}")
    header = _object(bytes(data[8 : 8 + length]), f"the header of '{name}' cannot be read")
    header.pop("__metadata__", None)
    found = {}
    for tensor, entry in header.items():
        kind, shape, begin, end = _entry(tensor, entry, damaged)
        if kind not in _SIZES:
            raise UnsupportedError(
                f"tensor '{printable(tensor)}' of '{name}' has the type {printable(kind)}; known are "
                f"{', '.join(_SIZES)}"
            )
        content = data[8 + length + begin : 8 + length + end]
        if end > size - 8 - length or len(content) != math.prod(shape) * _SIZES[kind]:
            raise damaged(f"the place of tensor '{printable(tensor)}' is not that of its shape")
        found[tensor] = (kind, tuple(shape), content)
    return found


def _entry(tensor, entry, damaged):
    """Type, shape, begin and end of an entry of the header."""

    def whole(value):
        return type(value) is int and 0 <= value < 1 << 48

    shown = printable(tensor)
    if not isinstance(entry, dict):
        raise damaged(f"the entry of tensor '{shown}' is no object")
    kind, shape, place = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if (
        not isinstance(kind, str)
        or not isinstance(shape, list)
        or len(shape) > 8
        or not all(map(whole, shape))
        or not isinstance(place, list)
        or len(place) != 2
        or not all(map(whole, place))
        or place[0] > place[1]
    ):
        raise damaged(f"the entry of tensor '{shown}' has no type, shape and place")
    return kind, shape, *place
