"""The examples of identification find what they promise, and save their figures."""

import importlib.util
import re

import matplotlib
import pytest

from dalembert.cli import example_files

matplotlib.use("Agg")
FILES = {p.stem: p for p in example_files()}


def run(name, tmp_path, capsys):
    """Printed text of an example."""
    spec = importlib.util.spec_from_file_location(name, FILES[name])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(["--out", str(tmp_path)])
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    return capsys.readouterr().out


def test_an_arm(tmp_path, capsys):
    text = run("identify_arm", tmp_path, capsys)
    assert "50 of 77 directions can be known" in text
    believed, found = (float(x) for x in re.findall(r"arm: ([\d.e-]+) rad", text))
    assert believed > 0.3
    assert found < 5e-4


def test_a_closed_chain(tmp_path, capsys):
    text = run("identify_closed_chain", tmp_path, capsys)
    rows = re.findall(r"true [\d.]+, said \+- ([\d.e-]+), spread of 40 records ([\d.e-]+)", text)
    assert len(rows) == 5
    for said, seen in rows:
        assert float(seen) == pytest.approx(float(said), rel=0.35)


def test_a_string(tmp_path, capsys):
    text = run("identify_string", tmp_path, capsys)
    for name, true in (("string", 0.75), ("tie", 0.2), ("forearm", 0.3), ("friction", 0.02)):
        value, spread = (float(x) for x in re.search(rf"{name} +([\d.e-]+) \+- ([\d.e-]+)", text).groups())
        assert abs(value - true) < 4 * spread
        assert spread < 0.02 * true
    moving, rest = (float(x) for x in re.findall(r"information ([\d.]+)", text))
    assert moving > 4 * rest
