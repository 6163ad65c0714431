/* @title@
 *
 * Test vectors: what dalembert computes (in double precision) from the same start with the same inputs.
 */
#ifndef @N@_VECTORS_H
#define @N@_VECTORS_H

#include <math.h>

enum { VECTORS = @vectors@ };
#define VECTOR_BOUND (@vector_bound@)

@vector_tables@
#endif
