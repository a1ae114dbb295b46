"""TorchRL specs of what the pilots of air combat are told and may do."""

from typing import Any

import torch
from torchrl.data import Categorical, Composite, TensorSpec, Unbounded

from navrl.envs.actions import ActionKind
from navrl.sims.observations.base import Observation


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
