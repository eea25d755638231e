// Quantised values as graph passes see them: integers with a scale and a zero point that are constants.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tc {

struct Dequantised {
  const Node* node = nullptr;
  ValueId number = kNoValue;   // the integers
  std::vector<float> scales;   // one, or one per element of the axis
  std::vector<int64_t> zeros;  // none, one, or one per element of the axis
  int64_t axis = 0;

  bool is_scalar() const { return scales.size() == 1 && zeros.size() <= 1; }
  bool is_byte(const Graph& graph) const {
    return graph[number].dtype == DType::I8 || graph[number].dtype == DType::U8;
  }
  float scale(size_t channel) const { return scales[scales.size() == 1 ? 0 : channel]; }
  int64_t zero(size_t channel) const { return zeros.empty() ? 0 : zeros[zeros.size() == 1 ? 0 : channel]; }
  bool same_units(const Dequantised& other) const {
    return scales == other.scales && zero(0) == other.zero(0);
  }
};

// The integers, scales and zero points that a dequantising node reads, where its result is f32 and the scales
// are finite and positive; else nothing.
std::optional<Dequantised> dequantised_by(const Graph& graph, const Node& node);
// The same for a quantising node: `number` is its result.
std::optional<Dequantised> quantisation_of(const Graph& graph, const Node& node);

// Whether each element of each result is an element of input 0 or, for a join, of any input. False for
// padding, which adds other elements.
bool moves_elements(const Graph& graph, const Node& node);

}  // namespace tc
