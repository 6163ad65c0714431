"""Texts that are made to be slow or large to read: name -> (format, text of about n bytes).

As a program: reads one of them in a process of its own and prints seconds of CPU, megabytes and what came of it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable

BODIES = (
    '<mujoco><worldbody><body name="a"><joint name="q"/><geom size="1"/><site name="s1"/></body>'
    '<body name="b"><joint name="p"/><geom size="1"/><site name="s2"/></body></worldbody>'
)
LINK = '<link name="l{0}"/><joint name="j{0}" type="fixed"><parent link="{1}"/><child link="l{0}"/></joint>'
HEAVY = '<link name="h{0}"><inertial><mass value="1"/></inertial></link>'
MIMIC = '<joint name="h{0}" type="revolute"><parent link="b"/><child link="h{0}"/><mimic joint="h0"/></joint>'


def some(unit: str, n: int) -> str:
    """The unit again and again, n bytes of it."""
    return unit * (n // len(unit))


def many(make: Callable[[int], str], n: int) -> Iterable[str]:
    """make(0), make(1), ... until there are n bytes."""
    return (make(i) for i in range(n // (len(make(10**5)) + 1)))


def members(n: int, make: Callable[[int], str]) -> str:
    return ",".join(many(make, n))


TEXTS: dict[str, Callable[[int], str]] = {
    # JSON
    "json escapes": lambda n: '{"name": "' + some("\\n", n) + '"}',
    "json escapes that never end": lambda n: '{"name": "' + some('\\"', n),
    "json open quotes": lambda n: some('"a ', n),
    "json key twice at the end": lambda n: "{" + members(n, lambda i: f'"k{i}": 1') + ',"k0": 2}',
    "json unknown keys": lambda n: "{" + members(n, lambda i: f'"k{i}": 1') + "}",
    "json last frame wrong": lambda n: '{"frames": [' + members(n, lambda _: '{"tx": 1}') + ',{"ty": "a", "mas": 1}]}',
    "json numbers": lambda n: '{"variables": [' + members(n, lambda _: "1") + "]}",
    "json empty lists": lambda n: '{"frames": [' + members(n, lambda _: "[]") + "]}",
    "json deep": lambda n: some("[", n),
    "json digits": lambda n: '{"name": ' + some("9", n) + "}",
    "json misspelled parents": lambda n: (
        '{"frames": [{"tx": 1, "name": "frame number x"},'
        + members(n, lambda i: f'{{"tx": 1, "name": "frame number {i}"}}')
        + ',{"tx": 1, "parent": "frame nomber 7"}]}'
    ),
    "json chain": lambda n: '{"frames": [' + members(n, lambda i: f'{{"rx": "q{i}", "mass": 1, "parent": {i}}}') + "]}",
    "json one name": lambda n: '{"frames": [' + members(n, lambda _: '{"tx": 1, "name": "a"}') + "]}",
    "json tape": lambda n: (
        '{"frames": [{"tx": "x", "mass": 1}], "elements": [{"type": "Potential", "energy": {"variables": ["x"], "code": ['
        + members(n, lambda i: json.dumps(["INPUT", i, 0, 0, 0.0]))
        + "]}}]}"
    ),
    "json strings": lambda n: (
        '{"frames": ['
        + members(n // 2, lambda i: f'{{"tx": "x{i}", "name": "f{i}", "mass": 1, "parent": {i}}}')
        + '], "elements": ['
        + members(n // 2, lambda i: f'{{"type": "Distance", "frame1": "f{i}", "frame2": "world", "length": "x{i}"}}')
        + "]}"
    ),
    # TOML
    "toml quotes": lambda n: some('"', n),
    "toml escapes that never end": lambda n: 'a = "' + some('\\"', n),
    "toml escapes": lambda n: 'a = "' + some("\\n", n) + '"',
    "toml long strings": lambda n: 'a = """' + some('"" ', n),
    "toml long literals": lambda n: "a = '''" + some("'' ", n),
    "toml dotted key": lambda n: some("a.", n) + "b = 1",
    "toml dotted keys": lambda n: "\n".join(many(lambda i: "a." * 50 + f"k{i} = 1", n)),
    "toml dotted table": lambda n: "[" + some("a.", n) + "b]",
    "toml tables": lambda n: "\n".join(many(lambda i: f"[a{i}]", n)),
    "toml key twice": lambda n: "\n".join(many(lambda i: f"a{i} = 1", n)) + "\na0 = 2",
    "toml comments": lambda n: some("#\n", n) + "[[frames]]\nxx = 1",
    "toml frames": lambda n: "\n".join(many(lambda _: "[[frames]]\ntx = 1", n)) + "\n[[frames]]\ntt = 1",
    "toml brackets": lambda n: "a = " + some("[", n),
    "toml inline table": lambda n: "a = {" + members(n, lambda i: f"k{i} = 1") + "}",
    "toml numbers": lambda n: "a = [" + members(n, lambda _: "1") + "]",
    "toml spaces": lambda n: some(" ", n) + "x",
    "toml quoted keys": lambda n: "\n".join(many(lambda _: '"a"' * 30, n)),
    # s-expressions
    "sexp deep": lambda n: some("(", n),
    "sexp escapes": lambda n: '(system "' + some('\\"', n) + '")',
    "sexp frames": lambda n: "(system " + some("(tx 1)", n) + '(tx "x" (mass 1)))',
    "sexp atoms": lambda n: "(system " + some("a ", n) + ")",
    "sexp comments": lambda n: some(";\n", n),
    "sexp never closed": lambda n: "(system " + some("(tx 1)", n),
    # MJCF
    "mjcf tendons": lambda n: (
        BODIES + "<tendon>" + some('<spatial stiffness="1"><site site="s1"/><site site="s2"/></spatial>', n)
        + "</tendon></mujoco>"
    ),
    "mjcf connects": lambda n: (
        BODIES + "<equality>" + some('<connect name="c" body1="a" body2="b" anchor="0 0 0"/>', n)
        + "</equality></mujoco>"
    ),
    "mjcf welds": lambda n: (
        BODIES + "<equality>" + some('<weld name="w" body1="a" body2="b"/>', n) + "</equality></mujoco>"
    ),
    "mjcf attributes": lambda n: (
        "<mujoco><default><geom " + " ".join(many(lambda i: f'a{i}="1"', n // 2)) + "/></default><worldbody>"
        + some('<geom size="1"/>', n // 2) + "</worldbody></mujoco>"
    ),
    "mjcf classes": lambda n: (
        "<mujoco><default>" + "".join(many(lambda i: f'<default class="c{i}"><geom mass="1"/></default>', n))
        + "</default><worldbody/></mujoco>"
    ),
    "mjcf nested classes": lambda n: (
        "<mujoco><default>" + "".join(f'<default class="c{i}"><geom a{i}="1"/>' for i in range(380))
        + "</default>" * 381 + "<worldbody>" + some('<geom class="c379" size="1"/>', n) + "</worldbody></mujoco>"
    ),
    "mjcf geoms": lambda n: "<mujoco><worldbody>" + some('<geom size="1"/>', n) + "</worldbody></mujoco>",
    "mjcf bodies": lambda n: (
        "<mujoco><worldbody>" + some('<body><joint/><geom size="1"/></body>', n) + "</worldbody></mujoco>"
    ),
    "mjcf elements": lambda n: "<mujoco>" + some("<a/>", n) + "</mujoco>",
    "mjcf keys": lambda n: BODIES + "<keyframe>" + some('<key qpos="1 2"/>', n) + "</keyframe></mujoco>",
    "mjcf numbers": lambda n: f'<mujoco><worldbody><geom size="{some("1 ", n)}"/></worldbody></mujoco>',
    "mjcf sites": lambda n: (
        "<mujoco><worldbody>" + "".join(many(lambda i: f'<site name="site number {i}"/>', n))
        + '</worldbody><tendon><spatial><site site="site nomber 1"/><site site="x"/></spatial></tendon></mujoco>'
    ),
    "mjcf motors": lambda n: BODIES + "<actuator>" + some('<motor joint="q"/>', n) + "</actuator></mujoco>",
    # URDF
    "urdf links": lambda n: "<robot>" + "".join(many(lambda i: f'<link name="l{i}"/>', n)) + "</robot>",
    "urdf star": lambda n: (
        '<robot name="r"><link name="b"/>' + "".join(many(lambda i: LINK.format(i, "b"), n)) + "</robot>"
    ),
    "urdf chain": lambda n: (
        '<robot name="r"><link name="l-1"/>' + "".join(many(lambda i: LINK.format(i, f"l{i - 1}"), n)) + "</robot>"
    ),
    "urdf mimics": lambda n: (
        '<robot name="r"><link name="b"/>' + HEAVY.format(0) + MIMIC.format(0).replace('<mimic joint="h0"/>', "")
        + "".join(many(lambda i: HEAVY.format(i + 1) + MIMIC.format(i + 1), n)) + "</robot>"
    ),
    "urdf children": lambda n: (
        '<robot name="r"><link name="b"/><link name="c"/><joint name="j" type="fixed">' + some("<x/>", n)
        + '<parent link="b"/><child link="c"/></joint></robot>'
    ),
    "urdf visuals": lambda n: (
        '<robot name="r"><link name="b">'
        + some('<visual><geometry><mesh filename="package://a/b.stl"/></geometry></visual>', n) + "</link></robot>"
    ),
}  # fmt: skip


def read(name: str, n: int) -> tuple[float, str]:
    """Seconds of CPU to read the text, and what came of it: "ok" or the message of the ModelError."""
    from dalembert import ModelError, formats

    text = TEXTS[name](n)
    begun = time.process_time()
    try:
        formats.loads(text, name.split()[0])
        result = "ok"
    except ModelError as error:
        result = str(error)
    return time.process_time() - begun, result


if __name__ == "__main__":
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, result = read(sys.argv[1], int(sys.argv[2]))
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
    print(json.dumps([seconds, megabytes, result[:200]]))
