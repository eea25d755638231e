// Signals: Fourier transforms as matrix products, frames, window functions and mel filters.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

constexpr int64_t kLongest = 1 << 20;        // longest transform
constexpr int64_t kLargestMatrix = 1 << 24;  // elements of one constant
// A transform up to this length is one matrix product: two products, one per factor, have fewer additions,
// but smaller matrices.
constexpr int64_t kShort = 256;
constexpr int64_t kLargestFactor = 32;  // largest factor of a longer transform

// --- DFT -------------------------------------------------------------------------------------------

// A transform along axis `axis` of its operand, whose last axis holds real numbers or complex ones (real
// part, imaginary part).
struct Transform {
  int64_t axis = 0, length = 0, outputs = 0;
  bool inverse = false;
  // The operand is the first half of the spectrum of real numbers, which are the result; else the result is
  // complex.
  bool of_half = false;
};

int64_t one_number(const Node& node, const std::vector<int64_t>& values, const char* what) {
  if (values.size() != 1)
    fail(ErrorKind::Shape, node.origin.str(), ": ", what, " has ", values.size(), " numbers; one is needed");
  return values[0];
}

Transform transform_of(const Node& node, const Shape& shape) {
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (rank < 2 || (shape.back() != Dim(1) && shape.back() != Dim(2))) {
    fail(ErrorKind::Shape, node.origin.str(), ": the input has shape ", str(shape),
         "; [..., signal, 1 or 2] is needed");
  }
  Transform result;
  const int64_t axis = int_attribute(node, "axis");
  result.axis = axis < 0 ? axis + rank : axis;
  if (result.axis < 0 || result.axis >= rank - 1) {
    fail(ErrorKind::Shape, node.origin.str(), ": axis ", axis, " is no axis of signals in a tensor of shape ",
         str(shape));
  }
  result.inverse = int_attribute(node, "inverse") != 0;
  const bool onesided = int_attribute(node, "onesided") != 0;
  result.of_half = onesided && result.inverse;
  if (result.of_half && shape.back() != Dim(2)) {
    fail(ErrorKind::Shape, node.origin.str(), ": the input has shape ", str(shape),
         "; with `inverse` and `onesided` it is half a spectrum, [..., numbers, 2]");
  }
  std::vector<Dim> given = dims_attribute(node, "dft_length");
  if (given.empty()) given = {result.of_half ? (shape[result.axis] - Dim(1)) * Dim(2) : shape[result.axis]};
  result.length = one_number(node, fixed(node, given, "dft_length"), "dft_length");
  if (result.length < 1 || result.length > kLongest) {
    fail(ErrorKind::Shape, node.origin.str(), ": dft_length is ", result.length, "; 1 to ", kLongest,
         " is possible");
  }
  if (!shape[result.axis].is_constant()) {
    throw NeedsNumbers(
        node, text("axis ", axis, " has size '", shape[result.axis].str(), "', which depends on symbols"),
        {shape[result.axis]});
  }
  result.outputs = onesided && !result.inverse ? result.length / 2 + 1 : result.length;
  return result;
}

void infer_dft(InferContext& context) {
  require_float(context);
  const Transform transform = transform_of(context.node(), context.shape(0));
  Shape shape = context.shape(0);
  shape[transform.axis] = transform.outputs;
  shape.back() = transform.of_half ? 1 : 2;
  context.set_output(0, context.dtype(0), shape);
}

// Builds the products of one transform.
class DftBuilder {
 public:
  // The matrices have the type given.
  DftBuilder(NodeBuilder& build, const Node& node, const Transform& transform, DType type)
      : build_(build), node_(node), transform_(transform), type_(type) {}

  // From [batch, n, 1 or 2] along n to [batch, outputs, 2] or, from half a spectrum, to [batch, outputs, 1].
  ValueId run(ValueId signal) {
    if (transform_.of_half) return from_half(signal);
    const int64_t given = build_.shape(signal)[1].constant(), length = transform_.length;
    if (given > length) signal = first(signal, length);
    if (is_short(length)) return product(signal, length, transform_.outputs);
    if (given < length) signal = filled(signal, length - given);
    const ValueId all = factored(signal, length);
    return transform_.outputs == length ? all : first(all, transform_.outputs);
  }

 private:
  ValueId first(ValueId value, int64_t count, int64_t axis = 1) {
    using Ints = std::vector<int64_t>;
    return build_.add("Slice", {value}, {{"starts", Ints{0}}, {"ends", Ints{count}}, {"axes", Ints{axis}}});
  }
  ValueId filled(ValueId value, int64_t zeros) {
    return build_.add("Pad", {value}, {{"pads", std::vector<int64_t>{0, 0, 0, 0, zeros, 0}}});
  }

  // The real numbers whose spectrum begins with `half`, [batch, n, 2]. The other half is its mirror image,
  // conjugated, so each number counts twice, except the first and, if the length is even, the middle one.
  ValueId from_half(ValueId half) {
    const int64_t length = transform_.length, whole = length / 2 + 1;
    if (build_.shape(half)[1].constant() > whole) half = first(half, whole);
    const int64_t given = build_.shape(half)[1].constant();
    if (is_short(length)) {
      const ValueId weights = matrix({given, 2, length}, [&](const std::vector<int64_t>& at) {
        const double times = at[0] == 0 || 2 * at[0] == length ? 1 : 2;
        return times / static_cast<double>(length) * part(root(at[0] * at[2], length), at[1], 0);
      });
      const ValueId rows = reshaped(half, {build_.shape(half)[0], Dim(given * 2)});
      const ValueId result = build_.add("MatMul", {rows, reshaped(weights, {Dim(given * 2), Dim(length)})});
      return reshaped(result, {build_.shape(half)[0], Dim(length), Dim(1)});
    }
    if (given < whole) half = filled(half, whole - given);
    using Ints = std::vector<int64_t>;
    const ValueId mirrored = build_.add(
        "Slice", {half},
        {{"starts", Ints{length - whole}}, {"ends", Ints{0}}, {"axes", Ints{1}}, {"steps", Ints{-1}}});
    const ValueId conjugated =
        build_.add("Mul", {mirrored, build_.constant(number_tensor(type_, {2}, {1, -1}))});
    const ValueId spectrum = build_.add("Concat", {half, conjugated}, {{"axis", int64_t{1}}});
    return first(factored(spectrum, length), 1, 2);
  }

  bool is_short(int64_t length) const { return length <= kShort || factor_of(length) == length; }

  // The largest factor up to the limit; if there is none, the least factor.
  static int64_t factor_of(int64_t length) {
    for (int64_t factor = kLargestFactor; factor > 1; --factor) {
      if (length % factor == 0) return factor;
    }
    for (int64_t factor = kLargestFactor + 1; factor * factor <= length; ++factor) {
      if (length % factor == 0) return factor;
    }
    return length;
  }

  // e to the power 2 pi i turns / length, forward or inverse; only the whole transform divides by its length.
  std::pair<double, double> root(int64_t turns, int64_t length) const {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(turns % length) / static_cast<double>(length);
    return {std::cos(angle), transform_.inverse ? std::sin(angle) : -std::sin(angle)};
  }

  // The matrix element from part `in` (real or imaginary) to part `out` for multiplication by a complex
  // number.
  static double part(const std::pair<double, double>& number, int64_t in, int64_t out) {
    if (in == out) return number.first;
    return in == 0 ? number.second : -number.second;
  }

  // A constant of the given shape; `value` computes its elements.
  ValueId matrix(const std::vector<int64_t>& shape,
                 const std::function<double(const std::vector<int64_t>&)>& value) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    if (count > kLargestMatrix) {
      fail(ErrorKind::Unsupported, node_.origin.str(), ": a transform of length ", transform_.length,
           " has a prime factor that is too large; choose a length with small factors, such as a power of 2");
    }
    auto tensor = std::make_shared<Tensor>(type_, shape);
    std::vector<int64_t> at(shape.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      tensor->set(i, value(at));
      for (size_t axis = shape.size(); axis > 0 && ++at[axis - 1] == shape[axis - 1]; --axis)
        at[axis - 1] = 0;
    }
    return build_.constant(tensor);
  }

  ValueId reshaped(ValueId value, const Shape& shape) {
    return build_.add("Reshape", {value}, {{"shape", std::vector<Dim>(shape)}, {"allowzero", int64_t{1}}});
  }

  // One product with the matrix of the transform.
  ValueId product(ValueId signal, int64_t length, int64_t outputs) {
    const Shape shape = build_.shape(signal);
    const int64_t parts = shape[2].constant(), given = shape[1].constant();
    const double scale = transform_.inverse ? 1.0 / static_cast<double>(transform_.length) : 1.0;
    const ValueId weights = matrix({given, parts, outputs, 2}, [&](const std::vector<int64_t>& at) {
      return scale * part(root(at[0] * at[2], length), at[1], at[3]);
    });
    const ValueId rows = reshaped(signal, {shape[0], Dim(given * parts)});
    const ValueId result =
        build_.add("MatMul", {rows, reshaped(weights, {Dim(given * parts), Dim(outputs * 2)})});
    return reshaped(result, {shape[0], Dim(outputs), Dim(2)});
  }

  // With n = n1 * rest + n2 and k = k1 + factor * k2: transforms over n1, whose results are rotated by n2 *
  // k1, then transforms over n2.
  ValueId factored(ValueId signal, int64_t length) {
    if (is_short(length)) return product(signal, length, length);
    const Shape shape = build_.shape(signal);
    const int64_t factor = factor_of(length), rest = length / factor, parts = shape[2].constant();
    const ValueId turns = matrix({rest, factor, parts, factor, 2}, [&](const std::vector<int64_t>& at) {
      return part(root(at[3] * (at[1] * rest + at[0]), length), at[2], at[4]);
    });
    const ValueId split = reshaped(signal, {shape[0], Dim(factor), Dim(rest), Dim(parts)});
    const ValueId transposed =
        build_.add("Einsum", {split, turns}, {{"equation", std::string("bnmc,mncxz->bxmz")}});
    const ValueId inner = factored(reshaped(transposed, {shape[0] * Dim(factor), Dim(rest), Dim(2)}), rest);
    const ValueId apart = reshaped(inner, {shape[0], Dim(factor), Dim(rest), Dim(2)});
    const ValueId ordered = build_.add("Transpose", {apart}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    return reshaped(ordered, {shape[0], Dim(length), Dim(2)});
  }

  NodeBuilder& build_;
  const Node& node_;
  const Transform transform_;
  const DType type_;
};

// Brings a signal of any rank and type to [batch, n, parts], transforms it and brings the result back.
std::vector<Node> expand_dft(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  ValueId signal = node.inputs[0];
  const DType type = build.dtype(signal), computed = LowerContext::compute_type(type);
  const Transform transform = transform_of(node, build.shape(signal));
  if (computed != type) signal = build.add("Cast", {signal}, {{"to", std::string(name_of(computed))}});
  const int64_t rank = static_cast<int64_t>(build.shape(signal).size());
  // The permutation that moves the axis after the others, and its inverse.
  std::vector<int64_t> perm, back(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank - 1; ++i) {
    if (i != transform.axis) perm.push_back(i);
  }
  perm.push_back(transform.axis);
  perm.push_back(rank - 1);
  for (int64_t i = 0; i < rank; ++i) back[perm[i]] = i;
  const bool moved = transform.axis != rank - 2;
  if (moved) signal = build.add("Transpose", {signal}, {{"perm", perm}});
  const Shape shape = build.shape(signal);
  const Dim batch = element_count({shape.begin(), shape.end() - 2});
  auto reshape = [&](ValueId value, const Shape& to) {
    return build.add("Reshape", {value}, {{"shape", std::vector<Dim>(to)}, {"allowzero", int64_t{1}}});
  };
  ValueId result = DftBuilder(build, node, transform, computed)
                       .run(reshape(signal, {batch, shape[shape.size() - 2], shape.back()}));
  Shape out = shape;
  out[out.size() - 2] = transform.outputs;
  out.back() = transform.of_half ? 1 : 2;
  result = reshape(result, out);
  if (moved) result = build.add("Transpose", {result}, {{"perm", back}});
  build.add_to("Cast", {result}, {node.outputs[0]}, {{"to", std::string(name_of(type))}});
  return build.take();
}

// The axis is an attribute in older versions, later an input.
void normalize_axis(Graph& graph, Node& node) {
  if (input_given(node, 2)) {
    input_to_ints(2, "axis")(graph, node);
    node.attributes["axis"] =
        one_number(node, std::get<std::vector<int64_t>>(node.attributes.at("axis")), "axis");
  }
  input_to_dims(1, "dft_length")(graph, node);
}

void old_axis(Graph& graph, Node& node) {
  node.attributes.try_emplace("axis", int64_t{1});
  input_to_dims(1, "dft_length")(graph, node);
}

// --- STFT ------------------------------------------------------------------------------------------

struct Frames {
  int64_t step = 1, length = 1;
  Dim count;
};

Frames frames_of(const Node& node, const Shape& signal) {
  if (signal.size() != 3 || (signal[2] != Dim(1) && signal[2] != Dim(2))) {
    fail(ErrorKind::Shape, node.origin.str(), ": the signal has shape ", str(signal),
         "; [batch, length, 1 or 2] is needed");
  }
  Frames frames;
  frames.step = one_number(node, ints_attribute(node, "frame_step"), "frame_step");
  frames.length = one_number(node, ints_attribute(node, "frame_length"), "frame_length");
  if (frames.step < 1 || frames.step > (int64_t{1} << 31) || frames.length < 1 || frames.length > kLongest) {
    fail(ErrorKind::Shape, node.origin.str(), ": frame_step is ", frames.step, " and frame_length ",
         frames.length, "; both must be positive, the length at most ", kLongest);
  }
  const Dim moves = signal[1] - Dim(frames.length);
  if (moves.is_constant() && moves.constant() < 0) {
    fail(ErrorKind::Shape, node.origin.str(), ": a frame of ", frames.length,
         " elements does not fit a signal of ", signal[1].str());
  }
  frames.count = floor_div(moves, Dim(frames.step)) + Dim(1);
  return frames;
}

// Inputs: signal, frame_step, window, frame_length; the numbers become attributes. If the frames' length is
// left out, they are as long as the window.
void normalize_stft(Graph& graph, Node& node) {
  const Value& signal = graph[node.inputs.at(0)];
  if (input_given(node, 3)) {
    input_to_ints(3, "frame_length")(graph, node);
  } else {
    const Value& whole = input_given(node, 2) ? graph[node.inputs[2]] : signal;
    const size_t axis = input_given(node, 2) ? 0 : 1;
    const Dim length = whole.shape && axis < whole.shape->size() ? (*whole.shape)[axis] : Dim(1);
    node.attributes["frame_length"] = fixed(node, {length}, "frame_length");
  }
  if (!input_given(node, 1)) return;
  input_to_ints(1, "frame_step")(graph, node);
  if (node.inputs.size() < 3) return;
  node.inputs.erase(node.inputs.begin() + 1);
}

void check_window(InferContext& context, const Frames& frames) {
  need_shape(context, 1, {Dim(frames.length)}, "the window");
}

void infer_stft(InferContext& context) {
  require_one_type(context, [](DType type) { return is_float(type); }, "a float type");
  const Frames frames = frames_of(context.node(), context.shape(0));
  check_window(context, frames);
  const bool onesided = int_attribute(context.node(), "onesided") != 0;
  const int64_t outputs = onesided ? frames.length / 2 + 1 : frames.length;
  context.set_output(0, context.dtype(0), {context.shape(0)[0], frames.count, Dim(outputs), Dim(2)});
}

std::vector<Node> expand_stft(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  std::map<std::string, Attribute> framing = {{"frame_step", node.attributes.at("frame_step")},
                                              {"frame_length", node.attributes.at("frame_length")}};
  const ValueId frames = build.add("Frames", node.inputs, framing);
  build.add_to("DFT", {frames}, {node.outputs[0]},
               {{"axis", int64_t{2}}, {"onesided", int_attribute(node, "onesided")}});
  return build.take();
}

void infer_frames(InferContext& context) {
  const Frames frames = frames_of(context.node(), context.shape(0));
  check_window(context, frames);
  context.set_output(0, context.dtype(0),
                     {context.shape(0)[0], frames.count, Dim(frames.length), context.shape(0)[2]});
}

void lower_frames(LowerContext& context) {
  const Frames frames = frames_of(context.node(), context.shape(0));
  auto space = context.space("i", *context.output_value(0).shape);
  const auto& at = space.position;
  ExprPtr value = context.read(0, std::vector<Affine>{at[0], at[1] * frames.step + at[2], at[3]});
  if (context.has_input(1)) value = binary(BinaryOp::Mul, value, context.read(1, std::vector<Affine>{at[2]}));
  context.assign("frame", space.iterators, context.output(0), at, value);
}

// --- window functions ------------------------------------------------------------------------------

void infer_window(InferContext& context) {
  const std::vector<Dim> size = dims_attribute(context.node(), "size");
  if (size.size() != 1) context.error("size has ", size.size(), " numbers; one is needed");
  const DType type = dtype_from_name(string_attribute(context.node(), "output_datatype"));
  if (type == DType::Bool) context.error("output_datatype is bool; a number type is needed");
  context.set_output(0, type, {size[0]});
}

// a0 - a1 cos(t) + a2 cos(2 t), where t goes from 0 to 2 pi over the elements.
struct CosineWindow {
  const char* name;
  double a0, a1, a2;
};

void lower_window(LowerContext& context, const CosineWindow& window) {
  auto space = context.space("i", *context.output_value(0).shape);
  const Dim size = (*context.output_value(0).shape)[0];
  const DType type = DType::F64;
  ExprPtr round = cast(type, index_value(context.dim(size)));
  if (int_attribute(context.node(), "periodic") == 0) {
    // A symmetric window's last element equals its first; a window of one element is its start.
    round = binary(BinaryOp::Max, binary(BinaryOp::Sub, round, constant(type, 1)), constant(type, 1));
  }
  const ExprPtr turn = binary(BinaryOp::Div, cast(type, index_value(space.position[0])), round);
  auto wave = [&](double times) {
    return unary(UnaryOp::Cos, binary(BinaryOp::Mul, turn, constant(type, times * 2 * std::numbers::pi)));
  };
  ExprPtr value = binary(BinaryOp::Sub, constant(type, window.a0),
                         binary(BinaryOp::Mul, constant(type, window.a1), wave(1)));
  if (window.a2 != 0)
    value = binary(BinaryOp::Add, value, binary(BinaryOp::Mul, constant(type, window.a2), wave(2)));
  context.assign("e", space.iterators, context.output(0), space.position, value);
}

// --- MelWeightMatrix -------------------------------------------------------------------------------

// The numbers of a mel filter bank, each of which the node has as a list of one number.
struct MelBank {
  int64_t bins, length, rate;
  double low, high;
};

MelBank bank_of(const Node& node) {
  auto integer = [&](const char* name) { return one_number(node, ints_attribute(node, name), name); };
  auto real = [&](const char* name) {
    const std::vector<double> values = floats_attribute(node, name);
    if (values.size() != 1)
      fail(ErrorKind::Shape, node.origin.str(), ": ", name, " has ", values.size(),
           " numbers; one is needed");
    return values[0];
  };
  const MelBank bank = {integer("num_mel_bins"), integer("dft_length"), integer("sample_rate"),
                        real("lower_edge_hertz"), real("upper_edge_hertz")};
  const bool sizes = bank.bins >= 1 && bank.bins <= kLongest && bank.length >= 1 && bank.length <= kLongest &&
                     bank.bins * (bank.length / 2 + 1) <= kLargestMatrix;
  if (!sizes || bank.rate < 1 || !(bank.low >= 0) || !(bank.high > bank.low) || !(bank.high < 1e12)) {
    fail(ErrorKind::Shape, node.origin.str(), ": num_mel_bins is ", bank.bins, ", dft_length ", bank.length,
         ", sample_rate ", bank.rate, " and the edges are ", bank.low, " and ", bank.high,
         "; positive sizes of at most 2^24 weights and edges in order are needed");
  }
  return bank;
}

// The spectrum's bins at which the filters begin, peak and end.
std::vector<int64_t> mel_places(const MelBank& bank) {
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(bank.low), step = (mel(bank.high) - low) / static_cast<double>(bank.bins + 2);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < bank.bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    places.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(bank.length + 1) * hertz / static_cast<double>(bank.rate))));
  }
  return places;
}

std::vector<Node> expand_mel(Graph& graph, const Node& node) {
  const MelBank bank = bank_of(node);
  const std::vector<int64_t> places = mel_places(bank);
  const int64_t rows = bank.length / 2 + 1;
  std::vector<double> values(static_cast<size_t>(rows * bank.bins), 0.0);
  for (int64_t i = 0; i < bank.bins; ++i) {
    const int64_t left = places[i], peak = places[i + 1], right = places[i + 2];
    for (int64_t j = std::max<int64_t>(left, 0); j < rows && j <= std::max(peak, right); ++j) {
      double& value = values[static_cast<size_t>(j * bank.bins + i)];
      if (j <= peak)
        value = peak == left ? 1 : static_cast<double>(j - left) / static_cast<double>(peak - left);
      if (j >= peak && j < right) value = static_cast<double>(right - j) / static_cast<double>(right - peak);
    }
  }
  NodeBuilder build(graph, node);
  const DType type = graph[node.outputs[0]].dtype;
  build.add_to("Identity", {build.constant(number_tensor(type, {rows, bank.bins}, values))},
               {node.outputs[0]});
  return build.take();
}

void infer_mel(InferContext& context) {
  const MelBank bank = bank_of(context.node());
  const DType type = dtype_from_name(string_attribute(context.node(), "output_datatype"));
  context.set_output(0, type, {Dim(bank.length / 2 + 1), Dim(bank.bins)});
}

}  // namespace

void register_signal_ops(OpTable& table) {
  const std::vector<int64_t> none;
  OpRow dft = onnx_row(
      "signal", {"DFT", 17, old_axis},
      "Discrete Fourier transform along an axis, as products with the matrices of its factors.", {1, 3},
      {{"axis", int64_t{-2}}, {"dft_length", none}, {"inverse", int64_t{0}}, {"onesided", int64_t{0}}});
  dft.onnx.push_back({"DFT", 20, normalize_axis});
  dft.kind = OpRow::Kind::Expand;
  dft.infer = infer_dft;
  dft.expand = expand_dft;
  table.add(std::move(dft));

  const std::vector<AttributeRow> framing = {{"frame_step", none, true}, {"frame_length", none}};
  OpRow stft =
      onnx_row("signal", {"STFT", 17, normalize_stft},
               "Discrete Fourier transforms of frames of a signal, weighted by a window.", {1, 4}, framing);
  stft.attributes.push_back({"onesided", int64_t{1}});
  stft.kind = OpRow::Kind::Expand;
  stft.infer = infer_stft;
  stft.expand = expand_stft;
  table.add(std::move(stft));
  OpRow frames = onnx_row(
      "signal", {"Frames", 1},
      "Parts of a signal that follow each other at a fixed distance, weighted by a window.", {1, 2}, framing);
  frames.onnx.clear();
  frames.equation = "O[b,f,t,c] = S[b,f*frame_step+t,c] * W[t]";
  frames.infer = infer_frames;
  frames.lower = lower_frames;
  table.add(std::move(frames));

  OpRow correlation = onnx_row(
      "signal", {"Correlation", 1, nullptr, "tc"},
      "Cross-correlation of signals with a window, at the places where the window fits.", {2, 2}, {});
  correlation.equation = "O[...,i] += X[...,i+k] * W[k]";
  correlation.types = {{kWideNumbers}};
  table.add(std::move(correlation));

  static const CosineWindow kWindows[] = {{"BlackmanWindow", 0.42, 0.5, 0.08},
                                          {"HammingWindow", 25.0 / 46, 21.0 / 46, 0},
                                          {"HannWindow", 0.5, 0.5, 0}};
  for (const CosineWindow& window : kWindows) {
    OpRow row = onnx_row(
        "signal", {window.name, 17, all_of({input_to_dims(0, "size"), dtype_attribute("output_datatype")})},
        "A window of cosines over `size` elements.", {0, 1},
        {{"size", none, true}, {"output_datatype", std::string("f32")}, {"periodic", int64_t{1}}});
    row.equation = text(window.a0, " - ", window.a1, " * cos(t)",
                        window.a2 != 0 ? text(" + ", window.a2, " * cos(2 * t)") : "");
    row.infer = infer_window;
    row.lower = [&window](LowerContext& context) { lower_window(context, window); };
    table.add(std::move(row));
  }

  const std::vector<double> real;
  OpRow mel =
      onnx_row("signal",
               {"MelWeightMatrix", 17,
                all_of({input_to_floats(4, "upper_edge_hertz"), input_to_floats(3, "lower_edge_hertz"),
                        input_to_ints(2, "sample_rate"), input_to_ints(1, "dft_length"),
                        input_to_ints(0, "num_mel_bins"), dtype_attribute("output_datatype")})},
               "The weights of filters, evenly spaced on the mel scale, for the bins of a spectrum.", {0, 5},
               {{"num_mel_bins", none, true},
                {"dft_length", none, true},
                {"sample_rate", none, true},
                {"lower_edge_hertz", real, true},
                {"upper_edge_hertz", real, true},
                {"output_datatype", std::string("f32")}});
  mel.kind = OpRow::Kind::Expand;
  mel.infer = infer_mel;
  mel.expand = expand_mel;
  table.add(std::move(mel));
}

}  // namespace tc
