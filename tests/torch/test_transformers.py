"""nn.MultiheadAttention, nn.TransformerEncoder, nn.TransformerDecoder and nn.Transformer, with
masks and without, by every road: a module, a program of torch.export and TorchScript, traced and
scripted, each made and run with gradients and under torch.no_grad(), where PyTorch takes its fast
paths."""

import contextlib
import io
import warnings

import pytest
import torch
from torch import nn

import tc

HEADS, WIDTH, TIME = 2, 8, 4


class Attention(nn.Module):
    """All that attention is told: masks of keys and scores, weights that are wanted or not, keys of
    another sequence."""

    def __init__(self, batch_first: bool):
        super().__init__()
        self.layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)

    def forward(self, x, memory, padding, causal, added):
        plain, weights = self.layer(x, x, x)
        padded, each = self.layer(x, x, x, key_padding_mask=padding, average_attn_weights=False)
        masked = self.layer(x, x, x, attn_mask=causal, need_weights=False)[0]
        both, both_weights = self.layer(x, x, x, attn_mask=causal, key_padding_mask=padding)
        across, across_weights = self.layer(x, memory, memory)
        floats = self.layer(x, x, x, attn_mask=added, need_weights=False)[0]
        return (
            plain,
            weights,
            padded,
            each,
            masked,
            both,
            both_weights,
            across,
            across_weights,
            floats,
        )


class Encoder(nn.Module):
    def __init__(self, norm_first: bool, activation: str):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 16, batch_first=True, norm_first=norm_first, activation=activation
        )
        self.encoder = nn.TransformerEncoder(
            layer, 1, nn.LayerNorm(WIDTH), enable_nested_tensor=not norm_first
        )

    def forward(self, x, memory, padding, causal, added):
        # What stands where the input was padding is no result: PyTorch's paths differ there.
        padded = self.encoder(x, src_key_padding_mask=padding).masked_fill(padding[:, :, None], 0.0)
        return (
            self.encoder(x),
            padded,
            self.encoder(x, mask=causal, src_key_padding_mask=padding),
            self.encoder(x, mask=added, is_causal=True),
        )


class Decoder(nn.Module):
    def __init__(self, norm_first: bool):
        super().__init__()
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(WIDTH, HEADS, 16, batch_first=True, norm_first=norm_first), 1
        )

    def forward(self, x, memory, padding, causal, added):
        masked = self.decoder(x, memory, tgt_mask=causal, tgt_key_padding_mask=padding)
        return (
            self.decoder(x, memory),
            masked,
            self.decoder(x, memory, tgt_mask=added, tgt_is_causal=True),
        )


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(WIDTH, HEADS, 1, 1, 16, batch_first=True)

    def forward(self, x, memory, padding, causal, added):
        return self.transformer(memory, x, tgt_mask=causal, tgt_key_padding_mask=padding)


class All(nn.Module):
    """One compilation for all."""

    def __init__(self):
        super().__init__()
        self.attention, self.encoder = Attention(True), Encoder(False, "relu")
        self.first, self.decoder, self.decoder_first, self.whole = (
            Encoder(True, "gelu"),
            Decoder(False),
            Decoder(True),
            Whole(),
        )

    def forward(self, x, memory, padding, causal, added):
        results = [
            self.attention(x, memory, padding, causal, added),
            self.encoder(x, memory, padding, causal, added),
            self.first(x, memory, padding, causal, added),
            self.decoder(x, memory, padding, causal, added),
            self.decoder_first(x, memory, padding, causal, added),
        ]
        return (
            results[0],
            results[1],
            results[2],
            results[3],
            results[4],
            self.whole(x, memory, padding, causal, added),
        )


class TimeFirst(nn.Module):
    """The axis of time before that of the batch, which both have here."""

    def __init__(self):
        super().__init__()
        self.attention = Attention(False)

    def forward(self, x, memory, padding, causal, added):
        return self.attention(x.transpose(0, 1), memory.transpose(0, 1), padding, causal, added)


class Undecided(nn.Module):
    """The module without what torch.export refuses: a mask of which it is not said whether it is
    causal."""

    def __init__(self, module):
        super().__init__()
        self.attention, self.decoder = module.attention, module.decoder.decoder

    def forward(self, x, memory, padding, causal, added):
        return self.attention(x, memory, padding, causal, added), self.decoder(
            x, memory, tgt_mask=added, tgt_is_causal=True
        )


def examples():
    generator = torch.Generator().manual_seed(5)
    x, memory = (
        torch.randn(3, TIME, WIDTH, generator=generator),
        torch.randn(3, 5, WIDTH, generator=generator),
    )
    padding = torch.tensor([[False, False, False, True], [False] * 4, [False, False, True, True]])
    causal = torch.triu(torch.ones(TIME, TIME, dtype=torch.bool), 1)
    return x, memory, padding, causal, nn.Transformer.generate_square_subsequent_mask(TIME)


def model_by(road, module, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if road == "script":
            return torch.jit.script(module)
        if road == "export":
            return torch.export.export(module, inputs, strict=False)
        if road == "trace":
            file = io.BytesIO()
            torch.jit.save(torch.jit.trace(module, inputs, check_trace=False), file)
            file.seek(0)
            return torch.jit.load(file)
        return module


def flat(value):
    return torch.utils._pytree.tree_leaves(value)


def check(module, road, gradients):
    torch.manual_seed(0)
    module, inputs = module().eval(), examples()
    if road == "export" and isinstance(module, All):
        module = Undecided(module)
    with contextlib.nullcontext() if gradients else torch.no_grad():
        expected = flat(module(*inputs))
        model = model_by(road, module, inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            compiled = tc.compile(
                model, inputs=None if road == "export" else inputs, log=False, threads=1
            )
        actual = flat(compiled(*inputs))
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        torch.testing.assert_close(one, other.detach(), rtol=1e-5, atol=1e-5)


ALWAYS = (("trace", False), ("script", False))


@pytest.mark.parametrize(
    "road, gradients",
    [
        pytest.param(road, gradients, marks=[] if (road, gradients) in ALWAYS else pytest.mark.full)
        for road in ("live", "export", "trace", "script")
        for gradients in (False, True)
    ],
)
def test_by_every_road(road, gradients):
    check(All, road, gradients)


@pytest.mark.full
@pytest.mark.parametrize("road", ("live", "export", "trace", "script"))
@pytest.mark.parametrize("gradients", (False, True))
def test_time_first(road, gradients):
    check(TimeFirst, road, gradients)


def test_traces_have_the_fast_paths():
    """Else the roads above would not be what they are called."""
    with torch.no_grad():
        graph = str(model_by("trace", All().eval(), examples()).inlined_graph)
    for operator in (
        "_native_multi_head_attention",
        "_transformer_encoder_layer_fwd",
        "_nested_tensor_from_mask",
        "to_padded_tensor",
    ):
        assert f"aten::{operator}" in graph


def test_graphs_of_dynamo():
    """They have the fast paths too, by torch.compile as by strict export."""
    torch.manual_seed(0)
    x = examples()[0]
    module = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True), 1
    ).eval()
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*[nN]ested.*")
        expected = module(x)
        exported = torch.export.export(module, (x,), strict=True)
        assert any(
            "_transformer_encoder_layer_fwd" in str(node.target) for node in exported.graph.nodes
        )
        results = (
            tc.compile(exported, log=False, threads=1)(x),
            torch.compile(module, backend="tc", options={"log": False, "threads": 1})(x),
        )
    for result in results:
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
