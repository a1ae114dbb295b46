"""collector=folder: rollouts of other processes, each once and in order, and no others."""

import copy
import os
import shutil
import warnings

import pytest
import torch

from navrl.agents.ppo.lag import Correction
from navrl.collectors.folder import WEIGHTS, FolderCollector, NoRollouts, sha256_of
from navrl.storage.rollouts import RolloutStorage
from tests.small_fight import *  # noqa: F403  (env, agent and collector)
from tests.small_fight import NUM_ENVS, STEPS

LIMITS = {"max_lag": 2, "rho_clip": 1.0, "c_clip": 1.0}


class Actor:
    """Somebody who plays with weights that it is given, and writes into its own folder."""

    def __init__(self, folder, collector, name="actor-1", keep_last=None):
        options = {"save_every": 1, "keep_last": keep_last, "drop": [], "compress": True}
        self.storage = RolloutStorage(directory=folder / name, **options)
        self.collector, self.number = collector, 0

    def play(self, policy, change=lambda rollout: None):
        """Write one rollout, and return what is in it."""
        self.collector.policy.load_state_dict(policy.state_dict())
        rollout = next(iter(self.collector)).clone()
        weights = sha256_of(policy.state_dict())
        rollout.set_non_tensor("policy_version", 77).set_non_tensor(WEIGHTS, weights)
        change(rollout)
        self.number += 1
        self.storage.save(rollout, iteration=self.number)
        return rollout


@pytest.fixture
def place(make_env, make_agent, make_collector, tmp_path, request):
    """agent, learner(), actor(name): all for the same small fight, around one folder."""
    torch.manual_seed(0)
    agent = make_agent(make_env())
    agent.allow_lag(Correction(**LIMITS))

    def learner(agent=agent, iterations=8, **options):
        collector = FolderCollector(
            **{"path": None, **LIMITS, "wait_s": 0.2, "inbox": tmp_path, **options},
            env=make_env(),
            policy=agent.policy,
            rollout_steps=STEPS,
            total_frames=iterations * NUM_ENVS * STEPS,
        )
        request.addfinalizer(collector.shutdown)
        return collector

    def actor(name="actor-1", seed=1, **options):
        policy = copy.deepcopy(agent.policy).requires_grad_(False)
        return Actor(
            tmp_path, make_collector(make_env(seed), policy, iterations=50), name, **options
        )

    return agent, learner, actor


def same(found, expected):
    """Whether the frames are the same bits."""
    expected = expected.exclude("policy_version", WEIGHTS)
    keys = set(expected.keys(True, True))
    found = found.exclude("policy_version")
    return set(found.keys(True, True)) == keys and all(
        torch.equal(found[key], expected[key]) for key in keys
    )


def test_the_frames_are_those_that_were_collected_in_order_and_each_once(place):
    agent, learner, actor = place
    one = actor()
    written = [one.play(agent.policy) for _ in range(3)]
    rollouts = iter(learner())
    for expected in written:
        found = next(rollouts)
        assert same(found, expected)
        assert found.get_non_tensor("policy_version") == 0
    with pytest.raises(
        NoRollouts, match=r"no rollout in .* for 0 s; expected files of `navrl collect`"
    ):
        next(rollouts)


def test_writers_take_turns(place):
    agent, learner, actor = place
    first, second = actor("actor-1", seed=1), actor("actor-2", seed=2)
    ones, twos = ([each.play(agent.policy) for _ in range(2)] for each in (first, second))
    rollouts = iter(learner())
    for expected in (ones[0], twos[0], ones[1], twos[1]):
        assert same(next(rollouts), expected)


def test_the_agent_learns_from_all_of_the_last_versions_and_from_no_older_one(place):
    agent, learner, actor = place
    one, collector = actor(), learner()
    rollouts, old = iter(collector), copy.deepcopy(agent.policy)
    one.play(old)
    lags = []
    for _ in range(3):
        metrics = agent.update(next(rollouts))
        lags.append(metrics["sync/lag"])
        one.play(old)
    assert lags == [0.0, 1.0, 2.0]
    one.play(agent.policy)
    with pytest.warns(UserWarning, match="not collected by one of the last 3 policies"):
        assert agent.update(next(rollouts))["sync/lag"] == 0.0
    assert collector.metrics()["sync/refused_rollouts"] == 1.0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda r: r["next"].set("reward", r["next", "reward"] * float("nan")), "not finite"),
        (lambda r: r.set("action_log_prob", r["action_log_prob"].double()), "float32"),
        (lambda r: r.pop("action"), "action is absent"),
        (lambda r: r.set("extra", torch.zeros(NUM_ENVS, STEPS)), "extra is unknown"),
        (lambda r: r["action"].fill_(99), "actions that this env does not have"),
        (lambda r: r["next", "done"].fill_(True), "done without an end"),
        (lambda r: r.set_non_tensor(WEIGHTS, "0" * 64), "not collected by one of the last"),
        (lambda r: r.set_non_tensor(WEIGHTS, 5), "not collected by one of the last"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_next_one_is_taken(place, change, sentence):
    agent, learner, actor = place
    one, collector = actor(), learner()
    one.play(agent.policy, change)
    expected = one.play(agent.policy)
    with pytest.warns(UserWarning, match=f"not learned from, nor from others like it.*{sentence}"):
        assert same(next(iter(collector)), expected)
    assert collector.metrics()["sync/refused_rollouts"] == 1.0


def test_rollouts_of_another_size_say_what_to_change(place, tmp_path):
    agent, learner, actor = place
    one, collector = actor(), learner()
    half = one.play(agent.policy)[: NUM_ENVS // 2]
    one.storage.save(
        half.set_non_tensor(WEIGHTS, sha256_of(agent.policy.state_dict())), iteration=1
    )
    one.number = 1
    one.play(agent.policy)
    with pytest.warns(
        UserWarning, match="it holds 2 x 5 frames; expected 4 x 5; give navrl collect"
    ):
        next(iter(collector))


def test_one_sentence_for_many_of_a_kind(place):
    agent, learner, actor = place
    one, collector = actor(), learner()
    for _ in range(5):
        one.play(agent.policy, lambda r: r.set_non_tensor(WEIGHTS, "0" * 64))
    one.play(agent.policy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        next(iter(collector))
    assert len(caught) == 1
    assert collector.metrics()["sync/refused_rollouts"] == 5.0


@pytest.mark.hostile
def test_garbage_links_pipes_and_giants_are_refused(place, tmp_path):
    agent, learner, actor = place
    one, other = actor(), actor("elsewhere")
    other.play(agent.policy)
    hidden = tmp_path.parent / "hidden"
    shutil.move(tmp_path / "elsewhere", hidden)
    folder = tmp_path / "actor-1"
    (folder / "rollout_000001.nvrl").write_bytes(b"garbage")
    (folder / "rollout_000002.nvrl").symlink_to(hidden / "rollout_000001.nvrl")
    os.mkfifo(folder / "rollout_000003.nvrl")
    with (folder / "rollout_000004.nvrl").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "rollout_000005.nvrl").mkdir()
    (tmp_path / "linked").symlink_to(hidden)
    (tmp_path / "a file").write_text("no folder")
    one.number = 5
    expected = one.play(agent.policy)
    collector = learner()
    with pytest.warns(UserWarning, match="not learned from") as caught:
        assert same(next(iter(collector)), expected)
    assert len(caught) == 3  # links, pipes and folders are of one kind
    assert collector.metrics()["sync/refused_rollouts"] == 5.0
    with pytest.raises(NoRollouts, match="5 were refused"):
        next(iter(collector))


def test_what_its_writer_deletes_meanwhile_is_no_error(place, monkeypatch):
    agent, learner, actor = place
    one, collector = actor(keep_last=1), learner()
    one.play(agent.policy)
    listed = collector._unread()
    expected = one.play(agent.policy)
    looks = iter([listed])
    unread = collector._unread
    monkeypatch.setattr(collector, "_unread", lambda: next(looks, None) or unread())
    assert same(next(iter(collector)), expected)
    assert collector.metrics()["sync/refused_rollouts"] == 0.0


def test_a_folder_that_is_away_for_a_moment_is_not_read_again(place, tmp_path):
    agent, learner, actor = place
    collector = learner(inbox=tmp_path / "shared")
    actor().play(agent.policy)
    (tmp_path / "shared").mkdir()
    shutil.move(tmp_path / "actor-1", tmp_path / "shared")
    rollouts = iter(collector)
    next(rollouts)
    shutil.move(tmp_path / "shared", tmp_path / "away")
    assert collector._unread() == {}
    shutil.move(tmp_path / "away", tmp_path / "shared")
    with pytest.raises(NoRollouts):
        next(rollouts)


def test_a_stop_ends_the_wait(place):
    _, learner, _ = place
    collector = learner(wait_s=600.0)
    collector.stop_when(lambda: True)
    assert list(collector) == []


def test_going_on_is_exact_and_reads_again_what_was_read_since_the_checkpoint(
    place, make_env, make_agent
):
    agent, learner, actor = place
    one = actor()
    for _ in range(3):
        one.play(agent.policy)
    collector = learner()
    rollouts = iter(collector)
    agent.update(next(rollouts))
    saved = copy.deepcopy((agent.state_dict(), collector.runtime_state(), torch.get_rng_state()))
    expected = [agent.update(next(rollouts)) for _ in range(2)]
    again = make_agent(make_env())
    again.allow_lag(Correction(**LIMITS))
    again.load_state_dict(saved[0])
    collector = learner(again)
    collector.load_runtime_state(saved[1])
    torch.set_rng_state(saved[2])
    rollouts = iter(collector)
    assert [again.update(next(rollouts)) for _ in range(2)] == expected
    with pytest.raises(NoRollouts):
        next(rollouts)


def test_a_digest_is_of_names_and_numbers(place):
    agent, *_ = place
    weights = dict(agent.policy.state_dict())
    assert sha256_of(weights) == sha256_of(dict(reversed(weights.items())))
    name = next(iter(weights))
    other = weights | {name: weights[name] + torch.finfo(torch.float32).eps}
    assert sha256_of(other) != sha256_of(weights)
