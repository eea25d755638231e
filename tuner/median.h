// The middle of a few numbers.
#pragma once

#include <algorithm>
#include <vector>

namespace tc {

// The middle one of the values, of an even number the mean of the middle two; there has to be one.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace tc
