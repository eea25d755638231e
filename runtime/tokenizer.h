// Texts as numbers of tokens, and back, by a file that tc writes beside an exported language model
// (frontend/tc/language/tokenizer_file.py has its form). Needs no other library, and trusts nothing in the
// file: every number is checked when the file is opened.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tc::runtime {

struct Tokenizer {
  void* mapped = nullptr;
  size_t mapped_bytes = 0;
  uint32_t kind = 0, division = 0, digits = 0, flags = 0, begin = 0;
  uint32_t count = 0, merges = 0, ends = 0, wholes = 0, ranges = 0;
  const uint32_t* offsets = nullptr;  // [count + 1], of texts
  const uint32_t* by_text = nullptr;  // [count], tokens in the order of their texts
  const uint32_t* merge = nullptr;  // [merges][3]: left, right, what they become; the first are merged first
  const uint32_t* end = nullptr;    // [ends], tokens that end a text
  const uint32_t* whole = nullptr;  // [wholes], tokens whose texts are never divided, the longest first
  const uint32_t* range = nullptr;  // [ranges][3]: first and last letter, and their class
  const char* texts = nullptr;
  uint32_t* pairs = nullptr;  // hash table: 1 + number of a merge
  uint32_t pairs_mask = 0;
};

// Maps the file. On false `why` has the reason, without the path, and nothing is kept.
bool open_tokenizer(const char* path, Tokenizer* tokenizer, char* why, size_t why_size);
void close_tokenizer(Tokenizer* tokenizer);

// Appends to malloc'ed numbers. On false `why` has the reason; what `tokens` has is the caller's to free.
struct Tokens {
  int64_t* data = nullptr;
  size_t count = 0, room = 0;
};
bool add_token(Tokens* tokens, int64_t token);
bool encode(const Tokenizer& tokenizer, const char* text, size_t bytes, Tokens* tokens, char* why,
            size_t why_size);

bool is_end(const Tokenizer& tokenizer, int64_t token);
// The bytes of a token's text; none for a number that is no token, and for tokens that control.
const char* text_of(const Tokenizer& tokenizer, int64_t token, size_t* bytes);

}  // namespace tc::runtime
