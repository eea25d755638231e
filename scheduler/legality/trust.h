// Looking at what lines lead to, without asking isl whether they are legal.
#pragma once

namespace tc {

// While alive, primitives that this thread applies and checks that it makes find everything legal. For
// sketches of schedules that are built in earnest, or thrown away, afterwards.
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
