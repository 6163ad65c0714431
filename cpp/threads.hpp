// Work on threads, while Ctrl-C is seen.
#pragma once
#include <nanobind/nanobind.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace dalembert {

namespace nb = nanobind;

inline bool interrupted() {  // with the GIL held
  if (PyErr_CheckSignals() != 0) {
    PyErr_Clear();
    return true;
  }
  return false;
}

// body(i) for i in [0, n), on threads, while this thread watches for Ctrl-C, which sets `stop`: no further i is begun
// then, and a body may look at it. Fewer threads where no more can be started; what a body throws comes out here.
// Called with the GIL held, which the bodies do not have.
template <class F> void watched(int n, int threads, volatile bool& stop, F body) {
  std::atomic<int> next{0}, running{0};
  std::exception_ptr error;
  std::mutex mutex;
  auto work = [&] {
    try {
      for (int i; !stop && (i = next++) < n;) body(i);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
      stop = true;
    }
    --running;
  };
  threads = std::max(1, std::min(threads, n));
  std::vector<std::thread> crew;
  nb::gil_scoped_release nogil;
  for (int t = 0; t < threads; ++t) {
    ++running;
    try {
      crew.emplace_back(work);
    } catch (const std::system_error&) {  // no further thread to be had: those that run do the work
      --running;
      break;
    }
  }
  if (crew.empty()) {
    ++running;
    work();
  }
  for (int naps = 0; running > 0; ++naps) {
    std::this_thread::sleep_for(std::chrono::microseconds(naps < 50 ? 20 : 2000));
    if (naps % 50 == 49) {
      nb::gil_scoped_acquire gil;
      if (interrupted()) stop = true;
    }
  }
  for (auto& t : crew) t.join();
  if (error) {
    nb::gil_scoped_acquire gil;
    std::rethrow_exception(error);
  }
}

// body(first, last) over equal shares of [0, n) on threads
template <class F> void parallel(int n, int threads, F body) {
  threads = std::max(1, std::min(threads, n));
  if (threads == 1) {
    body(0, n, 0);
    return;
  }
  std::vector<std::thread> crew;
  std::exception_ptr error;
  std::mutex mutex;
  auto share = [&](int t) {
    try {
      body(int(int64_t(n) * t / threads), int(int64_t(n) * (t + 1) / threads), t);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  for (int t = 1; t < threads; ++t) {
    try {
      crew.emplace_back(share, t);
    } catch (const std::system_error&) { share(t); }
  }
  share(0);
  for (auto& t : crew) t.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace dalembert
