"""A game of chance for a team: random observations, rewards and ends of episodes, in any size."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, MultiCategorical, Unbounded

from navrl.envs.core.env import carry

NUM_ENVS, AGENTS, STATE, FEATURES, CHOICES = 4, 2, 6, 3, (3, 2)


def specs(num_agents=AGENTS, num_envs=NUM_ENVS, *, discrete=True):
    """Observation and action spec."""
    shape = (num_envs, num_agents)
    views = Composite(view=Unbounded((*shape, FEATURES)), shape=shape)
    group = Composite(observation=views, shape=shape)
    if discrete:
        action = MultiCategorical(list(CHOICES), shape=(*shape, len(CHOICES)))
    else:
        action = Bounded(-1.0, 1.0, shape=(*shape, 3))
    observation = Composite(agents=group, state=Unbounded((num_envs, STATE)), shape=(num_envs,))
    return observation, Composite(agents=Composite(action=action, shape=shape), shape=(num_envs,))


def seen(num_envs, num_agents):
    """Random observations and state of a team."""
    view = {"observation": {"view": torch.randn(num_envs, num_agents, FEATURES)}}
    agents = TensorDict(view, [num_envs, num_agents])
    return TensorDict({"agents": agents, "state": torch.randn(num_envs, STATE)}, [num_envs])


def collect(
    policy, steps, *, num_agents=AGENTS, num_envs=NUM_ENVS, ending=0.1, root=None, reward=None
):
    """(N, T) steps of the policy, and where the next rollout begins; `ending` is the share of ends."""
    root = seen(num_envs, num_agents) if root is None else root
    frames = []
    for _ in range(steps):
        with torch.no_grad():
            acted = policy(root)
        carried = acted.pop("next")
        ahead, opening = seen(num_envs, num_agents), seen(num_envs, num_agents)
        ends = torch.rand(num_envs, 1) < ending
        terminated = ends & (torch.rand(num_envs, 1) < 0.5)
        flags = {"done": ends, "terminated": terminated, "truncated": ends & ~terminated}
        ahead.update({**flags, "reward": torch.rand(num_envs, 1) if reward is None else reward})
        going_on = ~ends.unsqueeze(-1)
        for place in ("state", ("agents", "observation", "view")):
            rows = opening[place]
            kept = going_on if rows.ndim > 2 else going_on.squeeze(-1)
            opening[place] = torch.where(kept, ahead[place], rows)
        carry(carried, ahead, opening)
        frames.append(acted.set("next", ahead))
        root = opening
    rollout = torch.stack(frames, 1)
    return rollout.set_non_tensor("policy_version", policy.version), root


def with_deaths(rollout):
    """A third of all agents are dead, before or after a step."""
    for frames in (rollout, rollout["next"]):
        shape = frames["agents"].shape
        frames["agents", "alive"] = torch.rand(*shape, 1) > 1 / 3
    return rollout


def weights(agent):
    modules = {"policy": agent.policy, "critic": agent.critic, "disc": agent.discriminators}
    return {
        f"{part}.{name}": tensor.detach().clone()
        for part, module in modules.items()
        for name, tensor in module.named_parameters()
    }


def changed(agent, before):
    return {
        name for name, tensor in weights(agent).items() if not torch.equal(tensor, before[name])
    }
