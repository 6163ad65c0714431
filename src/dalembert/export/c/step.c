/* @title@
 *
 * Discrete mechanics of the model "@model@": the implicit variational step@and_linearization@.
 *
 *   p_k + D1 Ld(q_k, q_k+1) + F-@minus_constraint@ = 0,@constraint_equation@   p_k+1 = D2 Ld(q_k, q_k+1) + F+
//@ if nvc
 *   with multipliers of constraints on velocities beside them@minus_velocities@, a(q) v + b(q) = 0 at the midpoint [19]
//@ end
 *   Ld(x, y) = dt L((1 - alpha) x + alpha y, (y - x)/dt),   alpha = @alpha@,   F- = @minus@ dt F,   F+ = @plus@ dt F
 *
 * The model is in the constant tables below; the functions are loops over them. Numbers in brackets are sections and
 * equations of docs/kernels.md of dalembert. Twists are (angular; linear), all in one inertial frame about one
 * reference point; a joint's pose is that of its frame there. Rotation matrices are stored by columns.
 */
#include "@n@.h"

#include <math.h>

typedef @n@_real real;
typedef @n@ mech;
typedef @n@_pose pose;

enum {
  NQ = @N@_NQ, /* coordinates */
  NV = @N@_NV, /* velocities */
  ND = @N@_ND, /* dynamic ones */
  NK = @N@_NK, /* prescribed ones */
  NQD = @nqd@, /* coordinates of the dynamic ones */
//@ if balls
  NB = @N@_NB, /* balls */
  NBD = @dynamic_balls@, /* dynamic ones: the first */
//@ end
  NU = @N@_NU, /* inputs */
  NC = @N@_NC, /* constraints */
  NH = @nh@, /* those on the configuration; the others are on velocities */
  NJ = @N@_NJ, /* joints */
  NM = @N@_NM, /* joints that carry mass: the first ones */
  NN = @N@_NN, /* composite bodies */
  NX = @N@_NX, /* states */
  NW = @N@_NW  /* columns of B: inputs, then prescribed values */
};

#define R(x) ((real)(x))
#define SIN @sin@
#define COS @cos@
#define SQRT @sqrt@
#define FABS @fabs@
//@ if atan2_used
#define ATAN2 @atan2@
//@ end
#define ALPHA R(@alpha@)
#define MINUS R(@minus@)
#define PLUS R(@plus@)
#define TOLERANCE R(@tolerance@)
#define H_TOLERANCE R(@h_tolerance@)
#define SLACK R(@slack@)     /* an iteration that stagnates at rounding is accepted within so many tolerances */
#define EPSILON R(@epsilon@) /* half the distance from 1 to the next number */
//@ if no_finish
//@ else
#define FINISH R(@finish@)   /* a step of Newton's method below it is the last, and nothing is evaluated after it */
//@ end
#define LARGEST R(@largest@) /* numbers above it count as not finite */

/* ---- the model ------------------------------------------------------------------------------------------------- */

@tables@
//@ if planar
/* ---- vectors in the plane, motions and forces of three numbers (about its normal; in it) --------------------------- */

enum { DP = 2, DA = 1, DM = 3, DI = 1 }; /* numbers of a point, of an axis, of a motion, of second moments */

static inline real dot(const real *a, const real *b) { return a[0] * b[0] + a[1] * b[1]; }

/* a += b of points */
static inline void point_add(real *a, const real *b) {
  a[0] += b[0];
  a[1] += b[1];
}

/* rotation (cosine, sine) times vector */
static inline void rotate(const real *rotation, const real *v, real *out) {
  out[0] = rotation[0] * v[0] - rotation[1] * v[1];
  out[1] = rotation[1] * v[0] + rotation[0] * v[1];
}

//@ if sites
/* axis x vector */
static inline void turn(const real *axis, const real *v, real *out) {
  out[0] = -axis[0] * v[1];
  out[1] = axis[0] * v[0];
}
//@ end

static inline real motion_dot(const real *a, const real *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* a += b of motions or forces */
static inline void motion_add(real *a, const real *b) {
  a[0] += b[0];
  a[1] += b[1];
  a[2] += b[2];
}

/* x A + B of two motions */
static inline void motion_line(real x, const real *a, const real *b, real *out) {
  out[0] = x * a[0] + b[0];
  out[1] = x * a[1] + b[1];
  out[2] = x * a[2] + b[2];
}

/* x A - B of two motions */
static inline void motion_less(real x, const real *a, const real *b, real *out) {
  out[0] = x * a[0] - b[0];
  out[1] = x * a[1] - b[1];
  out[2] = x * a[2] - b[2];
}

/* A x B of two motions */
static inline void motion_cross(const real *a, const real *b, real *out) {
  out[0] = 0;
  out[1] = b[0] * a[2] - a[0] * b[2];
  out[2] = a[0] * b[1] - b[0] * a[1];
}

/* out += A x* f of a motion and a force */
static inline void add_force_cross(const real *a, const real *f, real *out) {
  out[0] += a[1] * f[2] - a[2] * f[1];
  out[1] -= a[0] * f[2];
  out[2] += a[0] * f[1];
}

/* I A of an inertia (mass, first moment c, second moment) and a motion */
static inline void inertia_times(real mass, const real *c, const real *i, const real *a, real *out) {
  out[0] = i[0] * a[0] + c[0] * a[2] - c[1] * a[1];
  out[1] = mass * a[1] - a[0] * c[1];
  out[2] = mass * a[2] + a[0] * c[0];
}

/* V_qq = (w_a x g).F_d of uniform gravity [5] */
static inline real fall_between(const real *twist, const real *f) { return twist[0] * (@gravity_fall@); }
//@ else
/* ---- vectors of three numbers, motions and forces of six --------------------------------------------------------- */

enum { DP = 3, DA = 3, DM = 6, DI = 6 }; /* numbers of a point, of an axis, of a motion, of second moments */

static inline real dot(const real *a, const real *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* a += b of points */
static inline void point_add(real *a, const real *b) {
  int i;
  for (i = 0; i < 3; ++i) a[i] += b[i];
}

static void cross3(const real *a, const real *b, real *out) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

/* out += a x b */
static void add_cross3(const real *a, const real *b, real *out) {
  out[0] += a[1] * b[2] - a[2] * b[1];
  out[1] += a[2] * b[0] - a[0] * b[2];
  out[2] += a[0] * b[1] - a[1] * b[0];
}

/* rotation (columns) times vector */
static inline void rotate(const real *rotation, const real *v, real *out) {
  int i;
  for (i = 0; i < 3; ++i) out[i] = rotation[i] * v[0] + rotation[3 + i] * v[1] + rotation[6 + i] * v[2];
}

//@ if sites
/* axis x vector */
static inline void turn(const real *axis, const real *v, real *out) { cross3(axis, v, out); }
//@ end

static inline real motion_dot(const real *a, const real *b) { return dot(a, b) + dot(a + 3, b + 3); }

/* a += b of motions or forces */
static inline void motion_add(real *a, const real *b) {
  int i;
  for (i = 0; i < 6; ++i) a[i] += b[i];
}

/* x A + B of two motions */
static inline void motion_line(real x, const real *a, const real *b, real *out) {
  int i;
  for (i = 0; i < 6; ++i) out[i] = x * a[i] + b[i];
}

/* x A - B of two motions */
static inline void motion_less(real x, const real *a, const real *b, real *out) {
  int i;
  for (i = 0; i < 6; ++i) out[i] = x * a[i] - b[i];
}

/* A x B of two motions */
static inline void motion_cross(const real *a, const real *b, real *out) {
  cross3(a, b, out);
  cross3(a, b + 3, out + 3);
  add_cross3(a + 3, b, out + 3);
}

/* out += A x* f of a motion and a force */
static inline void add_force_cross(const real *a, const real *f, real *out) {
  add_cross3(a, f, out);
  add_cross3(a + 3, f + 3, out);
  add_cross3(a, f + 3, out + 3);
}

/* I A of an inertia (mass, first moment c, second moment xx, yy, zz, xy, xz, yz) and a motion */
static inline void inertia_times(real mass, const real *c, const real *i, const real *a, real *out) {
  out[0] = i[0] * a[0] + i[3] * a[1] + i[4] * a[2];
  out[1] = i[3] * a[0] + i[1] * a[1] + i[5] * a[2];
  out[2] = i[4] * a[0] + i[5] * a[1] + i[2] * a[2];
  add_cross3(c, a + 3, out);
  out[3] = mass * a[3];
  out[4] = mass * a[4];
  out[5] = mass * a[5];
  add_cross3(a, c, out + 3);
}

/* V_qq = (w_a x g).F_d of uniform gravity [5] */
static inline real fall_between(const real *twist, const real *f) { return GRAVITY * (twist[1] * f[3] - twist[0] * f[4]); }
//@ end

static real larger(real a, real b) { return a > b ? a : b; } /* b where one is NaN */

/* of errors: what is NaN stays */
static real worse(real a, real b) { return a + b == a + b ? larger(a, b) : a + b; }

//@ if balls
/* ---- balls [13]: unit quaternions (w, x, y, z); 3x3 matrices are stored by rows ----------------------------------- */

static void times(const real *a, const real *b, real *out) {
  int i, k;
  for (i = 0; i < 3; ++i)
    for (k = 0; k < 3; ++k) out[3 * i + k] = a[3 * i] * b[k] + a[3 * i + 1] * b[3 + k] + a[3 * i + 2] * b[6 + k];
}

static void transposed(const real *a, real *out) {
  int i;
  for (i = 0; i < 9; ++i) out[i] = a[3 * (i % 3) + i / 3];
}

static void apply(const real *a, const real *v, real *out) {
  int i;
  for (i = 0; i < 3; ++i) out[i] = dot(a + 3 * i, v);
}

static void apply_transposed(const real *a, const real *v, real *out) {
  int i;
  for (i = 0; i < 3; ++i) out[i] = a[i] * v[0] + a[3 + i] * v[1] + a[6 + i] * v[2];
}

/* out += factor [v]x */
static void add_skew(const real *v, real factor, real *out) {
  out[1] -= factor * v[2];
  out[2] += factor * v[1];
  out[3] += factor * v[2];
  out[5] -= factor * v[0];
  out[6] -= factor * v[1];
  out[7] += factor * v[0];
}

static void quaternion_product(const real *a, const real *b, real *out) {
  int i;
  out[0] = a[0] * b[0] - dot(a + 1, b + 1);
  cross3(a + 1, b + 1, out + 1);
  for (i = 1; i < 4; ++i) out[i] += a[0] * b[i] + a[i] * b[0];
}

static void normalize(real *q) {
  const real over = R(1.0) / SQRT(q[0] * q[0] + dot(q + 1, q + 1));
  int i;
  for (i = 0; i < 4; ++i) q[i] *= over;
}

/* out = q exp(share phi), phi along body axes */
static void turn_by(const real *q, const real *phi, real share, real *out) {
  const real s = share * share * dot(phi, phi), half = R(0.5) * SQRT(s);
  const real f = share * (s < R(@small_turn@) ? R(0.5) - s * R(1.0 / 48) : SIN(half) / (R(2.0) * half));
  real by[4], product[4];
  int i;
  by[0] = COS(half);
  for (i = 0; i < 3; ++i) by[1 + i] = f * phi[i];
  quaternion_product(q, by, product);
  normalize(product);
  for (i = 0; i < 4; ++i) out[i] = product[i];
}

/* by = q0^-1 q1 the shorter way, phi its logarithm */
static void turn_between(const real *q0, const real *q1, real *by, real *phi) {
  real back[4], n2, f;
  int i;
  back[0] = q0[0];
  for (i = 1; i < 4; ++i) back[i] = -q0[i];
  quaternion_product(back, q1, by);
  if (by[0] < 0)
    for (i = 0; i < 4; ++i) by[i] = -by[i];
  n2 = dot(by + 1, by + 1);
  f = n2 < R(@small_turn@) ? (R(2.0) - n2 * R(2.0 / 3) / (by[0] * by[0])) / by[0]
                     : R(2.0) * ATAN2(SQRT(n2), by[0]) / SQRT(n2);
  for (i = 0; i < 3; ++i) phi[i] = f * by[1 + i];
}

/* value of a power series, and its derivative */
static real series(const real *k, int n, real x, real *slope) {
  real value = k[n - 1];
  int i;
  *slope = 0;
  for (i = n - 2; i >= 0; --i) {
    *slope = *slope * x + value;
    value = value * x + k[i];
  }
  return value;
}

/* t = tan(|phi|/4)/|phi|, c = (1 - h cot h)/|phi|^2 with h = |phi|/2, and their derivatives by |phi|^2 (13.1) */
static void turn_factors(@n@_ball *b, real cosine, real sine) {
  static const real cot[11] = {
      R(1.0 / 12),           R(1.0 / 720),           R(1.0 / 30240),          R(1.0 / 1209600),
      R(1.0 / 47900160),     R(5.28419013868749e-10), R(1.0 / 74724249600.0), R(3.38968029632258e-13),
      R(8.58606205627784e-15), R(2.17486869855806e-16), R(5.50900282836023e-18)};
  static const real tangent[12] = {
      R(1.0),                R(1.0 / 3),               R(2.0 / 15),
      R(17.0 / 315),         R(62.0 / 2835),           R(1382.0 / 155925),
      R(21844.0 / 6081075),  R(929569.0 / 638512875),  R(6404582.0 / 10854718875.0),
      R(443861162.0 / 1856156927625.0), R(9.6915379569294503e-05), R(3.9278323883316834e-05)};
  const real s = dot(b->phi, b->phi);
  if (s < R(1.0)) {
    b->t = R(0.25) * series(tangent, 12, s / R(16.0), &b->t_slope);
    b->t_slope /= R(64.0);
    b->c = series(cot, 11, s, &b->c_slope);
  } else {
    const real h = R(0.5) * SQRT(s), cotangent = cosine / sine, quarter = sine / (R(1.0) + cosine);
    b->t = quarter / (R(2.0) * h);
    b->c = (R(1.0) - h * cotangent) / s;
    b->t_slope = ((R(1.0) + quarter * quarter) * R(0.25) - b->t) / (R(2.0) * s);
    b->c_slope = ((h * (R(1.0) + cotangent * cotangent) - cotangent) / (R(8.0) * h) - b->c) / s;
  }
}

/* a ball from x to y: its middle into q, its velocity into v, and the derivatives A, D of both by the ends (13.1) */
static void ball_midpoint(@n@_ball *b, const real *x, const real *y, real dt, real *q, real *v) {
  const real sign = x[0] * y[0] + dot(x + 1, y + 1) < 0 ? R(-1.0) : R(1.0);
  real by[4], square[9], skew[9] = {0};
  int i;
  turn_between(x, y, by, b->phi);
  for (i = 0; i < 4; ++i) q[i] = x[i] + sign * y[i];
  normalize(q);
  for (i = 0; i < 3; ++i) v[i] = b->phi[i] / dt;
  b->cosine = by[0];
  turn_factors(b, by[0], SQRT(dot(by + 1, by + 1)));
  add_skew(b->phi, R(1.0), skew);
  times(skew, skew, square);
  for (i = 0; i < 9; ++i) {
    const real one = i % 4 == 0 ? R(1.0) : 0;
    b->a[i] = R(0.5) * (one + b->t * skew[i]);
    b->d[i] = one + R(0.5) * skew[i] + b->c * square[i];
  }
}

/* dt (L_psi + F) of a ball, along body axes, from alpha = dt (L_f + F) and beta = L_f' of its three hinges */
static void ball_push(const @n@_ball *b, const real *alpha, const real *beta, real *out) {
  out[0] = alpha[0];
  out[1] = alpha[1] - b->phi[0] * beta[2];
  out[2] = alpha[2] - (b->phi[1] * beta[0] - b->phi[0] * beta[1]);
}

/* exp(-phi) v: components along axes that have turned by phi, by two half turns with h = t phi, |h| = tan(|phi|/4) */
static void turned_back(const @n@_ball *b, const real *v, real *out) {
  real h[3], s;
  int i, half;
  for (i = 0; i < 3; ++i) {
    h[i] = b->t * b->phi[i];
    out[i] = v[i];
  }
  s = R(2.0) / (R(1.0) + dot(h, h));
  for (half = 0; half < 2; ++half) {
    real once[3], twice[3];
    cross3(h, out, once);
    cross3(h, once, twice);
    for (i = 0; i < 3; ++i) out[i] -= s * (once[i] - twice[i]);
  }
}

//@ end
/* ---- configurations ---------------------------------------------------------------------------------------------- */

/* q moved by share dv, the dynamic ones; out may be q */
static void move(const real *q, const real *dv, real share, real *out) {
  int i;
//@ if balls
  for (i = 0; i < ND; ++i)
    if (number_q[i] >= 0) out[number_q[i]] = q[number_q[i]] + share * dv[i];
  for (i = 0; i < NBD; ++i) turn_by(q + ball_q[i], dv + ball_v[i], share, out + ball_q[i]);
//@ else
  for (i = 0; i < ND; ++i) out[i] = q[i] + share * dv[i];
//@ end
}

/* dv by which q0 must be moved to become q1, the dynamic ones */
static void way(const real *q0, const real *q1, real *dv) {
  int i;
//@ if balls
  for (i = 0; i < ND; ++i)
    if (number_q[i] >= 0) dv[i] = q1[number_q[i]] - q0[number_q[i]];
  for (i = 0; i < NBD; ++i) {
    real by[4];
    turn_between(q0 + ball_q[i], q1 + ball_q[i], by, dv + ball_v[i]);
  }
//@ else
  for (i = 0; i < ND; ++i) dv[i] = q1[i] - q0[i];
//@ end
}

//@ if led
/* prescribed coordinates after a step: numbers as they are given, balls turned with the angular velocity that is (13.6) */
static void lead(const real *q, const real *rho, real dt, real *out) {
  int i;
  for (i = 0; i < NK; ++i)
    if (number_q[ND + i] >= 0) out[number_q[ND + i]] = rho[i];
  for (i = NBD; i < NB; ++i) turn_by(q + ball_q[i], rho + ball_v[i] - ND, dt, out + ball_q[i]);
}

//@ end
/* what rounding of the coordinate of component i is relative to */
static real reach(const real *q, int i) {
//@ if balls
  return number_q[i] < 0 ? R(1.0) : FABS(q[number_q[i]]);
//@ else
  return FABS(q[i]);
//@ end
}

/* ---- kinematics [2] ---------------------------------------------------------------------------------------------- */

/* the world about the reference point, which follows the base at q_k and is constant during a step [15.1] */
static void place_world(mech *m, const real *q) {
  pose *world = &m->mid[0];
  real reference[DP];
  int i;
  for (i = 1; i <= NJ; ++i) m->mid[i].angle = LARGEST; /* no cosine and sine yet */
//@ if seen
  for (i = 1; i <= NJ; ++i) m->end[i].angle = LARGEST;
//@ end
  for (i = 0; i < DP; ++i) reference[i] = reference_start[i];
//@ if reference_slides
  for (i = 0; i < @reference_slides@; ++i) {
    int k;
    for (k = 0; k < DP; ++k) reference[k] += reference_axis[i][k] * q[reference_q[i]];
  }
//@ else
  (void)q;
//@ end
  for (i = 0; i < @rotation_size@; ++i) world->rotation[i] = world_rotation[i];
  rotate(world->rotation, reference, world->position);
  for (i = 0; i < DP; ++i) world->position[i] = -world->position[i];
}

/* cosine and sine of x, where it can be by turning those of an angle nearby that the pose still holds: steps of Newton's
 * method are small */
static inline void turn_pose(pose *here, real x) {
  const real by = x - here->angle, s = by * by;
  if (s <= R(@small_square@)) {
    const real cosine = here->cosine;
    const real sine = by - by * s * (R(1.0 / 6) - s * (R(1.0 / 120) - s * (R(1.0 / 5040) - s * R(1.0 / 362880))));
    const real less = s * (R(-0.5) + s * (R(1.0 / 24) - s * (R(1.0 / 720) - s * R(1.0 / 40320))));
    here->cosine += cosine * less - here->sine * sine;
    here->sine += here->sine * less + cosine * sine;
  } else {
    here->cosine = COS(x);
    here->sine = SIN(x);
  }
  here->angle = x;
}

//@ if planar
static inline void place_joint(int j, const real *q, pose *poses) {
  const pose *up = &poses[joint_parent[j]];
  pose *here = &poses[j + 1];
  const real x = q[JOINT_Q(j)];
  rotate(up->rotation, joint_offset[j], here->position);
  point_add(here->position, up->position);
  if (JOINT_TURNS(j)) {
    real sine, cosine;
    turn_pose(here, x);
    cosine = here->cosine;
    sine = JOINT_SIGN(j) * here->sine;
    here->rotation[0] = up->rotation[0] * cosine - up->rotation[1] * sine;
    here->rotation[1] = up->rotation[1] * cosine + up->rotation[0] * sine;
    here->axis[0] = JOINT_SIGN(j);
  } else {
    rotate(up->rotation, joint_slide[j], here->axis);
    here->rotation[0] = up->rotation[0];
    here->rotation[1] = up->rotation[1];
    here->position[0] += x * here->axis[0];
    here->position[1] += x * here->axis[1];
  }
}

/* twist of a joint per unit of velocity: (a; p x a) of a hinge, (0; a) of a slider */
static inline void joint_twist(int j, const pose *here, real *twist) {
  (void)j;
  if (JOINT_TURNS(j)) {
    twist[0] = here->axis[0];
    twist[1] = here->position[1] * here->axis[0];
    twist[2] = -here->position[0] * here->axis[0];
  } else {
    twist[0] = 0;
    twist[1] = here->axis[0];
    twist[2] = here->axis[1];
  }
}
//@ else
static inline void place_joint(int j, const real *q, pose *poses) {
  const pose *up = &poses[joint_parent[j]];
  pose *here = &poses[j + 1];
  const int k = joint_axis[j];
  const real x = q[JOINT_Q(j)];
  int i;
  rotate(up->rotation, joint_offset[j], here->position);
  for (i = 0; i < 3; ++i) here->position[i] += up->position[i];
//@ if turned
  if (joint_turned[j]) {
    for (i = 0; i < 3; ++i) rotate(up->rotation, &joint_rotation[joint_turned[j] - 1][3 * i], &here->rotation[3 * i]);
  } else
//@ end
  {
    for (i = 0; i < 9; ++i) here->rotation[i] = up->rotation[i];
  }
//@ if balls
  if (joint_ball[j] == 1) { /* the first of the three joints of a ball: it turns, they have the axes that it leaves */
    const real *b = q + JOINT_Q(j);
    real by[9], turned[9];
    for (i = 0; i < 3; ++i) { /* column i */
      const int u = (i + 1) % 3, v = (i + 2) % 3;
      by[4 * i] = R(1.0) - R(2.0) * (b[1 + u] * b[1 + u] + b[1 + v] * b[1 + v]);
      by[3 * i + u] = R(2.0) * (b[1 + i] * b[1 + u] + b[0] * b[1 + v]);
      by[3 * i + v] = R(2.0) * (b[1 + i] * b[1 + v] - b[0] * b[1 + u]);
    }
    for (i = 0; i < 3; ++i) rotate(here->rotation, &by[3 * i], &turned[3 * i]);
    for (i = 0; i < 9; ++i) here->rotation[i] = turned[i];
  }
//@ end
  for (i = 0; i < 3; ++i) here->axis[i] = here->rotation[3 * k + i];
//@ if balls
  if (joint_ball[j]) return;
//@ end
  if (JOINT_TURNS(j)) {
    real *first = &here->rotation[3 * ((k + 1) % 3)], *second = &here->rotation[3 * ((k + 2) % 3)];
    real sine, cosine;
    turn_pose(here, x);
    cosine = here->cosine;
    sine = here->sine;
    for (i = 0; i < 3; ++i) {
      const real a = first[i], b = second[i];
      first[i] = a * cosine + b * sine;
      second[i] = b * cosine - a * sine;
    }
//@ if pitch
    for (i = 0; i < 3; ++i) here->position[i] += joint_pitch[j] * x * here->axis[i];
//@ end
  } else {
    for (i = 0; i < 3; ++i) here->position[i] += x * here->axis[i];
  }
}

/* twist of a joint per unit of velocity: (a; p x a) of a hinge, (0; a) of a slider */
static inline void joint_twist(int j, const pose *here, real *twist) {
  int i;
  (void)j;
  if (JOINT_TURNS(j)) {
    for (i = 0; i < 3; ++i) twist[i] = here->axis[i];
    cross3(here->position, here->axis, twist + 3);
//@ if pitch
    for (i = 0; i < 3; ++i) twist[3 + i] += joint_pitch[j] * here->axis[i];
//@ end
  } else {
    for (i = 0; i < 3; ++i) {
      twist[i] = 0;
      twist[3 + i] = here->axis[i];
    }
  }
}
//@ end

/* all joints@or_seen@ at q */
static void place_joints(const real *q, pose *poses@seen_argument@) {
  int j;
  for (j = 0; j < NJ; ++j) {
//@ if some_seen
    if (only_seen && !joint_seen[j]) continue;
//@ end
    place_joint(j, q, poses);
  }
}

/* ---- derivatives of L = T - V (uniform gravity) [3, 5] ------------------------------------------------------------- */

/* L_q and L_v at the midpoint. Reads mid, v; writes twist S, drift B, velocity V, momentum H, moment c, Lq, Lv. */
static void gradient(mech *m) {
  int j, n, i;
  for (i = 0; i < DM; ++i) m->velocity[0][i] = 0;
  for (j = NM; j < NJ; ++j) m->lq[JOINT_V(j)] = m->lv[JOINT_V(j)] = 0;
  /* outward: V_j = V_up + S_j v_j,  B_j = V_up x S_j */
  for (j = 0; j < NM; ++j) {
    const real *up = m->velocity[joint_parent[j]];
    joint_twist(j, &m->mid[j + 1], m->twist[j]);
    motion_cross(up, m->twist[j], m->drift[j]);
    motion_line(m->v[JOINT_V(j)], m->twist[j], up, m->velocity[j + 1]);
  }
  /* momentum of every body about the reference point, and its first moment */
  for (n = 0; n < NN; ++n) {
    const pose *here = &m->mid[BODY_POSE(n)];
    const real *w = m->velocity[BODY_POSE(n)];
    const real mass = body_mass[n];
//@ if planar
    const real *p = here->position;
    real *momentum = m->momentum[n], arm[2], speed[2];
    rotate(here->rotation, body_moment[n], arm);
    speed[0] = w[1] - w[0] * p[1];
    speed[1] = w[2] + w[0] * p[0];
    momentum[1] = mass * speed[0] - w[0] * arm[1];
    momentum[2] = mass * speed[1] + w[0] * arm[0];
    momentum[0] = body_inertia[n][0] * w[0] + arm[0] * speed[1] - arm[1] * speed[0] + p[0] * momentum[2] - p[1] * momentum[1];
    for (i = 0; i < 2; ++i) m->moment[n][i] = arm[i] + mass * p[i];
//@ else
    real *momentum = m->momentum[n], arm[3], speed[3], inner[3], spin[3];
    rotate(here->rotation, body_moment[n], arm);
    cross3(w, here->position, speed);
    for (i = 0; i < 3; ++i) speed[i] += w[3 + i];
    for (i = 0; i < 3; ++i) inner[i] = dot(&here->rotation[3 * i], w);
    spin[0] = body_inertia[n][0] * inner[0] + body_inertia[n][3] * inner[1] + body_inertia[n][4] * inner[2];
    spin[1] = body_inertia[n][3] * inner[0] + body_inertia[n][1] * inner[1] + body_inertia[n][5] * inner[2];
    spin[2] = body_inertia[n][4] * inner[0] + body_inertia[n][5] * inner[1] + body_inertia[n][2] * inner[2];
    rotate(here->rotation, spin, momentum);
    cross3(w, arm, momentum + 3);
    for (i = 0; i < 3; ++i) momentum[3 + i] += mass * speed[i];
    add_cross3(arm, speed, momentum);
    add_cross3(here->position, momentum + 3, momentum);
    for (i = 0; i < 3; ++i) m->moment[n][i] = arm[i] + mass * here->position[i];
//@ end
  }
  /* inward: sums over what a joint carries */
  for (n = NN - 1; n > 0; --n) {
    if (node_parent[n] >= 0) {
      motion_add(m->momentum[node_parent[n]], m->momentum[n]);
      point_add(m->moment[node_parent[n]], m->moment[n]);
    }
  }
  /* T_v = S.H,  T_q = B.H,  -V_q = g.(m v + w x c) */
  for (j = 0; j < NM; ++j) {
    const real *s = m->twist[j], *c = m->moment[JOINT_NODE(j)];
    const real mass = node_mass[JOINT_NODE(j)];
//@ if planar
    const real pull = @gravity_pull@;
//@ else
    const real pull = GRAVITY * (mass * s[5] + s[0] * c[1] - s[1] * c[0]);
//@ end
    m->lv[JOINT_V(j)] = motion_dot(s, m->momentum[JOINT_NODE(j)]);
    m->lq[JOINT_V(j)] = motion_dot(m->drift[j], m->momentum[JOINT_NODE(j)]) + pull;
  }
}

//@ if planar
/* second moments of the bodies about the reference point */
static void own_inertias(mech *m) {
  int n;
  for (n = 0; n < NN; ++n) {
    const pose *here = &m->mid[BODY_POSE(n)];
    real arm[2];
    rotate(here->rotation, body_moment[n], arm);
    m->inertia[n][0] = body_inertia[n][0] + body_mass[n] * dot(here->position, here->position) + R(2.0) * dot(here->position, arm);
  }
}
//@ else
/* second moments of the bodies about the reference point */
static void own_inertias(mech *m) {
  int n, i;
  for (n = 0; n < NN; ++n) {
    const pose *here = &m->mid[BODY_POSE(n)];
    const real *p = here->position, *r = here->rotation, *own = body_inertia[n];
    const real mass = body_mass[n];
    real arm[3], half[3], trace, *out = m->inertia[n];
    rotate(r, body_moment[n], arm);
    for (i = 0; i < 6; ++i) out[i] = 0;
    for (i = 0; i < 3; ++i) { /* R I R', column by column of R I */
      static const signed char place[3][3] = {{0, 3, 4}, {3, 1, 5}, {4, 5, 2}};
      real column[3];
      int k;
      for (k = 0; k < 3; ++k)
        column[k] = r[k] * own[place[i][0]] + r[3 + k] * own[place[i][1]] + r[6 + k] * own[place[i][2]];
      out[0] += column[0] * r[3 * i];
      out[1] += column[1] * r[3 * i + 1];
      out[2] += column[2] * r[3 * i + 2];
      out[3] += column[0] * r[3 * i + 1];
      out[4] += column[0] * r[3 * i + 2];
      out[5] += column[1] * r[3 * i + 2];
    }
    /* from the joint's origin to the reference point */
    for (i = 0; i < 3; ++i) half[i] = R(0.5) * mass * p[i] + arm[i];
    trace = R(2.0) * dot(p, half);
    out[0] += trace - R(2.0) * p[0] * half[0];
    out[1] += trace - R(2.0) * p[1] * half[1];
    out[2] += trace - R(2.0) * p[2] * half[2];
    out[3] -= p[0] * half[1] + p[1] * half[0];
    out[4] -= p[0] * half[2] + p[2] * half[0];
    out[5] -= p[1] * half[2] + p[2] * half[1];
  }
}
//@ end

/* and of the composite bodies */
static void composites(mech *m) {
  int n, i;
  own_inertias(m);
  for (n = NN - 1; n > 0; --n)
    if (node_parent[n] >= 0)
      for (i = 0; i < DI; ++i) m->inertia[node_parent[n]][i] += m->inertia[n][i];
}

/* dt times the second derivatives of Ld, from generators [6]: for a above d (or a = d)
 *   E_ij[a,d] = (a_i B_a + b_i S_a).(a_j G_d + b_j F_d) - a_i a_j V_qq[a,d],   F = I S,  G = I B + S x* H
 * with slots a_1 = (1 - alpha) dt, b_1 = -1, a_2 = alpha dt, b_2 = 1. Writes e12, @and_others@. */
static void second_derivatives(mech *m, real dt@all_argument@) {
  const real a1 = dt * (R(1.0) - ALPHA), a2 = dt * ALPHA;
  int d, i;
  composites(m);
  for (i = 0; i < NV * NV; ++i) m->e12[i] = 0;
//@ if blocks
  if (all) {
    for (i = 0; i < NV * NV; ++i) m->e11[i] = 0;
    for (i = 0; i < NV * NV; ++i) m->e21[i] = 0;
    for (i = 0; i < NV * NV; ++i) m->e22[i] = 0;
  }
//@ end
  for (d = 0; d < NM; ++d) {
    const int n = JOINT_NODE(d), vd = JOINT_V(d);
    real f[DM], g[DM], right1[DM], right2[DM];
    int a;
    motion_less(a1, m->drift[d], m->twist[d], m->left1[d]);
    motion_line(a2, m->drift[d], m->twist[d], m->left2[d]);
    @skip_prescribed@
    inertia_times(node_mass[n], m->moment[n], m->inertia[n], m->twist[d], f);
    inertia_times(node_mass[n], m->moment[n], m->inertia[n], m->drift[d], g);
    add_force_cross(m->twist[d], m->momentum[n], g);
    motion_less(a1, g, f, right1);
    motion_line(a2, g, f, right2);
    for (a = d; a >= 0; a = joint_parent[a] - 1) {
      const int va = JOINT_V(a);
      const real fall = fall_between(m->twist[a], f);
      m->e12[va * NV + vd] = motion_dot(m->left1[a], right2) - a1 * a2 * fall;
      if (a != d) m->e12[vd * NV + va] = motion_dot(m->left2[a], right1) - a1 * a2 * fall;
//@ if blocks
      if (all) {
        m->e11[va * NV + vd] = motion_dot(m->left1[a], right1) - a1 * a1 * fall;
        m->e11[vd * NV + va] = m->e11[va * NV + vd];
        m->e22[va * NV + vd] = motion_dot(m->left2[a], right2) - a2 * a2 * fall;
        m->e22[vd * NV + va] = m->e22[va * NV + vd];
        m->e21[va * NV + vd] = m->e12[vd * NV + va]; /* the transposed of e12 */
        m->e21[vd * NV + va] = m->e12[va * NV + vd];
      }
//@ end
    }
  }
}

//@ if elements
/* ---- elements [8] ------------------------------------------------------------------------------------------------ */
/* An element leaves its value, gradient and Hessian by its local variables in `out`: value, n numbers, n x n numbers. */

//@ end
//@ if sites
static inline void site_position(int site, const pose *poses, real *out) {
  const pose *here = &poses[site_pose[site]];
  rotate(here->rotation, site_offset[site], out);
  point_add(out, here->position);
}

//@ end
//@ if first_sites
/* d = p_a - p_b (or p_a), d_i = its derivatives, axes of the turning joints (zero of sliders) */
static void site_first(mech *m, const element *e, const pose *poses) {
  real a[DP], b[DP] = {0};
  int i, k;
  if (e->again) return; /* as for the element before */
  site_position(e->site_a, poses, a);
  if (e->site_b >= 0) site_position(e->site_b, poses, b);
  for (k = 0; k < DP; ++k) m->gap[k] = a[k] - b[k];
//@ if directions
  m->span = 0;
  for (k = 0; k < DP; ++k) m->span += FABS(a[k]) + FABS(b[k]);
//@ end
  for (i = 0; i < e->n; ++i) {
    const int j = local_joint[e->local + i], on = local_path[e->local + i];
    real *by = m->gap_by[i], *axis = m->turn[i];
    if (j < 0) { /* a variable length */
      for (k = 0; k < DP; ++k) by[k] = 0;
      for (k = 0; k < DA; ++k) axis[k] = 0;
    } else if (JOINT_TURNS(j)) {
      /* w x (p_a - p_j) - w x (p_b - p_j), each where the joint moves the site */
      const real *from = poses[j + 1].position, *head = on & 1 ? a : from, *tail = on & 2 ? b : from;
      real arm[DP];
      for (k = 0; k < DA; ++k) axis[k] = poses[j + 1].axis[k];
      for (k = 0; k < DP; ++k) arm[k] = head[k] - tail[k];
      turn(axis, arm, by);
//@ if pitch
      for (k = 0; k < 3; ++k) by[k] += joint_pitch[j] * R((on & 1) - (on >> 1 & 1)) * axis[k];
//@ end
    } else {
      for (k = 0; k < DP; ++k) by[k] = R((on & 1) - (on >> 1 & 1)) * poses[j + 1].axis[k];
      for (k = 0; k < DA; ++k) axis[k] = 0;
    }
  }
}

//@ end
//@ if second_sites
/* d_ik = w_i x d_k for i above k (or i = k), else zero (8.1) */
static void site_second(const mech *m, const element *e, int i, int k, real *out) {
  int c;
  for (c = 0; c < DP; ++c) out[c] = 0;
  if (ancestor[e->pair + i * e->n + k]) turn(m->turn[i], m->gap_by[k], out);
}
//@ end
//@ if squares

/* half the squared distance: s, s_i = d.d_i, s_ik = d_i.d_k + d.d_ik (8.3) */
static void half_square(mech *m, const element *e, const pose *poses, int second) {
  real *g = m->out + 1, *h = g + e->n;
  int i, k;
  site_first(m, e, poses);
  m->out[0] = R(0.5) * dot(m->gap, m->gap);
  for (i = 0; i < e->n; ++i) g[i] = dot(m->gap, m->gap_by[i]);
  if (!second) return;
  for (i = 0; i < e->n; ++i)
    for (k = i; k < e->n; ++k) {
      real both[DP];
      site_second(m, e, i, k, both);
      h[i * e->n + k] = dot(m->gap_by[i], m->gap_by[k]) + dot(m->gap, both);
      h[k * e->n + i] = h[i * e->n + k];
    }
}
//@ end
//@ if chains

/* derivatives of s become those of a function of s with the derivatives f1, f2 */
static void chain_rule(mech *m, const element *e, int second, real f1, real f2) {
  real *g = m->out + 1, *h = g + e->n;
  int i, k;
  if (second)
    for (i = 0; i < e->n; ++i)
      for (k = 0; k < e->n; ++k) h[i * e->n + k] = f2 * g[i] * g[k] + f1 * h[i * e->n + k];
  for (i = 0; i < e->n; ++i) g[i] *= f1;
}
//@ end
//@ if splines

/* piece of a spline that holds x: coefficients of powers of x - end; piece 0 extends it to the left */
static const real *spline_piece(int spline, real x, real *inside) {
  const int first = spline_first[spline], count = spline_first[spline + 1] - first;
  int i = count - 1;
  while (i > 0 && !(spline_end[first + i] <= x)) --i;
  *inside = x - spline_end[first + i];
  return spline_c[first + i];
}

/* value, first and second derivative */
static void spline_at(int spline, real x, real *y) {
  real d;
  const real *c = spline_piece(spline, x, &d);
  y[0] = c[0] + d * (c[1] + d * (c[2] + d * (c[3] + d * (c[4] + d * c[5]))));
  y[1] = c[1] + d * (R(2.0) * c[2] + d * (R(3.0) * c[3] + d * (R(4.0) * c[4] + d * (R(5.0) * c[5]))));
  y[2] = R(2.0) * c[2] + d * (R(6.0) * c[3] + d * (R(12.0) * c[4] + d * (R(20.0) * c[5])));
}
//@ end
//@ if tapes

/* ---- functions of the user's elements ---------------------------------------------------------------------------- */

@tapes@
/* the local variables (q, and for forces v and inputs) one after another */
static void tape_arguments(mech *m, const element *e, const real *q, int moving) {
  int i;
  for (i = 0; i < e->n; ++i) m->argument[i] = q[local_q[e->local + i]];
  if (!moving) return;
  for (i = 0; i < e->n; ++i) m->argument[e->n + i] = m->v[local_v[e->local + i]];
//@ if element_inputs
  for (i = 0; i < e->inputs; ++i) m->argument[2 * e->n + i] = m->u[element_input[e->input + i]];
//@ end
}
//@ end
//@ if torsion

/* z = C + i S of two pairs of vectors: C = u_a.u_b + w_a.w_b, S = w_a.u_b - u_a.w_b (8.8) */
static void seen(const real *a, const real *b, real *z) {
  z[0] = dot(a, b) + dot(a + 3, b + 3);
  z[1] = dot(a + 3, b) - dot(a, b + 3);
}

static void turned_pair(const real *axis, const real *pair, real *out) {
  cross3(axis, pair, out);
  cross3(axis, pair + 3, out + 3);
}

/* imaginary part of x/z with z and 1/|z|^2, real part into *re */
static real divided(const real *x, const real *z, real size, real *re) {
  *re = (x[0] * z[0] + x[1] * z[1]) * size;
  return (x[1] * z[0] - x[0] * z[1]) * size;
}

/* k/2 phi^2, phi = arg z - rest: k phi phi_i, phi_i = Im(z_i/z), phi_ik = Im(z_ik/z - z_i z_k/z^2) */
static void torsion_spring(mech *m, const element *e, const pose *poses, int second) {
  const real *x = &number[e->number];
  real pair[2][6], z[2], size, phi, *g = m->out + 1, *h = g + e->n;
  int i, k, side;
  for (side = 0; side < 2; ++side) {
    const int site = side ? e->site_b : e->site_a;
    const real *r = poses[site_pose[site]].rotation;
    real inner[3];
    rotate(&site_rotation[9 * site], x, inner);
    rotate(r, inner, pair[side]);
    rotate(&site_rotation[9 * site], x + 3, inner);
    rotate(r, inner, pair[side] + 3);
  }
  seen(pair[0], pair[1], z);
  size = R(1.0) / (z[0] * z[0] + z[1] * z[1]);
  phi = ATAN2(x[7] * z[1] - x[8] * z[0], x[7] * z[0] + x[8] * z[1]);
  m->out[0] = R(0.5) * x[6] * phi * phi;
  for (i = 0; i < e->n; ++i) {
    const int j = local_joint[e->local + i];
    const real sign = local_path[e->local + i] & 1 ? R(-1.0) : R(1.0);
    real moved[6], zi[2];
    for (k = 0; k < 3; ++k) m->turn[i][k] = sign * poses[j + 1].axis[k];
    turned_pair(m->turn[i], pair[1], moved);
    seen(pair[0], moved, zi);
    g[i] = divided(zi, z, size, &m->gap_by[i][0]);
  }
  if (second)
    for (i = 0; i < e->n; ++i) {
      real back[3], left[6];
      for (k = 0; k < 3; ++k) back[k] = -m->turn[i][k];
      turned_pair(back, pair[0], left);
      for (k = i; k < e->n; ++k) {
        real moved[6], zik[2], re, im;
        turned_pair(m->turn[k], pair[1], moved);
        seen(left, moved, zik);
        im = divided(zik, z, size, &re) - (m->gap_by[i][0] * g[k] + g[i] * m->gap_by[k][0]);
        h[i * e->n + k] = x[6] * (g[i] * g[k] + phi * im);
        h[k * e->n + i] = h[i * e->n + k];
      }
    }
  for (i = 0; i < e->n; ++i) g[i] *= x[6] * phi;
}
//@ end
//@ if potentials

/* V of an element with its derivatives */
static void potential(mech *m, const element *e, const real *q, const pose *poses, int second) {
//@ if numbers
  const real *x = &number[e->number];
  (void)x;
//@ end
  real *g = m->out + 1, *h = g + e->n;
  (void)h;
  (void)g;
  (void)q;
  (void)poses;
  (void)second;
  switch (e->kind) {
//@ if linear_spring
    case LINEAR_SPRING: /* k/2 (x - x0)^2, x = sqrt(2 s) */
      half_square(m, e, poses, second);
      if (x[1] == 0) {
        chain_rule(m, e, second, x[0], 0);
      } else {
        const real inverse = R(1.0) / SQRT(R(2.0) * m->out[0]);
        chain_rule(m, e, second, x[0] - x[0] * x[1] * inverse, x[0] * x[1] * inverse * inverse * inverse);
      }
      break;
//@ end
//@ if point_gravity
    case POINT_GRAVITY: { /* -k/x */
      real inverse;
      half_square(m, e, poses, second);
      inverse = R(1.0) / SQRT(R(2.0) * m->out[0]);
      chain_rule(m, e, second, x[0] * inverse * inverse * inverse,
                 R(-3.0) * x[0] * inverse * inverse * inverse * inverse * inverse);
      break;
    }
//@ end
//@ if site_field
    case SITE_FIELD: { /* -f.p */
      real f[DP];
      int i, k;
      rotate(poses[0].rotation, x, f);
      site_first(m, e, poses);
      for (i = 0; i < e->n; ++i) g[i] = -dot(f, m->gap_by[i]);
      if (second)
        for (i = 0; i < e->n; ++i)
          for (k = i; k < e->n; ++k) {
            real both[DP];
            site_second(m, e, i, k, both);
            h[i * e->n + k] = -dot(f, both);
            h[k * e->n + i] = h[i * e->n + k];
          }
      break;
    }
//@ end
//@ if config_spring
    case CONFIG_SPRING: /* k/2 (q - q0)^2 */
      g[0] = x[0] * (q[local_q[e->local]] - x[1]);
      h[0] = x[0];
      break;
//@ end
//@ if spline_spring
    case SPLINE_SPRING: { /* force spline(a q + b) */
      real y[3];
      spline_at(e->spline, x[0] * q[local_q[e->local]] + x[1], y);
      g[0] = -y[0];
      h[0] = -x[0] * y[1];
      break;
    }
//@ end
//@ if torsion
    case TORSION_SPRING: torsion_spring(m, e, poses, second); break;
//@ end
//@ if tape_potential
    case TAPE_POTENTIAL:
      tape_arguments(m, e, q, 0);
      run_tape(second ? e->tape_first : e->tape, m->argument, m->out);
      break;
//@ end
    default: break;
  }
}
//@ end
//@ if wrench

/* wrench about the reference point of components (force, torque) in the element's axes: 0 body, 1 mixed, 2 world */
static void wrench_at(const element *e, const pose *poses, const real *parts, real *out) {
  real point[DP];
  int i;
//@ if planar
  real flat[3];
  for (i = 0; i < 3; ++i) {
    int c;
    flat[i] = 0;
    for (c = 0; c < 6; ++c) flat[i] += wrench_map[3 * e->columns + 6 * i + c] * parts[c];
  }
  site_position(e->site_a, poses, point);
  out[0] = flat[0];
  rotate(poses[e->axes == 0 ? site_pose[e->site_a] : 0].rotation, flat + 1, out + 1);
  if (e->axes == 2)
    for (i = 0; i < 2; ++i) point[i] = poses[0].position[i];
  out[0] += point[0] * out[2] - point[1] * out[1];
//@ else
  site_position(e->site_a, poses, point);
  if (e->axes == 0) {
    real force[3], torque[3];
    rotate(&site_rotation[9 * e->site_a], parts, force);
    rotate(&site_rotation[9 * e->site_a], parts + 3, torque);
    rotate(poses[site_pose[e->site_a]].rotation, force, out + 3);
    rotate(poses[site_pose[e->site_a]].rotation, torque, out);
  } else {
    rotate(poses[0].rotation, parts, out + 3);
    rotate(poses[0].rotation, parts + 3, out);
    if (e->axes == 2)
      for (i = 0; i < 3; ++i) point[i] = poses[0].position[i];
  }
  add_cross3(point, out + 3, out);
//@ end
}

/* Q_i = S_i.W and its derivatives (8.4, 8.6, 8.7) */
static void wrench(mech *m, const element *e, const pose *poses, int second) {
  const int n = e->n;
  real *f = m->out, *fq = f + n, *fv = fq + n * n, *fu = fv + n * n;
  real parts[6], w[DM];
//@ if planar
//@ else
  real free_torque[3] = {0, 0, 0};
//@ end
  int i, k, c;
  for (c = 0; c < 6; ++c) {
    const int column = wrench_column[e->columns + c];
    parts[c] = number[e->number + c];
    if (column >= 0) parts[c] *= @wrench_input@;
  }
  wrench_at(e, poses, parts, w);
  for (i = 0; i < n; ++i) {
    joint_twist(local_joint[e->local + i], &poses[local_joint[e->local + i] + 1], m->local_twist[i]);
    f[i] = motion_dot(m->local_twist[i], w);
  }
  if (!second) return;
  if (e->axes == 1) {
    site_first(m, e, poses);
//@ if planar
//@ else
    rotate(poses[0].rotation, parts + 3, free_torque);
//@ end
  }
  for (i = 0; i < n; ++i)
    for (k = 0; k < n; ++k) {
      real x = 0, both[DM];
      if (e->axes == 0 && i < k) {
        motion_cross(m->local_twist[i], m->local_twist[k], both);
        x = motion_dot(both, w);
      } else if (e->axes == 1) {
        turn(m->turn[i < k ? i : k], m->gap_by[i < k ? k : i], both);
        x = dot(w + DA, both);
//@ if planar
//@ else
        if (k < i) {
          cross3(m->turn[k], m->turn[i], both);
          x += dot(free_torque, both);
        }
//@ end
      } else if (e->axes == 2 && k < i) {
        motion_cross(m->local_twist[k], m->local_twist[i], both);
        x = motion_dot(both, w);
      }
      fq[i * n + k] = x;
      fv[i * n + k] = 0;
    }
  for (i = 0; i < n * e->inputs; ++i) fu[i] = 0;
  for (c = 0; c < 6; ++c) {
    const int column = wrench_column[e->columns + c];
    if (column < 0) continue;
    for (k = 0; k < 6; ++k) parts[k] = k == c ? number[e->number + c] : 0;
    wrench_at(e, poses, parts, w);
    for (i = 0; i < n; ++i) fu[i * e->inputs + column] += motion_dot(m->local_twist[i], w);
  }
}
//@ end
//@ if linear_damper

/* F_i = -c x' x_i of a distance x */
static void linear_damper(mech *m, const element *e, const pose *poses, int second) {
  const int n = e->n;
  const real c = number[e->number];
  real *f = m->out, *fq = f + n, *fv = fq + n * n, *g = m->argument, *h = g + n, rate = 0;
  int i, k;
  half_square(m, e, poses, second);
  {
    const real inverse = R(1.0) / SQRT(R(2.0) * m->out[0]);
    chain_rule(m, e, second, inverse, -inverse * inverse * inverse);
  }
  for (i = 0; i < n + (second ? n * n : 0); ++i) g[i] = m->out[1 + i]; /* room for the results */
  for (i = 0; i < n; ++i) rate += g[i] * m->v[local_v[e->local + i]];
  for (i = 0; i < n; ++i) f[i] = -c * rate * g[i];
  if (!second) return;
  for (k = 0; k < n; ++k) {
    real along = 0;
    for (i = 0; i < n; ++i) along += h[k * n + i] * m->v[local_v[e->local + i]];
    for (i = 0; i < n; ++i) {
      fq[i * n + k] = -c * (h[i * n + k] * rate + g[i] * along);
      fv[i * n + k] = -c * g[i] * g[k];
    }
  }
}
//@ end
//@ if forces

/* F of an element (rows), and with `second` F_q, F_v (rows x n), F_u (rows x inputs), one after another in `out` */
static void force(mech *m, const element *e, const real *q, const pose *poses, int second) {
  (void)q;
  (void)poses;
  switch (e->kind) {
//@ if wrench
    case WRENCH: wrench(m, e, poses, second); break;
//@ end
//@ if linear_damper
    case LINEAR_DAMPER: linear_damper(m, e, poses, second); break;
//@ end
//@ if tape_force
    case TAPE_FORCE:
      tape_arguments(m, e, q, 1);
      run_tape(second ? e->tape_first : e->tape, m->argument, m->out);
      break;
//@ end
    default: break;
  }
}
//@ end
//@ if nc

//@ if turned_directions
/* n.d of the vector d between two sites and a vector n of the joint of site c, with n_i in axis_by */
static void direction(mech *m, const element *e, const pose *poses, int second, real *size) {
  real *g = m->out + 1, *h = g + e->n, axis[DP];
  int i, k;
  rotate(poses[site_pose[e->site_c]].rotation, &number[e->number], axis);
  site_first(m, e, poses);
  *size = larger(m->span, number[e->number + DP]); /* a loop may end where all vectors begin */
  m->out[0] = dot(axis, m->gap);
  for (i = 0; i < e->n; ++i) {
    real *by = m->axis_by[i];
    for (k = 0; k < DP; ++k) by[k] = 0;
    if (local_path[e->local + i] & 4) turn(m->turn[i], axis, by);
    g[i] = dot(by, m->gap) + dot(axis, m->gap_by[i]);
  }
  if (second)
    for (i = 0; i < e->n; ++i)
      for (k = i; k < e->n; ++k) {
        real both[DP], turned[DP] = {0};
        site_second(m, e, i, k, both);
        if (ancestor[e->pair + i * e->n + k] && (local_path[e->local + k] & 4))
          turn(m->turn[i], m->axis_by[k], turned);
        h[i * e->n + k] = dot(turned, m->gap) + dot(m->axis_by[i], m->gap_by[k]) + dot(m->axis_by[k], m->gap_by[i]) +
                          dot(axis, both);
        h[k * e->n + i] = h[i * e->n + k];
      }
}

//@ end
//@ if fixed_directions
/* n.d of the vector d between two sites and a vector n that does not move: returns it, n.d_i into a row of the Jacobian */
static inline real fixed_direction(mech *m, const element *e, const pose *poses, real *row, real *size) {
  real axis[DP];
  int i;
  rotate(poses[site_pose[e->site_c]].rotation, &number[e->number], axis);
  site_first(m, e, poses);
  *size = larger(m->span, number[e->number + DP]); /* a loop may end where all vectors begin */
  for (i = 0; i < e->n; ++i) row[local_v[e->local + i]] @plus_if_repeats@= dot(axis, m->gap_by[i]);
  return dot(axis, m->gap);
}

//@ if linearize
/* matrix += sum of weight_c n_c.d_ik, d_ik = w_i x d_k for i above k (8.1), of a constraint and those after it between
 * the same sites; returns how many these are */
static int add_bent_directions(mech *m, int first, int end, const pose *poses, const real *weight, real *matrix) {
  const element *e = &constraints[first];
  real axis[DP], pull[DP] = {0}, both[DP];
  int c = first, i, k;
  do {
    rotate(poses[site_pose[constraints[c].site_c]].rotation, &number[constraints[c].number], axis);
    for (k = 0; k < DP; ++k) pull[k] += weight[c] * axis[k];
    ++c;
  } while (c < end && constraints[c].again);
  site_first(m, e, poses);
  for (i = 0; i < e->n; ++i)
    for (k = i; k < e->n; ++k) {
      const int a = local_v[e->local + i], b = local_v[e->local + k];
      real bent;
      if (!ancestor[e->pair + i * e->n + k]) continue;
      turn(m->turn[i], m->gap_by[k], both);
      bent = dot(pull, both);
      matrix[a * NV + b] += bent;
      if (k != i) matrix[b * NV + a] += bent;
    }
  return c - first;
}

//@ end
//@ end
//@ if height
/* N.(p_a - p_b) - rho s of a disk or sphere on a plane with the normal N: s = sqrt(1 - (N.n)^2) with the axis n of a
 * disk, 1 of a sphere (n = 0) [19.2] */
static void height(mech *m, const element *e, const pose *poses, int second, real *size) {
  const real *x = &number[e->number], rho = x[6];
  const int count = e->n;
  real *g = m->out + 1, *h = g + count, normal[3], spin[3], c, s, s1, s2;
  int i, k;
  direction(m, e, poses, second, size);
  *size += rho;
  if (x[3] == 0 && x[4] == 0 && x[5] == 0) {
    m->out[0] -= rho;
    return;
  }
  rotate(poses[site_pose[e->site_c]].rotation, x, normal);
  rotate(poses[site_pose[e->site_a]].rotation, x + 3, spin);
  c = dot(normal, spin);
  s = SQRT(R(1.0) - c * c);
  s1 = -c / s;
  s2 = R(-1.0) / (s * s * s);
  for (i = 0; i < count; ++i) { /* n_i, and (N.n)_i */
    for (k = 0; k < 3; ++k) m->spin_by[i][k] = 0;
    if (local_path[e->local + i] & 1) turn(m->turn[i], spin, m->spin_by[i]);
    m->tilt_by[i] = dot(m->axis_by[i], spin) + dot(normal, m->spin_by[i]);
  }
  if (second)
    for (i = 0; i < count; ++i)
      for (k = i; k < count; ++k) {
        real both = dot(m->axis_by[i], m->spin_by[k]) + dot(m->axis_by[k], m->spin_by[i]), turned[3];
        if (ancestor[e->pair + i * count + k]) {
          turn(m->turn[i], m->axis_by[k], turned);
          if (local_path[e->local + k] & 4) both += dot(turned, spin);
          turn(m->turn[i], m->spin_by[k], turned);
          if (local_path[e->local + k] & 1) both += dot(normal, turned);
        }
        h[i * count + k] -= rho * (s2 * m->tilt_by[i] * m->tilt_by[k] + s1 * both);
        h[k * count + i] = h[i * count + k];
      }
  for (i = 0; i < count; ++i) g[i] -= rho * s1 * m->tilt_by[i];
  m->out[0] -= rho * s;
}

//@ end
//@ if slip
/* velocity of a point under a joint per unit of its own velocity */
static void point_velocity(int j, const pose *here, const real *point, real *out) {
  int k;
  (void)j;
  if (JOINT_TURNS(j)) {
    real arm[3];
    for (k = 0; k < 3; ++k) arm[k] = point[k] - here->position[k];
    turn(here->axis, arm, out);
//@ if pitch
    for (k = 0; k < 3; ++k) out[k] += joint_pitch[j] * here->axis[k];
//@ end
  } else {
    for (k = 0; k < 3; ++k) out[k] = here->axis[k];
  }
}

/* Velocity with which the point X of body a slides on body b along t: t.(v_a(X) - v_b(X)) (19.3). X = p_a + r, r the
 * lowest point of a disk (axis n) or sphere (n = 0) of radius rho on the plane with the normal N, none for a blade
 * (rho = 0). Numbers: t, N, n, rho. Leaves b = 0, a, db/dq = 0, da/dq in out. */
static void slip(mech *m, const element *e, const pose *poses, int second) {
  const real *x = &number[e->number], rho = x[9];
  const int n = e->n, disk = x[6] != 0 || x[7] != 0 || x[8] != 0;
  real *a = m->out + 1, *by_q = a + n, *slope = by_q + n;
  real t[3], normal[3], spin[3] = {0}, along[3] = {0}, centre[3], point[3], tilt = 0, over = 0;
  int i, k, c;
  site_position(e->site_a, poses, centre);
  rotate(poses[site_pose[e->site_c]].rotation, x, t);
  rotate(poses[site_pose[e->site_b]].rotation, x + 3, normal);
  for (c = 0; c < 3; ++c) point[c] = centre[c];
  if (disk) { /* m = N - (N.n) n, r = -rho m/|m| */
    rotate(poses[site_pose[e->site_a]].rotation, x + 6, spin);
    tilt = dot(normal, spin);
    for (c = 0; c < 3; ++c) along[c] = normal[c] - tilt * spin[c];
    over = R(1.0) / SQRT(dot(along, along));
    for (c = 0; c < 3; ++c) point[c] -= rho * over * along[c];
  } else {
    for (c = 0; c < 3; ++c) point[c] -= rho * normal[c];
  }
  m->out[0] = 0;
  for (i = 0; i < n; ++i) {
    const int j = local_joint[e->local + i], on = local_path[e->local + i];
    for (c = 0; c < 3; ++c) m->turn[i][c] = JOINT_TURNS(j) ? poses[j + 1].axis[c] : 0;
    point_velocity(j, &poses[j + 1], point, m->gap_by[i]);
    a[i] = R((on & 1) - (on >> 1 & 1)) * dot(t, m->gap_by[i]);
    by_q[i] = 0;
  }
  if (!second) return;
  for (k = 0; k < n; ++k) { /* how X moves, into axis_by: with the body, and on it */
    const int j = local_joint[e->local + k], on = local_path[e->local + k];
    real *moved = m->axis_by[k], by_normal[3] = {0}, by_spin[3] = {0};
    for (c = 0; c < 3; ++c) moved[c] = 0;
    if (on & 1) point_velocity(j, &poses[j + 1], centre, moved);
    if (on & 2) turn(m->turn[k], normal, by_normal);
    if (disk) {
      real change[3], with;
      if (on & 1) turn(m->turn[k], spin, by_spin);
      with = dot(by_normal, spin) + dot(normal, by_spin);
      for (c = 0; c < 3; ++c) change[c] = by_normal[c] - with * spin[c] - tilt * by_spin[c];
      with = dot(along, change) * over * over;
      for (c = 0; c < 3; ++c) moved[c] -= rho * over * (change[c] - with * along[c]);
    } else {
      for (c = 0; c < 3; ++c) moved[c] -= rho * by_normal[c];
    }
  }
  for (i = 0; i < n; ++i) {
    const int j = local_joint[e->local + i], on = local_path[e->local + i];
    const pose *here = &poses[j + 1];
    const real sign = R((on & 1) - (on >> 1 & 1));
    for (k = 0; k < n; ++k) {
      real by[3], turned[3], part[3], arm[3];
      turn(m->turn[i], m->axis_by[k], by);
      if (k != i && ancestor[e->pair + k * n + i]) { /* k moves the joint of i */
        turn(m->turn[k], here->axis, turned);
        if (JOINT_TURNS(j)) {
          real carried[3];
          for (c = 0; c < 3; ++c) arm[c] = point[c] - here->position[c];
          turn(turned, arm, part);
          point_velocity(local_joint[e->local + k], &poses[local_joint[e->local + k] + 1], here->position, carried);
          for (c = 0; c < 3; ++c) by[c] += part[c];
          turn(here->axis, carried, part);
          for (c = 0; c < 3; ++c) by[c] -= part[c];
//@ if pitch
          for (c = 0; c < 3; ++c) by[c] += joint_pitch[j] * turned[c];
//@ end
        } else {
          for (c = 0; c < 3; ++c) by[c] += turned[c];
        }
      }
      slope[i * n + k] = sign * dot(t, by);
      if (local_path[e->local + k] & 4) {
        turn(m->turn[k], t, turned);
        slope[i * n + k] += sign * dot(turned, m->gap_by[i]);
      }
    }
  }
}

//@ end
//@ if nvc
/* b, a of a constraint a(q) v + b(q) = 0, and with `second` db/dq, da/dq, one after another in `out` */
static void velocity_constraint(mech *m, const element *e, const real *q, const pose *poses, int second) {
  (void)q;
  (void)poses;
  switch (e->kind) {
//@ if slip
    case SLIP: slip(m, e, poses, second); break;
//@ end
//@ if tape_velocity
    case TAPE_VELOCITY:
      tape_arguments(m, e, q, 0);
      run_tape(second ? e->tape_first : e->tape, m->argument, m->out);
      break;
//@ end
    default: break;
  }
}

//@ end
//@ if derived
/* h of a constraint with its derivatives; *size: the magnitude against which |h| is judged */
static void constraint(mech *m, const element *e, const real *q, const pose *poses, int second, real *size) {
//@ if numbers
  const real *x = &number[e->number];
  (void)x;
//@ end
  real *g = m->out + 1, *h = g + e->n;
  (void)q;
  (void)poses;
  (void)second;
  (void)h;
  switch (e->kind) {
//@ if distance
    case DISTANCE: { /* |d|^2 - L^2 */
      real length = x[0];
      int i;
      half_square(m, e, poses, second);
      m->out[0] *= R(2.0);
      for (i = 0; i < e->n + (second ? e->n * e->n : 0); ++i) g[i] *= R(2.0);
      if (e->length >= 0) {
        length = q[local_q[e->local + e->length]];
        g[e->length] = R(-2.0) * length;
        if (second) h[e->length * e->n + e->length] = R(-2.0);
      }
      *size = m->out[0] + length * length;
      m->out[0] -= length * length;
      break;
    }
//@ end
//@ if turned_directions
//@ if direction
    case DIRECTION: direction(m, e, poses, second, size); break; /* n.d, n fixed in the joint of site c */
//@ end
//@ end
//@ if height
    case HEIGHT: height(m, e, poses, second, size); break;
//@ end
//@ if linear_relation
    case LINEAR_RELATION: { /* sum of c_i q_i - offset */
      int i;
      *size = FABS(x[0]);
      m->out[0] = -x[0];
      for (i = 0; i < e->n; ++i) {
        g[i] = x[1 + i];
        m->out[0] += g[i] * q[local_q[e->local + i]];
        *size += FABS(g[i] * q[local_q[e->local + i]]);
      }
      if (second)
        for (i = 0; i < e->n * e->n; ++i) h[i] = 0;
      break;
    }
//@ end
//@ if cam
    case CAM: { /* follower - profile(driver) */
      real y[3];
      spline_at(e->spline, q[local_q[e->local]], y);
      m->out[0] = q[local_q[e->local + 1]] - y[0];
      g[0] = -y[1];
      g[1] = R(1.0);
      if (second) {
        h[0] = -y[2];
        h[1] = h[2] = h[3] = 0;
      }
      *size = FABS(y[0]) + FABS(q[local_q[e->local + 1]]);
      break;
    }
//@ end
//@ if tape_constraint
    case TAPE_CONSTRAINT: {
      int i;
      tape_arguments(m, e, q, 0);
      run_tape(second ? e->tape_first : e->tape, m->argument, m->out);
      *size = R(1.0);
      for (i = 0; i < e->n; ++i) *size += FABS(g[i] * q[local_q[e->local + i]]);
      break;
    }
//@ end
    default: break;
  }
}

//@ end
/* poses of the joints that constraints see */
static void constraint_poses(mech *m, const real *q) {
//@ if seen
  m->end[0] = m->mid[0];
  place_joints(q, m->end@only_seen@);
//@ else
  (void)m;
  (void)q;
//@ end
}

//@ if seen
/* cosines and sines of the ends of joints are found from those of the midpoint, half a step away */
static void begin_ends(mech *m) {
  int i;
  for (i = 1; i <= NJ; ++i) {
    m->end[i].angle = m->mid[i].angle;
    m->end[i].cosine = m->mid[i].cosine;
    m->end[i].sine = m->mid[i].sine;
  }
}

//@ end
/* h and Dh at q; returns the largest |h| in units of its tolerance */
static real constraint_rows(mech *m, const real *q, real *jacobian) {
  real error = 0;
//@ if nh
  int c;
  constraint_poses(m, q);
//@ if repeats
  for (c = 0; c < NH * NV; ++c) jacobian[c] = 0;
//@ end
  for (c = 0; c < NH; ++c) {
    const element *e = &constraints[c];
    real size = 0, *row = jacobian + c * NV;
//@ if fixed_directions
//@ if derived
    if (e->kind == DIRECTION) {
      m->h[c] = fixed_direction(m, e, @end@, row, &size);
    } else
//@ else
    m->h[c] = fixed_direction(m, e, @end@, row, &size);
//@ end
//@ end
//@ if derived
    {
      int i;
      constraint(m, e, q, @end@, 0, &size);
      m->h[c] = m->out[0];
      for (i = 0; i < e->n; ++i) row[local_v[e->local + i]] @plus_if_repeats@= m->out[1 + i];
    }
//@ end
    error = worse(error, FABS(m->h[c]) / (H_TOLERANCE * size + R(@tiny@)));
  }
//@ else
  constraint_poses(m, q);
  (void)jacobian;
//@ end
  return error;
}
//@ end

//@ if nvc
/* a(q) into the last rows of the Jacobian, b(q) into offset, for q whose poses constraint_rows has left */
static void velocity_directions(mech *m, const real *q, real *jacobian) {
  int c, i;
  for (c = NH; c < NC; ++c) {
    const element *e = &constraints[c];
    velocity_constraint(m, e, q, @end@, 0);
    m->offset[c - NH] = m->out[0];
    for (i = 0; i < NV; ++i) jacobian[c * NV + i] = 0;
    for (i = 0; i < e->n; ++i) jacobian[c * NV + local_v[e->local + i]] += m->out[1 + i];
  }
}

//@ end
/* ---- the step [9] ------------------------------------------------------------------------------------------------ */

/* everything at the midpoint of q0 and y; r = p + D1Ld + F- - C0' lambda. Returns its size in units of the tolerance. */
static real residual(mech *m, real dt) {
  const real rate = R(1.0) / dt;
  real scale = R(@tiny@), error = 0;
  int i;
//@ if balls
  for (i = 0; i < NV; ++i) {
    const int k = number_q[i];
    if (k < 0) continue;
    m->q_mid[k] = m->q0[k] + ALPHA * (m->y[k] - m->q0[k]);
    m->v[i] = (m->y[k] - m->q0[k]) * rate;
  }
  for (i = 0; i < NB; ++i)
    ball_midpoint(&m->ball[i], m->q0 + ball_q[i], m->y + ball_q[i], dt, m->q_mid + ball_q[i], m->v + ball_v[i]);
//@ else
  for (i = 0; i < NQ; ++i) {
    m->q_mid[i] = m->q0[i] + ALPHA * (m->y[i] - m->q0[i]);
    m->v[i] = (m->y[i] - m->q0[i]) * rate;
  }
//@ end
  place_joints(m->q_mid, m->mid@not_only_seen@);
  gradient(m);
//@ if potentials
  for (i = 0; i < @potentials@; ++i) {
    const element *e = &potentials[i];
    int k;
    potential(m, e, m->q_mid, m->mid, 0);
    for (k = 0; k < e->n; ++k) m->lq[local_v[e->local + k]] -= m->out[1 + k];
  }
//@ end
//@ if any_force
  for (i = 0; i < ND; ++i) m->force[i] = @damping_force@;
//@ end
//@ if pushes
  for (i = 0; i < @pushes@; ++i) m->force[push_v[i]] += push_gear[i] * m->u[push_u[i]];
//@ end
//@ if forces
  for (i = 0; i < @forces@; ++i) {
    const element *e = &forces[i];
    int k;
    force(m, e, m->q_mid, m->mid, 0);
    for (k = 0; k < e->rows; ++k)
      if (local_v[e->row + k] < ND) m->force[local_v[e->row + k]] += m->out[k];
  }
//@ end
  for (i = 0; i < ND; ++i) {
    const real pull = dt * (R(1.0) - ALPHA) * m->lq[i]@plus_push@;
    m->r[i] = m->p[i] + pull - m->lv[i];
    scale = larger(scale, FABS(m->p[i]) + FABS(m->lv[i]) + FABS(pull));
  }
//@ if balls
  for (i = 0; i < NBD; ++i) { /* p + A dt (L_psi + F) - D L_f' (13.2) */
    const @n@_ball *b = &m->ball[i];
    const int v = ball_v[i];
    real alpha[3], push[3], change[3], momentum[3];
    int c;
    for (c = 0; c < 3; ++c) alpha[c] = dt * (m->lq[v + c]@plus_force@);
    ball_push(b, alpha, m->lv + v, push);
    apply(b->a, push, change);
    apply(b->d, m->lv + v, momentum);
    for (c = 0; c < 3; ++c) m->r[v + c] = m->p[v + c] + change[c] - momentum[c];
  }
//@ end
//@ if nc
  {
    int c;
    for (c = 0; c < NC; ++c) {
      const int first = constraints[c].local;
      for (i = 0; i < constraints[c].n; ++i) {
        const int v = local_v[first + i];
        const real t = m->c0[c * NV + v] * m->lam[c];
//@ if nk
        if (v >= ND) continue;
//@ end
        m->r[v] -= t;
        scale = larger(scale, FABS(t));
      }
    }
  }
//@ end
  for (i = 0; i < ND; ++i) error = worse(error, FABS(m->r[i]));
  return error / (TOLERANCE * scale + m->floor);
}

//@ if any_force
/* dt D_2F- into the Newton matrix@and_jacobians@ */
static void force_jacobians(mech *m, real dt@all_argument@) {
  const real share = dt * MINUS, a2 = dt * ALPHA;
  int i;
  (void)a2;
//@ if blocks
  const real a1 = dt * (R(1.0) - ALPHA);
  (void)a1;
  if (all) {
//@ if force_slopes
    for (i = 0; i < ND * NV; ++i) m->fx[i] = m->fy[i] = 0;
//@ end
//@ if nu
    for (i = 0; i < ND * NU; ++i) m->fu[i] = 0;
//@ end
  }
//@ end
//@ if damping
  for (i = 0; i < ND; ++i) {
//@ if balls
    if (number_q[i] < 0) continue; /* see ball_forces */
//@ end
//@ if blocks
    if (all) {
      m->fx[i * NV + i] = damping[i];
      m->fy[i * NV + i] = -damping[i];
    } else
//@ end
      m->e12[i * NV + i] -= share * damping[i];
  }
//@ end
//@ if pushes
//@ if blocks
  if (all)
    for (i = 0; i < @pushes@; ++i) m->fu[push_v[i] * NU + push_u[i]] += push_gear[i];
//@ end
//@ end
//@ if forces
  for (i = 0; i < @forces@; ++i) {
    const element *e = &forces[i];
    const real *fq = m->out + e->rows, *fv = fq + e->rows * e->n;
    int r, k;
    force(m, e, m->q_mid, m->mid, 1);
    for (r = 0; r < e->rows; ++r) {
      const int row = local_v[e->row + r];
      if (row >= ND) continue;
      for (k = 0; k < e->n; ++k) {
        const int column = local_v[e->local + k];
        const real by_q = fq[r * e->n + k], by_v = fv[r * e->n + k];
//@ if blocks
        if (all) {
          m->fx[row * NV + column] += a1 * by_q - by_v;
          m->fy[row * NV + column] += a2 * by_q + by_v;
        } else
//@ end
          m->e12[row * NV + column] += share * (a2 * by_q + by_v);
      }
//@ if blocks
//@ if element_inputs
      if (all)
        for (k = 0; k < e->inputs; ++k)
          m->fu[row * NU + element_input[e->input + k]] += fv[e->rows * e->n + r * e->inputs + k];
//@ end
//@ end
    }
  }
//@ end
  (void)m;
  (void)share;
  (void)i;
}
//@ end

//@ if potentials
/* E_ij -= a_i a_j V_qq */
static void potential_hessians(mech *m, real dt@all_argument@) {
  const real a1 = dt * (R(1.0) - ALPHA), a2 = dt * ALPHA;
  int i, r, k;
  for (i = 0; i < @potentials@; ++i) {
    const element *e = &potentials[i];
    potential(m, e, m->q_mid, m->mid, 1);
    for (r = 0; r < e->n; ++r)
      for (k = 0; k < e->n; ++k) {
        const int at = local_v[e->local + r] * NV + local_v[e->local + k];
        const real x = m->out[1 + e->n + r * e->n + k];
        m->e12[at] -= a1 * a2 * x;
//@ if blocks
        if (all) {
          m->e11[at] -= a1 * a1 * x;
          m->e21[at] -= a1 * a2 * x;
          m->e22[at] -= a2 * a2 * x;
        }
//@ end
      }
  }
}
//@ end

//@ if balls
/* ---- balls: second derivatives by their ends (13.3) --------------------------------------------------------------- */

/* out += factor d(A v)/dphi, which is the same at -phi */
static void add_slope_of_a(const @n@_ball *b, const real *v, real factor, real *out) {
  real across[3];
  int i;
  cross3(b->phi, v, across);
  for (i = 0; i < 9; ++i) out[i] += factor * b->t_slope * across[i / 3] * b->phi[i % 3];
  add_skew(v, R(-0.5) * factor * b->t, out);
}

/* out += factor d(D v)/dphi at sign phi */
static void add_slope_of_d(const @n@_ball *b, const real *v, real sign, real factor, real *out) {
  const real *p = b->phi, along = dot(p, v);
  real once[3], twice[3];
  int i;
  cross3(p, v, once);
  cross3(p, once, twice);
  for (i = 0; i < 9; ++i) {
    const int r = i / 3, k = i % 3;
    const real bent = (r == k ? along : 0) + p[r] * v[k] - R(2.0) * v[r] * p[k];
    out[i] += factor * sign * (b->c * bent + R(2.0) * b->c_slope * twice[r] * p[k]);
  }
  add_skew(v, R(-0.5) * factor, out);
}

/* out += factor a b c */
static void add_product(real factor, const real *a, const real *b, const real *c, real *out) {
  real ab[9], abc[9];
  int i;
  times(a, b, ab);
  times(ab, c, abc);
  for (i = 0; i < 9; ++i) out[i] += factor * abc[i];
}

static const real unit[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};

/* A', D', and the slots of the three hinges by x (x1, x2) and by y (y1, y2) */
static void ball_slots(@n@_ball *b) {
  const real *p = b->phi;
  real drag[9] = {0}, x[9], y[9];
  int i;
  drag[2] = p[1]; /* Gamma: what a turn of the chart does to f' */
  drag[5] = -p[0];
  drag[7] = p[0];
  transposed(b->a, b->at);
  transposed(b->d, b->dt);
  times(drag, b->at, x);
  times(drag, b->a, y);
  for (i = 0; i < 9; ++i) {
    const real h = R(0.5) * (b->dt[i] + x[i]), k = R(0.5) * (b->d[i] - y[i]);
    b->x1[i] = b->at[i] + h;
    b->x2[i] = b->at[i] - h;
    b->y1[i] = b->a[i] - k;
    b->y2[i] = b->a[i] + k;
  }
}

/* own blocks K11, K12, K22 of (13.3) times dt */
static void ball_second(const @n@_ball *b, const real *alpha, const real *beta, real dt, real *k11, real *k12, real *k22) {
  const real *p = b->phi, *a = b->a, *at = b->at, *d = b->d, *d_t = b->dt;
  real n[9] = {0}, drift[9] = {0}, back[9], s[9] = {0}, r[9] = {0}, push[3], u[3], v[3];
  int i;
  n[1] = beta[0] * p[1] - beta[1] * p[0] - alpha[2];
  n[2] = alpha[1] - beta[2] * p[0];
  n[4] = beta[0] * p[0];
  n[5] = beta[2] * p[1] - alpha[0];
  n[7] = beta[2] * p[1];
  n[8] = -(beta[0] * p[0] + beta[1] * p[1]);
  drift[3] = -beta[2];
  drift[6] = beta[1];
  drift[7] = -beta[0];
  transposed(drift, back);
  ball_push(b, alpha, beta, push);
  add_slope_of_a(b, push, R(1.0), s);
  add_slope_of_d(b, beta, R(1.0), R(-1.0), s);
  add_slope_of_a(b, push, R(1.0), r);
  add_slope_of_d(b, beta, R(-1.0), R(1.0), r);
  for (i = 0; i < 9; ++i) k11[i] = k12[i] = k22[i] = 0;
  /* K12 = A (N A + M D) - D M'A + S D */
  add_product(dt, a, n, a, k12);
  add_product(dt, a, drift, d, k12);
  add_product(-dt, d, back, a, k12);
  add_product(dt, s, unit, d, k12);
  /* K11 = A (N A' - M D') - D M'A' - S D' - 1/2 [A push - D beta]x */
  add_product(dt, a, n, at, k11);
  add_product(-dt, a, drift, d_t, k11);
  add_product(-dt, d, back, at, k11);
  add_product(-dt, s, unit, d_t, k11);
  apply(a, push, u);
  apply(d, beta, v);
  for (i = 0; i < 3; ++i) u[i] -= v[i];
  add_skew(u, R(-0.5) * dt, k11);
  /* K22 = A'(N A + M D) + D'M'A - R D - 1/2 [A' push + D' beta]x */
  add_product(dt, at, n, a, k22);
  add_product(dt, at, drift, d, k22);
  add_product(dt, d_t, back, a, k22);
  add_product(-dt, r, unit, d, k22);
  apply(at, push, u);
  apply(d_t, beta, v);
  for (i = 0; i < 3; ++i) u[i] += v[i];
  add_skew(u, R(-0.5) * dt, k22);
}

/* columns v .. v + 2 of two matrices (rows of length NV) by the slots become those by x and y */
static void columns_by_ends(const @n@_ball *b, int v, int rows, real *one, real *two) {
  int i, e;
  for (i = 0; i < rows; ++i) {
    real *f = one + i * NV + v, *g = two + i * NV + v, x[3], y[3], more[3];
    apply_transposed(b->x1, f, x);
    apply_transposed(b->x2, g, more);
    for (e = 0; e < 3; ++e) x[e] += more[e];
    apply_transposed(b->y1, f, y);
    apply_transposed(b->y2, g, more);
    for (e = 0; e < 3; ++e) {
      f[e] = x[e];
      g[e] = y[e] + more[e];
    }
  }
}

/* and rows v .. v + 2 */
static void rows_by_ends(const @n@_ball *b, int v, real *one, real *two) {
  int k, e;
  for (k = 0; k < NV; ++k) {
    real f[3], g[3], x[3], y[3], more[3];
    for (e = 0; e < 3; ++e) {
      f[e] = one[(v + e) * NV + k];
      g[e] = two[(v + e) * NV + k];
    }
    apply_transposed(b->x1, f, x);
    apply_transposed(b->x2, g, more);
    for (e = 0; e < 3; ++e) one[(v + e) * NV + k] = x[e] + more[e];
    apply_transposed(b->y1, f, y);
    apply_transposed(b->y2, g, more);
    for (e = 0; e < 3; ++e) two[(v + e) * NV + k] = y[e] + more[e];
  }
}

/* dt times the torques along body axes on the ball whose velocities begin at v: damping and inputs */
static void body_torque(const mech *m, int v, real dt, real *out) {
  int i;
  (void)m;
  (void)v;
  (void)dt;
  for (i = 0; i < 3; ++i) out[i] = @damping_torque@;
//@ if pushes
  for (i = 0; i < @pushes@; ++i)
    if (push_v[i] >= v && push_v[i] < v + 3) out[push_v[i] - v] += dt * push_gear[i] * m->u[push_u[i]];
//@ end
}

/* E11, E12, E21, E22 by the ends of the balls; of the forces only how the chart bends under them */
static void ball_blocks(mech *m, real dt) {
  int i, c, k;
  for (i = 0; i < NB; ++i) {
    @n@_ball *b = &m->ball[i];
    const int v = ball_v[i];
    real alpha[3], torque[3], k11[9], k12[9], k22[9];
    ball_slots(b);
    columns_by_ends(b, v, NV, m->e11, m->e12);
    columns_by_ends(b, v, NV, m->e21, m->e22);
//@ if led
    if (i >= NBD) continue;
//@ end
    rows_by_ends(b, v, m->e11, m->e21);
    rows_by_ends(b, v, m->e12, m->e22);
    body_torque(m, v, dt, torque);
    for (c = 0; c < 3; ++c) alpha[c] = dt * (m->lq[v + c]@plus_force@) - torque[c];
    ball_second(b, alpha, m->lv + v, dt, k11, k12, k22);
    for (c = 0; c < 3; ++c)
      for (k = 0; k < 3; ++k) {
        const int at = (v + c) * NV + v + k;
        m->e11[at] += k11[3 * c + k];
        m->e12[at] += k12[3 * c + k];
        m->e21[at] += k12[3 * k + c];
        m->e22[at] += k22[3 * c + k];
      }
  }
}

//@ if any_force
/* rows v .. v + 2 of a matrix with `columns` columns, times 2 a */
static void turn_rows(const real *a, real *matrix, int v, int columns) {
  int k, c;
  for (k = 0; k < columns; ++k) {
    real x[3], y[3];
    for (c = 0; c < 3; ++c) x[c] = matrix[(v + c) * columns + k];
    apply(a, x, y);
    for (c = 0; c < 3; ++c) matrix[(v + c) * columns + k] = R(2.0) * y[c];
  }
}

/* forces by the ends of balls: F- (fx, fy, fu) and F+ (gx, gy, gu) apart, A Q and A'Q in the place of Q/2 */
static void ball_forces(mech *m, real dt) {
  int i, c, k;
  for (i = 0; i < NB; ++i) columns_by_ends(&m->ball[i], ball_v[i], ND, m->fx, m->fy);
  for (i = 0; i < ND * NV; ++i) {
    m->gx[i] = m->fx[i];
    m->gy[i] = m->fy[i];
  }
//@ if nu
  for (i = 0; i < ND * NU; ++i) m->gu[i] = m->fu[i];
//@ end
  for (i = 0; i < NBD; ++i) {
    const @n@_ball *b = &m->ball[i];
    const int v = ball_v[i];
    real torque[3], turned[3], fx[9] = {0}, fy[9] = {0}, gx[9] = {0}, gy[9] = {0}, s[9] = {0};
    turn_rows(b->a, m->fx, v, NV);
    turn_rows(b->a, m->fy, v, NV);
    turn_rows(b->at, m->gx, v, NV);
    turn_rows(b->at, m->gy, v, NV);
//@ if nu
    turn_rows(b->a, m->fu, v, NU);
    turn_rows(b->at, m->gu, v, NU);
//@ end
    /* torques along body axes: A changes with phi, and the axes turn */
    body_torque(m, v, dt, torque);
    add_slope_of_a(b, torque, R(2.0), s);
    add_product(R(-1.0), s, unit, b->dt, fx);
    add_product(R(1.0), s, unit, b->d, fy);
    add_product(R(1.0), s, unit, b->dt, gx);
    add_product(R(-1.0), s, unit, b->d, gy);
    apply(b->a, torque, turned);
    add_skew(turned, R(-1.0), fx);
    apply(b->at, torque, turned);
    add_skew(turned, R(-1.0), gy);
//@ if damping
    {
      real by_v[9] = {0};
      for (c = 0; c < 3; ++c) by_v[4 * c] = R(2.0) * damping[v + c];
      add_product(R(1.0), b->a, by_v, b->dt, fx);
      add_product(R(-1.0), b->a, by_v, b->d, fy);
      add_product(R(1.0), b->at, by_v, b->dt, gx);
      add_product(R(-1.0), b->at, by_v, b->d, gy);
    }
//@ end
    for (c = 0; c < 3; ++c)
      for (k = 0; k < 3; ++k) {
        const int at = (v + c) * NV + v + k;
        m->fx[at] += fx[3 * c + k];
        m->fy[at] += fy[3 * c + k];
        m->gx[at] += gx[3 * c + k];
        m->gy[at] += gy[3 * c + k];
      }
  }
}
//@ end

//@ if bends
/* matrix (NV x NV) += factor gradient.d2f: how the charts of the balls bend under the gradient of a constraint */
static void add_bend(const real *slope, real factor, real *matrix) {
  int i, c;
  for (i = 0; i < NB; ++i)
    for (c = 0; c < 3; ++c) { /* f = x - (x2 x3, -x1 x3, x1 x2)/2 + ... */
      const int v = ball_v[i], a = v + (c + 1) % 3, b = v + (c + 2) % 3;
      const real x = (c == 1 ? R(0.5) : R(-0.5)) * factor * slope[v + c];
      matrix[a * NV + b] += x;
      matrix[b * NV + a] += x;
    }
}

//@ end
//@ end
//@ if blocks
/* E11, E12, E21, E22: dt times the derivatives of D1 Ld + F- and of D2 Ld + F+ by q_k and q_k+1 */
static void all_blocks(mech *m, real dt) {
//@ if any_force
//@ if force_slopes
  int i;
//@ end
//@ end
  second_derivatives(m, dt, 1);
//@ if potentials
  potential_hessians(m, dt, 1);
//@ end
//@ if balls
  ball_blocks(m, dt);
//@ end
//@ if any_force
  force_jacobians(m, dt, 1);
//@ if balls
  ball_forces(m, dt);
//@ end
//@ if force_slopes
  for (i = 0; i < ND * NV; ++i) {
    m->e11[i] += dt * MINUS * m->fx[i];
    m->e12[i] += dt * MINUS * m->fy[i];
    m->e21[i] += dt * PLUS * m->@g@x[i];
    m->e22[i] += dt * PLUS * m->@g@y[i];
  }
//@ end
//@ end
}

//@ end
//@ if nvc
/* c = dt (a v + b) at the midpoint, and its derivatives by q_k (cx) and q_k+1 (c1) (19.1); after residual().
 * Returns the largest |c| in units of its tolerance. */
static real velocity_rows(mech *m, real dt) {
  const real a1 = dt * (R(1.0) - ALPHA), a2 = dt * ALPHA;
  real error = 0;
  int c, i, k;
//@ if balls
  for (i = 0; i < NB; ++i) ball_slots(&m->ball[i]);
//@ end
  for (c = NH; c < NC; ++c) {
    const element *e = &constraints[c];
    const int n = e->n;
    const real *a = m->out + 1, *by_q = a + n, *slope = by_q + n;
    real *x = m->cx + (c - NH) * NV, *y = m->c1 + c * NV, rate, size, rounding = 0;
    velocity_constraint(m, e, m->q_mid, m->mid, 1);
    rate = m->out[0];
    size = FABS(rate);
    for (i = 0; i < NV; ++i) x[i] = y[i] = 0;
    for (k = 0; k < n; ++k) {
      const int v = local_v[e->local + k];
      real by = by_q[k];
      for (i = 0; i < n; ++i) by += slope[i * n + k] * m->v[local_v[e->local + i]];
      rate += a[k] * m->v[v];
      size += FABS(a[k] * m->v[v]);
      rounding += FABS(a[k]) * (R(1.0) + reach(m->q_mid, v));
      x[v] += a1 * by - a[k];
      y[v] += a2 * by + a[k];
    }
//@ if balls
    for (i = 0; i < NB; ++i) columns_by_ends(&m->ball[i], ball_v[i], 1, x, y);
//@ end
    m->h[c] = dt * rate;
    error = worse(error, FABS(m->h[c]) / (H_TOLERANCE * (FABS(dt) * size + rounding) + R(@tiny@)));
  }
  return error;
}

//@ end
/* LU factors of the dynamic part of e12 in its place, from the leaves of the tree to its root: no fill-in (9.2).
 * On the diagonal stand the inverse pivots. Returns 0 if a pivot is not usable. */
static int factor(real *a) {
  int k, i, j;
  for (k = ND - 1; k >= 0; --k) {
    const real pivot = a[k * NV + k];
    real inverse, top = 0;
    for (j = 0; j < ABOVE_COUNT(k); ++j) top = larger(top, FABS(a[k * NV + ABOVE(k, j)]));
    if (!(FABS(pivot) > R(@least_pivot@) * top) || !(FABS(pivot) <= LARGEST)) return 0;
    inverse = R(1.0) / pivot;
    a[k * NV + k] = inverse;
    for (i = 0; i < ABOVE_COUNT(k); ++i) {
      real *row = a + ABOVE(k, i) * NV;
      const real l = row[k] * inverse;
      row[k] = l;
      for (j = 0; j < ABOVE_COUNT(k); ++j) row[ABOVE(k, j)] -= l * a[k * NV + ABOVE(k, j)];
    }
  }
  return 1;
}

/* to -= by from, two numbers at a time */
static inline void less_row(real *to, const real *from, real by, int columns) {
  int c;
  for (c = 0; c + 2 <= columns; c += 2) {
    const real first = to[c] - by * from[c], second = to[c + 1] - by * from[c + 1];
    to[c] = first;
    to[c + 1] = second;
  }
  if (c < columns) to[c] -= by * from[c];
}

/* N x = b with the factors, in the place of b: ND rows and `columns` columns of row length `stride` */
static inline void solve(const real *a, real *b, int columns, int stride) {
  int k, i, c;
  for (k = ND - 1; k >= 0; --k)
    for (i = 0; i < ABOVE_COUNT(k); ++i)
      less_row(b + ABOVE(k, i) * stride, b + k * stride, a[ABOVE(k, i) * NV + k], columns);
  for (k = 0; k < ND; ++k) {
    const real inverse = a[k * NV + k];
    real *row = b + k * stride;
    for (i = 0; i < ABOVE_COUNT(k); ++i) less_row(row, b + ABOVE(k, i) * stride, a[k * NV + ABOVE(k, i)], columns);
    for (c = 0; c < columns; ++c) row[c] *= inverse;
  }
}

//@ if nc
/* factors of the first `rows` rows and columns of C1 X (by the first `variables`) with full pivoting, rows and columns
 * in the order in which they were taken, inverse pivots on the diagonal; constraints that follow from others are left
 * out (rank < rows) */
static int schur_factor(mech *m, int rows, int variables) {
  real *s = m->schur, largest = 0;
  int c, i, k, rank;
//@ if nk
//@ else
  (void)variables;
//@ end
  m->rows = rows;
  for (c = 0; c < rows; ++c) {
    const element *e = &constraints[c];
    real sum[NC] = {0};
    for (i = 0; i < e->n; ++i) {
      const int v = local_v[e->local + i];
      const real by = m->c1[c * NV + v];
//@ if nk
      if (v >= variables) continue;
//@ end
      less_row(sum, m->x + v * NC, -by, NC);
    }
    for (k = 0; k < NC; ++k) s[c * NC + k] = sum[k];
    m->row[c] = m->column[c] = c;
  }
  for (rank = 0; rank < rows; ++rank) {
    real *top = s + rank * NC;
    int best_row = rank, best_column = rank, swap;
    real best = -1;
    for (i = rank; i < rows; ++i)
      for (k = rank; k < rows; ++k) {
        const real size = FABS(s[i * NC + k]);
        if (!(size <= best)) {
          best = size;
          best_row = i;
          best_column = k;
        }
      }
    if (!(best <= LARGEST)) return 0;
    if (rank == 0) largest = best;
    if (!(best > R(@rank_tolerance@) * largest)) break;
    if (best_row != rank) {
      swap = m->row[rank];
      m->row[rank] = m->row[best_row];
      m->row[best_row] = swap;
      for (k = 0; k < rows; ++k) {
        const real t = s[rank * NC + k];
        s[rank * NC + k] = s[best_row * NC + k];
        s[best_row * NC + k] = t;
      }
    }
    if (best_column != rank) {
      swap = m->column[rank];
      m->column[rank] = m->column[best_column];
      m->column[best_column] = swap;
      for (i = 0; i < rows; ++i) {
        const real t = s[i * NC + rank];
        s[i * NC + rank] = s[i * NC + best_column];
        s[i * NC + best_column] = t;
      }
    }
    top[rank] = R(1.0) / top[rank];
    for (i = rank + 1; i < rows; ++i) {
      real *row = s + i * NC;
      const real l = row[rank] * top[rank];
      row[rank] = l;
      less_row(row + rank + 1, top + rank + 1, l, rows - rank - 1);
    }
  }
  m->rank = rank;
  return 1;
}

/* S x = b, in the place of b */
static void schur_solve(mech *m, real *b) {
  const real *s = m->schur;
  real *x = m->schur_x;
  int i, k;
  for (i = 0; i < m->rank; ++i) {
    real t = b[m->row[i]];
    for (k = 0; k < i; ++k) t -= s[i * NC + k] * x[k];
    x[i] = t;
  }
  for (i = m->rank - 1; i >= 0; --i) {
    real t = x[i];
    for (k = i + 1; k < m->rank; ++k) t -= s[i * NC + k] * x[k];
    x[i] = t * s[i * NC + i];
  }
  for (i = 0; i < m->rows; ++i) b[m->column[i]] = i < m->rank ? x[i] : 0;
}

//@ end
/* Newton matrix at the midpoint, factored@and_schur@; 0 if it is singular */
static int newton_matrix(mech *m, real dt) {
  int i;
  real top = 0;
//@ if balls
  all_blocks(m, dt);
//@ else
  second_derivatives(m, dt@all_zero@);
//@ if potentials
  potential_hessians(m, dt@all_zero@);
//@ end
//@ if any_force
  force_jacobians(m, dt@all_zero@);
//@ end
//@ end
  /* below N/dt times the rounding of q the residual cannot fall [15.3] */
  for (i = 0; i < ND; ++i) top = larger(top, FABS(m->e12[i * NV + i]) * (reach(m->q0, i) + reach(m->y, i)));
  m->floor = top * EPSILON / FABS(dt);
  if (!factor(m->e12)) return 0;
//@ if nc
  {
    int c;
    for (i = 0; i < ND; ++i)
      for (c = 0; c < NC; ++c) m->x[i * NC + c] = m->c0[c * NV + i];
    solve(m->e12, m->x, NC, NC);
    return schur_factor(m, NC, ND);
  }
//@ else
  return 1;
//@ end
}

/* Newton step: N dy = dt (C0' dl - r), C1 dy = -h (9.1), with the factors there are; adds it to y and lambda. Returns
 * how far y has moved, relative to its size. */
static real newton_step(mech *m, real dt) {
  real moved = 0;
  int i;
  for (i = 0; i < ND; ++i) m->dy[i] = m->r[i];
  solve(m->e12, m->dy, 1, 1);
//@ if nc
  {
    int c;
    for (c = 0; c < NC; ++c) {
      real t = -m->h[c] / dt;
      for (i = 0; i < ND; ++i) t += m->c1[c * NV + i] * m->dy[i];
      m->dlam[c] = t;
    }
    schur_solve(m, m->dlam);
    for (i = 0; i < ND; ++i)
      for (c = 0; c < NC; ++c) m->dy[i] -= m->x[i * NC + c] * m->dlam[c];
    for (c = 0; c < NC; ++c) m->lam[c] += m->dlam[c];
  }
//@ end
  for (i = 0; i < ND; ++i) {
    m->dy[i] *= -dt;
    moved = larger(moved, FABS(m->dy[i]) / (R(1e-3) + reach(m->y, i) + reach(m->q0, i)));
  }
  move(m->y, m->dy, R(1.0), m->y);
  return moved;
}

/* Newton's method from the guess in y, lam; at most @N@_MAX_ITERATIONS steps */
static int newton(mech *m, real dt) {
  real before = LARGEST;
  int fresh = 0, last = 0, it;
  m->floor = 0;
  for (it = 0;; ++it) {
    real error = residual(m, dt), moved;
    int reuse;
//@ if nc
//@ if seen
    if (it == 0) begin_ends(m);
//@ end
    error = worse(error, constraint_rows(m, m->y, m->c1));
//@ if nvc
    error = worse(error, velocity_rows(m, dt));
//@ end
//@ end
    m->iterations += 1;
    m->error = error;
    if (!(error <= LARGEST)) return @N@_NOT_FINITE;
    if (error <= R(1.0) || last || (error <= SLACK && !(error < R(0.5) * before))) return @N@_OK;
    if (it >= @N@_MAX_ITERATIONS) return @N@_NOT_CONVERGED;
    /* factors are used again when the observed rate says that this iteration will be the last */
    reuse = fresh && error < before && R(4.0) * error * (error / before) <= R(1.0);
    if (!reuse && !newton_matrix(m, dt)) return @N@_SINGULAR;
//@ if nc
    /* but those of the constraints: multipliers may have been far off, and what they push would leave along the old ones */
    if (reuse && !schur_factor(m, NC, ND)) return @N@_SINGULAR;
//@ end
    fresh = 1;
    moved = newton_step(m, dt);
//@ if no_finish
    last = moved <= EPSILON;
//@ else
    if (reuse && moved <= FINISH) { /* p needs no more than the new multipliers: p_k+1 = p_k + dt (L_q + F) - C0' lambda */
//@ if nc
      int c, i;
      for (c = 0; c < NC; ++c)
        for (i = 0; i < ND; ++i) m->r[i] -= m->c0[c * NV + i] * m->dlam[c];
//@ end
      m->error = error * (error / before);
      return @N@_OK;
    }
    last = moved <= EPSILON;
//@ end
    before = error;
  }
}

/* one midpoint step from q0, p to y; p becomes p_k+1 */
static int midpoint_step(mech *m, real dt) {
  int i, status;
  place_world(m, m->q0);
//@ if nc
  if (m->carried) { /* from the end of the step before */
    for (i = 0; i < NH * NV; ++i) m->c0[i] = m->c1[i];
  } else {
    (void)constraint_rows(m, m->q0, m->c0);
  }
//@ if nvc
  if (m->carried) constraint_poses(m, m->q0);
  velocity_directions(m, m->q0, m->c0);
//@ end
  m->carried = 0;
//@ end
  status = newton(m, dt);
  if (status != @N@_OK) return status;
//@ if hinges
  for (i = 0; i < @hinges@; ++i) /* the equations have more roots, a turn apart [15.6] */
    if (!(FABS(m->y[HINGE_Q(i)] - m->q0[HINGE_Q(i)]) <= R(3.14159265358979))) return @N@_TURNED_FAR;
//@ end
//@ if balls
  for (i = 0; i < NB; ++i) /* by more than two radians it may be the wrong way round */
    if (!(m->ball[i].cosine * m->ball[i].cosine >= R(0.292))) return @N@_TURNED_FAR;
//@ end
  /* what is left of the residual goes into p: then p changes by the sum of the impulses to rounding */
  for (i = 0; i < ND; ++i) {
    m->p[i] = dt * ALPHA * m->lq[i] + m->lv[i]@plus_push_after@ + m->r[i];
    if (!(FABS(m->p[i]) <= LARGEST) || !(reach(m->y, i) <= LARGEST)) return @N@_NOT_FINITE;
  }
//@ if balls
  for (i = 0; i < NBD; ++i) { /* A' dt (L_psi + F) + D' L_f' + exp(-phi) r */
    const @n@_ball *b = &m->ball[i];
    const int v = ball_v[i];
    real alpha[3], push[3], change[3], momentum[3], left[3];
    int c;
    for (c = 0; c < 3; ++c) alpha[c] = dt * (m->lq[v + c]@plus_force@);
    ball_push(b, alpha, m->lv + v, push);
    apply_transposed(b->a, push, change);
    apply_transposed(b->d, m->lv + v, momentum);
    turned_back(b, m->r + v, left);
    for (c = 0; c < 3; ++c) {
      m->p[v + c] = change[c] + momentum[c] + left[c];
      if (!(FABS(m->p[v + c]) <= LARGEST)) return @N@_NOT_FINITE;
    }
  }
//@ end
  return @N@_OK;
}

void @n@_start(@n@ *m, const @n@_real *q, const @n@_real *p) {
  int i;
  for (i = 0; i < NQ; ++i) m->q[i] = q[i];
//@ if balls
  for (i = 0; i < NB; ++i) normalize(m->q + ball_q[i]);
//@ end
  for (i = 0; i < NQ; ++i) m->q0[i] = m->y[i] = m->q[i];
  for (i = 0; i < ND; ++i) {
    m->p[i] = p[i];
    m->guess[i] = m->before[i] = 0;
  }
//@ if nk
  for (i = 0; i < NK; ++i) m->rate[i] = 0;
//@ end
//@ if nc
  for (i = 0; i < NC; ++i) m->lam[i] = 0;
  for (i = 0; i < NC * NV; ++i) m->c0[i] = m->c1[i] = 0; /* entries of variables that a constraint does not see stay so */
//@ end
  m->dt = 0;
  m->steps = 0;
//@ if nc
  m->carried = 0;
//@ end
  m->error = 0;
  m->iterations = 0;
}

/* midpoint_step from the guess in y and lam, and once more from rest if that fails; then p and lam stay as they were */
static int careful_step(mech *m, real dt) {
  real kept[ND];
//@ if nc
  real kept_lam[NC];
//@ end
  int i, status;
  for (i = 0; i < ND; ++i) kept[i] = m->p[i];
//@ if nc
  for (i = 0; i < NC; ++i) kept_lam[i] = m->lam[i];
//@ end
  status = midpoint_step(m, dt);
  if (status != @N@_OK) {
    for (i = 0; i < ND; ++i) m->p[i] = kept[i];
    for (i = 0; i < NQD; ++i) m->y[i] = m->q0[i];
//@ if nc
    for (i = 0; i < NC; ++i) m->lam[i] = 0;
//@ end
    status = midpoint_step(m, dt);
  }
  if (status != @N@_OK) {
    for (i = 0; i < ND; ++i) m->p[i] = kept[i];
//@ if nc
    for (i = 0; i < NC; ++i) m->lam[i] = kept_lam[i];
//@ end
  }
  return status;
}

//@ if parts
/* The step is composed of midpoint steps of the lengths part_length[i] dt, some of them backward; prescribed variables
 * go on the straight line from q_start to q_end [14]. Part i of it, from share c0 to c1; lam as if it lasted the whole
 * step. */
static int composed_part(mech *m, real dt, int i, real c0, real c1) {
  int k, status;
  (void)k;
  (void)c0;
  (void)c1;
  move(m->q0, m->guess, part_length[i], m->y);
//@ if nk
  for (k = 0; k < NK; ++k) {
    const real line = m->q_end[k] - m->q_start[NQD + k];
    m->q0[NQD + k] = m->q_start[NQD + k] + c0 * line;
    m->y[NQD + k] = i + 1 < @parts@ ? m->q_start[NQD + k] + c1 * line : m->q_end[k];
  }
//@ end
//@ if nc
  for (k = 0; k < NC; ++k) m->lam[k] *= part_length[i];
//@ end
  status = careful_step(m, part_length[i] * dt);
//@ if nc
  for (k = 0; k < NC; ++k) m->lam[k] /= part_length[i];
//@ end
  return status;
}

//@ end
int @n@_step(@n@ *m@u_argument@@rho_argument@, @n@_real dt) {
  int i, status;
  m->iterations = 0;
  if (!(dt > 0) || !(dt <= LARGEST)) return @N@_BAD_STEP;
  for (i = 0; i < NQ; ++i) m->q0[i] = m->q[i];
  /* the guess: the parabola through the last configurations, as far as they are known */
  for (i = 0; i < ND; ++i) {
    const real last = m->guess[i], bend = m->steps > 1 ? last - m->before[i] : 0;
    m->before[i] = last;
    m->guess[i] = m->steps > 0 ? (last + bend) * (dt / m->dt) : 0;
  }
//@ if nc
  m->carried = m->steps > 0;
  for (i = 0; i < NQ; ++i) m->carried = m->carried && m->q[i] == m->y[i];
//@ end
  move(m->q, m->guess, R(1.0), m->y);
//@ if nu
  for (i = 0; i < NU; ++i) m->u[i] = u[i];
//@ end
//@ if parts
  {
    real c0 = 0;
    for (i = 0; i < NQ; ++i) m->q_start[i] = m->q[i];
    for (i = 0; i < ND; ++i) m->p_start[i] = m->p[i];
//@ if nk
    for (i = 0; i < NK; ++i) m->q_end[i] = rho[i];
//@ end
    status = @N@_OK;
    for (i = 0; i < @parts@ && status == @N@_OK; ++i) {
      int k;
      if (i > 0)
        for (k = 0; k < NQ; ++k) m->q0[k] = m->y[k];
      status = composed_part(m, dt, i, c0, c0 + part_length[i]);
      c0 += part_length[i];
    }
    for (i = 0; i < NQ; ++i) m->q0[i] = m->q_start[i];
  }
  if (status != @N@_OK) {
    for (i = 0; i < ND; ++i) m->p[i] = m->p_start[i];
    m->dt = 0;
    m->steps = 0;
    return status;
  }
//@ else
//@ if led
  lead(m->q, rho, dt, m->y);
//@ else
//@ if nk
  for (i = 0; i < NK; ++i) m->y[NQD + i] = rho[i];
//@ end
//@ end
//@ if balls
  for (i = 0; i < ND; ++i) m->p_start[i] = m->p[i];
//@ end
  status = careful_step(m, dt);
  if (status != @N@_OK) { /* the state stays as it was, and there is no step to linearize */
    m->dt = 0;
    m->steps = 0;
    return status;
  }
//@ end
  for (i = 0; i < NQ; ++i) m->q[i] = m->y[i];
  way(m->q0, m->y, m->guess);
//@ if led
  for (i = 0; i < NK; ++i) {
    const int k = number_q[ND + i];
    m->rate[i] = k < 0 ? rho[i] : (m->y[k] - m->q0[k]) / dt;
  }
//@ else
//@ if nk
  for (i = 0; i < NK; ++i) m->rate[i] = (m->y[NQD + i] - m->q0[NQD + i]) / dt;
//@ end
//@ end
  m->dt = dt;
  m->steps = m->steps < 2 ? m->steps + 1 : 2;
  return @N@_OK;
}
//@ if linearize

/* ---- exact A and B of the step that was made last [11] ----------------------------------------------------------- */

//@ if nc
/* matrix (NV x NV) += sum of weight_c times the derivatives of row c of the Jacobian of the constraints at q (rows: its
 * entries), c from first to end; after constraint_poses */
static void add_slopes(mech *m, const real *q, const real *jacobian, int first, int end, const real *weight, real *matrix) {
  int c = first;
  (void)q;
  (void)jacobian;
  while (c < end) {
    int used = 1;
//@ if fixed_directions
//@ if derived_rows
    if (c < NH && constraints[c].kind == DIRECTION) {
      used = add_bent_directions(m, c, end < NH ? end : NH, @end@, weight, matrix);
    } else
//@ else
    used = add_bent_directions(m, c, end, @end@, weight, matrix);
//@ end
//@ end
//@ if derived_rows
    {
      const element *e = &constraints[c];
      const real *slope = m->out + 1 + e->n;
      int i, k;
//@ if derived
      real size;
//@ if nvc
      if (c < NH)
//@ end
        constraint(m, e, q, @end@, 1, &size);
//@ end
//@ if nvc
//@ if derived
      else
//@ end
      {
        velocity_constraint(m, e, q, @end@, 1);
        slope += e->n;
      }
//@ end
      for (i = 0; i < e->n; ++i)
        for (k = 0; k < e->n; ++k)
          matrix[local_v[e->local + i] * NV + local_v[e->local + k]] += weight[c] * slope[i * e->n + k];
    }
//@ end
//@ if balls
    for (; used > 0; --used, ++c) add_bend(jacobian + c * NV, weight[c], matrix);
//@ end
    c += used;
  }
}

//@ end
/* columns of the linear systems: q_k, p_k, inputs, prescribed values (NR)@and_multipliers@ (NS); room for whole fours */
enum { NR = @result_length@, NS = @row_length@ };

static inline void add_row(real *to, const real *from, real by, int columns) {
  int i;
//@ if four_columns
  for (i = 0; i < columns; i += 4) { /* a multiple of four */
    const real a = to[i] + by * from[i], b = to[i + 1] + by * from[i + 1];
    const real c = to[i + 2] + by * from[i + 2], d = to[i + 3] + by * from[i + 3];
    to[i] = a;
    to[i + 1] = b;
    to[i + 2] = c;
    to[i + 3] = d;
  }
//@ else
  for (i = 0; i < columns; ++i) to[i] += by * from[i];
//@ end
}

/* N x = b with the factors, in the place of b: ND rows of NS columns */
static void solve_rows(const real *a, real *b) {
  int k, i;
  for (k = ND - 1; k >= 0; --k)
    for (i = 0; i < ABOVE_COUNT(k); ++i) add_row(b + ABOVE(k, i) * NS, b + k * NS, -a[ABOVE(k, i) * NV + k], NS);
  for (k = 0; k < ND; ++k) {
    const real inverse = a[k * NV + k];
    for (i = 0; i < ABOVE_COUNT(k); ++i) add_row(b + k * NS, b + ABOVE(k, i) * NS, -a[k * NV + ABOVE(k, i)], NS);
    for (i = 0; i < NS; ++i) b[k * NS + i] *= inverse;
  }
}

/* of a midpoint step of the length dt, whose midpoint, C0, C1 and lambda m still holds */
static int linearize_step(mech *m, real dt) {
  const real rate = R(1.0) / dt;
  int i, j, k;
  all_blocks(m, dt);
//@ if nk
  for (i = 0; i < NX * NX; ++i) m->a[i] = 0;
  for (i = 0; i < NX * NW; ++i) m->b[i] = 0;
//@ end
//@ if nc
  /* - dt sum of lambda_c D2h_c(q_k) */
  constraint_poses(m, m->q0);
  for (k = 0; k < NC; ++k) m->dlam[k] = -dt * m->lam[k];
  add_slopes(m, m->q0, m->c0, 0, NC, m->dlam, m->e11);
//@ end
  /* Z = -N^-1 R1 for the columns of q_k, p_k (-dt), u and rho@and_x_columns@ */
  for (i = 0; i < ND; ++i) {
    real *z = m->z + i * NS;
    for (k = 0; k < NS; ++k) z[k] = 0;
    for (k = 0; k < NV; ++k) z[k] = -m->e11[i * NV + k];
    z[NV + i] = -dt;
//@ if nu
    for (k = 0; k < NU; ++k) z[NV + ND + k] = -dt * dt * MINUS * m->fu[i * NU + k];
//@ end
//@ if nk
    for (k = 0; k < NK; ++k) z[NV + ND + NU + k] = -m->e12[i * NV + ND + k];
//@ end
//@ if nc
    for (k = 0; k < NC; ++k) z[NV + ND + NW + k] = m->c0[k * NV + i];
//@ end
  }
  if (!factor(m->e12)) return @N@_SINGULAR;
  solve_rows(m->e12, m->z);
//@ if nc
  /* multipliers: (C1 X) L = -(C1 Z + R2)/dt,  Y = Z + dt X L */
  for (i = 0; i < ND; ++i)
    for (k = 0; k < NC; ++k) m->x[i * NC + k] = m->z[i * NS + NV + ND + NW + k];
  if (!schur_factor(m, NC, ND)) return @N@_SINGULAR;
  for (k = 0; k < NC; ++k) {
    const int c = m->row[k];
    const element *e = &constraints[c];
    real *l = m->l + k * NS;
    for (j = 0; j < NR; ++j) l[j] = 0;
//@ if nk
    for (j = 0; j < NK; ++j) l[NV + ND + NU + j] = -m->c1[c * NV + ND + j];
//@ end
//@ if nvc
    if (c >= NH)
      for (j = 0; j < NV; ++j) l[j] = -m->cx[(c - NH) * NV + j];
//@ end
    for (i = 0; i < e->n; ++i) {
      const int v = local_v[e->local + i];
//@ if repeats
      int first = v < ND;
      for (j = 0; j < i; ++j) first = first && local_v[e->local + j] != v;
      if (first) add_row(l, m->z + v * NS, -m->c1[c * NV + v], NR);
//@ else
      if (v < ND) add_row(l, m->z + v * NS, -m->c1[c * NV + v], NR);
//@ end
    }
    for (j = 0; j < k && j < m->rank; ++j) add_row(l, m->l + j * NS, -m->schur[k * NC + j], NR);
  }
  for (k = m->rank - 1; k >= 0; --k) {
    real *l = m->l + k * NS;
    const real inverse = m->schur[k * NC + k];
    for (j = k + 1; j < m->rank; ++j) add_row(l, m->l + j * NS, -m->schur[k * NC + j], NR);
    for (j = 0; j < NR; ++j) l[j] *= inverse;
    for (i = 0; i < ND; ++i) {
      const real by = m->x[i * NC + m->column[k]];
      if (by != 0) add_row(m->z + i * NS, l, by, NR);
    }
  }
//@ end
  /* dt P = E22 dq_k+1/dw + E21 (columns of q_k) + dt D_uF+ (11.2) */
  for (i = 0; i < ND; ++i) {
    const real *z = m->z + i * NS;
    real row[NR];
    for (j = 0; j < NV; ++j) row[j] = m->e21[i * NV + j] * rate;
    for (j = NV; j < NR; ++j) row[j] = 0;
    for (k = 0; k < ND; ++k) {
      const real by_y = m->e22[i * NV + k] * rate;
      if (by_y != 0) add_row(row, m->z + k * NS, by_y, NR); /* else no coupling */
    }
    for (j = 0; j < NV + ND; ++j) {
      m->a[i * NX + j] = z[j];
      m->a[(NV + i) * NX + j] = row[j];
      if (!(FABS(row[j]) <= LARGEST)) return @N@_NOT_FINITE; /* what is not finite in z makes its sums so */
    }
//@ if nw
    for (j = 0; j < NW; ++j) {
      m->b[i * NW + j] = z[NV + ND + j];
      m->b[(NV + i) * NW + j] = row[NV + ND + j] + (@momentum_by_input@);
    }
//@ end
  }
//@ if nk
  /* rho_k+1 and its rate (rho_k+1 - rho_k)/dt are inputs */
  for (k = 0; k < NK; ++k) {
    m->b[(ND + k) * NW + NU + k] = R(1.0);
    m->b[(NV + ND + k) * NW + NU + k] = R(1.0) / dt;
    m->a[(NV + ND + k) * NX + ND + k] = R(-1.0) / dt;
  }
//@ end
  return @N@_OK;
}
//@ end
//@ if linearize
//@ if balls

/* from the charts of the ends, where momenta are canonical, to momenta along body axes: p = Jr(x)' p_body [13] */
static void to_body(mech *m) {
  int i, k, c;
  for (i = 0; i < NBD; ++i) {
    const int v = ball_v[i];
    for (k = 0; k < NX; ++k) { /* rows of p': dp_body = dp + p' x dy/2 */
      real y[3], d[3];
      for (c = 0; c < 3; ++c) y[c] = m->a[(v + c) * NX + k];
      cross3(m->p + v, y, d);
      for (c = 0; c < 3; ++c) m->a[(NV + v + c) * NX + k] += R(0.5) * d[c];
    }
//@ if nw
    for (k = 0; k < NW; ++k) {
      real y[3], d[3];
      for (c = 0; c < 3; ++c) y[c] = m->b[(v + c) * NW + k];
      cross3(m->p + v, y, d);
      for (c = 0; c < 3; ++c) m->b[(NV + v + c) * NW + k] += R(0.5) * d[c];
    }
//@ end
    for (k = 0; k < NX; ++k) { /* columns of x: dp = dp_body - p x dx/2 */
      real d[3];
      cross3(m->a + k * NX + NV + v, m->p_start + v, d);
      for (c = 0; c < 3; ++c) m->a[k * NX + v + c] -= R(0.5) * d[c];
    }
  }
}
//@ end

//@ if led
/* from the ends of prescribed balls to their angular velocities w: y = exp(-phi) x + dt Jr(phi) dw, phi = dt w (13.6) */
static void by_turns(mech *m, real dt) {
  int i, r, k, c;
  for (i = NBD; i < NB; ++i) {
    const int v = ball_v[i], w = NU + v - ND;
    real phi[3], s, first, second, skew[9] = {0}, square[9], turn[9], jacobian[9];
    for (c = 0; c < 3; ++c) phi[c] = dt * m->rate[v - ND + c];
    s = dot(phi, phi);
    add_skew(phi, R(1.0), skew);
    times(skew, skew, square);
    if (s < R(@small_angle@)) {
      first = R(0.5) - s * (R(1.0 / 24) - s / R(720.0));
      second = R(1.0 / 6) - s * (R(1.0 / 120) - s / R(5040.0));
    } else {
      first = (R(1.0) - COS(SQRT(s))) / s;
      second = (SQRT(s) - SIN(SQRT(s))) / (s * SQRT(s));
    }
    for (c = 0; c < 9; ++c) { /* sin|phi|/|phi| = 1 - second s */
      const real one = c % 4 == 0 ? R(1.0) : 0;
      jacobian[c] = dt * (one - first * skew[c] + second * square[c]);
      turn[c] = one - (R(1.0) - second * s) * skew[c] + first * square[c];
    }
    for (r = 0; r < NX; ++r) {
      real *a = m->a + r * NX + v, *b = m->b + r * NW + w, by[3];
      for (c = 0; c < 3; ++c) by[c] = b[c];
      for (k = 0; k < 3; ++k) {
        b[k] = 0;
        for (c = 0; c < 3; ++c) {
          a[k] += by[c] * turn[3 * c + k];
          b[k] += by[c] * jacobian[3 * c + k];
        }
      }
    }
    for (c = 0; c < 3; ++c) { /* the rates are the inputs themselves */
      for (k = 0; k < NX; ++k) m->a[(NV + v + c) * NX + k] = 0;
      for (k = 0; k < NW; ++k) m->b[(NV + v + c) * NW + k] = 0;
      m->b[(NV + v + c) * NW + w + c] = R(1.0);
    }
  }
}

//@ end
//@ if parts
int @n@_linearize(@n@ *m) {
  const real dt = m->dt;
  real c0 = 0, end[ND];
  int part, i, j, k, status;
  if (!(dt > 0)) return @N@_BAD_STEP;
  /* the step once more, part by part: Y_i = D_i M_i (14.2) */
  for (i = 0; i < NQ; ++i) m->q0[i] = m->q_start[i];
  for (i = 0; i < ND; ++i) {
    end[i] = m->p[i];
    m->p[i] = m->p_start[i];
  }
  for (i = 0; i < NX * NX; ++i) m->whole_a[i] = i / NX == i % NX ? R(1.0) : 0;
//@ if nw
  for (i = 0; i < NX * NW; ++i) m->whole_b[i] = 0;
//@ end
  status = @N@_OK;
  for (part = 0; part < @parts@ && status == @N@_OK; ++part) {
    const real c1 = c0 + part_length[part];
    if (part > 0)
      for (i = 0; i < NQ; ++i) m->q0[i] = m->y[i];
    status = composed_part(m, dt, part, c0, c1);
    if (status != @N@_OK) break;
//@ if nc
    for (i = 0; i < NC; ++i) m->lam[i] *= part_length[part];
//@ end
    status = linearize_step(m, part_length[part] * dt);
//@ if nc
    for (i = 0; i < NC; ++i) m->lam[i] /= part_length[part];
//@ end
    /* rows of the dynamic q and p, first beside what they are made of */
    for (i = 0; i < 2 * ND; ++i) {
      const int row = i < ND ? i : NV + i - ND;
      for (j = 0; j < NX; ++j) {
        real t = 0;
        for (k = 0; k < ND; ++k)
          t += m->a[row * NX + k] * m->whole_a[k * NX + j] + m->a[row * NX + NV + k] * m->whole_a[(NV + k) * NX + j];
//@ if nk
        if (j >= ND && j < NV)
          t += (R(1.0) - c0) * m->a[row * NX + j] + (R(1.0) - c1) * m->b[row * NW + NU + j - ND];
//@ end
        m->part_a[i * NX + j] = t;
      }
//@ if nw
      for (j = 0; j < NW; ++j) {
        real t = 0;
        for (k = 0; k < ND; ++k)
          t += m->a[row * NX + k] * m->whole_b[k * NW + j] + m->a[row * NX + NV + k] * m->whole_b[(NV + k) * NW + j];
        t += @part_by_input@;
        m->part_b[i * NW + j] = t;
      }
//@ end
    }
    for (i = 0; i < 2 * ND; ++i) {
      const int row = i < ND ? i : NV + i - ND;
      for (j = 0; j < NX; ++j) m->whole_a[row * NX + j] = m->part_a[i * NX + j];
//@ if nw
      for (j = 0; j < NW; ++j) m->whole_b[row * NW + j] = m->part_b[i * NW + j];
//@ end
    }
    c0 = c1;
  }
  for (i = 0; i < NQ; ++i) m->q0[i] = m->q_start[i];
  for (i = 0; i < ND; ++i) m->p[i] = end[i];
  if (status != @N@_OK) return status;
//@ if nk
  for (k = 0; k < NK; ++k) {
    for (j = 0; j < NX; ++j) m->whole_a[(ND + k) * NX + j] = m->whole_a[(NV + ND + k) * NX + j] = 0;
    for (j = 0; j < NW; ++j) m->whole_b[(ND + k) * NW + j] = m->whole_b[(NV + ND + k) * NW + j] = 0;
    m->whole_b[(ND + k) * NW + NU + k] = R(1.0);
    m->whole_b[(NV + ND + k) * NW + NU + k] = R(1.0) / dt;
    m->whole_a[(NV + ND + k) * NX + ND + k] = R(-1.0) / dt;
  }
//@ end
  for (i = 0; i < NX * NX; ++i) m->a[i] = m->whole_a[i];
//@ if nw
  for (i = 0; i < NX * NW; ++i) m->b[i] = m->whole_b[i];
//@ end
//@ if balls
  to_body(m);
//@ end
  return @N@_OK;
}
//@ else
int @n@_linearize(@n@ *m) {
  int status = @N@_BAD_STEP;
  if (m->dt > 0) status = linearize_step(m, m->dt);
//@ if led
  if (status == @N@_OK) by_turns(m, m->dt);
//@ end
//@ if balls
  if (status == @N@_OK) to_body(m);
//@ end
  return status;
}
//@ end
//@ end
//@ if ball_control

/* ---- configurations, for filter and regulator ---------------------------------------------------------------------- */

void @n@_move(const @n@_real *dv, @n@_real *q) {
//@ if led
  int i;
  for (i = ND; i < NV; ++i)
    if (number_q[i] >= 0) q[number_q[i]] += dv[i];
  for (i = NBD; i < NB; ++i) turn_by(q + ball_q[i], dv + ball_v[i], R(1.0), q + ball_q[i]);
//@ end
  move(q, dv, R(1.0), q);
}

void @n@_way(@n@_real *q0, const @n@_real *q1, @n@_real *dv) {
  int i;
  for (i = 0; i < NB; ++i) normalize(q0 + ball_q[i]);
//@ if led
  for (i = ND; i < NV; ++i)
    if (number_q[i] >= 0) dv[i] = q1[number_q[i]] - q0[number_q[i]];
  for (i = NBD; i < NB; ++i) {
    real by[4];
    turn_between(q0 + ball_q[i], q1 + ball_q[i], by, dv + ball_v[i]);
  }
//@ end
  way(q0, q1, dv);
}
//@ if ekf

/* P = Jr P Jr' on the balls, Jr = 1 - (1 - cos)/|phi|^2 [phi]x + (|phi| - sin)/|phi|^3 [phi]x^2 the inverse of D */
void @n@_recentre(@n@ *m) {
  int i, k, c;
  for (i = 0; i < NB; ++i) {
    const int v = ball_v[i];
    real by[4], phi[3], s, first, second, jacobian[9] = {0}, skew[9] = {0}, square[9], x[3], y[3];
    turn_between(m->q_before + ball_q[i], m->q + ball_q[i], by, phi);
    s = dot(phi, phi);
    if (s < R(@small_angle@)) {
      first = R(0.5) - s * (R(1.0 / 24) - s / R(720.0));
      second = R(1.0 / 6) - s * (R(1.0 / 120) - s / R(5040.0));
    } else {
      first = (R(1.0) - COS(SQRT(s))) / s;
      second = (SQRT(s) - SIN(SQRT(s))) / (s * SQRT(s));
    }
    add_skew(phi, R(1.0), skew);
    times(skew, skew, square);
    for (c = 0; c < 9; ++c) jacobian[c] = (c % 4 == 0 ? R(1.0) : 0) - first * skew[c] + second * square[c];
    for (k = 0; k < NX; ++k) { /* rows, then columns */
      for (c = 0; c < 3; ++c) x[c] = m->covariance[(v + c) * NX + k];
      apply(jacobian, x, y);
      for (c = 0; c < 3; ++c) m->covariance[(v + c) * NX + k] = y[c];
    }
    for (k = 0; k < NX; ++k) {
      apply(jacobian, m->covariance + k * NX + v, y);
      for (c = 0; c < 3; ++c) m->covariance[k * NX + v + c] = y[c];
    }
  }
  for (i = 0; i < NX * NX; ++i) /* symmetric to the last bit */
    if (i / NX > i % NX) m->covariance[i] = m->covariance[(i % NX) * NX + i / NX];
}
//@ end
//@ end
//@ if along

/* ---- along the constraints: what a filter and a regulator need ---------------------------------------------------- */

//@ if tied
/* h, C1 = (Dh; a) at q, and the factors of C1 C1' of its first `rows`, by the first `variables` */
static int constraint_gram(mech *m, int rows, int variables) {
  int i, c;
  place_world(m, m->q);
  (void)constraint_rows(m, m->q, m->c1);
//@ if nvc
  velocity_directions(m, m->q, m->c1);
//@ end
  for (i = 0; i < NV; ++i)
    for (c = 0; c < NC; ++c) m->x[i * NC + c] = m->c1[c * NV + i];
  return schur_factor(m, rows, variables);
}

//@ end
/* M v + C' nu = p with C v + C_k v_k + b = 0: nu into m->gauge, p - C' nu into m->own */
int @n@_own_momentum(@n@ *m) {
  int i, c;
  place_world(m, m->q);
  place_joints(m->q, m->mid@not_only_seen@);
  for (i = 0; i < NV; ++i) m->v[i] = 0;
//@ if nk
  for (i = 0; i < NK; ++i) m->v[ND + i] = m->rate[i];
//@ end
  gradient(m);
  second_derivatives(m, 0@all_masses@); /* e12 = -M */
  (void)constraint_rows(m, m->q, m->c1);
//@ if nvc
  velocity_directions(m, m->q, m->c1);
//@ end
  if (!factor(m->e12)) return @N@_SINGULAR;
  for (i = 0; i < ND; ++i) {
    m->dy[i] = m->p[i] - m->lv[i];
    for (c = 0; c < NC; ++c) m->x[i * NC + c] = m->c1[c * NV + i];
  }
  solve(m->e12, m->dy, 1, 1);
  solve(m->e12, m->x, NC, NC);
  if (!schur_factor(m, NC, ND)) return @N@_SINGULAR;
  for (c = 0; c < NC; ++c) {
    real t = 0;
    for (i = 0; i < ND; ++i) t += m->c1[c * NV + i] * m->dy[i];
//@ if nk
    for (i = 0; i < NK; ++i) t -= m->c1[c * NV + ND + i] * m->rate[i];
//@ end
//@ if nvc
    if (c >= NH) t -= m->offset[c - NH];
//@ end
    m->gauge[c] = t;
  }
  schur_solve(m, m->gauge);
  for (i = 0; i < ND; ++i) {
    m->own[i] = m->p[i];
    for (c = 0; c < NC; ++c) m->own[i] -= m->c1[c * NV + i] * m->gauge[c];
    if (!(FABS(m->own[i]) <= LARGEST)) return @N@_NOT_FINITE;
  }
  return @N@_OK;
}

//@ end
//@ if speeds

/* ---- velocities, for sensors of them ------------------------------------------------------------------------------- */

//@ if nc
/* matrix = dC_c/dq, row c of C by tangent components of q (rows: its entries); after own_momentum, which leaves the poses and C1 */
static void constraint_turn(mech *m, int c, real *matrix) {
  int i;
//@ if balls
  int k;
//@ end
  for (i = 0; i < NV * NV; ++i) matrix[i] = 0;
  m->dlam[c] = R(1.0);
  add_slopes(m, m->q, m->c1, c, c + 1, m->dlam, matrix);
//@ if balls
  for (k = 0; k < NB; ++k) { /* components along body axes turn with them: [C]x/2 */
    real turned[9] = {0};
    add_skew(m->c1 + c * NV + ball_v[k], R(0.5), turned);
    for (i = 0; i < 9; ++i) matrix[(ball_v[k] + i / 3) * NV + ball_v[k] + i % 3] += turned[i];
  }
//@ end
}

//@ end
/* M v@plus_gauge@ = p of the dynamic variables with the prescribed rates@along_constraints@, and
 * M dv@plus_gauge_slope@ = dp - L_vq dq@minus_gauge_turn@ - M_k drate */
int @n@_velocity(@n@ *m) {
  int i, d;
//@ if nk
  int k;
//@ end
//@ if nc
  int c;
  i = @n@_own_momentum(m); /* dy, x: with the factors of -M; the gauge nu */
  if (i != @N@_OK) return i;
  for (i = 0; i < ND; ++i) {
    m->v[i] = -m->dy[i];
    for (c = 0; c < NC; ++c) m->v[i] += m->x[i * NC + c] * m->gauge[c];
  }
//@ else
  place_world(m, m->q);
  place_joints(m->q, m->mid@not_only_seen@);
  for (i = 0; i < NV; ++i) m->v[i] = 0;
//@ if nk
  for (i = 0; i < NK; ++i) m->v[ND + i] = m->rate[i];
//@ end
  gradient(m);
  second_derivatives(m, 0, 1); /* e12 = -M, e22 = M */
  for (i = 0; i < ND; ++i) m->dy[i] = m->lv[i] - m->p[i];
  if (!factor(m->e12)) return @N@_SINGULAR;
  solve(m->e12, m->dy, 1, 1);
  for (i = 0; i < ND; ++i) m->v[i] = m->dy[i];
//@ end
  for (i = 0; i < NV * NX; ++i) m->v_by[i] = 0; /* minus what stands to the right of M dv */
  for (i = 0; i < ND; ++i) {
    if (!(FABS(m->v[i]) <= LARGEST)) return @N@_NOT_FINITE;
    m->v_by[i * NX + NV + i] = R(-1.0);
//@ if nk
    for (k = 0; k < NK; ++k) m->v_by[i * NX + NV + ND + k] = m->e22[i * NV + ND + k];
//@ end
  }
  /* L_vq [6]: S_a.G_d for a above d or a = d, F_d.B_a for the transposed pair */
  gradient(m);
  for (d = 0; d < NM; ++d) {
    const int n = JOINT_NODE(d), vd = JOINT_V(d);
    real f[DM], g[DM];
    int a;
    inertia_times(node_mass[n], m->moment[n], m->inertia[n], m->twist[d], f);
    inertia_times(node_mass[n], m->moment[n], m->inertia[n], m->drift[d], g);
    add_force_cross(m->twist[d], m->momentum[n], g);
    for (a = d; a >= 0; a = joint_parent[a] - 1) {
      const int va = JOINT_V(a);
      if (va < ND) m->v_by[va * NX + vd] = motion_dot(m->twist[a], g);
      if (a != d && vd < ND) m->v_by[vd * NX + va] = motion_dot(m->drift[a], f);
    }
  }
//@ if balls
  for (d = 0; d < NB; ++d) { /* w = E(f) f' of the three hinges behind a ball: L_f' = E'p, E = 1 + (0, f3, 0; -f3, 0, 0; f2, 0, 0) */
    const int v = ball_v[d];
    const real *p = m->@ball_momentum@ + v;
    m->v_by[v * NX + v + 1] -= p[2];
    m->v_by[v * NX + v + 2] += p[1];
    m->v_by[(v + 1) * NX + v + 2] -= p[0];
  }
//@ end
//@ if nc
  /* nu.dC/dq beside L_vq, and C df' = -(v.dC + db) dq - C_k drate, in the place of l */
  for (c = 0; c < NC; ++c) {
    real *row = m->l + c * NX;
    int r;
    for (i = 0; i < NX; ++i) row[i] = 0;
    constraint_turn(m, c, m->e11);
//@ if nvc
    if (c >= NH) {
      const element *e = &constraints[c];
      for (i = 0; i < e->n; ++i) row[local_v[e->local + i]] -= m->out[1 + e->n + i];
    }
//@ end
    for (r = 0; r < NV; ++r)
      for (i = 0; i < NV; ++i) {
        if (r < ND) m->v_by[r * NX + i] += m->gauge[c] * m->e11[r * NV + i];
        row[i] -= m->v[r] * m->e11[r * NV + i];
      }
//@ if nk
    for (k = 0; k < NK; ++k) row[NV + ND + k] = -m->c1[c * NV + ND + k];
//@ end
//@ if balls
    for (d = 0; d < NB; ++d) { /* C dw = C (df' + dE w) */
      const int v = ball_v[d];
      const real *w = m->v + v, *by = m->c1 + c * NV + v;
      row[v + 1] -= by[2] * w[0];
      row[v + 2] -= by[0] * w[1] - by[1] * w[0];
    }
//@ end
  }
//@ end
  solve(m->e12, m->v_by, NX, NX); /* -M^-1 of minus the right sides */
//@ if nc
  /* C M^-1 C' dnu = C M^-1 right - row; x = -M^-1 C' */
  for (i = 0; i < NX; ++i) {
    for (c = 0; c < NC; ++c) {
      real t = m->l[c * NX + i];
      for (d = 0; d < ND; ++d) t -= m->c1[c * NV + d] * m->v_by[d * NX + i];
      m->dlam[c] = t;
    }
    schur_solve(m, m->dlam);
    for (d = 0; d < ND; ++d)
      for (c = 0; c < NC; ++c) m->v_by[d * NX + i] += m->x[d * NC + c] * m->dlam[c];
  }
//@ end
//@ if balls
  for (d = 0; d < NB; ++d) { /* dw = df' + dE w */
    const int v = ball_v[d];
    m->v_by[v * NX + v + 2] += m->v[v + 1];
    m->v_by[(v + 1) * NX + v + 2] -= m->v[v];
    m->v_by[(v + 2) * NX + v + 1] += m->v[v];
  }
//@ end
//@ if nk
  for (k = 0; k < NK; ++k) m->v_by[(ND + k) * NX + NV + ND + k] = R(1.0);
//@ end
  return @N@_OK;
}
//@ end
//@ if accelerated

/* ---- accelerations, for sensors of them [16] ----------------------------------------------------------------------- */

/* A_j and the forces f = I A + V x* I V of the bodies, summed over what a joint carries; with the accelerations m->ddq */
static void inverse_dynamics(mech *m, int bent) {
  int j, n, i, c;
  for (i = 0; i < DM; ++i) m->acc[0][i] = 0;
  /* weight: the world falls upwards */
//@ if planar
  m->acc[0][1] = -GRAVITY_X;
  m->acc[0][2] = -GRAVITY_Y;
//@ else
  m->acc[0][5] = -GRAVITY;
//@ end
  for (j = 0; j < NM; ++j) {
    const real *up = m->acc[joint_parent[j]];
    for (i = 0; i < DM; ++i)
      m->acc[j + 1][i] = up[i] + m->twist[j][i] * m->ddq[JOINT_V(j)] + m->drift[j][i] * m->v[JOINT_V(j)];
  }
  own_inertias(m);
  for (n = 0; n < NN; ++n) {
    const pose *here = &m->mid[BODY_POSE(n)];
    const real *v = m->velocity[BODY_POSE(n)], mass = body_mass[n];
    real first[DP], h[DM], y[DM], t[DM];
    rotate(here->rotation, body_moment[n], first);
    for (i = 0; i < DP; ++i) first[i] += mass * here->position[i];
    inertia_times(mass, first, m->inertia[n], v, h);
    inertia_times(mass, first, m->inertia[n], m->acc[BODY_POSE(n)], m->push[n]);
    add_force_cross(v, h, m->push[n]);
    if (!bent) continue;
    for (c = 0; c < DM; ++c) { /* column c of N: X -> I (X x V) + X x* I V + V x* I X */
      real x[DM] = {0};
      x[c] = R(1.0);
      motion_cross(x, v, t);
      inertia_times(mass, first, m->inertia[n], t, y);
      add_force_cross(x, h, y);
      inertia_times(mass, first, m->inertia[n], x, t);
      add_force_cross(v, t, y);
      for (i = 0; i < DM; ++i) m->bend[n][i * DM + c] = y[i];
    }
  }
  for (n = NN - 1; n > 0; --n) {
    if (node_parent[n] < 0) continue;
    motion_add(m->push[node_parent[n]], m->push[n]);
    if (bent)
      for (i = 0; i < DM * DM; ++i) m->bend[node_parent[n]][i] += m->bend[n][i];
  }
}

/* ddq of the continuous equations (prescribed variables at constant speed) at the state under the inputs of the last step,
 * and its derivatives by the state m->a_by; after @n@_velocity */
int @n@_acceleration(@n@ *m) {
  int i, k, d;
  for (i = 0; i < NV; ++i) m->ddq[i] = 0;
  inverse_dynamics(m, 0);
  for (i = 0; i < NV; ++i) m->lq[i] = 0;
  for (d = 0; d < NM; ++d) m->lq[JOINT_V(d)] = motion_dot(m->twist[d], m->push[JOINT_NODE(d)]);
//@ if potentials
  for (i = 0; i < @potentials@; ++i) {
    const element *e = &potentials[i];
    potential(m, e, m->q, m->mid, 0);
    for (k = 0; k < e->n; ++k) m->lq[local_v[e->local + k]] += m->out[1 + k];
  }
//@ end
//@ if any_force
  for (i = 0; i < ND; ++i) m->force[i] = @damping_force@;
//@ end
//@ if pushes
  for (i = 0; i < @pushes@; ++i) m->force[push_v[i]] += push_gear[i] * m->u[push_u[i]];
//@ end
//@ if forces
  for (i = 0; i < @forces@; ++i) {
    const element *e = &forces[i];
    force(m, e, m->q, m->mid, 0);
    for (k = 0; k < e->rows; ++k)
      if (local_v[e->row + k] < ND) m->force[local_v[e->row + k]] += m->out[k];
  }
//@ end
  for (i = 0; i < ND; ++i) m->dy[i] = m->lq[i]@minus_force@;
  solve(m->e12, m->dy, 1, 1); /* with the factors of -M */
  for (i = 0; i < ND; ++i) {
    m->ddq[i] = m->dy[i];
    if (!(FABS(m->ddq[i]) <= LARGEST)) return @N@_NOT_FINITE;
  }
  /* e11, e21: M ddq + ... by q and by v. With D = A x S + V x B, for a above d or a = d, N and I of what d carries (16.3):
   * by q_d: S_a.(S_d x* f + I D_d + N B_d),  by v_d: S_a.(2 I B_d + N S_d)
   * of d by q_a: D_a.(I S_d) + B_a.(N'S_d),  by v_a: 2 B_a.(I S_d) + S_a.(N'S_d) */
  inverse_dynamics(m, 1);
  composites(m);
  for (i = 0; i < NV * NV; ++i) m->e11[i] = m->e21[i] = 0;
  for (d = 0; d < NM; ++d) {
    const int n = JOINT_NODE(d), vd = JOINT_V(d);
    const real *s = m->twist[d], *b = m->drift[d];
    real swing[DM], by_q[DM], by_v[DM], is[DM], ns[DM], t[DM];
    int a;
    motion_cross(m->acc[d + 1], s, m->swing[d]);
    motion_cross(m->velocity[d + 1], b, swing);
    motion_add(m->swing[d], swing);
    inertia_times(node_mass[n], m->moment[n], m->inertia[n], m->swing[d], by_q);
    add_force_cross(s, m->push[n], by_q);
    inertia_times(node_mass[n], m->moment[n], m->inertia[n], b, t);
    inertia_times(node_mass[n], m->moment[n], m->inertia[n], s, is);
    for (i = 0; i < DM; ++i) {
      by_v[i] = R(2.0) * t[i];
      ns[i] = 0;
    }
    for (i = 0; i < DM; ++i)
      for (k = 0; k < DM; ++k) {
        by_q[i] += m->bend[n][i * DM + k] * b[k];
        by_v[i] += m->bend[n][i * DM + k] * s[k];
        ns[k] += m->bend[n][i * DM + k] * s[i];
      }
    for (a = d; a >= 0; a = joint_parent[a] - 1) {
      const int va = JOINT_V(a);
      m->e11[va * NV + vd] = motion_dot(m->twist[a], by_q);
      m->e21[va * NV + vd] = motion_dot(m->twist[a], by_v);
      if (a == d) continue;
      m->e11[vd * NV + va] = motion_dot(m->swing[a], is) + motion_dot(m->drift[a], ns);
      m->e21[vd * NV + va] = R(2.0) * motion_dot(m->drift[a], is) + motion_dot(m->twist[a], ns);
    }
  }
//@ if potentials
  for (i = 0; i < @potentials@; ++i) {
    const element *e = &potentials[i];
    potential(m, e, m->q, m->mid, 1);
    for (d = 0; d < e->n; ++d)
      for (k = 0; k < e->n; ++k)
        m->e11[local_v[e->local + d] * NV + local_v[e->local + k]] += m->out[1 + e->n + d * e->n + k];
  }
//@ end
//@ if damping
  for (i = 0; i < ND; ++i) m->e21[i * NV + i] += damping[i];
//@ end
//@ if forces
  for (i = 0; i < @forces@; ++i) {
    const element *e = &forces[i];
    const real *fq = m->out + e->rows, *fv = fq + e->rows * e->n;
    force(m, e, m->q, m->mid, 1);
    for (d = 0; d < e->rows; ++d) {
      const int row = local_v[e->row + d];
      if (row >= ND) continue;
      for (k = 0; k < e->n; ++k) {
        m->e11[row * NV + local_v[e->local + k]] -= fq[d * e->n + k];
        m->e21[row * NV + local_v[e->local + k]] -= fv[d * e->n + k];
      }
    }
  }
//@ end
  for (i = 0; i < ND; ++i)
    for (k = 0; k < NX; ++k) {
      real t = k < NV ? m->e11[i * NV + k] : 0;
      for (d = 0; d < NV; ++d) t += m->e21[i * NV + d] * m->v_by[d * NX + k];
      m->a_by[i * NX + k] = t;
    }
//@ if balls
  for (d = 0; d < NB; ++d) { /* of the three hinges behind a ball f' = w - dE w; torques along body axes turn with them */
    const int v = ball_v[d];
    const real *w = m->v + v;
    real torque[3];
    body_torque(m, v, R(1.0), torque);
    for (i = 0; i < ND; ++i) {
      m->a_by[i * NX + v + 1] -= m->e21[i * NV + v + 2] * w[0];
      m->a_by[i * NX + v + 2] -= m->e21[i * NV + v] * w[1] - m->e21[i * NV + v + 1] * w[0];
    }
    m->a_by[v * NX + v + 1] -= torque[2];
    m->a_by[v * NX + v + 2] -= -torque[1]@minus_damped_x@;
    m->a_by[(v + 1) * NX + v + 2] -= torque[0]@minus_damped_y@;
    m->a_by[(v + 2) * NX + v + 1] -= @minus_damped_z@;
  }
//@ end
  solve(m->e12, m->a_by, NX, NX);
//@ if balls
  for (d = 0; d < NB; ++d) { /* w' = f'' + (w2 w3, -w1 w3, w1 w2) */
    const int v = ball_v[d];
    const real *w = m->v + v, *at = m->ddq + v;
    const real by_rate[9] = {0, w[2], w[1], -w[2], 0, -w[0], w[1], w[0], 0};
    const real turned[9] = {0, 0, w[1], 0, 0, -w[0], 0, w[0], 0};
    real by_turn[9] = {0, -w[0] * w[1], at[1] - w[0] * w[2], 0, 0, -at[0] - w[1] * w[2], 0, at[0], 0};
    for (i = 0; i < 9; ++i)
      for (k = 0; k < 3; ++k) by_turn[i] -= by_rate[i / 3 * 3 + k] * turned[3 * k + i % 3];
    for (i = 0; i < 3; ++i) {
      for (k = 0; k < 3; ++k) m->a_by[(v + i) * NX + v + k] += by_turn[3 * i + k];
      for (k = 0; k < NX; ++k) {
        int c;
        for (c = 0; c < 3; ++c) m->a_by[(v + i) * NX + k] += by_rate[3 * i + c] * m->v_by[(v + c) * NX + k];
      }
    }
    m->ddq[v] += w[1] * w[2];
    m->ddq[v + 1] -= w[0] * w[2];
    m->ddq[v + 2] += w[0] * w[1];
  }
//@ end
  return @N@_OK;
}
//@ end
//@ if tied
int @n@_settle(@n@ *m) {
  int it, i;
//@ if nh
  real scale = 0;
  int c;
  for (it = 0;; ++it) {
    real worst = 0;
    if (!constraint_gram(m, NH, ND)) return @N@_SINGULAR;
    if (it == 0) {
      for (i = 0; i < NH * NV; ++i) scale = larger(scale, FABS(m->c1[i]));
      scale += R(1.0);
    }
    for (c = 0; c < NH; ++c) {
      worst = worse(worst, FABS(m->h[c]));
      m->dlam[c] = m->h[c];
    }
    if (!(worst <= LARGEST)) return @N@_NOT_FINITE;
    if (worst <= R(@settle_tolerance@) * scale) break;
    if (it >= @N@_MAX_ITERATIONS) return @N@_NOT_CONVERGED;
    schur_solve(m, m->dlam);
    for (i = 0; i < ND; ++i) {
      m->dy[i] = 0;
      for (c = 0; c < NH; ++c) m->dy[i] -= m->c1[c * NV + i] * m->dlam[c];
    }
    move(m->q, m->dy, R(1.0), m->q);
  }
//@ end
  it = @n@_own_momentum(m);
  if (it != @N@_OK) return it;
  for (i = 0; i < ND; ++i) m->p[i] = m->own[i];
  return @N@_OK;
}

/* v (first `to` entries, `stride` apart) -= C'(C C')^-1 D w with the first `from` entries of w; after constraint_gram */
static void take_out(mech *m, real *v, const real *w, int stride, int to, int from) {
  int i, c;
  for (c = 0; c < m->rows; ++c) {
    real t = 0;
    for (i = 0; i < from; ++i) t += m->c1[c * NV + i] * w[i * stride];
    m->dlam[c] = t;
  }
  schur_solve(m, m->dlam);
  for (i = 0; i < to; ++i)
    for (c = 0; c < m->rows; ++c) v[i * stride] -= m->c1[c * NV + i] * m->dlam[c];
}

void @n@_along(@n@ *m, @n@_real *covariance) {
  int i, side, part;
  for (part = 0; part < 2; ++part) { /* q by the constraints on it, p by all */
    if (!constraint_gram(m, part ? NC : NH, ND)) return;
    for (side = 0; side < 2; ++side)
      for (i = 0; i < NX; ++i) {
        real *v = side ? covariance + i * NX : covariance + i;
        const int stride = side ? 1 : NX;
        if (part) take_out(m, v + NV * stride, v + NV * stride, stride, ND, ND);
        else take_out(m, v, v, stride, ND, NV);
      }
  }
  for (i = 0; i < NX * NX; ++i) /* symmetric to the last bit */
    if (i / NX > i % NX) covariance[i] = covariance[(i % NX) * NX + i / NX];
}

int @n@_tangent(@n@ *m) {
  int i, j, k, status = @n@_own_momentum(m);
  if (status != @N@_OK) return status;
  /* e11 = nu . D2h: how the gauge turns when q moves */
  for (i = 0; i < NV * NV; ++i) m->e11[i] = 0;
  add_slopes(m, m->q, m->c1, 0, NC, m->gauge, m->e11);
//@ if balls
  for (k = 0; k < NB; ++k) { /* and components along body axes turn with them: [C'nu]x/2 */
    real push[3], turned[9] = {0};
    for (i = 0; i < 3; ++i) {
      push[i] = 0;
      for (j = 0; j < NC; ++j) push[i] += m->c1[j * NV + ball_v[k] + i] * m->gauge[j];
    }
    add_skew(push, R(0.5), turned);
    for (i = 0; i < 9; ++i) m->e11[(ball_v[k] + i / 3) * NV + ball_v[k] + i % 3] += turned[i];
  }
//@ end
  for (i = 0; i < ND; ++i)
    for (j = 0; j < NX; ++j)
      for (k = 0; k < NV; ++k) m->a[(NV + i) * NX + j] -= m->e11[i * NV + k] * m->a[k * NX + j];
  if (!constraint_gram(m, NC, ND)) return @N@_SINGULAR;
  for (j = 0; j < NX; ++j) take_out(m, m->a + NV * NX + j, m->a + NV * NX + j, NX, ND, ND);
  if (!constraint_gram(m, NH, NV)) return @N@_SINGULAR;
  for (j = 0; j < NX; ++j) take_out(m, m->a + j, m->a + j, NX, NV, NV);
  for (i = 0; i < ND; ++i) m->p[i] = m->own[i];
  return @N@_OK;
}
//@ end
