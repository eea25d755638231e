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
  // `argument` is the text after the name and a colon; null where there is no colon.
  std::unique_ptr<CandidateBuilder> (*open)(const std::string* argument, const BuilderPlace& place);
};

// A kind of builder is added by a row.
const std::vector<BuilderKind>& builder_kinds();

// Opens the builder that a user asked for, such as "processes:4". It may start a process, but waits for none.
// Throws a Device error that lists the kinds where the name is unknown, or that says which argument the kind
// takes.
std::unique_ptr<CandidateBuilder> open_builder(const std::string& wanted, const BuilderPlace& place);

}  // namespace tc
