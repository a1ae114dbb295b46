"""How differently skills act before anything is learned: biases on what an action head is told."""

import torch
from torch import Tensor

from navrl.agents.heads import BetaHead, CategoricalHead, Head, HybridHead

INITS = ("spread", "gaussian")


def initial_biases(kind: str, number: int, std: float, head: Head) -> Tensor:
    """One row of biases (number, outputs) for each skill; as large in the mean as Gaussian ones.

    spread: the rows go both ways along the axes of a random orthonormal basis. For every direction in
    which actions can differ some skill leans to it, so whatever two directions a task needs are tried from
    the start; with independent Gaussian rows a direction may be missing, and a skill that nobody tries is
    never learned.
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
    rows: list[Tensor] = []
    while len(rows) < number:
        basis = torch.linalg.qr(centre @ torch.randn(head.outputs, freedom))[0]
        rows += [signed for axis in basis.unbind(-1) for signed in (axis, -axis)]
    return std * freedom**0.5 * torch.stack(rows[:number])


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
        return torch.cat([bounded, _groups(head.binary) + len(bounded)])
    raise TypeError(f"no biases for a {type(head).__name__}; add its groups to {__name__}")
