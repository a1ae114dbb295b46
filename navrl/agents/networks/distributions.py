"""Action distributions with exact log-probabilities and entropies, and no host synchronisation."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn import functional

from navrl.agents.fast.log_gamma import digamma, lgamma
from navrl.ranks import noise

# Samples keep off the edges of their interval, where the density is zero or infinite.
_EDGE = 1e-6
_FARTHEST, _CELLS = 12.0, 384  # deviations from the peak, and cells, of the grid of quantiles
_LEAST_UNIFORM = 2.0**-25  # half the step between uniform numbers


class ActionDistribution(Distribution):
    """The interface of policies: a sample or the deterministic action per row, log_prob and entropy.

    A policy that leaves navrl needs `parameters` and icdf() as well.
    """

    arg_constraints = {}  # noqa: RUF012  (the base class reads it)

    @property
    def parameters(self) -> Tensor:
        """Return the numbers (..., n) that determine it."""
        raise TypeError(f"{type(self).__name__} lacks parameters")

    @property
    def deterministic_sample(self) -> Tensor:
        """The action of deterministic play."""
        raise TypeError(f"{type(self).__name__} lacks deterministic_sample")


class MaskedMultiCategorical(ActionDistribution):
    """Independent categorical choices side by side; masked choices have probability zero.

    logits and mask are (..., sum(choices)), actions (..., len(choices)) int64. A head whose choices are
    all masked is left unmasked, because a choice has to be made.
    """

    def __init__(self, logits: Tensor, mask: Tensor, choices: Sequence[int]) -> None:
        # Choices first, (choices, ...): a compiler then vectorises over rows, in one loop.
        sizes, self._log_probs = list(choices), []
        columns = (rows.movedim(-1, 0).contiguous() for rows in (logits, mask))
        for head, allowed in zip(*(torch.split(rows, sizes) for rows in columns), strict=True):
            usable = allowed | ~allowed.any(0)
            # Not -inf: 0 * -inf is NaN in the entropy and in gradients.
            low = torch.finfo(head.dtype).min / 2
            self._log_probs.append(torch.where(usable, head, low).log_softmax(0))
        super().__init__(
            batch_shape=logits.shape[:-1],
            event_shape=torch.Size([len(choices)]),
            validate_args=False,
        )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw one action per row: the largest log-probability after Gumbel noise is added."""
        _require_one_sample(sample_shape)
        # Not 0, whose noise is -inf: a masked choice would win against it.
        uniform = (
            noise.uniform(head.shape, head, axis=1).clamp_min(_LEAST_UNIFORM)
            for head in self._log_probs
        )
        noises = [-(-draw.log()).log() for draw in uniform]
        pairs = zip(self._log_probs, noises, strict=True)
        return torch.stack([(head + added).argmax(0) for head, added in pairs], -1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of every head at `value` (..., len(choices)), from 0 to below 1."""
        columns = zip(self._log_probs, value.unbind(-1), strict=True)
        return torch.stack([_quantile(head.exp(), share) for head, share in columns], -1)

    @property
    def parameters(self) -> Tensor:
        """Return the log-probabilities of all choices, in the order of the mask."""
        return torch.cat(self._log_probs).movedim(0, -1)

    @property
    def mode(self) -> Tensor:
        """The most probable action of every head."""
        return torch.stack([head.argmax(0) for head in self._log_probs], -1)

    deterministic_sample = mode

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum over heads."""
        chosen = []
        for head, index in zip(self._log_probs, value.unbind(-1), strict=True):
            places = torch.arange(len(head), device=head.device).view(-1, *[1] * index.ndim)
            # Not gather: its gradient is a separate loop, which a compiler fuses with nothing.
            chosen.append(torch.where(places == index, head, 0.0).sum(0))
        return torch.stack(chosen).sum(0)

    def entropy(self) -> Tensor:
        """Return the sum over heads, in nats."""
        return torch.stack([-(head.exp() * head).sum(0) for head in self._log_probs]).sum(0)


def _quantile(probability: Tensor, share: Tensor) -> Tensor:
    """Return the choice (...) of probabilities (choices, ...) that the share (...) of the total falls on."""
    upto = probability.cumsum(0)
    # Rounding may lead to the total, beyond which there are only choices of probability zero.
    passed = (upto <= share * upto[-1]) & (upto < upto[-1])
    return passed.sum(0)


class ScaledBeta(ActionDistribution):
    """Independent columns, Beta-distributed over one interval for each column.

    alpha and beta are (..., columns) and above 0, low and high (columns,), actions (..., columns).
    """

    def __init__(self, alpha: Tensor, beta: Tensor, low: Tensor, high: Tensor) -> None:
        super().__init__(
            batch_shape=alpha.shape[:-1], event_shape=alpha.shape[-1:], validate_args=False
        )
        self._alpha, self._beta, self._low, self._width = alpha, beta, low, high - low
        self._shapes = list(zip(_parts(alpha), _parts(beta), strict=True))
        self._log_norms = [lgamma(a) + lgamma(b) - lgamma(a + b) for a, b in self._shapes]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw one action per row: the share of one gamma variate in the sum of two."""
        _require_one_sample(sample_shape)
        shapes = torch.stack([self._alpha, self._beta]).detach()
        first, second = noise.gamma(shapes, axis=1).unbind(0)
        return self._low + self._width * (first / (first + second)).clamp(_EDGE, 1.0 - _EDGE)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of every column at `value` (..., columns), from 0 to 1, for alpha, beta >= 1.

        The density of the logit is summed over a grid around its peak, in trapezoids: right to 4e-4 in
        probability.
        """
        alpha, beta = self._alpha.unsqueeze(-1), self._beta.unsqueeze(-1)
        grid = torch.linspace(-_FARTHEST, _FARTHEST, _CELLS + 1, device=value.device)
        scale = (1.0 / alpha + 1.0 / beta).sqrt()
        places = (alpha / beta).log() + scale * grid
        heights = alpha * functional.logsigmoid(places) + beta * functional.logsigmoid(-places)
        density = (heights - heights[..., _CELLS // 2 :][..., :1]).exp()
        before, after = density[..., :-1], density[..., 1:]
        upto = (0.5 * (before + after)).cumsum(-1)
        wanted = value.unsqueeze(-1) * upto[..., -1:]
        cell = (upto < wanted).sum(-1, keepdim=True).clamp_max(_CELLS - 1)
        left, right = before.gather(-1, cell), after.gather(-1, cell)
        rest = wanted - upto.gather(-1, cell) + 0.5 * (left + right)
        # The solution of left x + (right - left) x^2 / 2 = rest that divides by no difference.
        root = (left.square() + 2.0 * (right - left) * rest).clamp_min(0.0).sqrt()
        part = (2.0 * rest / (left + root).clamp_min(torch.finfo(root.dtype).tiny)).clamp(0.0, 1.0)
        step = 2.0 * _FARTHEST / _CELLS
        share = (places.gather(-1, cell) + scale * step * part).sigmoid().squeeze(-1)
        return self._low + self._width * share.clamp(_EDGE, 1.0 - _EDGE)

    @property
    def parameters(self) -> Tensor:
        """Return all alpha, then all beta."""
        return torch.cat([self._alpha, self._beta], -1)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean: the mode of a nearly flat column jumps from one edge to the other."""
        return self._low + self._width * (self._alpha / (self._alpha + self._beta))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum over columns of the log-density in the units of the action."""
        shares = _parts(((value - self._low) / self._width).clamp(_EDGE, 1.0 - _EDGE))
        parts = zip(self._shapes, shares, self._log_norms, strict=True)
        kernels = [
            (alpha - 1.0) * share.log() + (beta - 1.0) * (-share).log1p() - log_norm
            for (alpha, beta), share, log_norm in parts
        ]
        return (torch.cat(kernels, -1) - self._width.log()).sum(-1)

    def entropy(self) -> Tensor:
        """Return the sum over columns, in nats, for the density in the units of the action."""
        entropies = [
            log_norm
            - (alpha - 1.0) * digamma(alpha)
            - (beta - 1.0) * digamma(beta)
            + (alpha + beta - 2.0) * digamma(alpha + beta)
            for (alpha, beta), log_norm in zip(self._shapes, self._log_norms, strict=True)
        ]
        return (torch.cat(entropies, -1) + self._width.log()).sum(-1)


def _parts(columns: Tensor) -> tuple[Tensor, ...]:
    """Return all columns (..., n) together, or one by one for a compiler.

    A compiler then vectorises over rows; of columns together it makes an inner loop of n for every row.
    """
    return torch.split(columns, 1, -1) if torch.compiler.is_compiling() else (columns,)


class BoundedAndBinary(ActionDistribution):
    """Columns of a ScaledBeta, then binary columns, 0.0 or 1.0; all independent.

    `binary` has two choices per column.
    """

    def __init__(self, bounded: ScaledBeta, binary: MaskedMultiCategorical) -> None:
        self._bounded, self._binary = bounded, binary
        self._columns = [part.event_shape[0] for part in (bounded, binary)]
        super().__init__(
            batch_shape=bounded.batch_shape,
            event_shape=torch.Size([sum(self._columns)]),
            validate_args=False,
        )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw one action per row."""
        return self._joined(self._bounded.sample(sample_shape), self._binary.sample(sample_shape))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of every column at `value` (..., columns), from 0 to below 1."""
        bounded, binary = torch.split(value, self._columns, -1)
        return self._joined(self._bounded.icdf(bounded), self._binary.icdf(binary))

    @property
    def parameters(self) -> Tensor:
        """Return all alpha, all beta, then the log-probabilities of 0 and 1 of each binary column."""
        return torch.cat([self._bounded.parameters, self._binary.parameters], -1)

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean of bounded columns, the more probable value of binary ones."""
        return self._joined(self._bounded.deterministic_sample, self._binary.deterministic_sample)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log of density times probability."""
        bounded, binary = torch.split(value, self._columns, -1)
        return self._bounded.log_prob(bounded) + self._binary.log_prob(binary.long())

    def entropy(self) -> Tensor:
        """Return the sum over all columns, in nats."""
        return self._bounded.entropy() + self._binary.entropy()

    def _joined(self, bounded: Tensor, binary: Tensor) -> Tensor:
        return torch.cat([bounded, binary.to(bounded.dtype)], -1)


def _require_one_sample(sample_shape: Sequence[int]) -> None:
    if sample_shape:
        raise ValueError(f"sample_shape = {tuple(sample_shape)}; expected none")
