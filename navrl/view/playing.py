"""The first episode of every env under a policy's most probable actions, decision by decision."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type, step_mdp

Act = Callable[[TensorDictBase], TensorDictBase]


def decisions(env: Any, policy: Act) -> Iterator[tuple[TensorDictBase, Tensor]]:
    """What reset() gave and whose episode has begun, all; then every step and whose episode it was part of.

    Bool (N,) on the CPU. Whoever looks at the env meanwhile sees it after that step.
    """
    tensordict = env.reset()
    running = torch.ones(env.batch_size, dtype=torch.bool)
    yield tensordict, running
    while bool(running.any()):
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            stepped = env.step(policy(tensordict))
        yield stepped, running
        running = running & ~stepped.get(("next", "done")).squeeze(-1).cpu()
        tensordict = step_mdp(stepped)
