"""FedMuJoCo: linear policies for simulated robots; each client has its own robot.

F(x) is minus the mean return per step of the policy a = W o, W = x as a matrix, over the clients' robots. They differ
in mass: client i's bodies weigh 1 + C s_i times those of the model, where the s_i are evenly spaced from -1 to 1, so
that they sum to zero. F* is unknown.

Reference:
    M. Towers et al., "Gymnasium: A Standard Interface for Reinforcement Learning Environments", 2024.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number
from fzoos.objectives.box import Objective
from fzoos_experiments.suites.problem import SuiteProblem

__all__ = ["ROBOTS", "mujoco"]

ROBOTS = {"swimmer": "Swimmer-v5", "hopper": "Hopper-v5", "cheetah": "HalfCheetah-v5", "walker": "Walker2d-v5"}
"""Gymnasium's environments by name, with 16, 33, 102 and 102 parameters."""


def mujoco(
    robot: str,
    instance: int,
    *,
    clients: int = 4,
    heterogeneity: float = 0.2,
    noise: bool = False,
    steps: int = 200,
    seed: int = 0,
) -> SuiteProblem:
    """A robot's linear policy, from W = 0, with every entry in [-1, 1].

    Args:
        robot: one of `ROBOTS`.
        instance: selects the initial states and the assignment of robots to clients; 1 to 3 are for tuning.
        clients: N.
        heterogeneity: C, the largest change of mass; below 1.
        noise: whether each query starts from a random initial state; otherwise each client has a fixed one.
        steps: the length of the longest episode.
        seed: the seed of the noise.

    Example:
        >>> from fzoos_experiments.suites.mujoco import mujoco
        >>> mujoco("swimmer", instance=1).dim                           # doctest: +SKIP
        16
    """
    if robot not in ROBOTS:
        raise ValueError(f"robot must be one of {', '.join(ROBOTS)}, got {robot!r}")
    check_count("instance", instance, low=1)
    check_count("clients", clients, low=1)
    check_number("heterogeneity", heterogeneity, 0.0, 0.99)
    rng = np.random.default_rng((list(ROBOTS).index(robot), instance))
    shifts = rng.permutation(np.linspace(-1.0, 1.0, clients)) if clients > 1 else np.zeros(1)
    first_states = rng.integers(2**31, size=clients)
    robots = [_Robot(ROBOTS[robot], 1.0 + heterogeneity * shift, steps) for shift in shifts]
    draws = [np.random.default_rng((instance, seed, i)) for i in range(clients)]

    def objective(i: int) -> Objective:
        def f(x: FloatArray) -> float:
            return -robots[i].mean_return(x, int(draws[i].integers(2**31)) if noise else int(first_states[i]))

        return f

    def value(x: FloatArray) -> float:
        episodes = range(4 if noise else 1)  # initial states per client
        pairs = zip(robots, first_states, strict=True)
        return -float(np.mean([robot.mean_return(x, int(state) + k) for robot, state in pairs for k in episodes]))

    dim = robots[0].dim
    bounds = np.tile([-1.0, 1.0], (dim, 1))
    return SuiteProblem(tuple(objective(i) for i in range(clients)), value, np.zeros(dim), bounds, None)


class _Robot:
    """A robot whose bodies have `mass` times the mass of the model's bodies."""

    def __init__(self, environment: str, mass: float, steps: int) -> None:
        try:
            import gymnasium
            import mujoco
        except ImportError:
            raise ImportError("mujoco needs gymnasium[mujoco]: pip install 'fzoos[suites]'") from None
        mujoco.set_mju_user_warning(lambda message: None)  # it would write a log file into the working directory
        self._environment: Any = gymnasium.make(environment).unwrapped
        self._steps = steps
        model = self._environment.model
        model.body_mass[:] *= mass
        model.body_inertia[:] *= mass
        mujoco.mj_setConst(model, self._environment.data)
        self._shape = (self._environment.action_space.shape[0], self._environment.observation_space.shape[0])

    @property
    def dim(self) -> int:
        """The number of entries of W."""
        return int(np.prod(self._shape))

    def mean_return(self, x: FloatArray, state: int) -> float:
        """The return of an episode divided by its largest length."""
        policy = np.reshape(x, self._shape)
        observation, _ = self._environment.reset(seed=state)
        total = 0.0
        for _ in range(self._steps):
            action = np.clip(policy @ observation, -1.0, 1.0)
            observation, reward, terminated, *_ = self._environment.step(action)
            total += float(reward)
            if terminated:
                break
        return total / self._steps
