// Work on threads and in long loops, while signals are seen.
#pragma once
#include <nanobind/nanobind.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace dalembert {

namespace nb = nanobind;

// Looks for signals during a long call, which runs without the GIL: 20 times a second, on the thread that called. What
// a handler raises (KeyboardInterrupt, or anything else) is kept until raise().
class Pulse {
  using Clock = std::chrono::steady_clock;

 public:
  // true when the call should end
  bool operator()() {
    const Clock::time_point now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return error_.has_value();
    last_ = now;
    nb::gil_scoped_acquire gil;
    if (!error_ && PyErr_CheckSignals() != 0) error_.emplace();
    return error_.has_value();
  }
  // At the end of a call: Ctrl-C that came since the last look would else be raised on the way back, over the results.
  void look_again() {
    if (Clock::now() - begin_ < std::chrono::milliseconds(500)) return;
    last_ = begin_;
    (*this)();
  }
  // Ctrl-C, half a second or more after the call began: what was computed is worth to be returned. Earlier it is
  // raised, so that loops of short calls end.
  bool keep_results() const {
    return error_ && last_ - begin_ >= std::chrono::milliseconds(500) && error_->matches(PyExc_KeyboardInterrupt);
  }
  // with the GIL held
  void raise() {
    if (error_) throw std::move(*error_);
  }
  static bool look(void* pulse) { return (*static_cast<Pulse*>(pulse))(); }

 private:
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  std::optional<nb::python_error> error_;
};

// body(i) for i in [0, n), on threads, while this thread watches for signals, which set `stop`: no further i is begun
// then, and a body may look at it. Fewer threads where no more can be started; what a body throws comes out here.
// Called with the GIL held, which the bodies do not have.
template <class F> void watched(int n, int threads, volatile bool& stop, Pulse& pulse, F body) {
  std::atomic<int> next{0}, running{0};
  std::exception_ptr error;
  std::mutex mutex;
  auto work = [&](Pulse* own) {
    try {
      for (int i; !stop && (i = next++) < n;) {
        body(i);
        if (own && (*own)()) stop = true;
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
      stop = true;
    }
    --running;
  };
  threads = std::max(1, std::min(threads, n));
  std::vector<std::thread> crew;
  {
    nb::gil_scoped_release nogil;
    for (int t = 0; t < threads; ++t) {
      ++running;
      try {
        crew.emplace_back(work, nullptr);
      } catch (const std::system_error&) {  // no further thread to be had: those that run do the work
        --running;
        break;
      }
    }
    if (crew.empty()) {
      ++running;
      work(&pulse);
    }
    for (int naps = 0; running > 0; ++naps) {
      std::this_thread::sleep_for(std::chrono::microseconds(naps < 50 ? 20 : 2000));
      if (pulse()) stop = true;
    }
    for (auto& t : crew) t.join();
  }
  if (error) std::rethrow_exception(error);
}

// Hands out the numbers 0, 1, ... n - 1 to several threads, a few at a time and in order, until end().
class Turns {
 public:
  Turns(int n, int few) : n_(n), few_(few) {}
  // the next numbers, or an empty range
  std::pair<int, int> operator()() {
    const int from = stop_ ? n_ : std::min(next_.fetch_add(few_), n_);
    return {from, std::min(from + few_, n_)};
  }
  void end() { stop_ = true; }

 private:
  const int n_, few_;
  std::atomic<int> next_{0};
  std::atomic<bool> stop_{false};
};

// body(turn) on threads, without the GIL; turn() gives the next numbers of [0, n), at most `few`, as a range that is
// empty at the end. The thread that called looks for signals at every turn.
template <class F> void parallel(int n, int threads, int few, Pulse& pulse, F body) {
  threads = std::max(1, std::min(threads, n));
  Turns turns(n, std::max(1, std::min(few, n / (4 * threads))));
  std::exception_ptr error;
  std::mutex mutex;
  auto share = [&](bool calling) {
    try {
      body([&] {
        if (calling && pulse()) turns.end();
        return turns();
      });
    } catch (...) {
      turns.end();
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::thread> crew;
  for (int t = 1; t < threads; ++t) {
    try {
      crew.emplace_back(share, false);
    } catch (const std::system_error&) { break; }  // no further thread to be had
  }
  share(true);
  for (auto& t : crew) t.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace dalembert
