"""python -m navrl.evaluate: play exactly N episodes of one policy and print their statistics."""

from __future__ import annotations

if __name__ == "__main__":
    from navrl.config.signals import end_at_once

    end_at_once()

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

import navrl
from navrl.config.checks import require_writable
from navrl.config.command import run_main, split_overrides
from navrl.config.command_line import show
from navrl.config.quoting import override
from navrl.run.device import prepare_process
from navrl.run.episodes import table
from navrl.run.policies import measure_policy, spelled_out
from navrl.selfplay.league_table import league_record, league_table, load_league
from navrl.storage.files import to_json as json_text
from navrl.storage.files import write_atomically
from navrl.storage.find import OUTPUTS, find

_GROUPS = ("opponent", "shield")  # groups of conf/evaluate.yaml that replace those of the run


def evaluate(cfg: DictConfig) -> None:
    """Run the command."""
    prepare_process(cfg.threads)
    output = None if cfg.output is None else Path(cfg.output)
    require_writable(output, "output")
    if cfg.league is not None:
        path = find(str(cfg.league), OUTPUTS)
        payoff = load_league(path, str(cfg.league))
        show(f"{path}\n\n{league_table(payoff)}")
        _write(
            output, {"checkpoint": str(path), "version": navrl.__version__, **league_record(payoff)}
        )
        return
    words = HydraConfig.get().overrides.task
    overrides = [] if cfg.env_name is None else [f"env={cfg.env_name}"]
    overrides += [*cfg.overrides, *(word for word in words if word.startswith(_GROUPS))]
    metrics, found, opponent = measure_policy(
        str(cfg.policy),
        overrides=overrides,
        num_episodes=cfg.num_episodes,
        seed=cfg.seed,
        deterministic=cfg.deterministic,
        device=cfg.device,
        compile_mode=cfg.compile,
    )
    number = f"{cfg.num_episodes} episode{'s' * (cfg.num_episodes > 1)}"
    played = f"against {opponent}" if opponent else f"in {found.config.env.name}"
    show(f"{found.label} {played}: {number}, seed {cfg.seed}\n")
    show(table(metrics))
    result = {
        "metrics": {name: interval._asdict() for name, interval in metrics.items()},
        "policy": found.label,
        "frames": None if found.state is None else found.state["frames"],
        "version": navrl.__version__,
        "opponent": opponent,
        "env": found.config.env.name,
        "seed": cfg.seed,
        "num_episodes": cfg.num_episodes,
        "deterministic": cfg.deterministic,
    }
    _write(output, result)


def _write(output: Path | None, result: Mapping[str, Any]) -> None:
    """Write the result as JSON, if output= names a file."""
    if output is not None:
        write_atomically(output, json_text(result, indent=2) + "\n")
        show(f"wrote {output}\n")


def arguments_of(words: Sequence[str]) -> list[str]:
    """Return the arguments for Hydra; options of the env become one list.

    Hydra takes `checkpoint=` and `env=` for groups of conf/, so the keys behind them have other names.
    """
    own, overrides = split_overrides(words, "evaluate")
    own = [re.sub(r"^checkpoint=", "policy=", word) for word in own]
    own = [re.sub(r"^env=", "env_name=", word) for word in own]
    own = [part for word in own for part in spelled_out(word)]
    return [*own, override("overrides", overrides)] if overrides else own


def main() -> None:
    """Enter `python -m navrl.evaluate` and `navrl evaluate`."""
    run_main(evaluate, "evaluate", arguments_of)


sys.modules[__name__].__class__ = navrl.Command  # navrl.evaluate(...)

if __name__ == "__main__":
    main()
