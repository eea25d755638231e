// Applying lines without asking isl whether they are legal, to see what they lead to.
#pragma once

namespace tc {

// While alive, everything that this thread applies or checks counts as legal. For drafts of schedules that
// are thrown away, or checked as a whole afterwards.
class Trust {
 public:
  Trust() { ++depth(); }
  ~Trust() { --depth(); }
  Trust(const Trust&) = delete;
  Trust& operator=(const Trust&) = delete;
  static bool on() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int value = 0;
    return value;
  }
};

}  // namespace tc
