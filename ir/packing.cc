// Makes packed constants: rearranged, linearly combined, split into terms or digits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ir/error.h"
#include "ir/loop.h"
#include "ir/weight_pairs.h"

namespace tc {
namespace {

// Copies one packed constant: walks the packed elements in order, following the original's indices.
class Packer {
 public:
  Packer(const Packing& packing, const Tensor& original, Tensor& result)
      : packing_(packing),
        shape_(packing.combined_shape()),
        original_(original),
        result_(result),
        index_(packing.index.size()),
        element_(static_cast<size_t>(size_of(result.dtype))) {
    size_t rank = shape_.size();
    strides_.assign(rank, 1);
    for (size_t i = rank; i-- > 1;) strides_[i - 1] = strides_[i] * shape_[i];
    for (const std::string& iterator : packing.iterators) {
      std::vector<int64_t> step;
      for (const Affine& index : packing.index) step.push_back(index.coefficient(iterator));
      steps_.push_back(step);
    }
    for (size_t d = 0; d < rank; ++d) index_[d] = packing.index[d].constant();
    Tensor filled(result.dtype, {1});
    filled.set(0, packing.fill);
    fill_ = filled.bytes;
  }

  void run() {
    if (result_.count() > 0) walk(0);
  }

 private:
  void walk(size_t depth) {
    if (depth + 1 >= steps_.size()) return copy_row();
    for (int64_t i = 0; i < result_.shape[depth]; ++i) {
      walk(depth + 1);
      for (size_t d = 0; d < index_.size(); ++d) index_[d] += steps_[depth][d];
    }
    for (size_t d = 0; d < index_.size(); ++d) index_[d] -= result_.shape[depth] * steps_[depth][d];
  }

  // The elements along the innermost iterator: those whose indices are inside are one range.
  void copy_row() {
    int64_t extent = steps_.empty() ? 1 : result_.shape.back();
    int64_t begin = 0, end = extent, flat = 0, flat_step = 0;
    for (size_t d = 0; d < index_.size(); ++d) {
      int64_t step = steps_.empty() ? 0 : steps_.back()[d], size = shape_[d];
      flat += index_[d] * strides_[d];
      flat_step += step * strides_[d];
      auto inside = [&](int64_t i) {
        int64_t at = index_[d] + i * step;
        return at >= 0 && at < size;
      };
      while (begin < end && !inside(begin)) ++begin;
      while (begin < end && !inside(end - 1)) --end;
    }
    for (int64_t i = 0; i < begin; ++i) put(fill_.data());
    const uint8_t* source = original_.bytes.data();
    for (int64_t i = begin; i < end; ++i) put(source + static_cast<size_t>(flat + i * flat_step) * element_);
    for (int64_t i = end; i < extent; ++i) put(fill_.data());
  }

  void put(const uint8_t* source) {
    uint8_t* target = result_.bytes.data() + written_;
    written_ += element_;
    if (element_ == 4) {
      std::memcpy(target, source, 4);  // a constant size, the most frequent one, compiles to a plain move
    } else {
      std::memcpy(target, source, element_);
    }
  }

  const Packing& packing_;
  const std::vector<int64_t> shape_;  // of the original
  const Tensor& original_;
  Tensor& result_;
  std::vector<int64_t> index_;  // of the original, at the current position
  size_t element_, written_ = 0;
  std::vector<int64_t> strides_;
  std::vector<std::vector<int64_t>> steps_;  // per iterator: change of each original index
  std::vector<uint8_t> fill_;
};

// Replaces one dimension of dense data by combinations of its elements; its stride is `inner`.
void combine(const Combination& how, size_t inner, const std::vector<double>& data,
             std::vector<double>& result) {
  const size_t from = how.rows.at(0).size(), to = how.rows.size(), outer = data.size() / (from * inner);
  result.assign(outer * to * inner, 0);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < to; ++i) {
      double* target = result.data() + (o * to + i) * inner;
      for (size_t k = 0; k < from; ++k) {
        const double factor = how.rows[i][k];
        const double* source = data.data() + (o * from + k) * inner;
        for (size_t j = 0; factor != 0 && j < inner; ++j) target[j] += factor * source[j];
      }
    }
  }
}

// The original after the packing's combinations; works on one slice at a time of the dimensions before the
// combined ones.
Tensor combined(const Packing& packing, const Tensor& original) {
  Tensor result(original.dtype, packing.combined_shape());
  size_t first = packing.original_shape.size();
  for (const Combination& each : packing.combinations) first = std::min(first, each.dimension);
  int64_t slices = 1;
  for (size_t d = 0; d < first; ++d) slices *= packing.original_shape[d];
  std::vector<size_t> inner;
  std::vector<int64_t> shape = packing.original_shape;
  for (const Combination& each : packing.combinations) {
    size_t size = 1;
    for (size_t d = each.dimension + 1; d < shape.size(); ++d) size *= static_cast<size_t>(shape[d]);
    inner.push_back(size);
    shape[each.dimension] = static_cast<int64_t>(each.rows.size());
  }
  std::vector<double> data, next;
  const bool single = original.dtype == DType::F32;
  auto* numbers = reinterpret_cast<float*>(result.bytes.data());
  const auto* source = reinterpret_cast<const float*>(original.bytes.data());
  for (int64_t slice = 0, at = 0, from = 0; slice < slices; ++slice) {
    data.resize(static_cast<size_t>(original.count() / slices));
    for (double& value : data) {
      value = single ? static_cast<double>(source[from]) : original.as_double(from);
      ++from;
    }
    for (size_t i = 0; i < inner.size(); ++i) {
      combine(packing.combinations[i], inner[i], data, next);
      std::swap(data, next);
    }
    for (double value : data) {
      if (single) numbers[at] = static_cast<float>(value);
      else result.set(at, value);
      ++at;
    }
  }
  return result;
}

// The tensor's sizes around one of its dimensions.
struct Along {
  int64_t outer = 1, count = 1, inner = 1;

  Along(const std::vector<int64_t>& shape, size_t dim) : count(shape[dim]) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != dim) (d < dim ? outer : inner) *= shape[d];
    }
  }
};

size_t position_of(const Packing& packing, const std::string& iterator) {
  const auto found = std::find(packing.iterators.begin(), packing.iterators.end(), iterator);
  TC_CHECK(found != packing.iterators.end(), "an iterator '", iterator, "' of packed buffer '",
           packing.buffer, "'");
  return static_cast<size_t>(found - packing.iterators.begin());
}

// Splits values into terms. `values` has one element along the iterator of the terms.
Tensor terms_of(const Packing& packing, DType dtype, const std::vector<int64_t>& shape,
                const Tensor& values) {
  Tensor result(dtype, shape);
  const Along along(shape, position_of(packing, packing.terms));
  const auto* numbers = values.data<float>();
  for (int64_t o = 0; o < along.outer; ++o) {
    for (int64_t i = 0; i < along.inner; ++i) {
      float rest = numbers[o * along.inner + i];
      for (int64_t term = 0; term < along.count; ++term) {
        const int64_t at = (o * along.count + term) * along.inner + i;
        if (dtype == DType::BF16) {
          const uint16_t bits = float_to_bfloat(rest);
          result.data<uint16_t>()[at] = bits;
          rest -= bfloat_to_float(bits);
        } else {
          result.set(at, static_cast<double>(rest));
          rest -= static_cast<float>(result.as_double(at));
        }
      }
    }
  }
  return result;
}

// Walks a tensor's elements in order and numbers the group that each is in. Elements of a group agree in some
// given dimensions; groups are numbered with the last of these dimensions innermost.
class GroupNumbers {
 public:
  GroupNumbers(const std::vector<int64_t>& shape, const std::vector<size_t>& dims)
      : shape_(shape), index_(shape.size(), 0), steps_(shape.size(), 0) {
    for (size_t i = dims.size(); i-- > 0;) {
      steps_[dims[i]] = count_;
      count_ *= shape[dims[i]];
      groups_shape_.insert(groups_shape_.begin(), shape[dims[i]]);
    }
  }

  const std::vector<int64_t>& groups_shape() const { return groups_shape_; }
  int64_t count() const { return count_; }

  int64_t next() {
    const int64_t result = number_;
    advance(shape_.size());
    return result;
  }

  // The group numbers of the next elements along the last dimension: `first`, and then `step` more for each.
  // Only at the start of a row.
  struct Row {
    int64_t first, step, size;
  };
  Row next_row() {
    const Row result{number_, steps_.back(), shape_.back()};
    advance(shape_.size() - 1);
    return result;
  }

 private:
  // To the next element of the first `rank` dimensions.
  void advance(size_t rank) {
    for (size_t d = rank; d-- > 0;) {
      number_ += steps_[d];
      if (++index_[d] < shape_[d]) break;
      number_ -= shape_[d] * steps_[d];
      index_[d] = 0;
    }
  }

  const std::vector<int64_t> shape_;
  std::vector<int64_t> index_, steps_, groups_shape_;
  int64_t count_ = 1, number_ = 0;
};

GroupNumbers scale_numbers(const Packing& packing, const std::vector<int64_t>& shape) {
  std::vector<size_t> dims;
  for (const std::string& iterator : packing.scaled) dims.push_back(position_of(packing, iterator));
  return GroupNumbers(shape, dims);
}

// Not std::max: a NaN has to stay.
void raise(float& largest, float value) {
  if (!(value <= largest) && !std::isnan(largest)) largest = value;
}

// The scales of 16-bit whole numbers, of which those of one scale along the iterators after the terms add up
// to a limited sum.
Tensor scales_of_sums(const Packing& packing, const Tensor& values) {
  GroupNumbers scale_of = scale_numbers(packing, values.shape);
  std::vector<size_t> dims;
  int64_t summed = 1;
  for (size_t d = 0, terms = position_of(packing, packing.terms); d < values.shape.size(); ++d) {
    const bool scaled = std::count(packing.scaled.begin(), packing.scaled.end(), packing.iterators[d]) > 0;
    if (d > terms && !scaled) summed *= values.shape[d];
    else dims.push_back(d);
  }
  GroupNumbers sum_of(values.shape, dims);
  std::vector<float> sums(static_cast<size_t>(sum_of.count()), 0);
  Tensor result(DType::F32, scale_of.groups_shape());
  auto* scales = result.data<float>();
  constexpr double kLargest = 32767;
  // Rounding adds at most 0.5 to each number.
  const double most = kLargestSum - 0.5 * static_cast<double>(summed);
  const auto* from = values.data<float>();
  for (const float* end = from + values.count(); from != end; ++from) {
    const float magnitude = std::abs(*from);
    float &sum = sums[static_cast<size_t>(sum_of.next())], &scale = scales[scale_of.next()];
    sum += magnitude;
    raise(scale, static_cast<float>(
                     std::max(static_cast<double>(sum) / most, static_cast<double>(magnitude) / kLargest)));
  }
  return result;
}

// The whole number that the largest magnitude within one scale is mapped to; `digits` counts where the type
// is i8.
double largest_number(const Packing& packing, int64_t digits) {
  return packing.words.empty() ? largest_of_digits(digits) : kLargestInWords;
}

Tensor scales_of(const Packing& packing, DType dtype, int64_t digits, const Tensor& values) {
  if (dtype == DType::I16) return scales_of_sums(packing, values);
  GroupNumbers numbers = scale_numbers(packing, values.shape);
  Tensor result(DType::F32, numbers.groups_shape());
  auto* scales = result.data<float>();
  const auto largest = static_cast<float>(largest_number(packing, digits));
  const auto* from = values.data<float>();
  for (const float* end = from + values.count(); from != end;) {
    const GroupNumbers::Row row = numbers.next_row();
    for (int64_t i = 0; i < row.size; ++i) raise(scales[row.first + i * row.step], std::abs(*from++));
  }
  for (int64_t i = 0; i < result.count(); ++i) scales[i] /= largest;
  return result;
}

// For each group of the constant that `packing` makes, 128 times the sum of its numbers.
Tensor sums_of(const Packing& packing, const Tensor& values) {
  constexpr int32_t kFactor = 128;
  GroupNumbers numbers = scale_numbers(packing, values.shape);
  Tensor result(DType::I32, numbers.groups_shape());
  auto* sums = result.data<int32_t>();
  const auto* from = values.data<int8_t>();
  for (const int8_t* end = from + values.count(); from != end; ++from)
    sums[numbers.next()] += kFactor * *from;
  return result;
}

// A value as a whole number in units of the scale. The quotient is not finite where all values are zero, so
// that the scale is too, or where an infinite value makes the scale infinite or NaN.
int64_t whole_number(float value, float scale) {
  const double quotient = static_cast<double>(value) / static_cast<double>(scale);
  return std::isfinite(quotient) ? std::llrint(quotient) : 0;
}

// Divides values by their scales and splits them into digits to base 256, the highest first; of i16 into the
// one whole number. `values` has one element along the iterator of the terms.
Tensor digits_of(const Packing& packing, DType dtype, const std::vector<int64_t>& shape,
                 const Tensor& values) {
  const Along along(shape, position_of(packing, packing.terms));
  const Tensor scales = scales_of(packing, dtype, along.count, values);
  GroupNumbers numbers = scale_numbers(packing, values.shape);
  Tensor result(dtype, shape);
  auto* target = dtype == DType::I8 ? result.data<int8_t>() : nullptr;
  auto* number = dtype == DType::I16 ? result.data<int16_t>() : nullptr;
  const auto *from = values.data<float>(), *scale_of = scales.data<float>();
  std::vector<int64_t> rest(static_cast<size_t>(along.inner));
  for (int64_t o = 0; o < along.outer; ++o) {
    for (int64_t& whole : rest) whole = whole_number(*from++, scale_of[numbers.next()]);
    for (const int64_t whole : rest)
      if (number != nullptr) *number++ = static_cast<int16_t>(whole);
    for (int64_t digit = 0; digit < along.count && target != nullptr; ++digit) {
      for (const int64_t whole : rest) {
        int64_t above = whole;
        for (int64_t lower = along.count - 1; lower > digit; --lower) above = (above + 128) >> 8;
        *target++ = static_cast<int8_t>(static_cast<uint8_t>(above & 255));
      }
    }
  }
  return result;
}

// Packs three numbers below 2^31 in magnitude into two words; each is rounded to the bits that the words hold
// of it.
std::array<uint32_t, 2> words_of_numbers(int64_t first, int64_t middle, int64_t last) {
  constexpr int kLowBits = 32 - kFirstWordShift;
  constexpr int64_t kLow = (int64_t{1} << kLowBits) - 1, kHalf = int64_t{1} << (kLowBits - 1);
  const auto with_low = [&](int64_t number, int64_t low) {
    return static_cast<uint32_t>((((number - low + kHalf) >> kLowBits) << kLowBits) + low);
  };
  const int64_t bits = (middle + (int64_t{1} << (kSecondWordShift - 1))) >> kSecondWordShift;
  const uint32_t second = with_low(last, bits & kLow);
  // The upper part is reduced by what the second word, shifted left, adds there.
  const int64_t upper = ((bits >> kLowBits) - (second >> kLowBits)) & kLow;
  return {with_low(first, upper), second};
}

// A weight in units of its scale as a whole number. A denormal scale is inexact, so results are clamped to
// the largest number. 0 where the quotient is infinite or NaN, as it is where the scale is zero because all
// values are.
int64_t number_in_words(double quotient) {
  constexpr double kRound = 0x1.8p52;  // added and taken away, it leaves the nearest whole number
  if (!std::isfinite(quotient)) return 0;
  return static_cast<int64_t>(std::clamp<double>(quotient, -kLargestInWords, kLargestInWords) + kRound -
                              kRound);
}

// Packs values into words. `values` has three elements along the iterator of the words.
Tensor words_of(const Packing& packing, const std::vector<int64_t>& shape, const Tensor& values) {
  const Along along(values.shape, position_of(packing, packing.words));
  const Tensor scales = scales_of(packing, DType::I32, 0, values);
  std::vector<double> inverses(scales.data<float>(), scales.data<float>() + scales.count());
  for (double& each : inverses) each = 1 / each;
  GroupNumbers numbers = scale_numbers(packing, values.shape);
  Tensor result(DType::I32, shape);
  auto* to = result.data<int32_t>();
  const auto* from = values.data<float>();
  std::vector<int64_t> whole(static_cast<size_t>(kValuesInWords * along.inner));
  const auto inner = static_cast<size_t>(along.inner);
  for (int64_t o = 0; o < along.outer; ++o) {
    for (auto* number = whole.data(); number != whole.data() + whole.size();) {
      const GroupNumbers::Row row = numbers.next_row();
      for (int64_t i = 0; i < row.size; ++i)
        *number++ = number_in_words(static_cast<double>(*from++) *
                                    inverses[static_cast<size_t>(row.first + i * row.step)]);
    }
    for (size_t i = 0; i < inner; ++i) {
      const auto words = words_of_numbers(whole[i], whole[inner + i], whole[2 * inner + i]);
      for (size_t word = 0; word < words.size(); ++word)
        to[word * inner + i] = static_cast<int32_t>(words[word]);
    }
    to += kWordsOfValues * along.inner;
  }
  return result;
}

const Buffer& buffer_of(const Packing& packing, const Kernel& kernel) {
  const int index = kernel.buffer_index(packing.buffer);
  TC_CHECK(index >= 0, "a buffer named '", packing.buffer, "' to pack");
  return kernel.buffers[static_cast<size_t>(index)];
}

std::vector<int64_t> shape_of(const Packing& packing, const Kernel& kernel) {
  std::vector<int64_t> shape;
  for (const Affine& size : buffer_of(packing, kernel).shape) shape.push_back(size.evaluate({}));
  return shape;
}

// Whether elements are moved and combined, not divided, put into words or made of others' scales.
bool only_combines(const Packing& packing) {
  return packing.terms.empty() && packing.words.empty() && packing.scales_of.empty();
}

// The same numbers in f32.
Tensor in_f32(const Tensor& values) {
  Tensor result(DType::F32, values.shape);
  const auto* from = values.data<uint16_t>();
  std::transform(from, from + values.count(), result.data<float>(),
                 values.dtype == DType::F16 ? half_to_float : bfloat_to_float);
  return result;
}

// Elements in the packing's order, not yet split into terms or packed into words: there is one along the
// iterator of terms, three or, without scales, two along that of words.
Tensor placed(const Packing& packing, const Kernel& kernel, const Tensor& original) {
  std::vector<int64_t> shape = shape_of(packing, kernel);
  const DType expected = packing.original_dtype(buffer_of(packing, kernel).dtype);
  const bool narrow = !packing.terms.empty() && expected == DType::F32 &&
                      (original.dtype == DType::F16 || original.dtype == DType::BF16);
  const bool fits =
      (original.dtype == expected || narrow) && original.count() == checked_count(packing.original_shape) &&
      packing.iterators.size() == shape.size() && packing.index.size() == packing.original_shape.size();
  TC_CHECK(fits, "for packed buffer '", packing.buffer, "'");
  if (!packing.terms.empty()) shape[position_of(packing, packing.terms)] = 1;
  if (!packing.words.empty())
    shape[position_of(packing, packing.words)] = packing.has_pairs() ? kValuesInPair : kValuesInWords;
  Tensor result(original.dtype, shape);
  if (packing.combinations.empty()) Packer(packing, original, result).run();
  else Packer(packing, combined(packing, original), result).run();
  return narrow ? in_f32(result) : result;
}

std::string combinations_text(const Packing& packing) {
  std::string result;
  for (const Combination& combination : packing.combinations) {
    result += text(" combining ", combination.dimension);
    for (const std::vector<double>& row : combination.rows) {
      for (double factor : row) result += text(" ", factor);
    }
  }
  return result;
}

// A loop over packed elements: their count, and their distance in each dimension of the original.
struct PackedLoop {
  int64_t size;
  std::vector<int64_t> steps;
  bool operator==(const PackedLoop& other) const { return size == other.size && steps == other.steps; }
};

// The original's index of the first packed element.
std::vector<int64_t> first_of(const Packing& packing) {
  std::vector<int64_t> place;
  for (const Affine& index : packing.index) place.push_back(index.constant());
  return place;
}

// The loops of a packing, outermost first. A loop is merged with the one inside it where it continues at the
// place at which the inner one ends.
std::vector<PackedLoop> loops_of(const Packing& packing, const Kernel& kernel) {
  const std::vector<int64_t> shape = shape_of(packing, kernel);
  std::vector<PackedLoop> loops;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    PackedLoop loop{shape[i], {}};
    for (const Affine& index : packing.index) loop.steps.push_back(index.coefficient(packing.iterators[i]));
    bool goes_on = !loops.empty();
    for (size_t d = 0; goes_on && d < loop.steps.size(); ++d)
      goes_on = loops.back().steps[d] == loop.size * loop.steps[d];
    if (goes_on) {
      loop.size *= loops.back().size;
      loops.pop_back();
    }
    loops.push_back(std::move(loop));
  }
  return loops;
}

// Of a packing that only moves elements: equal bytes give equal texts, however the loops are divided.
std::string recipe_of_moves(const Packing& packing, const Kernel& kernel) {
  std::string result = text(name_of(buffer_of(packing, kernel).dtype), " of");
  for (const int64_t size : packing.original_shape) result += text(" ", size);
  result += " from";
  for (const int64_t place : first_of(packing)) result += text(" ", place);
  for (const PackedLoop& loop : loops_of(packing, kernel)) {
    result += text(", ", loop.size, " by");
    for (const int64_t step : loop.steps) result += text(" ", step);
  }
  return result + text(" fill ", packing.fill) + combinations_text(packing);
}

}  // namespace

double largest_of_digits(int64_t digits) { return std::ldexp(127.0, static_cast<int>(8 * (digits - 1))); }

const Packing* packing_of(const Kernel& kernel, const std::string& buffer) {
  for (const Packing& packing : kernel.packings) {
    if (packing.buffer == buffer) return &packing;
  }
  return nullptr;
}

const std::string& original_of(const Kernel& kernel, const std::string& buffer) {
  const Packing* packing = packing_of(kernel, buffer);
  return packing == nullptr || packing->scales_of.empty() ? buffer : packing->scales_of;
}

Tensor pack(const Packing& packing, const Kernel& kernel, const Tensor& original) {
  if (!packing.scales_of.empty()) {
    const Packing* digits = packing_of(kernel, packing.scales_of);
    TC_CHECK(digits != nullptr, "a packing of '", packing.scales_of, "' for its scales");
    const Tensor values = placed(*digits, kernel, original);
    const int64_t count =
        digits->terms.empty() ? 0 : shape_of(*digits, kernel).at(position_of(*digits, digits->terms));
    Tensor made = packing.sums ? sums_of(*digits, values)
                               : scales_of(*digits, buffer_of(*digits, kernel).dtype, count, values);
    made.shape = shape_of(packing, kernel);
    return made;
  }
  Tensor result = placed(packing, kernel, original);
  const std::vector<int64_t> shape = shape_of(packing, kernel);
  if (packing.has_pairs()) return in_pairs(result, position_of(packing, packing.words), shape);
  if (!packing.words.empty()) return words_of(packing, shape, result);
  if (packing.terms.empty()) return result;
  const DType dtype = buffer_of(packing, kernel).dtype;
  return packing.scaled.empty() ? terms_of(packing, dtype, shape, result)
                                : digits_of(packing, dtype, shape, result);
}

bool keeps_order(const Packing& packing, const Kernel& kernel) {
  if (!packing.combinations.empty() || !only_combines(packing)) return false;
  const std::vector<int64_t> shape = shape_of(packing, kernel);
  if (checked_count(shape) != checked_count(packing.original_shape)) return false;
  // Consecutive packed elements are consecutive in the original, and none is outside of it.
  std::vector<int64_t> steps(shape.size(), 0);  // per iterator
  int64_t first = 0, stride = 1, inner = 1;
  for (size_t d = packing.index.size(); d-- > 0; stride *= packing.original_shape[d]) {
    const Affine& index = packing.index[d];
    int64_t least = index.constant(), most = least;
    first += index.constant() * stride;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t step = index.coefficient(packing.iterators[i]);
      steps[i] += step * stride;
      (step < 0 ? least : most) += step * (shape[i] - 1);
    }
    if (least < 0 || most >= packing.original_shape[d]) return false;
  }
  for (size_t i = shape.size(); i-- > 0; inner *= shape[i]) {
    if (shape[i] > 1 && steps[i] != inner) return false;
  }
  return first == 0;
}

std::string recipe(const Packing& packing, const Kernel& kernel) {
  if (only_combines(packing) && packing.scaled.empty()) return recipe_of_moves(packing, kernel);
  const auto part_of = [&](const Packing& each) {
    const Buffer& buffer = buffer_of(each, kernel);
    std::map<std::string, Affine> numbers;
    for (size_t i = 0; i < each.iterators.size(); ++i)
      numbers[each.iterators[i]] = Affine::variable(text("i", i));
    std::string result = name_of(buffer.dtype);
    for (const Affine& size : buffer.shape) result += " " + size.str();
    result += " at";
    for (const Affine& index : each.index) result += " " + index.substitute(numbers).str();
    result += text(" fill ", each.fill);
    if (!each.terms.empty()) result += text(" terms ", position_of(each, each.terms));
    if (!each.words.empty()) result += text(" words ", position_of(each, each.words));
    for (const std::string& iterator : each.scaled) result += text(" scaled ", position_of(each, iterator));
    return result + combinations_text(each);
  };
  if (packing.scales_of.empty()) return part_of(packing);
  return (packing.sums ? "sums of " : "scales of ") + part_of(*packing_of(kernel, packing.scales_of));
}

bool packs_alike(const Packing& a, const Kernel& of_a, const Packing& b, const Kernel& of_b) {
  if (!only_combines(a) || !only_combines(b)) return recipe(a, of_a) == recipe(b, of_b);
  return buffer_of(a, of_a).dtype == buffer_of(b, of_b).dtype && a.fill == b.fill &&
         a.original_shape == b.original_shape && combinations_text(a) == combinations_text(b) &&
         first_of(a) == first_of(b) && loops_of(a, of_a) == loops_of(b, of_b);
}

}  // namespace tc
