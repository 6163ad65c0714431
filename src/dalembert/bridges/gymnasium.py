"""gymnasium: environments of a system, one (`Environment`) or many at once (`VectorEnvironment`), for reinforcement learning.

A task is where episodes start, what a step costs, and when an episode is over, each a function of whole batches; an episode has at most
`system.steps` steps. The same task serves one environment and many.

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

What can be said without a function is done in the core, where a step of a few small environments costs less than one call of NumPy: a box of
starts, a constant cost, bounds of states.

>>> up = np.array([0, np.pi, 0, 0])
>>> quick = VectorEnvironment(
...     cart, 16, start=(up - 0.05, up + 0.05), cost=-1.0, over={"x": (-2.4, 2.4), "theta": (np.pi - 0.21, np.pi + 0.21)},
...     actions=[[-10.0], [10.0]])
>>> x, info = quick.reset(seed=1)
>>> quick.step(np.ones(16, dtype=int))[1].sum()
np.float64(16.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from dalembert import ConvergenceError, System
from dalembert.arrays import Array, finite, floats, nearest, whole

Start = Callable[[np.random.Generator, int], ArrayLike] | tuple[ArrayLike, ArrayLike]
Cost = Callable[[Array, Array], ArrayLike] | float
Over = Callable[[Array], ArrayLike] | Mapping[str, tuple[float, float]]
Observe = Callable[[Array], ArrayLike]
_NO_STARTS = np.zeros(0)


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
        self.box = None if callable(start) else self._box(start)
        self.constant = None if callable(cost) else float(finite(cost, "cost", ()))
        self.bounds = None if over is None or callable(over) else self._bounds(over)
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

    def _box(self, start: Any) -> tuple[Array, Array]:
        """The bounds (nx) of the states where episodes start."""
        if not isinstance(start, tuple) or len(start) != 2:
            raise TypeError("start is a function of (rng, n) or a pair (low, high) of states")
        low, high = (
            np.broadcast_to(finite(b, "bounds of start", (), (self.system.nx,)), self.system.nx) for b in start
        )
        if (low > high).any():
            raise ValueError("start: its lower bounds are above its upper ones")
        return low, high

    def _bounds(self, over: Any) -> tuple[Array, Array]:
        """The bounds (nx) of states that end an episode, from those of some names."""
        if not isinstance(over, Mapping):
            raise TypeError("over is a function of states or {name of a state: (low, high)}")
        names, low, high = self.system.x_names, np.full(self.system.nx, -np.inf), np.full(self.system.nx, np.inf)
        for name, pair in over.items():
            if name not in names:
                raise ValueError(f"over: unknown name {name!r}{nearest(name, names)}; known are {', '.join(names)}")
            ends = floats(pair, f"over: bounds of {name!r}")
            if ends.shape != (2,) or not ends[0] < ends[1]:
                raise ValueError(f"over: bounds of {name!r} must be (low, high), not {pair!r}")
            low[names.index(name)], high[names.index(name)] = ends
        return low, high

    def start(self, rng: np.random.Generator, n: int) -> Array:
        """States (n, nx) where episodes start."""
        if self.box is not None:
            return rng.uniform(*self.box, (n, self.system.nx))
        assert callable(self._start)
        return finite(self._start(rng, n), "the states of start(rng, n)", (n, self.system.nx))

    def inputs(self, action: Any) -> Array:
        """The inputs (n, nu) of actions; what a continuous action has outside of its bounds is cut off."""
        if self.choices is not None:
            chosen = np.asarray(action)
            if chosen.dtype.kind not in "iu":
                raise ValueError(f"actions are numbers of choices, not {chosen.dtype}")
            return self.choices.take(chosen, axis=0)
        box = self.action_space
        assert isinstance(box, spaces.Box)
        try:
            given = np.asarray(action, dtype=np.float64)
        except OverflowError:  # before anything is cut off: such a number has no double
            raise ValueError(f"actions must be numbers that a double can hold, not {action!r:.80}") from None
        return np.minimum(np.maximum(given, box.low), box.high)

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
        if self.constant is not None:
            return np.full(len(x), -self.constant)
        assert callable(self._cost)
        return -_of_each(np.asarray(self._cost(x, u), dtype=np.float64), len(x))

    def over(self, x: Array) -> NDArray[np.bool_]:
        """Which of the states end their episodes."""
        if self._over is None:
            return np.zeros(len(x), dtype=bool)
        if self.bounds is not None:
            return np.asarray(((x < self.bounds[0]) | (x > self.bounds[1])).any(axis=1))
        assert callable(self._over)
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
    minus that; `over(x)` says which states (n,) end an episode. Instead of functions: `start=(low, high)`, numbers or (nx,), draws states evenly
    between bounds; `cost` may be a number; `over={name of a state: (low, high)}` ends an episode outside of bounds. `actions` is a pair
    (low, high) of bounds (numbers or (nu,)), or an array (m, nu) of inputs to choose from. `observe(x)` gives what an agent sees (default: the
    state, x). After `system.steps` steps an episode is truncated; a step that has no solution truncates it too, with info["failed"].

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
        if not 1 <= whole(num_envs, "num_envs") < 2**31:
            raise ValueError(f"num_envs: at least one environment is needed, fewer than 2**31, not {num_envs!r:.80}")
        self.num_envs = num_envs
        self.single_action_space, self.single_observation_space = self._task.action_space, self._task.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._many = system.motions.environments(num_envs, self._task.bounds)
        self._begun = False
        self._starts, self._used = np.zeros((0, system.nx)), 0  # drawn ahead from a box, and how many of them are used

    @property
    def state(self) -> Array | None:
        """The states (num_envs, nx), a copy; None before reset."""
        return np.asarray(self._many.states) if self._begun else None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin all episodes: what is seen (num_envs, ...), and an empty dict. `seed` for the generator; there are no `options`."""
        super().reset(seed=seed)
        x = self._task.start(self.np_random, self.num_envs)
        self._many.begin(x)
        self._begun, self._starts, self._used = True, self._starts[:0], 0
        return self._task.observe(x), {}

    def _next_starts(self, n: int) -> Array:
        """States (n, nx) for episodes that begin: of a box many at once, since drawing few takes as long."""
        if self._task.box is None:
            return self._task.start(self.np_random, n)
        if self._used + n > len(self._starts):
            self._starts, self._used = self._task.start(self.np_random, max(256, 8 * self.num_envs)), 0
        self._used += n
        return self._starts[self._used - n : self._used]

    def step(self, actions: Any) -> tuple[Array, Any, Any, Any, dict[str, Any]]:
        """One step of each under `actions` (num_envs, ...): (observations, rewards, terminations, truncations, infos)."""
        if not self._begun:
            raise gym.error.ResetNeeded("call reset first")
        task, many, due = self._task, self._many, self._many.due
        u, starts = task.inputs(actions), self._next_starts(due) if due else _NO_STARTS
        known = task.constant is not None and not callable(task._over)
        x, reward, over, truncated, failed = many.step(u, starts, -task.constant if known else 1.0)  # type: ignore[operator]
        if not known:  # functions see all states, but those that begin anew (reward 0) are not theirs
            going = reward != 0
            reward = np.where(going, task.reward(x, u), 0.0)
            if callable(task._over):
                over = task.over(x) & going
                many.end(over)
        infos = {} if failed is None else {"failed": failed}
        return x if task._observe is None else task.observe(x), reward, over, truncated, infos
