"""Reinforcement learning with an agent and observers, as in PyTorch's RPC tutorial.

The agent, rank 0, has the policy. Each observer has an environment. The agent starts an episode on
all observers, and they ask it for an action at each step, through a reference to the agent. One
line differs from the structure of PyTorch's program: the import of `rpc`. The network is a table
here: an observation is one of four lights, and the right action is the light's number.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import farref.rpc as rpc  # noqa: PLR0402 - the one line that differs from PyTorch
from farref.examples.by_rank import spawn

LIGHTS = 4
STEPS = 20
EPISODES = 12
RATE = 1.0


def _call_method(method: Callable[..., Any], rref: rpc.RRef[Any], *args: Any) -> Any:
    return method(rref.local_value(), *args)


def _remote_method(method: Callable[..., Any], rref: rpc.RRef[Any], *args: Any) -> Any:
    return rpc.rpc_sync(rref.owner(), _call_method, args=(method, rref, *args))


class Observer:
    """Has an environment, and asks the agent for its actions."""

    def __init__(self) -> None:
        self.id = rpc.get_worker_info().id
        self.random = random.Random(self.id)  # noqa: S311 - a game

    def run_episode(self, agent: rpc.RRef[Agent]) -> None:
        for _ in range(STEPS):
            light = self.random.randrange(LIGHTS)
            action = _remote_method(Agent.select_action, agent, self.id, light)
            _remote_method(Agent.report_reward, agent, self.id, float(action == light))


class Agent:
    """Has the policy, and learns from what the observers report."""

    def __init__(self, size: int) -> None:
        self.rref: rpc.RRef[Agent] = rpc.RRef(self)
        self.random = random.Random(0)  # noqa: S311 - a game
        self.policy = [[0.0] * LIGHTS for _ in range(LIGHTS)]
        self.observers = [rpc.remote(f"agent{rank}", Observer) for rank in range(1, size)]
        self.taken: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(1, size)}
        self.rewards: dict[int, list[float]] = {rank: [] for rank in range(1, size)}

    def chances(self, light: int) -> list[float]:
        weights = [math.exp(each) for each in self.policy[light]]
        return [each / sum(weights) for each in weights]

    def select_action(self, observer: int, light: int) -> int:
        action = self.random.choices(range(LIGHTS), self.chances(light))[0]
        self.taken[observer].append((light, action))
        return action

    def report_reward(self, observer: int, reward: float) -> None:
        self.rewards[observer].append(reward)

    def run_episode(self) -> None:
        """Have all observers run an episode at once."""
        futures = [
            rpc.rpc_async(each.owner(), _call_method, (Observer.run_episode, each, self.rref))
            for each in self.observers
        ]
        for future in futures:
            future.wait()

    def finish_episode(self) -> float:
        """Learn (REINFORCE), forget the episode, and return its mean reward."""
        rewards = [reward for each in self.rewards.values() for reward in each]
        steps = [step for each in self.taken.values() for step in each]
        for (light, action), reward in zip(steps, rewards, strict=True):
            for other, chance in enumerate(self.chances(light)):
                gain = RATE * (reward - 1 / LIGHTS)
                self.policy[light][other] += gain * ((other == action) - chance)
        for rank in self.taken:
            self.taken[rank].clear()
            self.rewards[rank].clear()
        return sum(rewards) / len(rewards)


def main() -> None:
    """What rank 0 does."""
    agent = Agent(3)
    for episode in range(EPISODES):
        agent.run_episode()
        print(f"episode {episode}: mean reward {agent.finish_episode():.2f}")
    learned = [max(range(LIGHTS), key=agent.policy[light].__getitem__) for light in range(LIGHTS)]
    assert learned == list(range(LIGHTS)), learned
    print("the agent has learned which action each light wants")


if __name__ == "__main__":
    spawn(main, "agent", 3)
