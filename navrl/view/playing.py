"""The first episode of every env under a policy's most probable actions, decision by decision."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type, step_mdp

Act = Callable[[TensorDictBase], TensorDictBase]
_EVERY_S = 5.0  # between two lines about how far it is


def decisions(env: Any, policy: Act) -> Iterator[tuple[TensorDictBase, Tensor]]:
    """What reset() gave and whose episode has begun, all; then every step and whose episode it was part of.

    Bool (N,) on the CPU. Whoever looks at the env meanwhile sees it after that step.
    """
    began_s = told_s = time.monotonic()
    tensordict = env.reset()
    running = torch.ones(env.batch_size, dtype=torch.bool)
    yield tensordict, running
    while bool(running.any()):
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            stepped = env.step(policy(tensordict))
        yield stepped, running
        running = running & ~stepped.get(("next", "done")).squeeze(-1).cpu()
        tensordict = step_mdp(stepped)
        if time.monotonic() - told_s > _EVERY_S and bool(running.any()):
            told_s = time.monotonic()
            _tell(int((~running).sum()), running.numel(), told_s - began_s)


def _tell(ended: int, number: int, seconds: float) -> None:
    """How far it is, on stderr; a short replay is over before it would say anything."""
    sys.stderr.write(f"played {ended} of {number} episodes to their ends, {seconds:.0f} s\n")
    sys.stderr.flush()
