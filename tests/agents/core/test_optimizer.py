"""Adam in one call against torch's own: the same steps, skipped ones too, and the same state."""

import pytest
import torch

from navrl.agents.core.optimizer import OneCallAdam

EPSILON = 1e-5


def groups(seed=1):
    torch.manual_seed(seed)
    first = [torch.nn.Parameter(torch.randn(*shape)) for shape in ((5, 3), (5,), (2, 5))]
    return [
        {"params": first, "lr": 0.1},
        {"params": [torch.nn.Parameter(torch.ones(4))], "lr": 1.0},
    ]


def descend(optimizer, frozen, *, idle=None):
    """Steps along random gradients, divided by two; `frozen` says which are not to be taken."""
    torch.manual_seed(2)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for stop in frozen:
        for number, parameter in enumerate(parameters):
            gradient = torch.randn_like(parameter)
            parameter.grad = None if number == idle else gradient
        optimizer.found_inf = torch.tensor(float(stop))
        optimizer.grad_scale = torch.tensor(2.0)
        optimizer.step()
    return parameters


def pair():
    return OneCallAdam(groups(), EPSILON), torch.optim.Adam(groups(), eps=EPSILON, fused=True)


@pytest.mark.parametrize("idle", [None, 0, 3])
@pytest.mark.parametrize("frozen", [[0], [0, 1, 0, 0], [1, 0], [1]])
def test_the_steps_are_those_of_torch(frozen, idle):
    found, expected = (descend(each, frozen, idle=idle) for each in pair())
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_it_goes_on_from_what_torch_saved_and_leaves_that_alone():
    ours, theirs = pair()
    for a, b in zip(descend(theirs, [0, 0, 1]), descend(ours, []), strict=True):
        b.data.copy_(a.data)
    saved = theirs.state_dict()
    before = [state["exp_avg"].clone() for state in saved["state"].values()]
    ours.load_state_dict(saved)
    found = descend(ours, [0, 0])
    assert all(
        torch.equal(state["exp_avg"], value)
        for state, value in zip(saved["state"].values(), before, strict=True)
    )
    expected = descend(theirs, [0, 0])
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    counts = {int(state["step"]) for state in ours.state_dict()["state"].values()}
    assert counts == {4}
