// Scratch and functions of the derivatives by parameters (parameters_dual.hpp, docs/kernels.md 20).
#pragma once
#include <algorithm>
#include <vector>
#include "elements/number_sums.hpp"
#include "onestep.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

struct ParameterScratch {
  Work<Dual> d;
  NumberSums<Dual> g;
  std::vector<Dual> out;
  std::vector<double> wrench, delta, zero, unit, Lq, Lv, F, row, R, P, H, S, room;

  bool init(const ModelData& M) {
    wrench.resize(size_t(M.nj + 2) * sizeof(V6<Dual>) / sizeof(double));
    g.wrench = reinterpret_cast<V6<Dual>*>(wrench.data());
    delta.resize(M.nv + 1);
    zero.resize(M.nv + 1);
    unit.resize(M.nv + M.nc + 1);
    return d.init(M, false);
  }
};

// Derivatives of one solved step or part by the parameters of links, contracted; made in engine_dual.cpp.
void motion_by_parameters(Work<double>& w, ParameterScratch& s, const StepOptions& o, double dt,
                          const ParameterLinks& links, const double* mu, const double* zp, double* out);
void end_by_parameters(Work<double>& w, ParameterScratch& s, double dt, const ParameterLinks& links, const double* nu,
                       double* out);

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
