"""A hopper learns to stay up: 256 environments of gymnasium in one compiled loop, a search without gradients.

    python examples/hopper_gym.py [generations]

`liebody.interop.gym.Hopper` is a trunk on a leg with hip and knee. The policy is a = tanh(W s(o)) with 2
x 12 weights: for the observation o, for a clock of 2.5 Hz, and for 1. In every generation 128 policies
are drawn from a normal distribution, and each is tried from 2 starts. The best 10 give the next mean and
deviation (the cross-entropy method). At the end one environment with another start shows the learned
policy.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import liebody.interop.gym

POLICIES, STARTS, BEST, ACTIONS = 128, 2, 10, 200  # 200 actions are 2 s
PERIOD = 40  # actions in a turn of the clock
SCALE = np.array([0.25, 0.5, 1, 1, 1, 1, 5, 20, 20.0])  # typical sizes of observations


def features(observation, k):
    """Inputs of the policy, (..., 12)."""
    phase = 2 * np.pi * k / PERIOD
    clock = np.broadcast_to([np.sin(phase), np.cos(phase), 1.0], (*observation.shape[:-1], 3))
    return np.concatenate([observation / SCALE, clock], axis=-1)


def returns(envs, weights, seed):
    """The mean sum of rewards of each policy (2, 12) until it falls, from `STARTS` starts."""
    observation, _ = envs.reset(seed=[seed + i % STARTS for i in range(envs.num_envs)])
    total, goes_on, each = (
        np.zeros(envs.num_envs),
        np.ones(envs.num_envs, bool),
        np.repeat(weights, STARTS, 0),
    )
    for k in range(ACTIONS):
        action = np.tanh(np.einsum("mij,mj->mi", each, features(observation, k)))
        observation, reward, lost, cut, _ = envs.step(action.astype(np.float32))
        total += reward * goes_on
        goes_on &= ~(lost | cut)
    return total.reshape(-1, STARTS).mean(axis=1)


def main(generations: int = 30):
    envs = liebody.interop.gym.VectorEnv(liebody.interop.gym.Hopper(ACTIONS), POLICIES * STARTS)
    rng, mean, deviation = np.random.default_rng(0), np.zeros((2, 12)), np.full((2, 12), 0.5)
    start, history = time.perf_counter(), []
    for generation in range(generations):
        weights = mean + deviation * rng.standard_normal((POLICIES, 2, 12))
        total = returns(envs, weights, seed=STARTS * generation)
        best = weights[np.argsort(total)[-BEST:]]
        mean, deviation = best.mean(axis=0), best.std(axis=0) + 0.05
        history.append(float(np.median(total)))
        if generation % 10 == 0 or generation == generations - 1:
            print(f"generation {generation:3d}: median return {history[-1]:6.1f}, best {total.max():6.1f}")
    seconds = time.perf_counter() - start
    print(f"{envs.num_envs * ACTIONS * generations / seconds:,.0f} actions of 10 ms a second")

    env = liebody.interop.gym.Env(liebody.interop.gym.Hopper(ACTIONS))
    observation, _ = env.reset(seed=1234)
    heights, k, over = [], 0, False
    while not over:
        observation, _, lost, cut, _ = env.step(np.tanh(mean @ features(observation, k)).astype(np.float32))
        heights.append(observation[0])
        k, over = k + 1, lost or cut
    print(
        f"it stays up for {k * 0.01:.2f} s, with its hip between {min(heights):.3f} and {max(heights):.3f} m"
    )
    return history, k


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
