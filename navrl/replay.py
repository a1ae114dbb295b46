"""navrl replay: play one episode of a policy and write it as one HTML file that needs nothing else."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from navrl.config import ConfigError, run_plain
from navrl.options import check_writable
from navrl.record import write_atomically
from navrl.subject import (
    OUTPUTS,
    SCRIPTED,
    build_env,
    build_policy,
    find_subject,
    opponent_name,
    opponent_option,
)
from navrl.view.acmi import acmi
from navrl.view.fight import fight_page, outcome
from navrl.view.film import check_viz, write_mp4, write_png
from navrl.view.recording import Recording, play_episodes, recording
from navrl.view.spacetime import drawing

SEARCHED = 64  # episodes that --outcome looks through
_EVALUATION_SEED = 1_000_003  # so that episode 17 here is the 17th of `navrl evaluate`
_EXAMPLES = """examples:
  navrl replay                                  the newest checkpoint of the latest run
  navrl replay best --opponent crank --outcome loss
  navrl replay outputs/combat-ppo/<run> --episode 17 --acmi --png --mp4
  navrl replay scripted:crank --opponent crank --set env.sim.ammunition=2"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `navrl replay`."""
    return run_plain(_parser(), replay, arguments)


def replay(options: argparse.Namespace) -> None:
    """The command."""
    _check(options)
    opponent = None if options.opponent is None else opponent_option(options.opponent)
    config, state, label = find_subject(
        options.policy, device="cpu", opponent=opponent, overrides=options.set
    )
    against = options.opponent or opponent_name(config)
    env = build_env(
        config,
        num_envs=1 if options.outcome is None else SEARCHED,
        seed=options.seed,
        compile_mode="off",
        first_env_id=options.episode,
    )
    if not hasattr(type(env), "combat_state"):
        raise ConfigError(
            f"env '{env.name}' has no replay; expected air combat; choose another run"
        )
    policy = build_policy(options.policy, config, state, env)
    torch.manual_seed(options.seed)  # of the random policy
    episodes = [recording(env.params, states) for states in play_episodes(env, policy)]
    found = _first(options.outcome, episodes)
    episode = options.episode + found
    pilot = _pilot(config, state, label)
    path = options.output or _default_output(state, label, against, options.seed, episode)
    title, details = f"{pilot} against {against}", f"seed {options.seed}, episode {episode}"
    sys.stdout.write(f"{title}, {details}: {outcome(episodes[found])}\n")
    _write(options, episodes[found], path, title, details)


def _check(options: argparse.Namespace) -> None:
    """Raise about what can be seen to be wrong before anything is played."""
    for name in ("seed", "episode"):
        if getattr(options, name) < 0:
            raise ConfigError(
                f"--{name} {getattr(options, name)}; expected 0 or more; change --{name}"
            )
    if options.set and not options.policy.startswith(SCRIPTED):
        raise ConfigError(
            f"--set changes what a scripted policy plays, but '{options.policy}' brings its own "
            "configuration; leave --set out, or choose scripted:<name>"
        )
    if options.output is not None:
        if options.output.suffix != ".html":
            raise ConfigError(
                f"--output {options.output}; expected a name that ends in .html; change --output"
            )
        check_writable(options.output)
    if options.png or options.mp4:
        check_viz()


def _first(wanted: str | None, episodes: Sequence[Recording]) -> int:
    """The index of the first episode that ended as wanted, for the policy's side."""
    if wanted is None:
        return 0
    results = {0: "win", 1: "loss", None: "draw"}
    endings = [results[recorded.winner] for recorded in episodes]
    if wanted not in endings:
        counts = ", ".join(f"{name} {endings.count(name)}" for name in results.values())
        raise ConfigError(
            f"no {wanted} in {len(episodes)} episodes ({counts}); "
            "choose another --outcome, --seed or --episode to begin with"
        )
    return endings.index(wanted)


def _pilot(config: Any, state: dict[str, Any] | None, label: str) -> str:
    """What the policy is called in titles."""
    if state is None:
        return label.removeprefix(SCRIPTED)
    name = str(config.agent._target_).rpartition(".")[2].lower()
    return f"{name} after {state['frames']:,} frames"


def _default_output(
    state: dict[str, Any] | None, label: str, against: str, seed: int, episode: int
) -> Path:
    """In the run's replays/, or outputs/replays/ for what belongs to no run."""
    name = f"{Path(against).stem}-seed{seed}" + (f"-episode{episode}" if episode else "")
    if state is None:
        return OUTPUTS / "replays" / f"{label.removeprefix(SCRIPTED)}-{name}.html"
    checkpoint = Path(label)
    if checkpoint.parent.name == "checkpoints":
        return checkpoint.parent.parent / "replays" / f"{name}.html"
    return OUTPUTS / "replays" / f"{checkpoint.stem}-{name}.html"


def _write(
    options: argparse.Namespace, recorded: Recording, path: Path, title: str, details: str
) -> None:
    """The page, and whatever else was asked for beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, fight_page(recorded, drawing, title=title, subtitle=details))
    written = [path]
    if options.acmi:
        written.append(path.with_suffix(".acmi"))
        write_atomically(written[-1], acmi(recorded, title=f"{title}, {details}"))
    for wanted, suffix, write in (
        (options.png, ".png", write_png),
        (options.mp4, ".mp4", write_mp4),
    ):
        if wanted:
            written.append(path.with_suffix(suffix))
            write(recorded, written[-1], title=f"{title}, {details}")
    for file in written:
        sys.stdout.write(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="navrl replay",
        description="Play one episode and write it as one HTML file: open it in any browser.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "policy",
        nargs="?",
        default="latest",
        help="latest | best | a run directory | a checkpoint | scripted:<opponent> | scripted:random",
    )
    parser.add_argument("--opponent", metavar="NAME", help="whom it plays; default: the run's own")
    parser.add_argument("--seed", type=int, default=_EVALUATION_SEED, help="default: %(default)s")
    parser.add_argument("--episode", type=int, default=0, help="which one of the seed; default: 0")
    parser.add_argument(
        "--outcome",
        choices=("win", "loss", "draw"),
        help=f"the first such episode among {SEARCHED}, from --episode on",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE.html", help="default: <run>/replays/<names>.html"
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
        help="options of a scripted fight, as for navrl train: env.sim.channels=2",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
