// Vector functions of generated code that read and write memory, and those of masks.
#include "codegen/c/helper_functions.h"
#include "codegen/c/spelling.h"
#include "codegen/backend/c_names.h"
#include "ir/error.h"

namespace tc::c {
namespace {

std::string lane_of(int lanes, const std::string& vector) {
  return text(has_vectors(lanes) ? "TC_LANE(" : "TC_ELEMENT(", vector, ", l)");
}

std::string loop(int lanes, const std::string& statement) {
  return text("  for (int l = 0; l < ", lanes, "; ++l) {\n    ", statement, "\n  }\n");
}

std::string guarded(int lanes, const std::string& mask, const std::string& statement) {
  return mask.empty() ? statement
                      : text("if (", lane_of(lanes, "m"), " != 0) {\n      ", statement, "\n    }");
}

std::string from_memory(DType dtype, const std::string& element) {
  return dtype == DType::Bool ? element + " != 0 ? -1 : 0" : element;
}

std::string to_memory(DType dtype, const std::string& lane) {
  return dtype == DType::Bool ? "(uint8_t)(" + lane + " != 0)" : lane;
}

const char* const kIntegers = R"(
TC_FUNCTION ptrdiff_t tc_minimum(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
TC_FUNCTION ptrdiff_t tc_maximum(ptrdiff_t a, ptrdiff_t b) { return a < b ? b : a; }
/* Quotient and rest by a positive number, rounded down. */
TC_FUNCTION ptrdiff_t tc_floor_divide(ptrdiff_t a, ptrdiff_t b) { return a / b - (a % b < 0 ? 1 : 0); }
TC_FUNCTION ptrdiff_t tc_floor_rest(ptrdiff_t a, ptrdiff_t b) { return a % b < 0 ? a % b + b : a % b; }
)";

}  // namespace

void Functions::use_integers() {
  if (begins("tc_minimum")) define(kIntegers);
}

std::string Functions::any(int lanes, const std::string& mask) {
  const std::string type = vector_type(DType::Bool, lanes), name = type + "_any";
  if (begins(name)) {
    use_type(DType::Bool, lanes);
    define(text("TC_INLINE int ", name, "(", type, " m) {\n  int r = 0;\n",
                loop(lanes, "r |= " + lane_of(lanes, "m") + ";"), "  return r != 0;\n}\n"));
  }
  return text(name, "(", mask, ")");
}

std::string Functions::ramp(int lanes, const std::string& base, int64_t step) {
  const std::string type = vector_type(DType::I64, lanes), name = type + "_ramp";
  if (begins(name)) {
    use_type(DType::I64, lanes);
    define(text("TC_INLINE ", type, " ", name, "(int64_t base, int64_t step) {\n  ", type, " r = {0};\n",
                loop(lanes, lane_of(lanes, "r") + " = base + step * l;"), "  return r;\n}\n"));
  }
  return text(name, "(", base, ", ", step, ")");
}

std::string Functions::at_least_zero(int lanes, const std::string& base, int64_t step) {
  const std::string type = vector_type(DType::Bool, lanes), name = type + "_at_least_zero";
  if (begins(name)) {
    use_type(DType::Bool, lanes);
    define(text("TC_INLINE ", type, " ", name, "(ptrdiff_t base, ptrdiff_t step) {\n  ", type, " r = {0};\n",
                loop(lanes, lane_of(lanes, "r") + " = base + step * l >= 0 ? -1 : 0;"), "  return r;\n}\n"));
  }
  return text(name, "(", base, ", ", step, ")");
}

std::string Functions::load(DType dtype, int lanes, const std::string& address) {
  const std::string type = vector_type(dtype, lanes), name = type + "_load";
  if (begins(name)) {
    use_type(dtype, lanes);
    const std::string body = dtype == DType::Bool
                                 ? loop(lanes, lane_of(lanes, "r") + " = p[l] != 0 ? -1 : 0;")
                                 : "  memcpy(&r, p, sizeof r);\n";
    define(text("TC_INLINE ", type, " ", name, "(const ", c_type(dtype), " *p) {\n  ", type, " r",
                dtype == DType::Bool ? " = {0}" : "", ";\n", body, "  return r;\n}\n"));
  }
  return text(name, "(", address, ")");
}

std::string Functions::store(DType dtype, int lanes, const std::string& address, const std::string& value) {
  const std::string type = vector_type(dtype, lanes), name = type + "_store";
  if (begins(name)) {
    use_type(dtype, lanes);
    const std::string body = dtype == DType::Bool
                                 ? loop(lanes, "p[l] = " + to_memory(dtype, lane_of(lanes, "v")) + ";")
                                 : "  memcpy(p, &v, sizeof v);\n";
    define(text("TC_INLINE void ", name, "(", c_type(dtype), " *p, ", type, " v) {\n", body, "}\n"));
  }
  return text(name, "(", address, ", ", value, ")");
}

namespace {

// Whether these are masked lanes that are adjacent in memory: they become a loop over arrays, which
// compilers turn into a masked instruction.
bool is_masked_run(const Functions::Lanes& where, DType dtype) {
  return where.step == "1" && where.places.empty() && !where.mask.empty() && dtype != DType::Bool;
}

std::string array_of(const std::string& element, int lanes, const std::string& name,
                     const std::string& vector) {
  return text("  ", element, " ", name, "[", lanes, "];\n  memcpy(", name, ", &", vector, ", sizeof ", name,
              ");\n");
}

}  // namespace

std::string Functions::load_run(DType dtype, int lanes, const std::string& address, const std::string& mask) {
  const std::string type = vector_type(dtype, lanes), name = type + "_load_if",
                    masks = vector_type(DType::Bool, lanes);
  if (begins(name)) {
    use_type(dtype, lanes);
    use_type(DType::Bool, lanes);
    define(text("TC_INLINE ", type, " ", name, "(const ", c_type(dtype), " *p, ", masks, " m) {\n  ", type,
                " r;\n  ", c_type(dtype), " e[", lanes, "] = {0};\n", array_of("int32_t", lanes, "n", "m"),
                loop(lanes, "if (n[l] != 0) {\n      e[l] = p[l];\n    }"),
                "  memcpy(&r, e, sizeof r);\n  return r;\n}\n"));
  }
  return text(name, "(", address, ", ", mask, ")");
}

std::string Functions::store_run(DType dtype, int lanes, const std::string& address, const std::string& value,
                                 const std::string& mask) {
  const std::string type = vector_type(dtype, lanes), name = type + "_store_if",
                    masks = vector_type(DType::Bool, lanes);
  if (begins(name)) {
    use_type(dtype, lanes);
    use_type(DType::Bool, lanes);
    define(text("TC_INLINE void ", name, "(", c_type(dtype), " *p, ", type, " v, ", masks, " m) {\n",
                array_of(c_type(dtype), lanes, "e", "v"), array_of("int32_t", lanes, "n", "m"),
                loop(lanes, "if (n[l] != 0) {\n      p[l] = e[l];\n    }"), "}\n"));
  }
  return text(name, "(", address, ", ", value, ", ", mask, ")");
}

std::string Functions::load(DType dtype, int lanes, const std::string& address, const Lanes& where) {
  if (is_masked_run(where, dtype)) return load_run(dtype, lanes, address, where.mask);
  const bool gathers = !where.places.empty();
  const std::string type = vector_type(dtype, lanes),
                    name = text(type, gathers ? "_gather" : "_load_apart", where.mask.empty() ? "" : "_if");
  if (begins(name)) {
    use_type(dtype, lanes);
    use_type(DType::Bool, lanes);
    use_type(DType::I64, lanes);
    const std::string element = gathers ? text("p[", lane_of(lanes, "places"), "]") : "p[step * l]";
    define(text("TC_INLINE ", type, " ", name, "(const ", c_type(dtype), " *p, ",
                gathers ? vector_type(DType::I64, lanes) + " places" : "ptrdiff_t step",
                where.mask.empty() ? "" : ", " + vector_type(DType::Bool, lanes) + " m", ") {\n  ", type,
                " r = {0};\n",
                loop(lanes, guarded(lanes, where.mask,
                                    lane_of(lanes, "r") + " = " + from_memory(dtype, element) + ";")),
                "  return r;\n}\n"));
  }
  return text(name, "(", address, ", ", gathers ? where.places : where.step,
              where.mask.empty() ? "" : ", " + where.mask, ")");
}

std::string Functions::store(DType dtype, int lanes, const std::string& address, const std::string& value,
                             const Lanes& where) {
  if (is_masked_run(where, dtype)) return store_run(dtype, lanes, address, value, where.mask);
  const bool scatters = !where.places.empty();
  const std::string type = vector_type(dtype, lanes),
                    name =
                        text(type, scatters ? "_scatter" : "_store_apart", where.mask.empty() ? "" : "_if");
  if (begins(name)) {
    use_type(dtype, lanes);
    use_type(DType::Bool, lanes);
    use_type(DType::I64, lanes);
    const std::string element = scatters ? text("p[", lane_of(lanes, "places"), "]") : "p[step * l]";
    define(text("TC_INLINE void ", name, "(", c_type(dtype), " *p, ",
                scatters ? vector_type(DType::I64, lanes) + " places" : "ptrdiff_t step", ", ", type, " v",
                where.mask.empty() ? "" : ", " + vector_type(DType::Bool, lanes) + " m", ") {\n",
                loop(lanes, guarded(lanes, where.mask,
                                    element + " = " + to_memory(dtype, lane_of(lanes, "v")) + ";")),
                "}\n"));
  }
  return text(name, "(", address, ", ", scatters ? where.places : where.step, ", ", value,
              where.mask.empty() ? "" : ", " + where.mask, ")");
}

std::string Functions::definitions() const {
  std::string result =
      R"(/* Vectors of so many lanes: what GCC and Clang have where that is defined, else arrays. */
#if defined(__GNUC__) && !defined(TC_NO_VECTORS)
#define TC_VECTORS 1
#define TC_LANE(v, l) ((v)[l])
#else
#define TC_VECTORS 0
#define TC_LANE(v, l) ((v).e[l])
#endif
#define TC_ELEMENT(v, l) ((v).e[l])
#if defined(__GNUC__)
#define TC_FUNCTION static inline __attribute__((unused))
#define TC_INLINE static inline __attribute__((always_inline, unused))
#define TC_KERNEL static __attribute__((noinline))
#else
#define TC_FUNCTION static inline
#define TC_INLINE static inline
#define TC_KERNEL static
#endif
/* Asks for the line of memory with that byte of an array, or behind it, where that takes no access. */
#if defined(__GNUC__)
#define TC_PREFETCH(array, byte) __builtin_prefetch((const void *)((uintptr_t)(array) + (uintptr_t)(byte)))
#else
#define TC_PREFETCH(array, byte) ((void)0)
#endif
/* Copies of the body of the loop that follows: what sums wait for is in flight then. */
#define TC_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define TC_UNROLL(n) TC_PRAGMA(clang loop unroll_count(n))
#elif defined(__GNUC__)
#define TC_UNROLL(n) TC_PRAGMA(GCC unroll n)
#else
#define TC_UNROLL(n)
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors that the machine does not have are passed to no other file */
#endif

)";
  for (const std::string& definition : definitions_) result += definition;
  return result;
}

}  // namespace tc::c
