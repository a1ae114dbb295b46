"""How a rollout is cut into minibatches, and how one of them is learned in parts that need less memory."""

from collections.abc import Callable, Iterator, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.agents.core.gradients import Gradients, accumulate
from navrl.agents.core.loss import PPOLoss
from navrl.agents.core.team import ALIVE
from navrl.agents.ppo.gradients import MinibatchGradients

_MOST_SIZES = 8  # of minibatches: each is a graph of its own, and torch.compile keeps no more


class Minibatches:
    """Random rows for every gradient step of an iteration; their number may change during the run."""

    def __init__(
        self,
        numbers: int | Sequence[int],
        num_epochs: int,
        accumulate: int,
        num_iterations: int,
    ) -> None:
        self._numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
        self.num_epochs, self._accumulate = num_epochs, accumulate
        self._num_iterations = max(num_iterations, 1)
        wanted = {
            "num_epochs": (num_epochs,),
            "accumulate": (accumulate,),
            "num_minibatches": self._numbers,
        }
        for name, values in wanted.items():
            if not values or any(type(value) is not int or value < 1 for value in values):
                told = ", ".join(map(str, values)) or "[]"
                raise ValueError(
                    f"agent.{name} = {told}; expected 1 or more, whole numbers; change agent.{name}"
                )
        if len(set(self._numbers)) > _MOST_SIZES:
            raise ValueError(
                f"agent.num_minibatches = {list(self._numbers)}; expected at most {_MOST_SIZES} different "
                "numbers; change agent.num_minibatches"
            )

    def check(self, frames: int, chunk_length: int = 1) -> None:
        """Refuse rollouts that do not split into equal parts of equal minibatches."""
        rows, what = frames // chunk_length, "num_envs x rollout_steps"
        if chunk_length > 1:
            what += " / chunk_length"
        for number in self._numbers:
            if rows % number:
                raise ValueError(
                    f"{what} = {rows} is not a multiple of "
                    f"num_minibatches = {number}; change agent.num_minibatches"
                )
            if rows // number % self._accumulate:
                raise ValueError(
                    f"a minibatch has {rows // number} {'frames' if chunk_length == 1 else 'chunks'}, "
                    f"not a multiple of accumulate = {self._accumulate}; change agent.accumulate"
                )

    def number(self, done: int) -> int:
        """How many there are after so many iterations: each number has an equal share of the run."""
        stage = done * len(self._numbers) // self._num_iterations
        return self._numbers[min(stage, len(self._numbers) - 1)]

    def of(
        self,
        frames: int,
        done: int,
        device: torch.device,
        generator: torch.Generator | None = None,
    ) -> Iterator[Tensor]:
        """num_epochs passes over all rows, in the orders of torch's own generator or of this one."""
        size = frames // self.number(done)
        for _ in range(self.num_epochs):
            order = torch.randperm(frames, device=device, generator=generator)
            yield from torch.split(order, size)


class AccumulatedGradients:
    """What a whole minibatch says, heard part by part, for one gradient step.

    Losses are means over the living, so a part counts by how many of them it has; advantages are
    standardised over the whole minibatch beforehand.
    """

    def __init__(self, gradients: MinibatchGradients, loss: PPOLoss, parts: int) -> None:
        self._gradients, self._loss, self._parts = gradients, loss, parts
        loss.normalize_advantage = False

    def of(self, flat: TensorDictBase) -> Callable[[Tensor], Gradients]:
        """What gives the gradients of rows (B,) of `flat` (frames,)."""
        judged = flat.select("advantage", ALIVE, strict=False)
        standardised = torch.zeros_like(judged.get("advantage"))
        of_part = self._gradients.of(flat.copy().set("advantage", standardised))

        def gradients(index: Tensor) -> Gradients:
            rows = judged.apply(lambda each: each.index_select(0, index), batch_size=index.shape)
            advantage = self._loss.standardised(rows)
            standardised.index_copy_(0, index, advantage)
            alive = rows.get(ALIVE, torch.ones_like(advantage))
            living = alive.view(self._parts, -1).sum(1)
            shares = living / living.sum().clamp_min(1)
            parts = map(of_part, index.view(self._parts, -1))
            return accumulate(zip(shares, parts, strict=True))

        return gradients


def in_parts(
    gradients: MinibatchGradients, loss: PPOLoss, parts: int
) -> MinibatchGradients | AccumulatedGradients:
    """Itself, if minibatches are to be learned whole."""
    return gradients if parts == 1 else AccumulatedGradients(gradients, loss, parts)
