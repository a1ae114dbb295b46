"""Gradient steps: fused Adam with clipping, skipped steps and a falling learning rate, all on the device."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from navrl.storage.schema import Having, exactly, numbers, whole

Group = dict[str, Any]


class OneCallAdam(torch.optim.Adam):
    """Fused Adam that updates all parameters of a group in one call and keeps one step count for them.

    torch's own looks at every parameter and has a count for each, which takes longer than the arithmetic
    where networks are small. Its state dict has the same form.
    """

    found_inf: Tensor  # 1 where no step is to be taken; set, like the next, before every step
    grad_scale: Tensor  # what gradients are divided by

    def __init__(self, groups: list[Group], epsilon: float) -> None:
        super().__init__(groups, eps=epsilon, fused=True)
        self._share_counts()

    def _share_counts(self) -> None:
        for group in self.param_groups:
            if not group["params"]:
                continue
            first, states = group["params"][0], [self.state[p] for p in group["params"]]
            counts = [state["step"] for state in states if state]
            count = counts[0] if counts else torch.zeros((), device=first.device)
            for parameter, state in zip(group["params"], states, strict=True):
                state.setdefault("exp_avg", torch.zeros_like(parameter))
                state.setdefault("exp_avg_sq", torch.zeros_like(parameter))
                state["step"] = count

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the moments of this or of torch's Adam, from a copy: torch would write into the original.

        Rates and all other numbers of the groups stay those of this object.
        """
        groups = self.state_dict()["param_groups"]
        super().load_state_dict(
            {"state": copy.deepcopy(state_dict["state"]), "param_groups": groups}
        )
        self._share_counts()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            states = [self.state[p] for p in moved]
            if not moved:
                continue
            count = states[0]["step"]
            count.add_(1.0 - self.found_inf)
            torch._fused_adam_(
                moved,
                [p.grad for p in moved],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [count] * len(moved),
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
                grad_scale=self.grad_scale,
                found_inf=self.found_inf,
            )


class Optimizer:
    """Adam whose learning rates fall on a line to `final_share` of what they were, and then stay."""

    def __init__(
        self,
        groups: list[Group],
        *,
        final_share: float,
        epsilon: float,
        max_grad_norm: float,
        num_iterations: int,
    ) -> None:
        self.adam: Any = OneCallAdam(groups, epsilon)
        self.parameters = [each for group in groups for each in group["params"]]
        self._epsilon, self._max_grad_norm = epsilon, max_grad_norm
        span = max(num_iterations, 1)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self.adam, lambda done: 1.0 - (1.0 - final_share) * min(done / span, 1.0)
        )

    @property
    def done(self) -> int:
        """Return the number of iterations that have ended."""
        return int(self._schedule.last_epoch)

    def step(self, gradients: Sequence[Tensor | None], norm: Tensor, stopped: Tensor) -> Tensor:
        """Take one step along gradients of `parameters` with this norm; return whether they were broken.

        Gradients are scaled down to the largest norm. Nothing moves where `stopped`, or if they are not
        finite. Both decisions stay on the device: fused Adam leaves everything alone where found_inf is 1,
        and divides gradients by grad_scale, which makes it do the clipping too.
        """
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        broken = ~norm.isfinite()
        self.adam.found_inf = (broken | stopped).float()
        self.adam.grad_scale = (norm / self._max_grad_norm).clamp_min(1.0)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return broken

    def end_iteration(self) -> float:
        """Lower the learning rates for the next iteration; return that of the policy in this one."""
        rate = float(self._schedule.get_last_lr()[0])
        self._schedule.step()
        return rate

    def state_dict(self) -> dict[str, Any]:
        """Return the moments of Adam and the number of iterations."""
        return {"optimizer": self.adam.state_dict(), "schedule": self.done}

    def schema(self) -> dict[str, Any]:
        """Return what a state to load is compared with: counts and moments of the same parameters."""
        adam = self.adam.state_dict()
        moments = {
            number: {
                "step": numbers(each["step"].dtype, [], least=0),
                "exp_avg": each["exp_avg"],
                "exp_avg_sq": numbers(each["exp_avg_sq"].dtype, each["exp_avg_sq"].shape, least=0),
            }
            for number, each in adam["state"].items()
        }
        groups = [
            Having({"params": [exactly(n) for n in g["params"]]}) for g in adam["param_groups"]
        ]
        return {"optimizer": {"state": moments, "param_groups": groups}, "schedule": whole()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict returned; epsilon and learning rates are those of this object."""
        self.adam.load_state_dict(state["optimizer"])
        done = self._schedule.last_epoch = state["schedule"]
        for group, rate in zip(self.adam.param_groups, self._schedule.base_lrs, strict=True):
            group["eps"] = self._epsilon
            group["lr"] = rate * self._schedule.lr_lambdas[0](done)
        self._schedule._last_lr = [group["lr"] for group in self.adam.param_groups]


def parameter_groups(
    policy: nn.Module, critic: nn.Module, learning_rate: float, critic_learning_rate: float | None
) -> list[Group]:
    """Return the parameters of the policy with shared layers, and those of the critic alone, by rate."""
    own = dict.fromkeys(policy.parameters())
    others = [parameter for parameter in critic.parameters() if parameter not in own]
    if critic_learning_rate is None:
        return [{"params": [*own, *others], "lr": learning_rate}]
    return [
        {"params": list(own), "lr": learning_rate},
        {"params": others, "lr": critic_learning_rate},
    ]
