"""env=combat: its action mask, its statistics, and its headline."""

import torch

from navrl.config.compose import build
from tests.envs.conftest import configuration
from tests.envs.playing import play

FIRE = 4  # column of the mask: right, straight, left, hold, fire


def combat(*overrides, num_envs=4):
    env = build(configuration("env=combat", "opponent=straight", *overrides).env)
    return env(num_envs=num_envs, device="cpu", seed=0)


def straight(env, steps, *, fire):
    """Everybody flies on and holds the trigger, or does not."""
    return [torch.tensor([[1, int(fire)]] * env.batch_size.numel())] * steps


def ready(env):
    """Alive, a round in the rack and a free channel, requested env by env in plain Python."""
    state = env.combat_state
    alive, rounds = state.aircraft.alive[0].tolist(), state.aircraft.rounds[0].tolist()
    flying = state.missiles.active[0].tolist()  # channel by channel
    return [
        alive[i] and rounds[i] > 0 and not all(channel[i] for channel in flying)
        for i in range(len(alive))
    ]


def test_no_shot_while_the_only_channel_is_taken_and_after_the_last_round():
    options = (
        "scenario.range_m=[60000,80000]",
        "env.sim.max_missile_age_s=7",
        "env.sim.ammunition=2",
    )
    env = combat(*options)
    root = env.reset()
    allowed = []
    for action in straight(env, 20, fire=True):
        ((_, root),) = play(env, [action], root)
        assert root["action_mask"][:, FIRE].tolist() == ready(env)
        assert root["action_mask"][:, :FIRE].all()
        allowed.append(root["action_mask"][0, FIRE].item())
    # Fired in the first decision and flying for 7: the 7th ends it, the 8th fires the last round.
    assert allowed == [False] * 6 + [True] + [False] * 13


def test_a_forbidden_shot_changes_nothing():
    held, pulled = (combat("env.sim.ammunition=1", num_envs=2) for _ in range(2))
    first = straight(held, 1, fire=True)
    after = [play(env, first)[-1][1] for env in (held, pulled)]
    ((_, one),) = play(held, straight(held, 1, fire=False), after[0])
    ((_, two),) = play(pulled, straight(pulled, 1, fire=True), after[1])
    assert (one == two).all()


def test_the_time_limit_is_a_truncated_draw():
    env = combat("scenario.range_m=[60000,80000]", "env.sim.time_limit_s=6")
    frames = play(env, straight(env, 6, fire=False))
    assert [frame["next", "truncated"].all().item() for frame, _ in frames] == 5 * [False] + [True]
    names = ("win", "loss", "draw", "length")
    end = frames[-1][0]["next", "episode"]
    found = [end[0, env.episode_keys.index(name)].item() for name in names]
    assert found == [0.0, 0.0, 1.0, 6.0]


def test_headline_names_episode_statistics():
    env = combat()
    named = {path.removeprefix("episode/") for path in env.headline.values()}
    assert named <= set(env.episode_keys)
