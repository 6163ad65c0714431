// Interpreter of user elements: straight-line programs made by model/user.py from CasADi expressions (opcodes: class Op there).
#pragma once
#include "../work.hpp"

namespace dalembert {
namespace DALEMBERT_ARCH {

enum TapeOp : int {
  OpConst, OpInput, OpOutput, OpAssign, OpAdd, OpSub, OpMul, OpDiv, OpNeg, OpInv, OpSq, OpTwice, OpSqrt, OpSin, OpCos, OpTan,
  OpAsin, OpAcos, OpAtan, OpAtan2, OpSinh, OpCosh, OpTanh, OpAsinh, OpAcosh, OpAtanh, OpExp, OpLog, OpPow, OpFabs, OpSign,
  OpFmin, OpFmax, OpLt, OpLe, OpEq, OpNe, OpNot, OpAnd, OpOr, OpIfElseZero, OpFloor, OpCeil, OpCopysign, OpFmod, OpErf,
  OpLog1p, OpExpm1, OpHypot, OpRemainder, OpCount
};

DAL_INLINE double tape_op(int op, double a, double b) {
  switch (op) {
    case OpTan: return std::tan(a);
    case OpSin: return std::sin(a);
    case OpCos: return std::cos(a);
    case OpAsin: return std::asin(a);
    case OpAcos: return std::acos(a);
    case OpAtan: return std::atan(a);
    case OpAtan2: return std::atan2(a, b);
    case OpSinh: return std::sinh(a);
    case OpCosh: return std::cosh(a);
    case OpTanh: return std::tanh(a);
    case OpAsinh: return std::asinh(a);
    case OpAcosh: return std::acosh(a);
    case OpAtanh: return std::atanh(a);
    case OpExp: return std::exp(a);
    case OpLog: return std::log(a);
    case OpPow: return std::pow(a, b);
    case OpFabs: return __builtin_fabs(a);
    case OpSign: return a > 0 ? 1.0 : a < 0 ? -1.0 : a;
    case OpFmin: return a < b ? a : b;
    case OpFmax: return a > b ? a : b;
    case OpLt: return a < b;
    case OpLe: return a <= b;
    case OpEq: return a == b;
    case OpNe: return a != b;
    case OpNot: return a == 0;
    case OpAnd: return a != 0 && b != 0;
    case OpOr: return a != 0 || b != 0;
    case OpIfElseZero: return a != 0 ? b : 0.0;
    case OpFloor: return std::floor(a);
    case OpCeil: return std::ceil(a);
    case OpCopysign: return std::copysign(a, b);
    case OpFmod: return std::fmod(a, b);
    case OpErf: return std::erf(a);
    case OpLog1p: return std::log1p(a);
    case OpExpm1: return std::expm1(a);
    case OpHypot: return std::hypot(a, b);
    case OpRemainder: return std::remainder(a, b);
    default: return __builtin_nan("");
  }
}
inline Lanes tape_op(int op, Lanes a, Lanes b) {
  Lanes r;
  for (int i = 0; i < kWidth; ++i) r.v[i] = tape_op(op, a.v[i], b.v[i]);
  return r;
}
inline Dual tape_op(int op, Dual a, Dual b) {
  double f = tape_op(op, a.v, b.v), da = 0, db = 0;
  switch (op) {
    case OpTan: da = 1 + f * f; break;
    case OpSin: da = std::cos(a.v); break;
    case OpCos: da = -std::sin(a.v); break;
    case OpAsin: da = 1 / std::sqrt(1 - a.v * a.v); break;
    case OpAcos: da = -1 / std::sqrt(1 - a.v * a.v); break;
    case OpAtan: da = 1 / (1 + a.v * a.v); break;
    case OpAtan2: { double r = a.v * a.v + b.v * b.v; da = b.v / r; db = -a.v / r; break; }
    case OpSinh: da = std::cosh(a.v); break;
    case OpCosh: da = std::sinh(a.v); break;
    case OpTanh: da = 1 - f * f; break;
    case OpAsinh: da = 1 / std::sqrt(a.v * a.v + 1); break;
    case OpAcosh: da = 1 / std::sqrt(a.v * a.v - 1); break;
    case OpAtanh: da = 1 / (1 - a.v * a.v); break;
    case OpExp: da = f; break;
    case OpLog: da = 1 / a.v; break;
    case OpPow: da = b.v * std::pow(a.v, b.v - 1); db = b.d == 0 ? 0 : f * std::log(a.v); break;
    case OpFabs: da = a.v < 0 ? -1 : 1; break;
    case OpFmin: (a.v < b.v ? da : db) = 1; break;
    case OpFmax: (a.v > b.v ? da : db) = 1; break;
    case OpIfElseZero: return a.v != 0 ? b : Dual(0.0);
    case OpCopysign: da = std::signbit(a.v) == std::signbit(b.v) ? 1 : -1; break;
    case OpFmod: case OpRemainder: da = 1; break;
    case OpErf: da = 1.1283791670955126 * std::exp(-a.v * a.v); break;
    case OpLog1p: da = 1 / (1 + a.v); break;
    case OpExpm1: da = f + 1; break;
    case OpHypot: da = a.v / f; db = b.v / f; break;
    default: break;
  }
  return Dual(f, da * a.d + db * b.d);
}

template <class T> void run_tape(const Tape& t, const T* in, T* w, T* out) {
  const int32_t* c = t.code.data();
  for (size_t i = 0, n = t.code.size() / 4; i < n; ++i, c += 4) {
    switch (c[0]) {
      case OpConst: w[c[1]] = T(t.constants[c[2]]); break;
      case OpInput: w[c[1]] = in[c[2]]; break;
      case OpOutput: out[c[1]] = w[c[2]]; break;
      case OpAssign: w[c[1]] = w[c[2]]; break;
      case OpAdd: w[c[1]] = w[c[2]] + w[c[3]]; break;
      case OpSub: w[c[1]] = w[c[2]] - w[c[3]]; break;
      case OpMul: w[c[1]] = w[c[2]] * w[c[3]]; break;
      case OpDiv: w[c[1]] = w[c[2]] / w[c[3]]; break;
      case OpNeg: w[c[1]] = -w[c[2]]; break;
      case OpInv: w[c[1]] = T(1.0) / w[c[2]]; break;
      case OpSq: w[c[1]] = w[c[2]] * w[c[2]]; break;
      case OpTwice: w[c[1]] = w[c[2]] + w[c[2]]; break;
      case OpSqrt: w[c[1]] = sqrt_(w[c[2]]); break;
      default: w[c[1]] = tape_op(c[0], w[c[2]], w[c[3]]); break;
    }
  }
}

// potential or constraint: value, gradient (w.lg), Hessian (w.lh), third derivative along delta (w.lt)
template <class T> T tape_scalar(Work<T>& w, const Element& e, const T* q, int order, const T* delta) {
  const ModelData& M = *w.M;
  const int* lq = M.local_q.data() + e.vars;
  int n = e.n;
  for (int i = 0; i < n; ++i) w.tape_in[i] = q[lq[i]];
  const Tape& t = M.tapes[e.tape[order >= 2 ? 1 : 0]];
  run_tape(t, w.tape_in, w.tape_w, w.tape_out);
  T value = w.tape_out[0];
  for (int i = 0; i < n; ++i) w.lg[i] = w.tape_out[1 + i];
  if (order >= 2) for (int i = 0; i < n * n; ++i) w.lh[i] = w.tape_out[1 + n + i];
  if (order >= 3) {
    for (int i = 0; i < n; ++i) w.tape_in[n + i] = delta[i];
    run_tape(M.tapes[e.tape[2]], w.tape_in, w.tape_w, w.tape_out);
    for (int i = 0; i < n * n; ++i) w.lt[i] = w.tape_out[i];
  }
  return value;
}

template <class T> DAL_INLINE void tape_force_inputs(Work<T>& w, const Element& e, const T* q, const T* v) {
  const ModelData& M = *w.M;
  const int* lq = M.local_q.data() + e.vars;
  int n = e.n;
  for (int i = 0; i < n; ++i) { w.tape_in[i] = q[lq[i]]; w.tape_in[n + i] = v[lq[i]]; }
  for (int i = 0; i < e.nin; ++i) w.tape_in[2 * n + i] = w.u[M.tape_inputs[e.in0 + i]];
}
template <class T> void tape_force(Work<T>& w, const Element& e, const T* q, const T* v, int order) {
  tape_force_inputs(w, e, q, v);
  run_tape(w.M->tapes[e.tape[order >= 1 ? 1 : 0]], w.tape_in, w.tape_w, w.tape_out);
}
template <class T> const T* tape_force_second(Work<T>& w, const Element& e, const T* q, const T* v, const T* mu) {
  tape_force_inputs(w, e, q, v);
  for (int i = 0; i < e.nrow; ++i) w.tape_in[2 * e.n + e.nin + i] = mu[w.M->local_q[e.rows + i]];
  run_tape(w.M->tapes[e.tape[2]], w.tape_in, w.tape_w, w.tape_out);
  return w.tape_out;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
