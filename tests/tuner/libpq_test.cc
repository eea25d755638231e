// What tuner/libpq.h declares is what libpq's own header declares.
#include "tuner/libpq.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "tests/stores.h"

#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#define TC_HAS_LIBPQ_HEADER 1
#endif

namespace tc::testing {
namespace {

#ifdef TC_HAS_LIBPQ_HEADER

// The type as libpq calls it.
template <class Type>
struct Theirs {
  using type = Type;
};
template <>
struct Theirs<libpq::Connection> {
  using type = PGconn;
};
template <>
struct Theirs<libpq::Result> {
  using type = PGresult;
};
template <>
struct Theirs<libpq::Option> {
  using type = PQconninfoOption;
};
template <class Type>
struct Theirs<const Type> {
  using type = const typename Theirs<Type>::type;
};
template <class Type>
struct Theirs<Type*> {
  using type = typename Theirs<Type>::type*;
};
template <class Result, class... Parameters>
struct Theirs<Result(Parameters...)> {
  using type = typename Theirs<Result>::type(typename Theirs<Parameters>::type...);
};

// Enumerations are passed as integers.
template <class Type>
struct Plain {
  using type = std::conditional_t<std::is_enum_v<Type>, int, Type>;
};
template <class Result, class... Parameters>
struct Plain<Result(Parameters...)> {
  using type = typename Plain<Result>::type(typename Plain<Parameters>::type...);
};

#define TC_COMPARE(result, name, parameters)                                                          \
  static_assert(std::is_same_v<Theirs<std::remove_pointer_t<decltype(libpq::Functions::name)>>::type, \
                               Plain<decltype(::name)>::type>,                                        \
                #name);
TC_LIBPQ_FUNCTIONS(TC_COMPARE)
#undef TC_COMPARE

static_assert(sizeof(libpq::Option) == sizeof(PQconninfoOption));
static_assert(offsetof(libpq::Option, keyword) == offsetof(PQconninfoOption, keyword));
static_assert(offsetof(libpq::Option, value) == offsetof(PQconninfoOption, val));
static_assert(libpq::kConnectionOk == CONNECTION_OK && libpq::kCommandOk == PGRES_COMMAND_OK);
static_assert(libpq::kRowsOk == PGRES_TUPLES_OK && libpq::kSingleRow == PGRES_SINGLE_TUPLE);
static_assert(libpq::kStateField == PG_DIAG_SQLSTATE && libpq::kMessageField == PG_DIAG_MESSAGE_PRIMARY);

TEST(TunerLibpq, IsDeclaredAsInItsHeader) { SUCCEED(); }

#else

TEST(TunerLibpq, IsDeclaredAsInItsHeader) {
  GTEST_SKIP() << "libpq's header is not installed (apt-get install libpq-dev)";
}

#endif

TEST(TunerLibpq, IsLoadedWhenItIsUsed) {
  if (const std::string why = missing_store("postgresql"); !why.empty()) GTEST_SKIP() << why;
  EXPECT_NE(libpq::load().PQconninfoParse, nullptr);
  EXPECT_NE(libpq::load().PQclear, nullptr);
}

}  // namespace
}  // namespace tc::testing
