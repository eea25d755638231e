// The addresses of the cache lines that a leaf prefetches.
#include "ir/prefetch.h"

#include <map>
#include <string>

#include "ir/target/target.h"

namespace tc {

std::optional<Affine> line_ahead(const Prefetch& wanted, const TileStatement& tile, const Access& access,
                                 const std::vector<int64_t>& strides, const Affine& address,
                                 int64_t element) {
  // The tile's loops move the address through the part of the constant that a trip reads; where several runs
  // share the part, the same loops must move through one run's share, so their steps are divided by the
  // number of shares.
  std::map<std::string, Affine> start;
  for (const auto& [name, affine] : tile.iterators) {
    Affine outer = affine;
    for (const auto& [term, coefficient] : affine.terms()) {
      if (term[0] == '%') outer = outer - Affine::variable(term, coefficient);
    }
    start[name] = outer;
  }
  Affine from;
  for (size_t d = 0; d < access.index.size(); ++d)
    from = from + access.index[d].affine.substitute(start) * strides[d];
  const Affine inside = address - from;
  Affine moved;
  for (const auto& [name, coefficient] : inside.terms()) {
    if (name[0] != '%') return std::nullopt;
    moved = moved + Affine::variable(name, coefficient / wanted.shares);
  }
  const int64_t line = inside.constant() / wanted.shares / kLineBytes * kLineBytes;
  return from + Affine(wanted.ahead * element + line) +
         wanted.share * (wanted.ahead * element / wanted.shares) + moved;
}

}  // namespace tc
