/* @title@
 *
 * An example that is also a test: runs the exported functions on the numbers of @n@_vectors.h, which dalembert has
 * computed, and prints the largest difference, in units of what rounding may amount to. Replace the printing, and it
 * runs on any computer.
 */
#include "@n@.h"
#include "@n@_vectors.h"

#include <stdio.h>

static @n@ m; /* all memory */
static @n@_real worst;

/* the largest difference from what is expected, relative to the largest of those numbers or to one, over its bound */
static void compare(const @n@_real *found, const @n@_real *expected, int count, double bound) {
  @n@_real scale = 1;
  int i;
  for (i = 0; i < count; ++i) {
    if (expected[i] > scale) scale = expected[i];
    if (-expected[i] > scale) scale = -expected[i];
  }
  for (i = 0; i < count; ++i) {
    const @n@_real d = (found[i] - expected[i]) / scale / (@n@_real)bound;
    if (!(d <= worst)) worst = d;
    if (!(-d <= worst)) worst = -d;
  }
}

static int failed(const char *what, int status) {
  printf("@n@: %s returned %d\n", what, status);
  return 1;
}

int main(void) {
  int k, status;
  /* steps */
  @n@_start(&m, vector_q, vector_p);
  for (k = 0; k < VECTORS; ++k) {
    status = @n@_step(&m@vector_u@@vector_rho@, @N@_DT);
    if (status != @N@_OK) return failed("@n@_step", status);
    compare(m.q, vector_steps[k], @N@_NQ, VECTOR_BOUND);
    compare(m.p, vector_steps[k] + @N@_NQ, @N@_ND, VECTOR_BOUND);
  }
//@ if linearize
  /* A and B of the last one */
  status = @n@_linearize(&m);
  if (status != @N@_OK) return failed("@n@_linearize", status);
  compare(m.a, vector_a, @N@_NX * @N@_NX, VECTOR_SLOPE_BOUND);
//@ if nw
  compare(m.b, vector_b, @N@_NX * @N@_NW, VECTOR_SLOPE_BOUND);
//@ end
//@ end
//@ if control
  /* the loop: @loop_words@ */
//@ if ekf
  @n@_filter_start(&m, vector_q, vector_p, vector_variance);
//@ else
  @n@_start(&m, vector_q, vector_p);
//@ end
  for (k = 0; k < VECTORS; ++k) {
//@ if gains
    @n@_real w[@N@_NW];
    status = @n@_control(&m@vector_time@, w);
    if (status != @N@_OK) return failed("@n@_control", status);
    compare(w, vector_w[k], @N@_NW, VECTOR_LOOP_BOUND);
//@ end
//@ if ekf
    status = @n@_predict(&m@loop_inputs@, @N@_DT);
    if (status != @N@_OK) return failed("@n@_predict", status);
    status = @n@_update(&m, vector_z[k]);
    if (status != @N@_OK) return failed("@n@_update", status);
    {
      int i;
      for (i = 0; i < @N@_NX; ++i) compare(&m.covariance[i * @N@_NX + i], &vector_covariance[k][i], 1, VECTOR_LOOP_BOUND);
    }
//@ else
    status = @n@_step(&m@loop_inputs@, @N@_DT);
    if (status != @N@_OK) return failed("@n@_step", status);
//@ end
    compare(m.q, vector_loop[k], @N@_NQ, VECTOR_LOOP_BOUND);
    compare(m.p, vector_loop[k] + @N@_NQ, @N@_ND, VECTOR_LOOP_BOUND);
  }
//@ end
  printf("@n@: %d steps, largest difference %.3g of its bound, %lu bytes of memory: %s\n", VECTORS, (double)worst,
         (unsigned long)sizeof m, worst <= 1 ? "ok" : "WRONG");
  return worst <= 1 ? 0 : 1;
}
