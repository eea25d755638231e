// The generated pages of docs/ say what the tables say.
#include <array>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "codegen/llvm/kernel_code.h"
#include "frontend/pipeline/plan_builder.h"
#include "ir/ops/onnx_versions.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "ir/target/tables.h"
#include "ir/target/target.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"
#include "tests/golden_file.h"

namespace tc {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : ", ") + part;
  return result.empty() ? "-" : result;
}

std::string cell(const std::string& text) {
  std::string result;
  for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

// By ONNX name how many of the ONNX project's node tests have the operator, and of these pass:
// tests/frontend/test_node_counts.py.
struct NodeTestCount {
  int passed = 0, all = 0;
};

std::map<std::string, NodeTestCount> node_test_counts() {
  std::ifstream in("tests/golden/onnx_counts.txt");
  std::map<std::string, NodeTestCount> counts;
  std::string line, name, of;
  std::getline(in, line);
  NodeTestCount count;
  while (in >> name >> count.passed >> of >> count.all) counts[name] = count;
  EXPECT_FALSE(counts.empty());
  return counts;
}

// "12 of 13"; nothing for a row without tests.
std::string tested(const OpRow& row, const std::map<std::string, NodeTestCount>& counts) {
  NodeTestCount sum;
  std::set<std::string> names;
  for (const OnnxName& form : row.onnx) {
    const auto found = counts.find((form.domain.empty() ? "" : form.domain + "::") + form.name);
    if (found == counts.end() || !names.insert(found->first).second) continue;
    sum.passed += found->second.passed;
    sum.all += found->second.all;
  }
  return sum.all == 0 ? "" : std::to_string(sum.passed) + " of " + std::to_string(sum.all);
}

// The newest versions that are known, in lines.
std::string versions_section() {
  constexpr size_t kWidth = 140;
  std::ostringstream section;
  section
      << "## newest versions\n\nOf each operator of ONNX the newest version that is known, and the newest operator set of its domain; a node of a "
         "newer set is refused.\nWhere the text of an operator was corrected later, the corrected one holds for all its versions: "
         "[frontend.md](frontend.md) says where.\n";
  for (const OnnxDomain& domain : onnx_domains()) {
    section << "\n* " << (domain.name.empty() ? "default domain" : domain.name) << ", operator set "
            << domain.newest << ":\n";
    std::string line;
    for (const OnnxVersion& each : domain.operators) {
      const std::string entry = each.name + " " + std::to_string(each.version);
      if (line.size() + entry.size() > kWidth) {
        section << "  " << line.substr(0, line.size() - 1) << "\n";  // without the space behind the comma
        line.clear();
      }
      line += entry + (&each == &domain.operators.back() ? "" : ", ");
    }
    section << "  " << line << "\n";
  }
  return section.str();
}

// The row's equation, and those of its cases.
std::string equations(const OpRow& row) {
  std::string result = row.equation.empty() ? "" : "`" + cell(row.equation) + "`";
  for (const EquationCase& other : row.cases) {
    std::vector<std::string> values;
    for (const auto& [name, value] : other.attributes) {
      const auto* number = std::get_if<int64_t>(&value);
      values.push_back("`" + name + "` is " +
                       (number ? std::to_string(*number) : std::get<std::string>(value)));
    }
    result += "; `" + cell(other.equation) + "` where " + joined(values);
  }
  return result;
}

std::string operators_page() {
  std::ostringstream page;
  const std::map<std::string, NodeTestCount> counts = node_test_counts();
  page
      << "# Operators\n\nGenerated from the op table (`ir/ops`) by `./check --update`; a test fails when it is stale.\n"
      << "A row without ONNX names is made by the compiler itself. Operators on sequences, optionals, strings and images, and FlexAttention, need no row: "
         "[frontend.md](frontend.md) lists them.\nThe column before the last says how many of the node tests of the ONNX project have the "
         "operator and pass.\n\n";
  std::map<std::string, std::vector<const OpRow*>> categories;
  for (const auto& [name, row] : op_table()) categories[row.category].push_back(&row);
  for (const auto& [category, rows] : categories) {
    page
        << "## " << (category.empty() ? "other" : category) << "\n\n"
        << "| op | ONNX name and first opset | equation | node tests | what it computes |\n|---|---|---|---|---|\n";
    for (const OpRow* row : rows) {
      std::vector<std::string> names;
      for (const OnnxName& name : row->onnx) {
        names.push_back((name.domain.empty() ? "" : name.domain + "::") + name.name + " " +
                        std::to_string(name.since));
      }
      page << "| " << row->name << " | " << cell(joined(names)) << " | " << equations(*row) << " | "
           << tested(*row, counts) << " | " << cell(row->doc) << " |\n";
    }
    page << "\n";
  }
  page << versions_section();
  return page.str();
}

std::string primitives_page() {
  std::ostringstream page;
  page
      << "# Schedule primitives\n\nGenerated from their rows (`scheduler/primitives`) by `./check --update`; a test fails "
         "when it is stale.\n\nRewrites change statements, and each has its own check. Orders change when instances run, and "
         "one check asks isl\nwhether every dependence still runs forwards. Marks say how a loop is run. In Python each is "
         "a method of `tc.Schedule`\nwhose arguments have the names below in small letters.\n\n";
  for (const PrimitiveRow& row : primitive_table()) {
    page << "## " << row.name << " (" << name_of(row.kind) << ")\n\n`" << row.signature() << "`\n\n"
         << row.doc << "\n\n";
    if (row.matrix_unit) page << "Only for targets with a matrix unit.\n\n";
    if (row.accelerator) page << "Only for targets with an accelerator.\n\n";
    for (const Argument& argument : row.form) {
      if (argument.kind != Argument::Kind::Keyword)
        page << "* " << argument.name << ": " << description(argument) << "\n";
    }
    page << "\n";
  }
  return page.str();
}

std::string passes_page() {
  std::ostringstream page;
  page
      << "# Graph passes\n\nGenerated from the pass table (`ir/passes/pass.cc`) by `./check --update`, in the order in which "
         "they run.\n`--dump=NAME` or `--dump=all` prints the graph after them.\n\n| pass | what it does |\n|---|---|\n";
  for (const Pass& pass : pass_table()) page << "| " << pass.name << " | " << cell(pass.doc) << " |\n";
  return page.str();
}

std::string code_passes_page() {
  std::ostringstream page;
  page
      << "# Passes over code\n\nGenerated from the table of `codegen/llvm/passes/pass.cc` by `./check --update`, in the order in which they run over a kernel's "
         "code.\n`python -m tc inspect MODEL --kernel NAME --dump=PASS` prints it behind a pass.\n\n| pass | what it does | for | over |\n|---|---|---|---|\n";
  for (const CodePassInfo& pass : code_passes())
    page << "| " << pass.name << " | " << cell(pass.doc) << " | " << pass.when << " | " << pass.stage
         << " |\n";
  return page.str();
}

std::string targets_page() {
  std::ostringstream page;
  page
      << "# Targets\n\nGenerated from the target tables (`ir/target`) by `./check --update`. After a name, "
         "`+feature,-feature` adds and removes features; `rv64gcv+lengths` has versions for longer vectors (riscv.md).\n"
         "`TARGET@CORE` is code for every machine that runs TARGET's, planned for one of the cores below; on the command line `--target TARGET --cpu CORE`.\n\n| target | description |\n|---|---|\n";
  for (const auto& [name, description] : known_targets()) {
    // What this machine has is in no page.
    page << "| " << name << " | " << (name == "native" ? "this machine, with what it has" : cell(description))
         << " |\n";
  }
  page
      << "\n## Cores\n\nRows of `ir/target/*_cores.h`. Widths are of a vector register and of a vector unit, in bits; latency is a multiply-add's, in cycles; caches are the first and "
         "the second one.\n\n| architecture | core | what it is | executes | issues | registers / unit | vector units | latency | caches, KiB |\n"
         "|---|---|---|---|--:|--:|--:|--:|--:|\n";
  for (const auto& [name, arch] : {std::pair("x86-64", Arch::X86_64),
                                   {"riscv64", Arch::RiscV64},
                                   {"riscv32", Arch::RiscV32},
                                   {"aarch64", Arch::AArch64},
                                   {"arm-m", Arch::ArmM}}) {
    for (const CoreRow* row : targets::cores_of(arch)) {
      page << "| " << name << " | " << row->name << " | " << row->description << " | "
           << (row->window == 0 ? "in order" : text("out of order, window ", row->window)) << " | "
           << row->issue_width << " | " << row->vector_bits << " / " << row->datapath_bits << " | "
           << row->vector_units << " | " << row->latency.vector << " | " << row->first_level_kib << ", "
           << row->second_level_kib << " |\n";
    }
  }
  page
      << "\n## Multiply-accumulate instructions\n\nThose that products of small numbers use (`ir/target/*_instructions.cc`), by "
         "group. Of the units of tiles or vectors, which `tensorize` uses, a target has the first of its\narchitecture's whose "
         "feature it has; register tiles use all of lanes, the first that fits. Of each group it has the instructions whose "
         "features\nit has. Cycles are of one instruction.\n\n| architecture | group | instruction | needs | multiplies | sums up in | rows x "
         "columns x depth | cycles |\n|---|---|---|---|---|---|---|--:|\n";
  constexpr std::array<const char*, 3> routes = {", tiles", ", vectors", ", lanes"};
  for (const auto& [name, arch] : {std::pair("x86-64", Arch::X86_64),
                                   {"riscv64", Arch::RiscV64},
                                   {"aarch64", Arch::AArch64},
                                   {"arm-m", Arch::ArmM}}) {
    for (const targets::ProductGroup& group : targets::narrow_products(arch)) {
      for (const NarrowProduct& row : group.instructions) {
        page << "| " << name << " | " << group.feature << routes[static_cast<size_t>(group.route)] << " | `"
             << row.name << "` | " << row.feature << " | " << name_of(row.a) << " x " << name_of(row.b)
             << " | " << name_of(row.sum) << " | " << row.rows << " x "
             << (row.columns == 0 ? "any" : text(row.columns)) << " x " << row.depth << " | " << row.cycles
             << " |\n";
      }
    }
  }
  return page.str();
}

// The kernel that docs/convolution.md follows: its plan for a fixed target on one thread, and the texts that
// `inspect --kernel NAME --dump=all` prints of it.
std::map<std::string, std::string> convolution_texts() {
  Graph graph = parse_graph(R"(graph picture {
  input x f32[1, 64, 56, 56]
  constant w f32[64, 64, 3, 3] #0
  constant b f32[64] #0
  c f32[?] = Conv(x, w, b) {pads = [1, 1, 1, 1]}
  r f32[?] = Relu(c)
  y f32[?] = GlobalAveragePool(r)
  output y
}
)");
  std::map<std::string, std::string> texts;
  texts["graph"] = str(graph);
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target("x86-64-v4");
  const BuiltPlan built = build_plan(graph, options);
  for (const KernelReport& report : built.reports) {
    texts["plan"] += report.label + "\n";
    if (report.label.find("Conv") == std::string::npos) continue;
    Schedule schedule(parse_kernel(report.statements), options.target);
    EXPECT_EQ(schedule.replay(report.trace), std::nullopt);
    texts["statements"] = report.statements;
    for (const std::string& line : report.trace) texts["trace"] += line + "\n";
    texts["loops"] = str(schedule.finish());
    // The first of the four unrolled steps: fences end them.
    const std::string loop =
        testing::hottest_loop(kernel_assembly(schedule.finish(), options.target, "kernel"), "vfmadd");
    texts["assembly"] = loop.substr(0, loop.find("\t#MEMBARRIER"));
  }
  return texts;
}

// The page with what follows each line `<!-- generated: NAME -->` in a fenced block replaced by the text of
// that name.
std::string with_blocks(const std::string& page, const std::map<std::string, std::string>& texts) {
  std::istringstream in(page);
  std::string result, line;
  while (std::getline(in, line)) {
    result += line + "\n";
    const std::string begin = "<!-- generated: ", end = " -->";
    if (line.rfind(begin, 0) != 0) continue;
    const std::string name = line.substr(begin.size(), line.size() - begin.size() - end.size());
    std::getline(in, line);
    EXPECT_EQ(line, "```") << "after the mark of " << name;
    EXPECT_TRUE(texts.contains(name)) << name;
    if (!texts.contains(name)) continue;
    result += line + "\n" + texts.at(name);
    if (result.back() != '\n') result += '\n';
    while (std::getline(in, line) && line != "```") continue;
    result += "```\n";
  }
  return result;
}

TEST(Docs, StoryOfAConvolutionIsWhatTheCompilerPrints) {
  std::ifstream in("docs/convolution.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  const std::map<std::string, std::string> texts = convolution_texts();
  for (const auto& [name, text] : texts) {
    EXPECT_NE(page.find("<!-- generated: " + name + " -->"), std::string::npos) << name;
  }
  expect_golden("docs/convolution.md", with_blocks(page, texts));
}

TEST(Docs, OperatorsPageIsGenerated) { expect_golden("docs/operators.md", operators_page()); }
TEST(Docs, PrimitivesPageIsGenerated) { expect_golden("docs/primitives.md", primitives_page()); }
TEST(Docs, PassesPageIsGenerated) { expect_golden("docs/passes.md", passes_page()); }
TEST(Docs, CodePassesPageIsGenerated) { expect_golden("docs/code_passes.md", code_passes_page()); }
TEST(Docs, TargetsPageIsGenerated) { expect_golden("docs/targets.md", targets_page()); }

TEST(Docs, EveryRowIsDocumented) {
  for (const auto& [name, row] : op_table()) EXPECT_FALSE(row.doc.empty()) << name;
  for (const PrimitiveRow& row : primitive_table()) EXPECT_FALSE(row.doc.empty()) << row.name;
}

}  // namespace
}  // namespace tc
