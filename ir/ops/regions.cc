// Regions of maps resampled to a fixed size: RoiAlign and MaxRoiPool.
#include <limits>

#include "ir/ops/sizes.h"
#include "ir/ops/taps.h"

namespace tc {
namespace {

constexpr int64_t kMaxOutputs = 1 << 20;  // along an axis of a pooled region
constexpr int64_t kMaxSamples = 1 << 12;  // along an axis of a bin, where the model gives their number

ExprPtr add(const ExprPtr& a, const ExprPtr& b) { return binary(BinaryOp::Add, a, b); }
ExprPtr sub(const ExprPtr& a, const ExprPtr& b) { return binary(BinaryOp::Sub, a, b); }
ExprPtr mul(const ExprPtr& a, const ExprPtr& b) { return binary(BinaryOp::Mul, a, b); }
ExprPtr divide(const ExprPtr& a, const ExprPtr& b) { return binary(BinaryOp::Div, a, b); }

ExprPtr least(DType type) { return constant(type, -std::numeric_limits<double>::infinity()); }

void check_map(InferContext& context, int rois, int64_t columns) {
  const Shape& map = context.shape(0);
  const Shape& regions = context.shape(rois);
  const std::string unfit = text("X and rois have shapes ", str(map), " and ", str(regions),
                                 "; [N, C, H, W] and [regions, ", columns, "] are needed");
  if (map.size() != 4 || regions.size() != 2) context.error(unfit);
  need_equal(context, regions[1], Dim(columns), unfit);
  for (int i : {0, 2, 3}) {
    if (map[i] == Dim(0)) context.error("X has shape ", str(map), "; there is nothing to sample");
  }
}

void set_regions(InferContext& context, int rois, int64_t height, int64_t width) {
  for (int64_t size : {height, width}) {
    if (size < 1 || size > kMaxOutputs)
      context.error("the regions' size is ", height, " by ", width, "; 1 to ", kMaxOutputs, " is possible");
  }
  context.set_output(0, context.dtype(0),
                     {context.shape(rois)[0], context.shape(0)[1], Dim(height), Dim(width)});
}

// The iterators of a result [region, channel, y, x], and spaces of some of them.
struct RegionLoops {
  std::vector<Iterator> all;
  std::vector<Affine> position;
  Shape shape;

  // The space of some of the axes.
  TableSpace part(const std::vector<size_t>& axes) const {
    TableSpace space;
    for (size_t axis : axes) {
      space.position.push_back(position[axis]);
      space.shape.push_back(shape[axis]);
      for (const Iterator& iterator : all) {
        if (iterator.name == position[axis].as_variable()) space.iterators.push_back(iterator);
      }
    }
    return space;
  }
};

RegionLoops region_loops(LowerContext& context) {
  const Shape& out = *context.output_value(0).shape;
  auto space = context.space("i", out);
  return {space.iterators, space.position, out};
}

Affine extend(LowerContext& context, TableSpace& space, const std::string& name, const Dim& extent) {
  Affine at = 0;
  if (extent != Dim(1)) {
    space.iterators.push_back({name, context.dim(extent)});
    at = Affine::variable(name);
  }
  space.position.push_back(at);
  space.shape.push_back(extent);
  return at;
}

ExprPtr clamped_batch(LowerContext& context, ExprPtr batch) {
  if (batch->dtype != DType::I64) batch = cast(DType::I64, batch);
  const ExprPtr last = index_value(context.dim(context.shape(0)[0]) - Affine(1));
  return binary(BinaryOp::Max, binary(BinaryOp::Min, batch, last), int_constant(DType::I64, 0));
}

// --- RoiAlign --------------------------------------------------------------------------------------

void infer_roi_align(InferContext& context) {
  const Node& node = context.node();
  choice_attribute(node, "mode", {"avg", "max"});
  choice_attribute(node, "coordinate_transformation_mode", {"half_pixel", "output_half_pixel"});
  check_map(context, 1, 4);
  const int64_t samples = int_attribute(node, "sampling_ratio");
  if (samples < 0 || samples > kMaxSamples)
    context.error("sampling_ratio is ", samples, "; 0 to ", kMaxSamples, " is possible");
  for (int i : {0, 1}) {
    if (!is_float(context.dtype(i)) || context.dtype(i) != context.dtype(0)) {
      context.error("X and rois have types ", name_of(context.dtype(0)), " and ", name_of(context.dtype(1)),
                    "; one float type is needed");
    }
  }
  if (context.dtype(2) != DType::I64 && context.dtype(2) != DType::I32) {
    context.error("batch_indices has type ", name_of(context.dtype(2)), "; i32 or i64 is needed");
  }
  need_shape(context, 2, {context.shape(1)[0]}, "batch_indices");
  set_regions(context, 1, int_attribute(node, "output_height"), int_attribute(node, "output_width"));
}

// One axis (0: y, 1: x) of the regions: where their bins are sampled, and which elements of the map each
// sample reads.
class AlignedAxis {
 public:
  AlignedAxis(LowerContext& context, const RegionLoops& loops, size_t axis)
      : context_(context),
        axis_(axis),
        type_(LowerContext::compute_type(context.dtype(0))),
        size_(context.shape(0)[2 + axis]),
        given_(int_attribute(context.node(), "sampling_ratio")) {
    regions_ = loops.part({0});
    samples_ = loops.part({0, 2 + axis});
    measure();
    // Enough samples for the part of any bin that is on the map: samples are more than half an element apart.
    sample_ = extend(context, samples_, axis == 0 ? "sy" : "sx",
                     given_ > 0 ? Dim(given_) : Dim(2) * size_ + Dim(8));
    tables();
  }

  // How many samples a bin has along the axis, on the map or outside of it.
  ExprPtr count() const {
    return given_ > 0 ? constant(type_, static_cast<double>(given_))
                      : context_.read_buffer(count_, regions_.position);
  }
  // Whether the sample exists; null where all do.
  ExprPtr exists() const { return given_ > 0 ? nullptr : binary(BinaryOp::Lt, number(), count()); }
  // 0 where a bin also has samples that are not looked at because they are outside of the map; else the least
  // number.
  ExprPtr missed() const {
    const ExprPtr first = first_sample(),
                  beyond = add(first, float_extent(context_, samples_.shape.back(), type_));
    const ExprPtr some = binary(BinaryOp::Or, binary(BinaryOp::Gt, first, constant(type_, 0)),
                                binary(BinaryOp::Lt, beyond, count()));
    return select(some, constant(type_, 0), least(type_));
  }
  const SampledAxis& sampled() const { return sampled_; }
  // The iterator over samples.
  std::vector<Iterator> sample_iterators() const {
    std::vector<Iterator> result;
    for (const Iterator& iterator : samples_.iterators) {
      if (iterator.name == sample_.as_variable()) result.push_back(iterator);
    }
    return result;
  }

  // The total weight of each element of the map's axis: [region, bin, element].
  int dense() {
    TableSpace elements = samples_;
    elements.iterators = samples_.iterators;
    elements.position.pop_back();
    elements.shape.pop_back();
    std::vector<Iterator> outer;
    for (const Iterator& iterator : samples_.iterators) {
      if (iterator.name != sample_.as_variable()) outer.push_back(iterator);
    }
    elements.iterators = outer;
    const Affine element = extend(context_, elements, axis_ == 0 ? "my" : "mx", size_);
    const int result = context_.local("weights", type_, elements.shape);
    ExprPtr sum;
    for (int64_t tap : {0, 1}) {
      std::vector<Affine> where = {Affine(tap)};
      where.insert(where.end(), samples_.position.begin(), samples_.position.end());
      const ExprPtr here =
          binary(BinaryOp::Eq, context_.read_buffer(sampled_.index, where), index_value(element));
      const ExprPtr weight = select(here, context_.read_buffer(sampled_.weight, where), constant(type_, 0));
      sum = sum ? add(sum, weight) : weight;
    }
    context_.reduce("weights", {elements.iterators, sample_iterators()}, result, elements.position,
                    Reduction::Sum, select(exists(), sum, constant(type_, 0)));
    return result;
  }

 private:
  ExprPtr end_of(int64_t column) const {
    const Node& node = context_.node();
    const double offset = string_attribute(node, "coordinate_transformation_mode") == "half_pixel" ? 0.5 : 0;
    const ExprPtr end = context_.read(1, std::vector<Affine>{regions_.position[0], Affine(column)});
    return sub(mul(end, constant(type_, float_attribute(node, "spatial_scale"))), constant(type_, offset));
  }

  // Makes tables of each region's start, the size of its bins, and the number of samples in a bin.
  void measure() {
    const int64_t column = axis_ == 0 ? 1 : 0;
    const bool at_least_one =
        string_attribute(context_.node(), "coordinate_transformation_mode") != "half_pixel";
    auto store = [&](const char* name, const ExprPtr& value) {
      const int table = context_.local(name, type_, regions_.shape);
      context_.assign(name, regions_.iterators, table, regions_.position, value);
      return table;
    };
    const ExprPtr start = end_of(column);
    ExprPtr size = sub(end_of(column + 2), start);
    if (at_least_one) size = binary(BinaryOp::Max, size, constant(type_, 1));
    start_ = store("start", start);
    bin_ = store("bin", divide(size, float_extent(context_, samples_.shape[1], type_)));
    if (given_ == 0)
      count_ = store("count", unary(UnaryOp::Ceil, context_.read_buffer(bin_, regions_.position)));
  }

  ExprPtr bin_start() const {
    const ExprPtr bin = cast(type_, index_value(samples_.position[1]));
    return add(context_.read_buffer(start_, regions_.position),
               mul(bin, context_.read_buffer(bin_, regions_.position)));
  }
  ExprPtr distance() const { return divide(context_.read_buffer(bin_, regions_.position), count()); }
  // The first sample of the bin that may be on the map or next to it.
  ExprPtr first_sample() const {
    if (given_ > 0) return constant(type_, 0);
    const ExprPtr before = divide(sub(constant(type_, -2), bin_start()), distance());
    return binary(BinaryOp::Max, unary(UnaryOp::Floor, before), constant(type_, 0));
  }
  ExprPtr number() const { return add(first_sample(), cast(type_, index_value(sample_))); }

  void tables() {
    const int place = context_.local("place", type_, samples_.shape);
    const ExprPtr steps = add(number(), constant(type_, 0.5));
    context_.assign("place", samples_.iterators, place, samples_.position,
                    add(bin_start(), mul(steps, distance())));
    const ExprPtr at = context_.read_buffer(place, samples_.position),
                  extent = float_extent(context_, size_, type_);
    const ExprPtr last = sub(extent, constant(type_, 1)), zero = constant(type_, 0);
    // A sample more than one element outside of the map counts as 0; a nearer one counts as the map's edge.
    const ExprPtr misses =
        binary(BinaryOp::Or, binary(BinaryOp::Lt, at, constant(type_, -1)), binary(BinaryOp::Gt, at, extent));
    const ExprPtr inside = binary(BinaryOp::Min, binary(BinaryOp::Max, at, zero), last),
                  below = unary(UnaryOp::Floor, inside);
    const ExprPtr part = sub(inside, below);
    sampled_ = make_axis(context_, samples_, 2, type_, false);
    sampled_.position = samples_.position;
    for (int64_t tap : {0, 1}) {
      const ExprPtr index = tap == 0 ? below : add(below, constant(type_, 1));
      store_index(context_, samples_, sampled_, tap, cast(DType::I64, index), size_);
      store_weight(context_, samples_, sampled_, tap,
                   select(misses, zero, tap == 0 ? sub(constant(type_, 1), part) : part));
    }
  }

  LowerContext& context_;
  size_t axis_;
  DType type_;
  Dim size_;
  int64_t given_;  // samples per bin; 0: depends on the region's size
  TableSpace regions_, samples_;
  Affine sample_;
  int start_ = -1, bin_ = -1, count_ = -1;
  SampledAxis sampled_;
};

// Reduces the samples, each with four elements, to a local buffer: their sums, or the largest products.
int reduce_samples(LowerContext& context, const RegionLoops& loops, const std::vector<Subscript>& leading,
                   const AlignedAxis& y, const AlignedAxis& x) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  const bool average = string_attribute(context.node(), "mode") == "avg";
  ExprPtr value;
  for (int64_t tap = 0; tap < 4; ++tap) {
    const ExprPtr each =
        tap_value(context, leading, {y.sampled(), x.sampled()}, {Affine(tap / 2), Affine(tap % 2)});
    value = value ? binary(average ? BinaryOp::Add : BinaryOp::Max, value, each) : each;
  }
  if (y.exists())
    value = select(binary(BinaryOp::And, y.exists(), x.exists()), value,
                   average ? constant(type, 0) : least(type));
  std::vector<Iterator> inner = y.sample_iterators();
  for (const Iterator& iterator : x.sample_iterators()) inner.push_back(iterator);
  const int result = context.local("pooled", type, loops.shape);
  context.reduce("pool", {loops.all, inner}, result, loops.position,
                 average ? Reduction::Sum : Reduction::Max, value);
  return result;
}

// Sums weighted by the dense weights of rows, then of columns, because the number of samples is known only at
// run time.
int sum_by_weights(LowerContext& context, const RegionLoops& loops, const std::vector<Subscript>& leading,
                   AlignedAxis& y, AlignedAxis& x) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int rows = y.dense(), columns = x.dense();
  const Shape& map = context.shape(0);
  TableSpace strips = loops.part({0, 1, 2}), row, column;
  const Affine at_x = extend(context, strips, "mx", map[3]), at_y = extend(context, row, "my", map[2]);
  extend(context, column, "mx", map[3]);
  const int strip = context.local("strip", type, strips.shape);
  std::vector<Subscript> where = leading;
  where.push_back({at_y, nullptr});
  where.push_back({at_x, nullptr});
  context.reduce(
      "strip", {strips.iterators, row.iterators}, strip, strips.position, Reduction::Sum,
      mul(context.read_buffer(rows, {loops.position[0], loops.position[2], at_y}), context.read(0, where)));
  const int result = context.local("pooled", type, loops.shape);
  const std::vector<Affine> weight = {loops.position[0], loops.position[3], at_x};
  context.reduce("pool", {loops.all, column.iterators}, result, loops.position, Reduction::Sum,
                 mul(context.read_buffer(strip, strips.position), context.read_buffer(columns, weight)));
  return result;
}

void lower_roi_align(LowerContext& context) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  const RegionLoops loops = region_loops(context);
  const bool average = string_attribute(context.node(), "mode") == "avg",
             adaptive = int_attribute(context.node(), "sampling_ratio") == 0;
  AlignedAxis y(context, loops, 0), x(context, loops, 1);
  const ExprPtr batch = clamped_batch(context, context.read(2, std::vector<Affine>{loops.position[0]}));
  const std::vector<Subscript> leading = {{Affine(0), batch}, {loops.position[1], nullptr}};
  const int pooled = average && adaptive ? sum_by_weights(context, loops, leading, y, x)
                                         : reduce_samples(context, loops, leading, y, x);
  ExprPtr value = context.read_buffer(pooled, loops.position);
  const ExprPtr samples = mul(y.count(), x.count()), one = constant(type, 1);
  if (average) value = divide(value, adaptive ? binary(BinaryOp::Max, samples, one) : samples);
  if (!average && adaptive) {
    value = binary(BinaryOp::Max, binary(BinaryOp::Max, value, y.missed()), x.missed());
    const ExprPtr some = binary(BinaryOp::And, binary(BinaryOp::Gt, y.count(), constant(type, 0)),
                                binary(BinaryOp::Gt, x.count(), constant(type, 0)));
    value = select(some, value, constant(type, 0));
  }
  context.assign("store", loops.all, context.output(0), loops.position, value);
}

// --- MaxRoiPool ------------------------------------------------------------------------------------

void infer_max_roi_pool(InferContext& context) {
  require_one_type(context, [](DType type) { return is_float(type); }, "a float type");
  check_map(context, 1, 5);
  const std::vector<int64_t> size = ints_attribute(context.node(), "pooled_shape");
  if (size.size() != 2) context.error("pooled_shape has ", size.size(), " numbers; 2 are needed");
  set_regions(context, 1, size[0], size[1]);
}

ExprPtr rounded_away(const ExprPtr& x) {
  const ExprPtr half = constant(x->dtype, 0.5), up = unary(UnaryOp::Floor, add(x, half)),
                down = unary(UnaryOp::Ceil, sub(x, half));
  return select(binary(BinaryOp::Lt, x, constant(x->dtype, 0)), down, up);
}

// Tables, [region, bin], of each bin's first element along an axis of the map, and of the one after its last.
struct Bins {
  int first, end;
  std::vector<Affine> position;
};

Bins bins_of(LowerContext& context, const RegionLoops& loops, size_t axis) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  const TableSpace space = loops.part({0, 2 + axis});
  const int64_t column = axis == 0 ? 2 : 1;
  const ExprPtr scale = constant(type, float_attribute(context.node(), "spatial_scale")),
                one = constant(type, 1);
  auto end_of = [&](int64_t which) {
    return rounded_away(mul(context.read(1, std::vector<Affine>{space.position[0], Affine(which)}), scale));
  };
  const ExprPtr start = end_of(column), extent = float_extent(context, context.shape(0)[2 + axis], type);
  const ExprPtr size = binary(BinaryOp::Max, add(sub(end_of(column + 2), start), one), one);
  const ExprPtr bin = divide(size, float_extent(context, space.shape[1], type)),
                number = cast(type, index_value(space.position[1]));
  auto store = [&](const char* name, const ExprPtr& place) {
    const int table = context.local(name, DType::I64, space.shape);
    const ExprPtr inside =
        binary(BinaryOp::Max, binary(BinaryOp::Min, add(place, start), extent), constant(type, 0));
    context.assign(name, space.iterators, table, space.position, cast(DType::I64, inside));
    return table;
  };
  return {store("first", unary(UnaryOp::Floor, mul(number, bin))),
          store("end", unary(UnaryOp::Ceil, mul(add(number, one), bin))), space.position};
}

ExprPtr inside(LowerContext& context, const Bins& bins, const Affine& at) {
  const ExprPtr element = index_value(at);
  return binary(BinaryOp::And, binary(BinaryOp::Ge, element, context.read_buffer(bins.first, bins.position)),
                binary(BinaryOp::Lt, element, context.read_buffer(bins.end, bins.position)));
}

void lower_max_roi_pool(LowerContext& context) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  const Shape& map = context.shape(0);
  const RegionLoops loops = region_loops(context);
  const Bins y = bins_of(context, loops, 0), x = bins_of(context, loops, 1);
  const ExprPtr batch =
      clamped_batch(context, context.read(1, std::vector<Affine>{loops.position[0], Affine(0)}));
  TableSpace strips = loops.part({0, 1, 2}), row, column;
  const Affine at_x = extend(context, strips, "mx", map[3]), at_y = extend(context, row, "my", map[2]);
  extend(context, column, "mx", map[3]);
  const int strip = context.local("strip", type, strips.shape),
            pooled = context.local("pooled", type, loops.shape);
  const ExprPtr element =
      context.read(0, {{Affine(0), batch}, {loops.position[1], nullptr}, {at_y, nullptr}, {at_x, nullptr}});
  context.reduce("strip", {strips.iterators, row.iterators}, strip, strips.position, Reduction::Max,
                 select(inside(context, y, at_y), element, least(type)));
  context.reduce("pool", {loops.all, column.iterators}, pooled, loops.position, Reduction::Max,
                 select(inside(context, x, at_x), context.read_buffer(strip, strips.position), least(type)));
  auto some = [&](const Bins& bins) {
    return binary(BinaryOp::Lt, context.read_buffer(bins.first, bins.position),
                  context.read_buffer(bins.end, bins.position));
  };
  context.assign("store", loops.all, context.output(0), loops.position,
                 select(binary(BinaryOp::And, some(y), some(x)), context.read_buffer(pooled, loops.position),
                        constant(type, 0)));
}

}  // namespace

void register_region_ops(OpTable& table) {
  OpRow align;
  align.name = "RoiAlign";
  align.category = "resampling";
  align.doc = "Mean or maximum over samples, linear between elements, of the bins of each region.";
  align.equation = "O[r,c,y,x] += W[t,r,y,s] * V[u,r,x,q] * I[batch[r],c,Y[t,r,y,s],X[u,r,x,q]]";
  align.onnx = {{"RoiAlign", 10,
                 [](Graph&, Node& node) {
                   node.attributes["coordinate_transformation_mode"] = std::string("output_half_pixel");
                 }},
                {"RoiAlign", 16}};
  align.minimum_inputs = align.maximum_inputs = 3;
  align.attributes = {{"coordinate_transformation_mode", std::string("half_pixel")},
                      {"mode", std::string("avg")},
                      {"output_height", int64_t{1}},
                      {"output_width", int64_t{1}},
                      {"sampling_ratio", int64_t{0}, false, "0: as many samples as the region has elements"},
                      {"spatial_scale", 1.0}};
  align.infer = infer_roi_align;
  align.lower = lower_roi_align;
  table.add(std::move(align));

  OpRow pool;
  pool.name = "MaxRoiPool";
  pool.category = "pooling";
  pool.doc = "Largest element of each bin of each region.";
  pool.onnx = {{"MaxRoiPool", 1}};
  pool.minimum_inputs = pool.maximum_inputs = 2;
  pool.attributes = {{"pooled_shape", std::vector<int64_t>(), true}, {"spatial_scale", 1.0}};
  pool.infer = infer_max_roi_pool;
  pool.lower = lower_max_roi_pool;
  table.add(std::move(pool));
}

}  // namespace tc
