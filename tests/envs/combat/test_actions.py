"""Kinds of action: specs and masks that fit, orders by hand, and the way back from an order."""

import itertools

import pytest
import torch

from navrl.envs.combat.actions import Continuous, Discrete, DiscreteFine

KINDS = (Discrete, DiscreteFine, Continuous)
SIZES = (1, 2, 4)
RUDDERS, THROTTLES = (-1.0, -0.5, 0.0, 0.5, 1.0), (0.3, 0.7, 1.0)


@pytest.fixture(params=SIZES, ids="against {}".format)
def team_size(request):
    return request.param


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def action(request, team_size):
    return request.param(team_size=team_size)


def row(*columns):
    """One action per line of columns."""
    return torch.tensor(columns)


def as_lists(order):
    """An order as plain numbers; its target None where there is none."""
    return [None if field is None else field.tolist() for field in order]


def livings(team_size):
    """Every way in which some enemies are alive, bool (S, N)."""
    return torch.tensor(list(itertools.product([False, True], repeat=team_size))).t()


def columns_allowed(mask, sizes):
    """Return the allowed values per env and column of the mask (mask_size, N)."""
    return [[flags.nonzero().flatten().tolist() for flags in env.split(sizes)] for env in mask.t()]


def test_discrete_by_hand():
    actions = row((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1))
    assert as_lists(Discrete(team_size=1).command(actions)) == [
        [-1.0, 0.0, 1.0, -1.0, 0.0, 1.0],
        [1.0] * 6,
        [False] * 3 + [True] * 3,
        None,
    ]


def test_discrete_fine_by_hand():
    actions = list(itertools.product(range(5), range(3), range(2)))
    rudder, throttle, fire, target = DiscreteFine(team_size=1).command(row(*actions))
    assert rudder.tolist() == [RUDDERS[r] for r, _, _ in actions]
    assert throttle.tolist() == pytest.approx([THROTTLES[t] for _, t, _ in actions])
    assert fire.tolist() == [bool(f) for _, _, f in actions]
    assert target is None


def test_continuous_by_hand():
    actions = row((-0.3, 0.25, 0.0), (1.0, 0.0, 1.0))
    order = Continuous(team_size=1).command(actions)
    assert order.rudder.tolist() == pytest.approx([-0.3, 1.0])
    assert order.throttle.tolist() == [0.25, 0.0]
    assert order.fire.tolist() == [False, True]
    assert order.target is None


def test_the_target_by_hand():
    assert Discrete(team_size=3).command(row((1, 0, 2), (0, 1, 0))).target.tolist() == [2, 0]
    assert DiscreteFine(team_size=3).command(row((1, 0, 0, 1))).target.tolist() == [1]
    taken = row(*([0.0, 1.0, 1.0, *taken] for taken in itertools.product([0.0, 1.0], repeat=2)))
    # Neither: the last one. The first that is taken, else.
    assert Continuous(team_size=3).command(taken).target.tolist() == [2, 1, 0, 0]


@pytest.mark.parametrize(
    ("rudder", "choice"),
    [(-1.0, 0), (-0.31, 0), (-0.3, 1), (0.0, 1), (0.3, 1), (0.31, 2), (1.0, 2)],
)
def test_discrete_takes_a_rudder_beyond_three_tenths_for_a_full_one(rudder, choice):
    wish = torch.tensor([rudder]), torch.tensor([0.2]), torch.tensor([True])
    assert Discrete(team_size=1).nearest(*wish, None).tolist() == [[choice, 1]]


def test_discrete_fine_takes_the_nearest_choice():
    rudders = torch.linspace(-0.99, 0.99, 67)
    throttles = torch.linspace(0.01, 0.99, 67).flip(0)
    fire = torch.arange(67) % 2 == 0
    columns = DiscreteFine(team_size=1).nearest(rudders, throttles, fire, None).tolist()
    for wish, (turn, level, trigger) in zip(
        zip(rudders.tolist(), throttles.tolist(), fire.tolist(), strict=True), columns, strict=True
    ):
        assert abs(RUDDERS[turn] - wish[0]) <= 0.25 + 1e-6  # half a step
        gaps = [abs(throttle - wish[1]) for throttle in THROTTLES]
        assert gaps[level] == pytest.approx(min(gaps))
        assert trigger == wish[2]


def test_continuous_takes_the_wish_within_bounds():
    wish = torch.tensor([-3.0, 0.4]), torch.tensor([-0.5, 1.5]), torch.tensor([True, False])
    action = Continuous(team_size=1)
    nearest = action.nearest(*wish, None)
    assert torch.equal(nearest, row((-1.0, 0.0, 1.0), (0.4, 1.0, 0.0)))
    assert action.spec((2,), "cpu").is_in(nearest)


def test_an_order_that_can_be_given_comes_back(action):
    rudders = {Discrete: (-1.0, 0.0, 1.0), Continuous: (-0.77, 0.0, 0.4)}
    throttles = {Discrete: (1.0,), Continuous: (0.0, 0.6)}
    wishes = itertools.product(
        rudders.get(type(action), RUDDERS),
        throttles.get(type(action), THROTTLES),
        (False, True),
        range(action.team_size),
    )
    rudder, throttle, fire, target = (torch.tensor(field) for field in zip(*wishes, strict=True))
    several = action.team_size > 1
    chosen = action.nearest(rudder, throttle, fire, target.int() if several else None)
    assert action.spec((len(rudder),), "cpu").is_in(chosen)
    order = action.command(chosen)
    assert torch.equal(order.rudder, rudder)
    assert torch.equal(order.throttle, throttle)
    assert torch.equal(order.fire, fire)
    assert (order.target.tolist() if several else order.target) == (
        target.tolist() if several else None
    )


def test_only_the_trigger_of_who_is_not_ready_is_forbidden():
    ready, alive = torch.tensor([True, False]), torch.ones(1, 2).bool()
    for action, trigger in ((Discrete, 4), (DiscreteFine, 9), (Continuous, 1)):
        mask = action(team_size=1).mask(ready, alive)
        assert mask[:, 0].all()
        assert (~mask[:, 1]).nonzero().flatten().tolist() == [trigger]


@pytest.mark.parametrize("size", [2, 4])
def test_the_living_can_be_chosen_and_the_dead_cannot(size):
    # With nobody alive the choice does not matter, but there has to be one.
    alive = livings(size)
    ready = torch.zeros(alive.shape[1], dtype=torch.bool)
    for action in (Discrete(team_size=size), DiscreteFine(team_size=size)):
        targets = action.mask(ready, alive)[-size:]
        assert torch.equal(targets[:, 1:], alive[:, 1:])
        assert targets[:, 0].all()
    action = Continuous(team_size=size)
    allowed = columns_allowed(action.mask(ready, alive), [2] * size)
    for env, (fire, *taken) in enumerate(allowed):
        assert fire == [0]
        actions = [[0.0, 1.0, 0.0, *map(float, each)] for each in itertools.product(*taken)]
        living = alive[:, env].nonzero().flatten().tolist()
        assert actions
        assert set(action.command(row(*actions)).target.tolist()) == set(living or [size - 1])


def test_a_wish_without_a_target_is_refused_among_several():
    wish = torch.zeros(2), torch.ones(2), torch.zeros(2).bool()
    for kind in KINDS:
        with pytest.raises(ValueError, match="several enemies got no target"):
            kind(team_size=2).nearest(*wish, None)
