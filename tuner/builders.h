// The kinds of candidate builders, by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/candidate_builder.h"

namespace tc {

struct BuilderKind {
  const char* name;
  const char* form;      // as users write it
  const char* sentence;  // what it is
  // `argument` is what stands after the name and a colon; null where no colon is.
  std::unique_ptr<CandidateBuilder> (*open)(const std::string* argument, const BuilderPlace& place);
};

// A kind of builder is added by a row.
const std::vector<BuilderKind>& builder_kinds();

// The builder that a user wrote down, such as "processes:4"; starts no process yet. An Error of kind Device
// lists the kinds where the name is none of theirs, or says what its argument is to be.
std::unique_ptr<CandidateBuilder> open_builder(const std::string& wanted, const BuilderPlace& place);

}  // namespace tc
