"""`navrl replay`: play episodes of a policy and write them as one HTML file that needs no other file."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from navrl.config.checks import (
    ConfigError,
    did_you_mean,
    printable,
    require_whole,
    require_writable,
)
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, show, take_words
from navrl.config.compose import group_option
from navrl.live.play.again import RecordedActions, folder_of_game, read_game
from navrl.run.build import build_env
from navrl.run.device import prepare_process
from navrl.run.policies import SCRIPTED, build_policy, find_policy, opponent_name
from navrl.storage.files import make_directory, write_atomically
from navrl.storage.find import OUTPUTS, ZOO, is_shipped
from navrl.view.figure import check_viz
from navrl.view.replay import CombatReplay, NavigationReplay, Replay, WorldReplay, rate_outcomes

SEARCHED = 64  # episodes that --outcome searches, and that a page of navigation holds
_FILES = ("acmi", "png", "mp4")  # flags
_REPLAYS: dict[str, type[Replay]] = {  # other worlds have WorldReplay
    "CombatEnv": CombatReplay,
    "NavigationEnv": NavigationReplay,
}
_LONGEST_NAME = 150  # characters for the setting; file systems allow 255 in all
_LONGEST_TITLE = 100  # characters of a pilot or a setting
_NOT_IN_NAMES = re.compile(r"[^\w.,=-]+", re.ASCII)
_IN_TITLE = ("opponent", "shield", "env")  # groups that name the file already
# That of `navrl evaluate`, so that episode=17 is its 17th episode.
_SEED = 1_000_003
_POSITIONAL = (
    "POLICY",
    "latest | best | a run directory | a checkpoint | zoo:<name> | scripted:<opponent or planner or random>, "
    "or a game of navrl play, outputs/play/<game>; default: latest",
)
_SETTINGS = {
    "seed": Setting(_SEED, f"of the episodes; default: {_SEED}"),
    "episode": Setting(0, "the number of the first episode of this seed; default: 0"),
}
_OVERRIDES = (
    "options of navrl train, on top of the run's: opponent=crank, opponent=checkpoint:best, "
    "env=combat, shield=on, env.sim.channels=2, ..."
)
_EXAMPLES = """  navrl replay                                  the newest checkpoint of the latest run
  navrl replay best opponent=crank --outcome loss
  navrl replay latest opponent=checkpoint:best env.sim.time_limit_s=60
  navrl replay outputs/combat-ppo/<run> episode=17 --acmi --png --mp4
  navrl replay scripted:crank opponent=crank env.sim.ammunition=2
  navrl replay scripted:greedy env=navigation_compat shield=on --outcome collision
  navrl replay outputs/play/<game>              a fight or flight of yours, as it was
  navrl replay scripted:random env=coverage     any world: its picture, if it has draw(), and its numbers"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl replay`."""
    return run_plain(_parser(), replay, arguments)


def replay(options: argparse.Namespace) -> None:
    """Play the episodes, and write the page and the other files."""
    take_words(options, _SETTINGS, positionals=1)
    prepare_process(1)  # one episode: several threads take twice as long beside a training
    policy_name = options.positionals[0] if options.positionals else "latest"
    _check(options)
    folder = folder_of_game(Path(policy_name))
    if folder is not None:
        _replay_game(options, folder)
        return
    config, state, label, choices = find_policy(
        policy_name, device="cpu", overrides=_with_env(policy_name, options.overrides)
    )
    kind = _replay_of(options, config)
    number = SEARCHED if kind.shows_all or options.outcome is not None else 1
    sys.stderr.write(f"making the env, then playing {number} episode{'s' * (number > 1)}\n")
    sys.stderr.flush()
    env = build_env(
        config, num_envs=number, seed=options.seed, compile_mode="off", first_env_id=options.episode
    )
    policy = build_policy(policy_name, config, state, env)
    torch.manual_seed(options.seed)  # of the random policy
    pilot, setting = titles_of(config, state, label, choices)
    short = "-".join([_setting(config, choices)[1], *_parts_of_name(options.overrides)])
    _check_outcome(options.outcome, config.env.name, kind.outcomes or rate_outcomes(env))
    played = kind(env, policy, first=options.episode, pilot=pilot, setting=setting)
    index = _first(options.outcome, played)
    path = options.output or _default_output(
        state, label, short, options.seed, options.episode + index
    )
    _write(options, played, index, path)


def _replay_game(options: argparse.Namespace, folder: Path) -> None:
    """Fly a recorded game again, and write the page and the other files."""
    if options.outcome is not None or (options.seed, options.episode) != (_SEED, 0):
        raise ConfigError(
            f"{folder} is one recorded game; expected no --outcome, seed= and episode=; leave them out"
        )
    game = read_game(folder, options.overrides)
    kind = _replay_of(options, game.config)
    options.seed = game.seed
    env = build_env(game.config, num_envs=1, seed=game.seed, compile_mode="off")
    names = (game.pilot, game.opponent or str(game.config.env.name))
    pilot, setting = (printable(text)[:_LONGEST_TITLE] for text in names)
    played = kind(env, RecordedActions(game, env), first=0, pilot=pilot, setting=setting)
    _write(options, played, 0, options.output or folder / "replay.html")


def _write(options: argparse.Namespace, played: Replay, index: int, path: Path) -> None:
    """Write the page and the other files of one episode, and print their names."""
    seed, episode = f"seed {options.seed}", f"episode {options.episode + index}"
    show(f"{played.title}, {seed}, {episode}: {played.outcome(index)}\n")
    page = played.page(index, seed=seed, episode=episode)
    files = {kind: path.with_suffix(f".{kind}") for kind in played.files if getattr(options, kind)}
    if options.output is None:
        make_directory(path.parent)
    write_atomically(path, page)
    for kind, file in files.items():
        played.write(kind, index, file, details=f"{seed}, {episode}")
    for file in (path, *files.values()):
        show(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)\n")


def _check(options: argparse.Namespace) -> None:
    """Raise ConfigError about wrong options before anything is played."""
    require_whole("seed", options.seed, least=0)
    require_whole("episode", options.episode, least=0)
    require_writable(options.output, suffix=".html")
    if options.png or options.mp4:
        check_viz()


def _with_env(policy: str, overrides: Sequence[str]) -> list[str]:
    """Return the overrides with the env of a planner; scripted pilots play in the default env."""
    name = policy.removeprefix(SCRIPTED)
    if name != policy and not any(word.startswith("env=") for word in overrides):
        with contextlib.suppress(ConfigError):
            group_option("planner", name)
            return ["env=navigation", *overrides]
    return list(overrides)


def replay_of(config: Any) -> type[Replay]:
    """Return the class that replays this env."""
    return _REPLAYS.get(str(config.env._target_).rpartition(".")[2], WorldReplay)


def _replay_of(options: argparse.Namespace, config: Any) -> type[Replay]:
    """Return the class that replays this env, or raise ConfigError if it cannot do what the flags want."""
    env = config.env.name
    kind = replay_of(config)
    if kind.outcomes:
        _check_outcome(options.outcome, env, kind.outcomes)
    for name in _FILES:
        if getattr(options, name) and name not in kind.files:
            what = "fights of aircraft" if name == "acmi" else "air combat and navigation"
            raise ConfigError(f"--{name} is for {what}, and env is '{env}'; leave --{name} out")
    return kind


def _check_outcome(wanted: str | None, env: str, outcomes: Sequence[str]) -> None:
    """Raise ConfigError about an outcome that no episode of this env can have."""
    if wanted not in (None, *outcomes):
        raise ConfigError(
            f"--outcome {wanted}; env '{env}' has {', '.join(outcomes) or 'none'}"
            f"{did_you_mean(str(wanted), outcomes) or '; change --outcome'}"
        )


def _first(wanted: str | None, played: Replay) -> int:
    """Return the index of the first episode with this outcome."""
    if wanted is None:
        return 0
    found = {
        name: [index for index, ending in enumerate(played.endings) if name in ending]
        for name in played.outcomes
    }
    if not found[wanted]:
        counts = ", ".join(f"{name} {len(indices)}" for name, indices in found.items())
        raise ConfigError(
            f"no {wanted} in {len(played.endings)} episodes ({counts}); "
            "choose another --outcome, seed= or episode= to begin with"
        )
    return found[wanted][0]


def titles_of(
    config: Any, state: dict[str, Any] | None, label: str, choices: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the names of the policy, and of its opponent or world, for titles."""
    names = (_pilot(config, state, label), _setting(config, choices)[0])
    pilot, setting = (printable(text)[:_LONGEST_TITLE] for text in names)
    return pilot, setting


def _setting(config: Any, choices: Mapping[str, Any]) -> tuple[str, str]:
    """Return the opponent or the env, for titles and for names of files."""
    opponent = opponent_name(config, choices)
    if opponent is not None:
        file = Path(opponent)
        run = f"{file.parents[1].name}/" if file.parent.name == "checkpoints" else ""
        return f"{run}{file.stem}", file.stem
    place = str(config.env.name)
    if choices.get("shield", "none") == "none":
        return place, place
    return f"{place}, shielded", f"{place}-shielded"


def _parts_of_name(overrides: Sequence[str]) -> list[str]:
    """Return options as parts of a file's name: env.sim.channels=2 becomes channels=2."""
    pairs = [word.partition("=")[::2] for word in overrides]
    return [f"{key.rpartition('.')[2]}={value}" for key, value in pairs if key not in _IN_TITLE]


def _pilot(config: Any, state: dict[str, Any] | None, label: str) -> str:
    """Return the name of the policy for titles."""
    if state is None:
        return label.removeprefix(SCRIPTED)
    if state["frames"] == 0 or is_shipped(label):  # 0: imported weights
        return Path(label).stem.removeprefix(ZOO)
    name = str(config.agent._target_).rpartition(".")[2].lower()
    return f"{name} after {state['frames']:,} frames"


def _default_output(
    state: dict[str, Any] | None, label: str, setting: str, seed: int, episode: int
) -> Path:
    """Return a path in the run's replays/, or in outputs/replays/ for a policy without a run."""
    checkpoint = Path(label)
    in_run = state is not None and checkpoint.parent.name == "checkpoints"
    folder = (checkpoint.parent.parent if in_run else OUTPUTS) / "replays"
    policy = label.removeprefix(SCRIPTED) if state is None else checkpoint.stem.removeprefix(ZOO)
    # Names in a checkpoint are a stranger's: neither a folder, nor hidden, nor too long.
    name = _NOT_IN_NAMES.sub("", setting if in_run else f"{policy}-{setting}").strip(".-")
    parts = [name[:_LONGEST_NAME], f"seed{seed}", f"episode{episode}" if episode else ""]
    return folder / f"{'-'.join(filter(None, parts))}.html"


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "replay",
        "Play one episode, or 64 of navigation, into one HTML file for any browser.",
        _EXAMPLES,
        positional=_POSITIONAL,
        settings=_SETTINGS,
        overrides=_OVERRIDES,
    )
    parser.add_argument(
        "--outcome",
        metavar="NAME",
        help=f"show the first such episode of {SEARCHED}: "
        f"{' | '.join(CombatReplay.outcomes)}, or {' | '.join(NavigationReplay.outcomes)}, or a rate "
        "of the world such as success or no_success",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.html",
        help="default: <run>/replays/<opponent or env, options, seed and episode>.html",
    )
    parser.add_argument("--acmi", action="store_true", help="also a file for Tacview")
    parser.add_argument("--png", action="store_true", help="also one picture; needs navrl[viz]")
    parser.add_argument("--mp4", action="store_true", help="also a film; needs navrl[viz]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
