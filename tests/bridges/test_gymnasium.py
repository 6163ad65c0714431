"""gymnasium: its own checker, one environment and many, ends of episodes."""

import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert import models

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


def test_a_step_without_solution_ends_the_episode():
    never = task(over=None, cost=lambda x, u: 0.0, actions=[[0.0], [1e300]])
    env = Environment(system(), **never)
    env.reset(seed=0)
    *_, truncated, info = env.step(1)
    assert truncated
    assert info == {"failed": True}
    envs = VectorEnvironment(system(), 3, **never)
    envs.reset(seed=0)
    x, _, _, truncated, info = envs.step(np.array([0, 1, 0]))
    assert np.isfinite(x).all()
    assert truncated.tolist() == info["failed"].tolist() == [False, True, False]


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="equal length"):
        Environment(da.System(da.MidpointVI(models.cart_pole(), 0.02), t=[0.0, 0.1, 0.3]), **task())
    env = Environment(system(), **task(start=lambda rng, n: np.zeros((n, 3))))
    with pytest.raises(ValueError, match=r"start\(rng, n\)"):
        env.reset()
