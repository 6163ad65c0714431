"""One version number: everything that names a version names that of the package."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import dalembert as da

ROOT = Path(__file__).resolve().parents[1]


def test_the_version_is_written_once():
    """pyproject.toml reads it from the package; the files that must repeat it agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    (source,) = project["tool"]["dynamic-metadata"]
    assert (source["field"], source["input"]) == ("version", "src/dalembert/__init__.py")
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == da.__version__
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert sections[1].split()[0] == da.__version__


def test_an_installation_has_the_version_of_the_package():
    try:
        found = metadata.version("dalembert")
    except metadata.PackageNotFoundError:
        pytest.skip("dalembert runs from its source, nothing is installed")
    assert found == da.__version__
