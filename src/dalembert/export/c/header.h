/* @title@
 *
 * "@model@": q_k, p_k -> q_k+1, p_k+1 of a variational integrator (order @order@, alpha = @alpha@, forcing "@forcing@").
 * All memory is in one struct of @struct_note@; nothing is allocated, nothing recurses, nothing is
 * shared: use one struct per mechanism and thread. Along the motion of the test vectors (@vectors@ steps) the state stays
 * within @bound@ of that of dalembert, relative to its largest number or to one: what the motion makes of rounding.
//@ if control
 * In the loop with the design the numbers stay within @loop_bound@.
//@ end
 *
 *   @n@ m;
 *   @n@_start(&m, q, p);
 *   status = @n@_step(&m@u_example@@rho_example@, @N@_DT);   then m.q, m.p@lam_example@
@linearize_example@@control_example@ */
#ifndef @N@_H
#define @N@_H

#ifdef __cplusplus
extern "C" {
#endif

typedef @real@ @n@_real;

#define @N@_DT @dt@ /* the usual length of a step (s) */
#define @N@_MAX_ITERATIONS @max_iterations@

enum {
  @N@_NQ = @nq@, /* coordinates: @q_names@ */
  @N@_NV = @nv@, /* velocities */
  @N@_ND = @nd@, /* dynamic ones; momenta */
  @N@_NK = @nk@, /* prescribed ones@rho_names@ */
  @N@_NU = @nu@, /* inputs@u_names@ */
  @N@_NC = @nc@, /* constraints@of_velocities@ */
//@ if balls
  @N@_NB = @balls@, /* balls, four coordinates each (a quaternion w, x, y, z) and three velocities along body axes */
//@ end
  @N@_NJ = @nj@, /* joints */
  @N@_NM = @nm@, /* joints that carry mass */
  @N@_NN = @nn@, /* composite bodies */
  @N@_NX = @ndx@, /* states: q, p, rates of the prescribed variables */
  @N@_NW = @nw@  /* inputs and prescribed values */@nz_sizes@
};

/* what a function returns */
enum {
  @N@_OK = 0,
  @N@_NOT_CONVERGED = 1, /* Newton's method has not ended in @N@_MAX_ITERATIONS steps */
  @N@_SINGULAR = 2,      /* a matrix of the step cannot be inverted */
  @N@_NOT_FINITE = 3,    /* a number is NaN, infinite or too large, in what was given or in the result */
  @N@_TURNED_FAR = 4,    /* a hinge would turn by more than half a turn in one step: dt is too long */
  @N@_BAD_STEP = 5,      /* the length of the step is not positive */
  @N@_REFUSED = 6        /* the measurement is too far off (gate): the estimate stays as predicted */
};

@index_enums@
typedef struct {
  @n@_real rotation[@rotation_size@]; /* @rotation_words@ */
  @n@_real position[@dp@];
  @n@_real axis[@dp@];
  @n@_real angle, cosine, sine; /* of a hinge: what turned it last */
} @n@_pose;
//@ if balls

typedef struct { /* a ball during a step */
  @n@_real phi[3], cosine, t, t_slope, c, c_slope;
  @n@_real a[9], d[9], at[9], dt[9], x1[9], x2[9], y1[9], y2[9];
} @n@_ball;
//@ end

typedef struct {
  /* the state: read it, or set it by @n@_start */
  @n@_real q[@N@_NQ];
  @n@_real p[@N@_ND];
//@ if nk
  @n@_real rate[@N@_NK]; /* of the prescribed variables in the last step */
//@ end
//@ if nc
  @n@_real lam[@N@_NC]; /* multipliers of the last step; the force of constraint c is -lam[c]/dt times its gradient */
//@ end
  /* how the last step went */
  int iterations;       /* evaluations of Newton's method */
  @n@_real error; /* the residual that is left, in units of the tolerance */
//@ if linearize
  /* of the last step, after @n@_linearize: x_k+1 = f(x_k, w), A = df/dx, B = df/dw, by rows */
  @n@_real a[@N@_NX * @N@_NX];
//@ if nw
  @n@_real b[@N@_NX * @N@_NW];
//@ end
//@ end
//@ if ekf
  /* the filter: covariance of x, and of the last update the innovation and its squared length */
  @n@_real covariance[@N@_NX * @N@_NX];
  @n@_real innovation[@N@_NZ];
  @n@_real distance;
  int used; /* measured entries that were used */
//@ if noise_rows
  int predicted; /* which of the covariances of process noise is next */
//@ end
//@ end

  /* work: of no interest outside */
  @n@_real dt, floor;
  @n@_real q0[@N@_NQ], y[@N@_NQ], q_mid[@N@_NQ], v[@N@_NV], guess[@N@_ND], before[@N@_ND];
  int steps;
  @n@_real lq[@N@_NV], lv[@N@_NV], r[@N@_ND], dy[@N@_ND];
//@ if balls
  @n@_ball ball[@N@_NB];
//@ end
//@ if keep_p
  @n@_real p_start[@N@_ND];
//@ end
//@ if parts
  @n@_real q_start[@N@_NQ];
//@ if nk
  @n@_real q_end[@N@_NK];
//@ end
//@ if linearize
  @n@_real whole_a[@N@_NX * @N@_NX], part_a[2 * @N@_ND * @N@_NX];
//@ if nw
  @n@_real whole_b[@N@_NX * @N@_NW], part_b[2 * @N@_ND * @N@_NW];
//@ end
//@ end
//@ end
//@ if any_force
  @n@_real force[@N@_ND];
//@ end
//@ if nu
  @n@_real u[@N@_NU];
//@ end
  @n@_pose mid[@N@_NJ + 1];
//@ if seen
  @n@_pose end[@N@_NJ + 1];
//@ end
  @n@_real velocity[@N@_NM + 1][@dm@], twist[@N@_NM][@dm@], drift[@N@_NM][@dm@];
  @n@_real left1[@N@_NM][@dm@], left2[@N@_NM][@dm@];
  @n@_real momentum[@N@_NN][@dm@], inertia[@N@_NN][@di@], moment[@N@_NN][@dp@];
  @n@_real e12[@N@_NV * @N@_NV];
//@ if blocks
  @n@_real e11[@N@_NV * @N@_NV], e21[@N@_NV * @N@_NV], e22[@N@_NV * @N@_NV];
//@ if linearize
  @n@_real z[@N@_ND * @row_length@]; /* linear systems by rows */
//@ if nc
  @n@_real l[@N@_NC * @row_length@];
//@ end
//@ end
//@ if any_force
//@ if force_slopes
  @n@_real fx[@N@_ND * @N@_NV], fy[@N@_ND * @N@_NV];
//@ end
//@ if nu
  @n@_real fu[@N@_ND * @N@_NU];
//@ end
//@ if balls
  @n@_real gx[@N@_ND * @N@_NV], gy[@N@_ND * @N@_NV];
//@ if nu
  @n@_real gu[@N@_ND * @N@_NU];
//@ end
//@ end
//@ end
//@ end
//@ if elements
  @n@_real out[@out_size@];
//@ end
//@ if arguments
  @n@_real argument[@argument_size@];
//@ end
//@ if sites
  @n@_real gap[@dp@], gap_by[@max_local@][@dp@], turn[@max_local@][@da@];
//@ end
//@ if directions
  @n@_real span;
//@ end
//@ if axes_by
  @n@_real axis_by[@max_local@][@dp@];
//@ end
//@ if height
  @n@_real spin_by[@max_local@][3], tilt_by[@max_local@];
//@ end
//@ if wrench
  @n@_real local_twist[@max_local@][@dm@];
//@ end
//@ if nc
  @n@_real h[@N@_NC], dlam[@N@_NC], schur_x[@N@_NC], c0[@N@_NC * @N@_NV], c1[@N@_NC * @N@_NV];
  @n@_real x[@N@_NV * @N@_NC], schur[@N@_NC * @N@_NC];
  int row[@N@_NC], column[@N@_NC], rank, rows, carried;
//@ if nvc
  @n@_real cx[@nvc@ * @N@_NV], offset[@nvc@]; /* of constraints on velocities: by q_k, and b */
//@ end
//@ end
//@ if along
  @n@_real own[@N@_ND], gauge[@N@_NC];
//@ end
//@ if control
  @n@_real off[@N@_NX], state[@N@_NQ + @N@_ND + @N@_NK@plus_speeds@];
//@ if balls
  @n@_real q_before[@N@_NQ], reference[@N@_NQ];
//@ end
//@ end
//@ if sensing
  @n@_real sensed[@sensed@];
//@ if speeds
  @n@_real v_by[@N@_NV * @N@_NX];
//@ end
//@ if accelerated
  @n@_real ddq[@N@_NV], a_by[@N@_NV * @N@_NX], acc[@N@_NM + 1][@dm@], swing[@N@_NM][@dm@];
  @n@_real push[@N@_NN][@dm@], bend[@N@_NN][@dm@ * @dm@];
//@ end
//@ end
//@ if ekf
  unsigned char have[@N@_NZ];
  @n@_real product[@N@_NX * @N@_NX], cross[@N@_NX * @N@_NZ], gain[@N@_NX * @N@_NZ];
  @n@_real spread[@N@_NZ * @N@_NZ], white[@N@_NZ];
//@ end
} @n@;

/* Set the state: q (@N@_NQ), p (@N@_ND). Must be called once before anything else. */
void @n@_start(@n@ *m, const @n@_real *q, const @n@_real *p);

/* One step of length dt (s)@u_doc@@rho_doc@. On failure the state stays as it was. */
int @n@_step(@n@ *m@u_argument@@rho_argument@, @n@_real dt);
//@ if linearize

/* A and B (m->a, m->b) of the step that was made last. */
int @n@_linearize(@n@ *m);
//@ end
//@ if ekf

/* The filter of x = (q, p, rates): first mean q, p and variances (@N@_NX). */
void @n@_filter_start(@n@ *m, const @n@_real *q, const @n@_real *p, const @n@_real *variance);

/* The estimate after a step (as @n@_step), its covariance by the exact A; process noise in proportion to dt. */
int @n@_predict(@n@ *m@u_argument@@rho_argument@, @n@_real dt);

/* The estimate after a measurement z (@N@_NZ); NaN where nothing was measured. */
int @n@_update(@n@ *m, const @n@_real *z);
//@ end
//@ if gains

/* The regulator: w (@N@_NW), inputs and then the next prescribed values, in the state of m@time_doc@. */
int @n@_control(@n@ *m@time_argument@, @n@_real *w);
//@ end
//@ if speeds

/* for @n@_control.c: the velocities m->v of the state, and their derivatives m->v_by */
int @n@_velocity(@n@ *m);
//@ end
//@ if accelerated

/* for @n@_control.c, after that: the accelerations m->ddq under the inputs of the last step, and their derivatives m->a_by */
int @n@_acceleration(@n@ *m);
//@ end
//@ if along

/* for @n@_control.c: the momentum without what no step feels */
int @n@_own_momentum(@n@ *m);
//@ end
//@ if tied

/* for @n@_control.c: brings the mean back to the constraints; A and covariances along them */
int @n@_settle(@n@ *m);
int @n@_tangent(@n@ *m);
void @n@_along(@n@ *m, @n@_real *covariance);
//@ end
//@ if ball_control

/* for @n@_control.c: q moved by dv; the way from q0 to q1 (made to have unit quaternions); the covariance of
 * differences from q in the place of those from q_before */
void @n@_move(const @n@_real *dv, @n@_real *q);
void @n@_way(@n@_real *q0, const @n@_real *q1, @n@_real *dv);
//@ if ekf
void @n@_recentre(@n@ *m);
//@ end
//@ end
#ifdef __cplusplus
}
#endif

#endif
