"""How differently skills act before anything is learned: biases on what an action head is told."""

import torch
from torch import Tensor

from navrl.agents.networks.heads import BetaHead, CategoricalHead, Head, HybridHead

INITS = ("pairs", "spread", "gaussian")
_NOTHING = 1e-3  # the length of a leaning that competes only with itself


def initial_biases(kind: str, number: int, std: float, head: Head) -> Tensor:
    """One row of biases (number, outputs) for each skill; as large in the mean as Gaussian ones.

    pairs: every skill leans to two outputs, every two outputs have a skill. Whatever two actions a task
    needs together, some skill does both from the start, and a skill that nobody tries is never learned.
    spread: both ways along the axes of a random orthonormal basis; even, but where it leads is luck.
    gaussian: independent; whole directions may be missing.
    """
    if kind not in INITS:
        raise ValueError(
            f"agent.actor.skill_init = {kind!r}; expected one of {', '.join(INITS)}; "
            "change agent.actor.skill_init"
        )
    if kind == "gaussian":
        return std * torch.randn(number, head.outputs)
    centre = _centring(_groups(head))
    freedom = round(float(centre.trace()))
    rows = _pairs(centre, number) if kind == "pairs" else _spread(centre, number, freedom)
    return std * freedom**0.5 * rows


def _pairs(centre: Tensor, number: int) -> Tensor:
    """Neighbours first, then wider apart, so that few skills use all outputs alike; at last the opposites."""
    outputs = len(centre)
    rows = torch.cat(
        [
            (centre + centre.roll(-apart, 0))[: outputs if 2 * apart < outputs else outputs // 2]
            for apart in range(1, outputs // 2 + 1)
        ]
    )
    rows = rows[rows.norm(dim=-1) > _NOTHING]
    if len(rows) == 0:  # two outputs that only compete with each other
        rows = centre
    rows = rows / rows.norm(dim=-1, keepdim=True)
    whole = torch.cat([rows, -rows])
    return whole.repeat(-(-number // len(whole)), 1)[:number]


def _spread(centre: Tensor, number: int, freedom: int) -> Tensor:
    """Plus and minus the axes of as many bases as it takes."""
    rows: list[Tensor] = []
    while len(rows) < number:
        basis = torch.linalg.qr(centre @ torch.randn(len(centre), freedom))[0]
        rows += [signed for axis in basis.unbind(-1) for signed in (axis, -axis)]
    return torch.stack(rows[:number])


def _centring(groups: Tensor) -> Tensor:
    """The matrix that takes its mean from every group of outputs: of a whole group's sum nothing is seen."""
    same = (groups.unsqueeze(0) == groups.unsqueeze(1)).float()
    return torch.eye(len(groups)) - same / same.sum(-1, keepdim=True)


def _groups(head: Head) -> Tensor:
    """Which outputs compete: the choices of a column, or the two parameters of an interval."""
    if isinstance(head, CategoricalHead):
        sizes = torch.tensor(head.choices)
        return torch.arange(len(sizes)).repeat_interleave(sizes)
    if isinstance(head, BetaHead):
        return torch.arange(len(head.low)).repeat(2)
    if isinstance(head, HybridHead):
        bounded = _groups(head.bounded)
        return torch.cat([bounded, _groups(head.binary) + bounded.max() + 1])
    raise TypeError(f"no biases for a {type(head).__name__}; add its groups to {__name__}")
