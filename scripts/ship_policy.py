"""Put the policy of a finished run into navrl/zoo, and complete its card with what was measured.

    .venv/bin/python scripts/ship_policy.py combat-scripts outputs/combat-ppo/<run>

The card's file holds already what no run knows: `does`, `options`, `objective`, `scores` with `setting` and
`options`, `other_seeds` or a `margin`. The run has to be of exactly those options.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
from pathlib import Path

from navrl import __version__
from navrl.commands.checkpoint import main as checkpoint
from navrl.config.stored import words_of
from navrl.run.cards import Card, Score, measure
from navrl.run.device import prepare_process
from navrl.storage.files import read_text
from navrl.storage.find import ZOO_FOLDER

_NOT_OF_THE_POLICY = ("console=", "logger=", "seed=")
_EPISODES, _EVALUATION_SEED = 1000, 1_000_003  # as the final evaluation of a run


def main() -> None:
    """Write navrl/zoo/<name>.ckpt and navrl/zoo/<name>.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("run", type=Path)
    options = parser.parse_args()
    prepare_process(1)
    file = ZOO_FOLDER / f"{options.name}.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    require_options(options.run, written["options"])
    policy = ZOO_FOLDER / f"{options.name}.ckpt"
    if checkpoint(["export", str(options.run), str(policy)]):
        raise SystemExit(1)
    card = measured(facts(options.name, written, options.run, policy), policy)
    file.write_text(json.dumps(card.as_json(), indent=2) + "\n", encoding="utf-8")


def require_options(run: Path, expected: list[str]) -> None:
    """Exit unless the run was started with these options."""
    file = run / "overrides.yaml"
    words = words_of(read_text(file), file)
    found = [word for word in words if not word.startswith(_NOT_OF_THE_POLICY)]
    if found != expected:
        raise SystemExit(f"{run} was trained with {found}; expected {expected} as on the card")


def facts(name: str, written: dict, run: Path, policy: Path) -> Card:
    """Return the card with all but the scores."""
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    status = json.loads((run / "status.json").read_text(encoding="utf-8"))
    first, last = ((run / part).stat().st_mtime for part in ("config.yaml", "summary.json"))
    content = policy.read_bytes()
    scores = tuple(
        Score(each["setting"], tuple(each["options"]), 0.0, 0.0, 0.0) for each in written["scores"]
    )
    return Card(
        name=name,
        does=written["does"],
        env=written["env"],
        agent=written["agent"],
        options=tuple(written["options"]),
        seed=seed_of(run),
        frames=status["frames"],
        minutes=round((last - first) / 60.0, 1),
        machine=f"{environment['cpu']}, {environment['threads']} thread, beside other work",
        date=datetime.date.fromtimestamp(last).isoformat(),
        version=__version__,
        commit=environment["git"]["commit"],
        objective=written["objective"],
        scores=scores,
        other_seeds=written["other_seeds"],
        margin=written["margin"],
        episodes=_EPISODES,
        evaluation_seed=_EVALUATION_SEED,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
    )


def seed_of(run: Path) -> int:
    """Return the seed of a run."""
    for line in (run / "config.yaml").read_text(encoding="utf-8").splitlines():
        if line.startswith("seed: "):
            return int(line.removeprefix("seed: "))
    raise SystemExit(f"{run} has no seed")


def measured(card: Card, policy: Path) -> Card:
    """Return the card with the scores of this file."""
    found = measure(str(policy), card)
    scores = tuple(
        score._replace(
            **{
                key: round(value, 6)
                for key, value in found[score.setting]._asdict().items()
                if key != "n"
            }
        )
        for score in card.scores
    )
    return card._replace(scores=scores)


if __name__ == "__main__":
    main()
