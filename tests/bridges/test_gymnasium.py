"""gymnasium: its own checker, one environment and many, ends of episodes."""

import os
import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert import models
from dalembert.integrate.motions import PlainMotions

gym = pytest.importorskip("gymnasium", reason="the extra [gymnasium] is not installed")

from dalembert.bridges.gymnasium import Environment, VectorEnvironment  # noqa: E402


def task(**changes):
    return {
        "start": lambda rng, n: rng.uniform(-0.05, 0.05, (n, 4)) + np.array([0, np.pi, 0, 0]),
        "cost": lambda x, u: (x[:, 1] - np.pi) ** 2 + 1e-3 * u[:, 0] ** 2,
        "over": lambda x: abs(x[:, 1] - np.pi) > 0.2,
        "actions": (-10.0, 10.0),
    } | changes


def system(steps=50):
    return da.System(da.MidpointVI(models.cart_pole(), 0.02), steps=steps)


@pytest.mark.parametrize("actions", [(-10.0, 10.0), [[-10.0], [10.0]]])
def test_checker(actions):
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it advises bounds for what is seen
        check_env(Environment(system(), **task(actions=actions)), skip_render_check=True)


def test_an_environment_is_the_system():
    sys = system()
    env = Environment(sys, **task())
    x, _ = env.reset(seed=4)
    u = np.array([1.5])
    new, reward, over, truncated, info = env.step(u)
    assert np.abs(new - sys.f(x, u)).max() < 1e-13
    assert reward == pytest.approx(-((new[1] - np.pi) ** 2) - 1e-3 * 1.5**2)
    assert not over
    assert not truncated
    assert info == {}


def test_many_are_as_one():
    sys = system()
    envs, env = VectorEnvironment(sys, 5, **task()), Environment(sys, **task())
    x, _ = envs.reset(seed=2)
    env.reset(seed=0)
    actions = np.linspace(-5, 5, 5)[:, None]
    new, reward, *_ = envs.step(actions)
    for i in range(5):
        env.state = x[i : i + 1]
        one = env.step(actions[i])
        env._count = 0
        assert np.abs(one[0] - new[i]).max() < 1e-13
        assert one[1] == pytest.approx(reward[i])


def test_episodes_end_and_begin_anew():
    envs = VectorEnvironment(system(30), 64, **task(actions=[[-10.0], [10.0]]))
    envs.reset(seed=1)
    rng = np.random.default_rng(0)
    ended = np.zeros(64, dtype=bool)
    seen = 0
    for _ in range(100):
        x, reward, over, truncated, _ = envs.step(rng.integers(0, 2, 64))
        assert (abs(x[ended, 1] - np.pi) <= 0.05).all()  # those begin anew
        assert not reward[ended].any()
        assert (over == ((abs(x[:, 1] - np.pi) > 0.2) & ~ended)).all()
        ended = over | truncated
        seen += ended.sum()
    assert seen > 64 * 3


UP = np.array([0, np.pi, 0, 0])
BOXES = {"start": (UP - 0.05, UP + 0.05), "cost": -1.0, "over": {"x": (-2.4, 2.4), "theta": (np.pi - 0.2, np.pi + 0.2)}}


@pytest.mark.parametrize("n", [1, 3, 20])
def test_boxes_are_as_functions(n):
    """Starts, costs and ends without functions, the same with them, and the same of a map that is not of the core."""
    functions = {
        "start": lambda rng, n: rng.uniform(*BOXES["start"], (n, 4)),
        "cost": lambda x, u: -np.ones(len(x)),
        "over": lambda x: (abs(x[:, 0]) > 2.4) | (abs(x[:, 1] - np.pi) > 0.2),
    }
    plain = system(30)
    plain.__dict__["motions"] = PlainMotions(plain._steps)
    kinds = [(system(30), BOXES), (system(30), functions), (plain, BOXES), (plain, functions)]
    kinds += [(system(30), BOXES | {key: functions[key]}) for key in functions]
    all_envs = [VectorEnvironment(s, n, **task(actions=[[-10.0], [10.0]], **kind)) for s, kind in kinds]
    firsts = [envs.reset(seed=3)[0] for envs in all_envs]
    assert all((x == firsts[0]).all() for x in firsts)
    rng, ends = np.random.default_rng(0), np.zeros(2)
    for k in range(70):
        actions = rng.integers(0, 2, n)
        (x, reward, over, truncated, info), *others = (envs.step(actions) for envs in all_envs)
        assert info == {}
        assert (all_envs[0].state == x).all()
        ends += over.sum(), truncated.sum()
        for i, other in enumerate(others, 1):
            # boxes draw ahead: after the first ends other episodes begin elsewhere
            if k < 5 or (i == 2 and ends.any()):
                assert np.abs(other[0] - x).max() < 1e-12
                for mine, its in zip((reward, over, truncated), other[1:4], strict=True):
                    assert (mine == its).all()
    assert ends[0] > 0
    if n > 1:
        return
    for _ in range(2):  # from the top, pushed to and fro, an episode lasts to its end
        all_envs[0]._many.begin(UP[None])
        flags = [all_envs[0].step([k % 2])[2:4] for k in range(30)]
        assert not any(over for over, _ in flags)
        assert [bool(cut) for _, cut in flags] == 29 * [False] + [True]


def test_seeds_repeat():
    envs = VectorEnvironment(system(), 20, **task(actions=[[-10.0], [10.0]], **BOXES))
    actions = np.random.default_rng(1).integers(0, 2, (60, 20))
    runs = []
    for seed in (5, 5, 6):
        envs.reset(seed=seed)
        runs.append(np.array([envs.step(a)[0] for a in actions]))
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


def test_threads_are_as_one():
    """A chain of 8 links, large enough for threads."""
    chain = da.System(da.MidpointVI(models.n_link(8), 0.01), steps=20)
    options = {"start": (-1.0, 1.0), "cost": 0.0, "actions": [np.zeros(chain.nu)]}
    assert chain.motions.threads(200, 1) > 1 or os.cpu_count() == 1
    envs = VectorEnvironment(chain, 200, **options)
    x, _ = envs.reset(seed=0)
    new = envs.step(np.zeros(200, dtype=int))[0]
    for i in range(0, 200, 7):
        assert np.abs(new[i] - chain.f(x[i], np.zeros(chain.nu))).max() < 1e-12


@pytest.mark.parametrize("core", [True, False])
def test_a_step_without_solution_ends_the_episode(core):
    never = task(over=None, cost=lambda x, u: 0.0, actions=[[0.0], [1e300]])
    env = Environment(system(), **never)
    env.reset(seed=0)
    *_, truncated, info = env.step(1)
    assert truncated
    assert info == {"failed": True}
    sys = system()
    if not core:
        sys.__dict__["motions"] = PlainMotions(sys._steps)
    envs = VectorEnvironment(sys, 3, **never)
    before, _ = envs.reset(seed=0)
    x, _, _, truncated, info = envs.step(np.array([0, 1, 0]))
    assert np.isfinite(x).all()
    assert (x[1] == before[1]).all()
    assert truncated.tolist() == info["failed"].tolist() == [False, True, False]
    x, _, over, truncated, info = envs.step(np.array([0, 1, 0]))  # begins anew, whatever is asked of it
    assert info == {}
    assert not (over | truncated).any()
    assert (abs(x[1] - UP) <= 0.05).all()


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="equal length"):
        Environment(da.System(da.MidpointVI(models.cart_pole(), 0.02), t=[0.0, 0.1, 0.3]), **task())
    env = Environment(system(), **task(start=lambda rng, n: np.zeros((n, 3))))
    with pytest.raises(ValueError, match=r"start\(rng, n\)"):
        env.reset()
    for error, match, changes in (
        (TypeError, "pair", {"start": 3.0}),
        (ValueError, "bounds of start", {"start": (np.zeros(3), np.ones(4))}),
        (ValueError, "bounds of start", {"start": (np.nan, 1.0)}),
        (ValueError, "above", {"start": (1.0, -1.0)}),
        (ValueError, "cost", {"cost": np.nan}),
        (ValueError, "cost", {"cost": [1.0, 2.0]}),
        (ValueError, "cost", {"cost": "much"}),
        (TypeError, "over", {"over": 0.2}),
        (ValueError, "did you mean 'theta'", {"over": {"thet": (0.0, 1.0)}}),
        (ValueError, "low, high", {"over": {"theta": (1.0, 0.0)}}),
        (ValueError, "low, high", {"over": {"theta": 1.0}}),
        (ValueError, "low, high", {"over": {"theta": (np.nan, 1.0)}}),
    ):
        with pytest.raises(error, match=match):
            VectorEnvironment(system(), 2, **task(**changes))


@pytest.mark.parametrize("core", [True, False])
def test_wrong_actions_are_refused_and_change_nothing(core):
    sys = system()
    if not core:
        sys.__dict__["motions"] = PlainMotions(sys._steps)
    envs = VectorEnvironment(sys, 3, **task(actions=[[-10.0], [10.0]], **BOXES))
    with pytest.raises(gym.error.ResetNeeded):
        envs.step(np.zeros(3, dtype=int))
    x, _ = envs.reset(seed=0)
    for bad in ([0, 2, 0], [0, 1], np.zeros((3, 2), dtype=int), [0.5, 0.0, 1.0], "ab", None):
        with pytest.raises((IndexError, ValueError)):
            envs.step(bad)
    assert (envs.state == x).all()
    assert envs.step([0, 1, 0])[0].shape == (3, 4)
    assert envs.step(np.array([0, 1, 0], dtype=np.int8))[0].shape == (3, 4)
    with pytest.raises(ValueError, match="at least one environment"):
        VectorEnvironment(sys, 0, **task())
    free = VectorEnvironment(sys, 1, **task(actions=(-1.0, 1.0), **BOXES))
    free.reset(seed=0)
    with pytest.raises(ValueError, match="a double can hold"):
        free.step(10**400)
    free = VectorEnvironment(sys, 3, **task())
    free.reset(seed=0)
    with pytest.raises(ValueError, match="actions"):
        free.step(np.zeros((2, 1)))
