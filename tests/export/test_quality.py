"""The exported C as compilers, sanitizers and a checker see it; its own test vectors."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import dalembert as da
from dalembert.export import export_c
from tests.balls import mechanism, start
from tests.export import designs
from tests.export.compiled import compiler
from tests.random_models import random_model

pytestmark = pytest.mark.filterwarnings("ignore::dalembert.errors.AccuracyWarning")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


def build_and_run(folder: Path, cc: str, *flags: str) -> str:
    sources = sorted(str(f) for f in folder.glob("*.c") if f.name != "shim.c")
    program = folder / f"test_{cc}"
    command = [compiler(cc), *STRICT, *flags, *sources, "-lm", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize(
    ("design", "cc", "real"),
    [
        ("cart_pole", "gcc", "float"),
        ("cart_pole", "clang", "double"),
        ("closed_chain", "gcc", "double"),
        ("closed_chain", "clang", "float"),
    ],
)
def test_designs_compile_without_a_warning_and_repeat_the_vectors(design, cc, real, tmp_path):
    vi, options = getattr(designs, design)()
    export_c(vi, tmp_path, real=real, **options)
    assert ": ok" in build_and_run(tmp_path, cc, "-O1")


@pytest.mark.parametrize("design", ["cart_pole", "closed_chain"])
def test_sanitizers_find_nothing(design, tmp_path):
    vi, options = getattr(designs, design)()
    export_c(vi, tmp_path, **options)
    flags = ("-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all")
    assert ": ok" in build_and_run(tmp_path, "gcc", *flags)


def test_a_step_alone_repeats_the_vectors(tmp_path):
    """Prescribed variables and a constraint, without a filter; a body with balls."""
    model, places = da.models.load_with_configurations("crane")
    vi = da.MidpointVI(model, 0.01)
    export_c(vi, tmp_path / "crane", start=vi.state(da.satisfy_constraints(model, places["q0"])), vectors=100)
    assert ": ok" in build_and_run(tmp_path / "crane", "gcc", "-O1")
    vi = da.MidpointVI(mechanism(0), 0.01)
    export_c(vi, tmp_path / "balls", start=start(vi, 0), name="balls", linearize=False)
    assert ": ok" in build_and_run(tmp_path / "balls", "clang", "-O1")
    flags = ("-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all")
    assert ": ok" in build_and_run(tmp_path / "balls", "gcc", *flags)


@pytest.mark.parametrize("real", ["float", "double"])
def test_bounds_of_chains_are_those_of_their_numbers(real, tmp_path):
    """A, B and covariances of long chains lose more digits than states do: the example asks for what there is."""
    for n in (3, 16):
        vi = da.MidpointVI(da.models.n_link(n), 0.01)
        ekf = da.ExtendedKalmanFilter(vi, da.measure(vi, *vi.model.variables[:2]), Q=1e-6, R=1e-4)
        out = export_c(vi, tmp_path / f"n{n}", real=real, ekf=ekf)
        assert ": ok" in build_and_run(tmp_path / f"n{n}", "gcc", "-O1")
        assert out.loop_bound >= out.bound
        assert f"within {out.loop_bound:g}." in (tmp_path / f"n{n}" / f"{out.name}.h").read_text()


def test_single_precision_that_is_not_enough_is_said(tmp_path):
    vi = da.MidpointVI(da.models.n_link(32), 0.01)
    ekf = da.ExtendedKalmanFilter(vi, da.measure(vi, vi.model.variables[0]), Q=1e-6, R=1e-4)
    with pytest.warns(da.ModelWarning, match="real='double'"):
        export_c(vi, tmp_path, real="float", ekf=ekf)


@pytest.mark.parametrize(
    "name", ["static", "sin", "main", "real", "mech", "m", "linearize", "element", "class", "R", "2 links", "linux"]
)
def test_names_that_c_or_the_files_use_themselves(name, tmp_path):
    """Models, variables and inputs with names of C, of its library, of the exported code, beyond ASCII, twice the same but for a sign."""
    link = da.ry("für", da.tz(-1, mass=1.0, inertia=(0.1, 0.1, 0.1), name="größe"))
    model = da.Model(
        [
            da.rx(
                "int",
                da.tz(-1.0, link, da.rx("a b", da.tz(-0.4, da.rx("a-b", da.tz(-1.0, mass=0.3)), mass=1.0)), mass=1.0),
            )
        ],
        [da.Gravity(), da.ConfigForce("int", "return"), da.ConfigForce("für", "/*u*/")],
        name=name,
    )
    export_c(da.MidpointVI(model, 0.01), tmp_path)
    for cc in ("gcc", "clang"):
        assert ": ok" in build_and_run(tmp_path, cc, "-O1")


def test_bodies_that_roll_or_fly_are_clean_under_both_compilers(tmp_path):
    vi = da.MidpointVI(da.models.bicycle(), 0.01)
    body = da.floating("body", da.tx(0.3, name="rotor"), name="body", mass=1.0, inertia=(0.1, 0.2, 0.3))
    flyer = da.MidpointVI(
        da.Model([body], [da.Gravity(), da.Wrench("rotor", force=(0, 0, "lift"))], name="flyer"), 0.01
    )
    for name, one in (("bicycle", vi), ("flyer", flyer)):
        sensor = da.measure_frame(one, one.model.frame_names[-1]) + da.measure_gyroscope(one, one.model.frame_names[-1])
        if name == "flyer":
            sensor += da.measure_accelerometer(one, "rotor")
        ekf = da.ExtendedKalmanFilter(one, sensor, Q=1e-5, R=1e-4)
        export_c(one, tmp_path / name, ekf=ekf)
        assert ": ok" in build_and_run(tmp_path / name, "clang", "-O1")
        flags = ("-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all")
        assert ": ok" in build_and_run(tmp_path / name, "gcc", *flags)


def test_checker_finds_nothing(tmp_path):
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed")
    vi, options = designs.closed_chain()
    files = [str(f) for f in export_c(vi, tmp_path, **options).files if f.suffix == ".c"]
    many = da.MidpointVI(random_model(3), 0.01)
    files += [str(f) for f in export_c(many, tmp_path / "random").files if f.name == "random3.c"]
    command = ["cppcheck", "--quiet", "--std=c99", "--error-exitcode=3", "--enable=warning,portability,performance"]
    done = subprocess.run([*command, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def test_misra_findings_are_those_that_the_page_lists(tmp_path):
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed")
    vi, options = designs.cart_pole()
    files = [str(f) for f in export_c(vi, tmp_path, **options).files if f.suffix == ".c" and f.name != "main.c"]
    rolls = da.MidpointVI(da.models.bicycle(), 0.01)
    files += [str(f) for f in export_c(rolls, tmp_path / "rolls").files if f.name == "bicycle.c"]
    command = ["cppcheck", "--quiet", "--std=c99", "--enable=style", "--addon=misra", *files]
    found = subprocess.run(command, capture_output=True, text=True).stderr
    if "misra-c2012" not in found:
        pytest.skip(f"cppcheck has no addon for MISRA here: {found[:200]}")
    page = (Path(__file__).parents[2] / "docs/howto/embedded.md").read_text()
    listed = set(re.findall(r"^\| (\d+\.\d+(?:, \d+\.\d+)*) \|", page, re.MULTILINE))
    known = {rule for row in listed for rule in row.split(", ")}
    assert set(re.findall(r"misra-c2012-(\d+\.\d+)", found)) <= known


@pytest.mark.parametrize(
    ("gcc", "qemu", "real"),
    [
        ("arm-linux-gnueabihf-gcc", "qemu-arm", "float"),
        ("arm-linux-gnueabihf-gcc", "qemu-arm", "double"),
        ("aarch64-linux-gnu-gcc", "qemu-aarch64", "double"),
    ],
)
def test_other_processors_repeat_the_vectors(gcc, qemu, real, tmp_path):
    """The same files on ARM of 32 and 64 bits, by user-mode emulation."""
    for tool, package in ((gcc, f"gcc-{gcc.removesuffix('-gcc')}"), (qemu, "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: {package})")
    vi, options = designs.closed_chain()
    export_c(vi, tmp_path, real=real, **options)
    sources = sorted(map(str, tmp_path.glob("*.c")))
    done = subprocess.run(
        [gcc, *STRICT, "-O1", "-static", *sources, "-lm", "-o", str(tmp_path / "test")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:3000]
    run = subprocess.run([qemu, str(tmp_path / "test")], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert ": ok" in run.stdout


def test_cmake_builds_and_tests_it(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    vi, options = designs.cart_pole()
    export_c(vi, tmp_path, **options)
    for command in (["cmake", "-B", "build"], ["cmake", "--build", "build"], ["./build/cart_pole_test"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_allocates_recurses_or_prints(tmp_path):
    """Symbols that the object files need: libm, and what a compiler puts in by itself."""
    vi, options = designs.closed_chain()
    out = export_c(vi, tmp_path, **options)
    needed = set()
    for file in out.files:
        if file.suffix == ".c" and file.name != "main.c":
            target = tmp_path / f"{file.stem}.o"
            subprocess.run(
                [compiler(), *STRICT, "-O2", "-fno-stack-protector", "-c", str(file), "-o", str(target)], check=True
            )
            text = subprocess.run(["nm", "-u", str(target)], capture_output=True, text=True, check=True).stdout
            needed |= {line.split()[-1] for line in text.splitlines()}
    own = {name for name in needed if name.startswith("closed_chain_")}
    assert needed - own <= {"sin", "cos", "sincos", "sqrt", "memset", "memcpy", "memmove", "_GLOBAL_OFFSET_TABLE_"}
