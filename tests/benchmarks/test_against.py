"""The comparison with a revision: verdicts from known ratios, and one tiny line measured on two sides."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import dalembert as da

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as command  # noqa: E402
from benchmarks import against, lines  # noqa: E402

PACKAGE = Path(da.__file__).parents[1]


def quiet(_: str) -> None: ...


def line(*starts: float, spread: float = 0.002, rounds: int = 20) -> against.Line:
    """A line of rounds whose ratios lie around one number per start."""
    wave = spread * np.cos(np.arange(rounds))
    return against.Line("x", "simulate", starts=[[(1.0, float(r + w)) for w in wave] for r in starts])


def test_the_interval_of_a_median_covers_it():
    """Order statistics of the binomial: of 20 samples the 6th and the 15th hold the median in 95.9 % of all cases."""
    assert against.interval(np.arange(1.0, 21.0)) == (6.0, 15.0)
    assert against.interval(np.array([2.0, 1.0])) == (1.0, 2.0)
    draws = np.random.default_rng(0).lognormal(size=(2000, 25))
    inside = [a <= 1.0 <= b for a, b in map(against.interval, draws)]
    assert 0.95 <= np.mean(inside) <= 0.98


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (line(1.00, 1.01, 0.99), "same"),
        (line(1.05, 1.04, 1.06), "slower"),
        (line(0.90, 0.91, 0.92), "faster"),
        (line(1.02, 1.06, 1.06), "unclear"),  # one start of the processes says otherwise
        (line(1.00, 1.00, 1.00, spread=0.3), "unclear"),
        (against.Line("x", problem="old: no"), "not comparable"),
    ],
)
def test_verdicts(measured, expected):
    assert measured.summary()["verdict"] == expected
    assert ("SLOWER" in against.table([measured])) == (expected == "slower")


def test_one_line_is_measured_on_both_sides(tmp_path, monkeypatch, capsys):
    """The command with both sides the package under test: a table, a file, and no alarm from a change of zero."""
    monkeypatch.setattr(against, "build", lambda ref, cache: PACKAGE)
    monkeypatch.setattr(against, "commit", lambda ref: "0" * 40)
    monkeypatch.setattr(against, "LIMIT", 1e3)  # a busy machine must not fail this test
    out = tmp_path / "lines.json"
    arguments = ["benchmarks", "--against", "HEAD", "--only", "simulate, pendulum", "--rounds", "4", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert command.main() == 0
    (row,) = json.loads(out.read_text())["lines"]
    assert row["rounds"] == 4
    assert 0 < row["old"] < 1
    assert row["ratio"] > 0
    assert len(row["samples"]) == against.STARTS
    assert "simulate, pendulum" in capsys.readouterr().out


def test_what_one_side_cannot_do_is_said(tmp_path):
    """A revision without the integrator: no number is made up."""
    (tmp_path / "dalembert").mkdir()
    (tmp_path / "dalembert" / "__init__.py").touch()
    (found,) = against.compare(tmp_path, PACKAGE, only=["simulate, pendulum"], rounds=1, say=quiet)
    assert found.summary()["verdict"] == "not comparable"
    assert found.problem.startswith("old: ImportError")
    assert "not comparable (old: ImportError" in against.table([found])


def test_a_public_call_stands_in_for_a_private_one(tmp_path):
    """A revision whose integrator hides its core is compared by what both can do."""
    runner = tmp_path / "runner.py"
    runner.write_text(Path(lines.__file__).read_text().replace('getattr(vi, "_core", None)', "None"))
    side, hidden = against.Side(PACKAGE), against.Side(PACKAGE, script=runner)
    try:
        assert against._way((side, side), "linearize, links 2") == "in the core"
        assert against._way((side, hidden), "linearize, links 2") == "public call"
        with pytest.raises(RuntimeError, match="old: runs; new: Unable: the core does not time"):
            against._way((side, hidden), "third, links 2")
    finally:
        side.close()
        hidden.close()


def test_every_line_has_a_way():
    found = lines.lines()
    assert len(found) > 100
    assert all(found.values())


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="needs a clone")
def test_an_unknown_revision_is_refused():
    with pytest.raises(SystemExit, match="not a revision"):
        against.commit("no-such-revision")
    assert len(against.commit("HEAD")) == 40
