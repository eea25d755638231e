// Target names: parsing, nearest names, and whether code for a target runs here.
#include "ir/target/target.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "ir/accelerator.h"
#include "ir/error.h"
#include "ir/target/tables.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

using targets::Row;

std::vector<Row> all_rows() {
  std::vector<Row> rows = targets::x86_rows();
  for (const Row& row : targets::riscv_rows()) rows.push_back(row);
  for (const Row& row : targets::aarch64_rows()) rows.push_back(row);
  for (const Row& row : targets::cortex_m_rows()) rows.push_back(row);
  return rows;
}

std::vector<std::string> features_of(Arch arch) {
  switch (arch) {
    case Arch::X86_64: return targets::x86_features();
    case Arch::RiscV64: return targets::riscv_features();
    case Arch::RiscV32: return targets::riscv32_features();
    case Arch::AArch64: return targets::aarch64_features();
    case Arch::ArmM: return targets::cortex_m_features();
  }
  return {};
}

// The number of letters to insert, delete or change to make one text the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// The names as `'a', 'b' or 'c'`.
std::string alternatives(const std::vector<std::string>& names) {
  std::string result;
  for (size_t i = 0; i < names.size(); ++i) {
    result += (i == 0 ? "'" : i + 1 == names.size() ? " or '" : ", '") + names[i] + "'";
  }
  return result;
}

// The three nearest of the names.
std::string nearest(const std::string& wanted, std::vector<std::string> names) {
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wanted, a) < edit_distance(wanted, b);
  });
  names.resize(std::min<size_t>(names.size(), 3));
  return alternatives(names);
}

// The message for well-known names that are not targets; empty for other names.
std::string known_elsewhere(const std::string& name) {
  const auto begins = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return name.rfind(word, 0) == 0; });
  };
  if (begins({"cuda", "gpu", "nvidia", "nvptx", "sm_", "rocm", "hip", "amdgpu", "mps", "metal", "opencl",
              "vulkan", "webgpu", "tpu", "npu"}))
    return "is no processor, and tc compiles for processors alone; leave the target out for this machine's";
  if (begins({"cortex-m", "armv6", "armv7", "armv8-m", "armv8.1-m", "thumb", "arm-none-eabi"})) {
    std::vector<std::string> names;
    for (const CoreRow* core : targets::cores_of(Arch::ArmM)) names.push_back(core->name);
    return "is given by its core: " + alternatives(names);
  }
  if (begins({"esp32", "avr"}))
    return "has no code generator in tc; of systems without an operating system there are RISC-V's and Arm's (docs/bare.md)";
  if (begins({"cpu", "host", "auto", "default", "llvm"}))
    return "is no name of one; leave the target out, or give 'native', for this machine's";
  if (begins({"arm64", "armv8", "apple-m"})) return "is called 'aarch64' here";
  if (begins({"x86_64", "amd64", "i386", "i686"}))
    return "is given by its level: 'x86-64-v3' has AVX2, 'x86-64-v4' AVX-512";
  if (begins({"riscv"})) return "is given by its vectors: 'rv64gcv' has them, 'rv64gc' has none";
  return "";
}

const Row& row_of(const std::string& name) {
  static const std::vector<Row> rows = all_rows();
  for (const Row& row : rows) {
    if (row.target.name == name) return row;
  }
  std::vector<std::string> names{"native"};
  for (const Row& row : rows) names.push_back(row.target.name);
  if (const std::string known = known_elsewhere(name); !known.empty())
    fail(ErrorKind::Target, "unknown target '", name, "': it ", known,
         ". The command `python -m tc targets` lists all");
  fail(ErrorKind::Target, "unknown target '", name, "'; did you mean ", nearest(name, names),
       "? The command `python -m tc targets` lists all");
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// `+a,-b` as signed features. Feature names may contain `-`, so that a sign counts only after a
// comma; `+` always begins a feature.
std::vector<std::pair<char, std::string>> split_features(const std::string& text, const std::string& whole) {
  std::vector<std::pair<char, std::string>> result;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ',') ++at;
    char sign = at < text.size() ? text[at] : '\0';
    if (sign != '+' && sign != '-') {
      fail(ErrorKind::Target, "target '", whole,
           "': features follow the name as `+feature,-feature`, as in 'x86-64-v4+avx512vnni'");
    }
    size_t end = std::min(text.find_first_of("+,", at + 1), text.size());
    result.emplace_back(sign, text.substr(at + 1, end - at - 1));
    at = end;
  }
  return result;
}

using Extras = std::vector<std::pair<char, std::string>>;

// The features of a row with those that a target's name adds and removes.
std::vector<std::string> with_extras(std::vector<std::string> features, const Extras& extras) {
  for (const auto& [sign, feature] : extras) {
    features.erase(std::remove(features.begin(), features.end(), feature), features.end());
    if (sign == '+') features.push_back(feature);
  }
  return features;
}

// Written like a feature, but a request for versions for longer vectors.
constexpr const char* kLengths = "lengths";

// A target's name in its parts: `NAME+feature,-feature@CORE`.
struct Name {
  std::string row, features, core;
};

Name parts_of(const std::string& text) {
  const size_t at = text.find('@');
  Name name;
  name.features = text.substr(0, at);
  if (at != std::string::npos) name.core = text.substr(at + 1);
  const size_t end = std::min(name.features.find_first_of("+,"), name.features.size());
  name.row = name.features.substr(0, end);
  name.features = name.features.substr(end);
  return name;
}

// Plans for the core of that name. The target's own core is no part of its name.
void choose_core(Target& target, const std::string& name, const std::string& text) {
  if (name == target.core) return;
  const CoreRow* row = targets::core_of(target.arch, name);
  if (row == nullptr) {
    std::vector<std::string> names;
    for (const CoreRow* each : targets::cores_of(target.arch)) names.push_back(each->name);
    fail(ErrorKind::Target, "target '", text, "': there is no core '", name, "' of ", target.triple,
         "; did you mean ", nearest(name, names), "? docs/targets.md lists all");
  }
  targets::use_core(target, *row);
  target.name += "@" + name;
}

// Adds to a target of row `name` the targets with longer vectors and the same features. Vectors that are
// longer than a block of channels run the same tiles.
void add_wider_targets(Target& target, const std::string& name, const std::string& core) {
  const std::string extras = target.name.substr(name.size());
  for (const Row& row : all_rows()) {
    const bool same = row.target.arch == target.arch && row.target.name.rfind("rv64gcv", 0) == 0 &&
                      name.rfind("rv64gcv", 0) == 0;
    const bool fills =
        row.target.vector_bits <= 32 * (target.small_block > 0 ? target.small_block : target.block);
    if (same && fills && row.target.vector_bits > target.vector_bits)
      target.wider_targets.push_back(row.target.name + extras + (core.empty() ? "" : "@" + core));
  }
  if (target.wider_targets.empty()) {
    fail(ErrorKind::Target, "target '", name,
         "' has no versions for longer vectors; '+lengths' is for 'rv64gcv' and 'rv64gcv_zvl256b'");
  }
  target.name += (extras.empty() ? "+" : ",+") + std::string(kLengths);
}

// Written like a feature, but what executes kernels beside the core.
constexpr const char* kAccelerator = "accel:";

// A row, and the features that a target's name adds to it and removes.
struct Wanted {
  const Row* row;
  Extras extras;
  bool lengths = false;
  std::string accelerator = {};
};

Wanted read_features(const Name& name, const std::string& text) {
  Wanted wanted = {&row_of(name.row), {}};
  for (const auto& [sign, feature] : split_features(name.features, text)) {
    const Row*& row = wanted.row;
    if (feature == kLengths) {
      wanted.lengths = sign == '+';
      continue;
    }
    if (feature.rfind(kAccelerator, 0) == 0) {
      wanted.accelerator = sign == '+' ? feature.substr(std::strlen(kAccelerator)) : "";
      continue;
    }
    const std::vector<std::string> known = features_of(row->target.arch);
    if (!contains(known, feature)) {
      fail(ErrorKind::Target, "unknown feature '", feature, "' of target '", name.row, "'; did you mean ",
           nearest(feature, known), "?");
    }
    if (sign == '-' && contains(row->required, feature) && !contains(row->optional, feature)) {
      fail(ErrorKind::Target, "target '", name.row, "' cannot do without '", feature,
           "'; choose a smaller target instead");
    }
    // Adding vectors, or longer vectors, selects another row, because its tiles differ.
    if (sign == '+' && (feature == "v" || feature == "zve32f") && row->target.vector_bits == 0) {
      row = &row_of(feature == "v" ? "rv64gcv" : "rv32imfc_zve32f");
      continue;
    }
    if (sign == '+' && feature.rfind("zvl", 0) == 0 && row->target.vector_bits > 0) {
      int bits = std::stoi(feature.substr(3));
      if (bits > row->target.vector_bits) row = &row_of("rv64gcv_" + feature);
      continue;
    }
    auto same = std::find_if(wanted.extras.begin(), wanted.extras.end(),
                             [&](const auto& extra) { return extra.second == feature; });
    if (same != wanted.extras.end()) wanted.extras.erase(same);
    if (sign == '+' && contains(row->required, feature)) continue;
    wanted.extras.emplace_back(sign, feature);
  }
  std::sort(wanted.extras.begin(), wanted.extras.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  return wanted;
}

// The target of a name other than `native`.
Target parse_resolved(const std::string& text) {
  const Name name = parts_of(text);
  const Wanted wanted = read_features(name, text);
  const Extras& extras = wanted.extras;
  Target target = wanted.row->target;
  const std::vector<std::string> features = with_extras(wanted.row->required, extras);
  target.matrix = targets::matrix_unit(target.arch, features);
  target.tuning = targets::tuning_features(target.matrix);
  target.lane_products = targets::lane_products(target.arch, features);
  if (target.vector_bits == 0 && target.matrix.vectors) target.matrix = {};
  // Sums in general-purpose registers are no lanes of vectors.
  if (target.vector_bits > 0)
    std::erase_if(target.lane_products, [](const NarrowProduct* row) { return row->columns == 1; });
  for (size_t i = 0; i < extras.size(); ++i) {
    std::string feature = extras[i].first + extras[i].second;
    bool bare = i == 0 && extras[i].first == '+';
    target.name += (bare ? "" : ",") + feature;
    if (targets::is_encoded_feature(target.arch, extras[i].second)) continue;
    target.features += (target.features.empty() ? "" : ",") + feature;
  }
  if (!wanted.accelerator.empty()) {
    target.accelerator = registered_accelerator(wanted.accelerator);
    target.name += (extras.empty() ? "+" : ",+") + std::string(kAccelerator) + wanted.accelerator;
    // Activations are in the blocks that its instructions read.
    target.block = target.accelerator->block;
    target.small_block = 0;
    target.half_blocks = false;
  }
  if (wanted.lengths) add_wider_targets(target, wanted.row->target.name, name.core);
  if (text.find('@') != std::string::npos) choose_core(target, name.core, text);
  return target;
}

}  // namespace

int64_t Target::width_for(int64_t size, int64_t width) const {
  constexpr double kMinWaste = 0.02;  // part of all lanes
  if (size <= small_block) return std::min<int64_t>(width, small_block);
  // One whole register, where the lanes of longer vectors would be a quarter unused.
  auto padded = [&](int64_t lanes) { return (size + lanes - 1) / lanes * lanes; };
  const bool fills = small_block > 0 && small_block < width && small_block >= lanes(DType::F32);
  if (fills && 4 * padded(small_block) <= 3 * padded(width)) return small_block;
  // All versions of a kernel share one layout, and half a block would be part of a longer register.
  if (!half_blocks || !wider_targets.empty()) return width;
  // Halves issue twice as many instructions, which counts on in-order cores. Measured with 256 bits on 1x1
  // convolutions: with 88 channels, where halves have a twelfth fewer lanes, they took 2 % more cycles; with
  // 72 channels, where they have a tenth fewer lanes, 5 to 8 % less.
  if (counts_registers(*this)) return 10 * padded(width / 2) <= 9 * padded(width) ? width / 2 : width;
  const int64_t rest = size % width;
  const bool waste = rest > 0 && 2 * rest <= width &&
                     static_cast<double>(width - rest) > kMinWaste * static_cast<double>(size);
  return waste ? width / 2 : width;
}

int Isa::lanes(DType dtype) const {
  if (vector_bits == 0) return 1;
  return vector_bits / 8 / static_cast<int>(size_of(dtype));
}

Target parse_target(const std::string& text) {
  if (text.size() > 200) fail(ErrorKind::Target, "a target's name has at most 200 letters");
  const std::string native = "native";
  if (text.substr(0, text.find_first_of("+,@")) != native) return parse_resolved(text);
  std::string rest = text.substr(native.size());
  std::string resolved = targets::native_name();
  if (!rest.empty() && rest[0] == '+') rest = "," + rest;
  if (!rest.empty() && resolved.find('+') == std::string::npos && rest.rfind(",+", 0) == 0) {
    rest = rest.substr(1);
  }
  Target target = parse_resolved(resolved + rest);
  targets::describe_this_machine(target, rest.find('@') == std::string::npos);
  return target;
}

Target without_accelerator(Target target) {
  if (target.accelerator == nullptr) return target;
  std::string name = target.name;
  const std::string feature = "+" + std::string(kAccelerator) + target.accelerator->name;
  const size_t at = name.find(feature);
  const size_t begin = at > 0 && name[at - 1] == ',' ? at - 1 : at;
  name.erase(begin, at + feature.size() - begin);
  const Target core = parse_target(name);
  target.block = core.block;
  target.small_block = core.small_block;
  target.half_blocks = core.half_blocks;
  target.accelerator = nullptr;
  return target;
}

Target for_least_code(Target target) {
  target.least_code = true;
  target.vector_bits = 0;
  target.block = 1;
  target.small_block = 0;
  target.half_blocks = false;
  target.matrix = {};
  target.lane_products.clear();
  target.wider_targets.clear();
  target.tiles = {{1, 1}};
  return target;
}

std::vector<std::pair<std::string, std::string>> known_targets() {
  std::vector<std::pair<std::string, std::string>> result{
      {"native", "this machine: " + targets::native_name()}};
  for (const Row& row : all_rows()) result.emplace_back(row.target.name, row.description);
  return result;
}

bool runs_here(const Target& target, std::string* why) {
  auto answer = [&](const std::string& reason) {
    if (why) *why = reason;
    return reason.empty();
  };
  if (!targets::is_this_machine(target.arch)) {
    return answer("code for " + target.triple + " does not run on this machine");
  }
  const Name name = parts_of(target.name);
  const std::vector<std::string> needed =
      with_extras(row_of(name.row).required, split_features(name.features, target.name));
  const std::vector<std::string> found = targets::detected_features(target.arch);
  std::string missing;
  for (const std::string& feature : needed) {
    if (!contains(found, feature)) missing += (missing.empty() ? "" : ", ") + feature;
  }
  if (missing.empty()) return answer("");
  return answer("target '" + target.name + "' needs " + missing + ", which this machine lacks");
}

}  // namespace tc
