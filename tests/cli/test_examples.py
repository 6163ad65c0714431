"""The simulation examples run, save their figure, and print the numbers that their docstrings promise."""

import importlib.util
import re
import shutil

import matplotlib
import matplotlib.pyplot as plt
import pytest

from dalembert.cli import example_files

matplotlib.use("Agg")
# steps that are not accurate are wanted in some of them, and said there
pytestmark = pytest.mark.filterwarnings("error::dalembert.errors.AccuracyWarning")
FILES = {p.stem: p for p in example_files()}


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch):
    """Examples may import each other, as when they are run."""
    monkeypatch.syspath_prepend(FILES["closed_chain"].parent)


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Examples leave theirs to whoever runs them."""
    yield
    plt.close("all")


def run(name, tmp_path, capsys, *args):
    """Printed text of an example."""
    spec = importlib.util.spec_from_file_location(name, FILES[name])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(["--out", str(tmp_path), *args])
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    return capsys.readouterr().out


def numbers(text, pattern):
    """The numbers in the first match of a pattern with groups."""
    found = re.search(pattern, text)
    assert found, text
    return [float(x) for x in found.groups()]


NUMBER = r"\s*(-?[\d.]+(?:e[+-]?\d+)?)"


def test_single_pendulum(tmp_path, capsys):
    text = run("single_pendulum", tmp_path, capsys, "--time", "100")
    ours = numbers(text, rf"variational.*error{NUMBER} J, drift of the mean{NUMBER}")
    heun = numbers(text, rf"Heun.*error{NUMBER} J, drift of the mean{NUMBER}")
    assert ours[0] < 1e-3
    assert abs(ours[1]) < 1e-5
    assert heun[1] > 1e-3
    assert numbers(text, rf"force balance.*drift of the mean{NUMBER}")[0] < -1e-3


def test_higher_order(tmp_path, capsys):
    text = run("higher_order", tmp_path, capsys, "--time", "5")
    for order in (2, 4, 6):
        assert numbers(text, rf"order {order}: .*slope{NUMBER}")[0] == pytest.approx(order, abs=0.3)
    two, four = (numbers(text, rf"order {n}, .*\(median{NUMBER}\).*constraints{NUMBER}") for n in (2, 4))
    assert four[0] < 0.01 * two[0]
    assert max(two[1], four[1]) < 1e-12


def test_harmonic_oscillator(tmp_path, capsys):
    text = run("harmonic_oscillator", tmp_path, capsys, "--time", "100")
    bound, lost = numbers(text, rf"dt = 0.5 .*never more than{NUMBER}\), Runge-Kutta 4{NUMBER}")
    assert bound < 1e-12
    assert lost > 0.01


def test_closed_chain(tmp_path, capsys):
    text = run("closed_chain", tmp_path, capsys, "--time", "10")
    assert numbers(text, rf"dt = 0.01: .*constraints{NUMBER}")[0] < 1e-12
    assert numbers(text, rf"Runge-Kutta 4.*constraints{NUMBER}")[0] > 1e-4
    assert numbers(text, rf"force balance.*energy{NUMBER} J at the end")[0] < -1


def test_screw(tmp_path, capsys):
    text = run("screw", tmp_path, capsys)
    assert numbers(text, rf"constraint  largest error of the height{NUMBER}")[0] < 1e-10
    force, exact = numbers(text, rf"thread on the nut{NUMBER} N, exact{NUMBER} N")
    assert force == pytest.approx(exact, rel=1e-6)


def test_driven_pendulum(tmp_path, capsys):
    text = run("driven_pendulum", tmp_path, capsys)
    assert numbers(text, rf"'split'.*order{NUMBER}")[0] == pytest.approx(2.0, abs=0.05)
    assert numbers(text, rf"'left'.*order{NUMBER}")[0] == pytest.approx(1.0, abs=0.1)
    assert numbers(text, rf"by 0.1 m.*:{NUMBER} rad from upright")[0] < 0.4
    assert numbers(text, rf"by 0.05 m.*:{NUMBER} rad from upright")[0] > 1.0


def test_spherical_pendulum(tmp_path, capsys):
    text = run("spherical_pendulum", tmp_path, capsys)
    assert numbers(text, rf"relative difference{NUMBER}")[0] < 1e-12
    assert "dt = 0.6 s: the determinant keeps its sign" in text
    assert "dt = 0.7 s: the determinant changes sign" in text
    assert "singular in phi" in text


def test_cartesian_pendulum(tmp_path, capsys):
    text = run("cartesian_pendulum", tmp_path, capsys)
    assert numbers(text, rf"order{NUMBER}")[0] == pytest.approx(2.0, abs=0.05)
    assert "v dt = 1.5: ConvergenceError" in text


def test_free_body(tmp_path, capsys):
    text = run("free_body", tmp_path, capsys)
    assert numbers(text, rf"linear momentum changes by{NUMBER}")[0] < 1e-10
    assert numbers(text, rf"first axis changes by{NUMBER}")[0] < 1e-8
    assert numbers(text, rf"orders \[{NUMBER}{NUMBER}\]") == pytest.approx([2.0, 2.0], abs=0.05)


def test_string_puppet(tmp_path, capsys):
    text = run("string_puppet", tmp_path, capsys)
    assert numbers(text, rf"constraint violation{NUMBER}")[0] < 1e-12
    back, left, right, weight = numbers(text, rf"at rest \[{NUMBER}{NUMBER}{NUMBER}\] N, weight{NUMBER}")
    assert back + left + right == pytest.approx(weight, rel=0.01)  # the strings hang almost vertically
    assert (tmp_path / "string_puppet.html").exists()


@pytest.mark.slow
def test_scissor_lift(tmp_path, capsys):
    text = run("scissor_lift", tmp_path, capsys, "--quick")
    assert numbers(text, rf"dt = 0.01   largest error{NUMBER}")[0] < 0.0037
    assert numbers(text, rf"dt = 0.001  largest error{NUMBER}")[0] < 4e-5


@pytest.mark.bench
def test_n_link_runtime(tmp_path, capsys):
    text = run("n_link_runtime", tmp_path, capsys)
    assert numbers(text, rf"N\^{NUMBER}")[0] < 1.3


def test_bicycle(tmp_path, capsys):
    text = run("bicycle", tmp_path, capsys)
    assert "order 6" in text
    assert (tmp_path / "bicycle.png").is_file()


def test_impacts(tmp_path, capsys):
    text = run("impacts", tmp_path, capsys)
    assert "sequence: speeds after the first impact [ 0.  0.  0.  0. -1.]" in text
    assert numbers(text, rf"smallest gap{NUMBER}")[0] > -1e-12
    assert numbers(text, rf"-> {NUMBER} m; 2 impacts")[0] < 1e-12
    assert (tmp_path / "impacts.png").is_file()


def test_embedded_cart_pole(tmp_path, capsys):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc)")
    text = run("embedded_cart_pole", tmp_path, capsys, "--time", "4")
    assert numbers(text, rf"on this machine: .*pole within{NUMBER} rad")[0] < 0.02
    if "Cortex" in text:
        assert numbers(text, rf"Cortex-M4F.*pole within{NUMBER} rad")[0] < 0.02


def test_embedded_string_robot(tmp_path, capsys):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc)")
    text = run("embedded_string_robot", tmp_path, capsys)
    assert numbers(text, rf"drag of the mass:{NUMBER}")[0] == pytest.approx(0.05, abs=0.003)
    assert numbers(text, rf"this machine, double: .*last 2 s{NUMBER} mm")[0] < 5.0
    for cpu in ("M4F, float", "M7, double"):
        if f"{cpu}: at most" in text:
            assert numbers(text, rf"{cpu}: at most{NUMBER} mm")[0] < 0.1


def test_dzhanibekov(tmp_path, capsys):
    text = run("dzhanibekov", tmp_path, capsys)
    assert numbers(text, rf"order 2: attitude off by{NUMBER}")[0] < 3e-4
    assert numbers(text, rf"order 4: attitude off by{NUMBER}")[0] < 2e-8
    assert numbers(text, rf"order 6: attitude off by{NUMBER}")[0] < 2e-12
    assert numbers(text, rf"rates within{NUMBER}")[0] < 1e-6
    assert numbers(text, rf"angular momentum changes by{NUMBER}")[0] < 1e-12


def test_lagrange_top(tmp_path, capsys):
    text = run("lagrange_top", tmp_path, capsys)
    assert numbers(text, rf"order 2: .* orders \[{NUMBER}")[0] == pytest.approx(2.0, abs=0.05)
    assert numbers(text, rf"order 4: .* orders \[{NUMBER}")[0] == pytest.approx(4.0, abs=0.05)
    found, exact = numbers(text, rf"precession after 2 s:{NUMBER} rad, exact{NUMBER}")
    assert found == pytest.approx(exact, abs=1e-6)


def test_falling_cat(tmp_path, capsys):
    text = run("falling_cat", tmp_path, capsys)
    assert numbers(text, rf"it turns by{NUMBER} degrees")[0] == pytest.approx(180.0, abs=0.01)
    assert numbers(text, rf"angular momentum about the centre of mass: at most{NUMBER}")[0] < 1e-14


def test_falling_quadruped(tmp_path, capsys):
    text = run("falling_quadruped", tmp_path, capsys)
    if "no robot" in text:
        pytest.skip("example-robot-data is not installed")
    assert numbers(text, rf"turn it by{NUMBER} degrees")[0] == pytest.approx(180.0, abs=0.01)
    assert numbers(text, rf"angular momentum about the centre of mass: at most{NUMBER}")[0] < 1e-13


def test_quadrotor_load(tmp_path, capsys):
    """A loop with a load on a cable, planned from a curve that is no motion, and flown under gusts."""
    text = run("quadrotor_load", tmp_path, capsys)
    assert "plan: converged" in text
    assert numbers(text, rf"turned by{NUMBER} degrees")[0] == pytest.approx(-360.0, abs=3.0)
    assert numbers(text, rf"cable: between{NUMBER}")[0] > 1.0  # it stays taut
    assert numbers(text, rf"at the end{NUMBER} m")[0] < 0.1


@pytest.mark.slow
def test_quadrotor(tmp_path, capsys):
    """Three flips under regulator and filter; 1000 random attitudes, none fails."""
    text = run("quadrotor", tmp_path, capsys)
    assert numbers(text, rf"reference:{NUMBER} degrees")[0] == pytest.approx(1080.0, abs=0.5)
    degrees, metres = numbers(text, rf"at the end{NUMBER} degrees and{NUMBER} m")
    assert degrees < 5.0
    assert metres < 0.25
    assert "1000 motions end, none fails" in text


def test_arm_crane_drone(tmp_path, capsys):
    """All six searches converge; limits cost something and are met (the search says "infeasible" if not)."""
    pytest.importorskip("casadi")
    text = run("arm_crane_drone", tmp_path, capsys)
    assert text.count("converged") == 6
    for name in ("arm", "crane", "drone"):
        free, limited = numbers(text, rf"{name} +without.*cost{NUMBER},.*\n.*cost{NUMBER},")
        assert limited > free
    assert numbers(text, rf"swing{NUMBER}")[0] > 20


def test_cart_pole_mpc(tmp_path, capsys):
    text = run("cart_pole_mpc", tmp_path, capsys)
    assert numbers(text, rf"at most{NUMBER} degrees from upright")[0] < 10
    assert numbers(text, rf"largest force{NUMBER} N")[0] <= 8.0
    assert " 0 calls without a plan" in text
