// Changes to the structure of ONNX models: any field of any message, by its type, and the smallest model that
// shows the same failure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/proto_tree.h"

namespace tc {

class StructureMutator {
 public:
  // The same seed makes the same changes.
  StructureMutator(const ProtoSchema& schema, uint64_t seed) : schema_(schema), random_(seed) {}

  // Changes one to four places of the model.
  void mutate(ProtoMessage& model);
  size_t pick(size_t count) {
    return count == 0 ? 0 : std::uniform_int_distribution<size_t>(0, count - 1)(random_);
  }

 private:
  // A field's value where it stands: `parent` holds it at `index`.
  struct Place {
    ProtoMessage* parent;
    size_t index;
    ProtoValue& value() const { return parent->fields[index]; }
  };
  // By message and field; fields of many elements count once.
  using Places = std::map<std::string, std::vector<Place>>;

  void collect(ProtoMessage& message);
  void mutate_once(ProtoMessage& model);
  void redraw(const Place& place);
  void redraw_text(const Place& place);
  void add_field();
  void add_attribute();
  ProtoValue drawn(const ProtoMessage& parent, int number);
  uint64_t draw_integer(uint64_t present);
  float draw_float();
  std::string draw_word();
  const ProtoField& field_of(const Place& place) const {
    return schema_.field(place.parent->type, place.value().number);
  }

  const ProtoSchema& schema_;
  std::mt19937_64 random_;
  Places places_;
  std::map<std::string, std::vector<ProtoMessage*>> messages_;
  std::vector<std::string> names_;  // all texts of the model
};

// Removes fields and makes numbers small as long as `fails` holds, at most `attempts` times.
ProtoMessage shrink(const ProtoSchema& schema, ProtoMessage model, int attempts,
                    const std::function<bool(const ProtoMessage&)>& fails);

}  // namespace tc
