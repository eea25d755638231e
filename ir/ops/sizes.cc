#include "ir/ops/sizes.h"

#include <set>

namespace tc {
namespace {

std::string name_of(int input, const std::string& what) {
  return what.empty() ? text("input ", input) : what;
}

}  // namespace

void need_equal(const InferContext& context, const Dim& left, const Dim& right, const std::string& message) {
  if (left != right) context.differ(left, right, message);
}

void need_shape(const InferContext& context, int input, const Shape& needed, const std::string& what) {
  if (!context.has_input(input) || context.shape(input) == needed) return;
  const Shape& has = context.shape(input);
  const std::string message =
      text(name_of(input, what), " has shape ", str(has), "; ", str(needed), " is needed");
  if (has.size() != needed.size()) context.error(message);
  // Sizes that never agree are reported before those that may agree.
  for (size_t i = 0; i < has.size(); ++i) {
    if (has[i].is_constant() && needed[i].is_constant()) need_equal(context, has[i], needed[i], message);
  }
  for (size_t i = 0; i < has.size(); ++i) need_equal(context, has[i], needed[i], message);
}

void need_one_element(const InferContext& context, int input, const std::string& what) {
  if (!context.has_input(input)) return;
  const Shape& shape = context.shape(input);
  for (const Dim& size : shape) {
    need_equal(context, size, Dim(1),
               text(name_of(input, what), " has shape ", str(shape), "; one element is needed"));
  }
}

void need_broadcast(const InferContext& context, int input, const Shape& shape, const std::string& what) {
  if (!context.has_input(input)) return;
  const Shape& has = context.shape(input);
  const std::string message =
      text(name_of(input, what), " of shape ", str(has), " does not broadcast to ", str(shape));
  if (has.size() > shape.size()) context.error(message);
  for (size_t i = 0; i < has.size(); ++i) {
    if (has[i] != Dim(1)) need_equal(context, has[i], shape[shape.size() - has.size() + i], message);
  }
}

int64_t need_number(const InferContext& context, const Dim& size, const std::string& what) {
  if (!size.is_constant())
    context.unsupported(what, " depends on '", size.str(), "'", how_to_bind(context.graph(), {size}));
  return size.constant();
}

Dim head_size(const Node& node, const Dim& hidden, int64_t heads) {
  if (heads < 1 || (hidden.is_constant() && hidden.constant() % heads != 0)) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", hidden.str(), " elements do not divide into ", heads,
         " heads");
  }
  return floor_div(hidden, Dim(heads));
}

std::string how_to_bind(const Graph& graph, const Shape& sizes) {
  std::set<std::string> mentioned;
  for (const Dim& size : sizes) size.collect_symbols(mentioned);
  std::string list;
  for (const std::string& name : mentioned) {
    if (graph.symbols.count(name)) list += text(list.empty() ? "" : ", ", "\"", name, "\": …");
  }
  return list.empty() ? "" : text("; bind the symbols to numbers: shapes={", list, "}");
}

}  // namespace tc
