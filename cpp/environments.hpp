// Many environments of one model that step together, as learners want them: one step of each, which episodes are over,
// and those that ended before begin anew. One call for all: what Python does with a small mechanism takes longer than
// its equations.
#pragma once
#include <limits>
#include <utility>
#include "motions.hpp"

namespace dalembert {

class Environments {
 public:
  // n episodes of at most `steps` steps; a state outside of least, largest (nx; or empty) ends one
  Environments(const Motions& motions, int n, int steps, std::vector<double> least, std::vector<double> largest,
               int threads)
      : m_(motions),
        z(motions.sizes()),
        n_(n),
        steps_(steps),
        threads_(threads),
        least_(std::move(least)),
        largest_(std::move(largest)),
        x_(n * z.nx),
        count_(n),
        ended_(n),
        failed_(n) {
    for (size_t i = 0; i < least_.size(); ++i)
      if (least_[i] > -infinity || largest_[i] < infinity) watched_.push_back(i);
    moving_.reserve(n);
  }

  size_t size() const { return n_; }
  const Sizes& sizes() const { return z; }
  const double* states() const { return x_.data(); }           // (n, nx)
  const std::vector<char>& failed() const { return failed_; }  // steps without solution in the last call
  // how many begin anew with the next step
  size_t due() const { return std::count(ended_.begin(), ended_.end(), 1); }

  // all episodes begin, in the states x (n, nx)
  void begin(const double* x) {
    std::copy_n(x, x_.size(), x_.data());
    std::fill(count_.begin(), count_.end(), 0);
    std::fill(ended_.begin(), ended_.end(), 0);
  }
  // episodes end (n) that others have found to be over
  void end(const bool* over) {
    for (size_t i = 0; i < n_; ++i) ended_[i] |= over[i];
  }

  // One step of each under u (n, nU). Those that ended before take the next of `starts` (due(), nx) instead, with
  // reward 0; others have `reward`. Writes rewards, over, truncated (n).
  void step(const double* u, const double* starts, double reward, double* rewards, bool* over, bool* truncated) {
    moving_.clear();
    for (size_t i = 0; i < n_; ++i)
      if (!ended_[i]) moving_.push_back(i);
    std::fill(failed_.begin(), failed_.end(), 0);
    m_.advance(moving_, x_.data(), u, failed_.data(), threads_);
    for (size_t i = 0; i < n_; ++i) {
      double* x = &x_[i * z.nx];
      if (ended_[i]) {
        std::copy_n(starts, z.nx, x);
        starts += z.nx;
        count_[i] = 0;
        ended_[i] = over[i] = truncated[i] = false;
        rewards[i] = 0;
        continue;
      }
      over[i] = false;
      for (size_t j : watched_) over[i] |= !(x[j] >= least_[j] && x[j] <= largest_[j]);
      truncated[i] = ++count_[i] >= steps_ || failed_[i];
      ended_[i] = over[i] || truncated[i];
      rewards[i] = reward;
    }
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  const Motions& m_;
  const Sizes& z;
  const size_t n_;
  const int steps_, threads_;
  const std::vector<double> least_, largest_;
  std::vector<double> x_;
  std::vector<int> count_;  // steps of the episodes so far
  std::vector<char> ended_, failed_;
  std::vector<size_t> moving_, watched_;
};

}  // namespace dalembert
