/* @title@
 *
 * Test vectors: what dalembert computes (in double precision) from the same start with the same inputs.
 */
#ifndef @N@_VECTORS_H
#define @N@_VECTORS_H

#include <math.h>

enum { VECTORS = @vectors@ };
/* how far the code may be from them, relative to the largest number of a state, a matrix or an input (or to one) */
#define VECTOR_BOUND (@vector_bound@)
//@ if linearize
#define VECTOR_SLOPE_BOUND (@slope_bound@)
//@ end
//@ if control
#define VECTOR_LOOP_BOUND (@loop_bound@)
//@ end

@vector_tables@
#endif
