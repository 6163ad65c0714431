"""The description of what is drawn, and where it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from view_samples import cart_pole, closed_chain, everything, pendulum

import dalembert as da
from dalembert import Gravity, Model, PointOnPlane, RollingDisk, floating, rx, ry, rz, se3, tx, ty, tz
from dalembert.errors import ModelError
from dalembert.viewing.build import build_scene
from dalembert.viewing.geometry import quaternions
from dalembert.viewing.quantities import Pose, check_names, motions, samples, thin, variable_unit
from dalembert.viewing.scene import arrow_vectors, place, tinted
from dalembert.viewing.solids import solids_of, triangles


def elementary(transform: str, x: float, pitch: float = 0.0) -> np.ndarray:
    """Plain 4x4 of one frame, written out independently."""
    m = np.eye(4)
    if transform[0] == "t":
        m["xyz".index(transform[1]), 3] = x
        return m
    c, s = math.cos(x), math.sin(x)
    m[:3, :3] = {
        "rx": [[1, 0, 0], [0, c, -s], [0, s, c]],
        "ry": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
        "rz": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
    }[transform]
    m["xyz".index(transform[1]), 3] = pitch * x
    return m


def test_frame_poses_equal_products_of_matrices() -> None:
    fixed = np.eye(4)
    fixed[:3, :3] = elementary("ry", 0.4)[:3, :3] @ elementary("rx", -0.7)[:3, :3]
    fixed[:3, 3] = [0.1, -0.2, 0.3]
    make = {"tx": tx, "ty": ty, "tz": tz, "rx": rx, "ry": ry, "rz": rz}
    order = ["tx", "rz", "ty", "ry", "tz", "rx"]
    frame = se3(fixed, name="end", mass=1.0)
    for k in reversed(range(6)):
        frame = make[order[k]](f"q{k}", frame, **({"pitch": 0.3} if order[k] == "rz" else {}))
    model = Model([frame])
    rng = np.random.default_rng(1)
    q = rng.normal(size=(5, 6))
    expected = []
    for row in q:
        m = np.eye(4)
        for k in range(6):
            m = m @ elementary(order[k], row[model.index(f"q{k}")], 0.3 if order[k] == "rz" else 0.0)
        expected.append(m @ fixed)
    got = da.poses(model, q)
    assert got.shape == (5, 8, 4, 4)
    np.testing.assert_allclose(got[:, model.frame_index("end")], expected, atol=1e-14)
    np.testing.assert_allclose(da.poses(model, q[2]), got[2])


@pytest.mark.parametrize("make", [closed_chain, everything, cart_pole])
def test_frame_poses_equal_the_core(make) -> None:
    model = make()
    q = np.random.default_rng(2).normal(size=(7, model.nq))
    np.testing.assert_allclose(da.poses(model, q), da.poses(model, q), atol=1e-12)


def test_a_chain_of_300_links_is_placed() -> None:
    frame = rz("q299", tx(1.0, name="end", mass=1.0))
    for i in range(298, -1, -1):
        frame = rz(f"q{i}", tx(1.0, frame, mass=1.0))
    model = Model([frame])
    q = np.full(300, 2 * np.pi / 300)
    end = da.poses(model, q)[model.frame_index("end"), :3, 3]
    np.testing.assert_allclose(end, 0.0, atol=1e-10)  # a regular polygon closes
    scene = build_scene(model, q)
    assert sum(link.kind == "rod" for link in scene.links) == 300
    assert sum(s.role == "mass" for s in scene.shapes) == 300


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        da.poses(pendulum(), [0.0, 1.0])
    with pytest.raises(ValueError, match="NaN"):
        build_scene(pendulum(), [np.nan])


def test_closed_chain_has_all_rods_masses_and_pins() -> None:
    model = closed_chain()
    scene = build_scene(model)
    ends = place(scene, np.zeros(7)).links[0]
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    assert set(lengths.round(6)) == {0.375, 0.5, 0.75, 1.0, 2.0}  # every offset of Listing 1 except the fixed bases
    assert len(scene.links) == 14
    assert sum(s.role == "mass" for s in scene.shapes) == 7
    assert sum(s.role == "joint" and s.kind == "cylinder" for s in scene.shapes) == 7
    assert sum(s.role == "joint" and s.kind == "sphere" for s in scene.shapes) == 2  # the two loop closures
    assert scene.camera.up == (0.0, 0.0, 1.0)
    assert scene.camera.direction[1] < -0.9  # the motion is in the xz plane; x goes to the right


def test_unnamed_offsets_merge_into_one_rod() -> None:
    model = Model([rz("a", tx(1.0, ty(1.0, tz(1.0, name="tip", mass=1.0))))])
    (rod,) = build_scene(model).links
    ends = place(build_scene(model), [0.0]).links[0, 0]
    np.testing.assert_allclose(ends, [[0, 0, 0], [1, 1, 1]])
    assert rod.kind == "rod"


def test_one_of_each() -> None:
    model = everything()
    scene = build_scene(model)
    kinds = {link.kind for link in scene.links}
    assert {"spring", "damper", "string", "rod"} <= kinds
    roles = [s.role for s in scene.shapes]
    assert roles.count("visual") == 4
    assert roles.count("plane") == 1
    assert roles.count("mass") == 1  # only the plumb: the other bodies show their visuals
    assert [a.kind for a in scene.arrows] == ["force", "torque"]
    assert not [s for s in scene.shapes if s.role == "joint" and s.frame == model.frame_index("body")]
    ball = [s for s in scene.shapes if s.role == "joint" and s.kind == "sphere"]
    assert len(ball) == 1  # three rotations at one place are one ball


def test_a_cart_runs_on_a_rail_as_long_as_its_motion() -> None:
    model = cart_pole()
    q = np.zeros((10, 2))
    q[:, 0] = np.linspace(-3, 5, 10)
    (rail,) = [s for s in build_scene(model, q).shapes if s.role == "rail"]
    assert rail.size[1] > 8.0
    middle = np.array(rail.pose)[:3, 3]
    np.testing.assert_allclose(middle, [1.0, 0, 0])


def test_mass_boxes_have_the_given_inertia() -> None:
    m, sides = 2.0, np.array([0.2, 0.3, 0.4])
    inertia = m / 12 * (np.sum(sides**2) - sides**2)
    scene = build_scene(Model([da.free_euler("body", name="body", mass=m, inertia=tuple(inertia))]))
    (box,) = [s for s in scene.shapes if s.role == "mass"]
    assert box.kind == "box"
    np.testing.assert_allclose(box.size, sides)


def test_a_full_inertia_turns_the_box() -> None:
    turn = elementary("rz", 0.5)[:3, :3]
    inertia = turn @ np.diag([0.02, 0.03, 0.04]) @ turn.T
    scene = build_scene(Model([da.free_euler("body", name="body", mass=1.0, inertia=inertia)]))
    (box,) = [s for s in scene.shapes if s.role == "mass"]
    axes = np.array(box.pose)[:3, :3]
    back = axes @ np.diag((np.sum(np.square(box.size)) - np.square(box.size)) / 12) @ axes.T
    np.testing.assert_allclose(back, inertia, atol=1e-12)
    assert np.linalg.det(axes) == pytest.approx(1.0)


def test_missing_meshes_fall_back_to_masses_and_real_ones_load(tmp_path) -> None:
    import trimesh

    trimesh.creation.box((0.2, 0.2, 0.2)).export(tmp_path / "box.stl")

    def model(path: str) -> Model:
        arm = tx(1.0, name="link", mass=1.0, visuals=[da.Visual("mesh", (2.0, 2.0, 2.0), mesh=path)])
        return Model([rz("a", arm)])

    lost = build_scene(model(str(tmp_path / "none.stl")))
    assert [s.role for s in lost.shapes if s.role != "joint"] == ["mass"]
    found = build_scene(model(str(tmp_path / "box.stl")))
    (mesh,) = [s for s in found.shapes if s.role == "visual"]
    assert mesh.size == (2.0, 2.0, 2.0)
    (solid, local) = solids_of(mesh)[0]
    assert np.ptp(triangles(solid)[0] @ local[:3, :3].T, axis=0) == pytest.approx([0.4, 0.4, 0.4])


@pytest.mark.parametrize("solid", [("sphere",), ("box",), ("cylinder",), ("cone",), ("coil", 8, 0.05)])
def test_solids_are_closed_and_face_outwards(solid) -> None:
    vertices, faces = triangles(solid)
    corners = vertices[faces]
    volume = np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
    assert volume > 0.05
    expected = {"sphere": 4 / 3 * np.pi, "box": 1.0, "cylinder": np.pi, "cone": np.pi / 3}.get(solid[0])
    if expected:
        assert volume == pytest.approx(expected, rel=0.03)


def test_arrows_follow_the_axes_they_are_given_in() -> None:
    body = rz("a", tx(1.0, name="tip", mass=1.0))
    for axes, expected in (("body", [0, 2, 0]), ("mixed", [2, 0, 0])):
        scene = build_scene(Model([body], [da.Wrench("tip", force=("push", 0, 0), axes=axes)]))
        vector = arrow_vectors(scene, place(scene, [np.pi / 2]), [[2.0]])[0, 0]
        np.testing.assert_allclose(vector, expected, atol=1e-12)


def test_an_input_on_a_hinge_is_a_torque_about_its_axis() -> None:
    model = Model([ry("a", tx(1.0, name="tip", mass=1.0))], [da.ConfigForce("a", "motor")])
    scene = build_scene(model)
    assert [a.kind for a in scene.arrows] == ["torque"]
    np.testing.assert_allclose(arrow_vectors(scene, place(scene, [0.3]), [[2.0]])[0, 0], [0, 2, 0], atol=1e-12)


def test_quaternions_rotate_like_matrices() -> None:
    rng = np.random.default_rng(0)
    m = np.linalg.qr(rng.normal(size=(200, 3, 3)))[0]
    m *= np.linalg.det(m)[:, None, None]
    w, x, y, z = quaternions(m).T
    back = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)
    np.testing.assert_allclose(back, m, atol=1e-14)
    half_turns = np.array([np.diag(d) for d in ([1.0, -1, -1], [-1.0, 1, -1], [-1.0, -1, 1])])
    np.testing.assert_allclose(np.abs(quaternions(half_turns)), np.eye(4)[1:], atol=1e-15)


def test_units_come_from_the_frame_a_variable_drives() -> None:
    model = everything()
    assert variable_unit(model, "body.tx") == "m"
    assert variable_unit(model, "body.rz") == "rad"
    assert variable_unit(model, "rope") == "m"
    with pytest.raises(ModelError, match="did you mean 'rope'"):
        variable_unit(model, "rop")


def test_overlays_show_whose_part_it_is() -> None:
    scene = build_scene(closed_chain())
    alone = tinted(scene.links[0], (1.0, 0.0, 0.0), overlay=False)
    shared = tinted(scene.links[0], (1.0, 0.0, 0.0), overlay=True)
    assert max(alone) - min(alone) < 0.15  # steel
    assert shared[0] - shared[1] > 0.5  # red


def test_runaway_motions_are_followed() -> None:
    q = np.zeros((20, 6))
    q[:, 0] = np.linspace(0, 1000, 20)
    scene = build_scene(Model([da.free_euler("body", tx(0.5, name="tip"), name="body", mass=1.0)]), q)
    assert scene.camera.follow
    assert scene.camera.radius < 5


def test_inputs_of_the_room_are_checked() -> None:
    with pytest.raises(TypeError, match="Trajectory or a Model"):
        motions(3.0)
    with pytest.raises(ValueError, match="nothing to show"):
        motions([])
    model = pendulum()
    with pytest.raises(ValueError, match="NaN"):
        motions(Pose(model, np.array([[np.nan]])))
    with pytest.raises(ValueError, match="shape"):
        motions(Pose(model, np.zeros((1, 2))))
    with pytest.raises(ValueError, match="2 strings"):
        check_names(motions([model, model]), ["one"])


def test_thinning_keeps_ends_and_peaks() -> None:
    t = np.linspace(0, 1, 10001)
    y = np.sin(t)
    y[5003] = 9.0
    y[777] = -9.0
    tt, yy = thin(t, y, 200)
    assert len(tt) <= 200
    assert (yy.max(), yy.min()) == (9.0, -9.0)
    assert np.all(np.diff(tt) > 0)
    keep = samples(10001, 100)
    assert (keep[0], keep[-1], len(keep)) == (0, 10000, 100)


def test_room_and_function_have_names_of_their_own() -> None:
    assert da.viewing.view is da.view


def test_wheels_stand_on_the_ground() -> None:
    coin = floating("coin", name="coin", mass=0.1, inertia=(2.5e-5, 5e-5, 2.5e-5))
    scene = build_scene(Model([coin], [RollingDisk("coin", radius=0.03, axis="y")]), [[0, 0, 0.03, 1, 0, 0, 0]])
    assert "plane" not in [shape.role for shape in scene.shapes]
    assert scene.ground == 0.0
    slope = Model([tx("x", tz("z", name="bead", mass=1.0))], [Gravity(), PointOnPlane("world", (1, 0, 1), "bead")])
    assert [shape.role for shape in build_scene(slope).shapes].count("plane") == 1
