"""Networks built from an env's specs: a normaliser and an encoder per observation leaf, an MLP on top."""

import itertools
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import Composite, MultiCategorical, TensorSpec
from torchrl.envs.utils import ExplorationType, exploration_type

from navrl.agents.distributions import MaskedMultiCategorical

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU, "elu": nn.ELU}
PRECISIONS = ("fp32", "bf16", "auto")
_CLIP = 10.0


class Normaliser(nn.Module):
    """Running mean and variance of observation rows; part of the policy, so it travels with it."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of about unit scale, clipped."""
        return ((rows - self.mean) * torch.rsqrt(self.variance + 1e-4)).clamp(-_CLIP, _CLIP)

    @torch.no_grad()
    def update(self, rows: Tensor) -> None:
        """Merge a batch (B, F); rows that are not finite do not count."""
        finite = rows.isfinite().all(-1, keepdim=True)
        rows = torch.where(finite, rows, 0.0)
        size = finite.sum().to(torch.float64)
        mean = rows.sum(0) / size.clamp_min(1.0)
        variance = (torch.where(finite, rows - mean, 0.0) ** 2).sum(0) / size.clamp_min(1.0)
        total = (self.count + size).clamp_min(1.0)
        share = size / total
        shift = mean - self.mean
        merged = (1.0 - share) * self.variance + share * variance + share * (1.0 - share) * shift**2
        merged = torch.where(self.count > 0, merged, variance)
        self.variance.copy_(torch.where(size > 0, merged, self.variance))
        self.mean.add_(shift * share)
        self.count.add_(size)


class Trunk(nn.Module):
    """All vector leaves of an observation, normalised, through an MLP to `outputs` numbers."""

    def __init__(
        self,
        *,
        observation_spec: Composite,
        normalisers: nn.ModuleDict,
        outputs: int,
        hidden_sizes: Sequence[int],
        activation: str,
        output_gain: float,
        precision: str,
    ) -> None:
        super().__init__()
        if not hidden_sizes or min(hidden_sizes) < 1:
            raise ValueError(
                f"agent.hidden_sizes = {list(hidden_sizes)}; expected one or more positive widths; "
                "change agent.hidden_sizes"
            )
        if activation not in _ACTIVATIONS:
            raise ValueError(
                f"agent.activation = {activation!r}; expected one of {', '.join(_ACTIVATIONS)}; "
                "change agent.activation"
            )
        self.leaves = tuple(leaf_sizes(observation_spec))
        self.normalisers = normalisers
        self.bf16 = precision == "bf16"
        sizes = [sum(leaf_sizes(observation_spec).values()), *hidden_sizes]
        layers: list[nn.Module] = []
        for inputs, width in itertools.pairwise(sizes):
            layers += [_linear(inputs, width, 2.0**0.5), _ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers, _linear(sizes[-1], outputs, output_gain))

    def forward(self, tensordict: TensorDictBase) -> Tensor:
        """(..., outputs) in float32; with bf16 the matrix products, and so the outputs, are rounded."""
        rows = [
            self.normalisers[leaf](tensordict.get(("observation", leaf))) for leaf in self.leaves
        ]
        joined = torch.cat(rows, -1) if len(rows) > 1 else rows[0]
        with torch.autocast(joined.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            return self.layers(joined).float()


class Policy(TensorDictModuleBase):
    """Observation and mask to action and its log-probability; `version` counts updates."""

    def __init__(self, *, trunk: Trunk, choices: Sequence[int]) -> None:
        super().__init__()
        self.trunk = trunk
        self.choices = tuple(choices)
        self.version = 0
        self.in_keys = [*(("observation", leaf) for leaf in trunk.leaves), "action_mask"]
        self.out_keys = ["action", "action_log_prob"]
        # What TorchRL's losses ask a policy for.
        self.dist_sample_keys, self.log_prob_keys = ["action"], ["action_log_prob"]

    def get_dist(self, tensordict: TensorDictBase) -> MaskedMultiCategorical:
        """The action distribution of every row."""
        return MaskedMultiCategorical(
            self.trunk(tensordict), tensordict.get("action_mask"), self.choices
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sample, or take the mode under ExplorationType.DETERMINISTIC."""
        dist = self.get_dist(tensordict)
        mode = exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE)
        action = dist.mode if mode else dist.sample()
        tensordict.set("action", action)
        tensordict.set("action_log_prob", dist.log_prob(action))
        return tensordict


class Critic(TensorDictModuleBase):
    """Observation to state value."""

    def __init__(self, *, trunk: Trunk) -> None:
        super().__init__()
        self.trunk = trunk
        self.in_keys = [("observation", leaf) for leaf in trunk.leaves]
        self.out_keys = ["state_value"]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Adds state_value (..., 1)."""
        tensordict.set("state_value", self.trunk(tensordict))
        return tensordict


def actor_critic(
    *,
    observation_spec: Composite,
    action_spec: TensorSpec,
    hidden_sizes: Sequence[int],
    activation: str,
    precision: str,
) -> tuple[Policy, Critic]:
    """Separate networks that share only the observation's normalisers."""
    sizes = leaf_sizes(observation_spec)
    normalisers = nn.ModuleDict({leaf: Normaliser(n) for leaf, n in sizes.items()})

    def trunk(outputs: int, gain: float) -> Trunk:
        return Trunk(
            observation_spec=observation_spec,
            normalisers=normalisers,
            outputs=outputs,
            hidden_sizes=hidden_sizes,
            activation=activation,
            output_gain=gain,
            precision=precision,
        )

    choices = action_choices(action_spec)
    # A small last layer: the first policy is close to uniform.
    return Policy(trunk=trunk(sum(choices), 0.01), choices=choices), Critic(trunk=trunk(1, 1.0))


def leaf_sizes(observation_spec: Composite) -> dict[str, int]:
    """Features of every observation leaf; all leaves are vectors."""
    leaves = observation_spec["observation"]
    batch = len(observation_spec.shape)
    wrong = [name for name, leaf in leaves.items() if len(leaf.shape) != batch + 1]
    if wrong:
        raise ValueError(
            f"observation leaf {wrong[0]!r} has shape {tuple(leaves[wrong[0]].shape[batch:])}; expected a "
            "vector; change the env's observation or add an encoder to navrl/agents/networks.py"
        )
    return {name: leaves[name].shape[-1] for name in sorted(leaves.keys())}


def action_choices(action_spec: TensorSpec) -> list[int]:
    """Choices per head of a discrete action."""
    if not isinstance(action_spec, MultiCategorical):
        raise ValueError(
            f"the env's action is {type(action_spec).__name__}; expected MultiCategorical; choose another "
            "env or add a head to navrl/agents/networks.py"
        )
    return [int(n) for n in action_spec.nvec.reshape(-1, action_spec.shape[-1])[0]]


def resolve_precision(precision: str, device: torch.device) -> str:
    """fp32 or bf16; `auto` takes bf16 where the hardware multiplies it natively."""
    if precision not in PRECISIONS:
        raise ValueError(
            f"agent.precision = {precision!r}; expected one of {', '.join(PRECISIONS)}; "
            "change agent.precision"
        )
    if precision != "auto":
        return precision
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()
    return "bf16" if native else "fp32"


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
