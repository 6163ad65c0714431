// Interpreter of user elements: straight-line programs made by model/tape.py from CasADi expressions.
#pragma once
#include "../work.hpp"

// The one list of operations, X(NAME, number of operands); Python reads it from the module (TAPE_OPS). w is the work
// array: w[out] = op(w[in1], w[in2]), except CONST: w[out] = constants[in1], INPUT: w[out] = x[in1] (flat index into
// all inputs one after another) and OUTPUT: y[out] = w[in1]. Truth is 1, falsehood 0; IF_ELSE_ZERO(a, b) is b if a
// else 0, where b may be NaN.
// clang-format off
#define DALEMBERT_TAPE_OPS(X) \
  X(CONST, 0) X(INPUT, 0) X(OUTPUT, 1) X(ASSIGN, 1) X(ADD, 2) X(SUB, 2) X(MUL, 2) X(DIV, 2) X(NEG, 1) X(INV, 1) \
  X(SQ, 1) X(TWICE, 1) X(SQRT, 1) X(SIN, 1) X(COS, 1) X(TAN, 1) X(ASIN, 1) X(ACOS, 1) X(ATAN, 1) X(ATAN2, 2) \
  X(SINH, 1) X(COSH, 1) X(TANH, 1) X(ASINH, 1) X(ACOSH, 1) X(ATANH, 1) X(EXP, 1) X(LOG, 1) X(POW, 2) X(FABS, 1) \
  X(SIGN, 1) X(FMIN, 2) X(FMAX, 2) X(LT, 2) X(LE, 2) X(EQ, 2) X(NE, 2) X(NOT, 1) X(AND, 2) X(OR, 2) \
  X(IF_ELSE_ZERO, 2) X(FLOOR, 1) X(CEIL, 1) X(COPYSIGN, 2) X(FMOD, 2) X(ERF, 1) X(LOG1P, 1) X(EXPM1, 1) \
  X(HYPOT, 2) X(REMAINDER, 2)
// clang-format on

namespace dalembert {

enum TapeOp : int {
#define DALEMBERT_X(name, operands) Op##name,
  DALEMBERT_TAPE_OPS(DALEMBERT_X)
#undef DALEMBERT_X
      kTapeOps
};

namespace DALEMBERT_ARCH {

DAL_INLINE double tape_op(int op, double a, double b) {
  switch (op) {
    case OpTAN: return std::tan(a);
    case OpSIN: return std::sin(a);
    case OpCOS: return std::cos(a);
    case OpASIN: return std::asin(a);
    case OpACOS: return std::acos(a);
    case OpATAN: return std::atan(a);
    case OpATAN2: return std::atan2(a, b);
    case OpSINH: return std::sinh(a);
    case OpCOSH: return std::cosh(a);
    case OpTANH: return std::tanh(a);
    case OpASINH: return std::asinh(a);
    case OpACOSH: return std::acosh(a);
    case OpATANH: return std::atanh(a);
    case OpEXP: return std::exp(a);
    case OpLOG: return std::log(a);
    case OpPOW: return std::pow(a, b);
    case OpFABS: return __builtin_fabs(a);
    case OpSIGN: return a > 0 ? 1.0 : a < 0 ? -1.0 : a;
    case OpFMIN: return a < b ? a : b;
    case OpFMAX: return a > b ? a : b;
    case OpLT: return a < b;
    case OpLE: return a <= b;
    case OpEQ: return a == b;
    case OpNE: return a != b;
    case OpNOT: return a == 0;
    case OpAND: return a != 0 && b != 0;
    case OpOR: return a != 0 || b != 0;
    case OpIF_ELSE_ZERO: return a != 0 ? b : 0.0;
    case OpFLOOR: return std::floor(a);
    case OpCEIL: return std::ceil(a);
    case OpCOPYSIGN: return std::copysign(a, b);
    case OpFMOD: return std::fmod(a, b);
    case OpERF: return std::erf(a);
    case OpLOG1P: return std::log1p(a);
    case OpEXPM1: return std::expm1(a);
    case OpHYPOT: return std::hypot(a, b);
    case OpREMAINDER: return std::remainder(a, b);
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
    case OpTAN: da = 1 + f * f; break;
    case OpSIN: da = std::cos(a.v); break;
    case OpCOS: da = -std::sin(a.v); break;
    case OpASIN: da = 1 / std::sqrt(1 - a.v * a.v); break;
    case OpACOS: da = -1 / std::sqrt(1 - a.v * a.v); break;
    case OpATAN: da = 1 / (1 + a.v * a.v); break;
    case OpATAN2: {
      double r = a.v * a.v + b.v * b.v;
      da = b.v / r;
      db = -a.v / r;
      break;
    }
    case OpSINH: da = std::cosh(a.v); break;
    case OpCOSH: da = std::sinh(a.v); break;
    case OpTANH: da = 1 - f * f; break;
    case OpASINH: da = 1 / std::sqrt(a.v * a.v + 1); break;
    case OpACOSH: da = 1 / std::sqrt(a.v * a.v - 1); break;
    case OpATANH: da = 1 / (1 - a.v * a.v); break;
    case OpEXP: da = f; break;
    case OpLOG: da = 1 / a.v; break;
    case OpPOW:
      da = b.v * std::pow(a.v, b.v - 1);
      db = b.d == 0 ? 0 : f * std::log(a.v);
      break;
    case OpFABS: da = a.v < 0 ? -1 : 1; break;
    case OpFMIN: (a.v < b.v ? da : db) = 1; break;
    case OpFMAX: (a.v > b.v ? da : db) = 1; break;
    case OpIF_ELSE_ZERO: return a.v != 0 ? b : Dual(0.0);
    case OpCOPYSIGN: da = std::signbit(a.v) == std::signbit(b.v) ? 1 : -1; break;
    case OpFMOD:
    case OpREMAINDER: da = 1; break;
    case OpERF: da = 1.1283791670955126 * std::exp(-a.v * a.v); break;
    case OpLOG1P: da = 1 / (1 + a.v); break;
    case OpEXPM1: da = f + 1; break;
    case OpHYPOT:
      da = a.v / f;
      db = b.v / f;
      break;
    default: break;
  }
  return Dual(f, da * a.d + db * b.d);
}

template <class T> void run_tape(const Tape& t, const T* in, T* w, T* out) {
  const int32_t* c = t.code.data();
  for (size_t i = 0, n = t.code.size() / 4; i < n; ++i, c += 4) {
    switch (c[0]) {
      case OpCONST: w[c[1]] = T(t.constants[c[2]]); break;
      case OpINPUT: w[c[1]] = in[c[2]]; break;
      case OpOUTPUT: out[c[1]] = w[c[2]]; break;
      case OpASSIGN: w[c[1]] = w[c[2]]; break;
      case OpADD: w[c[1]] = w[c[2]] + w[c[3]]; break;
      case OpSUB: w[c[1]] = w[c[2]] - w[c[3]]; break;
      case OpMUL: w[c[1]] = w[c[2]] * w[c[3]]; break;
      case OpDIV: w[c[1]] = w[c[2]] / w[c[3]]; break;
      case OpNEG: w[c[1]] = -w[c[2]]; break;
      case OpINV: w[c[1]] = T(1.0) / w[c[2]]; break;
      case OpSQ: w[c[1]] = w[c[2]] * w[c[2]]; break;
      case OpTWICE: w[c[1]] = w[c[2]] + w[c[2]]; break;
      case OpSQRT: w[c[1]] = sqrt_(w[c[2]]); break;
      default: w[c[1]] = tape_op(c[0], w[c[2]], w[c[3]]); break;
    }
  }
}

// Arguments of a tape: coordinates of the local variables; those of balls are angles from where the ball is, zero.
template <class T> DAL_INLINE void tape_variables(Work<T>& w, const Element& e, const T* q) {
  const int* lq = w.M->local_q.data() + e.vars;
  for (int i = 0; i < e.n; ++i) w.local.tape_in[i] = lq[i] < 0 ? T(0.0) : q[lq[i]];
}
// Last come the quaternions of its balls, from argument `at` on.
template <class T> DAL_INLINE void tape_turns(Work<T>& w, const Element& e, const T* q, int at) {
  const ModelData& M = *w.M;
  for (int i = 0; i < e.balls; ++i)
    for (int c = 0; c < 4; ++c) w.local.tape_in[at + 4 * i + c] = q[M.balls[M.ball_local[e.ball + i].ball].q + c];
}

// potential or constraint: value, gradient (w.local.gradient), Hessian (w.local.hessian), third derivative along delta
// (w.local.third)
template <class T> T tape_scalar(Work<T>& w, const Element& e, const T* q, int order, const T* delta) {
  const ModelData& M = *w.M;
  int n = e.n;
  tape_variables(w, e, q);
  tape_turns(w, e, q, n);
  const Tape& t = M.tapes[e.tape[order >= 2 ? 1 : 0]];
  run_tape(t, w.local.tape_in, w.local.tape_work, w.local.tape_out);
  T value = w.local.tape_out[0];
  for (int i = 0; i < n; ++i) w.local.gradient[i] = w.local.tape_out[1 + i];
  if (order >= 2)
    for (int i = 0; i < n * n; ++i) w.local.hessian[i] = w.local.tape_out[1 + n + i];
  if (order >= 3) {
    for (int i = 0; i < n; ++i) w.local.tape_in[n + i] = delta[i];
    tape_turns(w, e, q, 2 * n);
    run_tape(M.tapes[e.tape[2]], w.local.tape_in, w.local.tape_work, w.local.tape_out);
    for (int i = 0; i < n * n; ++i) w.local.third[i] = w.local.tape_out[i];
  }
  return value;
}

template <class T> DAL_INLINE void tape_force_inputs(Work<T>& w, const Element& e, const T* q, const T* v) {
  const ModelData& M = *w.M;
  const int* lv = M.local_v.data() + e.vars;
  int n = e.n;
  tape_variables(w, e, q);
  for (int i = 0; i < n; ++i) w.local.tape_in[n + i] = v[lv[i]];
  for (int i = 0; i < e.nin; ++i) w.local.tape_in[2 * n + i] = w.step.u[M.tape_inputs[e.in0 + i]];
}
template <class T> void tape_force(Work<T>& w, const Element& e, const T* q, const T* v, int order) {
  tape_force_inputs(w, e, q, v);
  tape_turns(w, e, q, 2 * e.n + e.nin);
  run_tape(w.M->tapes[e.tape[order >= 1 ? 1 : 0]], w.local.tape_in, w.local.tape_work, w.local.tape_out);
}
template <class T> const T* tape_force_second(Work<T>& w, const Element& e, const T* q, const T* v, const T* mu) {
  tape_force_inputs(w, e, q, v);
  const int at = 2 * e.n + e.nin;
  for (int i = 0; i < e.nrow; ++i) {
    const int row = w.M->local_v[e.rows + i];
    w.local.tape_in[at + i] = row < w.M->nd ? mu[row] : T(0.0);
  }
  tape_turns(w, e, q, at + e.nrow);
  run_tape(w.M->tapes[e.tape[2]], w.local.tape_in, w.local.tape_work, w.local.tape_out);
  return w.local.tape_out;
}

}  // namespace DALEMBERT_ARCH
}  // namespace dalembert
