// Counts of n-grams in sequences of whole numbers: TfIdfVectorizer.
#include <algorithm>

#include "ir/ops/rows.h"

namespace tc {
namespace {

constexpr int64_t kLongestGram = 64;
constexpr int64_t kMaxSkips = 4096;
constexpr int64_t kMaxColumns = 1 << 20;

// The n-grams of one length: their numbers, concatenated, and the result's column that each gram counts in.
struct Grams {
  int64_t length = 1;
  size_t first = 0;  // index of their first weight among those of all grams
  std::vector<int64_t> numbers, columns;
};

struct Vocabulary {
  std::vector<Grams> grams;  // of the lengths that are counted
  int64_t columns = 0;       // of the result
};

Vocabulary vocabulary_of(const Node& node) {
  auto wrong = [&](const auto&... parts) { fail(ErrorKind::Shape, node.origin.str(), ": ", parts...); };
  const int64_t shortest = int_attribute(node, "min_gram_length"),
                longest = int_attribute(node, "max_gram_length");
  if (shortest < 1 || longest < shortest || longest > kLongestGram) {
    wrong("min_gram_length is ", shortest, " and max_gram_length ", longest, "; 1 to ", kLongestGram,
          " in order are needed");
  }
  const std::vector<int64_t> pool = ints_attribute(node, "pool_int64s"),
                             counts = ints_attribute(node, "ngram_counts");
  const std::vector<int64_t> columns = ints_attribute(node, "ngram_indexes");
  Vocabulary result;
  for (int64_t column : columns) {
    if (column < 0 || column >= kMaxColumns)
      wrong("ngram_indexes has ", column, "; 0 to ", kMaxColumns - 1, " is possible");
    result.columns = std::max(result.columns, column + 1);
  }
  size_t next = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t length = static_cast<int64_t>(i) + 1, size = static_cast<int64_t>(pool.size());
    const int64_t begin = counts[i], end = i + 1 < counts.size() ? counts[i + 1] : size;
    if (begin < 0 || end < begin || end > size || (end - begin) % length != 0) {
      wrong("ngram_counts gives the ", length, "-grams the numbers from ", begin, " to ", end, " of ", size,
            "; whole grams in order are needed");
    }
    const size_t grams = static_cast<size_t>((end - begin) / length);
    if (grams > columns.size() - next)
      wrong("ngram_indexes has ", columns.size(), " numbers, fewer than there are grams");
    if (length >= shortest && length <= longest && grams > 0) {
      const auto column = columns.begin() + static_cast<int64_t>(next);
      result.grams.push_back({length,
                              next,
                              {pool.begin() + begin, pool.begin() + end},
                              {column, column + static_cast<int64_t>(grams)}});
    }
    next += grams;
  }
  if (result.columns == 0) wrong("ngram_indexes is empty; there is nothing to count");
  return result;
}

void infer_vectorizer(InferContext& context) {
  const Node& node = context.node();
  choice_attribute(node, "mode", {"TF", "IDF", "TFIDF"});
  const Shape& rows = context.shape(0);
  if (context.dtype(0) != DType::I32 && context.dtype(0) != DType::I64) {
    context.error("the input has type ", name_of(context.dtype(0)), "; i32 or i64 is needed");
  }
  if (rows.empty() || rows.size() > 2)
    context.error("the input has shape ", str(rows), "; [numbers] or [rows, numbers] is needed");
  const Vocabulary vocabulary = vocabulary_of(node);
  const int64_t skips = int_attribute(node, "max_skip_count");
  if (skips < 0 || skips > kMaxSkips)
    context.error("max_skip_count is ", skips, "; 0 to ", kMaxSkips, " is possible");
  const size_t weights = floats_attribute(node, "weights").size(),
               grams = ints_attribute(node, "ngram_indexes").size();
  if (weights != 0 && weights < grams)
    context.error("weights has ", weights, " numbers for ", grams, " grams");
  Shape shape = rows;
  shape.back() = vocabulary.columns;
  context.set_output(0, DType::F32, shape);
}

// For each column of the result a gram that counts there, and its weight, which is 0 where there is no gram.
struct Choice {
  std::vector<int64_t> grams;
  std::vector<double> weights;
};

// One choice after another until all grams are covered: as many as the column with the most grams needs.
std::vector<Choice> choices_of(const Node& node, const Vocabulary& vocabulary) {
  const std::vector<double> weights =
      string_attribute(node, "mode") == "TF" ? std::vector<double>() : floats_attribute(node, "weights");
  const size_t columns = static_cast<size_t>(vocabulary.columns);
  std::vector<Choice> choices;
  std::vector<size_t> used(columns, 0);
  int64_t gram = 0;
  for (const Grams& grams : vocabulary.grams) {
    for (size_t i = 0; i < grams.columns.size(); ++i) {
      const size_t column = static_cast<size_t>(grams.columns[i]), choice = used[column]++;
      if (choice == choices.size())
        choices.push_back({std::vector<int64_t>(columns, 0), std::vector<double>(columns, 0)});
      choices[choice].grams[column] = gram++;
      choices[choice].weights[column] = weights.empty() ? 1 : weights[grams.first + i];
    }
  }
  return choices;
}

// Turns the counts of all grams into the columns of the result; grams of one column add up.
ValueId in_columns(NodeBuilder& build, ValueId counts, const Node& node, const Vocabulary& vocabulary) {
  const int64_t axis = static_cast<int64_t>(build.shape(counts).size()) - 1;
  ValueId sum = kNoValue;
  for (const Choice& choice : choices_of(node, vocabulary)) {
    const ValueId gathered = build.add(
        "Gather", {counts, build.constant(int_tensor({vocabulary.columns}, choice.grams))}, {{"axis", axis}});
    const ValueId part = build.add(
        "Mul", {gathered, build.constant(number_tensor(DType::F32, {vocabulary.columns}, choice.weights))});
    sum = sum == kNoValue ? part : build.add("Add", {sum, part});
  }
  return sum;
}

std::vector<Node> expand_vectorizer(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Vocabulary vocabulary = vocabulary_of(node);
  const Shape shape = *graph[node.outputs[0]].shape;
  const int64_t axis = static_cast<int64_t>(shape.size()) - 1;
  if (vocabulary.grams.empty()) {
    build.add_to("ConstantOfShape", {}, {node.outputs[0]},
                 {{"shape", std::vector<Dim>(shape)}, {"value", number_tensor(DType::F32, {1}, {0})}});
    return build.take();
  }
  std::vector<ValueId> parts;
  for (const Grams& grams : vocabulary.grams) {
    const ValueId pool =
        build.constant(int_tensor({static_cast<int64_t>(grams.columns.size()), grams.length}, grams.numbers));
    // A single number has nothing to skip.
    const int64_t skips = grams.length == 1 ? 0 : int_attribute(node, "max_skip_count");
    parts.push_back(build.add("NgramCounts", {node.inputs[0], pool}, {{"skips", skips}}));
  }
  ValueId counts = parts.size() == 1 ? parts[0] : build.add("Concat", parts, {{"axis", axis}});
  if (string_attribute(node, "mode") == "IDF")
    counts = build.add("Min", {counts, build.number(DType::F32, 1)});
  build.add_to("Identity", {in_columns(build, counts, node, vocabulary)}, {node.outputs[0]});
  return build.take();
}

// How often each gram of input 1 occurs in each row of input 0, with its numbers adjacent or with skips
// between them.
void infer_counts(InferContext& context) {
  Shape shape = context.shape(0);
  shape.back() = context.shape(1)[0];
  context.set_output(0, DType::F32, shape);
}

void lower_counts(LowerContext& context) {
  const Shape& rows = context.shape(0);
  const int64_t length = context.shape(1)[1].constant(),
                distances = int_attribute(context.node(), "skips") + 1;
  auto outer = context.space("i", *context.output_value(0).shape);
  auto inner = context.space("k", {rows.back(), Dim(distances)});
  const Affine start = inner.position[0], distance = inner.position[1] + Affine(1),
               gram = outer.position.back();
  ExprPtr found;
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Affine> at = outer.position;
    at.back() = start + distance * i;
    ExprPtr number = context.read(0, at);
    if (number->dtype != DType::I64) number = cast(DType::I64, number);
    const ExprPtr same = binary(BinaryOp::Eq, number, context.read(1, std::vector<Affine>{gram, Affine(i)}));
    found = found ? binary(BinaryOp::And, found, same) : same;
  }
  std::vector<Affine> constraints;
  if (length > 1)
    constraints.push_back(context.dim(rows.back()) - Affine(1) - start - distance * (length - 1));
  context.reduce("count", {outer.iterators, inner.iterators, constraints}, context.output(0), outer.position,
                 Reduction::Sum, select(found, constant(DType::F32, 1), constant(DType::F32, 0)));
}

}  // namespace

void register_ngram_ops(OpTable& table) {
  const std::vector<int64_t> none;
  OpRow row;
  row.name = "TfIdfVectorizer";
  row.kind = OpRow::Kind::Expand;
  row.category = "text";
  row.doc = "Counts of n-grams of whole numbers, by `mode` weighted or as whether there is one.";
  row.onnx = {{"TfIdfVectorizer", 9}};
  row.attributes = {{"max_gram_length", int64_t{1}, true},
                    {"max_skip_count", int64_t{0}, true},
                    {"min_gram_length", int64_t{1}, true},
                    {"mode", std::string("TF"), true},
                    {"ngram_counts", none, true},
                    {"ngram_indexes", none, true},
                    {"pool_int64s", none},
                    {"pool_strings", std::vector<std::string>()},
                    {"weights", std::vector<double>()}};
  row.infer = infer_vectorizer;
  row.expand = expand_vectorizer;
  table.add(std::move(row));

  OpRow counts;
  counts.name = "NgramCounts";
  counts.category = "text";
  counts.doc = "How often each n-gram is in each row.";
  counts.minimum_inputs = counts.maximum_inputs = 2;
  counts.attributes = {{"skips", int64_t{0}}};
  counts.infer = infer_counts;
  counts.lower = lower_counts;
  table.add(std::move(counts));
}

}  // namespace tc
