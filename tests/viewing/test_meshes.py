"""Mesh files: what cannot be read is named in a warning, and the rest is drawn."""

import warnings
import zipfile

import numpy as np
import pytest
import trimesh

import dalembert as da
from dalembert.viewing import build_scene
from dalembert.viewing.meshes import MAX_BYTES, load_mesh, simplified


def arm(path):
    return da.Model([da.rx("q", da.tz(-1.0, name="bob", mass=1.0, visuals=[da.Visual("mesh", mesh=str(path))]))])


def test_a_good_mesh_says_nothing(tmp_path):
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.stl")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vertices, _ = load_mesh(str(tmp_path / "box.stl"))
    assert np.ptp(vertices, axis=0) == pytest.approx([1, 2, 3])


def bad_files(folder):
    yield folder / "missing.stl", "there is no such file"
    yield folder, "the suffix must be one of"
    broken = folder / "broken.stl"
    broken.write_bytes(b"solid nothing\nfacet nonsense")
    yield broken, ""
    empty = folder / "empty.obj"
    empty.write_text("# nothing\n")
    yield empty, ""
    far = folder / "far.obj"
    far.write_text("v 0 0 0\nv 1 0 0\nv nan inf 0\nf 1 2 3\n")
    yield far, ""
    zipped = folder / "mesh.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mesh.stl", b"\0" * 50_000_000)
    yield zipped, "the suffix must be one of"
    huge = folder / "huge.stl"
    with huge.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    yield huge, "larger than 64 MB"


def test_what_cannot_be_read_is_named_in_a_warning(tmp_path):
    for path, reason in bad_files(tmp_path):
        with pytest.warns(UserWarning, match="is not drawn") as seen:
            assert load_mesh(str(path)) is None
        assert repr(str(path)) in str(seen[0].message)
        assert reason in str(seen[0].message)
        assert load_mesh(str(path)) is None  # remembered


def test_the_motion_is_seen_all_the_same(tmp_path):
    with pytest.warns(UserWarning, match="'.*lost.stl' is not drawn"):
        scene = build_scene(arm(tmp_path / "lost.stl"), np.zeros((1, 1)))
    assert scene.shapes  # a mass instead of its picture


def test_many_lost_files_are_one_warning(tmp_path):
    """A robot without its meshes filled the screen."""
    visuals = [da.Visual("mesh", mesh=str(tmp_path / f"{part}.stl")) for part in ("arm", "hand", "tool")]
    with pytest.warns(UserWarning, match="arm.stl' is not drawn: there is no such file .nor are 2 others") as seen:
        build_scene(da.Model([da.rz("a", mass=1.0, inertia=(1, 1, 1), visuals=visuals)]), np.zeros((1, 1)))
    assert len(seen) == 1


def test_escapes_in_a_path_are_not_printed(tmp_path):
    with pytest.warns(UserWarning, match="not drawn") as seen:
        load_mesh(str(tmp_path / "\x1b[31m.stl"))
    assert "\x1b" not in str(seen[0].message)


def test_fine_meshes_become_coarse():
    ball = trimesh.creation.icosphere(5)
    vertices, faces = simplified(np.array(ball.vertices), np.array(ball.faces), 2000)
    assert 200 < len(faces) <= 2000
    assert np.linalg.norm(vertices, axis=1).max() <= 1.0 + 1e-12
