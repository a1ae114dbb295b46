"""Lessons in air combat: weights reach the draws, and evaluated gates leave no trace."""

import math

import pytest
import torch

from navrl.curriculum.gate import Gate
from navrl.curriculum.lessons import Lesson, Lessons
from navrl.run.episodes import play
from navrl.storage.compare import differences
from tests.curriculum.fakes import FakeLeague
from tests.curriculum.league_env import SCRIPTS, make_agent, make_env


def real(env, *, scenarios, opponents, league=None):
    """One lesson in a real env."""
    only = Lesson(
        scenarios=scenarios,
        opponents=opponents,
        reward={"outcome": 0.0, "attack": 3.0},
        gate=Gate(at_least={"win": 1.0}, at_most={"launches_per_kills": 0.0}, slack=0.1),
        gate_opponents={"pursuit": 1.0},
        league=False,
        at_most_frames=None,
    )
    agent = make_agent(env)

    def measure(env):
        with env.other_episodes(99):
            ends = play(env, agent.policy, deterministic=True)
        return {name: sum(values) / len(values) for name, values in ends.items()}

    lessons = Lessons(
        lessons={"only": only},
        check_every=2,
        self_play=league or FakeLeague(),
        env=env,
        measure=measure,
        agent=agent,
    )
    return lessons, agent


def ranges_m(env):
    motion = env.combat_state.aircraft.motion
    return torch.hypot(motion.x_m[0] - motion.x_m[1], motion.y_m[0] - motion.y_m[1])


@pytest.mark.parametrize(("near", "pursuit"), [(0.25, 0.7), (1.0, 0.0)])
def test_weights_reach_the_draws_of_the_env(near, pursuit):
    count = 4000
    env = make_env(count)
    weights = (
        {"mid_random": near, "rear": 1.0 - near},
        {"pursuit": pursuit, "straight": 1.0 - pursuit},
    )
    real(env, scenarios=weights[0], opponents=weights[1])
    root = env.reset()
    drawn = root["episode"][:, env.episode_keys.index("_opponent")]
    shares = {
        near: (ranges_m(env) < 9500.0).double().mean().item(),  # rear begins beyond 10 km
        pursuit: (drawn == SCRIPTS.index("pursuit")).double().mean().item(),
    }
    for expected, found in shares.items():
        assert found == pytest.approx(
            expected, abs=5.0 * math.sqrt(expected * (1 - expected) / count)
        )


def test_weights_of_the_reward_reach_the_reward():
    env = make_env(16)
    real(env, scenarios={"mid_random": 1.0}, opponents={"pursuit": 1.0})
    root = env.reset()
    frame, _ = env.step_and_maybe_reset(root.set("action", env.action_spec.zero()))
    parts = {
        name: frame["next", "episode"][:, env.episode_keys.index(f"reward_{name}")]
        for name in ("outcome", "attack", "evade")
    }
    assert (parts["outcome"] == 0.0).all()
    assert (parts["evade"] == 0.0).all()
    assert (parts["attack"] != 0.0).all()
    assert torch.equal(frame["next", "reward"].squeeze(-1), parts["attack"])


def test_gates_play_the_same_episodes_and_change_neither_training_nor_its_random_numbers():
    """Thirty steps with random actions and three evaluated gates, against thirty without any."""
    worlds, found = [], []
    for check_every in (2, 1000):
        env = make_env(8)
        lessons, _ = real(
            env, scenarios={"mid_random": 1.0}, opponents={"straight": 1.0, "pursuit": 1.0}
        )
        lessons.check_every = check_every
        steps = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            root = env.reset()
            for iteration in range(1, 7):
                for _ in range(5):
                    frame, root = env.step_and_maybe_reset(
                        root.set("action", env.action_spec.rand())
                    )
                    steps.append(frame.clone().to_dict())
                metrics = lessons.after(iteration, 0, None, print)
                found += [metrics] if len(metrics) > 1 else []
            worlds.append((env.runtime_state(), steps, torch.get_rng_state()))
    assert differences(*worlds) == []
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert found[0]["curriculum/launches_per_kills"] > 0.0
    assert len(worlds[0][1]) == 30
