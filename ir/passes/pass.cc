// The table of graph passes and its driver.
#include "ir/passes/pass.h"

#include <chrono>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/names.h"
#include "ir/ops/op.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

void run_on_all(const Pass& pass, Graph& graph) {
  for (Node& node : graph.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (auto* body = std::get_if<GraphPtr>(&attribute)) {
        auto copy = std::make_shared<Graph>(**body);
        run_on_all(pass, *copy);
        *body = copy;
      }
    }
  }
  const IndexedNames names(graph);
  pass.run(graph);
}

void check_name(const std::string& name) {
  if (name.empty() || name == "all") return;
  std::string known;
  for (const Pass& pass : pass_table()) {
    if (name == pass.name) return;
    known += text(known.empty() ? "" : ", ", pass.name);
  }
  fail(ErrorKind::Model, "there is no pass '", name, "' to dump; the passes are ", known, ", or all");
}

}  // namespace

const std::vector<Pass>& pass_table() {
  static const std::vector<Pass> table = {
      // The roundings are explicit casts, which the next pass keeps.
      {"round_each", "Rounds the results of operators of float16 and bfloat16; only where rounding is each.",
       round_each, Pass::When::RoundingEach},
      {"promote_half",
       "Computes in float32 what the model computes in float16 or bfloat16, and rounds where it casts to them.",
       promote_half},
      {"expand", "Replaces composite ops by the ops they are made of.", expand_composites},
      {"block_weights", "Multiplies by weights that are quantised in blocks as they are stored.",
       block_weights},
      {"counted_loops", "Makes Scans of loops whose number of iterations follows from shapes.",
       counted_loops},
      {"fold_shapes", "Makes constants of values that follow from shapes.", fold_shapes},
      {"quantise_early", "Rounds to integers before joining, moving or choosing elements, not behind.",
       quantise_early},
      {"unsigned_numbers", "Keeps bytes with a sign that are multiplied as bytes without one.",
       unsigned_numbers, Pass::When::UnsignedBytes},
      {"signed_numbers",
       "Keeps bytes without a sign that are multiplied as bytes with one; only for accelerators.",
       signed_numbers, Pass::When::SignedBytes},
      {"unsigned_padded",
       "Keeps bytes with a sign as bytes without one where padding then becomes 0; only where two weights are multiplied at a time.",
       unsigned_padded, Pass::When::PaddedBytes},
      // Must precede fold_constants, which turns quantised weights into floats.
      {"integer_products", "Adds up products of quantised numbers as integers.", integer_products},
      {"fold_constants", "Computes nodes whose inputs are all constant.", fold_constants},
      {"bind_sizes", "Puts sizes that turned out to be known in the place of those that a run computes.",
       bind_sizes},
      // Weights that became constant above can be packed only if they are constants of the subgraph itself.
      {"sink_constants", "Gives subgraphs the constants that they capture.", sink_constants},
      // Must precede the folding of batch normalisation: dropouts and identities between two nodes hide the
      // pair.
      {"eliminate", "Removes identities and whatever else gives back its operand.", eliminate},
      {"choose_by_place", "Chooses along one axis what constant tuples choose.", choose_by_place},
      {"narrow_sums", "Sums integers in their own type where the sum is cast back to it.", narrow_sums},
      {"merge_views", "Makes one of chains of views and of transposes.", merge_views},
      // Pairs of transposes have become identities.
      {"eliminate_again", "Removes identities that merging left.", eliminate},
      {"fold_pads", "Moves zero padding into the convolution after it.", fold_pads},
      {"cut_taps", "Drops taps of filters that meet padding alone.", cut_taps},
      {"fold_batch_norm", "Folds scales and shifts per channel into the weights before them.",
       fold_batch_norm},
      // The scale and shift of batch normalisation are constants of the weights' shape.
      {"fold_again", "Computes what earlier passes made constant.", fold_constants},
      {"merge_duplicates", "Computes once what is computed twice.", merge_duplicates},
      {"fixed_point",
       "Brings sums of integers to the scale of their result by a multiplier and a shift; only where quantised is fast.",
       fixed_point, Pass::When::Fast},
      {"wide_products", "Multiplies integers of 32 bits where products of 64 bits have such factors.",
       wide_products},
      {"repeat_dequantisation", "Dequantises a value for each node that reads it.", repeat_dequantisation},
      {"quantised_units", "Computes what becomes an integer in units of its scale.", quantised_units},
      {"bind_sizes_again", "Makes one of sizes that are computed from the same value.", bind_sizes},
      // Such as masks by lengths, which each layer computes from a size of its own.
      {"merge_duplicates_again", "Computes once what equal sizes have made the same.", merge_duplicates},
      {"recover_normalizations", "Recognises layer and local response normalisation spelled out.",
       recover_normalizations},
      {"divide_joins", "Joins, adds up and compares many tensors in several steps.", divide_joins},
      // Must follow fold_again, which would compute the transposition.
      {"share_transposed", "Keeps one of two constants that are each other's transposes.", share_transposed},
      {"dead_code", "Drops nodes and values that no output needs.", dead_code},
  };
  return table;
}

bool is_wanted(const Pass& pass, const PassOptions& options) {
  switch (pass.when) {
    case Pass::When::Fast: return options.fast;
    case Pass::When::RoundingEach: return options.rounding_each;
    case Pass::When::UnsignedBytes:
    case Pass::When::SignedBytes:
    case Pass::When::PaddedBytes: return options.bytes == pass.when;
    case Pass::When::Always: break;
  }
  return true;
}

void run_pass(const Pass& pass, Graph& graph) {
  interruption_point();
  run_on_all(pass, graph);
  infer_shapes(graph);
}

void run_passes(Graph& graph, const PassOptions& options) {
  check_name(options.dump);
  work_progress() = {"simplifying", 0, static_cast<int64_t>(pass_table().size())};
  for (const Pass& pass : pass_table()) {
    ++work_progress().done;
    if (!is_wanted(pass, options)) continue;
    const bool dump = options.dump_text && (options.dump == "all" || options.dump == pass.name);
    const std::string before = dump ? str(graph) : "";
    const auto begin = std::chrono::steady_clock::now();
    run_pass(pass, graph);
    if (options.seconds) {
      options.seconds->emplace_back(
          pass.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    if (!dump) continue;
    const std::string after = str(graph);
    *options.dump_text += text("== after ", pass.name, "\n", after == before ? "(unchanged)\n" : after);
  }
}

}  // namespace tc
