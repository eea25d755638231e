// The part of libpq's C interface that tc uses. libpq, PostgreSQL's client library, is loaded when a log on a
// server is first opened, so that tc runs where it is not installed.
#pragma once

namespace tc::libpq {

struct Connection;
struct Result;

// libpq's PQconninfoOption. tests/tuner/libpq_test.cc compares what is declared here with libpq's own header.
struct Option {
  char* keyword;
  char* environment;
  char* compiled;
  char* value;
  char* label;
  char* display_kind;
  int display_size;
};

constexpr int kConnectionOk = 0;

constexpr int kCommandOk = 1;
constexpr int kRowsOk = 2;
constexpr int kSingleRow = 9;

constexpr int kStateField = 'C';  // SQLSTATE
constexpr int kMessageField = 'M';

using NoticeProcessor = void (*)(void* argument, const char* message);

// Result, name and parameters of each function that is used.
#define TC_LIBPQ_FUNCTIONS(FUNCTION)                                                               \
  FUNCTION(Option*, PQconninfoParse, (const char* url, char** why))                                \
  FUNCTION(Option*, PQconndefaults, ())                                                            \
  FUNCTION(void, PQconninfoFree, (Option * options))                                               \
  FUNCTION(void, PQfreemem, (void* memory))                                                        \
  FUNCTION(Connection*, PQconnectdbParams,                                                         \
           (const char* const* keywords, const char* const* values, int expand_database))          \
  FUNCTION(void, PQfinish, (Connection * connection))                                              \
  FUNCTION(int, PQstatus, (const Connection* connection))                                          \
  FUNCTION(char*, PQerrorMessage, (const Connection* connection))                                  \
  FUNCTION(int, PQsocket, (const Connection* connection))                                          \
  FUNCTION(int, PQserverVersion, (const Connection* connection))                                   \
  FUNCTION(const char*, PQparameterStatus, (const Connection* connection, const char* parameter))  \
  FUNCTION(NoticeProcessor, PQsetNoticeProcessor,                                                  \
           (Connection * connection, NoticeProcessor processor, void* argument))                   \
  FUNCTION(int, PQsetnonblocking, (Connection * connection, int nonblocking))                      \
  FUNCTION(int, PQsendQueryParams,                                                                 \
           (Connection * connection, const char* sql, int count, const unsigned* types,            \
            const char* const* values, const int* lengths, const int* formats, int result_format)) \
  FUNCTION(int, PQsetSingleRowMode, (Connection * connection))                                     \
  FUNCTION(int, PQflush, (Connection * connection))                                                \
  FUNCTION(int, PQconsumeInput, (Connection * connection))                                         \
  FUNCTION(int, PQisBusy, (Connection * connection))                                               \
  FUNCTION(Result*, PQgetResult, (Connection * connection))                                        \
  FUNCTION(int, PQresultStatus, (const Result* result))                                            \
  FUNCTION(char*, PQresultErrorField, (const Result* result, int field))                           \
  FUNCTION(int, PQntuples, (const Result* result))                                                 \
  FUNCTION(int, PQnfields, (const Result* result))                                                 \
  FUNCTION(char*, PQgetvalue, (const Result* result, int row, int column))                         \
  FUNCTION(int, PQgetlength, (const Result* result, int row, int column))                          \
  FUNCTION(void, PQclear, (Result * result))

struct Functions {
#define TC_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  TC_LIBPQ_FUNCTIONS(TC_DECLARE)
#undef TC_DECLARE
};

// Loads the library where that was not done before. Throws a Log error that says what to install where it
// is missing.
const Functions& load();

}  // namespace tc::libpq
