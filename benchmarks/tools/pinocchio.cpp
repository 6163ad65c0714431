// Pinocchio without Python in between: rollouts (symplectic Euler, RK4; with pins: constraintDynamics and Baumgarte terms) and single
// algorithms. Reads a mechanism as plain numbers (machines.to_text), prints JSON with its own CPU time.
//   program machine.txt rollout euler|rk4 dt steps every kp
//   program machine.txt time aba|aba_derivatives|rnea_second repeats
//   program tumbling euler|rk4 dt steps ixx iyy izz wx wy wz: a free body without forces, RK4 on SE(3) x R^6
#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/constrained-dynamics.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/rnea-second-order-derivatives.hpp>
#include <pinocchio/multibody.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

using namespace pinocchio;
using Vec = Eigen::VectorXd;

static double now() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

struct Machine {
  Model model;
  std::vector<RigidConstraintModel> pins;
  Vec q0;
};

static Eigen::Vector3d vec3(std::istream& in) {
  Eigen::Vector3d v;
  in >> v[0] >> v[1] >> v[2];
  return v;
}

static Machine read(const char* file) {
  Machine m;
  std::ifstream in(file);
  int n, np;
  in >> n >> np;
  for (int i = 0; i < n; ++i) {
    int parent;
    char kind;
    in >> parent >> kind;
    Eigen::Vector3d axis = vec3(in), offset = vec3(in);
    double mass;
    in >> mass;
    Eigen::Vector3d com = vec3(in), inertia = vec3(in);
    // joints about coordinate axes have their own, faster types
    int k = axis[0] == 1 ? 0 : axis[1] == 1 ? 1 : 2;
    JointModel joint;
    if (kind == 'r') joint = k == 0 ? JointModel(JointModelRX()) : k == 1 ? JointModel(JointModelRY()) : JointModel(JointModelRZ());
    else joint = k == 0 ? JointModel(JointModelPX()) : k == 1 ? JointModel(JointModelPY()) : JointModel(JointModelPZ());
    auto id = m.model.addJoint(parent + 1, joint, SE3(Eigen::Matrix3d::Identity(), offset), "j" + std::to_string(i));
    m.model.appendBodyToJoint(id, Inertia(mass, com, inertia.asDiagonal().toDenseMatrix()), SE3::Identity());
  }
  for (int i = 0; i < np; ++i) {
    int a, b;
    in >> a;
    Eigen::Vector3d pa = vec3(in);
    in >> b;
    Eigen::Vector3d pb = vec3(in);
    m.pins.emplace_back(CONTACT_3D, m.model, a + 1, SE3(Eigen::Matrix3d::Identity(), pa), b + 1, SE3(Eigen::Matrix3d::Identity(), pb), LOCAL);
  }
  m.q0.resize(n);
  for (int i = 0; i < n; ++i) in >> m.q0[i];
  m.model.gravity.linear() << 0, 0, -9.8;
  if (!in) { std::fprintf(stderr, "cannot read %s\n", file); std::exit(1); }
  return m;
}

// What a velocity of the body along its own axes does to s, where its pose is that at the start times exp(s): the inverse of
// the right Jacobian, up to terms that a method of order four does not see
static Motion along(const Motion& s, const Motion& v) {
  const Motion c = s.cross(v);
  return v + 0.5 * c + (1.0 / 12) * s.cross(c);
}

// a free body; rk4: Runge and Kutta's on SE(3) x R^6 as by Munthe-Kaas, so that it is of order four there, too
static int tumbling(char** argv) {
  Model model;
  auto id = model.addJoint(0, JointModelFreeFlyer(), SE3::Identity(), "b");
  Eigen::Vector3d inertia(std::atof(argv[5]), std::atof(argv[6]), std::atof(argv[7]));
  model.appendBodyToJoint(id, Inertia(1.0, Eigen::Vector3d::Zero(), inertia.asDiagonal().toDenseMatrix()), SE3::Identity());
  model.gravity.linear().setZero();
  Data data(model);
  const std::string what = argv[2];
  const double dt = std::atof(argv[3]);
  const long steps = std::atol(argv[4]);
  const Vec tau = Vec::Zero(6);
  Vec q(7), x(7), v(6), k1(6), k2(6), k3(6), k4(6), v2(6), v3(6), v4(6);
  const long rounds = std::max(1L, 20000L / steps);
  double seconds = 0;
  for (int warm = 0; warm < 2; ++warm) {
    double t0 = now();
    for (long r = 0; r < rounds; ++r) {
      q = neutral(model);
      v << 0, 0, 0, std::atof(argv[8]), std::atof(argv[9]), std::atof(argv[10]);
      for (long i = 0; i < steps; ++i) {
        if (what == "euler") {
          v += dt * aba(model, data, q, v, tau);
          integrate(model, q, dt * v, x);
          q = x;
          continue;
        }
        k1 = aba(model, data, q, v, tau);
        const Motion s1(v);
        v2 = v + dt / 2 * k1;
        integrate(model, q, dt / 2 * s1.toVector(), x);
        k2 = aba(model, data, x, v2, tau);
        const Motion s2 = along(dt / 2 * s1, Motion(v2));
        v3 = v + dt / 2 * k2;
        integrate(model, q, dt / 2 * s2.toVector(), x);
        k3 = aba(model, data, x, v3, tau);
        const Motion s3 = along(dt / 2 * s2, Motion(v3));
        v4 = v + dt * k3;
        integrate(model, q, dt * s3.toVector(), x);
        k4 = aba(model, data, x, v4, tau);
        const Motion s4 = along(dt * s3, Motion(v4));
        integrate(model, q, dt / 6 * (s1 + 2 * s2 + 2 * s3 + s4).toVector(), x);
        q = x;
        v += dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
      }
    }
    seconds = (now() - t0) / rounds;
  }
  std::printf("{\"seconds\": %.9e, \"quaternion\": [%.17g, %.17g, %.17g, %.17g]}\n", seconds, q[6], q[3], q[4], q[5]);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 5) return 1;
  if (std::string(argv[1]) == "tumbling") return argc < 11 ? 1 : tumbling(argv);
  Machine m = read(argv[1]);
  const int n = m.model.nv;
  Data data(m.model);
  const std::string command = argv[2], what = argv[3];
  Vec tau = Vec::Zero(n);

  if (command == "time") {
    const int repeats = std::atoi(argv[4]);
    Vec q = m.q0, v = Vec::LinSpaced(n, -0.5, 0.7), a = Vec::LinSpaced(n, 0.3, -0.4);
    double best = 0, sum = 0;
    for (int round = 0; round < 2; ++round) {  // the first round warms up
      double t0 = now();
      for (int i = 0; i < repeats; ++i) {
        q[0] += 1e-9;
        if (what == "aba") { aba(m.model, data, q, v, tau); sum += data.ddq[0]; }
        else if (what == "aba_derivatives") { computeABADerivatives(m.model, data, q, v, tau); sum += data.ddq_dq(0, 0); }
        else if (what == "rnea_second") { ComputeRNEASecondOrderDerivatives(m.model, data, q, v, a); sum += data.d2tau_dqdq(0, 0, 0); }
        else return 1;
      }
      best = (now() - t0) / repeats;
    }
    std::printf("{\"seconds\": %.9e, \"sum\": %.17g}\n", best, sum);
    return 0;
  }

  const double dt = std::atof(argv[4]);
  const long steps = std::atol(argv[5]), every = std::atol(argv[6]);
  const double kp = std::atof(argv[7]);
  std::vector<RigidConstraintData> pin_data;
  for (auto& pin : m.pins) {
    pin.m_baumgarte_parameters.Kp = kp;
    pin.m_baumgarte_parameters.Kd = 2 * std::sqrt(kp);
    pin_data.emplace_back(pin);
  }
  // a pin of a planar mechanism has a row of zeros, and the lift passes a singularity: the proximal term carries both
  ProximalSettings settings(1e-12, 1e-10, 10);
  if (!m.pins.empty()) initConstraintDynamics(m.model, data, m.pins, pin_data);
  auto acceleration = [&](const Vec& q, const Vec& v, Vec& a) {
    if (m.pins.empty()) { a = aba(m.model, data, q, v, tau); return; }
    a = constraintDynamics(m.model, data, q, v, tau, m.pins, pin_data, settings);
  };

  std::vector<double> store;
  Vec q, v, a(n), k1(n), k2(n), k3(n), k4(n), x(n), w(n);
  auto run = [&](long count, bool keep) {
    q = m.q0;
    v = Vec::Zero(n);
    for (long i = 1; i <= count; ++i) {
      if (what == "euler") {
        acceleration(q, v, a);
        v += dt * a;
        q += dt * v;
      } else {
        acceleration(q, v, k1);
        x = q + dt / 2 * v; w = v + dt / 2 * k1;
        acceleration(x, w, k2);
        x = q + dt / 2 * v + dt * dt / 4 * k1; Vec w3 = v + dt / 2 * k2;
        acceleration(x, w3, k3);
        x = q + dt * v + dt * dt / 2 * k2; Vec w4 = v + dt * k3;
        acceleration(x, w4, k4);
        q += dt * v + dt * dt / 6 * (k1 + k2 + k3);
        v += dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
      }
      if (keep && i % every == 0) {
        store.insert(store.end(), q.data(), q.data() + n);
        store.insert(store.end(), v.data(), v.data() + n);
      }
    }
  };
  store.reserve(2 * n * (steps / every + 1));
  run(std::min(steps, 50L), false);
  double t0 = now();
  run(steps, true);
  double spent = now() - t0;
  std::printf("{\"seconds\": %.9e, \"states\": [", spent);
  for (size_t i = 0; i < store.size(); ++i) std::printf(i ? ", %.17g" : "%.17g", std::isfinite(store[i]) ? store[i] : 1e300);
  std::printf("]}\n");
}
