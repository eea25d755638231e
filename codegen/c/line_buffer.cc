#include "codegen/c/line_buffer.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "codegen/c/kernel_context.h"
#include "ir/error.h"

namespace tc::c {
namespace {

bool is_atom(const std::string& expression) {
  return std::all_of(expression.begin(), expression.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

}  // namespace

void LineBuffer::block(const std::string& head, const std::function<void()>& body) {
  const std::string inside = captured(body);
  if (!inside.empty()) levels_.back().body += head + " {\n" + indented(inside, 1) + "}\n";
}

std::string LineBuffer::captured(const std::function<void()>& body) {
  std::string before;
  std::swap(before, levels_.back().body);
  loaded_.emplace_back();
  body();
  loaded_.pop_back();
  std::swap(before, levels_.back().body);
  return before;
}

std::string LineBuffer::named(const std::string& type, const std::string& wish, const std::string& value) {
  if (is_atom(value)) return value;
  const std::string name = names_.fresh(wish);
  add(text("const ", type, " ", name, " = ", value, ";"));
  return name;
}

std::string LineBuffer::variable(const std::string& type, const std::string& wish) {
  const std::string name = names_.fresh(wish);
  const bool is_vector = type.rfind("tc_", 0) == 0;
  levels_.front().head += text(type, " ", name, is_vector ? " = {0};\n" : " = 0;\n");
  return name;
}

void LineBuffer::loop(const std::string& head, const std::function<void()>& body) {
  levels_.emplace_back();
  loaded_.emplace_back();
  body();
  loaded_.pop_back();
  const Level level = std::move(levels_.back());
  levels_.pop_back();
  levels_.back().body += head + " {\n" + indented(level.head + level.body, 1) + "}\n";
}

std::string LineBuffer::at_level(int level, const std::string& wish, const std::string& value) {
  if (is_atom(value)) return value;
  Level& place = levels_[static_cast<size_t>(level)];
  std::string& name = place.values[value];
  if (name.empty()) {
    name = names_.fresh(wish);
    place.head += text("const ptrdiff_t ", name, " = ", value, ";\n");
  }
  return name;
}

const Value* LineBuffer::loaded(const std::string& key) const {
  for (auto scope = loaded_.rbegin(); scope != loaded_.rend(); ++scope) {
    const auto found = scope->find(key);
    if (found != scope->end()) return &found->second;
  }
  return nullptr;
}

std::string LineBuffer::finish() {
  TC_CHECK(levels_.size() == 1, "as the loops of a leaf");
  return "{\n" + indented(levels_.front().head + levels_.front().body, 1) + "}\n";
}

}  // namespace tc::c
