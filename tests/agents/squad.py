"""A game of chance for one agent or a team: hybrid actions, sets of entities, masks, and deaths."""

import torch
from tensordict import TensorDict
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from navrl.envs.core.specs import Hybrid

NUM_ENVS, STEPS, AGENTS = 4, 6, 3
EGO, MATES, FEATURES, COLUMNS, TIME_LIMIT = 3, 4, 2, 3, 6


def squad_specs(num_envs, num_agents, *, mortal=True, device="cpu"):
    """The observation and action spec; num_agents None: one agent at the root instead of a group."""
    shape = (num_envs,) if num_agents is None else (num_envs, num_agents)

    def flag(*trailing):
        return Categorical(2, shape=(*shape, *trailing), dtype=torch.bool, device=device)

    def composite(shape, **leaves):
        return Composite(**leaves, shape=shape, device=device)

    seen = {
        "ego": Unbounded((*shape, EGO), device=device),
        "mates": Unbounded((*shape, MATES, FEATURES), device=device),
        "mates_mask": flag(MATES),
    }
    frame = {"observation": composite(shape, **seen), "action_mask": flag(2)}
    if num_agents is not None and mortal:
        frame["alive"] = flag(1)
    whole = frame if num_agents is None else {"agents": composite(shape, **frame)}
    action = Hybrid([-1.0, 0.0, 0.0], [1.0, 1.0, 1.0], shape=(*shape, COLUMNS), device=device)
    if num_agents is not None:
        action = composite((num_envs,), agents=composite(shape, action=action))
    return composite((num_envs,), **whole), action


def seen_by(shape, alive=None):
    """Random observations and masks of frames (...), and who lives."""
    rows = {
        "ego": torch.randn(*shape, EGO),
        "mates": torch.randn(*shape, MATES, FEATURES),
        "mates_mask": torch.rand(*shape, MATES) < 0.6,
    }
    frame = {"observation": rows, "action_mask": torch.rand(*shape, 2) < 0.7}
    return TensorDict(frame if alive is None else {**frame, "alive": alive}, shape)


def make_team_rollout(
    agent, num_envs=NUM_ENVS, steps=STEPS, num_agents=AGENTS, *, mortal=True, own_reward=False
):
    """(N, T) frames of a team in which agents die; rewards and flags are the team's."""
    whole, frames = (num_envs, steps), (num_envs, steps + 1, num_agents)
    alive = None
    if mortal:
        alive = (torch.rand(*frames, 1) < 0.8).cumprod(1).bool()
    seen = seen_by(frames, alive)
    rollout = TensorDict({"agents": seen[:, :-1].clone()}, whole)
    with torch.no_grad():
        agent.policy(rollout)
    terminated = torch.rand(*whole, 1) < 0.1
    upcoming = {
        "agents": seen[:, 1:].clone(),
        "reward": torch.randn(*whole, 1),
        "terminated": terminated,
        "truncated": torch.zeros_like(terminated),
        "done": terminated,
    }
    rollout["next"] = TensorDict(upcoming, whole)
    if own_reward:
        rollout["next", "agents", "reward"] = torch.randn(*whole, num_agents, 1)
    return rollout.set_non_tensor("policy_version", agent.policy.version)


class Squad(EnvBase):
    """Reward for steering to the right; every step may kill; cut at the time limit."""

    def __init__(self, num_envs, num_agents):
        super().__init__(device="cpu", batch_size=[num_envs])
        self.observation_spec, self.action_spec = squad_specs(num_envs, num_agents)
        self.num_agents = num_agents
        self.reward_spec = Unbounded((num_envs, 1))
        flag = {"shape": (num_envs, 1), "dtype": torch.bool}
        ends = {name: Categorical(2, **flag) for name in ("done", "terminated", "truncated")}
        self.full_done_spec = Composite(**ends, shape=(num_envs,))

    def _seen(self):
        if self.num_agents is None:
            return dict(seen_by(self.batch_size).items())
        return {"agents": seen_by((*self.batch_size, self.num_agents), self._alive.clone())}

    def _reset(self, tensordict=None, **_):
        again = None if tensordict is None else tensordict.get("_reset", None)
        again = torch.ones(*self.batch_size, 1, dtype=torch.bool) if again is None else again
        if again.all():
            self._clock = torch.zeros(*self.batch_size, 1)
            self._alive = torch.ones(*self.batch_size, self.num_agents or 1, 1, dtype=torch.bool)
        self._clock = torch.where(again, 0.0, self._clock)
        self._alive = self._alive | again.unsqueeze(1)
        never = torch.zeros_like(again)
        ends = {name: never.clone() for name in ("done", "terminated", "truncated")}
        return TensorDict({**self._seen(), **ends}, self.batch_size)

    def _step(self, tensordict):
        rudder = tensordict.get(self.action_key)[..., :1].reshape(*self.batch_size, -1)
        self._clock = self._clock + 1.0
        self._alive = self._alive & (torch.rand(self._alive.shape) < 0.8)
        terminated = ~self._alive.any(1)
        truncated = (self._clock >= TIME_LIMIT) & ~terminated
        leaves = {
            "reward": rudder.mean(-1, keepdim=True),
            "terminated": terminated,
            "truncated": truncated,
            "done": terminated | truncated,
        }
        return TensorDict({**self._seen(), **leaves}, self.batch_size)

    def _set_seed(self, seed):
        torch.manual_seed(seed or 0)
