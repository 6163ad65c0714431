"""The code printed in Trajectory optimization in discrete mechanics, sections 2.2, 3.4 and 5.2, gives the printed output.

Changes: print is a function; `import trep` reads `import dalembert.trep as trep`; `np.rank` and matplotlib's `hold` no
longer exist in those libraries.
"""

import contextlib
import io
import re

import matplotlib as mpl
import numpy as np

SINGLE_STEP = """
import numpy as np
import dalembert.trep as trep
import scipy.optimize as so

# set mass, length, and gravity:
m = 1.0; l = 1.0; g = 9.8;

# set state and step conditions:
pk = 0.5 # discrete generalized momentum
qk = 0.2 # theta config
uk = 0.8 # input torque
dt = 0.1 # timestep

# create system
system = trep.System()
# define frames
frames = [
    trep.rz("theta_1", name="PendAngle"), [
        trep.ty(-l, name="PendMass", mass=m)]]
# add frames to system
system.import_frames(frames)
# add gravity potential
trep.potentials.Gravity(system, (0,-g,0))
# add a torque at the base
trep.forces.ConfigForce(system, "theta_1", "tau")

# create and initialize variational integrator
mvi = trep.MidpointVI(system)
mvi.initialize_from_state(0, np.array([qk]), np.array([pk]))

# take single step with VI:
mvi.step(mvi.t1+dt, np.array([uk])) # args are t2, u1
"""

COMPARE = """
# compare with manual computation results:
def DEL1(qkp1):
   return pk - (qkp1-qk)/dt - g*dt/2.*np.sin((qkp1+qk)/2.0) + uk*dt
# Implicitly solve DEL1 to get new config
qkp1 = so.newton(DEL1, qk)
# get new momentum
pkp1 = (qkp1-qk)/dt - g*dt/2.0*np.sin((qkp1+qk)/2.0)

# print results
print("trep VI results:\\tanalytical results:")
print("------")
print("qk+1 = ", mvi.q2[0], "\\tqk+1 = ", qkp1)
print("pk+1 = ", mvi.p2[0], "\\tpk+1 = ", pkp1)
"""

LINEARIZATION = """
import dalembert.trep.discopt as discopt
# calc derivatives of discrete Lagrangian:
q = system.get_config("theta_1")
print("D1D1Ld = ", \\
    dt/4*system.L_dqdq(q,q) - \\
    1/2.*system.L_ddqdq(q,q) - \\
    1/2*system.L_ddqdq(q,q) + \\
    1/dt*system.L_ddqddq(q,q))
print("D2D1Ld = ", \\
  dt/4*system.L_dqdq(q,q) + \\
  1/2.*system.L_ddqdq(q,q) - \\
  1/2*system.L_ddqdq(q,q) - \\
  1/dt*system.L_ddqddq(q,q))

# calc derivatives of qk+1
print("dqk+1/dqk = ",mvi.q2_dq1()[0][0])
print("dqk+1/dpk = ",mvi.q2_dp1()[0][0])
print("dqk+1/duk = ",mvi.q2_du1()[0][0])

# calc derivatives of pk+1
print("dpk+1/dqk = ",mvi.p2_dq1()[0][0])
print("dpk+1/dpk = ",mvi.p2_dp1()[0][0])
print("dpk+1/duk = ",mvi.p2_du1()[0][0])

# calculate A and B using discopt module:
dsys = discopt.DSystem(mvi, np.array([0,dt]))
dsys.set(np.array([qk,pk]),np.array([uk]),0)
A = dsys.fdx()
B = dsys.fdu()
C = np.hstack((B, np.dot(A,B)))
print("A = \\n",A)
print("B = \\n",B)
print("C = \\n",C)
print("rank(C) = ",np.linalg.matrix_rank(C))
"""

CART_PENDULUM = """
from math import pi
import numpy as np
import dalembert.trep as trep
import dalembert.trep.visual as visual
import matplotlib.pylab as mp
import dalembert.trep.discopt as discopt

# set mass, length, and gravity:
m = 1.0; l = 1.0; g = 9.8; mc = 1;

# define initial state
q0 = np.array([0, pi]) # x = [x_cart, theta]
p0 = np.array([0, 0])
X0 = np.hstack([q0,p0])

# define time parameters:
dt = 0.1
tf = 10.

# define reference trajectory
ad = 7*pi/8.
def fref(t):
    if 0<t and t<3:
        return pi
    elif 3<=t and t<7:
        return pi + (ad-pi)*np.sin(pi/4.*(t-3))
    elif t<=10:
        return pi
    else:
        print("Error!")

# create system
system = trep.System()
# define frames
frames = [
    trep.tx("x_cart", name="CartFrame", mass=mc), [
        trep.rz("theta", name="PendulumBase"), [
            trep.ty(-1, name="Pendulum", mass=m)]]]
# add frames to system
system.import_frames(frames)
# add gravity potential
trep.potentials.Gravity(system, (0,-g,0))
# add a horizontal force on the cart
trep.forces.ConfigForce(system, "x_cart", "cart_force")

# create a variational integrator, and a discrete system
t = np.arange(0,tf+dt,dt)
mvi = trep.MidpointVI(system)
dsys = discopt.DSystem(mvi, t)

# create an initial guess and reference trajectory
(Xinit,Uinit) = dsys.build_trajectory([q0.tolist()]*len(t))
qref = [[0, fref(x)] for x in t]
(Xref,Uref) = dsys.build_trajectory(qref)

# create cost functions:
Q = np.diag([100, 50000, 0.1, 0.1])
R = np.diag([1])
cost = discopt.DCost(Xref, Uref, Q, R)

# define an optimizer object
optimizer = discopt.DOptimizer(dsys, cost)

# setup and perform optimization
optimizer.first_method_iterations = 4
"""

OPTIMIZE = """
finished, X, U = optimizer.optimize(Xinit, Uinit)

l1 = mp.plot(t, Xref[:,0:2],"--",lw=2, color="gray")[0]
l2 = mp.plot(t, X[:,0:2],lw=2,color="black")[0]
mp.legend([l1,l2],["Reference", "Optimal"],
          loc="lower right")
mp.xlabel("time [s]")
mp.show()
"""


def run(*parts):
    """Namespace and printed text of a script."""
    space: dict = {}
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for part in parts:
            exec(compile(part, "<listing>", "exec"), space)
    return space, text.getvalue()


def as_python2(text):
    """Numbers as Python 2 printed them: 12 digits."""
    return re.findall(r"\S+ = +\S+", re.sub(r"-?\d+\.\d{9,}(?:e-?\d+)?", lambda x: format(float(x[0]), ".12g"), text))


def cart_pendulum():
    space, _ = run(CART_PENDULUM)
    return space["optimizer"], space["Xinit"], space["Uinit"]


def test_section_2_2():
    _, text = run(SINGLE_STEP, COMPARE)
    assert text.startswith("trep VI results:\tanalytical results:\n")
    wanted = ["qk+1 =  0.247136194156"] * 2 + ["pk+1 =  0.362723883111"] * 2
    assert as_python2(text) == wanted


def test_section_3_4():
    space, text = run(SINGLE_STEP, LINEARIZATION)
    lines = [re.sub(r" +", " ", x) for x in as_python2(text)]
    assert lines[:8] == [
        "D1D1Ld = 9.7610974193",
        "D2D1Ld = -10.2389025807",
        "dqk+1/dqk = 0.953334338555",
        "dqk+1/dpk = 0.0976667169278",
        "dqk+1/duk = 0.00976667169278",
        "dpk+1/dqk = -0.933313228895",
        "dpk+1/dpk = 0.953334338555",
        "dpk+1/duk = 0.0953334338555",
    ]
    assert np.array_equal(space["A"].round(8), [[0.95333434, 0.09766672], [-0.93331323, 0.95333434]])
    assert np.array_equal(space["B"].round(8), [[0.00976667], [0.09533343]])
    assert np.array_equal(space["C"].round(8), [[0.00976667, 0.01862181], [0.09533343, 0.08176927]])
    assert lines[-1] == "rank(C) = 2"


def test_section_5_2():
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    space, text = run(CART_PENDULUM, OPTIMIZE)
    plt.close("all")
    assert space["finished"]
    assert abs(space["optimizer"].calc_cost(space["X"], space["U"]) - 49670.1095) < 1e-4
    assert "Error!" not in text
    assert len(space["optimizer"].monitor.get_costs()) == 6
    assert "converged" in text
