"""Several aircraft a side in the env: TorchRL's rules, who is alive, what is allowed, and the numbers."""

import itertools

import pytest
import torch

from navrl.config.compose import build
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.sim.state import Command
from tests.envs.combat.sim.duels import put_missile
from tests.envs.conftest import configuration
from tests.envs.playing import play

SIZE = 3
FIRE, TARGETS = (
    4,
    slice(5, 8),
)  # columns of the mask: right, straight, left, hold, fire, and whom at


def team(*overrides, num_envs=2, size=SIZE):
    options = (f"env.team_size={size}", "opponent=straight", "observation=entities", *overrides)
    env = build(configuration("env=combat", *options).env)(num_envs=num_envs, device="cpu", seed=0)
    env.reset()
    return env


def changed(env, function):
    """Return the root of the env after its fight was changed by hand."""
    world = env._world
    combat = function(world.state.combat)
    env._world = world._replace(state=world.state._replace(combat=combat))
    return env._tensordict(env._leaves(env._world))


def with_alive(*alive):
    """Set the same aircraft alive in every env, the learner's first."""
    flags = torch.tensor(alive).unsqueeze(-1)
    return lambda s: s._replace(
        aircraft=s.aircraft._replace(alive=flags.expand_as(s.aircraft.alive).clone())
    )


def orders(env, *choices):
    """The same choices (rudder, fire, target) of every agent in every env."""
    return torch.tensor(choices).expand(*env.batch_size, SIZE, 3).clone()


def statistic(env, root, name):
    return root["episode"][0, env.episode_keys.index(name)].item()


def test_the_team_is_a_group_and_its_reward_and_end_are_at_the_root():
    env = team()
    ((frame, root),) = play(env, [orders(env, *[(1, 0, 0)] * SIZE)])
    assert env.action_key == ("agents", "action")
    assert frame["agents"].batch_size == frame["next", "agents"].batch_size == (2, SIZE)
    for key in ("reward", "done", "terminated", "truncated"):
        assert frame["next", key].shape == (2, 1)
        assert key not in frame["next", "agents"].keys()  # noqa: SIM118
    assert root["agents", "alive"].shape == (2, SIZE, 1)
    assert root["agents", "action_mask"].shape == (2, SIZE, 5 + SIZE)
    assert root["agents", "observation", "entities"].shape == (2, SIZE, 2 * SIZE - 1, 13)


def test_every_agent_steers_its_own_aircraft():
    env = team()
    play(env, [orders(env, (0, 0, 0), (1, 0, 0), (2, 0, 0))], env.reset())
    assert env.combat_state.aircraft.rudder[:, 0].tolist() == [-1.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_every_agent_fires_at_whom_it_chose():
    env = team("scenario.range_m=[60000,80000]")
    play(env, [orders(env, (1, 1, 2), (1, 0, 1), (1, 1, 0))], env.reset())
    flying = env.combat_state.missiles
    assert flying.active[:, 0, 0].tolist() == [True, False, True, False, False, False]
    assert flying.target[[0, 2], 0, 0].tolist() == [SIZE + 2, SIZE]


def test_the_dead_may_not_fire_and_nobody_may_choose_them():
    env = team()
    for alive in itertools.product([True, False], repeat=2 * SIZE):
        mine, theirs = alive[:SIZE], alive[SIZE:]
        root = changed(env, with_alive(*alive))
        masks = root["agents", "action_mask"]
        assert root["agents", "alive"].squeeze(-1).tolist() == [list(mine)] * 2
        assert masks[:, :, :FIRE].all()
        assert masks[:, :, FIRE].tolist() == [list(mine)] * 2
        choosable = list(theirs) if any(theirs) else [True] * SIZE  # some choice there has to be
        assert masks[:, :, TARGETS].tolist() == [[choosable] * SIZE] * 2
        if any(mine):
            entities = root["agents", "observation", "entities_mask"][0]
            others = [[*(mine[:me] + mine[me + 1 :]), *theirs] for me in range(SIZE)]
            assert entities.tolist() == others


def test_who_dies_in_a_step_is_dead_in_what_follows_it_and_the_team_plays_on():
    env = team("scenario.range_m=[60000,80000]")
    changed(env, lambda s: put_missile(s, SIZE, target=1, at=at_the_tail(s, 1)))
    straight = orders(env, *[(1, 0, 0)] * SIZE)
    frames = play(
        env, [straight] * 3, env._tensordict({**env._leaves(env._world), **env._never_done()})
    )
    alive = [True, False, True]
    assert frames[0][0]["agents", "alive"].all()
    for frame, root in frames:
        assert frame["next", "agents", "alive"][0].flatten().tolist() == alive
        assert root["agents", "alive"][0].flatten().tolist() == alive
        assert not frame["next", "done"].any()


def test_every_aircraft_can_be_rewarded_with_its_own_events_and_the_teams_outcome():
    """Who is killed alone has the -0.5 of it; the team's reward is the mean, here a third."""
    straight = orders(team(), *[(1, 0, 0)] * SIZE)
    weights = ("reward=team", "reward.weights.attack=0", "reward.weights.evade=0")
    for split in ("team", "per_agent"):
        env = team(*weights, f"env.reward_split={split}", "scenario.range_m=[60000,80000]")
        changed(env, lambda s: put_missile(s, SIZE, target=1, at=at_the_tail(s, 1)))
        root = env._tensordict({**env._leaves(env._world), **env._never_done()})
        ((frame, _),) = play(env, [straight], root)
        assert frame["next", "reward"][0].item() == pytest.approx(-0.5 / SIZE)
    assert frame["next", "agents", "reward"][0].flatten().tolist() == [0.0, -0.5, 0.0]

    env = team(*weights, "env.reward_split=per_agent")
    changed(env, with_alive(True, False, True, False, False, False))
    root = env._tensordict({**env._leaves(env._world), **env._never_done()})
    ((frame, _),) = play(env, [straight], root)
    assert frame["next", "agents", "reward"].flatten().tolist() == [1.0] * 2 * SIZE  # the win


@pytest.mark.parametrize("size", [1, SIZE])
def test_rewards_of_single_aircraft_average_to_the_teams(size):
    own = team("reward=cold_start", "env.reward_split=per_agent", size=size)
    torch.manual_seed(0)
    frames = own.rollout(40, break_when_any_done=False)["next"]
    assert (("agents", "reward") in frames.keys(True)) == (size > 1)
    if size > 1:
        mean = frames["agents", "reward"].mean(2)
        torch.testing.assert_close(mean, frames["reward"], atol=1e-6, rtol=0.0)
        assert frames["agents", "reward"].std(2).max() > 0.01


def at_the_tail(state, prey):
    """Return the place of a missile that hits env 0's aircraft within a second."""
    x_m, y_m, cos, sin, _ = (field[prey, 0].item() for field in state.aircraft.motion)
    heading = torch.rad2deg(torch.atan2(torch.tensor(sin), torch.tensor(cos))).item()
    return x_m - 300.0 * cos, y_m - 300.0 * sin, heading, 900.0


@pytest.mark.parametrize(
    ("alive", "expected"),
    [
        (
            (1, 0, 1, 0, 0, 0),
            {"win": 1, "loss": 0, "draw": 0, "kill": 1, "survival": 1, "kills": 3},
        ),
        (
            (0, 0, 0, 0, 1, 0),
            {"win": 0, "loss": 1, "draw": 0, "kill": 0, "survival": 0, "kills": 2},
        ),
        (
            (0, 0, 0, 0, 0, 0),
            {"win": 0, "loss": 0, "draw": 1, "kill": 1, "survival": 0, "kills": 3},
        ),
        (
            (1, 1, 1, 0, 1, 1),
            {"win": 0, "loss": 0, "draw": 1, "kill": 0, "survival": 1, "kills": 1},
        ),
    ],
)
def test_statistics_by_hand(alive, expected):
    env = team("reward=standard")
    changed(env, with_alive(*map(bool, alive)))
    rounds = torch.tensor([6, 4, 3, 1, 6, 6], dtype=torch.int32).unsqueeze(-1).expand(6, 2).clone()
    root = changed(env, lambda s: s._replace(aircraft=s.aircraft._replace(rounds=rounds)))
    per_aircraft = expected | {"kills": pytest.approx(expected["kills"] / SIZE)}
    assert {name: statistic(env, root, name) for name in expected} == per_aircraft
    # Two and three of the learner's eighteen are gone: 5 / 3 an aircraft.
    assert statistic(env, root, "launches") == pytest.approx(5 / 3)
    ((frame, _),) = play(env, [orders(env, *[(1, 0, 0)] * SIZE)], root)
    over = expected["win"] + expected["loss"] or not any(alive)
    assert frame["next", "terminated"].flatten().tolist() == [bool(over)] * 2
    assert frame["next", "reward"].flatten().tolist() == [expected["win"] - expected["loss"]] * 2


@pytest.mark.parametrize("action", ["discrete_fine", "continuous"])
def test_scripted_pilots_fly_the_learners_team(action):
    options = (f"action={action}", "scenario.range_m=[8000,12000]", "env.sim.tick_s=0.25")
    env = team(*options, num_envs=8)
    pilot = build(configuration("opponent=crank").opponent)
    root, memories, ended, won = env.reset(), None, torch.zeros(8, 1).bool(), 0.0
    for _ in range(90):
        chosen, memories = env.pilot_action(pilot, memories)
        ((frame, root),) = play(env, [chosen], root)
        spec = env.full_action_spec[env.action_key]
        assert spec.is_in(chosen)
        first = frame["next", "done"] & ~ended
        wins = frame["next", "episode"][:, [env.episode_keys.index("win")]]
        won, ended = won + (wins * first).sum().item(), ended | first
        if ended.all():
            break
    assert won >= 6, "an aircraft that flies straight on is shot"


class Marksman(Pilot):
    """Flies straight and fires at the enemy of its choice."""

    def __init__(self, target):
        self.target = target

    def initial(self, key):
        return ()

    def act(self, params, state, me, memory):
        zero = torch.zeros_like(state.aircraft.motion.x_m[me])
        target = None if self.target is None else torch.full_like(zero, self.target).int()
        return Command(zero, zero + 1.0, zero == 0.0, target), ()


@pytest.mark.parametrize(
    ("requested", "alive", "chosen"),
    [
        (2, (True, True, True), 2),
        (2, (True, True, False), 0),  # the dead cannot be chosen: the nearest is
        (2, (False, True, False), 1),
        (-1, (True, True, True), 0),  # who names none
        (None, (True, True, True), 0),
    ],
)
@pytest.mark.parametrize("action", ["discrete", "continuous"])
def test_a_scripted_pilot_fires_at_whom_it_names(action, requested, alive, chosen):
    env = team("scenario.range_m=[60000,80000]", f"action={action}")

    def in_line(state):  # the first enemy is nearest, and the third farthest
        far = torch.tensor([0.0, 0.0, 0.0, 50e3, 60e3, 70e3]).unsqueeze(-1)
        craft = state.aircraft
        motion = craft.motion._replace(x_m=far + 0.0 * craft.motion.x_m, y_m=0.0 * craft.motion.y_m)
        return with_alive(*[True] * SIZE, *alive)(
            state._replace(aircraft=craft._replace(motion=motion))
        )

    root = changed(env, in_line)
    wanted, _ = env.pilot_action(Marksman(requested), None)
    play(env, [wanted], root)
    flying = env.combat_state.missiles
    assert flying.active[:SIZE, 0].all()
    assert (flying.target[:SIZE, 0] == SIZE + chosen).all()
