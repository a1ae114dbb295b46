"""env=pettingzoo: any parallel world of PettingZoo with agents of one kind, as a team of ours."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.config.checks import ConfigError, require
from navrl.envs.core import specs
from navrl.envs.external.base import ExternalEnv, ExternalOptions, Moved, making, needs

with needs("pettingzoo", "env=pettingzoo needs PettingZoo"):
    import pettingzoo  # noqa: F401  (found or not)

    from navrl.envs.external.spaces import actions_of, observation_leaves


class PettingZooEnv(ExternalEnv):
    """N copies of one parallel world, stepped one after another.

    Each agent has a reward of its own, the team's is their mean. An agent that has left is dead: what it
    observes is zero, and its actions have no effect. The episode ends with the last agent.
    """

    def __init__(
        self,
        *,
        id: str | None,
        worlds: Callable[..., Any] | None,
        options: Mapping[str, Any],
        **common: Unpack[ExternalOptions],
    ) -> None:
        expected = (
            "a world of PettingZoo such as sisl/pursuit_v5, or null and a function as env.worlds"
        )
        require((id is None) != (worlds is None), "env.id", id, expected)
        super().__init__(**common)
        make = worlds or _parallel(str(id))
        with making("env.id", id, options):
            self._worlds = [make(**options) for _ in range(common["num_envs"])]
        self._names: list[str] = list(self._worlds[0].possible_agents)
        seen, move = (
            _shared(self._worlds[0], kind) for kind in ("observation_space", "action_space")
        )
        shape = (*self.batch_size, len(self._names))
        self._observed, self._actions = (
            observation_leaves(seen),
            actions_of(move, shape, self.device),
        )
        features = {leaf.name: (leaf.features,) for leaf in self._observed}
        state_size = len(self._names) * sum(size for (size,) in features.values())
        observation, action = specs.team_specs(features, state_size, self._actions.spec)
        observation["agents"]["alive"] = specs.flag_spec((*shape, 1), self.device)
        self.declare(observation, action, rewarded_agents=len(self._names))
        self._seen: list[Mapping[str, Any]] = [{} for _ in self._worlds]

    def advance(self, tensordict: TensorDictBase) -> Moved:
        """Step every world with the actions of its living agents."""
        actions = self._actions.to_world(tensordict.get(("agents", "action")))
        rewards = np.zeros((len(self._worlds), len(self._names)), np.float32)
        ends = np.zeros((2, len(self._worlds)), bool)  # terminated, truncated
        for number, world in enumerate(self._worlds):
            moves = {n: actions[number, i] for i, n in enumerate(self._names) if n in world.agents}
            seen, reward, terminated, truncated, _ = world.step(moves)
            rewards[number] = [reward.get(name, 0.0) for name in self._names]
            over = not world.agents
            cut = over and any(truncated.values())
            ends[:, number] = over and not cut, cut
            # At the end of an episode the last observations of those who were in it to the end count.
            stays = seen if over else {name: seen[name] for name in world.agents}
            self._seen[number] = stays
        own = torch.as_tensor(rewards, device=self.device).unsqueeze(-1)
        leaves = {**self._leaves(), "agents/reward": own}
        terminated, truncated = torch.as_tensor(ends, device=self.device)
        return Moved(leaves, own.mean((1, 2)), terminated, truncated)

    def begin(self, mask: Tensor | None) -> dict[str, Tensor]:
        """Begin new episodes where the mask (N,) is true, or everywhere; the first time with the seed."""
        if mask is None or self._next_seed is not None:
            mask = torch.ones(self.batch_size, dtype=torch.bool)
        for number in mask.nonzero().flatten().tolist():
            seed = None if self._next_seed is None else self._next_seed + number
            self._seen[number] = self._worlds[number].reset(seed=seed)[0]
        self._next_seed = None  # further episodes come from the worlds' own generators
        return self._leaves()

    def _leaves(self) -> dict[str, Tensor]:
        """Return the observations of all agents, zeros for the dead, and who is alive."""
        alive = [[name in seen for name in self._names] for seen in self._seen]
        living = torch.tensor(alive, device=self.device)
        present = [seen[name] for seen in self._seen for name in self._names if name in seen]
        leaves = {}
        for leaf in self._observed:
            rows = torch.zeros(*living.shape, leaf.features, device=self.device)
            rows[living] = leaf.vectors([leaf.part(one) for one in present]).to(self.device)
            leaves[f"agents/observation/{leaf.name}"] = rows
        state = torch.cat([rows.flatten(1) for rows in leaves.values()], -1)
        return leaves | {"agents/alive": living.unsqueeze(-1), "state": state}

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close all worlds."""
        for world in self._worlds:
            world.close()
        super().close(raise_if_closed=raise_if_closed)


def _parallel(id: str) -> Callable[..., Any]:
    """Return the maker of a world of PettingZoo, or of MPE2, which once was a part of it."""
    name = id.replace("/", ".")
    root = "mpe2" if name.startswith("mpe2.") else "pettingzoo"
    try:
        module = importlib.import_module(name if root == "mpe2" else f"{root}.{name}")
        make: Callable[..., Any] = module.parallel_env
    except (ImportError, AttributeError) as error:
        lacking = getattr(error, "name", None) or ""
        if isinstance(error, ModuleNotFoundError) and not lacking.startswith(f"{root}."):
            extra = "mpe2" if root == "mpe2" else f"'pettingzoo[{id.partition('/')[0]}]'"
            raise ConfigError(
                f"env.id = {id} needs {lacking}, which is not installed; pip install {extra}"
            ) from error
        raise ConfigError(
            f"env.id = {id}; expected a parallel world such as sisl/pursuit_v5 or mpe2/simple_spread_v3 "
            f"({error}); change env.id"
        ) from error
    return make


def _shared(world: Any, kind: str) -> Any:
    """Return the space that all agents of a world have in common."""
    found = [getattr(world, kind)(name) for name in world.possible_agents]
    others: Sequence[Any] = [space for space in found if space != found[0]]
    if others:
        raise ConfigError(
            f"the agents of {world} differ in {kind}: {found[0]} and {others[0]}; expected agents of one "
            "kind; wrap the world, for example with supersuit's pad_observations and pad_action_space"
        )
    return found[0]
