"""Statistics of training: every number is a mean by hand, and short episodes count no more than long ones."""

from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

from navrl.run.episodes import TrainingEpisodes
from navrl.storage.schema import CheckpointMismatch

ENV = SimpleNamespace(
    episode_keys=("return", "length", "win", "reward_outcome"),
    objective="win",
    rate_names=("win",),
    counted_when={},
)
STEPS = 4  # of a rollout


def rollout(*ends):
    """Return a rollout in which these (env, step, episode) end and no others; envs are 0, 1, ..."""
    number = 1 + max(env for env, _, _ in ends)
    done = torch.zeros(number, STEPS, 1, dtype=torch.bool)
    episode = torch.full((number, STEPS, 4), 100.0)
    for env, step, found in ends:
        done[env, step] = True
        episode[env, step] = torch.tensor(found)
    episode[..., 1] = torch.where(done.squeeze(-1), episode[..., 1], 1.0)
    return TensorDict({"next": {"done": done, "episode": episode}}, [number, STEPS])


def after(*rollouts, env=ENV):
    """Return the metrics after each rollout of a run."""
    episodes = TrainingEpisodes(env)
    return [episodes.metrics(episodes.sums(each)) for each in rollouts]


def test_means_over_the_episodes_that_began_together():
    (metrics,) = after(
        rollout(
            (0, 1, [1.0, 2.0, 1.0, 0.5]),
            (0, 3, [3.0, 2.0, 1.0, 0.75]),
            (1, 3, [-1.0, 4.0, 0.0, -0.5]),
        )
    )
    assert metrics["episode/count"] == 3
    assert metrics["episode/return"] == pytest.approx(1.0)
    assert metrics["episode/length"] == pytest.approx(8 / 3)
    assert metrics["episode/win"] == pytest.approx(2 / 3)
    assert metrics["reward/outcome"] == pytest.approx(0.25)
    # Wilson, 2 of 3, z = 1.96: half width = z / (1 + z^2/n) * sqrt(p q / n + z^2 / (4 n^2))
    z = 1.959964
    centre = (2 / 3 + z * z / 6) / (1 + z * z / 3)
    half = z / (1 + z * z / 3) * (2 / 9 / 3 + z * z / 36) ** 0.5
    assert metrics["episode/win_low"] == pytest.approx(centre - half, abs=1e-4)
    assert metrics["episode/win_high"] == pytest.approx(centre + half, abs=1e-4)


def test_what_counts_in_some_episodes_only_is_a_mean_over_those():
    env = SimpleNamespace(**{**vars(ENV), "counted_when": {"return": "win"}})
    won, lost = [5.5, 4.0, 1.0, 0.0], [0.0, 4.0, 0.0, 0.0]
    (found,) = after(rollout((0, 3, won), (1, 3, lost)), env=env)
    assert found["episode/return"] == 5.5
    (found,) = after(rollout((0, 3, lost)), env=env)
    assert "episode/return" not in found
    assert (found["episode/win_low"], found["episode/win"]) == (0.0, 0.0)


# ---- a world in which what is won takes less time than what is lost ----

SHORT, LONG, CHANCE = 2, 13, 0.3
ENVS = 400


class Fights:
    """Episodes of `ENVS` envs, won with a probability of 0.3 in 2 steps, else lost in 13."""

    def __init__(self, seed):
        self.chance = torch.Generator().manual_seed(seed)
        self.step = 0
        self.won, self.left, self.began = (torch.zeros(ENVS, dtype=torch.int64) for _ in range(3))
        self.begun = []  # of every episode: the iteration in which it began, its end, and whether it is won
        self.begin(torch.ones(ENVS, dtype=torch.bool))

    def begin(self, which):
        won = (torch.rand(ENVS, generator=self.chance) < CHANCE).long()
        self.won = torch.where(which, won, self.won)
        self.left = torch.where(which, torch.where(won == 1, SHORT, LONG), self.left)
        self.began = torch.where(which, self.step, self.began)
        for env in which.nonzero().flatten().tolist():
            end = self.step + int(self.left[env])
            self.begun.append((self.step // STEPS, end, int(self.won[env])))

    def rollout(self):
        done, episode = torch.zeros(ENVS, STEPS, 1, dtype=torch.bool), torch.zeros(ENVS, STEPS, 4)
        for step in range(STEPS):
            self.step, self.left = self.step + 1, self.left - 1
            done[:, step, 0] = self.left == 0
            episode[:, step, 1] = (self.step - self.began).float()
            episode[:, step, 2] = self.won
            self.begin(self.left == 0)
        return TensorDict({"next": {"done": done, "episode": episode}}, [ENVS, STEPS])


def test_the_rate_is_the_chance_whatever_the_lengths_are():
    """The first episodes to end are all won; the intervals hold the true chance as often as they promise."""
    held = counted = 0
    for seed in range(10):
        fights, episodes = Fights(seed), TrainingEpisodes(ENV)
        for iteration in range(1, 25):
            part = fights.rollout()
            metrics = episodes.metrics(episodes.sums(part))
            if iteration * STEPS < LONG:
                won = part["next", "episode"][..., 2][part["next", "done"].squeeze(-1)]
                assert won.all()
                assert metrics == {"episode/count": 0.0}
            elif metrics["episode/count"]:
                held += metrics["episode/win_low"] <= CHANCE <= metrics["episode/win_high"]
                counted += 1
    assert counted >= 200
    assert held / counted > 0.95 - 3 * (0.95 * 0.05 / counted) ** 0.5


def test_every_iteration_says_what_a_list_of_all_episodes_says():
    fights, episodes = Fights(7), TrainingEpisodes(ENV)
    reported, iterations = 0, 30
    for _ in range(iterations):
        found = episodes.metrics(episodes.sums(fights.rollout()))
        first = reported
        while reported * STEPS < fights.step and all(
            end <= fights.step for began, end, _ in fights.begun if began == reported
        ):
            reported += 1
        won = [won for began, _, won in fights.begun if first <= began < reported]
        assert found["episode/count"] == len(won)
        if won:
            assert found["episode/win"] == pytest.approx(sum(won) / len(won))
    assert reported > iterations - 5


def test_a_resumed_run_says_what_an_uninterrupted_one_says():
    fights, episodes = Fights(3), TrainingEpisodes(ENV)
    for _ in range(9):
        part = fights.rollout()
        resumed = TrainingEpisodes(ENV)
        resumed.load_state_dict(episodes.state_dict())
        assert resumed.latest == episodes.latest
        found = episodes.metrics(episodes.sums(part))
        assert resumed.metrics(resumed.sums(part)) == found
        episodes = resumed


def test_episodes_that_began_before_anybody_counted_do_not_count():
    fights = Fights(5)
    fights.rollout()
    episodes = TrainingEpisodes(ENV)
    found = [episodes.metrics(episodes.sums(fights.rollout())) for _ in range(6)]
    first = next(each for each in found if each["episode/count"])
    won = [won for began, _, won in fights.begun if began == 1]  # the first iteration that counted
    assert first["episode/count"] == len(won)
    assert first["episode/win"] == pytest.approx(sum(won) / len(won))


@pytest.mark.parametrize(("column", "value"), [(0, -1.0), (1, float("nan")), (3, 2.0), (3, -1.0)])
def test_sums_that_no_run_has_saved_are_refused(column, value):
    episodes = TrainingEpisodes(ENV)
    state = episodes.state_dict()
    state["latest"] = torch.ones(1, 5, dtype=torch.float64)
    episodes.load_state_dict(state)
    state["latest"][0, column] = value
    with pytest.raises(CheckpointMismatch, match="episodes/latest"):
        TrainingEpisodes(ENV).load_state_dict(state)
