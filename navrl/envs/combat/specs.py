"""TorchRL specs of what the pilots of air combat are told and may do, and how many they are."""

from typing import Any

import torch
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded

from navrl.envs.combat.actions import ActionKind
from navrl.envs.combat.observations.base import Observation
from navrl.envs.combat.sim.params import MAX_TEAM_SIZE, CombatParams


def check_team_size(team_size: int, sim: CombatParams) -> None:
    """Refuse a size that no fight has, and a simulator that was told another one."""
    if not 1 <= team_size <= MAX_TEAM_SIZE:
        raise ValueError(
            f"env.team_size = {team_size}; expected a whole number from 1 to {MAX_TEAM_SIZE}; "
            "change env.team_size"
        )
    if sim.team_size != team_size:
        raise ValueError(
            f"env.sim.team_size = {sim.team_size}; expected {team_size}, which it takes from env.team_size; "
            "change env.team_size"
        )


def observation_spec(
    observation: Observation, action: ActionKind, shape: tuple[int, ...], device: Any
) -> Composite:
    """Specs of what one pilot is told, in the group "agents" where there are several."""

    def flag(*trailing: int) -> Categorical:
        return Categorical(2, shape=(*shape, *trailing), dtype=torch.bool, device=device)

    leaves = {
        name: flag(*trailing)
        if name.endswith("_mask")
        else Unbounded((*shape, *trailing), device=device)
        for name, trailing in observation.leaves.items()
    }
    told = {
        "observation": Composite(leaves, shape=shape, device=device),
        "action_mask": flag(action.mask_size),
    }
    if len(shape) == 1:
        return Composite(told, shape=shape, device=device)
    group = Composite({**told, "alive": flag(1)}, shape=shape, device=device)
    return Composite(agents=group, shape=shape[:1], device=device)


def action_spec(action: ActionKind, shape: tuple[int, ...], device: Any) -> TensorSpec:
    """The spec of an action, in the group "agents" where there are several."""
    spec = action.spec(shape, device)
    if len(shape) == 1:
        return spec
    group = Composite(action=spec, shape=shape, device=device)
    return Composite(agents=group, shape=shape[:1], device=device)
