"""Record what short seeded runs compute, and compare two such records bit for bit.

    python scripts/record_numbers.py record numbers.json            # every case, a few seconds each
    python scripts/record_numbers.py record numbers.json hmasd_     # the cases whose name holds a word
    python scripts/record_numbers.py compare before.json after.json --renamed scripts/renamed_0_2.json

A change that moves code must not move numbers: record before it, record after it, compare. A record holds
every metric of every iteration, except times and memory, and digests of the tensors in the last checkpoint.
The digests do not depend on how tensors are called. `--renamed` is a JSON object {old metric: new metric}.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TINY = "num_envs=8 rollout_steps=8 total_frames=320 compile=off logger=none eval_episodes=8 seed=5"
COMBAT = "env=combat env.sim.time_limit_s=20 eval_opponents=[pursuit]"
FOREST = "env=navigation world.count=2 env.sim.time_limit_s=8"
PILLARS = "env=navigation_compat world.count=1 env.sim.time_limit_s=8"
PPO = "agent.network.precision=fp32 agent.num_minibatches=4"
UNTIMED = ("time/", "memory/")
OPPONENTS = ("straight", "pursuit", "crank", "crank_seed", "phase2", "phase3", "random", "stg_rule")
OPPONENTS += ("mixture", "scripts", "league")
REWARDS = (
    "standard",
    "shaped",
    "phase1",
    "phase2",
    "phase3",
    "seed_env",
    "cold_start",
    "legacy_standard",
)
REWARDS += ("zero",)
SCENARIOS = ("game28", "standard30", "rear", "far40", "box10", "mixture")
PLANNERS = ("greedy", "orca", "potential_field", "velocity_obstacles", "random")
ABLATIONS = ("no_team", "no_indi", "no_ex", "no_in", "no_high")


def cases() -> dict[str, str]:
    """Return the overrides of every training that is recorded, by name."""
    return {**_combat(), **_navigation(), **_teams(), **_experiments()}


def _combat() -> dict[str, str]:
    ppo = f"{COMBAT} agent=ppo {PPO}"
    found = {f"combat_opponent_{one}": f"{ppo} opponent={one}" for one in OPPONENTS}
    found |= {f"combat_reward_{one}": f"{ppo} reward={one}" for one in REWARDS}
    found |= {f"combat_scenario_{one}": f"{ppo} scenario={one}" for one in SCENARIOS}
    for one in ("ego_spacetime", "entities", "warp21", "dict10"):
        found[f"combat_observation_{one}"] = f"{ppo} observation={one}"
    for one in ("discrete_fine", "continuous"):
        found[f"combat_action_{one}"] = f"{ppo} action={one}"
    for one in ("stepwise", "compressed", "pipelined"):
        found[f"combat_collector_{one}"] = f"{ppo} collector={one}"
    for one in ("cold_start", "league"):
        found[f"combat_curriculum_{one}"] = f"{ppo} curriculum={one}"
    team = f"{COMBAT} env.team_size=2 observation=entities agent.network.precision=fp32"
    found |= {f"combat_team_{one}": f"{team} agent={one}" for one in ("ppo", "ippo", "mappo")}
    found["combat_team_hmasd"] = (
        f"{COMBAT} env.team_size=2 observation=entities agent=hmasd agent.k=4"
    )
    found["combat_legacy"] = f"{ppo} env.sim.model=legacy env.sim.guidance_law=legacy_gain"
    found["combat_curriculum_cold_start"] += " num_envs=120 agent.num_minibatches=4"
    found["combat_eval_every"] = f"{ppo} eval_every=2"
    found["combat_gru"] = f"{ppo} agent.network.rnn=gru agent.num_minibatches=2"
    found["combat_ema"] = (
        f"{ppo} agent.value_normalisation=ema agent.loss.value_clip=0.2 agent.loss.huber_delta=1.0"
    )
    found["combat_accumulate"] = (
        f"{ppo} agent.accumulate=2 agent.optimizer.critic_learning_rate=1e-3"
    )
    return found


def _navigation() -> dict[str, str]:
    found = {
        f"navigation_{agent}": f"{FOREST} agent={agent} {PPO}"
        for agent in ("ppo", "ppo_navigation")
    }
    found["navigation_navrl"] = f"{PILLARS} agent=ppo_navrl {PPO}"
    found["navigation_compat"] = f"{PILLARS} agent=ppo {PPO}"
    for one in ("kinematic", "first_order", "lee"):
        found[f"navigation_drone_{one}"] = f"{FOREST} agent=ppo_navigation {PPO} drone={one}"
    found["navigation_shield"] = f"{FOREST} agent=ppo_navigation {PPO} shield=on"
    found["navigation_pillars"] = (
        f"{FOREST} agent=ppo_navigation {PPO} world=pillars world.renew_episodes=1.0 curriculum=crowds"
    )
    found["navigation_cnn"] = f"{FOREST} agent=ppo {PPO} agent.network.lidar_encoder=cnn_circular"
    return found


def _teams() -> dict[str, str]:
    found = {}
    for env in ("alice_and_bob", "coverage", "coverage_relay", "coverage_compat"):
        for agent in ("ppo", "ippo", "mappo"):
            found[f"{env}_{agent}"] = f"env={env} agent={agent} agent.network.precision=fp32"
        found[f"{env}_hmasd"] = f"env={env} agent=hmasd agent.k=4"
    for one in ("histogram", "raw", "relative"):
        found[f"coverage_observation_{one}"] = f"env=coverage agent=ippo observation={one}"
    for one in ("codes", "one_hot"):
        found[f"alice_observation_{one}"] = f"env=alice_and_bob agent=ippo observation={one}"
    for one in ABLATIONS:
        found[f"hmasd_{one}"] = f"env=alice_and_bob agent=hmasd agent.k=4 agent.ablation={one}"
    found["hmasd_gru"] = (
        "env=alice_and_bob agent=hmasd agent.k=4 agent.actor.rnn=gru agent.actor.chunk_length=4"
    )
    found["hmasd_smdp"] = (
        "env=coverage agent=hmasd agent.k=4 agent.coordinator.gamma_mode=smdp agent.actor.critic=both"
    )
    team = "env=coverage agent=mappo agent.network.precision=fp32"
    found["mappo_separate"] = f"{team} agent.team.share_actor=false agent.team.agent_id=true"
    found["mappo_gru"] = (
        f"{team} agent.network.rnn=gru agent.team.critic=both env.reward_split=difference"
    )
    return found


def _experiments() -> dict[str, str]:
    small = "agent.num_minibatches=4 agent.network.precision=fp32"
    return {
        "experiment_debug": "experiment=debug total_frames=640 num_envs=16",
        "experiment_demo": f"experiment=demo {COMBAT} {small}",
        "experiment_navigation": f"experiment=navigation world.count=1 env.sim.time_limit_s=8 {small}",
        "experiment_alice_hmasd": "env=alice_and_bob agent=hmasd experiment=alice_hmasd",
        "experiment_alice_hmasd_paper": (
            "env=alice_and_bob agent=hmasd experiment=alice_hmasd_paper agent.actor.chunk_length=8"
        ),
        "experiment_alice_mappo": f"experiment=alice_mappo {small}",
        "experiment_coverage_mappo": f"experiment=coverage_mappo {small}",
        "experiment_relay_mappo": f"experiment=relay_mappo {small}",
        "experiment_relay_hmasd": "experiment=relay_hmasd agent.actor.num_minibatches=4",
        "experiment_combat_commander": (
            "experiment=combat_commander eval_opponents=[pursuit] env.sim.time_limit_s=20 "
            "agent.actor.num_minibatches=4"
        ),
    }


def evaluations() -> dict[str, str]:
    """Return the arguments of every evaluation that is recorded, by name."""
    world = "env=navigation num_episodes=8 compile=off world.count=2 env.sim.time_limit_s=8"
    found = {
        f"evaluate_{one}": f"checkpoint=scripted:{one} shield={shield} {world}"
        for one in PLANNERS
        for shield in (("none", "on") if one == "greedy" else ("none",))
    }
    fights = "env=combat num_episodes=16 compile=off"
    found |= {
        f"evaluate_{one}": f"checkpoint=scripted:{one} opponent=crank {fights}"
        for one in OPPONENTS
        if one not in ("mixture", "scripts", "league")
    }
    return found


def record(name: str, overrides: str) -> dict[str, Any]:
    """Return the numbers of one case, or what it printed where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        if name.startswith("evaluate_"):
            words = ["navrl.evaluate", *overrides.split()]
            words.append(f"output={folder}/result.json")
        else:
            words = ["navrl.train", *TINY.split(), *overrides.split(), f"hydra.run.dir={run}"]
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "WANDB_MODE": "offline"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return {"failed": (done.stderr or done.stdout)[-600:]}
        if name.startswith("evaluate_"):
            result = json.loads((Path(folder) / "result.json").read_text())
            return {"rows": [dict(_numbers(result))]}
        return _of_run(run)


def _of_run(run: Path) -> dict[str, Any]:
    from navrl.storage import load

    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows.append(json.loads((run / "summary.json").read_text()))
    newest = max((run / "checkpoints").glob("step_*.ckpt"))
    digests = sorted(_digest(tensor) for tensor in _tensors(load(newest)))
    return {"rows": [dict(_numbers(row)) for row in rows], "tensors": digests}


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number in nested data with its name, except times and memory."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{name}.{index}")
    elif not isinstance(value, str) and not name.startswith(UNTIMED) and "second" not in name:
        yield name, value


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            if (
                key != "numpy"
            ):  # the state of NumPy's global generator, which navrl saves but never seeds
                yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "numpy"):
        yield value


def _digest(tensor: Any) -> str:
    import torch

    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(f"{tensor.dtype}{tuple(tensor.shape)}".encode() + flat).hexdigest()[:16]


def compare(before: dict[str, Any], after: dict[str, Any], renamed: dict[str, str]) -> list[str]:
    """Return a line for every difference between two records."""
    lines = [f"{name}: only in one record" for name in sorted(before.keys() ^ after.keys())]
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        if "failed" in old or "failed" in new:
            lines.append(f"{name}: failed: {(old.get('failed') or new.get('failed'))[-200:]}")
            continue
        lines += [f"{name}: {line}" for line in _differences(old, new, renamed)]
    return lines


def _differences(
    old: dict[str, Any], new: dict[str, Any], renamed: dict[str, str]
) -> Iterator[str]:
    if len(old["rows"]) != len(new["rows"]):
        yield f"{len(old['rows'])} rows became {len(new['rows'])}"
    for index, (first, second) in enumerate(zip(old["rows"], new["rows"], strict=False)):
        was = {renamed.get(key, key): value for key, value in first.items()}
        changed = [key for key in was.keys() & second.keys() if was[key] != second[key]]
        if changed:
            yield f"row {index}: {[(key, was[key], second[key]) for key in sorted(changed)[:5]]}"
        if was.keys() != second.keys():
            yield f"row {index}: names {sorted(was.keys() ^ second.keys())[:8]}"
    if old.get("tensors") != new.get("tensors"):
        a, b = set(old["tensors"]), set(new["tensors"])
        yield f"tensors: {len(a - b)} of {len(a)} gone, {len(b - a)} new"


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    one = actions.add_parser("record")
    one.add_argument("output", type=Path)
    one.add_argument("word", nargs="?", default="")
    one.add_argument("--jobs", type=int, default=2)
    two = actions.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    two.add_argument("--renamed", type=Path)
    given = parser.parse_args()
    if given.action == "compare":
        renamed = json.loads(given.renamed.read_text()) if given.renamed else {}
        before, after = (json.loads(path.read_text()) for path in (given.before, given.after))
        lines = compare(before, after, renamed)
        print("\n".join(lines) or f"{len(before)} cases are equal bit for bit")
        raise SystemExit(bool(lines))
    chosen = {name: it for name, it in {**cases(), **evaluations()}.items() if given.word in name}
    with ThreadPoolExecutor(given.jobs) as pool:
        done = pool.map(record, chosen, chosen.values())
        records = {}
        for name, found in zip(chosen, done, strict=True):
            records[name] = found
            print(f"{name}: {'FAILED' if 'failed' in found else 'ok'}", flush=True)
    given.output.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
