"""Run folders as the train command leaves them, without training."""

import json

CONFIG = "env: {{name: {env}, objective: success}}\nagent: {{name: {agent}}}\nseed: {seed}\n"


def write_run(path, *, env="alice_and_bob", agent="hmasd", seed=0, iterations=12, extra=()):
    """A run that learned, with the rows of its iterations and one late evaluation."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(CONFIG.format(env=env, agent=agent, seed=seed))
    words = [f"env={env}", f"agent={agent}", f"seed={seed}", *extra]
    (path / "overrides.yaml").write_text("".join(f"- {json.dumps(word)}\n" for word in words))
    (path / "status.json").write_text('{"state": "finished"}\n')
    (path / "summary.json").write_text(json.dumps({f"eval/{env}/success": 0.9 + 0.01 * seed}))
    rows = [row(i, seed, iterations, agent) for i in range(1, iterations + 1)]
    rows.append(
        {"iteration": iterations // 2, "frames": 1000 * (iterations // 2), "eval/success": 0.5}
    )
    (path / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return path


def score(run, **rates):
    """Give a run these final rates."""
    (run / "summary.json").write_text(
        json.dumps({f"eval/{name}/success": rate for name, rate in rates.items()})
    )


def add_options(run, text):
    """Add lines of YAML to the configuration of a run."""
    path = run / "config.yaml"
    path.write_text(path.read_text() + text)


def row(iteration, seed, iterations, agent):
    """Return the row of one iteration."""
    done = iteration / iterations
    skills = {
        **{f"skill/usage_Z_{i}": share for i, share in enumerate((1 - done / 2, done / 2))},
        **{f"skill/usage_z_{i}": 0.25 for i in range(4)},
        **{"skill/switches": 0.5, "high/policy/entropy_team": 0.69 * (1 - done)},
        **{"high/ended_by/interval": 40.0, "high/ended_by/rollout_end": 8.0},
    }
    return {
        **{"iteration": iteration, "frames": 1000 * iteration},
        **{
            "episode/success": done * (0.9 + 0.03 * seed),
            "episode/return": done,
            "episode/count": 9.0,
        },
        **{"reward/team": done, "reward/diamond": None if iteration == 1 else 0.1 * seed},
        **(skills if agent == "hmasd" else {}),
        **{"loss/policy": 0.1 / iteration, "policy/entropy": 1.6 - done, "sync/replay_error": 1e-7},
        **{
            "time/iteration": 2.0,
            "time/collect": 1.2,
            "time/update": 0.7,
            "time/fps": 500.0 + seed,
        },
        "memory/rss_mb": 300.0,
    }
