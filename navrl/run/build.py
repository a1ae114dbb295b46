"""Builders of the env, the agent and the collector: the same ones for every command.

At the end mypy proves that what navrl offers keeps the protocols of navrl/contracts.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from navrl.agents.ppo.lag import Correction
from navrl.collectors.folder import INBOX, FolderCollector
from navrl.collectors.gathered import GatheredCollector, own_state
from navrl.config.build import is_ours
from navrl.config.checks import ConfigError, printable
from navrl.config.compose import build, from_json, group_option
from navrl.config.plugins import allow_plugins, allowed
from navrl.config.quoting import override
from navrl.contracts import Agent, Collector, Curriculum, Env, LearnedPolicy
from navrl.envs.combat.env import CombatEnv
from navrl.envs.combat.opponents.frozen import Frozen, PolicyAdapter
from navrl.envs.combat.opponents.paced import network_of
from navrl.envs.combat.sim import CombatParams
from navrl.envs.core.calls import message_of, users_place
from navrl.envs.core.env import BatchedEnv
from navrl.envs.core.random import plain_seed
from navrl.envs.core.validation import check_step
from navrl.loggers.console import resolve_style
from navrl.run.device import enough_memory, is_out_of_memory, pick_device, prepare_process
from navrl.run.episodes import measured_gate
from navrl.run.kinds import check_arguments, check_class, check_inbox, check_kind
from navrl.run.stored_files import require_no_files
from navrl.run.transfer import OPPONENT, TrainedPolicy, errors_of_policy, initialise, read_policy
from navrl.storage.schema import TENSOR, Having, Named, check, check_finite, check_fits, loading

if TYPE_CHECKING:
    from navrl.run.plan import Plan


_NETWORKS = ("policy", "critic")
_COMBAT = "navrl.envs.CombatEnv"
_HMASD = "navrl.agents.HMASD"
# Errors of an object where one of another kind is expected.
_WRONG_KIND = (AttributeError, TypeError, LookupError, ArithmeticError, RuntimeError)


class Parts(NamedTuple):
    """The parts of a training that learn or change."""

    env: Env
    agent: Agent
    collector: Collector
    curriculum: Curriculum


def build_parts(plan: Plan) -> Parts:
    """Build everything that a training run needs, as it was saved if the run continues one."""
    check_inbox(plan.cfg, plan.ranks.size)
    if plan.ranks.rank == 0:
        _check_records(plan.cfg)
    prepare_process(plan.cfg.threads)
    with enough_memory("num_envs", plan.cfg.num_envs):
        env, agent, curriculum = _build_learners(plan)
        collector = _build_run_collector(plan, env, agent, curriculum)
    return Parts(env, agent, collector, curriculum)


def _check_records(cfg: DictConfig) -> None:
    """Raise about options of loggers, savers and rollouts before the run writes anything."""
    resolve_style(cfg.console, sys.stdout, os.environ)
    logger = build(cfg.logger)
    check = getattr(logger.func, "check", None)  # not every logger of a user has one
    if check is not None:
        check(**logger.keywords)
    with tempfile.TemporaryDirectory() as scratch:  # they check their options when they are made
        for make in (build(cfg.checkpoint), build(cfg.rollouts)):
            make(directory=Path(scratch, "any"))


def _build_learners(plan: Plan) -> tuple[Env, Agent, Curriculum]:
    cfg, saved = plan.cfg, plan.saved
    untrusted = saved is not None  # then somebody else may have written env and agent
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    np.random.seed(plain_seed(cfg.seed))  # which takes 32 bits only
    own = cfg.num_envs // plan.ranks.size
    first = plan.ranks.rank * own
    env = build_env(
        cfg,
        num_envs=own,
        seed=cfg.seed,
        first_env_id=first,
        from_checkpoint=untrusted,
        opponent=plan.opponent,
    )
    agent = build_agent(cfg, env, num_iterations=plan.total, from_checkpoint=untrusted)
    share = getattr(agent, "share_gradients", None)
    if share is not None:  # others update alike on every rank
        share(plan.ranks)
    agent.check_rollout_size(cfg.num_envs, cfg.rollout_steps)
    measure = partial(measured_gate, cfg.eval_seed, agent, plan.ranks)
    parts = {"env": env, "agent": agent, "measure": measure}
    curriculum: Curriculum = _made("curriculum", cfg, from_checkpoint=untrusted, **parts)
    allow_lag(cfg, agent)
    # Before the run is opened: a checkpoint that does not fit changes nothing.
    if plan.init is not None:
        taken = initialise(agent, str(cfg.init), plan.init, normalisers=cfg.init_normalisers)
        if plan.ranks.rank == 0:
            sys.stdout.write(f"{printable(taken)}\n")
    if saved is not None:
        load_agent(agent, saved, plan.origin)
    return env, agent, curriculum


def _build_run_collector(plan: Plan, env: Env, agent: Agent, curriculum: Curriculum) -> Collector:
    """Build the collector, which begins episodes of the curriculum's stage or continues the saved ones."""
    cfg, saved = plan.cfg, plan.saved
    if saved is not None and not plan.keeps_episodes:
        with loading(plan.origin):
            curriculum.load_state_dict(saved["curriculum"])
        env.set_seed(cfg.seed + plan.done)  # not the first episodes of the run again
    frames = (plan.total - plan.done) * env.batch_size.numel() * cfg.rollout_steps
    inbox = plan.path / INBOX if plan.ranks.size == 1 else None  # other ranks know no folder
    collector = build_collector(
        cfg, env, agent, total_frames=frames, seed=cfg.seed + plan.done, inbox=inbox
    )
    if plan.ranks.size > 1:
        collector = GatheredCollector(collector, plan.ranks)
    if saved is not None and plan.keeps_episodes:
        with loading(plan.origin):
            own = {**saved, "env": own_state(saved["env"], plan.ranks)}
            load_episodes(Parts(env, agent, collector, curriculum), own, plan.explained_misfits)
    elif saved is not None and isinstance(collector, FolderCollector):  # whose env is at rest
        with loading(plan.origin):
            collector.load_runtime_state({"folder": saved["collector"].get("folder")})
    return collector


def load_episodes(
    parts: Parts,
    saved: Mapping[str, Any],
    explained: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Continue the saved episodes; `explained` is entered where they may not fit the env."""
    with explained():
        parts.env.load_runtime_state(saved["env"])
    parts.curriculum.load_state_dict(saved["curriculum"])
    parts.collector.load_runtime_state(saved["collector"])


def build_env(
    cfg: DictConfig,
    *,
    num_envs: int,
    seed: int,
    first_env_id: int = 0,
    compile_mode: str | bool | None = None,
    from_checkpoint: bool = True,
    known: bool = False,
    opponent: TrainedPolicy | None = None,
) -> Env:
    """Build the env of a configuration, with the policy of an opponent that is a checkpoint.

    `opponent` is that checkpoint where it has been read already. A `known` world is one of which this command
    has said already what is odd.
    """
    if compile_mode is not None:
        cfg = cfg.copy()
        with open_dict(cfg):
            cfg.compile = compile_mode
    env: Any = _made(
        "env",
        cfg,
        from_checkpoint=from_checkpoint,
        num_envs=num_envs,
        device=pick_device(cfg.device),
        seed=seed,
        first_env_id=first_env_id,
    )
    check_kind(env)
    install_opponent(env, opponent)
    users = allowed() or not is_ours(type(env).__module__)
    if users and not known and isinstance(env, BatchedEnv):  # ours alone are held by tests
        for sentence in check_step(env):
            warnings.warn(sentence, stacklevel=2)
    found: Env = env
    return found


def build_agent(
    cfg: DictConfig, env: Env, *, num_iterations: int, from_checkpoint: bool = True
) -> Agent:
    """Build the agent of a configuration for the specs of this env."""
    if from_checkpoint and OmegaConf.select(cfg, "agent._target_") == _HMASD:
        cfg = cfg.copy()
        with open_dict(cfg):  # checkpoints of 0.2.0 lack it, and what plays is not compiled
            cfg.agent.setdefault("compile_mode", "off")
    agent: Agent = _made(
        "agent",
        cfg,
        from_checkpoint=from_checkpoint,
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device=env.device,
        num_iterations=num_iterations,
    )
    return agent


def build_collector(
    cfg: DictConfig,
    env: Env,
    agent: Agent,
    *,
    total_frames: int,
    seed: int = 0,
    inbox: Path | None = None,
) -> Collector:
    """Build the collector of a configuration, which collects with the policy of the agent.

    `seed` is of the episodes in envs that the collector makes itself, `inbox` the run's folder for rollouts
    that other processes collect.
    """
    make = build(cfg.collector)
    if getattr(make.func, "reads_inbox", False):
        make = partial(make, inbox=inbox)
    if getattr(make.func, "elsewhere", False):
        make = partial(make, make_parts=partial(_parts_elsewhere, cfg, seed), seed=seed)
    collector: Collector = make(
        env=env, policy=agent.policy, rollout_steps=cfg.rollout_steps, total_frames=total_frames
    )
    return collector


def _parts_elsewhere(
    cfg: DictConfig, seed: int, num_envs: int, first_env_id: int
) -> tuple[Env, LearnedPolicy]:
    """Build an env and an untrained policy in a process that only collects, on one core."""
    allow_plugins([override("plugins", cfg.plugins)] if cfg.plugins else [])
    prepare_process(1)
    cfg = cfg.copy()
    cfg.device = "cpu"
    env = build_env(cfg, num_envs=num_envs, seed=seed, first_env_id=first_env_id, known=True)
    return env, build_agent(cfg, env, num_iterations=1).policy.requires_grad_(False)


def load_policy(
    cfg: DictConfig, state: Mapping[str, Any], env: Env, origin: str = "the checkpoint"
) -> LearnedPolicy:
    """Build the policy of a checkpoint for this env; an exported checkpoint holds nothing else."""
    policy = build_agent(cfg, env, num_iterations=1).policy
    weights = state["agent"]["policy"]
    check_fits(policy.state_dict(), weights, origin)
    policy.load_state_dict(weights)
    return policy


def load_agent(agent: Agent, state: Mapping[str, Any], origin: str) -> None:
    """Load the saved state into the agent, once everything in it was compared."""
    saved = state["agent"]
    with loading(origin):
        check(saved, Having({name: Named(TENSOR) for name in _NETWORKS}), "agent")
    for name in _NETWORKS:
        check_fits(getattr(agent, name).state_dict(), saved[name], origin)
    check_finite(saved, origin)
    with loading(origin):
        for number, request in enumerate(state.get("evaluations", [])):
            place = f"evaluations/{number}/weights"
            check(request["weights"], dict(agent.policy.state_dict()), place)
            check_finite(request["weights"], place)
        agent.load_state_dict(saved)


def allow_lag(cfg: DictConfig, agent: Agent) -> None:
    """Prepare the agent for the rollouts of an older version that this collector yields."""
    make = build(cfg.collector)
    options = {name: make.keywords[name] for name in Correction._fields if name in make.keywords}
    if not options.get("max_lag", getattr(make.func, "lag", 0)):
        return
    if cfg.strict:
        raise ConfigError(
            f"strict = true, and rollouts of {make.func.__name__} may be of a policy before the last update; "
            "expected rollouts of the policy that learns; use collector=sync, or leave strict=true out"
        )
    if options:
        agent.allow_lag(Correction(**options))
    else:
        agent.allow_lag()


def combat_params(cfg: DictConfig) -> CombatParams:
    """Build the constants of air combat, for a command that knows no other world."""
    params = build(cfg.env.sim)
    if not isinstance(params, CombatParams):
        raise ConfigError(f"env={cfg.env.name} is no air combat; expected env=combat; change env")
    return params.checked()


def install_opponent(env: Env, trained: TrainedPolicy | None = None) -> None:
    """Give an opponent that is a checkpoint its policy, which observes and acts as it was trained to.

    The checkpoint may have been read already.
    """
    if isinstance(env, CombatEnv) and (network := network_of(env.opponent)) is not None:
        install_policy(network, env.params, env.device, env.compile_mode, trained=trained)


def install_policy(
    opponent: Frozen,
    params: CombatParams,
    device: torch.device,
    compile_mode: str | bool,
    option: str = OPPONENT,
    trained: TrainedPolicy | None = None,
) -> None:
    """Give a pilot that is a checkpoint its policy; `option` named it."""
    with errors_of_policy(option, opponent.checkpoint), torch.random.fork_rng(devices=[]):
        path, state = trained or read_policy(opponent.checkpoint)
        cfg = from_json(state["config"])
        if cfg.env.get("_target_") != _COMBAT:
            raise ConfigError(f"it is a run of env={cfg.env.name}, not combat")
        own = cfg.env.team_size
        nearest_only = own == 1 and "team_size" not in cfg.observation  # for any number of enemies
        if own != params.team_size and not nearest_only:
            raise ConfigError(
                f"it plays combat with {cfg.env.team_size} a side; expected combat with {params.team_size}"
            )
        with open_dict(cfg):
            cfg.opponent = group_option("opponent", "straight")  # specs need an env with any
            cfg.device = str(device)
        require_no_files(cfg)
        own_env = build_env(cfg, num_envs=1, seed=0, compile_mode="off")
        policy: Any = load_policy(cfg, state, own_env, str(path))
        adapter = PolicyAdapter(
            observation=build(cfg.env.observation, from_checkpoint=True),
            action=build(cfg.env.action, from_checkpoint=True),
            compile_mode=compile_mode,
        )
        adapter.prepare(params, device)
        opponent.install(policy.requires_grad_(False), adapter)


def _made(part: str, cfg: DictConfig, *, from_checkpoint: bool, **arguments: Any) -> Any:
    """Build the partial of a part and call it; what is in a checkpoint may be of any kind."""
    try:
        if part == "env":
            check_class(str(cfg.env.get("_target_")))
        make = build(cfg[part], from_checkpoint=from_checkpoint)
        check_arguments(part, make, arguments, from_checkpoint)
        return make(**arguments)
    except (*_WRONG_KIND, ValueError) as error:
        place = users_place(error)
        if place is not None and not isinstance(error, ConfigError):
            raise ConfigError(
                f"{part} cannot be built: {type(error).__name__}: {message_of(error)}; change {place}"
            ) from error
        if not from_checkpoint or not isinstance(error, _WRONG_KIND) or is_out_of_memory(error):
            raise
        raise ConfigError(
            f"the configuration cannot be used: its {part} cannot be built ({type(error).__name__}: "
            f"{error}); expected what navrl has saved; choose another checkpoint, or change {part}"
        ) from error


if TYPE_CHECKING:
    from navrl import collectors, contracts, curriculum, loggers, storage
    from navrl.agents.hmasd.agent import HMASD
    from navrl.agents.ppo.agent import PPO
    from navrl.envs.alice_and_bob.env import AliceAndBobEnv
    from navrl.envs.combat.opponents.base import Pilot
    from navrl.envs.coverage.env import CoverageEnv
    from navrl.envs.external.vmas import VmasTeamEnv
    from navrl.envs.navigation.env import NavigationEnv
    from navrl.envs.navigation.planners.base import Planner
    from navrl.loggers.console import ConsoleLogger
    from navrl.loggers.jsonl import JsonlLogger

    AGENTS: tuple[type[contracts.Agent], ...] = (PPO, HMASD)
    COLLECTORS: tuple[type[contracts.Collector], ...] = (
        *(collectors.SyncCollector, collectors.StepwiseCollector),
        *(collectors.CompressedCollector, collectors.PipelinedCollector, collectors.RayCollector),
        collectors.FolderCollector,
    )
    CURRICULA: tuple[type[contracts.Curriculum], ...] = (
        *(curriculum.NoCurriculum, curriculum.Lessons, curriculum.Stages),
    )
    ENVS: tuple[type[contracts.Env], ...] = (AliceAndBobEnv, CoverageEnv, VmasTeamEnv)
    LESSON_ENVS: tuple[type[contracts.LessonEnv], ...] = (CombatEnv,)
    LOGGERS: tuple[type[contracts.Logger], ...] = (
        *(loggers.NullLogger, loggers.TensorBoardLogger, loggers.WandbLogger),
        *(JsonlLogger, ConsoleLogger),
    )
    OPPONENTS: tuple[type[contracts.Opponent], ...] = (Pilot,)
    PLANNERS: tuple[type[contracts.Planner], ...] = (Planner,)
    ROLLOUT_WRITERS: tuple[type[contracts.RolloutWriter], ...] = (
        *(storage.RolloutStorage, storage.NullRollouts),
    )
    SAVERS: tuple[type[contracts.Saver], ...] = (
        *(storage.CheckpointSaver, storage.AsyncSaver, storage.NullSaver),
    )
    SCRIPTED_ENVS: tuple[type[contracts.ScriptedEnv], ...] = (CombatEnv, NavigationEnv)
    STAGED_ENVS: tuple[type[contracts.StagedEnv], ...] = (NavigationEnv,)
