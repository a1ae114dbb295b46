"""A training taken apart: its sections, and their floors, the same arithmetic with no library around it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig
from tensordict import TensorDictBase
from torch import nn

from navrl.agents.core.team import CENTRAL, as_one_agent
from navrl.agents.networks.encoders import ObservationEncoder
from navrl.agents.networks.memory import FRESH, HIDDEN
from navrl.agents.ppo.agent import MINIBATCH_KEYS, PPO, VALUE_ROWS
from navrl.config.compose import build
from navrl.envs.core.env import BatchedEnv
from navrl.run.options import pick_device, prepare_process
from navrl.run.policies import install_opponent
from navrl.run.sections import Sections, Spread

_ENDLESS = 1 << 60  # iterations and frames
_FLOOR = "floor of "


class Timing(NamedTuple):
    """Of one section, in milliseconds; the floor is None where nobody has taken it apart."""

    p50_ms: float
    p95_ms: float
    floor_ms: float | None


class Training:
    """What `navrl train` builds of these options, without curriculum, checkpoints and logs."""

    def __init__(self, cfg: DictConfig) -> None:
        prepare_process(cfg.threads)
        self.device = pick_device(cfg.device)
        torch.manual_seed(cfg.seed)
        self.steps, self.frames = cfg.rollout_steps, cfg.num_envs * cfg.rollout_steps
        self.env: Any = build(cfg.env)(num_envs=cfg.num_envs, device=self.device, seed=cfg.seed)
        install_opponent(self.env)
        self.agent: Any = build(cfg.agent)(
            observation_spec=self.env.observation_spec,
            action_spec=self.env.action_spec,
            device=self.device,
            num_iterations=_ENDLESS,
        )
        self.agent.check_rollout_size(cfg.num_envs, cfg.rollout_steps)
        self._collector = build(cfg.collector)(
            env=self.env,
            policy=self.agent.policy,
            rollout_steps=self.steps,
            total_frames=_ENDLESS,
        )
        self._rollouts = iter(self._collector)
        self.collect()
        self.update()  # by now all that is ever compiled has been

    def collect(self) -> None:
        """The next rollout."""
        self.rollout: TensorDictBase = next(self._rollouts)
        self._frame = self.rollout[:, 0].exclude("next")

    def update(self) -> None:
        """Learn from the rollout, once."""
        self.agent.update(self.rollout)

    def step(self) -> None:
        """One decision of all envs as a collector asks for it."""
        self.env.step_and_maybe_reset(self._frame.copy())

    def step_bare(self) -> None:
        """One decision of all envs without TensorDict."""
        env, action = self.env, self._frame.get(self.env.action_key)
        env._packed, _, _ = env._whole_step(env._started(), action, env.outside(), env._seed)

    @torch.no_grad()
    def act(self) -> None:
        """One decision of the policy."""
        self.agent.policy(self._frame.copy())

    def close(self) -> None:
        """Give back what collection holds."""
        self._collector.shutdown()


class Learning:
    """What an update of PPO consists of, and its networks in eager torch with an optimiser of their own."""

    def __init__(self, training: Training) -> None:
        agent = self._agent = training.agent
        agent.max_kl = None  # every gradient step is made
        informed = agent.policy.with_inputs(agent.critic.with_inputs(training.rollout))
        self._frames, self._sharing = as_one_agent(informed)
        learned = self.values().select(*MINIBATCH_KEYS, strict=False)
        self._flat = agent.policy.trunk.memory.rows(learned)
        told = ("observation", CENTRAL, HIDDEN)
        self._seen = self._flat.select(*told, FRESH, strict=False)
        self._decisions = self._frames[:, 0].select(*told, strict=False)
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
        """Values, advantages and targets of the rollout."""
        return self._agent._with_advantages(self._frames, self._sharing)

    def steps(self) -> None:
        """All gradient steps of an update."""
        agent, stopped = self._agent, torch.zeros((), dtype=torch.bool, device=self._flat.device)
        gradients, count = agent.gradients.of(self._flat), len(self._flat)
        for index in agent.minibatches.of(count, 0, self._flat.device):
            stopped, _ = agent._step(gradients(index), stopped)

    @torch.no_grad()
    def act_bare(self) -> None:
        """The policy's layers, for one decision of all envs."""
        self._policy(self._decisions)

    @torch.no_grad()
    def values_bare(self) -> None:
        """The critic's layers, for every frame of a rollout."""
        for rows in self._seen.split(VALUE_ROWS):
            self._critic(self._critic.with_shared_features(rows))

    def steps_bare(self) -> None:
        """Forward, backward and fused Adam on as many rows as often, and nothing else."""
        cut = self._agent.minibatches
        for _ in range(cut.num_epochs):
            for rows in self._seen.split(len(self._seen) // cut.number(0)):
                shared = self._policy.with_shared_features(rows)
                said, worth = self._policy(shared), self._critic(shared)
                torch.autograd.backward(said.square().mean() + worth.square().mean())
                self._adam.step()
                self._adam.zero_grad(set_to_none=True)


def measure(training: Training, repeats: int, turned: Callable[[], None]) -> dict[str, Timing]:
    """Every section, parts of another one behind it with two spaces; `turned` is called after every turn."""
    times = training.steps
    run: dict[str, Callable[[], object]] = {
        "collect": training.collect,
        "update": training.update,
        "  simulator": partial(_repeat, times, training.step),
        "  policy": partial(_repeat, times, training.act),
    }
    if isinstance(training.env, BatchedEnv):
        run[f"{_FLOOR}  simulator"] = partial(_repeat, times, training.step_bare)
    if isinstance(training.agent, PPO):
        learning = Learning(training)
        run[f"{_FLOOR}  policy"] = partial(_repeat, times, learning.act_bare)
        run |= {
            "  values, advantages": learning.values,
            "  gradient steps": learning.steps,
            f"{_FLOOR}  values, advantages": learning.values_bare,
            f"{_FLOOR}  gradient steps": learning.steps_bare,
        }
    return timings(alternate(run, repeats, training.device, turned))


def timings(spreads: Mapping[str, Spread]) -> dict[str, Timing]:
    """In the order of the table, with the floors of wholes, and both sections together as an iteration."""
    floors = {
        name.removeprefix(_FLOOR): spread.p50 * 1000.0
        for name, spread in spreads.items()
        if name.startswith(_FLOOR)
    }
    parts = {
        "collect": ("  simulator", "  policy"),
        "update": ("  values, advantages", "  gradient steps"),
        "iteration": ("collect", "update"),
    }
    for whole, names in parts.items():
        if all(name in floors for name in names):
            floors[whole] = sum(floors[name] for name in names)
    both = Spread(*(sum(spreads[name][i] for name in parts["iteration"]) for i in (0, 1)))
    order = ("collect", *parts["collect"], "update", *parts["update"])
    measured = {name: spreads[name] for name in order if name in spreads} | {"iteration": both}
    return {
        name: Timing(spread.p50 * 1000.0, spread.p95 * 1000.0, floors.get(name))
        for name, spread in measured.items()
    }


def alternate(
    functions: Mapping[str, Callable[[], object]],
    repeats: int,
    device: torch.device | str = "cpu",
    turned: Callable[[], None] = lambda: None,
) -> dict[str, Spread]:
    """Seconds of all, run in turns, so that a busy machine slows all alike; the first turn only warms."""
    timer = Sections(device, window=repeats)  # which forgets the first turn
    for _ in range(repeats + 1):
        for name, function in functions.items():
            with timer.section(name):
                function()
        timer.read()
        turned()
    return timer.spread()


def _repeat(times: int, function: Callable[[], object]) -> None:
    for _ in range(times):
        function()
