"""collector=pipelined: collecting beside learning, by the policy of one update before."""

import copy
import functools
import gc
import threading
import time
import weakref

import pytest
import torch
from tensordict import TensorDict

from navrl.collectors.pipelined import PipelinedCollector
from navrl.collectors.sync import SyncCollector
from tests.small_fight import STEPS


@pytest.fixture
def make_pipeline(make_collector):
    return functools.partial(make_collector, kind=PipelinedCollector)


@pytest.fixture
def learner(make_env, make_agent):
    """(env, agent) of which the agent may learn with lag."""

    def make(seed=0):
        torch.manual_seed(0)
        env = make_env(seed)
        agent = make_agent(env)
        agent.allow_lag()
        return env, agent

    return make


def learn(agent, collector, iterations=10):
    """Metrics, and a clone of every rollout."""
    metrics, rollouts = [], []
    for _, rollout in zip(range(iterations), collector, strict=False):
        rollouts.append(rollout.clone())
        with collector.ahead():
            metrics.append(agent.update(rollout))
        rollouts[-1].set("after", rollout["observation", "ego"].clone())  # what is in it by then
    return metrics, rollouts


def test_it_is_a_queue_with_delayed_weights(learner, make_pipeline, make_collector):
    """Compare with a slow reference: one thread, and a policy that gets the weights an update late.

    Random numbers, buffers and TorchRL's flags for all threads: whatever one thread changed under the other
    would show here.
    """
    env, agent = learner()
    metrics, rollouts = learn(agent, make_pipeline(env, agent.policy))
    env, again = learner()
    late = copy.deepcopy(again.policy)
    collector = make_collector(env, late)
    fresh = iter(collector)
    waiting = [next(fresh).clone()]
    for number in range(4):
        late.load_state_dict(again.policy.state_dict())
        late.version = again.policy.version
        if number < 3:
            waiting.append(next(fresh).clone())
        rollout = waiting.pop(0)
        assert rollout.get_non_tensor("policy_version") == max(0, number - 1)
        assert torch.equal(rollout["action_log_prob"], rollouts[number]["action_log_prob"])
        assert again.update(rollout) == metrics[number]
    for key, weight in again.policy.state_dict().items():
        assert torch.equal(agent.policy.state_dict()[key], weight)


def test_no_buffer_is_written_while_it_is_learned_from(learner, make_pipeline):
    env, agent = learner()
    _, rollouts = learn(agent, make_pipeline(env, agent.policy))
    assert all(torch.equal(each["after"], each["observation", "ego"]) for each in rollouts)


def test_it_collects_beside_the_caller(learner, make_pipeline):
    env, agent = learner()
    collector = make_pipeline(env, agent.policy)
    next(iter(collector))
    entered, release = threading.Event(), threading.Event()
    step = env.step_and_maybe_reset

    def slow(tensordict):
        entered.set()
        assert release.wait(60.0)
        return step(tensordict)

    env.step_and_maybe_reset = slow
    with collector.ahead():
        assert entered.wait(60.0)  # it is in the middle of a step, and here is somebody else
        release.set()
    assert collector.metrics()["time/collect_ahead"] > 0.0


def test_an_error_of_the_thread_is_raised_where_it_is_waited_for(learner, make_pipeline):
    env, agent = learner()
    collector = make_pipeline(env, agent.policy)
    next(iter(collector))

    def broken(tensordict):
        raise ArithmeticError("the wind blew it away")

    env.step_and_maybe_reset = broken
    with pytest.raises(ArithmeticError, match="the wind blew it away"), collector.ahead():
        pass


def test_an_error_of_the_caller_stops_the_thread_within_a_step(learner, make_pipeline):
    env, agent = learner()
    collector = make_pipeline(env, agent.policy, rollout_steps=1000)
    collector._stopping.set()  # not a thousand steps here
    next(iter(collector))
    collector._stopping.clear()
    step, count, entered = env.step_and_maybe_reset, [], threading.Event()

    def counted(tensordict):
        count.append(None)
        entered.set()
        time.sleep(0.01)
        return step(tensordict)

    env.step_and_maybe_reset = counted
    with pytest.raises(KeyboardInterrupt):
        _interrupted(collector, entered)
    collector.shutdown()
    assert len(count) < 100  # of a thousand


def _interrupted(collector, entered):
    with collector.ahead():
        entered.wait(60.0)
        raise KeyboardInterrupt


def test_nobody_is_left_when_it_is_gone(learner):
    env, agent = learner()
    before = threading.active_count()
    collector = PipelinedCollector(
        env=env, policy=agent.policy, rollout_steps=STEPS, total_frames=-1
    )
    rollouts = iter(collector)
    next(rollouts)
    with collector.ahead():
        pass
    iter(collector)
    assert threading.active_count() <= before + 1
    gone = weakref.ref(collector)
    rollouts.close()
    collector.shutdown()
    del collector, rollouts
    gc.collect()
    assert gone() is None
    assert threading.active_count() == before


def test_going_on_is_exact_with_what_was_collected_ahead(learner, make_pipeline):
    env, agent = learner()
    collector = make_pipeline(env, agent.policy, iterations=5)
    learn(agent, collector, iterations=2)
    saved = (
        copy.deepcopy(agent.state_dict()),
        copy.deepcopy(env.runtime_state()),
        copy.deepcopy(collector.runtime_state()),
        torch.get_rng_state(),
    )
    expected, _ = learn(agent, collector)
    assert len(expected) == 3
    env, again = learner(seed=9)
    again.load_state_dict(saved[0])
    collector = make_pipeline(env, again.policy, iterations=3)
    env.load_runtime_state(saved[1])
    collector.load_runtime_state(saved[2])
    torch.set_rng_state(saved[3])
    found, _ = learn(again, collector)
    assert found == expected


def test_a_checkpoint_of_sync_will_do(learner, make_pipeline, make_collector):
    env, agent = learner()
    sync = make_collector(env, agent.policy)
    next(iter(sync))
    collector = make_pipeline(env, agent.policy)
    collector.load_runtime_state(sync.runtime_state())
    metrics, _ = learn(agent, collector)
    assert [each["sync/lag"] for each in metrics] == [0.0, 1.0, 1.0, 1.0]


def test_sync_collects_nothing_ahead(learner, make_collector):
    env, agent = learner()
    collector = make_collector(env, agent.policy)
    assert (SyncCollector.lag, PipelinedCollector.lag) == (0, 1)
    world = env.runtime_state()["world"]
    with collector.ahead():
        pass
    assert all(a is b for a, b in zip(world, env.runtime_state()["world"], strict=True))
    assert collector.metrics() == {}
    assert isinstance(next(iter(collector)), TensorDict)
