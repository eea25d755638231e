"""GGUF files for `tests.bench.language`: a model's weights in another format, or seeded weights
with the sizes of a model whose weights are not at hand.

    python -m tests.bench.language_files MODEL.gguf FORMAT OUT.gguf
    python -m tests.bench.language_files SHAPE FORMAT OUT.gguf --tokens-of MODEL.gguf

SHAPE is a row of `SHAPES` below, FORMAT one of F32, F16, Q8_0, Q4_0, Q4_1 and Q4_K. Seeded weights
are normal numbers with a deviation of 0.02, tokens are those of MODEL.gguf and, behind them, unused
ones. Matrices whose rows are no multiple of 256 have no Q4_K, they get Q5_0, as llama.cpp's own
quantisation has it. Norms and biases are float32.
"""

import argparse
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

KINDS = gguf.GGMLQuantizationType
# `general.file_type`, which OpenVINO asks for.
FILE_TYPES = {
    "F32": gguf.LlamaFileType.ALL_F32,
    "F16": gguf.LlamaFileType.MOSTLY_F16,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
    "Q4_1": gguf.LlamaFileType.MOSTLY_Q4_1,
    "Q4_K": gguf.LlamaFileType.MOSTLY_Q4_K_S,
}


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, as its config.json has them."""

    architecture: str
    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    tokens: int
    base: float
    context: int
    biases: bool = False  # of queries, keys and values


SHAPES = {
    "smollm2-135m": Shape("llama", 576, 1536, 30, 9, 3, 49152, 1e5, 8192),
    "qwen2.5-0.5b": Shape("qwen2", 896, 4864, 24, 14, 2, 151936, 1e6, 32768, biases=True),
    "llama-3.2-1b": Shape("llama", 2048, 8192, 16, 32, 8, 128256, 5e5, 131072),
}


def in_blocks_of_256(weights: np.ndarray) -> np.ndarray:
    """Q4_K of a matrix [rows, columns]: blocks of 256 in groups of 32, each group with a scale and
    a least value of 6 bits (`block_q4_K` of ggml-common.h; [rows, bytes] of uint8)."""
    groups = weights.reshape(-1, 8, 32)
    least = np.minimum(groups.min(axis=2), 0)
    scale = (groups.max(axis=2) - least) / 15
    whole = np.stack([scale.max(axis=1), (-least).max(axis=1)], axis=1) / 63
    whole = whole.astype(np.float16)
    of_group = np.stack([scale, -least], axis=1)  # [blocks, scale or least value, group]
    wide = whole.astype(np.float32)[:, :, None]
    six = np.rint(np.divide(of_group, wide, out=np.zeros_like(of_group), where=wide > 0))
    six = np.clip(six, 0, 63).astype(np.uint8)
    exact = wide * six
    step, offset = exact[:, 0, :, None], exact[:, 1, :, None]
    digits = np.divide(groups + offset, step, out=np.zeros_like(groups), where=step > 0)
    digits = np.clip(np.rint(digits), 0, 15).astype(np.uint8)
    packed = (digits[:, 0::2] | digits[:, 1::2] << 4).reshape(-1, 128)
    low, high = six[:, :, :4], six[:, :, 4:]  # 4 groups below, 4 above
    scales = np.concatenate(
        [
            low[:, 0] | (high[:, 0] >> 4) << 6,
            low[:, 1] | (high[:, 1] >> 4) << 6,
            (high[:, 0] & 15) | (high[:, 1] & 15) << 4,
        ],
        axis=1,
    )
    blocks = np.concatenate([whole.view(np.uint8), scales, packed], axis=1)
    return blocks.reshape(len(weights), -1)


def packed(weights: np.ndarray, kind: str) -> tuple[np.ndarray, gguf.GGMLQuantizationType]:
    """A matrix in a format, and the format that it has got."""
    if kind == "Q4_K" and weights.shape[1] % 256:
        kind = "Q5_0"
    if kind == "Q4_K":
        return in_blocks_of_256(weights), KINDS.Q4_K
    return quantize(weights, KINDS[kind]), KINDS[kind]


def add(writer: gguf.GGUFWriter, name: str, values: np.ndarray, kind: str) -> None:
    if values.ndim < 2:
        writer.add_tensor(name, values.astype(np.float32))
        return
    stored, own = packed(values, kind)
    writer.add_tensor(name, stored, raw_dtype=own)


def tensors_of(shape: Shape):
    """Name and shape of each tensor; embedding and last layer are one matrix."""
    keys = shape.width // shape.heads * shape.key_heads
    yield "token_embd.weight", (shape.tokens, shape.width)
    yield "output_norm.weight", (shape.width,)
    for layer in range(shape.layers):
        for name, rows, columns in [
            ("attn_q", shape.width, shape.width),
            ("attn_k", keys, shape.width),
            ("attn_v", keys, shape.width),
            ("attn_output", shape.width, shape.width),
            ("ffn_gate", shape.inner, shape.width),
            ("ffn_up", shape.inner, shape.width),
            ("ffn_down", shape.width, shape.inner),
        ]:
            yield f"blk.{layer}.{name}.weight", (rows, columns)
            if shape.biases and name in ("attn_q", "attn_k", "attn_v"):
                yield f"blk.{layer}.{name}.bias", (rows,)
        yield f"blk.{layer}.attn_norm.weight", (shape.width,)
        yield f"blk.{layer}.ffn_norm.weight", (shape.width,)


def seeded(name: str, sizes: tuple[int, ...]) -> np.ndarray:
    """The values of a tensor: ones for norms, else normal numbers that its name seeds."""
    if name.endswith("norm.weight"):
        return np.ones(sizes, np.float32)
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    return draws.standard_normal(sizes, dtype=np.float32) * np.float32(0.02)


def copy_fields(
    writer: gguf.GGUFWriter, reader: gguf.GGUFReader, prefix: str, without: tuple[str, ...] = ()
) -> None:
    for field in reader.fields.values():
        if field.name.startswith(prefix) and field.name not in without:
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub)


def write_seeded(shape: Shape, kind: str, out: Path, tokens_of: Path) -> None:
    reader = gguf.GGUFReader(tokens_of)
    writer = gguf.GGUFWriter(out, shape.architecture, use_temp_file=True)
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(shape.base)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_vocab_size(shape.tokens)
    lists = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.scores")
    tokens, kinds = (reader.fields[each].contents() for each in lists[:2])
    more = shape.tokens - len(tokens)
    writer.add_token_list([*tokens, *(f"[unused {number}]" for number in range(more))])
    writer.add_token_types([*kinds, *[gguf.TokenType.UNUSED] * more])
    copy_fields(writer, reader, "tokenizer.", without=lists)
    for name, sizes in tensors_of(shape):
        add(writer, name, seeded(name, sizes), kind)
    close(writer)


def write_converted(source: Path, kind: str, out: Path) -> None:
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(out, architecture, use_temp_file=True)
    writer.add_file_type(FILE_TYPES[kind])
    for prefix in (architecture + ".", "tokenizer."):
        copy_fields(writer, reader, prefix)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        add(writer, tensor.name, values.reshape(tuple(tensor.shape)[::-1]), kind)
    close(writer)


def close(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.language_files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="MODEL.gguf|SHAPE")
    parser.add_argument("format", choices=FILE_TYPES)
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--tokens-of", type=Path, metavar="MODEL.gguf")
    arguments = parser.parse_args()
    if arguments.source not in SHAPES:
        if not Path(arguments.source).is_file():
            parser.error(f"'{arguments.source}' is no file and none of {', '.join(SHAPES)}")
        write_converted(Path(arguments.source), arguments.format, arguments.out)
    elif arguments.tokens_of is None:
        parser.error("a shape has no tokens of its own; give --tokens-of MODEL.gguf")
    else:
        write_seeded(SHAPES[arguments.source], arguments.format, arguments.out, arguments.tokens_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
