"""The league: the policy or script that acts in each env, and the tag of an episode's opponent."""

from contextlib import ExitStack

import pytest
import torch
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl.envs.combat.opponents.base import NEAREST, Pilot
from navrl.envs.combat.opponents.league import CHANGED, SCRIPTED, Block, League
from navrl.envs.combat.opponents.mixture import Mixture
from navrl.envs.combat.sim.state import Command
from tests.curriculum.league_env import make_agent, make_env
from tests.envs.playing import keys

N = 12
TEAM, ENEMY = "env.team_size=2", 2  # index of the first aircraft of the other side
PLAN = ((1, 5, 1003), (5, 6, 1001), (9, 11, 1003))  # start, stop, tag; the rest is scripted


class Compass(Pilot):
    """A script that turns by its number and counts how often it was requested."""

    def __init__(self, number):
        self.number = number

    def initial(self, key):
        return (torch.zeros_like(key),)

    def act(self, params, state, me, memory):
        rudder = torch.full(memory[0].shape, self.number / 10.0)
        return Command(rudder, 1.0 - rudder, memory[0] > 0), (memory[0] + 1,)


def crew():
    """Build a league of two compasses with room for N envs."""
    scripts = Mixture(pilots={"a": Compass(1), "b": Compass(2)}, weights={"a": 1.0, "b": 1.0})
    league = League(scripts=scripts, observation=None, action=None, compile_mode="off")
    league.allocate(N, "cpu")
    return league


@pytest.fixture
def game():
    """An env in mid-flight whose league can be seated, and two different policies for it."""
    env = make_env(N, TEAM)
    env.opponent.allocate(N, "cpu")
    root = env.reset()
    for _ in range(2):
        action = env.full_action_spec[env.action_key].zero()
        _, root = env.step_and_maybe_reset(root.set(env.action_key, action))
    return env, {tag: make_agent(env, TEAM, seed=tag).policy for tag in (1001, 1003)}


def test_each_policy_acts_in_its_envs_and_the_scripts_elsewhere(game):
    env, policies = game
    league, state = env.opponent, env.combat_state
    memory = env._world.state.memories[0]
    league.assign([Block(start, stop, policies[tag], tag) for start, stop, tag in PLAN])
    frames = league._adapter.observe(env.params, state, ENEMY)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        command, after = league.act(env.params, state, ENEMY, memory)
        alone = {
            tag: league._adapter.command(policy.get_dist(frames))
            for tag, policy in policies.items()
        }
    alone[SCRIPTED], remembered = league.scripts.act(env.params, state, ENEMY, memory[1:])
    # They want different things, or nothing could be observed from the result.
    assert len({tuple(each.rudder.tolist()) for each in alone.values()}) == 3
    assert len({target for tag in policies for target in alone[tag].target.tolist()}) == 2
    owner = [SCRIPTED] * N
    for start, stop, tag in PLAN:
        owner[start:stop] = [tag] * (stop - start)
    alone[SCRIPTED] = alone[SCRIPTED]._replace(target=torch.full((N,), NEAREST))
    for field in ("rudder", "throttle", "fire", "target"):
        expected = [getattr(alone[tag], field)[i].item() for i, tag in enumerate(owner)]
        assert getattr(command, field).tolist() == expected
    assert all(torch.equal(a, b) for a, b in zip(after[1:], remembered, strict=True))


def test_a_policy_draws_while_collecting_and_not_in_deterministic_play(game):
    env, policies = game
    league, state = env.opponent, env.combat_state
    memory = env._world.state.memories[0]
    league.assign([Block(0, N, policies[1001], 1001)])
    found = {}
    for mode in (ExplorationType.RANDOM, ExplorationType.DETERMINISTIC):
        with set_exploration_type(mode):
            acts = [league.act(env.params, state, ENEMY, memory)[0] for _ in range(12)]
        found[mode] = {tuple(act.rudder.tolist()) for act in acts}
    assert len(found[ExplorationType.RANDOM]) > 1
    assert len(found[ExplorationType.DETERMINISTIC]) == 1


def test_what_one_graph_draws_is_what_each_policy_draws_alone(traced_only):
    env = make_env(N, TEAM, "compile=on")
    league = env.opponent
    league.allocate(N, "cpu")
    env.reset()
    state, memory = env.combat_state, env._world.state.memories[0]
    policies = {tag: make_agent(env, TEAM, seed=tag).policy for tag in (1001, 1003)}
    league.assign([Block(start, stop, policies[tag], tag) for start, stop, tag in PLAN])
    frames = league._adapter.observe(env.params, state, ENEMY)
    rows = {tag: range(0) for tag in policies}
    for start, stop, tag in PLAN:
        rows[tag] = [*rows[tag], *range(start, stop)]
    seen = []
    for weights in (1003, 1002):  # the second time others in the same policy, and the same graph
        other = make_agent(env, TEAM, seed=weights).policy
        policies[1003].load_state_dict(other.state_dict())
        with torch._dynamo.config.patch(error_on_recompile=bool(seen)):
            torch.manual_seed(7)
            command, _ = league.act(env.params, state, ENEMY, memory)
        for tag, policy in policies.items():
            torch.manual_seed(7)
            alone = league._adapter.command(policy.get_dist(frames))
            for field in ("rudder", "throttle", "fire", "target"):
                found, expected = getattr(command, field)[rows[tag]], getattr(alone, field)
                assert torch.equal(found, expected[rows[tag]])
        seen.append(tuple(command.rudder[rows[1003]].tolist()))
    assert len(set(seen)) > 1


def test_in_teams_every_aircraft_follows_the_policy_in_its_seat():
    env = make_env(4, "env.team_size=2")
    env.opponent.allocate(4, "cpu")
    root = env.reset()
    policy = make_agent(env, "env.team_size=2", seed=1).policy
    env.opponent.assign([Block(0, 2, policy, 1000)])
    column = env.episode_keys.index("_opponent")
    for _ in range(14):
        frame, root = env.step_and_maybe_reset(policy(root))
    tags = frame["next", "episode"][:, column].tolist()
    assert tags[:2] == [1000.0, 1000.0]
    chosen = torch.stack([memory[1] for memory in env._world.state.memories])
    found = env.step_and_maybe_reset(policy(root))[0]["next", "episode"][2:, column]
    # Mates draw their scripts apart, and a team of two kinds is nobody's result.
    expected = torch.where(chosen[0] == chosen[1], chosen[0], -3)[2:].float()
    assert found.tolist() == expected.tolist()


def test_the_tag_of_a_script_is_its_place_also_without_seats():
    league = crew()
    bare = League(scripts=league.scripts, observation=None, action=None, compile_mode="off")
    for pilot in (league, bare):
        memory = pilot.initial(keys(N))
        assert set(memory[1].tolist()) == {0, 1}
        assert torch.equal(pilot.tag(memory), memory[1])


def test_an_episode_whose_seat_changed_hands_is_nobodys_even_when_it_changed_back():
    league = crew()
    plan = [Block(start, stop, None, tag) for start, stop, tag in PLAN]
    league.assign(plan)
    memory = league.initial(keys(N))
    tags = 1 * [None] + 4 * [1003] + [1001] + 3 * [None] + 2 * [1003] + [None]
    expected = [memory[1][i].item() if tag is None else tag for i, tag in enumerate(tags)]
    assert league.tag(memory).tolist() == expected
    league.assign([Block(1, 3, None, 1003), Block(3, 6, None, 1002), Block(9, 11, None, 1003)])
    once = expected.copy()
    once[3:6] = 3 * [CHANGED]
    assert league.tag(memory).tolist() == once
    league.assign(plan)
    assert league.tag(memory).tolist() == once, "env 3 to 5 met somebody else on the way"
    fresh = league.initial(keys(N))
    assert league.tag(fresh).tolist() == expected
    league.assign([])
    assert league.tag(fresh).tolist() == [
        fresh[1][i].item() if tag is None else CHANGED for i, tag in enumerate(tags)
    ]


def test_vacating_the_seats_for_other_episodes_leaves_no_trace():
    league = crew()
    plan = [Block(start, stop, None, tag) for start, stop, tag in PLAN]
    league.assign(plan)
    memory = league.initial(keys(N))
    before = league.tag(memory).tolist(), league.state_dict()["changes"].tolist()
    with ExitStack() as stack:
        stack.enter_context(league.scripts_only())
        assert league.blocks == []
        other = league.initial(keys(N, episode=1))
        assert torch.equal(league.tag(other), other[1])
    assert league.blocks == plan
    assert (league.tag(memory).tolist(), league.state_dict()["changes"].tolist()) == before
    with pytest.raises(ZeroDivisionError), league.scripts_only():
        raise ZeroDivisionError
    assert league.blocks == plan


def test_a_fresh_league_goes_on_counting_where_the_saved_one_was():
    league, resumed = crew(), crew()
    plans = [
        [Block(start, stop, None, tag) for start, stop, tag in PLAN],
        [Block(0, 4, None, 1004)],
    ]
    for plan in plans:
        league.assign(plan)
    memory = league.initial(keys(N))
    league.assign(plans[0])
    resumed.assign(plans[0])
    resumed.load_state_dict(league.state_dict())
    assert torch.equal(resumed.tag(memory), league.tag(memory))
    assert CHANGED in league.tag(memory).tolist()


def test_a_compiled_step_sees_new_seats_without_being_compiled_again():
    league = crew()
    compiled = torch.compile(
        league.tag, backend="eager", fullgraph=True, dynamic=False, isolate_recompiles=True
    )
    memory = league.initial(keys(N))
    assert torch.equal(compiled(memory), memory[1])
    with torch._dynamo.config.patch(error_on_recompile=True):
        league.assign([Block(0, N, None, 1007)])
        assert (compiled(memory) == CHANGED).all()
        assert (compiled(league.initial(keys(N))) == 1007).all()


def test_compiled_every_mate_decides_for_itself_whoever_was_first(traced_only):
    """Graphs are made without a look at numbers; a shared one would repeat the first mate's answers."""
    states, observed, wanted = {}, {}, {}
    for mode in ("off", "on"):
        env = make_env(
            4, "env.team_size=2", f"compile={mode}", "opponent.scripts.weights.straight=0"
        )
        env.opponent.allocate(4, "cpu")
        env.reset()
        memories = env._world.state.memories
        states[mode] = state = env.combat_state
        seats = tuple(zip((2, 3), memories, strict=True))
        wanted[mode] = [env.opponent.act(env.params, state, me, memory)[0] for me, memory in seats]
        observed[mode] = [
            env.opponent._adapter.observe(env.params, state, me)["observation", "ego"]
            for me in (2, 3)
        ]
    assert torch.equal(states["on"].aircraft.alive, states["off"].aircraft.alive)
    for mate in range(2):
        for on, off in zip(wanted["on"][mate], wanted["off"][mate], strict=True):
            assert torch.allclose(on.float(), off.float(), atol=1e-4)
        assert torch.allclose(observed["on"][mate], observed["off"][mate], atol=1e-4)
    assert not torch.equal(observed["on"][0], observed["on"][1])


def test_a_command_names_a_target_before_and_after_policies_are_seated(game):
    """Else the env's graph, made for the one kind, would not look at the targets of the other."""
    env, policies = game
    memory = env._world.state.memories[0]
    scripted, _ = env.opponent.act(env.params, env.combat_state, ENEMY, memory)
    env.opponent.assign([Block(0, N, policies[1001], 1001)])
    seated, _ = env.opponent.act(env.params, env.combat_state, ENEMY, memory)
    assert scripted.target.dtype == seated.target.dtype == torch.int32
    assert (scripted.target == NEAREST).all()
