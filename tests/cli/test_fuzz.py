"""Command lines and files at random: every one ends with an exit code and at most one message, soon, and none is a bug."""

import contextlib
import io
import os
import random
import re
import time

import pytest

import dalembert as da
from dalembert import models
from dalembert.cli import main

PROBLEM = """model = "pendulum"
dt = 0.1
steps = 5
forcing = "left"
start.q = {theta = 0.0}
goal = {theta = 1.0}
[weights]
state = {theta = 10.0, "*" = 1.0}
input = {torque = 0.1}
final = {theta = 100.0, "*" = 10.0}
[bounds]
torque = [-9.0, 9.0]
[options]
method = "newton"
tolerance = 1e-3
max_iterations = 3
"""
ROBOT = (
    '<robot name="r"><link name="b"/><link name="c"><inertial><mass value="1"/></inertial></link><joint name="j" '
    'type="revolute"><parent link="b"/><child link="c"/><origin xyz="0 0 1"/></joint></robot>'
)
MUJOCO = '<mujoco><worldbody><body name="b"><joint name="q"/><geom size="1" pos="0 0 1"/></body></worldbody></mujoco>'
FILES = ["bad.toml", "bad.json", "bad.sexp", "bad.urdf", "bad.xml", "bad.npz", "bad.npz", "bad.npz"]
MODELS = ["pendulum"] * 4 + ["cart_pole", "crane", "closed_chain", "nothing", "", ".", "good.npz", "p.toml", "in.csv"]
MODELS += ["/dev/null", "/", "x" * 300, *FILES]
OUT = ["o.npz", "o.csv", "o.txt", "o.toml", "o.json", "o.sexp", "o.urdf", "o.xml", ".", "", "no/o.npz", "/dev/full"]
WORDS = ["-1", "0", "1", "1e400", "nan", "x", "theta=1", "=", "q0", "9" * 400, "\x1b[31m", "ü", "\udc80", "None", "[]"]
PAIRS = ["theta=1", "theta=nan", "theta=1e308", "theta=-1e-320", "x=1", "torque=1", "torque=inf", "theta=", "=", "y=-1"]
NUMBERS = ["0.05", "0.05", "-1", "nan", "inf", "0", "1e-300", "1e300"]
VALUES = {
    **dict.fromkeys(("--q", "--v", "--u", "--near"), PAIRS),
    **dict.fromkeys(("--save", "--gains"), OUT),
    "--dt": NUMBERS,
    "--time": ["0.1", "0.1", "0.3", "-1", "nan", "inf", "1e-9", "x"],
    "--alpha": ["0", "1", "0.5", "2", "nan"],
    "--forcing": ["split", "left", "x", ""],
    "--order": ["2", "4", "6", "3", "-1"],
    "--every": ["1", "2", "0", "-1", "99999999999999999999"],
    "--inputs": ["in.csv", "bad.csv", "bad.csv", "good.npz", ".", "nothing.csv"],
    "--film": ["o.txt", "x"],
    "--start": WORDS,
    "--fixed": WORDS,
}
START = ["--q", "--start", "--json"]
STEP = [*START, "--v", "--u", "--near", "--dt", "--alpha", "--forcing", "--order", "--save", "--satisfy"]
COMMANDS = {
    "simulate": [*STEP, "--time", "--every", "--inputs", "--film"],
    "linearize": STEP,
    "equilibrium": [*START, "--u", "--fixed", "--save"],
    "info": START,
    "optimize": ["--save", "--gains", "--json"],
    "convert": ["--json"],
    "view": ["--json"],
    "examples": ["--json"],
    "nonsense": [],
}


def damage(rng, content):
    """A few bytes changed, added, lost, or the end cut off."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5, 30])):
        i, kind = rng.randrange(len(data) + 1), rng.random()
        if kind < 0.4 and i < len(data):
            data[i] = rng.randrange(256)
        elif kind < 0.6:
            del data[i : i + rng.choice([1, 4, 100, 1000])]
        elif kind < 0.8:
            data[i:i] = rng.randbytes(rng.choice([1, 8]))
        else:
            del data[i:]
    return bytes(data)


def reword(rng, text):
    """A few words of a problem file changed for others."""
    others = [
        "nan",
        "inf",
        "[]",
        "{}",
        '"x"',
        "true",
        "-1",
        "1e400",
        "[1, 2]",
        '"good.npz"',
        '"bad.npz"',
        '"in.csv"',
        "0",
    ]
    for _ in range(rng.choice([1, 1, 2, 3])):
        words = re.findall(r'[\w.*-]+|"[^"]*"|[{}\[\]=,]|\n', text)
        old, new = rng.choice(words), rng.choice(words + others)
        at = rng.choice([m.start() for m in re.finditer(re.escape(old), text)])
        text = text[:at] + new + text[at + len(old) :]
    return text


def command(rng):
    name = rng.choice(list(COMMANDS))
    args = [name]
    if name in ("simulate", "linearize", "equilibrium", "info"):
        args.append(rng.choice(MODELS))
    elif name == "optimize":
        args.append(rng.choice(["p.toml"] * 5 + ["nothing.toml", ".", "good.npz"]))
    elif name == "convert":
        args += [rng.choice(MODELS), rng.choice(OUT)]
    elif name == "view":
        args += [
            *rng.choices(MODELS, k=rng.choice([1, 1, 2])),
            "--html",
            rng.choice(["o.html", ".", "/dev/full", "no/o.html"]),
        ]
    elif name == "examples":
        args += rng.choice([["list"], ["open", "--out", "no"], ["run"], ["run", "x"], ["x"], []])
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3]) if COMMANDS[name] else 0):
        option = rng.choice(COMMANDS[name])
        args += [option, rng.choice(VALUES[option])] if option in VALUES else [option]
    return args


def fuzz(seed, count, folder):
    """What went wrong: (command, what)."""
    rng = random.Random(seed)
    vi = da.MidpointVI(models.load("pendulum"), 0.05)
    vi.simulate(vi.state([1.0]), 20, u=[0.1]).save("good.npz")
    crane = models.load("crane")
    good = {f"bad.{kind}": da.dumps(crane, kind).encode() for kind in ("toml", "json", "sexp")}
    good |= {"bad.urdf": ROBOT.encode(), "bad.xml": MUJOCO.encode(), "bad.csv": b"t,torque\n0,0\n1,1\n"}
    good["bad.npz"] = (folder / "good.npz").read_bytes()
    (folder / "in.csv").write_bytes(good["bad.csv"])
    wrong = []
    for _ in range(count):
        args = command(rng)
        for name, content in good.items():
            (folder / name).write_bytes(damage(rng, content))
        (folder / "p.toml").write_text(reword(rng, PROBLEM))
        out, err = io.StringIO(), io.StringIO()
        begun = time.process_time()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main(args)
            wrong.append((args, "did not exit"))
        except SystemExit as stop:
            if stop.code not in (None, 0, 1, 2):
                wrong.append((args, f"exit code {stop.code}"))
        except Exception as error:
            wrong.append((args, repr(error)))
        if "a bug in" in err.getvalue():
            wrong.append((args, err.getvalue()[:200] + (folder / "p.toml").read_text() * (args[0] == "optimize")))
        if time.process_time() - begun > 5.0:
            wrong.append((args, "more than five seconds"))
    return wrong


@pytest.mark.parametrize(("seed", "count"), [(1, 60), pytest.param(2, 2000, marks=pytest.mark.slow)])
def test_no_command_line_ends_in_a_bug(seed, count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    assert fuzz(seed, count, tmp_path) == []
