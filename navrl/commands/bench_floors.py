"""The floors of `navrl bench`: networks of agents in eager torch, with optimizers of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from navrl.agents.core.team import CENTRAL
from navrl.agents.hmasd.discriminators import IndividualDiscriminator, TeamDiscriminator
from navrl.agents.hmasd.high_level import Coordinator
from navrl.agents.hmasd.low_level import Actor, AgentCritic, TeamCritic
from navrl.agents.hmasd.rollout import team_rollout
from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.memory import FRESH, HIDDEN
from navrl.agents.ppo.agent import MINIBATCH_KEYS, VALUE_ROWS


class Learning:
    """The parts of an update of PPO, and its networks in eager torch with an optimizer of their own."""

    def __init__(self, agent: Any, rollout: TensorDictBase) -> None:
        self._agent = agent
        agent.steps.max_kl = None  # every gradient step is made
        self._frames, self._sharing = agent.frames_of(rollout)
        learned = self.values().select(*MINIBATCH_KEYS, strict=False)
        self._flat = agent.policy.trunk.memory.rows(learned)
        inputs = ("observation", CENTRAL, HIDDEN)
        self._inputs = self._flat.select(*inputs, FRESH, strict=False)
        self._decisions = self._frames[:, 0].select(*inputs, strict=False)
        trunks = self._policy, self._critic = copy.deepcopy(
            (agent.policy.trunk, agent.critic.trunk)
        )
        for module in nn.ModuleList(trunks).modules():
            if isinstance(module, ObservationEncoder):
                names = list(module.normalisers)
                module.normalisers = nn.ModuleDict({name: nn.Identity() for name in names})
        parameters = nn.ModuleList(trunks).parameters()
        self._adam = torch.optim.Adam(parameters, lr=1e-6, fused=True)

    @torch.no_grad()
    def values(self) -> TensorDictBase:
        """Compute values, advantages and targets of the rollout."""
        return self._agent.advantages(self._frames, self._sharing)

    def steps(self) -> None:
        """Make all gradient steps of an update."""
        stopped = torch.zeros((), dtype=torch.bool, device=self._agent.device)
        self._agent.steps.take(self._flat, stopped)

    @torch.no_grad()
    def act_bare(self) -> None:
        """Run the policy's layers for one decision of all envs."""
        self._policy(self._decisions)

    @torch.no_grad()
    def values_bare(self) -> None:
        """Run the critic's layers for every frame of a rollout."""
        for rows in self._inputs.split(VALUE_ROWS):
            self._critic(self._critic.with_shared_features(rows))

    def steps_bare(self) -> None:
        """Run forward, backward and fused Adam on as many rows as often as the update, and nothing else."""
        minibatches = self._agent.minibatches
        for _ in range(minibatches.num_epochs):
            for rows in self._inputs.split(len(self._inputs) // minibatches.number(0)):
                shared = self._policy.with_shared_features(rows)
                output, value = self._policy(shared), self._critic(shared)
                torch.autograd.backward(output.square().mean() + value.square().mean())
                self._adam.step()
                self._adam.zero_grad(set_to_none=True)


class _Passes(NamedTuple):
    """The layers of one network, and how often they see a batch."""

    network: nn.Module
    forward: Callable[..., Tensor]  # of the network and the batch
    batch: Any
    num_epochs: int


class SkillLearning:
    """Forward, backward and fused Adam on as many rows as often as the update of agent=hmasd."""

    def __init__(self, agent: Any, rollout: TensorDictBase) -> None:
        frames = team_rollout(rollout)
        self._decisions = (frames.frames[:, 0], frames.skill[:, 0], frames.hidden[:, 0])
        outcomes = frames.outcomes()
        low = agent.low.prepare(frames, frames.own_reward)
        epochs = agent.low.options.num_epochs
        self._passes = [
            _Passes(agent.policy.actor, _act, low.actions, epochs),
            _Passes(agent.critic.network, _judge, low.values, epochs),
        ]
        for network in agent.discriminators.children():
            self._passes.append(
                _Passes(network, _guess, outcomes, agent.discriminator.options.num_epochs)
            )
        if isinstance(agent.policy.coordinator, Coordinator):
            batch = agent.high.prepare(frames).batch
            epochs = agent.high.options.num_epochs
            self._passes.append(_Passes(agent.policy.coordinator, _choose, batch, epochs))
        self._passes = [each._replace(network=copy.deepcopy(each.network)) for each in self._passes]
        self._adams = [
            torch.optim.Adam(each.network.parameters(), lr=1e-6, fused=True)
            for each in self._passes
        ]

    @torch.no_grad()
    def act_bare(self) -> None:
        """Run the actor's layers for one decision of all envs; the coordinator decides more rarely."""
        actor: Any = self._passes[0].network
        actor.step(*self._decisions)

    def steps_bare(self) -> None:
        """Make the passes of one update over whole batches, and nothing else."""
        for (network, forward, batch, num_epochs), adam in zip(
            self._passes, self._adams, strict=True
        ):
            for _ in range(num_epochs):
                torch.autograd.backward(forward(network, batch))
                adam.step()
                adam.zero_grad(set_to_none=True)


def _act(actor: Actor, batch: Any) -> Tensor:
    rows = actor.memory(actor._features(batch.frames, batch.skill), batch.hidden, batch.fresh)
    return actor.out(rows).square().mean()


def _judge(critic: TeamCritic | AgentCritic, batch: Any) -> Tensor:
    return critic(batch.inputs).square().mean()


def _guess(discriminator: TeamDiscriminator | IndividualDiscriminator, outcomes: Any) -> Tensor:
    found: Tensor = discriminator(outcomes)
    return found.square().mean()


def _choose(coordinator: Coordinator, batch: Any) -> Tensor:
    found = coordinator.evaluate(batch.state, batch.frames, batch.skills)
    return found.log_prob.square().mean() + found.value.square().mean()
