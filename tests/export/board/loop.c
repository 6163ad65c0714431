/* The loop of a regulator and a filter on the vectors. With PRINTS: how many instructions a cycle of it takes. */
#include "name.h"

#ifdef PRINTS
#include "name_vectors.h"

#include <stdint.h>
#include <stdio.h>

uint32_t ticks(void);
static name m;

int main(void) {
  uint32_t sum = 0;
  int k, most = 0;
  name_real w[NAME_NW];
  name_filter_start(&m, vector_q, vector_p, vector_variance);
  (void)ticks();
  for (k = 0; k < VECTORS; ++k) {
    if (name_control(&m, TIME, w) != NAME_OK || name_predict(&m, w, NAME_DT) != NAME_OK) return 1;
    if (m.iterations > most) most = m.iterations;
    if (name_update(&m, vector_z[k]) != NAME_OK) return 2;
    sum += ticks();
  }
  printf("instructions %lu per cycle, at most %d evaluations\n", (unsigned long)sum * 40u / VECTORS, most);
  return 0;
}
#else
/* what a firmware has: sensors and motors at addresses */
static name m;
volatile name_real sensors[NAME_NZ], motors[NAME_NW], first[NAME_NX];

int main(void) {
  name_real x[NAME_NX], z[NAME_NZ], w[NAME_NW];
  int i, k;
  for (i = 0; i < NAME_NX; ++i) x[i] = first[i];
  name_filter_start(&m, x, x + NAME_NQ, x);
  for (k = 0;; ++k) {
    if (name_control(&m, TIME, w) != NAME_OK || name_predict(&m, w, NAME_DT) != NAME_OK) return 1;
    for (i = 0; i < NAME_NZ; ++i) z[i] = sensors[i];
    if (name_update(&m, z) != NAME_OK) return 2;
    for (i = 0; i < NAME_NW; ++i) motors[i] = w[i];
  }
}
#endif
