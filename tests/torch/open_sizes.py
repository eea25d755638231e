"""Times of an exported encoder whose batch and sequence stay open, beside the same compiled for
each size, paired in one run.

    python -m tests.torch.open_sizes [--rounds 40] [--processor]

--processor counts the calling thread's time on the processor, to which other programs on a busy
machine add less; it needs one thread.
"""

import argparse
import json
import time

import torch
from torch import nn

import tc

SIZES = ((1, 16), (2, 32), (3, 61), (4, 96), (8, 128))
WIDTH, HEADS = 256, 4


class Encoder(nn.Module):
    """Two layers of attention as BERT has them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "projection": nn.Linear(WIDTH, 3 * WIDTH),
                    "output": nn.Linear(WIDTH, WIDTH),
                    "first": nn.LayerNorm(WIDTH),
                    "wide": nn.Linear(WIDTH, 4 * WIDTH),
                    "narrow": nn.Linear(4 * WIDTH, WIDTH),
                    "second": nn.LayerNorm(WIDTH),
                }
            )
            for _ in range(2)
        )

    def forward(self, tokens):
        x = self.embedding(tokens)
        batch, length, _ = x.shape
        for layer in self.layers:
            heads = (
                layer["projection"](x)
                .view(batch, length, 3, HEADS, WIDTH // HEADS)
                .permute(2, 0, 3, 1, 4)
            )
            mixed = nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2])
            x = layer["first"](
                x + layer["output"](mixed.transpose(1, 2).reshape(batch, length, WIDTH))
            )
            x = layer["second"](x + layer["narrow"](nn.functional.gelu(layer["wide"](x))))
        return x


def fastest(calls, rounds, clock=time.perf_counter):
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for number, (run, argument) in enumerate(calls):
            begin = clock()
            run(argument)
            best[number] = min(best[number], clock() - begin)
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--processor",
        action="store_true",
        help="the thread's time on the processor, not the time that passes",
    )
    arguments = parser.parse_args()
    if arguments.processor and arguments.threads != 1:
        parser.error("--processor counts one thread's time: give --threads 1")
    clock = time.thread_time if arguments.processor else time.perf_counter
    torch.manual_seed(0)
    module = Encoder().eval()
    example = torch.randint(0, 1000, (2, 32))
    sizes = {
        0: torch.export.Dim("batch", min=1, max=16),
        1: torch.export.Dim("length", min=2, max=256),
    }
    exported = torch.export.export(module, (example,), dynamic_shapes=(sizes,), strict=False)
    options = {"log": False, "threads": arguments.threads}
    both = tc.compile(exported, specialise=0, **options)
    for batch, length in SIZES:
        tokens = torch.randint(0, 1000, (batch, length))
        fixed = tc.compile(module, inputs=(tokens,), **options)
        with torch.no_grad():
            expected = module(tokens)
        error = float((both(tokens) - expected).abs().max() / expected.abs().max())
        one, other = fastest([(both, tokens), (fixed, tokens)], arguments.rounds, clock)
        print(
            json.dumps(
                {
                    "batch": batch,
                    "length": length,
                    "open ms": round(1e3 * one, 3),
                    "fixed ms": round(1e3 * other, 3),
                    "ratio": round(one / other, 3),
                    "error": error,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
