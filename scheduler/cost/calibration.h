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
// Rapids); B is a core that runs 512 bits in two turns, with a second cache of 1 MiB (Zen 4); C is a core
// with AVX2 only (B held to it).
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
// Of two things that a core does at a time (arithmetic, and lines that come from beyond the second cache) the
// longer one counts whole and this part of the shorter one. A; 1x1 convolutions with weights of 0.5 to 4 MiB.
inline constexpr double kNotHidden = 0.5;
// The same in Winograd's algorithm, whose filters are prefetched one point ahead: from the third cache, from
// memory. B.
inline constexpr double kNotHiddenOfFilters = 0.25, kNotHiddenFromMemory = 0.5;
// Sharpness of the transition between "issue bound" and "latency bound": the exponent of a p-norm of both. C:
// 8 sums, which the latency asks for, take 12 % longer than their multiply-adds, 10 of them 4 %, 12 of them 2
// %.
inline constexpr double kSharpness = 6;

// ---- Register tiles ----
// Cycles of a tile's loops before and after its sum. A; 1x1 convolutions of 16 to 64 channels.
inline constexpr double kTileStart = 12;
// Cycles that a vector of the epilogue of sums of bytes takes more in tiles of 20 accumulators and more than
// in those of 8: 3.6 and 1.9, whatever the length of the sum. B; 1x1 convolutions of 16 to 256 channels with
// vpdpbusd.
inline constexpr double kBehindSumsOfBytes = 1.7;
// Part of a step that each register too many costs, where a sum has four accumulators. A; tiles of 30 to 40
// registers.
inline constexpr double kSpillPerRegister = 0.25;
// Factor on the cycles where rows or columns do not divide: conditions, and panels read again by narrow
// tiles. A.
inline constexpr double kUnevenTile = 1.02;
// Factor by which each place in the target's menu of tiles is worse than the one before: decides between near
// equals.
inline constexpr double kNextOfMenu = 1.002;
// Streams that hardware prefetchers follow, from the third cache and from memory. B: 8 streams from memory
// take 7 % longer than 4.
inline constexpr int64_t kStreamsFromCache = 10, kStreamsFromMemory = 4;
// Factor on a choice whose steps each touch another page, more of them than the TLB knows. A; 1x1
// convolutions of plain layouts with 256 channels and more.
inline constexpr double kAcrossPages = 1.15;
// Factor on a choice whose lanes share elements of a constant that is larger than the second cache, on a core
// that runs in order. The model of a core (docs/riscv.md); 128x1200 by 312: 2.5 multiply-adds a cycle for 3.6
// with lanes along the constant.
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
// Factor on the cycles of statements in loops of their own: what one leaves for the next is no more in the
// first cache. A; layer norms and softmax of 128 x 768.
inline constexpr double kFromAfar = 1.3;

// ---- Winograd's algorithm ----
// Bandwidth beyond the second cache that one thread may take, as a share of the direct schedule's cycles:
// other threads and programs use it too. A, two threads.
inline constexpr double kShareOfBandwidth = 0.4;
// Part of the cycles that each 10^6 bytes of transformed filters count as: room is not free. By reasoning.
inline constexpr double kPriceOfMemory = 0.01;
// Factor on the analytic cost model's cycles where algorithms are compared: it leaves out that the transforms
// spill registers. A.
inline constexpr double kTransformSpills = 1.4;

// ---- The matrix unit ----
// Cycles per native vector: to fill a vector of sums with zeros, to store one; of a vector of products
// loaded, or a number spread over one. A; bf16x3 with one accumulator.
inline constexpr double kZeroVector = 1, kStoreVector = 3, kLoadVector = 0.75;
// Cycles of a band and panel before and after the products. A; layers of 7 x 7 results.
inline constexpr double kBandStart = 300;
// Steps of a sum up to which two accumulators by order at a time pay. A; int8x6.
inline constexpr double kFewSums = 2;
// Factor on the steps of pairs of tiles, over what their bytes let expect: where the constant's part stays in
// the first cache, where not. A; int8x6.
inline constexpr double kPairNear = 1.25, kPairFar = 1.2;
// Products on whole vectors in register tiles like those of float32 have a cost function that errs as theirs
// does: they have to gain only this share over the float32 sums, and count this much more against other
// algorithms than a unit of tiles does. B; int16 and bf16.
inline constexpr double kGainOfVectors = 0.92, kFactorOfVectors = 1.4 / 1.15;

}  // namespace tc::calibration
