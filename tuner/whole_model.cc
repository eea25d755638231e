#include "tuner/whole_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/error.h"

namespace tc {
namespace {

constexpr size_t kHotKernels = 6;       // that are compared one by one inside the whole model
constexpr size_t kExactHotKernels = 3;  // the same, where the device is a slow simulator
constexpr int kRankDraws = 5, kRankRounds = 4;
// How often the winning model is measured again, and by how many standard errors it has to be faster. With
// fewer draws than the least, the error is not known.
constexpr int kModelDraws = 12, kMinModelDraws = 4, kDrawRounds = 4;
constexpr double kSureErrors = 2.2;
// A share of the time that is left after the first comparison: what the first measurement of further variants
// may take, and what is kept for the last one.
constexpr double kVariantShare = 0.25, kExactVariantShare = 0.5, kLastShare = 0.5;
// What a draw takes in addition to the runs: starting the programs and checking their results.
constexpr double kDrawSeconds = 0.3;

double average(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Standard error of the mean.
double error_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = average(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

// Logarithms of (time of a whole model / time of the untuned one), one per draw; none for a model that
// failed.
struct Ranked {
  std::vector<std::vector<double>> draws;  // by variant
  bool good(size_t variant) const {
    return !draws[variant].empty() && draws[variant].size() == draws[0].size();
  }
  double mean(size_t variant) const { return average(draws[variant]); }
  // Standard error of the mean difference between two variants in the same draws.
  double error(size_t one, size_t other) const {
    std::vector<double> differences;
    for (size_t i = 0; i < draws[one].size(); ++i) differences.push_back(draws[one][i] - draws[other][i]);
    return error_of(differences);
  }
};

// Two or three variants of the model judge one kernel: `without` its best schedule, and with its second best.
struct Option {
  const FasterKernel* kernel;
  size_t without, second;  // variants; second: 0 where there is none
};

class Decision {
 public:
  Decision(const std::vector<FasterKernel>& kernels, bool exact, const MeasureModel& measure_model,
           const std::function<double()>& seconds_left, std::vector<std::string>& notes)
      : kernels_(kernels),
        exact_(exact),
        measure_model_(measure_model),
        seconds_left_(seconds_left),
        notes_(notes) {
    for (const FasterKernel& kernel : kernels) all_[kernel.workload] = kernel.fastest.front();
  }

  ModelDecision decide() {
    using Kind = ModelDecision::Kind;
    size_t most = SIZE_MAX;  // variants that there is time for, beyond the first two
    double kept = 0;         // seconds, for the last measurement
    const double before = seconds_left_();
    if (std::isfinite(before)) {
      if (!rank({{}, all_}, 1, kRankRounds).good(0)) return {failure(), {}, 1};
      const double left = seconds_left_(), each = std::max(0.5 * (before - left), 1e-3);
      const double share = exact_ ? kExactVariantShare : kVariantShare;
      most = static_cast<size_t>(std::min(share * std::max(left, 0.0) / each, 1e6));
      if (!exact_) kept = kLastShare * left;
    }
    const std::vector<Option> options = options_for(most);
    const Ranked ranked = rank(variants_, kRankDraws, kRankRounds, kept);
    if (!ranked.good(0)) return {failure(), {}, 1};
    const Choices chosen = choose(options, ranked);
    if (chosen.empty()) return {};
    // The winner among several may have been lucky: it has to win a second time, by a significant difference.
    const Ranked again = rank({{}, chosen}, kModelDraws, kDrawRounds);
    if (!again.good(0)) return {failure(), {}, 1};
    if (!exact_ && again.draws[0].size() < kMinModelDraws && ran_out_) return {Kind::NoTime, {}, 1};
    if (!again.good(1) || again.mean(1) + kSureErrors * error_of(again.draws[1]) >= 0) return {};
    return {Kind::Faster, chosen, std::exp(again.mean(1))};
  }

 private:
  ModelDecision::Kind failure() const {
    return ran_out_ ? ModelDecision::Kind::NoTime : ModelDecision::Kind::Unmeasurable;
  }

  // Measures all variants `draws` times, or as often as there is time for if `kept` seconds are to be left.
  // Each draw gets other memory pages:
  // where constants just fit into a cache, their addresses change the time by some percent.
  Ranked rank(const std::vector<Choices>& variants, int draws, int rounds, double kept = 0) {
    Ranked ranked;
    ranked.draws.resize(variants.size());
    std::set<size_t> failed;
    const bool known =
        exact_ && std::all_of(variants.begin(), variants.end(),
                              [this](const Choices& choices) { return known_.count(choices) > 0; });
    for (size_t i = 0; known && i < variants.size(); ++i) ranked.draws[i] = {known_.at(variants[i])};
    double longest = 0;  // seconds of a draw
    for (int draw = 0; draw < (known ? 0 : exact_ ? 1 : draws); ++draw) {
      const double left = seconds_left_();
      if (left <= 0 || (draw > 0 && left - kept < longest)) {
        ran_out_ = true;
        break;
      }
      const std::vector<Measurement> measured = measure_model_(variants, rounds, left);
      // The first draw includes the builds.
      const double took = std::isfinite(left) ? left - seconds_left_() : 0;
      longest = draw == 1 ? took : std::max(longest, took);
      for (size_t i = 0; i < variants.size(); ++i) {
        if (measured[i].outcome == Outcome::Ok) {
          ranked.draws[i].push_back(std::log(measured[i].ratio));
          known_[variants[i]] = ranked.draws[i].back();
        } else if (measured[i].outcome == Outcome::Timeout && std::isfinite(left)) {
          ran_out_ = true;
        } else if (measured[i].outcome != Outcome::Noisy && failed.insert(i).second) {
          notes_.push_back(
              text("a whole model is '", name_of(measured[i].outcome), "': ", measured[i].detail));
        }
      }
    }
    return ranked;
  }

  // Fills in the variants: the untuned model, the best schedule of every kernel, and for each of the first
  // few kernels up to two more. What the model loses without a kernel's best schedule is what this one gains.
  std::vector<Option> options_for(size_t most) {
    variants_ = {{}, all_};
    std::vector<Option> options;
    for (const FasterKernel& kernel : kernels_) {
      const size_t second = !exact_ && kernel.fastest.size() > 1 ? 1 : 0;
      if (options.size() == (exact_ ? kExactHotKernels : kHotKernels)) break;
      if (variants_.size() - 2 + 1 + second > most) break;
      Option option{&kernel, variants_.size(), 0};
      variants_.push_back(all_);
      variants_.back().erase(kernel.workload);
      if (second) {
        option.second = variants_.size();
        variants_.push_back(all_);
        variants_.back()[kernel.workload] = kernel.fastest[1];
      }
      options.push_back(option);
    }
    return options;
  }

  // The choices of the kernels that gain inside the model.
  Choices choose(const std::vector<Option>& options, const Ranked& ranked) const {
    Choices chosen = all_;
    for (const Option& option : options) {
      if (!ranked.good(option.without)) continue;
      // The measurements of the kernel by itself count too, and the less so the more certain those of the
      // model are.
      const double expected = option.kernel->saved;
      const double doubt = expected * expected + 1e-12;
      const auto gain = [&](size_t with) -> double {
        if (!ranked.good(with)) return -INFINITY;
        const double measured = ranked.mean(option.without) - ranked.mean(with);
        const double error = ranked.error(option.without, with);
        return (measured * doubt + expected * error * error) / (doubt + error * error);
      };
      const double best = gain(1), second = option.second > 0 ? gain(option.second) : -INFINITY;
      const std::string& workload = option.kernel->workload;
      if (std::max(best, second) <= 0) chosen.erase(workload);
      else if (second > best) chosen[workload] = variants_[option.second].at(workload);
    }
    return chosen;
  }

  const std::vector<FasterKernel>& kernels_;
  const bool exact_;
  const MeasureModel& measure_model_;
  const std::function<double()>& seconds_left_;
  std::vector<std::string>& notes_;
  Choices all_;  // every kernel's best schedule
  std::vector<Choices> variants_;
  std::map<Choices, double> known_;  // results of an exact device, which are not measured again
  bool ran_out_ = false;
};

}  // namespace

ModelDecision decide_in_model(const std::vector<FasterKernel>& kernels, bool exact,
                              const MeasureModel& measure_model, const std::function<double()>& seconds_left,
                              std::vector<std::string>& notes) {
  return Decision(kernels, exact, measure_model, seconds_left, notes).decide();
}

double seconds_to_decide(double build, double run, bool exact) {
  constexpr int kBuilds = 2;  // the untuned model, and the one with every kernel's best schedule
  // On an exact device two models run one after the other, each of them once more on another data set.
  const double runs = exact ? 3.5 : (kRankDraws * kRankRounds + kModelDraws * kDrawRounds) * 2;
  return kBuilds * build + runs * run + (exact ? 2 : kRankDraws + kModelDraws) * kDrawSeconds;
}

}  // namespace tc
