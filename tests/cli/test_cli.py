"""The command line: results, files, exit codes and messages; in process where possible, to stay quick."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.cli import example_files, main

PENDULUM = models.path("pendulum")


def run(capsys, *args):
    """(exit code, stdout, stderr) of the command."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in args])
    out, err = capsys.readouterr()
    code = stop.value.code
    return (0 if code is None else code), out, err


def as_json(capsys, *args):
    code, out, err = run(capsys, *args, "--json")
    assert code == 0, err
    assert out.count("\n") == 1  # one object, nothing else
    return json.loads(out)


def test_demo_writes_what_it_says(capsys, tmp_path):
    facts = as_json(capsys, "demo", "--out", tmp_path, "--time", 5)
    assert facts["steps"] == 500
    assert facts["largest_constraint_violation"] < 1e-12
    assert facts["largest_energy_error"] < 0.1
    assert (tmp_path / "demo.png").stat().st_size > 20_000
    page = (tmp_path / "demo.html").read_text()
    assert "<script" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_info(capsys):
    facts = as_json(capsys, "info", "scissor_lift")
    assert facts["degrees_of_freedom"] == 1
    assert len(facts["constraints"]) == 10
    code, out, _ = run(capsys, "info", "closed_chain")
    assert code == 0
    assert "ry('J')" in out
    assert "degrees of freedom" in out


def test_info_notes_trouble(capsys, tmp_path):
    file = tmp_path / "loose.sexp"
    file.write_text('(system (tx "x" (ty "y" (name "p") (mass 1))) (distance "world" "p" 1.0))')
    assert "violates" in as_json(capsys, "info", file, "--q", "x=2")["notes"][0]


def test_simulate_equals_python(capsys, tmp_path):
    saved, table = tmp_path / "swing.npz", tmp_path / "swing.csv"
    facts = as_json(
        capsys, "simulate", PENDULUM, "--q", "theta=1.2", "--v", "theta=0.3", "--u", "torque=0.2",
        "--time", 2, "--dt", 0.02, "--save", saved, "--plot", tmp_path / "e.png", "--html", tmp_path / "deep/e.html",
    )  # fmt: skip
    vi = da.MidpointVI(models.load("pendulum"), 0.02)
    want = vi.simulate(vi.state([1.2], v=[0.3]), 100, u=[0.2])
    got = da.Trajectory.load(saved)
    assert np.array_equal(got.q, want.q)
    assert facts["final_configuration"]["theta"] == want.q[-1, 0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "e.png", "swing.npz"]
    assert as_json(capsys, "convert", saved, table)["steps"] == 100
    assert np.allclose(da.Trajectory.load(table, want.model).q, want.q)


def test_every(capsys, tmp_path):
    as_json(capsys, "simulate", "pendulum", "--q", "theta=1", "--time", 20, "--every", 50, "--save", tmp_path / "a.npz")
    vi = da.MidpointVI(models.load("pendulum"), 0.01)
    want = vi.simulate(vi.state([1.0]), 2000, every=50)
    assert np.array_equal(da.Trajectory.load(tmp_path / "a.npz").q, want.q)


def test_order(capsys, tmp_path):
    as_json(capsys, "simulate", "pendulum", "--q", "theta=1", "--time", 2, "--order", 4, "--save", tmp_path / "a.npz")
    vi = da.MidpointVI(models.load("pendulum"), 0.01, order=4)
    saved = da.Trajectory.load(tmp_path / "a.npz")
    assert np.array_equal(saved.q, vi.simulate(vi.state([1.0]), 200).q)
    assert saved.scheme == vi.scheme
    code, _, err = run(capsys, "simulate", "pendulum", "--order", 3)
    assert code == 1
    assert "order must be 2, 4 or 6" in err


def test_simulate_with_a_table_of_inputs(capsys, tmp_path):
    (tmp_path / "in.csv").write_text("t,x_r,r\n0,0,1\n1,0.5,1.2\n")
    as_json(capsys, "simulate", "crane", "--q", "y=-1", "--q", "r=1", "--dt", 0.01, "--time", 1,
            "--inputs", tmp_path / "in.csv", "--save", tmp_path / "o.npz")  # fmt: skip
    got = da.Trajectory.load(tmp_path / "o.npz")
    assert got["x_r"][50] == pytest.approx(0.25)
    assert got["r"][-1] == pytest.approx(1.2)
    assert got.constraint_violation().max() < 1e-10
    (tmp_path / "bad.csv").write_text("t,speed\n0,0\n")
    code, _, err = run(capsys, "simulate", "crane", "--q", "y=-1", "--q", "r=1", "--inputs", tmp_path / "bad.csv")
    assert code == 1
    assert "'speed'" in err


def test_a_failed_step_keeps_the_motion(capsys, tmp_path):
    # two winches pull in until their strings together are shorter than the way between them: no step can follow
    (tmp_path / "two.sexp").write_text(
        '(system (gravity 0 0 -9.8) (tx "x" (tz "z" (name "load") (mass 1))) (tx 1 (name "right"))'
        '(distance "world" "load" (K "a")) (distance "right" "load" (K "b"))'
        '(configuration "q0" ("x" 0.5) ("z" -0.5) ("a" 0.7071067811865476) ("b" 0.7071067811865476)))'
    )
    (tmp_path / "in.csv").write_text("t,a,b\n0,0.7071,0.7071\n1,0.4,0.4\n")
    code, out, err = run(capsys, "simulate", tmp_path / "two.sexp", "--dt", 0.05, "--time", 1,
                         "--inputs", tmp_path / "in.csv", "--save", tmp_path / "o.npz", "--json")  # fmt: skip
    assert code == 1
    assert "Traceback" not in err
    assert "error" in json.loads(out)
    assert 5 < len(da.Trajectory.load(tmp_path / "o.npz")) < 20


def test_satisfy(capsys, tmp_path):
    args = ["simulate", "closed_chain", "--q", "J=-0.4", "--time", 0.1, "--save", tmp_path / "o.npz"]
    code, _, err = run(capsys, *args)
    assert code == 1
    assert "violates" in err
    as_json(capsys, *args, "--satisfy")
    assert da.Trajectory.load(tmp_path / "o.npz")["J"][0] == -0.4
    as_json(capsys, *args, "--satisfy", "--near", "E=0.8")
    assert da.Trajectory.load(tmp_path / "o.npz")["J"][0] == -0.4
    assert run(capsys, *args, "--near", "E=0.8")[0] == 2


def test_linearize(capsys, tmp_path):
    facts = as_json(capsys, "linearize", "pendulum", "--dt", 0.1, "--q", "theta=0.2", "--forcing", "left",
                    "--save", tmp_path / "ab.npz")  # fmt: skip
    vi = da.MidpointVI(models.load("pendulum"), 0.1, forcing="left")
    A, B = vi.linearize(vi.state([0.2]))
    assert np.array_equal(facts["A"], A)
    assert np.array_equal(np.load(tmp_path / "ab.npz")["B"], B)
    assert facts["controllable_rank"] == 2
    assert "largest |eigenvalue|" in run(capsys, "linearize", "cart_pole")[1]


def test_equilibrium(capsys, tmp_path):
    facts = as_json(capsys, "equilibrium", "pendulum", "--q", "theta=1", "--save", tmp_path / "rest.sexp")
    assert facts["configuration"]["theta"] == pytest.approx(0.0, abs=1e-9)
    assert "equilibrium" in da.load_with_configurations(tmp_path / "rest.sexp")[1]
    assert "torso.tz" in run(capsys, "equilibrium", "string_puppet")[1]


PROBLEM = """
model = "pendulum"
dt = 0.1
steps = 30
forcing = "left"
start.q = {theta = 0.0}
goal = {theta = 3.141592653589793}

[weights]
state = {theta = 10.0, "*" = 1.0}
input = {torque = 0.1}
final = {theta = 100.0, "*" = 10.0}
"""


def test_optimize(capsys, tmp_path):
    file = tmp_path / "problem.toml"
    file.write_text(PROBLEM)
    facts = as_json(capsys, "optimize", file, "--save", tmp_path / "o.npz", "--plot", tmp_path / "o.png", "--gains",
                    tmp_path / "g.npz")  # fmt: skip
    assert facts["status"] == "converged"
    assert facts["final_state"]["theta"] == pytest.approx(np.pi, abs=0.05)
    assert da.Trajectory.load(tmp_path / "o.npz").steps == 30
    # the result is a reference for the next problem, which it solves at once
    (tmp_path / "next.toml").write_text(PROBLEM.replace("goal =", 'reference = "o.npz"\nguess = "o.npz"\n#'))
    again = as_json(capsys, "optimize", tmp_path / "next.toml")
    assert again["cost"] < 1e-12


def test_optimize_with_csv_and_bounds(capsys, tmp_path):
    (tmp_path / "way.csv").write_text("t,theta\n0,0\n1,1\n3,1\n")
    text = PROBLEM.replace("goal =", 'reference = "way.csv"\n#') + "[bounds]\ntorque = [-9.0, 9.0]\n"
    (tmp_path / "p.toml").write_text(text)
    as_json(capsys, "optimize", tmp_path / "p.toml", "--save", tmp_path / "o.npz")
    torque = da.Trajectory.load(tmp_path / "o.npz")["torque"]
    assert abs(torque).max() <= 9.0 + 1e-6
    assert abs(torque).max() > 5.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("dt = 0.1", ""), "'dt' is missing"),
        (("goal", "gaol"), "unknown key 'gaol'"),
        (("goal = {theta", "goal = {thela"), "unknown name 'thela' (did you mean 'theta'"),
        (("input =", "# input ="), "'input' is missing"),
        (('"pendulum"', '"pendulun"'), "no model 'pendulun'"),
        (("steps = 30", "steps = = 30"), "not TOML"),
        (("torque = 0.1", "tork = 0.1"), "'tork'"),
        (("steps = 30", "steps = -3"), "steps"),
    ],
)
def test_bad_problem_files(capsys, tmp_path, change, message):
    (tmp_path / "p.toml").write_text(PROBLEM.replace(*change, 1))
    code, _, err = run(capsys, "optimize", tmp_path / "p.toml")
    assert code == 1
    assert message in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('model = "pendulum"', "model = 3"), "'model' must be a text, not 3"),
        (("dt = 0.1", 'dt = "0.1"'), "'dt' must be a number, not '0.1'"),
        (("dt = 0.1", "dt = nan"), "'dt' is not finite"),
        (("dt = 0.1", "dt = true"), "'dt' must be a number, not True"),
        (("steps = 30", "steps = 3.5"), "'steps' must be a whole number, not 3.5"),
        (("steps = 30", "steps = 1000000000000"), "are too many"),
        (('forcing = "left"', "forcing = []"), "'forcing' must be a text"),
        (('forcing = "left"', "order = [2]"), "'order' must be 2, 4 or 6"),
        (("start.q = {theta = 0.0}", "start = 1"), "'start' must be a table"),
        (("start.q = {theta = 0.0}", 'start.q = {theta = "up"}'), "'start.q.theta' must be a number"),
        (("start.q = {theta = 0.0}", "start.satisfy = 1"), "'start.satisfy' must be true or false"),
        (("goal = {theta = 3.141592653589793}", "goal = 3"), "'goal' must be a table"),
        (("goal = {theta = 3.141592653589793}", "goal = {theta = [1]}"), "'goal.theta' must be a number"),
        (("goal = {theta", 'reference = "p.toml"\n#'), "p.toml"),
        (("goal = {theta", 'guess = "p.toml"\n#'), "not a trajectory"),
        (("goal = {theta", "guess = 5\n#"), "'guess' must be a text"),
        (("{torque = 0.1}", "{torque = {a = 1}}"), "'weights.input.torque' must be a number"),
        (("{torque = 0.1}", '"much"'), "'weights.input' must be an array of real numbers"),
        (("{torque = 0.1}", "[[1, 2], [3]]"), "'weights.input' must be an array of real numbers"),
        (("{torque = 0.1}", "{torque = inf}"), "'weights.input.torque' is not finite"),
        (("[weights]", "[bounds]\ntorque = 3\n[weights]"), "'bounds.torque' must be [low, high], not 3"),
        (("[weights]", "[bounds]\ntorque = [1, 2, 3]\n[weights]"), "'bounds.torque' must be [low, high]"),
        (("[weights]", "[options]\nmethod = 0.1\n[weights]"), "'options.method' must be a method"),
        (("[weights]", "[options]\nmethod = [1]\n[weights]"), "'options.method' must list texts"),
        (("[weights]", '[options]\ntolerance = "x"\n[weights]'), "'options.tolerance' must be a number"),
        (
            ("[weights]", "[options]\nmax_iterations = 1.5\n[weights]"),
            "'options.max_iterations' must be a whole number",
        ),
        (("[weights]", '[options]\nfree_start = "x"\n[weights]'), "'options.free_start' must be true, false or a list"),
        (("dt = 0.1", "dt = 0.1\n" + "x" * 70_000), "larger than 64 kB"),
    ],
)
def test_problem_files_with_wrong_types(capsys, tmp_path, change, message):
    assert change[0] in PROBLEM
    (tmp_path / "p.toml").write_text(PROBLEM.replace(*change, 1))
    code, _, err = run(capsys, "optimize", tmp_path / "p.toml")
    assert code == 1
    assert message in err
    assert "a bug" not in err


def damaged(folder):
    """Files that are no trajectories."""
    vi = da.MidpointVI(models.load("pendulum"), 0.1)
    vi.simulate(vi.state([1.0]), 10).save(folder / "good.npz")
    good = (folder / "good.npz").read_bytes()
    yield "empty", b""
    yield "text", b"not an archive"
    yield "half", good[: len(good) // 2]
    yield "flipped", good[:200] + bytes([good[200] ^ 255]) + good[201:]
    with np.load(folder / "good.npz") as file:
        arrays = dict(file)
    for name, change in {
        "without t": {"t": None},
        "text for numbers": {"q": np.array(["a"] * 11)},
        "nan": {"q": np.full((11, 1), np.nan)},
        "backwards": {"t": arrays["t"][::-1]},
        "too short": {"p": arrays["p"][:-1]},
        "three axes": {"q": np.zeros((11, 1, 1))},
        "another model": {"model": np.array("{}")},
        "no model": {"model": np.array(3)},
        "bad meta": {"meta": np.array("[]")},
        "bad scheme": {"meta": np.array('{"interrupted": false, "scheme": {"x": 1}}')},
    }.items():
        new = {k: v for k, v in (arrays | change).items() if v is not None}
        np.savez(folder / "made.npz", **new)
        yield name, (folder / "made.npz").read_bytes()


def test_damaged_trajectories(capsys, tmp_path):
    for name, content in damaged(tmp_path):
        (tmp_path / "bad.npz").write_bytes(content)
        for args in (
            ["convert", tmp_path / "bad.npz", tmp_path / "o.csv"],
            ["view", tmp_path / "bad.npz", "--html", "o"],
        ):
            code, _, err = run(capsys, *args)
            assert code == 1, name
            assert "bad.npz is not a trajectory of dalembert" in err, name
            assert "a bug" not in err, name


def test_bad_tables(capsys, tmp_path):
    for text in (b"", b"t", b"t,torque", b"t,torque\n1", b"t,torque\n0,x", b"t,torque\n0,nan", b"t,t\n0,0", b"\xff\xfe\0",
                 b"t,torque\n1,1\n0,0", b"t,torque\n0," + b"1" * 200_000, b"t,torque\n0,\0"):  # fmt: skip
        (tmp_path / "in.csv").write_bytes(text)
        code, _, err = run(capsys, "simulate", "pendulum", "--time", 0.1, "--inputs", tmp_path / "in.csv")
        assert code == 1, text[:40]
        assert "in.csv" in err, text[:40]


def test_too_much_to_keep(capsys):
    for args in (["--time", 1e12], ["--time", 1e9, "--dt", 1e-4], ["--dt", 1e-300], ["--time", 1e300, "--dt", 1e-9]):
        code, _, err = run(capsys, "simulate", "pendulum", *args)
        assert code == 1
        assert "steps are too many" in err


def test_names_do_not_steer_the_terminal(capsys, tmp_path):
    name = "arm \x1b]0;owned\x07\x1b[31m \u202e \ud800"
    text = json.dumps({"name": name, "frames": [{"rx": name, "mass": 1, "name": name}, {"tx": 1, "mass": 1}]})
    (tmp_path / "m.json").write_text(text)
    code, out, err = run(capsys, "info", tmp_path / "m.json")
    assert code == 0, err
    assert "\\x1b]0;owned\\x07" in out
    (tmp_path / "bad.json").write_text(
        text.replace('"rx"', '"ry"').replace('"tx": 1', '"tx": 1, "parent": "\\u001b[2J"')
    )
    code, more, err = run(capsys, "info", tmp_path / "bad.json")
    assert code == 1
    assert "\\x1b[2J" in err
    for c in ("\x1b", "\x07", "\u202e", "\ud800"):
        assert c not in out + more + err


def test_a_bug_is_one_message_too(capsys, monkeypatch):
    def broken(*_):
        raise KeyError("oops\x1b")

    monkeypatch.setattr("dalembert.models.load_with_configurations", broken)
    code, _, err = run(capsys, "info", "pendulum")
    assert code == 1
    assert "a bug in dalembert: KeyError: 'oops\\x1b'" in err
    monkeypatch.setenv("DALEMBERT_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main(["info", "pendulum"])


def test_warnings_are_one_line(capsys, tmp_path):
    (tmp_path / "m.urdf").write_text(
        '<robot name="r"><link name="b"><visual><geometry><mesh filename="lost.stl"/></geometry></visual></link></robot>'
    )
    code, _, err = run(capsys, "view", tmp_path / "m.urdf", "--html", tmp_path / "o.html")
    assert code == 0
    assert err == "dalembert: warning: mesh 'lost.stl' is not drawn: there is no such file\n"


def test_a_reader_that_has_seen_enough():
    env = os.environ | {"PYTHONPATH": str(Path(da.__file__).parents[1])}
    command = f"{sys.executable} -m dalembert linearize string_puppet | head -c 100"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=env, check=False)
    assert done.stderr == ""


def test_convert_model_keeps_configurations(capsys, tmp_path):
    as_json(capsys, "convert", "closed_chain", tmp_path / "c.toml")
    model, configurations = da.load_with_configurations(tmp_path / "c.toml")
    assert model.nc == 4
    assert np.allclose(configurations["q0"], models.load_with_configurations("closed_chain")[1]["q0"])


def test_view_as_a_page(capsys, tmp_path):
    as_json(capsys, "view", "cart_pole", "--html", tmp_path / "v.html")
    assert (tmp_path / "v.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["simulate", "nothing.toml"], 1, "cannot read"),
        (["simulate", "nothing"], 1, "no model 'nothing'"),
        (["simulate", "pendulum", "--q", "theat=1"], 1, "did you mean 'theta'"),
        (["simulate", "pendulum", "--q", "theta"], 2, "NAME=VALUE"),
        (["simulate", "pendulum", "--q", "theta=up"], 2, "not a number"),
        (["simulate", "pendulum", "--dt", "-1"], 1, "dt must be"),
        (["simulate", "pendulum", "--time", "0"], 1, "--time"),
        (["simulate", "pendulum", "--save", "x.txt"], 2, ".npz"),
        (["simulate"], 2, "MODEL"),
        (["simulate", "pendulum", "--nonsense"], 2, "--nonsense"),
        (["frobnicate"], 2, "frobnicate"),
        (["simulate", "pendulum", "--start", "q9"], 1, "q9"),
        (["view", "missing.npz"], 1, "missing.npz"),
        (["view", "pendulum", "--port", "-1"], 2, "--port"),
        (["view", "pendulum", "--port", "65536"], 2, "--port"),
        (["examples", "run", "single_pendulun"], 1, "single_pendulum"),
        (["examples", "run"], 2, "--all"),
        (["examples", "open", "--out", "nowhere"], 1, "no nowhere"),
    ],
)
def test_errors_are_one_message(capsys, args, code, message):
    got, out, err = run(capsys, *args)
    assert got == code
    assert message in err
    assert "Traceback" not in out + err


def test_version_and_completion(capsys, monkeypatch, tmp_path):
    from dalembert.cli.examples import complete_example
    from dalembert.cli.options import complete_model

    assert run(capsys, "--version")[1].strip() == f"dalembert {da.__version__}"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penguin.toml").write_text("")
    assert complete_model("pen") == ["pendulum", "penguin.toml"]
    assert "scissor_lift" in complete_example("sc")


def test_json_errors(capsys):
    code, out, _ = run(capsys, "info", "nothing", "--json")
    assert code == 1
    assert "no model" in json.loads(out)["error"]


def test_every_command_has_help_with_an_example(capsys):
    for command in ("demo", "info", "simulate", "linearize", "equilibrium", "optimize", "view", "convert", "bench"):
        code, out, _ = run(capsys, command, "--help")
        assert code == 0
        assert f"dalembert {command}" in out
        assert "Example" in out


def test_examples(capsys, tmp_path, monkeypatch):
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "good.py").write_text(
        '"""A good one."""\nimport sys, pathlib\nout = pathlib.Path(sys.argv[2])\n'
        '(out / "good.png").write_bytes(b"png")\nprint("ten < eleven")\n'
    )
    (folder / "bad.py").write_text('"""A bad one."""\nraise SystemExit(3)\n')
    monkeypatch.setattr("dalembert.cli.examples.example_files", lambda: sorted(folder.glob("*.py")))
    assert as_json(capsys, "examples", "list") == {"bad": "A bad one.", "good": "A good one."}
    code, out, _ = run(capsys, "examples", "run", "--all", "--out", tmp_path / "o")
    assert code == 1
    assert "ten < eleven" in out
    page = (tmp_path / "o" / "index.html").read_text()
    assert 'src="good.png"' in page
    assert "ten &lt; eleven" in page
    assert "exit code 3" in page
    # a second run of one example keeps the others on the page
    code, _, _ = run(capsys, "examples", "run", "good", "--out", tmp_path / "o")
    assert code == 0
    assert "exit code 3" in (tmp_path / "o" / "index.html").read_text()


def test_all_examples_have_a_headline_and_options():
    for path in example_files():
        text = path.read_text()
        assert text.startswith('"""'), path
        assert "--out" in text, path
        assert f"{path.stem}.png" in text or "savefig" in text, path


def test_installed_command_is_quick():
    """A process of its own: exit code, and only light modules are loaded for --help."""
    code = (
        "import sys\nfrom dalembert.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0\n"
        "heavy = {'matplotlib', 'casadi', 'viser', 'scipy', 'numpy'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(da.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr


def test_bench(capsys, tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "src/dalembert").mkdir(parents=True)
    (tmp_path / "benchmarks/__init__.py").touch()  # else a package of that name anywhere on PYTHONPATH comes first
    (tmp_path / "benchmarks/__main__.py").write_text(
        "import sys, pathlib\nout = pathlib.Path(sys.argv[2])\nout.mkdir(parents=True)\n"
        "(out / 'results.json').write_text('{\"args\": \"' + ' '.join(sys.argv[3:]) + '\"}')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert as_json(capsys, "bench", "--quick", "--only", "ekf") == {"args": "--quick --only ekf"}


def test_models_are_listed(capsys):
    rows = as_json(capsys, "models")
    assert set(rows) == set(da.models.names())
    assert rows["closed_chain"]["constraints"] == 4
    code, out, _ = run(capsys, "models")
    assert code == 0
    assert "cart_pole" in out


def test_keys_for_programs_have_no_spaces(capsys):
    for args in (
        ("info", "closed_chain"),
        ("simulate", "pendulum", "--time", 0.1),
        ("equilibrium", "pendulum"),
        ("linearize", "pendulum"),
    ):
        assert not [key for key in as_json(capsys, *args) if not key.isidentifier()]
