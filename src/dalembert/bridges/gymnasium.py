"""gymnasium: environments of a system, one (`Environment`) or many at once (`VectorEnvironment`), for reinforcement learning.

The task is three functions of whole batches: where episodes start, what a step costs, and when an episode is over; an episode has at most
`system.steps` steps. The same functions serve one environment and many.

>>> import numpy as np, dalembert as da
>>> from dalembert.bridges.gymnasium import VectorEnvironment
>>> cart = da.System(da.MidpointVI(da.models.load("cart_pole"), dt=0.02), steps=500)
>>> envs = VectorEnvironment(
...     cart, 64,
...     start=lambda rng, n: rng.uniform(-0.05, 0.05, (n, 4)) + [0, np.pi, 0, 0],
...     cost=lambda x, u: (x[:, 1] - np.pi) ** 2 + 0.1 * x[:, 0] ** 2,
...     over=lambda x: abs(x[:, 1] - np.pi) > 0.2,
...     actions=(-10.0, 10.0))
>>> x, info = envs.reset(seed=1)
>>> x, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
>>> x.shape, reward.shape
((64, 4), (64,))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from dalembert import ConvergenceError, System
from dalembert.arrays import Array, finite

Start = Callable[[np.random.Generator, int], ArrayLike]
Cost = Callable[[Array, Array], ArrayLike]
Over = Callable[[Array], ArrayLike]
Observe = Callable[[Array], ArrayLike]


class _Task:
    """What an environment does, for n of them at once."""

    def __init__(
        self,
        system: System,
        start: Start,
        cost: Cost,
        over: Over | None,
        actions: tuple[ArrayLike, ArrayLike] | ArrayLike,
        observe: Observe | None,
    ) -> None:
        if not np.allclose(system.dt, system.dt[0], rtol=1e-12, atol=0):
            raise ValueError("an environment needs steps of equal length: System(one_step, steps=N)")
        self.system, self._start, self._cost, self._over, self._observe = system, start, cost, over, observe
        self._roll = system.motions.roll
        self.choices: Array | None = None
        if isinstance(actions, tuple):
            low, high = (np.broadcast_to(finite(b, "bounds of the actions"), (system.nu,)) for b in actions)
            self.action_space: spaces.Space[Any] = spaces.Box(low, high, dtype=np.float64)
        else:
            self.choices = finite(actions, "actions", (None, system.nu))
            self.action_space = spaces.Discrete(len(self.choices))
        seen = self.observe(system.neutral()[None])
        self.observation_space = spaces.Box(-np.inf, np.inf, seen.shape[1:], dtype=np.float64)

    def start(self, rng: np.random.Generator, n: int) -> Array:
        """States (n, nx) where episodes start."""
        return finite(self._start(rng, n), "the states of start(rng, n)", (n, self.system.nx))

    def inputs(self, action: Any) -> Array:
        """The inputs (n, nu) of actions; what a continuous action has outside of its bounds is cut off."""
        if self.choices is not None:
            return self.choices[action]
        box = self.action_space
        assert isinstance(box, spaces.Box)
        return np.clip(np.asarray(action, dtype=np.float64), box.low, box.high)

    def step(self, x: Array, u: Array) -> tuple[Array, NDArray[np.bool_] | None]:
        """Next states (n, nx), and which steps have no solution (these stay where they are), None if all have one."""
        try:
            return self._roll(x, u[:, None])[:, 1], None
        except ConvergenceError:
            new, failed = x.copy(), np.zeros(len(x), dtype=bool)
            for i in range(len(x)):
                try:
                    new[i] = self.system.f(x[i], u[i])
                except ConvergenceError:
                    failed[i] = True
            return new, failed

    def reward(self, x: Array, u: Array) -> Array:
        """Minus the cost (n,) of being at x under u."""
        return -_of_each(np.asarray(self._cost(x, u), dtype=np.float64), len(x))

    def over(self, x: Array) -> NDArray[np.bool_]:
        """Which of the states end their episodes."""
        if self._over is None:
            return np.zeros(len(x), dtype=bool)
        return _of_each(np.asarray(self._over(x), dtype=bool), len(x))

    def observe(self, x: Array) -> Array:
        """What is seen of states (n, nx): a new array."""
        return x.copy() if self._observe is None else np.array(self._observe(x), dtype=np.float64)


def _of_each(x: NDArray[Any], n: int) -> NDArray[Any]:
    """(n,) of what may be one number for all."""
    return x if x.shape == (n,) else np.broadcast_to(x, n)


class Environment(gym.Env[Array, Any]):
    """One environment of a System.

    `start(rng, n)` gives n states (n, nx); `cost(x, u)` the costs (n,) of the states x (n, nx) that steps have led to under u (n, nu), the reward is
    minus that; `over(x)` says which states (n,) end an episode. `actions` is a pair (low, high) of bounds (numbers or (nu,)), or an array
    (m, nu) of inputs to choose from. `observe(x)` gives what an agent sees (default: the state, x). After `system.steps` steps an episode
    is truncated; a step that has no solution truncates it too, with info["failed"].

    >>> import dalembert as da
    >>> cart = da.System(da.MidpointVI(da.models.load("cart_pole"), dt=0.02), steps=500)
    >>> env = Environment(cart, start=lambda rng, n: rng.normal(0, 0.1, (n, 4)), cost=lambda x, u: x[:, 1] ** 2, actions=[[-10.0], [10.0]])
    >>> x, info = env.reset(seed=1)
    >>> env.action_space
    Discrete(2)
    >>> env.step(1)[0].shape
    (4,)
    """

    def __init__(
        self,
        system: System,
        *,
        start: Start,
        cost: Cost,
        over: Over | None = None,
        actions: tuple[ArrayLike, ArrayLike] | Sequence[Any] | Array,
        observe: Observe | None = None,
    ) -> None:
        self._task = _Task(system, start, cost, over, actions, observe)
        self.action_space, self.observation_space = self._task.action_space, self._task.observation_space
        self.state = self._task.system.neutral()[None]
        self._count = system.steps  # an episode begins with reset

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin an episode: what is seen, and an empty dict. `seed` for the generator; there are no `options`."""
        super().reset(seed=seed)
        self.state, self._count = self._task.start(self.np_random, 1), 0
        return self._task.observe(self.state)[0], {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One step under an action: (observation, reward, terminated, truncated, info)."""
        task = self._task
        if self._count >= task.system.steps:
            raise gym.error.ResetNeeded("call reset: the episode is over, or has not begun")
        u = task.inputs(np.asarray(action)[None])
        self.state, lost = task.step(self.state, u)
        failed = lost is not None and bool(lost[0])
        self._count += 1
        reward, over = float(task.reward(self.state, u)[0]), bool(task.over(self.state)[0])
        truncated = failed or self._count >= task.system.steps
        return task.observe(self.state)[0], reward, over, truncated, {"failed": True} if failed else {}


class VectorEnvironment(VectorEnv[Array, Any, Array]):
    """`num_envs` environments of a System in one call of the core, on threads and SIMD lanes; arguments as of `Environment`.

    An episode that has ended begins anew with the next step, whose reward is 0 (gymnasium's AutoresetMode.NEXT_STEP).
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        system: System,
        num_envs: int,
        *,
        start: Start,
        cost: Cost,
        over: Over | None = None,
        actions: tuple[ArrayLike, ArrayLike] | Sequence[Any] | Array,
        observe: Observe | None = None,
    ) -> None:
        self._task = _Task(system, start, cost, over, actions, observe)
        self.num_envs = num_envs
        self.single_action_space, self.single_observation_space = self._task.action_space, self._task.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.state: Array | None = None
        self._begun = np.zeros(num_envs, dtype=np.int64)  # when their episodes began, in steps since reset
        self._now = self._due = 0  # no episode lasts too long before _due
        self._ended = np.zeros(num_envs, dtype=bool)
        self._some_ended = False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin all episodes: what is seen (num_envs, ...), and an empty dict. `seed` for the generator; there are no `options`."""
        super().reset(seed=seed)
        self.state = self._task.start(self.np_random, self.num_envs)
        self._begun[:], self._now, self._due = 0, 0, self._task.system.steps
        self._ended, self._some_ended = np.zeros(self.num_envs, dtype=bool), False
        return self._task.observe(self.state), {}

    def step(self, actions: Any) -> tuple[Array, Any, Any, Any, dict[str, Any]]:
        """One step of each under `actions` (num_envs, ...): (observations, rewards, terminations, truncations, infos)."""
        task = self._task
        if self.state is None:
            raise gym.error.ResetNeeded("call reset first")
        u = task.inputs(actions)
        state, failed = task.step(self.state, u)
        self._now += 1
        reward, over = task.reward(state, u), task.over(state)
        if failed is None and self._now < self._due:
            truncated = np.zeros(self.num_envs, dtype=bool)
            ended = over
        else:
            truncated = self._now - self._begun >= task.system.steps
            truncated = truncated if failed is None else truncated | failed
            ended = over | truncated
        if self._some_ended:
            again = self._ended
            which = again.nonzero()[0]
            state[which] = task.start(self.np_random, len(which))
            reward[which] = 0.0
            over, truncated, ended = over & ~again, truncated & ~again, ended & ~again
            failed = None if failed is None else failed & ~again
            self._begun[which] = self._now
            self._due = int(self._begun.min()) + task.system.steps
        self.state, self._ended, self._some_ended = state, ended, bool(ended.any())
        infos = {} if failed is None or not failed.any() else {"failed": failed}
        return task.observe(state), reward, over, truncated, infos
