"""Reading recorded motion: mapping, units, resampling, filtering, gaps."""

import numpy as np
import pytest

from dalembert.optimization import read_motion


def write(path, t, **columns):
    lines = ["# a recording", ",".join(["t", *columns])]
    for i, time in enumerate(t):
        lines.append(
            ",".join([repr(float(time)), *("" if np.isnan(c[i]) else repr(float(c[i])) for c in columns.values())])
        )
    path.write_text("\n".join(lines))
    return path


def test_maps_scales_and_resamples(tmp_path):
    t = 5 + np.arange(0, 2, 0.02)
    file = write(tmp_path / "a.csv", t, elbow=np.rad2deg(np.sin(t - 5)), hip=np.rad2deg(np.cos(t - 5)))
    wanted = np.linspace(0, 1.9, 77)
    got = read_motion(file, {"q1": "elbow", "q2": ("hip", -2.0, 0.5)}, wanted, degrees=True)
    np.testing.assert_allclose(got["q1"], np.sin(wanted), atol=1e-3)
    np.testing.assert_allclose(got["q2"], 0.5 - 2 * np.cos(wanted), atol=2e-3)


def test_unwraps(tmp_path):
    t = np.arange(0, 3, 0.01)
    angle = 4 * t
    file = write(tmp_path / "a.csv", t, a=(angle + np.pi) % (2 * np.pi) - np.pi)
    np.testing.assert_allclose(read_motion(file, {"q": "a"}, t)["q"], angle, atol=1e-9)


def test_filter_has_no_phase_lag_and_removes_noise(tmp_path):
    rng = np.random.default_rng(0)
    t = np.arange(0, 4, 1 / 30)
    clean = np.sin(2 * np.pi * 0.7 * t)
    file = write(tmp_path / "a.csv", t, a=clean + 0.05 * rng.normal(size=len(t)))
    wanted = np.linspace(0.3, 3.6, 200)
    truth = np.sin(2 * np.pi * 0.7 * wanted)
    raw = read_motion(file, {"q": "a"}, wanted)["q"]
    smooth = read_motion(file, {"q": "a"}, wanted, cutoff=3.0)["q"]
    assert np.std(smooth - truth) < 0.7 * np.std(raw - truth)


def test_rate_instead_of_times(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a\n0\n1\n2\n3\n")
    np.testing.assert_allclose(read_motion(file, {"q": "a"}, [0.05], time=10.0)["q"], [0.5])


def test_short_gaps_are_filled_long_ones_reported(tmp_path):
    t = np.arange(0, 1, 0.02)
    a = np.sin(t)
    a[10:14] = np.nan
    file = write(tmp_path / "a.csv", t, a=a)
    np.testing.assert_allclose(read_motion(file, {"q": "a"}, t)["q"], np.sin(t), atol=1e-3)
    with pytest.raises(ValueError, match=r"misses 0\.100 s of samples at 0\.180 s"):
        read_motion(file, {"q": "a"}, t, max_gap=0.05)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("t,a\n0,0\n1,1\n", {"columns": {"q": "b"}}, "no column 'b'"),
        ("t,a\n0,0\n1,1\n", {"t": [2.0]}, "the recording lasts 1.000 s"),
        ("t,a\n1,0\n0,1\n", {}, "must increase"),
        ("t,a\n0,0\n1\n", {}, "row 3 has 1 cells"),
        ("t,a\n0,x\n1,1\n", {}, "not a number"),
        ("t,a\n", {}, "at least two samples"),
        ("time,a\n0,0\n1,1\n", {}, "no column 't' of times"),
    ],
)
def test_mistakes(tmp_path, text, options, words):
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_motion(file, **{"columns": {"q": "a"}, "t": [0.0], **options})


def test_hold_keeps_the_last_value(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("t,a\n0,0\n1,1\n")
    np.testing.assert_allclose(read_motion(file, {"q": "a"}, [2.0], hold=True)["q"], [1.0])


BVH = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  JOINT LeftUpLeg
  {
    OFFSET 3.9 0 0
    CHANNELS 3 Zrotation Xrotation Yrotation
    End Site
    {
      OFFSET 0 -40 0
    }
  }
}
MOTION
Frames: 3
Frame Time: 0.05
0 90 0 0 0 0   1 170 3
0 91 0 0 0 0   1 -178 3
0 92 0 0 0 0   1 -166 3
"""


def test_bvh(tmp_path):
    """Rotations become radians, are unwrapped and resampled by the file's own rate; positions stay as they are."""
    file = tmp_path / "walk.bvh"
    file.write_text(BVH)
    columns = {"hip": ("LeftUpLeg.Xrotation", -1.0, 0.5), "height": "Hips.Yposition", "roll": "LeftUpLeg.Zrotation"}
    got = read_motion(file, columns, [0.0, 0.05, 0.075, 0.1])
    np.testing.assert_allclose(got["hip"], 0.5 - np.deg2rad([170, 182, 188, 194]), atol=1e-12)
    np.testing.assert_allclose(got["height"], [90, 91, 91.5, 92], atol=1e-12)
    np.testing.assert_allclose(got["roll"], np.deg2rad(1), atol=1e-15)
    file.write_text(BVH.replace("Xrotation", "XRotation"))  # some write it so
    again = read_motion(file, {"hip": ("LeftUpLeg.XRotation", -1.0, 0.5)}, [0.0, 0.05, 0.075, 0.1])
    np.testing.assert_array_equal(again["hip"], got["hip"])
    file.write_text(BVH)
    with pytest.raises(ValueError, match=r"no column 'LeftUpLeg.Xrotatoin'.*LeftUpLeg.Xrotation"):
        read_motion(file, {"hip": "LeftUpLeg.Xrotatoin"}, [0.0])
    with pytest.raises(ValueError, match=r"lasts 0\.100 s"):
        read_motion(file, {"hip": "LeftUpLeg.Xrotation"}, [0.2])


def test_bvh_with_names_of_words_and_positions_that_jump(tmp_path):
    """Positions in millimetres move by more than pi from frame to frame: they are no angles."""
    file = tmp_path / "walk.bvh"
    text = (
        BVH.replace("LeftUpLeg", "Left MOTION leg {")
        .replace("0 91 0", "0 980 0")
        .replace("\n", "\r\n")
        .replace("ROOT ", "ROOT\t")
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    got = read_motion(file, {"height": "Hips.Yposition", "hip": "Left MOTION leg.Xrotation"}, [0.0, 0.05, 0.1])
    np.testing.assert_allclose(got["height"], [90, 980, 92], atol=1e-12)
    np.testing.assert_allclose(got["hip"], np.deg2rad([170, 182, 194]), atol=1e-12)
    file.write_bytes(text.replace("Left", "Fu\xdf").encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_motion(file, {"height": "Hips.Yposition"}, [0.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("HIERARCHY", "SKELETON"), "begins with HIERARCHY"),
        (("MOTION", "MOVES"), "begins with HIERARCHY"),
        (("Frames: 3", "Frames: 4"), "4 frames of 9 channels are announced, but there are 3 rows of 9"),
        (("CHANNELS 3", "CHANNELS 2"), "LeftUpLeg announces 2 channels and names 3"),
        (("CHANNELS 3", "CHANNELS"), "announces Zrotation channels"),
        (
            ("3 Zrotation Xrotation Yrotation\n    End", "0\n    End"),
            "3 frames of 6 channels are announced, but there are 3 rows of 9",
        ),
        (("JOINT LeftUpLeg", "JOINT Hips"), "2 columns are called 'Hips.Xrotation'"),
        (("-178", "x"), "rows of numbers"),
        (("-178 3", "-178"), "rows of numbers"),
        (("Frame Time: 0.05", "Frame Time: 0"), "frame time must be positive"),
        (("Frame Time: 0.05", "Frame Time: inf"), "frame time must be positive"),
        (("Frame Time: 0.05", "Frame Time: 1e-320"), "frame time must be positive"),
    ],
)
def test_broken_bvh(tmp_path, change, message):
    file = tmp_path / "walk.bvh"
    file.write_text(BVH.replace(*change))
    with pytest.raises(ValueError, match=message):
        read_motion(file, {"hip": "Hips.Xrotation" if "Hips" in change[1] else "LeftUpLeg.Xrotation"}, [0.0])
