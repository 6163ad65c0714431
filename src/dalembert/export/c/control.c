/* @title@
 *
 * @control_title@ of the model "@model@".
 */
#include "@n@.h"

#include <math.h>

typedef @n@_real real;
typedef @n@ mech;

enum {
  NQ = @N@_NQ,
  NV = @N@_NV,
  ND = @N@_ND,
  NK = @N@_NK,
  NU = @N@_NU,
  NC = @N@_NC,
  NX = @N@_NX,
  NW = @N@_NW@nz_local@
};

#define R(x) ((real)(x))
#define SQRT @sqrt@
#define FABS @fabs@
#define FLOOR @floor@
#define LARGEST R(@largest@)

/* ---- the design -------------------------------------------------------------------------------------------------- */

@design@
static int is_finite(real x) { return FABS(x) <= LARGEST; }

/* x = (q, p, rates of the prescribed variables) into m->state */
static void read_state(mech *m) {
  int i;
  for (i = 0; i < NQ; ++i) m->state[i] = m->q[i];
  for (i = 0; i < ND; ++i) m->state[NQ + i] = m->p[i];
//@ if nk
  for (i = 0; i < NK; ++i) m->state[NQ + ND + i] = m->rate[i];
//@ end
}
//@ if ekf

/* ---- extended Kalman filter -------------------------------------------------------------------------------------- */

void @n@_filter_start(@n@ *m, const @n@_real *q, const @n@_real *p, const @n@_real *variance) {
  int i;
  @n@_start(m, q, p);
  for (i = 0; i < NX * NX; ++i) m->covariance[i] = 0;
  for (i = 0; i < NX; ++i) m->covariance[i * NX + i] = variance[i];
  for (i = 0; i < NZ; ++i) m->innovation[i] = 0;
  m->distance = 0;
  m->used = 0;
//@ if noise_rows
  m->predicted = 0;
//@ end
//@ if tied
  if (@n@_settle(m) == @N@_OK) @n@_along(m, m->covariance);
//@ end
}

/* to += the sum of a[k] times row k of a matrix, in (at least) its first columns: two columns and up to four rows at a
 * time, NX is even. What A has for rates of prescribed variables is zero. */
static void add_rows(const real *a, const real *matrix, int columns, real *to) {
  int j, k;
  for (k = 0; k + 4 <= NV + ND; k += 4) {
    const real a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3], *row = matrix + k * NX;
    for (j = 0; j < columns; j += 2) {
      const real *r = row + j, *s = r + NX, *t = s + NX, *u = t + NX;
      const real first = to[j] + ((a0 * r[0] + a1 * s[0]) + (a2 * t[0] + a3 * u[0]));
      const real second = to[j + 1] + ((a0 * r[1] + a1 * s[1]) + (a2 * t[1] + a3 * u[1]));
      to[j] = first;
      to[j + 1] = second;
    }
  }
  for (; k < NV + ND; k += 2) {
    const real a0 = a[k], a1 = a[k + 1], *r = matrix + k * NX, *s = r + NX;
    for (j = 0; j < columns; j += 2) {
      const real first = to[j] + (a0 * r[j] + a1 * s[j]), second = to[j + 1] + (a0 * r[j + 1] + a1 * s[j + 1]);
      to[j] = first;
      to[j + 1] = second;
    }
  }
}

/* P = A P A' + Q dt/DT */
int @n@_predict(@n@ *m@u_argument@@rho_argument@, @n@_real dt) {
  const real *noise = @noise_row@, share = dt / @N@_DT;
  int i, j, status;
  status = @n@_step(m@u_pass@@rho_pass@, dt);
  if (status != @N@_OK) return status;
  status = @n@_linearize(m);
  if (status != @N@_OK) return status;
//@ if tied
  status = @n@_tangent(m); /* A along the constraints at the end of the step, p without what no step feels */
  if (status != @N@_OK) return status;
//@ end
  for (i = 0; i < NX; ++i) { /* product = P A': its columns are the rows of A P */
    real row[NX] = {0};
    add_rows(m->a + i * NX, m->covariance, NX, row);
    for (j = 0; j < NX; ++j) m->product[j * NX + i] = row[j];
  }
//@ if tied
  for (i = 0; i < NX * NX; ++i) m->covariance[i] = noise[i] * share;
  @n@_along(m, m->covariance);
//@ end
  for (i = 0; i < NX; ++i) {
    real *row = m->covariance + i * NX;
//@ if tied
//@ else
//@ if noise_full
    for (j = 0; j < NX; ++j) row[j] = noise[i * NX + j] * share;
//@ else
    for (j = 0; j < NX; ++j) row[j] = 0;
    row[i] = noise[i] * share;
//@ end
//@ end
    add_rows(m->a + i * NX, m->product, i + 1, row);
    for (j = 0; j <= i; ++j) {
      if (!is_finite(row[j])) return @N@_NOT_FINITE;
      m->covariance[j * NX + i] = row[j];
    }
  }
//@ if noise_rows
  if (m->predicted + 1 < @noise_rows@) m->predicted += 1;
//@ end
  return @N@_OK;
}

/* S = C P C' + R, K = P C' S^-1, x += K (z - C x), P = (1 - K C) P (1 - K C)' + K R K' */
int @n@_update(@n@ *m, const @n@_real *z) {
  const real *slope = @slope@;
  real length = 0;
  int i, j, k, count = 0;
  read_state(m);
//@ if sensing
//@ if speeds
  i = @n@_velocity(m);
  if (i != @N@_OK) return i;
  for (i = 0; i < NV; ++i) m->state[NQ + ND + NK + i] = m->v[i];
//@ end
//@ if accelerated
  i = @n@_acceleration(m);
  if (i != @N@_OK) return i;
  for (i = 0; i < NV; ++i) m->state[NQ + ND + NK + NV + i] = m->ddq[i];
//@ end
  sensor_values(m->state, m->sensed);
//@ if speeds
  for (i = 0; i < @speeds@; ++i) { /* dh/dx += dh/dv dv/dx@and_accelerations@ */
    real *row = m->sensed + NZ + sensor_first[moving_row[i]];
    for (k = 0; k < NV; ++k)
      for (j = 0; j < NX; ++j) row[j] += m->sensed[@sensed_by_x@ + i * @felt@ + k] * m->v_by[k * NX + j];
//@ if accelerated
    for (k = 0; k < NV; ++k)
      for (j = 0; j < NX; ++j) row[j] += m->sensed[@sensed_by_x@ + i * @felt@ + NV + k] * m->a_by[k * NX + j];
//@ end
  }
//@ end
//@ end
  for (i = 0; i < NZ; ++i) {
    m->have[i] = z[i] == z[i]; /* NaN: not measured */
    if (!m->have[i]) {
      m->innovation[i] = z[i];
      continue;
    }
    if (!is_finite(z[i])) return @N@_NOT_FINITE;
//@ if sensing
    m->innovation[i] = z[i] - m->sensed[i];
//@ else
    m->innovation[i] = z[i];
    for (k = sensor_first[i]; k < sensor_first[i + 1]; ++k)
      m->innovation[i] -= slope[k] * m->state[sensor_state[k]];
//@ end
//@ if angles
    if (sensor_angle[i]) { /* to (-pi, pi] */
      const real turn = R(6.283185307179586), e = m->innovation[i];
      m->innovation[i] = e - turn * -FLOOR(-(e / turn - R(0.5)));
    }
//@ end
    ++count;
  }
  m->used = 0;
  m->distance = 0;
  if (count == 0) return @N@_OK;
  /* cross = P C', and the covariance of what is measured */
  for (i = 0; i < NX; ++i)
    for (j = 0; j < NZ; ++j) {
      real t = 0;
      if (m->have[j])
        for (k = sensor_first[j]; k < sensor_first[j + 1]; ++k)
          t += m->covariance[i * NX + sensor_state[k]] * slope[k];
      m->cross[i * NZ + j] = t;
    }
  for (i = 0; i < NZ; ++i)
    for (j = 0; j <= i; ++j) {
      real t = sensor_noise[i * NZ + j];
      if (m->have[i] && m->have[j]) {
        for (k = sensor_first[i]; k < sensor_first[i + 1]; ++k) t += slope[k] * m->cross[sensor_state[k] * NZ + j];
      } else {
        t = i == j ? R(1.0) : 0;
      }
      m->spread[i * NZ + j] = t;
    }
  /* its Cholesky factor */
  for (j = 0; j < NZ; ++j) {
    real d = m->spread[j * NZ + j];
    for (k = 0; k < j; ++k) d -= m->spread[j * NZ + k] * m->spread[j * NZ + k];
    if (!(d > 0) || !is_finite(d)) return @N@_SINGULAR;
    d = SQRT(d);
    m->spread[j * NZ + j] = d;
    for (i = j + 1; i < NZ; ++i) {
      real t = m->spread[i * NZ + j];
      for (k = 0; k < j; ++k) t -= m->spread[i * NZ + k] * m->spread[j * NZ + k];
      m->spread[i * NZ + j] = t / d;
    }
  }
  /* squared length of the innovation */
  for (i = 0; i < NZ; ++i) {
    real t = m->have[i] ? m->innovation[i] : 0;
    for (k = 0; k < i; ++k) t -= m->spread[i * NZ + k] * m->white[k];
    m->white[i] = t / m->spread[i * NZ + i];
    length += m->white[i] * m->white[i];
  }
  m->distance = length;
//@ if gate
  if (!(length <= gate[count])) return @N@_REFUSED;
//@ end
  for (i = 0; i < NX; ++i) { /* row of the gain, and what it adds to the mean */
    real *row = m->gain + i * NZ;
    for (j = 0; j < NZ; ++j) {
      real t = m->cross[i * NZ + j];
      for (k = 0; k < j; ++k) t -= m->spread[j * NZ + k] * row[k];
      row[j] = t / m->spread[j * NZ + j];
    }
    for (j = NZ - 1; j >= 0; --j) {
      real t = row[j];
      for (k = j + 1; k < NZ; ++k) t -= m->spread[k * NZ + j] * row[k];
      row[j] = t / m->spread[j * NZ + j];
    }
    m->off[i] = 0;
    for (j = 0; j < NZ; ++j) {
      if (m->have[j]) m->off[i] += row[j] * m->innovation[j];
      else row[j] = 0;
    }
  }
//@ if balls
  for (i = 0; i < NQ; ++i) m->q_before[i] = m->q[i];
  @n@_move(m->off, m->q);
//@ if led
//@ else
//@ if nk
  for (i = 0; i < NK; ++i) m->q[NQ - NK + i] += m->off[ND + i];
//@ end
//@ end
//@ else
  for (i = 0; i < NQ; ++i) m->q[i] += m->off[i];
//@ end
  for (i = 0; i < ND; ++i) m->p[i] += m->off[NV + i];
//@ if nk
  for (i = 0; i < NK; ++i) m->rate[i] += m->off[NV + ND + i];
//@ end
  /* (1 - K C) P = P - K cross', then times (1 - K C)', plus K R K' */
  for (i = 0; i < NX; ++i) {
    real *row = m->covariance + i * NX;
    const real *gain = m->gain + i * NZ;
    for (j = 0; j < NX; ++j) {
      real t = row[j];
      for (k = 0; k < NZ; ++k) t -= gain[k] * m->cross[j * NZ + k];
      row[j] = t;
    }
    for (j = 0; j < NZ; ++j) { /* row i of K R - (1 - K C) P C' */
      real t = 0;
      for (k = 0; k < NZ; ++k)
        if (m->have[k]) t += gain[k] * sensor_noise[k * NZ + j];
      for (k = sensor_first[j]; k < sensor_first[j + 1]; ++k) t -= row[sensor_state[k]] * slope[k];
      m->white[j] = m->have[j] ? t : 0;
    }
    for (j = 0; j <= i; ++j) {
      real t = row[j];
      for (k = 0; k < NZ; ++k) t += m->white[k] * m->gain[j * NZ + k];
      row[j] = t;
      if (!is_finite(t)) return @N@_NOT_FINITE;
    }
  }
  for (i = 0; i < NX; ++i)
    for (j = 0; j < i; ++j) m->covariance[j * NX + i] = m->covariance[i * NX + j];
  m->used = count;
//@ if tied
  i = @n@_settle(m);
  if (i != @N@_OK) return i;
//@ end
//@ if balls
  @n@_recentre(m); /* P of differences from the new mean */
//@ end
//@ if tied
  @n@_along(m, m->covariance);
//@ end
  return @N@_OK;
}
//@ end
//@ if gains

/* ---- regulator ---------------------------------------------------------------------------------------------------- */

//@ if moving_gains
/* entry i of a table along the motion: between two rows `share` of the way */
static real between(const real *table, int row, int next, int width, int i, real share) {
  const real a = table[row * width + i];
  return a + share * (table[next * width + i] - a);
}

//@ end
/* u = U - K (x - X), then within its limits */
int @n@_control(@n@ *m@time_argument@, @n@_real *w) {
  int i, j;
//@ if moving_gains
  real place = t / (R(@gain_every@) * @N@_DT), share;
  int row, next;
  if (!(place == place)) return @N@_NOT_FINITE;
  if (place < 0) place = 0;
  if (place > R(@gain_rows@ - 1)) place = R(@gain_rows@ - 1);
  row = (int)(place + R(@place_slack@));
  share = place - R(row);
  if (share < R(@place_slack@)) share = 0; /* at a row itself */
  next = row + 1 < @gain_rows@ ? row + 1 : row;
//@ end
//@ if gauged
  i = @n@_own_momentum(m); /* m->own: p without what no step feels */
  if (i != @N@_OK) return i;
//@ end
  read_state(m);
//@ if gauged
  for (i = 0; i < ND; ++i) { /* in the gauge of the reference */
    m->state[NQ + i] = m->own[i];
    for (j = 0; j < NC; ++j) m->state[NQ + i] += m->c1[j * NV + i] * @gauge_entry@;
  }
//@ end
//@ if balls
  for (i = 0; i < NQ; ++i) m->reference[i] = @reference_entry@;
  @n@_way(m->reference, m->q, m->off);
//@ if led
//@ else
//@ if nk
  for (i = 0; i < NK; ++i) m->off[ND + i] = m->q[NQ - NK + i] - m->reference[NQ - NK + i];
//@ end
//@ end
  for (i = NQ; i < NQ + ND + NK; ++i) m->off[i - NQ + NV] = m->state[i] - @reference_entry@;
//@ else
  for (i = 0; i < NX; ++i) m->off[i] = m->state[i] - @reference_entry@;
//@ end
//@ if wrapped
  for (i = 0; i < @wrapped@; ++i) { /* hinges the shorter way round */
    const real turn = R(6.283185307179586), e = m->off[wrapped_state[i]];
    m->off[wrapped_state[i]] = e - turn * FLOOR(e / turn + R(0.5));
  }
//@ end
  for (i = 0; i < NW; ++i) {
    real u = @input_entry@;
    for (j = 0; j < NX; ++j) u -= @gain_entry@ * m->off[j];
    if (!is_finite(u)) return @N@_NOT_FINITE;
//@ if limits
    if (u < input_least[i]) u = input_least[i];
    if (u > input_most[i]) u = input_most[i];
//@ end
    w[i] = u;
  }
  return @N@_OK;
}
//@ end
