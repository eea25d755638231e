// Opens the devices that tuning measures on: an agent of this machine, or those that a tracker lends.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "frontend/pipeline/tune.h"
#include "ir/target/target.h"
#include "tuner/client.h"
#include "tuner/remote_measurer.h"

namespace tc {

// Tells the user something at once, beside the work: its kind (TuneProgress::notice) and its text.
using Tell = std::function<void(const char* kind, const std::string& text)>;

// The tracker of the request; null where this machine measures by itself, or nobody can.
std::shared_ptr<TrackerClient> tracker_of(const TuneRequest& request, const Target& target);

// Opens devices for the target, of the tracker or, where that is null, of this machine. The first one may be
// waited for as long as `most_wait` seconds. Throws a Target error where code for the target cannot be
// measured.
OpenDevice device_opener(const TuneRequest& request, const std::shared_ptr<TrackerClient>& tracker,
                         const Target& target, double most_wait, const Tell& tell);

// Tells of a tracker that does not answer while its devices measure, every two seconds, and when it answers
// again. Does nothing without a tracker.
class TrackerWatch {
 public:
  TrackerWatch(std::shared_ptr<TrackerClient> tracker, Tell tell)
      : tracker_(std::move(tracker)), tell_(std::move(tell)) {}

  void look();

 private:
  const std::shared_ptr<TrackerClient> tracker_;
  const Tell tell_;
  double told_ = 0;  // of so many seconds of silence; 0: of none
};

}  // namespace tc
