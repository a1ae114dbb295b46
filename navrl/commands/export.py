"""`navrl export`: write a policy as a file that needs no navrl, with a card, checked against ours."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import navrl
from navrl.config.checks import ConfigError, require_choice, require_whole, require_writable
from navrl.config.command import run_plain
from navrl.config.command_line import Setting, command_parser, show, take_words
from navrl.config.quoting import shell_line
from navrl.config.stored import words_of
from navrl.export import card as cards
from navrl.export.formats import FORMATS, require_packages
from navrl.export.policies import (
    OBSERVATIONS,
    TOLERANCE,
    Check,
    Columns,
    PolicyGraph,
    Recording,
    check,
    exported,
)
from navrl.run.build import build_env
from navrl.run.cards import read_card
from navrl.run.device import enough_memory, prepare_process
from navrl.run.environment import package_version
from navrl.run.episodes import play, summarise
from navrl.run.policies import PRECISION, PolicySetup, build_policy, find_policy, opponent_name
from navrl.storage.files import read_text, replacing, to_json, write_atomically
from navrl.storage.find import OUTPUTS, ZOO, find, is_shipped

_EXAMPLE_ROWS = 3  # any number but 0 and 1, which torch takes for constants
_LEAST_EPISODES = 2  # that have an interval
_POSITIONAL = (
    "POLICY",
    "latest | best | a run directory | a checkpoint | zoo:<name>; default: latest",
)
_SETTINGS = {
    "num_episodes": Setting(100, "played for the score and the check; default: 100"),
    "seed": Setting(1_000_003, "of these episodes, as for navrl evaluate; default: 1000003"),
    "licence": Setting(
        None, "of the policy, for the card; default: that of a zoo: policy, else none"
    ),
}
_OVERRIDES = "options of navrl train in which the episodes are played: opponent=crank, ..."
_EXAMPLES = """  navrl export                                  policy.onnx and its card policy.onnx.json
  navrl export zoo:combat-scripts --to pt2 --output pilot.pt2
  navrl export latest --to safetensors --sampled num_episodes=20 opponent=crank"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl export`."""
    return run_plain(_parser(), export, arguments)


def export(options: argparse.Namespace) -> None:
    """Play, write the file, compare it with the policy, and write the card."""
    take_words(options, _SETTINGS, positionals=1)
    name = options.positionals[0] if options.positionals else "latest"
    path = _check(options)
    prepare_process(1)
    for word in options.overrides:
        if word.startswith(f"{PRECISION}=") and word != f"{PRECISION}=fp32":
            raise ConfigError(
                f"{word}; expected fp32, in which every policy is exported; leave it out"
            )
    setup = find_policy(name, device="cpu", overrides=options.overrides)
    if setup.state is None:
        raise ConfigError(
            f"'{name}' is scripted and reads the simulator's state; expected a trained policy; name a run or "
            "a checkpoint"
        )
    trained = setup.state["config"]["agent"]["network"].get("precision", "fp32")
    if "precision" in setup.config.agent.network:
        setup.config.agent.network.precision = "fp32"
    played = _played(options, name, setup)
    shipped = read_card(name.removeprefix(ZOO)) if is_shipped(name) else None
    command = _command(Path(setup.label)) if shipped is None else shell_line(shipped.command())
    card = {
        "kind": cards.KIND,
        "policy": Path(setup.label).name,
        "licence": options.licence or (None if shipped is None else shipped.licence),
        "env": {"name": setup.config.env.name, "decision_s": played.decision_s},
        **played.description,
        "training": {"command": command, **_training(setup, trained)},
        "score": played.score,
        "versions": {"navrl": navrl.__version__, "torch": str(torch.__version__)},
        "sha256": {"checkpoint": _sha256(find(setup.label, OUTPUTS))},
    }
    _write(options, path, card, played)


class Played(NamedTuple):
    """The policy after its episodes."""

    graph: PolicyGraph
    inputs: Columns
    outputs: Columns  # of the policy itself, as it played
    description: dict[str, Any]
    score: dict[str, Any]
    decision_s: float | None


def _played(options: argparse.Namespace, name: str, setup: PolicySetup) -> Played:
    """Play the episodes, and keep some of what the policy observed and did."""
    count, seed = options.num_episodes, options.seed
    with enough_memory("num_episodes", count):
        env = build_env(setup.config, num_envs=count, seed=seed, compile_mode="off")
        with contextlib.closing(env):
            policy: Any = build_policy(name, setup.config, setup.state, env)
            graph = PolicyGraph(policy.requires_grad_(False).eval(), env, sampled=options.sampled)
            recording = Recording(policy, graph, seed)
            torch.manual_seed(seed)
            ends = play(env, recording, deterministic=not options.sampled)
            while recording.seen < OBSERVATIONS:  # of short episodes there are not enough
                play(env, recording, deterministic=not options.sampled)
            inputs, outputs = recording.columns()
            metrics = summarise(ends, env.rate_names, env.counted_when, env.share_names)
            score = {
                "name": env.objective,
                **metrics[env.objective]._asdict(),
                "seed": seed,
                "opponent": opponent_name(setup.config, setup.choices),
                "all": {key: interval._asdict() for key, interval in metrics.items()},
            }
            return Played(
                graph, inputs, outputs, cards.describe(graph, env, inputs), score, env.decision_s
            )


def _write(options: argparse.Namespace, path: Path, card: dict[str, Any], played: Played) -> None:
    """Write file and card once the file has been compared with the policy."""
    kind = FORMATS[options.to]
    program = exported(played.graph, {n: c[:_EXAMPLE_ROWS] for n, c in played.inputs.items()})
    versions = {package: package_version(package) for package in kind.packages}
    card["versions"] |= versions
    # Both are whole before either takes its place; the card does so first, as its name alone may be a folder.
    with replacing(path) as temporary, replacing(card_of(path)) as described:
        temporary.write_bytes(kind.content(program, card))
        for rows in (1, OBSERVATIONS):  # a single simulation is a batch too
            inputs, outputs = (
                {name: column[:rows] for name, column in columns.items()}
                for columns in (played.inputs, played.outputs)
            )
            found = check(played.graph, inputs, outputs, kind.run(temporary, program, inputs))
            if not found.passed:
                raise ExportDiffers(_refusal(path, found))
        card["check"] = cards.checked(found, TOLERANCE)
        card["sha256"]["file"] = _sha256(temporary)
        write_atomically(described, to_json(card, indent=2) + "\n")
    _report(path, card, found)


class ExportDiffers(RuntimeError):  # noqa: N818 (it says what it is without a suffix)
    """An exported policy does not act as ours."""


def _refusal(path: Path, found: Check) -> str:
    worst = max(found.largest, key=lambda name: found.largest[name])
    return (
        f"the exported policy differs from ours by {found.largest[worst]:.3g} in {worst}; expected at most "
        f"{TOLERANCE:g} in every output; {path} is not written; choose another --to"
    )


def _report(path: Path, card: dict[str, Any], found: Check) -> None:
    score = card["score"]
    apart = ", ".join(f"{name} {value:.2g}" for name, value in found.largest.items())
    show(
        f"wrote {path} ({path.stat().st_size / 1e3:.0f} kB) and {card_of(path).name}\n"
        f"{score['name']} {score['mean']:.3f} ({score['low']:.3f}..{score['high']:.3f}) in {score['n']} "
        f"episodes; on {found.observations:,} observations the file differs from our policy by at most: "
        f"{apart}\n"
    )


def card_of(path: Path) -> Path:
    """Return the file of the card beside an exported policy."""
    return path.with_name(f"{path.name}.json")


def _check(options: argparse.Namespace) -> Path:
    """Return the file to write; raise ConfigError about wrong options before anything is played."""
    require_choice("--to", options.to, FORMATS)
    require_packages(options.to)
    require_whole("num_episodes", options.num_episodes, least=_LEAST_EPISODES)
    require_whole("seed", options.seed, least=0)
    path: Path = options.output or Path(f"policy.{options.to}")
    require_writable(path, suffix=f".{options.to}")
    for file in (path, card_of(path)):
        if file.exists() and not options.force:
            raise ConfigError(
                f"{file} exists; expected a new name; change --output, or add --force to replace it"
            )
    folder = path.absolute().parent
    if not os.access(folder, os.W_OK):
        raise ConfigError(
            f"--output {path}; expected a folder in which this user may write; change --output"
        )
    return path


def _training(setup: PolicySetup, trained: str) -> dict[str, Any]:
    """Return where the policy comes from."""
    state: Any = setup.state
    return {
        "frames": state["frames"],
        "iteration": state["iteration"],
        "agent": setup.config.agent.name,
        "precision": trained,
        "options": {
            group: str(name)
            for group, name in (state["choices"] or {}).items()
            if name and not group.startswith("hydra/")
        },
    }


def _command(checkpoint: Path) -> str | None:
    """Return the command that trained the policy, None where its run is not around it."""
    file = checkpoint.parent.parent / "overrides.yaml"
    if checkpoint.parent.name != "checkpoints" or not file.is_file():
        return None
    return shell_line(["navrl", "train", *words_of(read_text(file), file)])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "export",
        "Write a policy as a file that needs no navrl, and a card of JSON beside it (docs/export.md).",
        _EXAMPLES,
        positional=_POSITIONAL,
        settings=_SETTINGS,
        overrides=_OVERRIDES,
    )
    parser.add_argument(
        "--to", default="onnx", metavar="FORMAT", help=f"{' | '.join(FORMATS)}; default: onnx"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: policy.<format> in this folder"
    )
    parser.add_argument(
        "--sampled",
        action="store_true",
        help="draw the actions, from uniform numbers that are one more input",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    return parser


if __name__ == "__main__":
    sys.exit(main())
