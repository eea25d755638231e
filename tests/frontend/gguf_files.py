"""GGUF files for tests: small seeded models, written with the package's own writer from models of
transformers, and files byte by byte, which may be damaged anywhere."""

import struct

import gguf
import numpy as np
from gguf.constants import GGUFValueType

KINDS = {
    int: (GGUFValueType.UINT32, "I"),
    float: (GGUFValueType.FLOAT32, "f"),
    bool: (GGUFValueType.BOOL, "?"),
}
F32, F16, Q4_0 = 0, 1, 2

# What every small model has as its vocabulary: the letters of bytes, a few merges and two tokens
# for control.
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)] + ["\u0120", ".", "1", "2"]
MERGES = ["h e", "l l", "he ll", "hell o", "\u0120 w", "o r", "\u0120w or", "l d", "\u0120wor ld"]
TOKENS = [*LETTERS, *(merge.replace(" ", "") for merge in MERGES), "<|im_start|>", "<|im_end|>"]
KINDS_OF_TOKENS = [1] * (len(TOKENS) - 2) + [3, 3]
END = len(TOKENS) - 1
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}{{ message['content'] "
    "}}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"
)


def add_tokenizer(writer):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types(KINDS_OF_TOKENS)
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(END)
    writer.add_chat_template(TEMPLATE)


# --- bytes --------------------------------------------------------------------------------------


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def field(key, value):
    """A field of a number, a text, a list of texts or an array."""
    if isinstance(value, bytes):  # a type and a value as they are
        return text(key) + value
    if isinstance(value, str):
        return text(key) + struct.pack("<I", GGUFValueType.STRING) + text(value)
    if isinstance(value, list):
        return (
            text(key)
            + struct.pack("<IIQ", GGUFValueType.ARRAY, GGUFValueType.STRING, len(value))
            + b"".join(map(text, value))
        )
    if isinstance(value, np.ndarray):
        kind = {"f4": GGUFValueType.FLOAT32, "i4": GGUFValueType.INT32}[value.dtype.str[1:]]
        return (
            text(key) + struct.pack("<IIQ", GGUFValueType.ARRAY, kind, len(value)) + value.tobytes()
        )
    kind, form = KINDS[type(value)]
    return text(key) + struct.pack("<I" + form, kind, value)


def tensor(name, sizes, kind=F32, offset=0):
    """A row of the list of tensors; sizes as the format has them, the innermost first."""
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def file_of(fields=(), tensors=(), data=b"", magic=b"GGUF", version=3, counts=None, alignment=32):
    fields, tensors = list(fields), list(tensors)
    head = magic + struct.pack("<IQQ", version, *(counts or (len(tensors), len(fields))))
    head += b"".join(fields) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


# --- models -------------------------------------------------------------------------------------


def split_pairs(matrix, heads):
    """The rows of a projection of queries or keys as llama.cpp's conversion has them: what is
    turned together lies side by side."""
    return (
        matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:])
        .swapaxes(1, 2)
        .reshape(matrix.shape)
    )


# Tensors of experts, by the ends of their names in transformers.
OF_EXPERTS = {
    "mlp.experts.gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"),
    "mlp.experts.down_proj": ("ffn_down_exps",),
    "mlp.gate.weight": ("ffn_gate_inp",),
    "mlp.shared_expert_gate.weight": ("ffn_gate_inp_shexp",),
}


def tensors_of_experts(name, array):
    """{name in a GGUF file: array} of a tensor of experts; empty for others."""
    own = next((own for end, own in OF_EXPERTS.items() if name.endswith(end)), ())
    parts = np.split(array, len(own), axis=1) if len(own) > 1 else [array.squeeze()]
    return {f"blk.{name.split('.')[2]}.{each}.weight": part for each, part in zip(own, parts)}


def by_expert(name, array):
    """{name: matrix} of a tensor as old files of llama.cpp have it: those of experts one by one."""
    if not name.endswith("_exps.weight"):
        return {name: array}
    own = name.removesuffix("_exps.weight")
    return {f"{own}.{expert}.weight": each for expert, each in enumerate(array)}


def write_model(path, architecture, model, config, more=None, tensors=(), divided=False):
    """Writes a model of transformers in float32. `more` adds fields to the writer; `divided` gives
    each expert tensors of its own."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(size)
    writer.add_value_length(size)
    if more:
        more(writer)
    add_tokenizer(writer)
    names = gguf.get_tensor_name_map(
        next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture),
        config.num_hidden_layers,
    )
    for name, value in model.state_dict().items():
        array = value.detach().float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if architecture in ("llama", "smollm3") and ("q_proj" in name or "k_proj" in name):
            array = split_pairs(
                array,
                config.num_attention_heads if "q_proj" in name else config.num_key_value_heads,
            )
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            array = array + 1
        found = tensors_of_experts(name, array) or {
            names.get_name(name, try_suffixes=(".weight", ".bias")): array
        }
        if divided:
            found = {key: part for own in found.items() for key, part in by_expert(*own).items()}
        for own, each in found.items():
            writer.add_tensor(own, np.ascontiguousarray(each, np.float32))
    for name, array in tensors:
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
