// Measuring on devices: a builder builds the candidates, agents run them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tuner/candidate_builder.h"
#include "tuner/client.h"
#include "tuner/device_pool.h"
#include "tuner/measure.h"

namespace tc {

struct MeasureOptions {
  double tolerance = 1e-4;                  // largest worst_error that a candidate may have
  double sample_seconds = 0.01;             // a sample repeats the run until it takes this long
  double timeout_seconds = 20;              // of one candidate
  int64_t memory_bytes = int64_t{2} << 30;  // of one candidate
  int most_devices = 8;
  uint64_t seed = 0;  // of the inputs
  // Folder for the executables of the kernel that is being measured; the caller removes it.
  std::string work_folder;
};

// Programs that compute the same, for instance one model under several schedules.
struct ProgramSet {
  std::vector<RemoteFile> executables;    // the first is the incumbent
  std::vector<PortInfo> inputs, outputs;  // sizes are numbers
  // Expected outputs for the inputs that each seed makes (sample_data).
  std::vector<std::pair<uint64_t, std::vector<RemoteFile>>> data_sets;
  int threads = 1;
  double timeout_seconds = 0;  // of one program; 0: the one of MeasureOptions
  // A program that takes more than this many times the incumbent's time per call gets one sample only; 0: no
  // such limit.
  double slow_ratio = 0;
  std::vector<int> calls;  // in one run, by executable; empty: one in each
  // An exact device stops programs whose calls take longer than this, in its unit; 0: no limit.
  double longest_call = 0;
  // A call of a program that was measured before takes so long. An exact device may check programs that take
  // no less on one data set only; 0: none was measured, and the first one is what they are compared with.
  double known_call = 0;
};

class RemoteMeasurer : public Measurer {
 public:
  // The builder outlives the measurer.
  RemoteMeasurer(OpenDevice open, CandidateBuilder& builder, const MeasureOptions& options);
  ~RemoteMeasurer() override;

  std::string device_key() const override;
  std::string unit() const override;
  double clock_hz() const override;
  void expect(const KernelTask* next) override;
  std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent,
                                   const std::vector<Trace>& traces, int rounds) override;
  // One measurement per executable; ratios refer to the first.
  std::vector<Measurement> measure_programs(const ProgramSet& programs, int rounds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tc
