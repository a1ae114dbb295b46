"""navrl replay: play episodes of a policy and write them as one HTML file that needs nothing else."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from navrl.config.checks import ConfigError, did_you_mean
from navrl.config.command import run_plain
from navrl.config.compose import group_option
from navrl.run.options import check_writable
from navrl.run.policies import (
    OUTPUTS,
    SCRIPTED,
    build_env,
    build_policy,
    choices_of,
    find_subject,
    rival,
)
from navrl.storage.files import write_atomically
from navrl.view.figure import check_viz
from navrl.view.replay import CombatReplay, NavigationReplay

SEARCHED = 64  # episodes that --outcome looks through, and that a file of navigation holds
_PLAYERS: dict[str, type[CombatReplay] | type[NavigationReplay]] = {
    "CombatEnv": CombatReplay,
    "NavigationEnv": NavigationReplay,
}
_LONGEST_NAME = 150  # characters for the fight; file systems take 255 in all
_CHANGES = ("opponent", "shield")  # groups that the command may change in a run
_EVALUATION_SEED = 1_000_003  # so that episode 17 here is the 17th of `navrl evaluate`
_EXAMPLES = """examples:
  navrl replay                                  the newest checkpoint of the latest run
  navrl replay best --opponent crank --outcome loss
  navrl replay outputs/combat-ppo/<run> --episode 17 --acmi --png --mp4
  navrl replay latest --opponent checkpoint:best
  navrl replay scripted:crank --opponent crank --set env.sim.ammunition=2
  navrl replay scripted:greedy --env navigation_compat --shield on --outcome collision"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `navrl replay`."""
    return run_plain(_parser(), replay, arguments)


def replay(options: argparse.Namespace) -> None:
    """The command."""
    _check(options)
    changes = {
        group: _option(group, getattr(options, group))
        for group in _CHANGES
        if getattr(options, group) is not None
    }
    config, state, label = find_subject(
        options.policy,
        device="cpu",
        env=options.env or _home(options),
        changes=changes,
        overrides=options.set,
    )
    player = _player(options, config)
    number = SEARCHED if player.shows_all or options.outcome is not None else 1
    sys.stderr.write(f"making the env, then playing {number} episode{'s' * (number > 1)}\n")
    sys.stderr.flush()
    env = build_env(
        config,
        num_envs=number,
        seed=options.seed,
        compile_mode="off",
        first_env_id=options.episode,
    )
    policy = build_policy(options.policy, config, state, env)
    torch.manual_seed(options.seed)  # of the random policy
    other, short = _setting(options, config, state)
    short = "-".join([short, *map(_in_a_name, options.set)])[:_LONGEST_NAME]
    pilot = _pilot(config, state, label)
    played = player(env, policy, first=options.episode, pilot=pilot, setting=other)
    found = _first(options.outcome, played)
    episode = options.episode + found
    path = options.output or _default_output(state, label, short, options.seed, episode)
    details = (f"seed {options.seed}", f"episode {episode}")
    sys.stdout.write(f"{played.title}, {', '.join(details)}: {played.outcome(found)}\n")
    page = played.page(found, seed=details[0], episode=details[1])
    files = {kind: path.with_suffix(f".{kind}") for kind in played.files if getattr(options, kind)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)
    for kind, file in files.items():
        played.write(kind, found, file, details=", ".join(details))
    for file in (path, *files.values()):
        sys.stdout.write(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)\n")


def _option(group: str, name: str) -> Any:
    """The YAML of an option; `checkpoint:<reference>` says which one."""
    kind, _, reference = name.partition(":")
    if (group, kind) != ("opponent", "checkpoint"):
        return group_option(group, name)
    option = group_option(group, kind)
    option.checkpoint = reference or option.checkpoint
    return option


def _check(options: argparse.Namespace) -> None:
    """Raise about what can be seen to be wrong before anything is played."""
    for name in ("seed", "episode"):
        if getattr(options, name) < 0:
            raise ConfigError(
                f"--{name} {getattr(options, name)}; expected 0 or more; change --{name}"
            )
    if options.set and options.env is None and not options.policy.startswith(SCRIPTED):
        raise ConfigError(
            f"--set changes the env that a policy plays in, but '{options.policy}' brings its own; add "
            "--env <name>, choose scripted:<name>, or leave --set out"
        )
    if options.output is not None:
        if options.output.suffix != ".html":
            raise ConfigError(
                f"--output {options.output}; expected a name that ends in .html; change --output"
            )
        check_writable(options.output)
    if options.png or options.mp4:
        check_viz()


def _home(options: argparse.Namespace) -> str | None:
    """Where a planner flies if no env is named; pilots of air combat are at home in the default."""
    name = options.policy.removeprefix(SCRIPTED)
    if name == options.policy or any(word.startswith("env=") for word in options.set):
        return None
    with contextlib.suppress(ConfigError):
        group_option("planner", name)
        return "navigation"
    return None


def _player(
    options: argparse.Namespace, config: Any
) -> type[CombatReplay] | type[NavigationReplay]:
    """What plays and shows episodes of this env, and can do what was asked for."""
    env = config.env.name
    player = _PLAYERS.get(str(config.env._target_).rpartition(".")[2])
    if player is None:
        raise ConfigError(
            f"env '{env}' has no replay; expected air combat or drone navigation; choose another run"
        )
    if options.outcome not in (None, *player.outcomes):
        raise ConfigError(
            f"--outcome {options.outcome}; env '{env}' knows {', '.join(player.outcomes)}"
            f"{did_you_mean(options.outcome, player.outcomes) or '; change --outcome'}"
        )
    if options.acmi and "acmi" not in player.files:
        raise ConfigError(
            f"--acmi is for fights of aircraft, and env '{env}' has none; leave --acmi out"
        )
    return player


def _first(wanted: str | None, played: CombatReplay | NavigationReplay) -> int:
    """The index of the first episode that ended as wanted; `collision` is every collision_..."""
    if wanted is None:
        return 0
    found = {
        name: [
            index
            for index, ending in enumerate(played.endings)
            if ending == name or ending.startswith(f"{name}_")
        ]
        for name in played.outcomes
    }
    if not found[wanted]:
        counts = ", ".join(f"{name} {len(indices)}" for name, indices in found.items())
        raise ConfigError(
            f"no {wanted} in {len(played.endings)} episodes ({counts}); "
            "choose another --outcome, --seed or --episode to begin with"
        )
    return found[wanted][0]


def _setting(
    options: argparse.Namespace, config: Any, state: dict[str, Any] | None
) -> tuple[str, str]:
    """Whom or where the policy plays: for titles, and for the names of files."""
    env = options.env or _home(options)
    choices = choices_of(state, env=env, overrides=options.set)
    against = rival(config, {"opponent": options.opponent or choices.get("opponent")})
    if against is not None:
        file = Path(against)
        run = f"{file.parents[1].name}/" if file.parent.name == "checkpoints" else ""
        return f"{run}{file.stem}", file.stem
    place = str(config.env.name)
    if str(config.shield._target_).endswith(".NoShield"):
        return place, place
    return f"{place}, shielded", f"{place}-shielded"


def _in_a_name(override: str) -> str:
    """An option as a part of a file's name: env.sim.channels=2 is channels=2."""
    key, _, value = override.partition("=")
    return re.sub(r"[^\w.,=-]+", "", f"{key.rpartition('.')[2]}={value}")


def _pilot(config: Any, state: dict[str, Any] | None, label: str) -> str:
    """What the policy is called in titles."""
    if state is None:
        return label.removeprefix(SCRIPTED)
    if state["frames"] == 0:  # its weights come from elsewhere
        return Path(label).stem
    name = str(config.agent._target_).rpartition(".")[2].lower()
    return f"{name} after {state['frames']:,} frames"


def _default_output(
    state: dict[str, Any] | None, label: str, setting: str, seed: int, episode: int
) -> Path:
    """In the run's replays/, or outputs/replays/ for what belongs to no run."""
    name = f"{setting}-seed{seed}" + (f"-episode{episode}" if episode else "")
    if state is None:
        return OUTPUTS / "replays" / f"{label.removeprefix(SCRIPTED)}-{name}.html"
    checkpoint = Path(label)
    if checkpoint.parent.name == "checkpoints":
        return checkpoint.parent.parent / "replays" / f"{name}.html"
    return OUTPUTS / "replays" / f"{checkpoint.stem}-{name}.html"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="navrl replay",
        description="Play one episode, or 64 of navigation, into one HTML file for any browser.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "policy",
        nargs="?",
        default="latest",
        help="latest | best | a run directory | a checkpoint | scripted:<opponent or planner or random>",
    )
    parser.add_argument(
        "--opponent",
        metavar="NAME",
        help="whom it plays: a pilot, or checkpoint:<latest | best | a run directory | a checkpoint>; "
        "default: the run's own",
    )
    parser.add_argument("--env", metavar="NAME", help="where it plays; default: the run's own")
    parser.add_argument("--shield", metavar="NAME", help="none | on; default: the run's own")
    parser.add_argument("--seed", type=int, default=_EVALUATION_SEED, help="default: %(default)s")
    parser.add_argument("--episode", type=int, default=0, help="which one of the seed; default: 0")
    parser.add_argument(
        "--outcome",
        metavar="NAME",
        help=f"begin with the first such episode of {SEARCHED}, from --episode on: "
        f"{' | '.join(CombatReplay.outcomes)}, or {' | '.join(NavigationReplay.outcomes)}",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.html",
        help="default: <run>/replays/<names, what is --set, seed and episode>.html",
    )
    parser.add_argument("--acmi", action="store_true", help="also a file for Tacview")
    parser.add_argument("--png", action="store_true", help="also one picture; needs navrl[viz]")
    parser.add_argument("--mp4", action="store_true", help="also a film; needs navrl[viz]")
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="options of --env or a scripted policy, as for navrl train: env.sim.channels=2",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
