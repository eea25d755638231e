// What may become of a field, and the search for a small model.
#include "tests/structure_mutator.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <iterator>
#include <limits>

#include "ir/ops/op.h"

namespace tc {
namespace {

template <class Map>
auto& any_of(Map& map, size_t number) {
  return std::next(map.begin(), static_cast<std::ptrdiff_t>(number))->second;
}

int number_of(const ProtoSchema& schema, const std::string& message, const std::string& field) {
  for (const auto& [number, declared] : schema.messages.at(message)) {
    if (declared.name == field) return number;
  }
  return 0;
}

ProtoValue text_value(int number, const std::string& words) { return {number, 0, words, {}}; }
ProtoValue number_value(int number, uint64_t bits) { return {number, bits, "", {}}; }

}  // namespace

void StructureMutator::mutate(ProtoMessage& model) {
  for (size_t i = 0, count = 1 + pick(4); i < count; ++i) {
    places_.clear();
    messages_.clear();
    names_.clear();
    collect(model);
    mutate_once(model);
  }
}

void StructureMutator::collect(ProtoMessage& message) {
  messages_[message.type].push_back(&message);
  for (size_t i = 0; i < message.fields.size(); ++i) {
    ProtoValue& value = message.fields[i];
    const ProtoField& field = schema_.field(message.type, value.number);
    places_[message.type + "." + field.name].push_back({&message, i});
    if (field.type == "string") names_.push_back(value.bytes);
    if (schema_.is_message(field.type)) collect(value.message);
  }
}

void StructureMutator::mutate_once(ProtoMessage&) {
  if (places_.empty()) return;
  if (pick(6) == 0) return add_field();
  if (pick(4) == 0) return add_attribute();
  std::vector<Place>& alike = any_of(places_, pick(places_.size()));
  const Place place = alike[pick(alike.size())], other = alike[pick(alike.size())];
  std::vector<ProtoValue>& fields = place.parent->fields;
  switch (pick(10)) {
    case 0: fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(place.index)); break;
    case 1:
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(place.index), ProtoValue(place.value()));
      break;
    case 2: {
      // Through copies: one of the two may be inside the other.
      const ProtoValue copy = other.value();
      place.value() = copy;
      break;
    }
    case 3: std::swap(fields[place.index], fields[pick(fields.size())]); break;
    default: redraw(place);
  }
}

void StructureMutator::redraw(const Place& place) {
  const ProtoField& field = field_of(place);
  ProtoValue& value = place.value();
  if (schema_.is_message(field.type)) {
    const auto& alike = messages_.at(field.type);
    const ProtoMessage copy = *alike[pick(alike.size())];
    value.message = pick(4) == 0 ? ProtoMessage{field.type, {}} : copy;
  } else if (field.type == "string" || field.type == "bytes") {
    redraw_text(place);
  } else {
    value.bits = drawn(*place.parent, value.number).bits ^ (pick(4) == 0 ? value.bits : 0);
    if (field.type == "int64" && pick(3) == 0) value.bits = draw_integer(value.bits);
  }
}

void StructureMutator::redraw_text(const Place& place) {
  std::string& bytes = place.value().bytes;
  const std::string& name = field_of(place).name;
  if (name == "raw_data") {
    if (pick(2)) bytes.resize(pick(2 * bytes.size() + 2));
    for (size_t i = 0; i < 4 && !bytes.empty(); ++i) bytes[pick(bytes.size())] = static_cast<char>(pick(256));
    return;
  }
  bytes = drawn(*place.parent, place.value().number).bytes;
}

// A field of some message that it may have and perhaps has not.
void StructureMutator::add_field() {
  ProtoMessage& parent = *[&] {
    auto& alike = any_of(messages_, pick(messages_.size()));
    return alike[pick(alike.size())];
  }();
  const auto& declared = schema_.messages.at(parent.type);
  const int number = std::next(declared.begin(), static_cast<std::ptrdiff_t>(pick(declared.size())))->first;
  ProtoValue value = drawn(parent, number);
  parent.fields.insert(parent.fields.begin() + static_cast<std::ptrdiff_t>(pick(parent.fields.size() + 1)),
                       std::move(value));
}

// An attribute that a node's row has, of its kind.
void StructureMutator::add_attribute() {
  const auto nodes = messages_.find("NodeProto");
  if (nodes == messages_.end()) return;
  ProtoMessage& node = *nodes->second[pick(nodes->second.size())];
  const int type_number = number_of(schema_, node.type, "op_type");
  const OpRow* row = nullptr;
  for (const ProtoValue& value : node.fields) {
    if (value.number == type_number) row = find_onnx_op("", value.bytes, INT_MAX, nullptr);
  }
  if (!row || row->attributes.empty()) return;
  const AttributeRow& attribute = row->attributes[pick(row->attributes.size())];
  const std::string type = "AttributeProto";
  const auto number = [&](const char* name) { return number_of(schema_, type, name); };
  ProtoMessage made{type, {text_value(number("name"), attribute.name)}};
  const auto kind = [&](uint64_t code) { made.fields.push_back(number_value(number("type"), code)); };
  const size_t count = pick(5);
  if (std::holds_alternative<int64_t>(attribute.fallback)) {
    made.fields.push_back(number_value(number("i"), draw_integer(1)));
    kind(2);
  } else if (std::holds_alternative<double>(attribute.fallback)) {
    made.fields.push_back(drawn(made, number("f")));
    kind(1);
  } else if (std::holds_alternative<std::string>(attribute.fallback)) {
    const auto& choices = attribute.rule.choices;
    made.fields.push_back(
        text_value(number("s"), choices.empty() ? draw_word() : choices[pick(choices.size())]));
    kind(3);
  } else {
    for (size_t i = 0; i < count; ++i) made.fields.push_back(number_value(number("ints"), draw_integer(i)));
    kind(7);
  }
  const int attributes = number_of(schema_, node.type, "attribute");
  // In the place of one of the same name.
  std::erase_if(node.fields, [&](const ProtoValue& value) {
    return value.number == attributes && !value.message.fields.empty() &&
           value.message.fields[0].bytes == attribute.name;
  });
  node.fields.push_back({attributes, 0, "", made});
}

ProtoValue StructureMutator::drawn(const ProtoMessage& parent, int number) {
  const ProtoField& field = schema_.field(parent.type, number);
  ProtoValue value;
  value.number = number;
  if (schema_.is_message(field.type)) {
    const auto alike = messages_.find(field.type);
    value.message = alike == messages_.end() ? ProtoMessage{field.type, {}}
                                             : ProtoMessage(*alike->second[pick(alike->second.size())]);
  } else if (field.name == "op_type" && pick(8) == 0) {
    // Operators that need no row: they act on sequences, optionals and strings.
    static const char* const others[] = {
        "SequenceConstruct", "SequenceEmpty",  "SequenceInsert",     "SequenceErase",
        "SequenceAt",        "SequenceLength", "SplitToSequence",    "ConcatFromSequence",
        "SequenceMap",       "Optional",       "OptionalHasElement", "OptionalGetElement",
        "StringConcat",      "StringSplit",    "StringNormalizer",   "RegexFullMatch"};
    value.bytes = others[pick(std::size(others))];
  } else if (field.name == "op_type") {
    auto row = std::next(op_table().begin(), static_cast<std::ptrdiff_t>(pick(op_table().size())));
    value.bytes = row->second.onnx.empty() ? row->first : row->second.onnx[0].name;
  } else if (field.type == "string" && pick(4) != 0 && !names_.empty()) {
    value.bytes = names_[pick(names_.size())];
  } else if (field.type == "string" || field.type == "bytes") {
    value.bytes = draw_word();
  } else if (field.type == "float" || field.type == "double") {
    const float number32 = draw_float();
    const double number64 = number32;
    if (field.type == "float") std::memcpy(&value.bits, &number32, sizeof number32);
    else std::memcpy(&value.bits, &number64, sizeof number64);
  } else if (schema_.enums.count(field.type)) {
    const std::vector<int64_t>& values = schema_.enums.at(field.type);
    value.bits = pick(8) == 0 ? draw_integer(0) : static_cast<uint64_t>(values[pick(values.size())]);
  } else if (field.name == "elem_type" || field.name == "data_type") {
    value.bits = pick(24);
  } else {
    value.bits = draw_integer(1);
  }
  return value;
}

uint64_t StructureMutator::draw_integer(uint64_t present) {
  // clang-format off
  const int64_t known[] = {-1, -2, -3, 7, 16, 17, 63, 64, 100, 1000, 65536, INT32_MAX, INT32_MIN,
                           int64_t{1} << 31, int64_t{1} << 32,
                           int64_t{1} << 40, int64_t{1} << 62, INT64_MAX, INT64_MIN};
  // clang-format on
  switch (pick(4)) {
    case 0: return present + 1 - 2 * pick(2);
    case 1: return pick(6);
    case 2: return static_cast<uint64_t>(known[pick(std::size(known))]);
    default: return pick(2) ? present * 2 : uint64_t{0} - pick(6);
  }
}

float StructureMutator::draw_float() {
  // clang-format off
  const float known[] = {0, -0.0f, 1, -1, 0.5f, 3, 1e-45f, 3e38f, 1e10f,
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  // clang-format on
  return known[pick(std::size(known))];
}

std::string StructureMutator::draw_word() {
  // clang-format off
  static const char* const known[] = {"", "\xff\xfe", "x", "axis", "perm", "axes", "pads", "SAME_UPPER",
                                      "VALID", "linear", "cubic", "nearest",
                                      "reflect", "wrap", "CRD", "LEFT", "reverse", "bidirectional",
                                      "tf_crop_and_resize", "half_pixel_symmetric",
                                      "add", "ij,jk->ik", "ii->", "i...->...", "%s%n", "a\nb", "f32",
                                      "location", "../x", "ai.onnx"};
  // clang-format on
  return pick(40) == 0 ? std::string(size_t{1} << pick(18), 'n') : known[pick(std::size(known))];
}

namespace {

// Calls `each` with every place of the tree until it returns true: that place has changed.
bool for_some_place(ProtoMessage& message, const std::function<bool(ProtoMessage&, size_t)>& each) {
  for (size_t i = 0; i < message.fields.size(); ++i) {
    if (each(message, i)) return true;
    if (i < message.fields.size() && for_some_place(message.fields[i].message, each)) return true;
  }
  return false;
}

}  // namespace

ProtoMessage shrink(const ProtoSchema& schema, ProtoMessage model, int attempts,
                    const std::function<bool(const ProtoMessage&)>& fails) {
  size_t passed = 0;  // places that cannot go
  const auto without = [&](ProtoMessage& parent, size_t index) {
    const ProtoValue taken = parent.fields[index];
    parent.fields.erase(parent.fields.begin() + static_cast<std::ptrdiff_t>(index));
    --attempts;
    if (fails(model)) return true;
    parent.fields.insert(parent.fields.begin() + static_cast<std::ptrdiff_t>(index), taken);
    return false;
  };
  const auto smaller = [&](ProtoMessage& parent, size_t index) {
    ProtoValue& value = parent.fields[index];
    const std::string& type = schema.field(parent.type, value.number).type;
    if (type != "int64" || value.bits < 2) return false;
    const uint64_t before = value.bits;
    value.bits = 1;
    --attempts;
    if (fails(model)) return true;
    value.bits = before;
    return false;
  };
  for (const auto& step : {std::function<bool(ProtoMessage&, size_t)>(without),
                           std::function<bool(ProtoMessage&, size_t)>(smaller)}) {
    passed = 0;
    for (bool changed = true; changed && attempts > 0;) {
      size_t place = 0;
      changed = for_some_place(model, [&](ProtoMessage& parent, size_t index) {
        if (attempts <= 0 || place++ < passed) return false;
        if (step(parent, index)) return true;
        passed = place;
        return false;
      });
    }
  }
  return model;
}

}  // namespace tc
