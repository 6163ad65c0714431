// ModelData: a mechanism as plain numbers, read-only after construction and shared by all threads (docs/kernels.md 1).
// Built by src/dalembert/model/compile.py; knows no names. Pose index 0 is the world; joint j has pose index j + 1.
#pragma once
#include <cstdint>
#include <vector>

namespace dalembert {

enum class ElementKind : int;  // elements/all.hpp

// how a step ended
enum StepStatus : int { StepOk = 0, StepNotConverged = 1, StepNotFinite = 2, StepSingular = 3, StepWrongRoot = 4 };

// BX, BY, BZ: the three columns of a ball, one after the other
enum class JointKind : int { TX, TY, TZ, RX, RY, RZ, BX, BY, BZ };

struct Ball {
  int q, v;   // first of its four coordinates, of its three velocity components
  int joint;  // the first of its three joints, which follow each other
};

struct FreeBody {  // nothing ties it to another one, and nothing but gravity and inputs acts on it (free_bodies.hpp)
  int ball;
  int slide;  // component of the first of its three slides, -1 for a fixed point
};

struct BallLocal {  // a ball among the local variables of an element
  int ball, at[3];  // places of its components
};

struct Joint {
  int parent;  // pose index of the parent
  JointKind kind;
  int q, v;       // its coordinate and velocity component
  int rot;        // pose index whose rotation this joint's frame has (itself, or shared with an ancestor)
  int node;       // composite node (massive joints), -1 for massless ones
  int depth_all;  // number of massive ancestors
  int slot;       // index into the list of revolute joints, -1 if prismatic
  int phi;        // slot of its 8x8 matrices in the O(n) elimination (massive joints)
  bool leaf;      // no massive joint below
  bool turned;    // R0 is not the identity
  bool shifted;   // p0 is not zero
  double R0[9];   // by columns
  double p0[3];
  double pitch;
  bool turns() const { return kind >= JointKind::RX; }
  bool of_ball() const { return kind >= JointKind::BX; }
  int axis() const { return int(kind) % 3; }
};

struct Node {  // composite body: all that moves rigidly with one joint, plus everything below
  int parent;  // parent node, -1 at a root
  int joint;   // pose index of the joint that carries the inertia
  int body;    // 0: no own inertia, 1: mass only, 2: diagonal inertia, 3: full
  double m, c[3], I[6];
  double mass;  // of the whole subtree
};

struct Site {  // a point fixed to a joint frame
  int pose;    // pose index
  double p[3];
  double R[9];  // by columns
};

struct Element {
  ElementKind kind;
  int n;     // number of local variables
  int vars;  // offset into local_q: q index of each local variable
  int pair;  // offset into pair table: n * n bytes, anc[i * n + k] = 1 if i is an ancestor of k or k itself
  int site_a, site_b, site_c;  // sites, -1 if unused
  int length_var;              // local index of a variable length, -1
  double par[8];
  int input[6];     // wrench components driven by an input, -1: constant in par
  int tape[3];      // tape programs, -1
  int spline;       // -1
  int nin;          // inputs of a tape force
  int in0;          // offset into tape_inputs
  int nrow;         // forced variables of a tape force
  int rows;         // offset into local_q: their q indices
  int ball, balls;  // balls among the local variables: offset into ball_local, number
};

struct Tape {
  int n_work, n_in, n_out;
  std::vector<int32_t> code;  // rows of (op, out, in1, in2)
  std::vector<double> constants;
};

struct SplineTable {
  std::vector<double> ends;  // left end of each piece; piece 0 extends to -inf
  std::vector<double> c;     // 6 per piece
  std::vector<double> area;  // integral from the second end to the left end of each piece
};

// Which blocks of joints contain the ancestors of each joint, itself included, for blocks of one size
struct RowPlan {
  std::vector<int> first, off;  // first joint of each block
  std::vector<int> mask;  // where in `masks` the block has its entries: -1 for ancestors and descendants of the joint
  std::vector<int64_t> masks;
  std::vector<unsigned char> paired;  // the next joint is a child with the same blocks: their rows are computed
                                      // together
};

// Static schedule of the elimination of a tree with loops (loops.hpp): what happens to which front, found once
enum class FrontOp : int { joint, add, pivot, join };
struct FrontStep {
  FrontOp kind;
  int front;  // whose matrix changes
  int index;  // joint: dynamic component; add, pivot: row of the constraints; join: first of its pairs in `moves`
  int at;     // joint: first entry of its pose; add, pivot: entry of the multiplier; join: number of pairs
  int to;     // joint: first entry of its parent's pose, kStays where that takes the same entries, kLeaves at a root;
              // join: the front that is taken over
  int row;    // where its two rows of factors start
};
// One entry of the whole matrix of a step: where it is in its row, and what it is made of (condensed.hpp)
struct CondensedEntry {
  enum Kind : int { upper, lower, diagonal, column, row };
  int at, kind, a, b;
};
struct CondensedPlan {
  std::vector<int> unknown;  // dynamic component, or nd + multiplier, in the order of elimination
  std::vector<CondensedEntry> entries;
  std::vector<int> entry_offset;
  std::vector<int> lower, lower_offset, upper, upper_offset;  // patterns of the factors by rows
  std::vector<int> meets;                                     // of each entry of `lower`: where that row has this one
  int dense = 0;                                              // from here on everything is full
};
struct LoopPlan {
  static constexpr int kStays = -1, kLeaves = -2;
  bool used = false;         // steps use it
  int lanes = 0;             // entries of a pose, padded: those of xi, then those of eta
  std::vector<int> xi, eta;  // which of the 8 and 6 entries can differ from zero
  std::vector<FrontStep> steps;
  std::vector<int> moves;                 // pairs of entries (to, from)
  std::vector<int> size, matrix, vector;  // of each front: entries (padded), where its matrix and its vectors start
  std::vector<int> place;  // 3 per constraint: first entry of the poses of its sites when it is added, -1: they rest
  std::vector<int> meet;   // of each constraint: pose above all its sites
  int matrices = 0, vectors = 0, rows = 0;  // sizes of all
  double work = 0;                          // multiply-adds of a factorization
  CondensedPlan condensed;                  // instead of fronts, where it has unknowns
};

constexpr int kShortElement = 64;  // longer ones would make the tables of a ladder grow as its cube

struct ModelData {
  int nq = 0, nqd = 0;         // coordinates; those of dynamic variables, which come first
  int nv = 0, nd = 0, nk = 0;  // velocity components: all, dynamic (first), prescribed
  int nu = 0, nc = 0, nh = 0;  // inputs, rows of constraints: nh holonomic ones, then those on velocities
  std::vector<int> v_q;        // coordinate of each velocity component; -1 - b for those of ball b
  std::vector<Ball> balls;
  bool flat = true;                   // no balls: component i has coordinate i
  std::vector<FreeBody> free_bodies;  // where the model has no others
  int nj = 0, nm = 0, nn = 0;         // joints, massive joints (first), composite nodes
  std::vector<Joint> joints;
  std::vector<Node> nodes;
  std::vector<int> root_nodes;  // those that no other carries
  std::vector<Site> sites;      // the first nf are the frames of the model, in order
  int nf = 0;
  double Rg[9];                // world axes in internal axes, by columns (gravity along internal z)
  double gz = 0;               // gravity on the whole system, along internal z
  double ref0[3] = {0, 0, 0};  // reference point: ref0 + sum ref_axis * q
  std::vector<int> ref_q;
  std::vector<double> ref_axis;                           // 3 each, world axes
  std::vector<int> angles;                                // q index of every revolute joint, by slot
  std::vector<int> constraint_joints, constraint_angles;  // joints (and their revolute q) that constraints see
  std::vector<int> constraint_angle_slot;                 // slot of joint in crev
  std::vector<int> hinges;                                // coordinates of the dynamic joints that turn about one axis
  std::vector<int> dyn_joint;                             // joint of each dynamic component
  std::vector<int> path_v, path_offset;     // components of the massive ancestors of each massive joint, itself last
  std::vector<int> path_joint;              // the same as joints
  std::vector<int> side_node, side_parent;  // node and parent of the massive joints, padded
  RowPlan rows4, rows8;
  bool in_order = false;     // massive joint j has variable j
  std::vector<int> mirror;   // first joints (i, k), i > k, of the blocks of four by four joints with related ones
  int mirrored = 0;          // joints whose rows these blocks cover
  std::vector<int> v_joint;  // joint of each velocity component, -1
  // structure of the Newton matrix: elimination tree over the dynamic variables
  std::vector<int> elim_parent, elim_depth, elim_row;  // parent, depth, offset of the packed row
  std::vector<int> elim_path, elim_path_offset;        // ancestors by depth
  std::vector<int> elim_below, elim_below_offset;      // descendants
  int packed = 0, phi_slots = 0;
  bool coupled = false;       // the elimination tree differs from the kinematic tree
  bool chain_solver = false;  // use the O(n) elimination for steps
  bool all_dynamic = false;   // massive joints and dynamic variables are the same, in the same order, and the trees
                              // agree
  bool single_chain = false;  // and every joint hangs from the one before
  std::vector<int> slot_map, slot_off;       // kinematic slot -> elimination slot, per row
  std::vector<int> pattern, pattern_offset;  // structurally non-zero columns of each row of second derivatives with
                                             // constraints, sorted
  std::vector<int> free_pattern, free_pattern_offset;      // the same without constraints
  std::vector<int> pattern_dynamic, free_pattern_dynamic;  // how many of them are dynamic (these come first)
  // elements
  std::vector<Element> potentials, forces, constraints;
  std::vector<int> local_q, local_v;  // variables of elements: coordinates (-1: of a ball) and velocity components
  std::vector<int> local_joint;       // pose index of their joint (-1: none)
  std::vector<BallLocal> ball_local;
  std::vector<double> local_turn;           // 1 where the local variable turns its joint, 0 elsewhere
  std::vector<unsigned char> path_flag;     // bit 0: on path of site a, bit 1: of site b, bit 2: of site c
  std::vector<unsigned char> ancestry;      // of elements of at most kShortElement variables: which are above which
  std::vector<int> pose_enter, pose_leave;  // poses in preorder: those below a pose have numbers in between
  std::vector<int> tape_inputs;
  std::vector<Tape> tapes;
  std::vector<SplineTable> splines;
  std::vector<double> damping;  // per dynamic variable
  bool has_damping = false;
  bool full_forces = false;           // forces have Jacobians that are more than the diagonal of damping
  std::vector<int> force_v, force_u;  // config forces: component, input
  std::vector<double> force_gear;     // and force per unit of the input
  std::vector<double> relation;       // coefficients of linear relations, by Element.par[1] offset
  LoopPlan loops;
  int max_local = 0, max_tape_work = 0, max_tape_io = 0;
};

}  // namespace dalembert
