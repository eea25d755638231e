// pack: a constant or an input stored in the order in which one statement reads it.
#include <algorithm>

#include "ir/domain.h"
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/statements.h"

namespace tc {
namespace {

// The one statement that reads the buffer, its access, and the dimensions of the packed buffer: their names,
// sizes, and the subscripts with which the statement reads them.
struct Reading {
  size_t statement = 0;
  Access access;
  std::vector<std::string> names;
  std::vector<Affine> shape;
  std::vector<Subscript> index;
  // For each dimension of the original, its index in terms of the names.
  std::vector<Affine> original;
};

// Adds a dimension in which the constant keeps its order, since data decides what is read of it.
void keep_dimension(Reading& reading, const Buffer& buffer, const Subscript& subscript,
                    const std::vector<std::string>& iterators) {
  std::string name = text("chosen_", reading.names.size());
  while (std::count(iterators.begin(), iterators.end(), name) > 0) name += '_';
  reading.shape.push_back(buffer.shape[reading.original.size()]);
  reading.index.push_back(subscript);
  reading.original.push_back(Affine::variable(name));
  reading.names.push_back(std::move(name));
}

Reading reading_of(const Kernel& kernel, int which, const std::vector<std::string>& iterators) {
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(which)];
  const char* kind = buffer.scope == Scope::Constant ? "constant " : "input ";
  Reading reading;
  int count = 0;
  for (size_t i = 0; i < kernel.statements.size(); ++i) {
    visit_accesses(kernel.statements[i], [&](const Access& each, bool) {
      if (each.buffer != which) return;
      // A statement may read one element more than once.
      if (count > 0 && reading.statement == i && same_access(reading.access, each)) return;
      ++count;
      reading.statement = i;
      reading.access = each;
    });
  }
  if (count != 1) refuse(kind, buffer.name, " is read at ", count, " places, not at one");
  const Statement& reader = kernel.statements[reading.statement];
  std::vector<Affine> extents;
  for (const std::string& iterator : iterators) {
    if (std::count(iterators.begin(), iterators.end(), iterator) > 1)
      refuse("iterator ", iterator, " is named twice");
    const auto found = std::find_if(reader.iterators.begin(), reader.iterators.end(),
                                    [&](const Iterator& each) { return each.name == iterator; });
    if (found == reader.iterators.end())
      refuse("statement ", reader.name, " has no iterator '", iterator, "'");
    extents.push_back(found->extent);
  }
  for (const Subscript& subscript : reading.access.index) {
    const bool keeps = subscript.dynamic && buffer.scope == Scope::Constant &&
                       subscript.affine.is_constant() && subscript.affine.constant() == 0;
    if (keeps) {
      keep_dimension(reading, buffer, subscript, iterators);
      continue;
    }
    if (subscript.dynamic) refuse(kind, buffer.name, " is read at an index that depends on data");
    for (const auto& [variable, coefficient] : subscript.affine.terms()) {
      const bool size = std::any_of(kernel.parameters.begin(), kernel.parameters.end(),
                                    [&](const Parameter& parameter) { return parameter.name == variable; });
      if (!size && std::count(iterators.begin(), iterators.end(), variable) == 0) {
        refuse("the index of ", buffer.name, " depends on ", variable, ", which is not listed");
      }
    }
    reading.original.push_back(subscript.affine);
  }
  for (size_t i = 0; i < iterators.size(); ++i) {
    reading.names.push_back(iterators[i]);
    reading.shape.push_back(extents[i]);
    reading.index.push_back({Affine::variable(iterators[i]), nullptr});
  }
  return reading;
}

void read_packed(Statement& reader, int from, int to, const std::vector<Subscript>& index) {
  edit_accesses(reader, [&](const Access& each) { return each.buffer == from ? Access{to, index} : each; });
}

void pack_constant(ScheduleState& state, Kernel& kernel, int which,
                   const std::vector<std::string>& iterators) {
  Buffer& buffer = kernel.buffers[static_cast<size_t>(which)];
  const Reading reading = reading_of(kernel, which, iterators);
  int64_t elements = 1, original = 1;
  for (size_t i = 0; i < reading.names.size(); ++i) {
    if (!reading.shape[i].is_constant()) refuse("iterator ", reading.names[i], " has a symbolic extent");
    if (__builtin_mul_overflow(elements, reading.shape[i].constant(), &elements)) elements = -1;
  }
  for (const Affine& size : buffer.shape) {
    if (!size.is_constant()) refuse("constant ", buffer.name, " has a symbolic shape");
    original *= size.constant();
  }
  if (elements < 0 || elements > 16 * original + 4096) {
    refuse("the packed constant would be ", elements, " elements instead of ", original);
  }
  const auto old = std::find_if(kernel.packings.begin(), kernel.packings.end(),
                                [&](const Packing& packing) { return packing.buffer == buffer.name; });
  if (old != kernel.packings.end() &&
      (!old->terms.empty() || !old->words.empty() || !old->scales_of.empty())) {
    refuse("constant ", buffer.name, " is packed as the algorithm needs it");
  }
  Packing packing;
  packing.buffer = buffer.name;
  packing.iterators = reading.names;
  if (old == kernel.packings.end()) {
    for (const Affine& size : buffer.shape) packing.original_shape.push_back(size.constant());
    packing.index = reading.original;
    kernel.packings.push_back(std::move(packing));
  } else {
    packing.original_shape = old->original_shape;
    packing.combinations = old->combinations;
    std::map<std::string, Affine> values;
    for (size_t d = 0; d < reading.access.index.size(); ++d) {
      values[old->iterators[d]] = reading.original[d];
    }
    for (const Affine& each : old->index) packing.index.push_back(each.substitute(values));
    *old = std::move(packing);
  }
  state.blocked.erase(std::remove_if(state.blocked.begin(), state.blocked.end(),
                                     [&](const BlockedDim& dim) { return dim.buffer == buffer.name; }),
                      state.blocked.end());
  read_packed(kernel.statements[reading.statement], which, which, reading.index);
  buffer.shape = reading.shape;
  buffer.logical = "packed";
}

// Whether each element that the copy reads is one that the reader reads: then it lies inside of the input,
// also where the kernel's parameters alone do not say so (a cache of keys of which a part is filled). The
// witness is one corner of the reader's other iterators, at which all its conditions have to hold.
bool reads_what_reader_does(const Kernel& kernel, const Statement& reader, const Statement& copy) {
  const auto box = box_of(kernel, reader);
  std::map<std::string, Affine> corner;
  for (const Iterator& iterator : reader.iterators) {
    const bool is_listed = std::any_of(copy.iterators.begin(), copy.iterators.end(),
                                       [&](const Iterator& each) { return each.name == iterator.name; });
    if (is_listed) continue;
    if (range_of(iterator.extent, box).low < 1) return false;
    const bool wants_last =
        std::any_of(reader.constraints.begin(), reader.constraints.end(),
                    [&](const Affine& constraint) { return constraint.coefficient(iterator.name) > 0; });
    corner[iterator.name] = wants_last ? iterator.extent - Affine(1) : Affine(0);
  }
  std::vector<Affine> limits = copy.constraints;
  for (const Iterator& each : copy.iterators)
    limits.push_back(each.extent - Affine(1) - Affine::variable(each.name));
  const Domain domain(box_of(kernel, copy), limits);
  return std::all_of(reader.constraints.begin(), reader.constraints.end(), [&](const Affine& constraint) {
    return domain.is_nonnegative(constraint.substitute(corner), nullptr) == Domain::Answer::Yes;
  });
}

// Adds a statement before all others that copies what the reader reads, under those of the reader's
// conditions that are on listed iterators only.
void pack_input(Kernel& kernel, int which, const std::vector<std::string>& iterators) {
  const Reading reading = reading_of(kernel, which, iterators);
  auto fresh = [](std::string name, const auto& taken) {
    const std::string stem = name;
    for (int number = 2; taken(name); ++number) name = stem + std::to_string(number);
    return name;
  };
  const Buffer input = kernel.buffers[static_cast<size_t>(which)];
  Statement& reader = kernel.statements[reading.statement];
  Buffer packed;
  packed.name =
      fresh(input.name + "_packed", [&](const std::string& name) { return kernel.buffer_index(name) >= 0; });
  packed.dtype = input.dtype;
  packed.shape = reading.shape;
  packed.scope = Scope::Local;
  const auto local = static_cast<int>(kernel.buffers.size());
  Statement copy;
  copy.name =
      fresh("pack_" + input.name, [&](const std::string& name) { return kernel.find(name) != nullptr; });
  for (size_t i = 0; i < iterators.size(); ++i) copy.iterators.push_back({iterators[i], reading.shape[i]});
  for (const Affine& constraint : reader.constraints) {
    const auto& terms = constraint.terms();
    const bool own = std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
      const bool other = std::any_of(reader.iterators.begin(), reader.iterators.end(),
                                     [&](const Iterator& each) { return each.name == term.first; });
      return !other || std::count(iterators.begin(), iterators.end(), term.first) > 0;
    });
    if (own) copy.constraints.push_back(constraint);
  }
  if (!reads_what_reader_does(kernel, reader, copy)) {
    const Domain domain(box_of(kernel, copy), copy.constraints);
    for (size_t d = 0; d < reading.access.index.size(); ++d) {
      const Affine& index = reading.access.index[d].affine;
      for (const Affine& inside : {index, input.shape[d] - Affine(1) - index}) {
        const bool holds = domain.is_nonnegative(inside, nullptr) == Domain::Answer::Yes;
        if (!holds)
          refuse("what iterators besides those listed allow decides whether ", input.name,
                 " is read inside its shape");
      }
    }
  }
  copy.write.buffer = local;
  copy.write.index = reading.index;
  copy.value = load(input.dtype, which, reading.access.index);
  read_packed(reader, which, local, reading.index);
  kernel.buffers.push_back(std::move(packed));
  kernel.statements.insert(kernel.statements.begin(), std::move(copy));
}

}  // namespace

Primitive pack_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "pack",
      PrimitiveKind::Rewrite,
      {buffer("BUFFER"), keyword(":"), list(iterator_name("ITERATOR"), 0)},
      "S reads K[index(i, j, ..)]  ->  S reads K[i][j][..]: the constant is stored, while "
      "compiling, with one dimension per listed iterator of the one statement that "
      "reads it. Elements outside of the original are 0. Dimensions at whose index data decides come "
      "first and keep their order. An input I is copied by a statement "
      "that comes before all others: { P[i][j][..] = I[index(i, j, ..)]; S reads P[i][j][..] }."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    Kernel kernel = state.kernel->kernel;
    const auto which = static_cast<int>(given.buffer("BUFFER"));
    const std::vector<std::string> iterators = given.words("ITERATOR");
    const Scope scope = kernel.buffers[static_cast<size_t>(which)].scope;
    if (scope == Scope::Constant) pack_constant(state, kernel, which, iterators);
    else if (scope == Scope::Input) pack_input(kernel, which, iterators);
    else
      refuse("buffer ", kernel.buffers[static_cast<size_t>(which)].name,
             " is neither a constant nor an input");
    replace_kernel(state, std::move(kernel));
  };
  return primitive;
}

}  // namespace tc
