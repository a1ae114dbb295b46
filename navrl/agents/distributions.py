"""Action distributions with exact log-probabilities and entropies, and no host synchronisation."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution


class MaskedMultiCategorical(Distribution):
    """Independent categorical choices side by side; masked choices have probability zero.

    logits and mask are (..., sum(choices)), actions (..., len(choices)) int64. A head whose choices are
    all masked is left unmasked: some choice has to be made.
    """

    arg_constraints = {}  # noqa: RUF012  (the base class reads it)

    def __init__(self, logits: Tensor, mask: Tensor, choices: Sequence[int]) -> None:
        self._log_probs = []
        sizes = list(choices)
        heads = zip(torch.split(logits, sizes, -1), torch.split(mask, sizes, -1), strict=True)
        for head, allowed in heads:
            usable = allowed | ~allowed.any(-1, keepdim=True)
            # Not -inf: 0 * -inf is NaN in the entropy and in gradients.
            low = torch.finfo(head.dtype).min / 2
            self._log_probs.append(torch.where(usable, head, low).log_softmax(-1))
        super().__init__(
            batch_shape=logits.shape[:-1],
            event_shape=torch.Size([len(choices)]),
            validate_args=False,
        )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """One action per row, by the exponential race (argmax of p / noise)."""
        if sample_shape:
            raise ValueError(f"sample_shape = {tuple(sample_shape)}; expected none")
        race = [
            (head - torch.empty_like(head).exponential_().log()).argmax(-1)
            for head in self._log_probs
        ]
        return torch.stack(race, -1)

    @property
    def mode(self) -> Tensor:
        """The most probable action of every head."""
        return torch.stack([head.argmax(-1) for head in self._log_probs], -1)

    deterministic_sample = mode

    def log_prob(self, value: Tensor) -> Tensor:
        """Sum over heads."""
        chosen = [
            head.gather(-1, index.unsqueeze(-1)).squeeze(-1)
            for head, index in zip(self._log_probs, value.unbind(-1), strict=True)
        ]
        return torch.stack(chosen).sum(0)

    def entropy(self) -> Tensor:
        """Sum over heads, nats."""
        return torch.stack([-(head.exp() * head).sum(-1) for head in self._log_probs]).sum(0)
