"""`navrl collect`: play the newest policy of a run, and write rollouts that the run goes on learning from."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.collectors.folder import INBOX, WEIGHTS, sha256_of
from navrl.collectors.sync import SyncCollector
from navrl.config.checks import ConfigError, require_whole
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, show, take_words
from navrl.config.quoting import shown_path
from navrl.contracts import Env
from navrl.envs.core.random import plain_seed
from navrl.run.build import build_env, load_policy
from navrl.run.device import MOST_ENVS, enough_memory, prepare_process
from navrl.run.episodes import episode_metrics
from navrl.run.lock import RunDirectoryError, RunLock
from navrl.run.policies import SCRIPTED, find_policy
from navrl.run.status import read_status
from navrl.storage.checkpoint import load_policy_state
from navrl.storage.files import make_directory
from navrl.storage.find import OUTPUTS, CheckpointNotFound, find, find_place
from navrl.storage.header import CorruptFile
from navrl.storage.info import checkpoint_files
from navrl.storage.rollouts import RolloutStorage, iteration_of, rollout_files
from navrl.storage.schema import check_fits

_SHOW_EVERY_S, _LOOK_EVERY_S = 10.0, 0.05
_MOST_WRITERS = 10_000
_STEP_OF_SEEDS = 1_000_003  # from one writer to the next
_POSITIONAL = (
    "RUN",
    "latest | a run directory, whose newest checkpoint plays, also a later one | a checkpoint or zoo:<name>, "
    "which stays; default: latest",
)
_SETTINGS = {
    "rollouts": Setting(0, "to collect; default: 0, until Ctrl-C"),
    "keep_last": Setting(4, "newest rollouts that stay in the folder; default: 4"),
    "per_policy": Setting(
        0, "rollouts of one policy before it waits for the next; default: 0, it never waits"
    ),
    "seed": Setting(0, "of episodes and actions; default: 0, another one every time"),
    "device": Setting("auto", "that plays: auto | cpu | cuda; default: auto"),
}
_OVERRIDES = "options of the world, as for navrl train, and num_envs, rollout_steps, threads"
_EXAMPLES = """  navrl collect                                    the latest run, into its folder inbox
  navrl collect outputs/combat-ppo/<run> opponent=phase3 per_policy=1
  navrl collect /mnt/shared/run --into /mnt/shared/rollouts
the training that learns from them:
  navrl train resume=latest collector=folder checkpoint.save_every=1 total_frames=40000000"""


class Source:
    """The newest policy of a run, or the one in a file."""

    def __init__(self, reference: str) -> None:
        if reference.startswith(SCRIPTED):
            raise ConfigError(
                f"'{reference}' is scripted and draws no actions; expected a trained policy; name a run or "
                "a checkpoint"
            )
        place = find_place(reference, OUTPUTS)
        self.run = place if place.is_dir() else None
        self._reference = str(place) if self.run else reference
        self._seen = self._signature()
        self._status = read_status(self.run) if self.run else {}  # of a run to be resumed: finished
        self.path = find(self._reference, OUTPUTS)

    @property
    def has_ended(self) -> bool:
        """Return whether no newer policy will come: the run has finished since, or there is none."""
        if self.run is None:
            return True
        status = read_status(self.run)
        return status.get("state") == "finished" and status != self._status

    def newer(self) -> dict[str, Any] | None:
        """Return the state of a checkpoint that was saved since the last one, None without one."""
        signature = self._signature()
        if self.run is None or signature == self._seen:
            return None
        # The run may delete a file meanwhile; the next look finds what is there.
        with contextlib.suppress(CheckpointNotFound, FileNotFoundError, CorruptFile):
            self.path = find(self._reference, OUTPUTS)
            state = load_policy_state(self.path)
            self._seen = signature
            return state
        return None

    def _signature(self) -> tuple[Any, ...]:
        """Return what changes when the run saves."""
        with contextlib.suppress(OSError):
            if self.run is not None:
                inner = self.run / "checkpoints"
                newest = checkpoint_files(inner if inner.is_dir() else self.run)[:1]
                return tuple((path.name, path.stat().st_mtime_ns) for path in newest)
        return ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl collect`."""
    return run_plain(_parser(), collect, arguments)


def collect(options: argparse.Namespace) -> None:
    """Play, write rollouts and take over newer weights until told to stop."""
    take_words(options, _SETTINGS, positionals=1)
    for name, least in (("rollouts", 0), ("keep_last", 1), ("per_policy", 0), ("seed", 0)):
        require_whole(name, getattr(options, name), least)
    source = Source(options.positionals[0] if options.positionals else "latest")
    folder = options.into or (source.run / INBOX if source.run else None)
    if folder is None:
        raise ConfigError(
            f"{source.path} is no run, so there is no folder for rollouts; expected --into FOLDER; add it"
        )
    cfg, state = _setup(source, options)
    prepare_process(cfg.threads)
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(_own_folder(folder))
        number = _next_number(writer.path)
        seed = options.seed or plain_seed(number + _STEP_OF_SEEDS * _number_of(writer.path))
        with enough_memory("num_envs", cfg.num_envs):
            env = build_env(cfg, num_envs=cfg.num_envs, seed=seed)
            policy: Any = load_policy(cfg, state, env, str(source.path)).requires_grad_(False)
            torch.manual_seed(seed)
            collector = SyncCollector(
                env=env, policy=policy, rollout_steps=cfg.rollout_steps, total_frames=-1
            )
        stack.callback(collector.shutdown)
        actor = _Actor(policy, source, state)
        storage = RolloutStorage(
            directory=writer.path, save_every=1, keep_last=options.keep_last, drop=[], compress=True
        )
        show(
            f"{cfg.env.name} with {cfg.agent.name}: rollouts of {cfg.num_envs} x {cfg.rollout_steps} "
            f"frames into {shown_path(writer.path)}\n"
        )
        _play(options, env, collector, actor, storage, number)


def _setup(source: Source, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the configuration in which the policy plays, and its checkpoint."""
    if options.per_policy and source.run is None:
        raise ConfigError(
            f"per_policy = {options.per_policy} with {source.path}, which stays as it is; expected a run; "
            "name one, or leave per_policy out"
        )
    cfg, state, *_ = find_policy(
        str(source.path), device=options.device, overrides=options.overrides, evaluates=False
    )
    for name in ("num_envs", "rollout_steps"):
        require_whole(name, cfg[name], 1, MOST_ENVS)
    return cfg, state or {}


class _Actor:
    """The policy that plays, with the weights of the newest checkpoint."""

    def __init__(self, policy: Any, source: Source, state: dict[str, Any]) -> None:
        self._policy, self.source = policy, source
        self._take(state)

    def _take(self, state: dict[str, Any]) -> None:
        weights = state["agent"]["policy"]
        check_fits(self._policy.state_dict(), weights, str(self.source.path))
        self._policy.load_state_dict(weights)
        self._policy.version = int(state["agent"].get("policy_version", 0))
        self.frames, self.sha256 = state["frames"], sha256_of(self._policy.state_dict())
        self.played = 0  # rollouts with these weights

    def signed(self, rollout: TensorDictBase) -> TensorDictBase:
        """Return the rollout with the digest of the weights that have collected it."""
        self.played += 1
        return rollout.set_non_tensor(WEIGHTS, self.sha256)

    def renew(self) -> bool:
        """Take over newer weights if there are any; return whether there were."""
        state = self.source.newer()
        if state is not None:
            self._take(state)
        return state is not None

    def wait(self) -> bool:
        """Wait for newer weights; return False if none will come, because the run has finished."""
        began, silent = time.monotonic(), False
        while not self.renew():
            if self.source.has_ended:
                return self.renew()
            if time.monotonic() - began > _SHOW_EVERY_S and not silent:
                silent = True
                show(f"waiting for a newer checkpoint than {self.source.path}\n")
            time.sleep(_LOOK_EVERY_S)
        return True


def _play(
    options: argparse.Namespace,
    env: Env,
    collector: SyncCollector,
    actor: _Actor,
    storage: RolloutStorage,
    first: int,
) -> None:
    """Write one rollout after another."""
    shown, since, done = torch.zeros(1 + len(env.episode_keys)), time.monotonic(), 0
    try:
        for rollout in collector:
            storage.after(first + done, actor.signed(rollout), _warn)
            done, shown = done + 1, shown + _sums(rollout)
            ends = options.rollouts == done
            if ends or time.monotonic() - since > _SHOW_EVERY_S:
                numbers = _described(env, shown)
                show(f"rollout {done} | policy of frame {actor.frames:,} | {numbers}\n")
                shown, since = torch.zeros_like(shown), time.monotonic()
            if ends:
                return
            renewed = actor.renew()
            if not renewed and actor.played == options.per_policy and not actor.wait():
                show("the run has finished\n")
                return
    except KeyboardInterrupt as stop:
        stop.args = (f"stopped; {done} rollouts written to {shown_path(storage.directory)}",)
        raise


def _sums(rollout: TensorDictBase) -> Tensor:
    """Return the number of ended episodes and the sum of each statistic over them."""
    done = rollout.get(("next", "done"))
    sums = torch.where(done, rollout.get(("next", "episode")), 0.0).sum((0, 1))
    return torch.cat([done.sum().reshape(1), sums]).cpu()


def _described(env: Env, sums: Tensor) -> str:
    """Return the console columns of the env over the ended episodes."""
    metrics = episode_metrics(env, sums)
    columns = ((label, metrics[name]) for label, name in env.headline.items() if name in metrics)
    found = " | ".join(
        f"{label[:-1]} {100.0 * value:.0f}%" if label.endswith("%") else f"{label} {value:.3g}"
        for label, value in columns
    )
    return f"{metrics['episode/count']:.0f} episodes" + (f" | {found}" if found else "")


def _warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=2)


def _own_folder(folder: Path) -> RunLock:
    """Lock the first folder actor-<n> in which no other process writes."""
    make_directory(folder)
    for number in range(1, _MOST_WRITERS):
        place = folder / f"actor-{number}"
        make_directory(place)
        try:
            return RunLock(place)
        except RunDirectoryError as error:
            if not isinstance(error.__cause__, BlockingIOError):
                raise OSError(
                    f"no rollouts can be written into {str(place)!r} ({error.__cause__}); choose another "
                    "folder with --into"
                ) from error
    raise ConfigError(
        f"{folder} has {_MOST_WRITERS} writers; expected fewer; choose another folder"
    )


def _number_of(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _next_number(folder: Path) -> int:
    """Return a number above those of all earlier rollouts of this writer, deleted ones too: the time."""
    files = rollout_files(folder)
    return max(int(time.time()), iteration_of(files[-1]) + 1 if files else 0)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "collect",
        "Play the newest policy of a run, and write rollouts from which a training with collector=folder\n"
        "goes on learning.",
        _EXAMPLES,
        positional=_POSITIONAL,
        settings=_SETTINGS,
        overrides=_OVERRIDES,
    )
    text = "the folder for rollouts; default: inbox in the run directory"
    parser.add_argument("--into", type=Path, metavar="FOLDER", help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
