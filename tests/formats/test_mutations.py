"""Random damage to valid files of all formats: each mutant loads or raises ModelError with a place, quickly."""

import random
import re
import resource
import time

import pytest

import dalembert as da
from dalembert import formats, models

ROBOT = """<?xml version="1.0"?>
<robot name="arm">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  <link name="base"><visual><geometry><box size="1 1 0.1"/></geometry><material name="grey"/></visual></link>
  <link name="upper">
    <inertial><origin xyz="0 0 0.5" rpy="0.1 0.2 0.3"/><mass value="1.5"/>
      <inertia ixx="0.1" ixy="0.01" ixz="0" iyy="0.2" iyz="0" izz="0.25"/></inertial>
    <visual><origin xyz="0 0 0.5"/><geometry><mesh filename="package://a/upper.stl" scale="1 1 1"/></geometry></visual>
    <collision><geometry><cylinder radius="0.1" length="1"/></geometry></collision>
  </link>
  <link name="lower"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="finger"><inertial><mass value="0.1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="puck"><inertial><mass value="0.1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="ball"><inertial><mass value="0.1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/><origin xyz="0 0 0.1" rpy="0 0 1"/><axis xyz="1 2 3"/>
    <limit lower="-1" upper="1" effort="10" velocity="1"/><dynamics damping="0.1" friction="0"/>
  </joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><axis xyz="0 -1 0"/></joint>
  <joint name="grip" type="prismatic"><parent link="lower"/><child link="finger"/><axis xyz="0 0 1"/>
    <mimic joint="elbow" multiplier="0.5" offset="0.1"/></joint>
  <joint name="slide" type="planar"><parent link="base"/><child link="puck"/><axis xyz="0 1 0"/></joint>
  <joint name="fly" type="floating"><parent link="base"/><child link="ball"/></joint>
  <joint name="mount" type="fixed"><parent link="lower"/><child link="tool"/><origin rpy="0 1 0"/></joint>
</robot>
"""

MECHANISM = """<mujoco model="m">
  <compiler angle="radian" eulerseq="xyz"/>
  <option gravity="0 0 -9.8"/>
  <default><geom density="500"/><default class="c"><joint damping="1" stiffness="2"/></default></default>
  <worldbody>
    <body name="a" pos="1 2 3" euler="0.1 0.2 0.3" childclass="c">
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <joint name="j1" type="hinge" axis="1 0 1" pos="0 0 0.1" ref="0.1"/>
      <joint name="j2" type="slide" axis="0 1 0"/>
      <body name="b" pos="0 0 1" quat="1 0 0 1">
        <joint name="j3"/><geom type="capsule" fromto="0 0 0 0 0 1" size="0.1"/><site name="s1" pos="0 0 1"/>
      </body>
    </body>
    <body name="c"><freejoint name="f"/><geom type="box" size="0.1 0.2 0.3" mass="1"/><site name="s2"/></body>
    <body name="d"><joint name="k" type="ball"/><geom type="ellipsoid" size="0.1 0.2 0.3"/></body>
  </worldbody>
  <equality>
    <connect name="e1" body1="b" body2="c" anchor="0 0 1"/><weld name="e2" body1="c" body2="d" active="false"/>
    <joint joint1="j1" joint2="j3" polycoef="0 1 0 0 0"/><tendon tendon1="t"/>
  </equality>
  <tendon><spatial name="t" stiffness="10"><site site="s1"/><site site="s2"/></spatial></tendon>
  <actuator><motor name="m" joint="j1" gear="2"/></actuator>
  <keyframe><key name="home" qpos="0 0 0 0 0 0 1 0 0 0 1 0 0 0"/></keyframe>
</mujoco>
"""


def seeds(everything):
    """(format, text) of valid files."""
    q = {"q0": [0.1] * everything.nq}
    found = [("urdf", ROBOT), ("mjcf", MECHANISM)] * 3  # as many as of the others
    found += [(kind, formats.dumps(everything, kind, configurations=q)) for kind in ("sexp", "toml", "json")]
    for name in ("closed_chain", "crane", "cart_pole", "scissor_lift"):
        model, named = models.load_with_configurations(name)
        found += [(kind, formats.dumps(model, kind, configurations=named)) for kind in ("sexp", "toml", "json")]
    return found


SPICE = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "<",
    ">",
    "/",
    "=",
    ",",
    ":",
    ";",
    "#",
    "\\",
    "\n",
    "\x00",
    "\ufeff",
    "é",
    "𝛼",
]
SPICE += [
    "nan",
    "inf",
    "-1",
    "0",
    "1e999",
    "-0.0",
    "1e-320",
    "9" * 5000,
    "true",
    "null",
    '""',
    "world",
    "[[frames]]",
    "&a;",
    "<!--",
]
SPICE += [
    "(K ",
    "(D ",
    "kinematic",
    "parent = 0",
    '"parent": 99',
    "<![CDATA[",
    "<?xml?>",
    "<!DOCTYPE x>",
    "(" * 400,
    "[" * 400,
]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
STRING = re.compile(r'"[^"\n]*"')


def mutate(text, rng):
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        kind = rng.randrange(11)
        i, j = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        near = min(len(text), i + rng.randrange(1, 30))
        if kind == 0:
            text = text[:i] + text[near:]
        elif kind == 1:
            text = text[:i] + rng.choice(SPICE) + text[i:]
        elif kind == 2:
            text = text[:i] + text[i:near] + text[i:]
        elif kind == 3:
            text = text[:i] + chr(rng.choice((rng.randrange(1, 128), rng.randrange(128, 0xD800)))) + text[i + 1 :]
        elif kind == 4:
            text = text[:i]
        elif kind == 5:  # move a piece
            piece = text[i:near]
            text = text[:i] + text[near:]
            k = rng.randrange(len(text) + 1)
            text = text[:k] + piece + text[k:]
        elif kind == 6:  # another number
            text = swap(
                text, NUMBER, rng, ["0", "-1", "1e308", "1e999", "nan", "-0", "3.5", "x", "1_0", "2147483648", "0x1"]
            )
        elif kind == 7:  # another name
            text = swap(text, STRING, rng, ['"x"', '"world"', '""', '"cart"', '"theta"', "3", '"\\q"'])
        elif kind in (8, 9):  # a line twice, or none
            lines = text.split("\n")
            k = rng.randrange(len(lines))
            lines[k : k + 1] = [lines[k], lines[k]] if kind == 8 else []
            text = "\n".join(lines)
        else:  # two pieces change places
            text = text[:i] + text[j:] + text[i:j]
        if not text:
            break
    return text


def swap(text, pattern, rng, others):
    found = list(pattern.finditer(text))
    if not found:
        return text
    m = rng.choice(found)
    other = rng.choice([*others, rng.choice(found).group()])
    return text[: m.start()] + other + text[m.end() :]


def attack(valid, count, seed):
    rng = random.Random(seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = slowest = 0
    for n in range(count):
        kind, text = valid[n % len(valid)]
        broken = mutate(text, rng)
        raw = broken.encode("utf-8", "surrogatepass")
        if rng.random() < 0.05:
            k = rng.randrange(len(raw) + 1)
            raw = raw[:k] + bytes([rng.randrange(256)]) + raw[k:]
        start = time.process_time()
        complaint = None
        try:
            formats.loads(raw, kind)
            loaded += 1
        except da.ModelError as error:
            complaint = error
        except Exception as error:
            raise AssertionError((n, kind, repr(error), broken)) from error
        taken = time.process_time() - start
        slowest = max(slowest, taken)
        assert taken < 1.0, (n, kind, taken, broken)
        if complaint is not None:
            assert complaint.reason
            assert complaint.line is not None, (n, kind, broken, str(complaint))
            assert complaint.line >= 1
            assert complaint.column >= 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 200, grown
    assert 0 < loaded < count
    return loaded, slowest, grown


def test_seeds_are_valid(everything):
    for kind, text in seeds(everything):
        formats.loads(text, kind)


def test_500_mutations(everything):
    attack(seeds(everything), 500, seed=1)


@pytest.mark.slow
def test_10000_mutations(everything):
    loaded, slowest, grown = attack(seeds(everything), 10_000, seed=2)
    print(f"{loaded} of 10000 loaded, slowest {slowest:.3f} s, {grown:.0f} MB")
