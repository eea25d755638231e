// Products of bytes, of which each step adds up four in each lane of 32 bits: one instruction where the
// machine that a compiler compiles for has one.
#include "codegen/backend/byte_expr_matchers.h"
#include "codegen/c/tile_writer.h"
#include "codegen/c/spelling.h"
#include "codegen/backend/c_names.h"
#include "ir/error.h"
#include "ir/tile.h"

namespace tc::c {
namespace {

constexpr int64_t kBytes = 4;  // in a lane

// The load, if the expression is a byte of memory, not of a register, as an integer of 32 bits; else null.
const Expr* byte_of_memory(const KernelContext& context, const ExprPtr& expr) {
  const Expr* load = loaded_byte(expr);
  const bool is_memory = load != nullptr && context.buffer(load->access.buffer).scope != Scope::Register;
  return is_memory ? load : nullptr;
}

// The four products of a lane. A_BYTE and B_BYTE are byte number n / 8 of each word.
const char* const kAnyVectors = R"(  U r = (U)sums;
  const U x = (U){0} + (uint32_t)a, y = (U)b;
  for (int n = 0; n < 32; n += 8) {
    r += A_BYTE * B_BYTE;
  }
  return (I)r;)";

// In each word, the products of both numbers of 16 bits are added up: bytes 0 and 2, then 1 and 3.
const char* const kPairs = R"(  const H x = (H)((U){0} + (uint32_t)a), y = (H)b;
  const I even = (I)MADD((M)(A_EVEN), (M)(B_EVEN)), odd = (I)MADD((M)(A_ODD), (M)(B_ODD));
  return (I)((U)sums + (U)even + (U)odd);)";

std::string replaced(std::string where, const std::string& what, const std::string& by) {
  for (size_t at = where.find(what); at != std::string::npos; at = where.find(what, at + by.size()))
    where.replace(at, what.size(), by);
  return where;
}

// One of the bodies above for these types.
std::string of_types(std::string body, int lanes, DType a_type, DType b_type) {
  const std::string type = vector_type(DType::I32, lanes), wide = vector_type(DType::U32, lanes),
                    signed_halves = vector_type(DType::I16, 2 * lanes);
  // A byte of each word of x: moved to the upper end, then down with its sign or without one.
  const auto byte = [&](DType dtype, const char* x) {
    return is_signed(dtype) ? text("(U)((I)(", x, " << (24 - n)) >> 24)")
                            : text("((", x, " << (24 - n)) >> 24)");
  };
  const auto half = [&](DType dtype, const char* x, bool odd) {
    const std::string of = is_signed(dtype) ? "(S)" : "(H)";
    return odd ? text(of, x, " >> 8") : text(of, "((H)", x, " << 8) >> 8");
  };
  for (const auto& [what, by] : {std::pair<std::string, std::string>{"A_BYTE", byte(a_type, "x")},
                                 {"B_BYTE", byte(b_type, "y")},
                                 {"A_EVEN", half(a_type, "x", false)},
                                 {"B_EVEN", half(b_type, "y", false)},
                                 {"A_ODD", half(a_type, "x", true)},
                                 {"B_ODD", half(b_type, "y", true)},
                                 {"(S)", "(" + signed_halves + ")"},
                                 {"(H)", "(" + vector_type(DType::U16, 2 * lanes) + ")"},
                                 {"H x", vector_type(DType::U16, 2 * lanes) + " x"},
                                 {"(U)", "(" + wide + ")"},
                                 {"U r", wide + " r"},
                                 {"U x", wide + " x"},
                                 {"(I)", "(" + type + ")"},
                                 {"I even", type + " even"}})
    body = replaced(body, what, by);
  return body;
}

// Includes what declares the instructions of registers, where there are some.
void use_registers(Functions& functions) {
  if (functions.begins("immintrin"))
    functions.define("#if TC_VECTORS && defined(__AVX2__)\n#include <immintrin.h>\n#endif\n");
}

}  // namespace

std::string load_word(Functions& functions) {
  if (functions.begins("tc_load_word")) {
    functions.define(
        "TC_FUNCTION int32_t tc_load_word(const void *p) {\n"
        "  int32_t r;\n  memcpy(&r, p, sizeof r);\n  return r;\n}\n");
  }
  return "tc_load_word";
}

std::string load_words(Functions& functions, int lanes, const std::string& address) {
  const std::string type = vector_type(DType::I32, lanes), name = type + "_load_bytes";
  if (functions.begins(name)) {
    functions.use_type(DType::I32, lanes);
    functions.define(text("TC_INLINE ", type, " ", name, "(const void *p) {\n  ", type,
                          " r;\n  memcpy(&r, p, sizeof r);\n  return r;\n}\n"));
  }
  return text(name, "(", address, ")");
}

std::string add_byte_products(Functions& functions, int lanes, std::pair<DType, DType> types,
                              const std::string& sums, const std::string& a, const std::string& b) {
  const auto [a_type, b_type] = types;
  const std::string type = vector_type(DType::I32, lanes),
                    name = text(type, "_dot_", name_of(a_type), "_", name_of(b_type));
  if (!functions.begins(name)) return text(name, "(", sums, ", ", a, ", ", b, ")");
  for (const DType dtype : {DType::I32, DType::U32}) functions.use_type(dtype, lanes);
  for (const DType dtype : {DType::I16, DType::U16}) functions.use_type(dtype, 2 * lanes);
  const auto filled = [&](const char* body) { return of_types(body, lanes, a_type, b_type); };
  std::string vectors;
  const std::string bits = text(32 * lanes), registers = text("(__m", bits, "i)");
  const bool has_registers = 32 * lanes == 256 || 32 * lanes == 512;
  if (has_registers) {
    use_registers(functions);
    const bool mixed = is_signed(a_type) != is_signed(b_type), whole_first = !is_signed(a_type);
    const std::string prefix = lanes == 16 ? "_mm512" : "_mm256", spread = prefix + "_set1_epi32(a)",
                      words = registers + "b",
                      operands = whole_first ? spread + ", " + words : words + ", " + spread;
    const auto dot = [&](const std::string& condition, const char* suffix) {
      vectors += text("#if TC_VECTORS && ", condition, "\n  return (", type, ")", prefix, "_dpbusd", suffix,
                      "_epi32(", registers, "sums, ", operands, ");\n#el");
    };
    if (mixed && lanes == 16) dot("defined(__AVX512VNNI__)", "");
    if (mixed && lanes == 8) dot("defined(__AVX512VNNI__) && defined(__AVX512VL__)", "");
    if (mixed && lanes == 8) dot("defined(__AVXVNNI__)", "_avx");
    vectors = replaced(vectors, "#el#if", "#elif");
    const std::string pairs =
        replaced(replaced(filled(kPairs), "MADD", prefix + "_madd_epi16"), "(M)", registers);
    vectors += text(vectors.empty() ? "#" : "", "if TC_VECTORS && defined(",
                    lanes == 16 ? "__AVX512BW__" : "__AVX2__", ")\n", pairs, "\n#el");
  }
  vectors += text(vectors.empty() ? "#" : "", "if TC_VECTORS\n", filled(kAnyVectors), "\n#else\n");
  const auto of_word = [&](DType dtype, const std::string& word) {
    return text("(", c_type(dtype), ")((uint32_t)", word, " >> n)");
  };
  functions.define(
      text("/* Adds to each lane the four products of the bytes of `a` with those of the lane of `b`. */\n",
           "TC_INLINE ", type, " ", name, "(", type, " sums, int32_t a, ", type, " b) {\n", vectors,
           "  for (int l = 0; l < ", lanes, "; ++l) {\n    for (int n = 0; n < 32; n += 8) {\n      ",
           "const int32_t product = ", of_word(a_type, "a"), " * ", of_word(b_type, "TC_LANE(b, l)"),
           ";\n      TC_LANE(sums, l) = (int32_t)((uint32_t)TC_LANE(sums, l) + (uint32_t)product);\n",
           "    }\n  }\n  return sums;\n#endif\n}\n"));
  return text(name, "(", sums, ", ", a, ", ", b, ")");
}

std::string multiply_shift(Functions& functions, int lanes, const std::string& a, const std::string& b,
                           int64_t bits) {
  const std::string type = vector_type(DType::I32, lanes), name = type + "_mul_shr";
  if (!functions.begins(name)) return text(name, "(", a, ", ", b, ", ", bits, ")");
  functions.use_type(DType::I32, lanes);
  functions.use_type(DType::I64, lanes / 2);
  functions.use_type(DType::U64, lanes / 2);
  const std::string wide = vector_type(DType::I64, lanes / 2), bare = vector_type(DType::U64, lanes / 2),
                    registers = text("(__m", 32 * lanes, "i)");
  const auto products = [&](const std::string& even, const std::string& odd) {
    return text("  const ", bare, " even = (", bare, ")(", even, "), odd = (", bare, ")(", odd, ");\n");
  };
  std::string vectors = "#if TC_VECTORS\n";
  vectors += text("  const ", wide, " p = (", wide, ")a, q = (", wide, ")b;\n");
  const std::string any = products("((p << 32) >> 32) * ((q << 32) >> 32)", "(p >> 32) * (q >> 32)");
  if (32 * lanes == 256 || 32 * lanes == 512) {
    use_registers(functions);
    const std::string multiply = lanes == 16 ? "_mm512_mul_epi32(" : "_mm256_mul_epi32(";
    vectors += text(lanes == 16 ? "#if defined(__AVX512F__)\n" : "#if defined(__AVX2__)\n",
                    products(multiply + registers + "p, " + registers + "q)",
                             multiply + registers + "(p >> 32), " + registers + "(q >> 32))"),
                    "#else\n", any, "#endif\n");
  } else {
    vectors += any;
  }
  vectors +=
      text("  return (", type, ")(((even >> bits) & UINT64_C(0xffffffff)) | ((odd >> bits) << 32));\n");
  functions.define(
      text("/* Of the products of 64 bits: even lanes, then odd ones. */\nTC_INLINE ", type, " ", name, "(",
           type, " a, ", type, " b, int bits) {\n", vectors, "#else\n  for (int l = 0; l < ", lanes,
           "; ++l) {\n    const uint64_t product = (uint64_t)((int64_t)TC_LANE(a, l) * TC_LANE(b, l));\n",
           "    TC_LANE(a, l) = (int32_t)(uint32_t)(product >> bits);\n  }\n  return a;\n#endif\n}\n"));
  return text(name, "(", a, ", ", b, ", ", bits, ")");
}

std::optional<bool> Memory::is_shared_word(const Access& access, const std::string& loop) const {
  const BufferNames& slot = state_.context.buffers[static_cast<size_t>(access.buffer)];
  int64_t bytes = 0, lanes = 0;
  for (size_t d = 0; d < access.index.size(); ++d) {
    if (access.index[d].dynamic != nullptr) return std::nullopt;
    const Affine affine = access.index[d].affine.substitute(state_.iterators);
    const int64_t of_bytes = affine.coefficient(loop), of_lanes = state_.lane_step(affine);
    if (!slot.symbolic_stride[d].empty() && (of_bytes != 0 || of_lanes != 0)) return std::nullopt;
    bytes += of_bytes * slot.stride[d];
    lanes += of_lanes * slot.stride[d];
  }
  if (bytes != 1 || (lanes != 0 && lanes != kBytes)) return std::nullopt;
  return lanes == 0;
}

bool Memory::is_inside(const Access& access) const {
  const Buffer& buffer = state_.context.buffer(access.buffer);
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Affine affine = access.index[d].affine.substitute(state_.iterators);
    if (!proves_nonnegative(affine, state_.context.ranges, state_.known) ||
        !proves_nonnegative(buffer.shape[d] - 1 - affine, state_.context.ranges, state_.known))
      return false;
  }
  return true;
}

std::string Memory::load_words(const Access& access, bool is_shared) {
  const Place place = place_of(access, "");
  const std::string& buffer = state_.context.buffers[static_cast<size_t>(access.buffer)].name;
  const std::string key = tc::text("words ", is_shared ? 1 : state_.lanes, " ", place.key);
  const bool is_kept = state_.written.count(access.buffer) == 0;
  const Value* known = is_kept ? state_.lines.loaded(key) : nullptr;
  if (known != nullptr) return known->text;
  const std::string address = text("&", buffer, "[", place.first, "]");
  const std::string loaded = is_shared ? text(c::load_word(state_.functions()), "(", address, ")")
                                       : c::load_words(state_.functions(), state_.lanes, address);
  const std::string name = state_.lines.named(is_shared ? "int32_t" : vector_type(DType::I32, state_.lanes),
                                              buffer + "_at", loaded);
  if (is_kept) state_.lines.remember(key, {name, !is_shared});
  if (place.elements) prefetch(access, *place.elements);
  return name;
}

bool TileWriter::sum_bytes(size_t position, const Constraints& pending) {
  const TileLoop& bytes = state_.tile->loops[position];
  const Statement& statement = *state_.statement;
  const bool is_last = position + 2 == state_.tile->loops.size() && state_.lanes > 1;
  if (!region_.active || region_.lane_partial || !is_last || bytes.extent != kBytes ||
      !has_vectors(state_.lanes) || statement.reduction != Reduction::Sum || written_type() != DType::I32 ||
      statement.value->kind != Expr::Kind::Binary || statement.value->binary != BinaryOp::Mul)
    return false;
  const Expr* a = byte_of_memory(state_.context, statement.value->operands[0]);
  const Expr* b = byte_of_memory(state_.context, statement.value->operands[1]);
  if (a == nullptr || b == nullptr) return false;
  for (const Affine& constraint : pending) {
    if (constraint.coefficient(bytes.name) != 0) return false;
  }
  state_.bind_iterators();
  const auto a_shared = expressions_.memory().is_shared_word(a->access, bytes.name),
             b_shared = expressions_.memory().is_shared_word(b->access, bytes.name);
  if (!a_shared || !b_shared || *a_shared == *b_shared) return false;
  if (*b_shared) std::swap(a, b);
  if (!expressions_.memory().is_inside(b->access)) return false;
  if (lanes_of(region_, region_.accumulators.at(accumulator_key())) != state_.lanes) return false;
  Constraints scalar, lanes;
  state_.divide(pending, scalar, lanes);
  state_.values[bytes.name] = Affine(0);
  branch_on(scalar, [&] {
    state_.bind_iterators();
    const Accumulator& accumulator = region_.accumulators.at(accumulator_key());
    Constraints needed;
    for (const Affine& constraint : lanes) {
      if (accumulator.exists_where.count(constraint.str()) == 0) needed.push_back(constraint);
    }
    const std::string word = expressions_.memory().load_words(a->access, true),
                      words = expressions_.memory().load_words(b->access, false),
                      next = add_byte_products(state_.functions(), state_.lanes, {a->dtype, b->dtype},
                                               accumulator.variable, word, words);
    state_.lines.add(tc::text(accumulator.variable, " = ", selected(accumulator, needed, next), ";"));
  });
  state_.values.erase(bytes.name);
  return true;
}

}  // namespace tc::c
