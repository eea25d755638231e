// The measured constants of the cost model, in one table: what no manual states and no target's row holds.
//
// Each line gives the unit, the machine of the measurement and the layers that show the constant. To measure
// one again, change it here, build, and compare with the build before in one run:
//
//   bazel run -c opt //tests/bench:kernels           single layers, as a share of the machine's limit
//   python -m tests.bench.builds BEFORE AFTER        whole networks, in alternating runs
//   python -m tests.bench.artefacts write|compare    which networks' code the change reaches at all
//
// Machines: A is a server core with 512-bit multiply-add ports, a second cache of 2 MiB and AMX (Sapphire
// Rapids); B is a core that executes instructions on 512 bits in two halves, with a second cache of 1 MiB
// (Zen 4); C is a core with AVX2 only (B restricted to it).
#pragma once

#include <cstdint>

namespace tc::calibration {

// ---- Shares of a cache ----
// What else runs on a core needs room, and no cache replaces its lines perfectly: the part of its size that
// one kernel can count on. Dimensionless.
//
// A panel of constants larger than this share of the second cache
// leaves too little for what it is multiplied by: it is divided into K-blocks. B; GEMM of 512^3 to 2048^3 and
// the fully connected layers of AlexNet.
inline constexpr double kLargePanel = 0.4;
// The K-block of such a panel, as a share of the second cache. B; as above.
inline constexpr double kBlockOfPanel = 0.15;
// The partial sums that wait in memory between K-blocks, as a share of the second cache. B; as above.
inline constexpr double kWaitingSums = 0.25;
// An operand that is read again by each panel stays in the second cache up to this share of it. A; 1x1
// convolutions of ResNet-50 with the panels outermost or innermost.
inline constexpr double kReadAgain = 0.6;
// Transformed tiles and products of one block of Winograd's algorithm. A; 3x3 convolutions of 64 to 512
// channels.
inline constexpr double kBlockOfTiles = 0.6;
// Input of a band and a panel of weights of the matrix unit. A; the layers of ResNet-50 in bf16x3.
inline constexpr double kBandAndPanel = 0.7;
// A point's filter up to this share of the second cache is still there for the next block: larger ones are
// prefetched. A.
inline constexpr double kFilterNear = 0.25;
// A workload that fills this share of the second cache is large: the tuner then draws schedules with blocks
// more often.
inline constexpr double kLargeWorkload = 0.5;
// A thread's transformed tiles of a large block, and a filter that is still there for the next block: shares
// of the third cache (5 and 24 of 32 MiB). B; 3x3 convolutions of 512 channels, blocks of 1 to 64 tiles.
inline constexpr double kScratchOfThird = 0.15625, kFilterInThird = 0.75;
// A constant larger than this share of the third cache comes from memory: a model that has one such constant
// has several. B; matrix x vector of 1 to 64 MiB.
inline constexpr double kConstantInThird = 0.25;

// ---- What overlaps ----
// Where a core does two things at the same time (arithmetic, and loading lines from beyond the second cache),
// the longer one counts in full, and this part of the shorter one is added. A; 1x1 convolutions with weights
// of 0.5 to 4 MiB.
inline constexpr double kNotHidden = 0.5;
// The same in Winograd's algorithm, whose filters are prefetched one point ahead: from the third cache, from
// memory. B.
inline constexpr double kNotHiddenOfFilters = 0.25, kNotHiddenFromMemory = 0.5;
// Sharpness of the transition between "issue bound" and "latency bound": the exponent of a p-norm of both. C:
// 8 sums, as many as the latency requires, take 12 % longer than their multiply-adds, 10 sums 4 %, 12 sums 2
// %.
inline constexpr double kSharpness = 6;

// ---- Register tiles ----
// Cycles of a tile's loops before and after its sum. A; 1x1 convolutions of 16 to 64 channels.
inline constexpr double kTileStart = 12;
// Additional cycles per vector of the epilogue of sums of bytes in tiles of 20 or more accumulators, compared
// with tiles of 8: 3.6 instead of 1.9, whatever the length of the sum. B; 1x1 convolutions of 16 to 256
// channels with vpdpbusd.
inline constexpr double kAfterSumsOfBytes = 1.7;
// Share of a step's cycles that is added for each register that a tile of four accumulators needs but the
// core does not have. A; tiles of 30 to 40 registers.
inline constexpr double kSpillPerRegister = 0.25;
// Factor on the cycles where the tile does not divide the extents: for conditions, and for panels that narrow
// tiles read again. A.
inline constexpr double kUnevenTile = 1.02;
// Factor by which each tile in the target's menu counts as worse than the one before it: decides between
// tiles of nearly equal cost.
inline constexpr double kNextOfMenu = 1.002;
// Streams that hardware prefetchers follow, from the third cache and from memory. B: 8 streams from memory
// take 7 % longer than 4.
inline constexpr int64_t kStreamsFromCache = 10, kStreamsFromMemory = 4;
// Factor on a choice whose steps each read another page, where these are more pages than the TLB holds. A;
// 1x1 convolutions of plain layouts with 256 channels and more.
inline constexpr double kAcrossPages = 1.15;
// Factor on a choice whose lanes share elements of a constant that is larger than the second cache, on a core
// that runs in order. The model of a core (docs/riscv.md); 128x1200 by 312: 2.5 multiply-adds a cycle instead
// of 3.6 with lanes along the constant.
inline constexpr double kBroadcastFromMemory = 1.4;
// Factor on a product whose lanes are twice those of a block of channels, on a core that runs in order: fewer
// instructions, which the analytic cost model does not count. The model of a core (docs/riscv.md); TinyBERT
// and nsNet2.
inline constexpr double kDoubledLanes = 0.94;
// Factor on a choice whose lanes are parts of one sum. A; batch matrix products of attention.
inline constexpr double kOverReduction = 1.1;
// Factor on a choice whose columns are a batch of unknown size, which may be one. By reasoning: a tile of
// four columns and more is then mostly empty.
inline constexpr double kUnknownBatch = 4;

// ---- Element-wise loops ----
// Factor on the cycles of statements in loops of their own: what one statement writes has left the first
// cache when the next one reads it. A; layer norms and softmax of 128 x 768.
inline constexpr double kFromAfar = 1.3;

// ---- Winograd's algorithm ----
// Bandwidth beyond the second cache that one thread may take, as a share of the direct schedule's cycles:
// other threads and programs use it too. A, two threads.
inline constexpr double kShareOfBandwidth = 0.4;
// Share of the cycles that is added for each 10^6 bytes of transformed filters: memory is not free. By
// reasoning.
inline constexpr double kPriceOfMemory = 0.01;
// Factor on the analytic cost model's cycles where algorithms are compared: it leaves out that the transforms
// spill registers. A.
inline constexpr double kTransformSpills = 1.4;

// ---- The matrix unit ----
// Cycles per native vector: to set a vector of sums to zero; to store one; to load a vector of operands, or
// to broadcast a number to one. A; bf16x3 with one accumulator.
inline constexpr double kZeroVector = 1, kStoreVector = 3, kLoadVector = 0.75;
// Cycles of a band and panel before and after the products. A; layers of 7 x 7 results.
inline constexpr double kBandStart = 300;
// The most steps of a sum with which it pays to compute two accumulators of each order at a time. A; int8x6.
inline constexpr double kFewSums = 2;
// Factor on the cycles of a step of two tiles at a time, compared with what its bytes suggest: where the
// constant's part stays in the first cache, and where it does not. A; int8x6.
inline constexpr double kPairNear = 1.25, kPairFar = 1.2;
// Products on whole vectors use register tiles like those of float32, so their cost function has the same
// errors as that of the float32 sums: their cycles only have to stay within this share of those of the
// float32 sums. Where algorithms are compared with each other, their cycles are multiplied by this factor;
// those of a unit with tiles are not. B; int16 and bf16.
inline constexpr double kGainOfVectors = 0.92, kFactorOfVectors = 1.4 / 1.15;

}  // namespace tc::calibration
