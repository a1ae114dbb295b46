"""Frozen policies: the observation and action of their training, and files that do not fit."""

import pytest
import torch
from omegaconf import open_dict
from torchrl.envs.utils import ExplorationType, set_exploration_type

import navrl.evaluate
import navrl.train
from navrl.agents.core.team import frames_of
from navrl.config.compose import build, compose
from navrl.envs.combat.opponents.frozen import Frozen, PolicyAdapter
from navrl.envs.combat.opponents.mixture import Mixture
from navrl.envs.combat.opponents.straight import Straight
from navrl.run.build import install_opponent
from navrl.storage.checkpoint import load, write_state
from navrl.storage.find import find
from tests.command_line import command
from tests.curriculum.league_env import configuration, make_agent, make_env

TINY = ("experiment=debug", "logger=none", "console=none", "eval_opponents=[]")
OTHER_KIND = "observation=entities", "action=discrete_fine"  # the env under test has ego, discrete


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoint of a run of another observation and action, and one of two against two."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        options = (*TINY, "opponent=straight", "env.sim.tick_s=0.25", "total_frames=128")
        assert command(navrl.train.main, *options, *OTHER_KIND, "hydra.run.dir=outputs/one") == 0
        pair = ("env.team_size=2", "hydra.run.dir=outputs/two")
        assert command(navrl.train.main, *options, *pair) == 0
        return [find(name, folder / "outputs").absolute() for name in ("one", "two")]


def frozen_env(path, *overrides, num_envs=6):
    """Ego and discrete for the learner, the checkpoint on the other side."""
    config = compose("train", ["opponent=checkpoint", "compile=off", *overrides])
    with open_dict(config):
        config.opponent.checkpoint = str(path)
    return build(config.env)(num_envs=num_envs, device="cpu", seed=0)


def adapter(env, config):
    observation, action = build(config.observation), build(config.action)
    seat = PolicyAdapter(observation=observation, action=action, compile_mode="off")
    seat.prepare(env.params, "cpu")
    return seat


@pytest.mark.parametrize("size", [1, 2])
def test_an_adapter_observes_what_the_env_shows_the_learner_there(size):
    env = make_env(5, f"env.team_size={size}", "observation=entities")
    root = env.reset()
    for _ in range(3):
        action = env.full_action_spec[env.action_key].rand()
        _, root = env.step_and_maybe_reset(root.set(env.action_key, action))
    seat = adapter(env, configuration(f"env.team_size={size}", "observation=entities"))
    observed = frames_of(root, None if size == 1 else "agents")
    for me in range(size):
        frames = seat.observe(env.params, env.combat_state, me)
        for leaf in ("ego", "entities", "entities_mask"):
            expected = observed["observation", leaf]
            expected = expected if size == 1 else expected[:, me]
            assert torch.equal(frames["observation", leaf], expected)
        mask = observed["action_mask"]
        assert torch.equal(frames["action_mask"], mask if size == 1 else mask[:, me])


def test_commands_are_the_orders_of_the_policys_actions():
    env = make_env(64)
    root = env.reset()
    policy = make_agent(env, seed=2).policy
    seat = adapter(env, configuration())
    frames = seat.observe(env.params, env.combat_state, 0)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        found = seat.command(policy.get_dist(frames))
        action = policy(root)["action"]
    # action=discrete: 0 is full right, 1 straight, 2 full left; then hold or fire
    assert len(set(action[:, 0].tolist())) > 1
    assert found.rudder.tolist() == [float(choice) - 1.0 for choice in action[:, 0].tolist()]
    assert found.fire.tolist() == [choice == 1 for choice in action[:, 1].tolist()]
    assert (found.throttle == 1.0).all()


def test_the_checkpoints_policy_flies_with_its_own_observation_and_action(trained):
    env = frozen_env(trained[0])
    random_numbers = torch.get_rng_state()
    install_opponent(env)
    assert torch.equal(torch.get_rng_state(), random_numbers), "training's numbers are its own"
    saved = load(trained[0])["agent"]["policy"]
    policy = env.opponent.policy
    assert not any(parameter.requires_grad for parameter in policy.parameters())
    assert policy.state_dict().keys() == saved.keys()
    assert all(torch.equal(value, saved[key]) for key, value in policy.state_dict().items())
    root = env.reset()
    _, root = env.step_and_maybe_reset(root.set("action", env.action_spec.zero()))
    # What it does from the other side is what it would do as the learner of an env of its own kind.
    seat = adapter(env, compose("train", ["opponent=straight", *OTHER_KIND]))
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        expected = seat.command(policy.get_dist(seat.observe(env.params, env.combat_state, 1)))
        found, memory = env.opponent.act(env.params, env.combat_state, 1, ())
    assert memory == ()
    assert all(torch.equal(a, b) for a, b in zip(found[:3], expected[:3], strict=True))
    assert env.opponent.tag(()) == 0
    assert root["episode"][:, env.episode_keys.index("_opponent")].tolist() == [0.0] * 6


def doctored(path, folder, **changes):
    """A copy of the checkpoint with other lines in its configuration."""
    state = load(path)
    write_state(
        folder / "other.ckpt", state | {"config": state["config"] | changes}, frames=1, score=None
    )
    return folder / "other.ckpt"


def test_a_checkpoint_from_a_machine_with_a_gpu_flies_on_the_envs_device(trained, tmp_path):
    env = frozen_env(doctored(trained[0], tmp_path, device="cuda"))
    install_opponent(env)
    env.step_and_maybe_reset(env.reset().set("action", env.action_spec.zero()))


def test_an_env_of_another_opponent_is_left_alone():
    env = make_env(2)
    opponent = env.opponent
    install_opponent(env)
    assert env.opponent is opponent


def test_without_a_policy_it_flies_nowhere():
    idle = Frozen(checkpoint="latest", observation=None, action=None)
    with pytest.raises(ValueError, match=r"opponent\.checkpoint = latest can only be the opponent"):
        idle.act(None, None, 0, ())
    with pytest.raises(ValueError, match=r"opponent\.pilots\.b holds networks; expected scripted"):
        Mixture(pilots={"a": Straight(), "b": idle}, weights={"a": 1.0, "b": 1.0})


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("two", "it plays combat with 2 a side; expected combat with 1"),
        ("elsewhere", "it is a run of env=navigation, not combat"),
        ("nowhere", "no run, checkpoints directory or file is called"),
        ("torn", "torn.ckpt"),
        ("misfit", "checkpoint does not fit: 'trunk."),
    ],
)
def test_a_checkpoint_that_cannot_play_starts_nothing(
    trained, tmp_path, monkeypatch, capsys, reference, sentence
):
    monkeypatch.chdir(tmp_path)
    place = {"two": trained[1], "nowhere": "nowhere"}.get(reference)
    if reference == "torn":
        place = tmp_path / "torn.ckpt"
        place.write_bytes(trained[0].read_bytes()[:-9])
    if reference == "elsewhere":  # whose env has no team_size
        place = doctored(trained[0], tmp_path, env={"name": "navigation"})
    if reference == "misfit":
        ego = {"_target_": "navrl.envs.combat.observations.Ego", "spacetime": False}
        place = doctored(trained[0], tmp_path, observation=ego)
    before = sorted(tmp_path.iterdir())
    chosen = ("opponent=checkpoint", f"opponent.checkpoint={place}")
    assert command(navrl.train.main, *TINY, *chosen, "total_frames=128") != 0
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"navrl: error: opponent.checkpoint = {place}: ")
    assert sentence in lines[0]
    assert lines[0].endswith("change opponent.checkpoint")
    assert not list(tmp_path.glob("outputs/*/*"))
    assert sorted(path for path in tmp_path.iterdir() if path.name != "outputs") == before


@pytest.mark.commands
def test_latest_is_the_latest_run_when_the_training_began(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    coarse = ("env.sim.tick_s=0.25", "env.sim.time_limit_s=4")
    short = (*TINY, *coarse, "eval_episodes=2", "eval_every=1")
    options = (*short, "total_frames=256", "opponent=checkpoint")
    first = ("hydra.run.dir=outputs/first", "total_frames=128")
    assert command(navrl.train.main, *short, "opponent=straight", *first) == 0
    rival = find("first", tmp_path / "outputs")
    assert command(navrl.train.main, *options, "hydra.run.dir=outputs/second") == 0
    again = ("resume=outputs/second", "opponent=checkpoint", "total_frames=384")
    assert command(navrl.train.main, *again) == 0
    saved = load(find("second", tmp_path / "outputs"))
    assert saved["iteration"] == 3
    assert saved["config"]["opponent"]["checkpoint"] == str(rival)
    capsys.readouterr()
    named = ("checkpoint=second", f"opponent.checkpoint={rival}")
    assert command(navrl.evaluate.main, *named, "num_episodes=2") == 0
    assert f"against {rival}: 2 episodes" in capsys.readouterr().out
    # An evaluation takes the newest: now "latest" means the second run.
    assert command(navrl.evaluate.main, "opponent=checkpoint", "num_episodes=2") == 0
    newest = find("second", tmp_path / "outputs")
    assert f"{newest} against {newest}: 2 episodes" in capsys.readouterr().out
