"""numpy and scipy are enough for models, motions, linearization, regulators and filters; what is missing is named with its extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dalembert.extras import EXTRA_OF, IN_ALL

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {"PIL": "pillow", "collada": "pycollada"}  # import name -> name of the package, where they differ

# pretends that the packages are not installed
WITHOUT = f"""
import sys
from importlib.machinery import PathFinder

absent = {set(EXTRA_OF)!r}

class Poorer(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in absent else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Poorer if finder is PathFinder else finder for finder in sys.meta_path]
import numpy as np
import dalembert as da
from dalembert import models
"""

WORK = """
model = models.cart_pole()
vi = da.MidpointVI(model, 0.02)
motion = vi.simulate(vi.state(q={"theta": 3.0}), steps=50)
A, B = vi.linearize(motion[0], [0.0])
system = da.System(vi, steps=50)
law = da.lqr(system, motion, Q=1.0, R=1.0)
gain = da.lqr_infinite(*vi.linearize(vi.state(q={"theta": np.pi}), [0.0]), Q=np.eye(4), R=np.eye(1))
kalman = da.ExtendedKalmanFilter(system, da.measure(system, "x", "theta"), Q=1e-6, R=0.01)
X, U = system.from_trajectory(motion)
da.monte_carlo(kalman, (X, U), trials=3, P0=0.01)
da.load(models.path("closed_chain"))
assert not [name for name in sys.modules if name in absent]
print("done")
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, timeout=120)


def test_the_usual_work_needs_numpy_and_scipy_only():
    done = run(WORK)
    assert done.stdout.strip() == "done", done.stderr
    assert [re.split(r"\W", d)[0] for d in PROJECT["dependencies"]] == ["numpy", "scipy"]


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("motion = vi.simulate(start, steps=5); motion.plot('theta')", "plot"),
        ("da.view(model)", "view"),
        (
            "da.dmoc(model, steps=4, time=1.0, start={'q': [0, 0], 'v': [0, 0]}, goal={'q': [1, 0], 'v': [0, 0]})",
            "casadi",
        ),
        ("from dalembert.symbolic import Symbolic; Symbolic(model)", "casadi"),
        ("from dalembert.cli import main", "cli"),
        ("da.to_casadi(da.System(vi, steps=2))", "casadi"),
        ("import dalembert.bridges.torch", "torch"),
        ("import dalembert.bridges.jax", "jax"),
        ("import dalembert.bridges.gymnasium", "gymnasium"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(code, extra):
    done = run(f"model = models.cart_pole(); vi = da.MidpointVI(model, 0.02); start = vi.state()\n{code}")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert f'pip install "dalembert[{extra}]"' in last


def test_the_command_says_what_to_install():
    done = run("from dalembert.__main__ import main; main()")
    assert done.returncode == 1
    assert done.stderr.strip() == (
        'dalembert: typer is not installed; it is needed for the command line: pip install "dalembert[cli]" (or "dalembert[all]")'
    )


def test_others_may_look_for_what_is_missing():
    """Only imports of this package get the message; elsewhere a missing package is as it always was."""
    done = run("import importlib.util\nassert importlib.util.find_spec('casadi') is None\nimport casadi")
    assert done.stderr.strip().splitlines()[-1] == "ModuleNotFoundError: No module named 'casadi'"


def test_all_is_what_the_message_says():
    assert PROJECT["optional-dependencies"]["all"] == [f"dalembert[{','.join(IN_ALL)}]"]


def test_extras_are_those_of_the_project():
    """Every package that the messages name is in the extra that they name, and all of them are in [all] or stand alone."""
    extras = {k: [re.split(r"[<>=\[ ]", x)[0] for x in v] for k, v in PROJECT["optional-dependencies"].items()}
    for module, (extra, _) in EXTRA_OF.items():
        assert PACKAGES.get(module, module) in extras[extra]
    assert PROJECT["optional-dependencies"]["all"] == ["dalembert[casadi,cli,plot,view]"]
