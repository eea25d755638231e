#include "scheduler/primitives/product_rewrite.h"

#include <algorithm>
#include <array>

namespace tc {
namespace {

// Whether the expression is an element of a constant in f16 or bf16, converted.
bool is_narrow_constant(const Kernel& kernel, const Expr& value) {
  if (value.kind != Expr::Kind::Cast || value.operands[0]->kind != Expr::Kind::Load) return false;
  const Buffer& from = kernel.buffers[static_cast<size_t>(value.operands[0]->access.buffer)];
  return from.scope == Scope::Constant && (from.dtype == DType::F16 || from.dtype == DType::BF16);
}

}  // namespace

ProductRewrite::ProductRewrite(const ScheduleState& state, size_t statement)
    : state_(state),
      kernel_(state.kernel->kernel),
      which_(statement),
      macc_(kernel_.statements.at(statement)) {}

void ProductRewrite::find_operands() {
  find_product();
  const std::string& name = buffer(constant_.buffer).name;
  if (packing_of(kernel_, name) != nullptr) refuse("constant ", name, " is packed already");
}

void ProductRewrite::find_product() {
  const Expr& value = *macc_.value;
  const DType sums = bytes_ ? DType::I32 : DType::F32;
  bool product = macc_.reduction == Reduction::Sum && value.kind == Expr::Kind::Binary &&
                 value.binary == BinaryOp::Mul && value.dtype == sums;
  std::array<const Expr*, 2> factors = {};
  for (size_t i = 0; i < factors.size() && product; ++i) {
    factors[i] = value.operands[i].get();
    const bool converted = bytes_ || (narrow_constants_ && is_narrow_constant(kernel_, *factors[i]));
    if (converted && factors[i]->kind == Expr::Kind::Cast) factors[i] = factors[i]->operands[0].get();
    product = factors[i]->kind == Expr::Kind::Load && (!bytes_ || size_of(factors[i]->dtype) == 1);
  }
  if (!product)
    refuse("statement ", macc_.name, " is no sum of products ", bytes_ ? "of bytes in i32" : "in f32");
  input_ = factors[0]->access;
  constant_ = factors[1]->access;
  if (buffer(input_.buffer).scope == Scope::Constant) std::swap(input_, constant_);
  if (buffer(constant_.buffer).scope != Scope::Constant || buffer(input_.buffer).scope != Scope::Input) {
    refuse("statement ", macc_.name, " does not multiply an input by a constant");
  }
  const std::string& name = buffer(constant_.buffer).name;
  int reads = 0;
  for (const Statement& statement : kernel_.statements) {
    visit_accesses(statement,
                   [&](const Access& access, bool) { reads += access.buffer == constant_.buffer; });
  }
  if (reads != 1) refuse("constant ", name, " is read at ", reads, " places, not at one");
}

int ProductRewrite::insert_scales() {
  const int place = constant_.buffer + 1;
  Buffer scales;
  scales.name = buffer(constant_.buffer).name + "_scales";
  for (int number = 2; kernel_.buffer_index(scales.name) >= 0; ++number) {
    scales.name = text(buffer(constant_.buffer).name, "_scales", number);
  }
  scales.scope = Scope::Constant;
  kernel_.buffers.insert(kernel_.buffers.begin() + place, std::move(scales));
  for (Statement& statement : kernel_.statements) {
    edit_accesses(statement, [&](const Access& each) {
      Access moved = each;
      moved.buffer += each.buffer >= place;
      return moved;
    });
  }
  macc_ = kernel_.statements[which_];
  find_product();
  return place;
}

void ProductRewrite::refuse_dynamic() const {
  for (const Access* access : {&input_, &constant_, &macc_.write}) {
    for (const Subscript& subscript : access->index) {
      if (subscript.dynamic) refuse("statement ", macc_.name, " has an index that depends on data");
    }
  }
}

int64_t ProductRewrite::extent(const std::string& iterator) const {
  const Affine& size = iterator_extent(macc_, iterator);
  if (!size.is_constant()) refuse("iterator ", iterator, " has a symbolic extent");
  return size.constant();
}

std::string ProductRewrite::fresh(const std::string& base) const {
  std::string name = base;
  auto taken = [&](const std::string& each) {
    return std::any_of(kernel_.statements.begin(), kernel_.statements.end(), [&](const Statement& statement) {
      return fresh_iterator(kernel_, statement, each) != each;
    });
  };
  for (int number = 2; taken(name); ++number) name = base + std::to_string(number);
  return name;
}

std::string ProductRewrite::fresh_statement(const std::string& suffix) const {
  std::string name = macc_.name + suffix;
  for (int number = 2; kernel_.find(name) != nullptr; ++number) {
    name = macc_.name + suffix + std::to_string(number);
  }
  return name;
}

int ProductRewrite::add_local(const std::string& stem, DType dtype, std::vector<Affine> shape) {
  Buffer made;
  made.name = stem;
  for (int number = 2; kernel_.buffer_index(made.name) >= 0; ++number)
    made.name = stem + std::to_string(number);
  made.dtype = dtype;
  made.shape = std::move(shape);
  made.scope = Scope::Local;
  kernel_.buffers.push_back(std::move(made));
  return static_cast<int>(kernel_.buffers.size()) - 1;
}

Access ProductRewrite::access_at(int buffer, const std::vector<Affine>& index) {
  Access result{buffer, {}};
  for (const Affine& each : index) result.index.push_back({each, nullptr});
  return result;
}

}  // namespace tc
