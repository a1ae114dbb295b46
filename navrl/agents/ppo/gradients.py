"""The gradients of a minibatch: rows gathered, loss, backward pass and their norm in one compiled graph."""

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from navrl.agents.core.gradients import Gradients
from navrl.agents.core.loss import PPOLoss
from navrl.envs.core.compiling import CompiledGradients

STEP_METRICS = (
    "loss_objective",
    "loss_critic",
    "loss_entropy",
    "entropy",
    "kl_approx",
    "clip_fraction",
)


KL = STEP_METRICS.index("kl_approx")


class MinibatchGradients:
    """Rows of a flat rollout to gradients.

    Tensors go in and come out, so that the compiled call does not look through a TensorDict every time; and
    with the backward pass in the same graph nothing between the two has to be written to memory.
    """

    def __init__(
        self,
        loss: PPOLoss,
        parameters: Sequence[Tensor],
        policy_coef: float,
        compile_mode: str | bool,
    ) -> None:
        self._loss, self._parameters, self._policy_coef = loss, list(parameters), policy_coef
        self._keys: tuple[tuple[str, ...], ...] = ()  # of the columns, in their order
        self._chunk: tuple[int, ...] = ()  # (L,) where rows are chunks of steps
        self._compiled = CompiledGradients(self._of_columns, compile_mode)

    def of(self, flat: TensorDictBase) -> Callable[[Tensor], Gradients]:
        """What gives the gradients of rows (B,) of `flat` (frames,), or of chunks (chunks, L)."""
        leaves, self._chunk = flat.flatten_keys("/"), (*flat.shape[1:],)
        names = sorted(leaves.keys())
        self._keys = tuple(tuple(name.split("/")) for name in names)
        columns = [leaves.get(name) for name in names]
        return lambda index: Gradients(*self._compiled(index, *columns))

    def _of_columns(
        self, index: Tensor, *columns: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
        minibatch = TensorDict({}, batch_size=[*index.shape, *self._chunk])
        for key, column in zip(self._keys, columns, strict=True):
            minibatch.set(key, column.index_select(0, index))
        out = self._loss(minibatch)
        total = self._policy_coef * out["loss_objective"] + out["loss_critic"] + out["loss_entropy"]
        gradients = torch.autograd.grad(total, self._parameters)
        # Not get_total_norm: it would leave the graph, once for every parameter.
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        metrics = torch.stack([out[name].detach() for name in STEP_METRICS])
        return gradients, norm, metrics
