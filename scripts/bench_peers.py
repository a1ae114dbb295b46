"""Compare PPO on air combat by navrl and by five other libraries: speed in turns, or time to a share of wins.

    .venv/bin/python scripts/bench_peers.py [agent.network.hidden_sizes=[64,64]] ... [--repeats 5]
    .venv/bin/python scripts/bench_peers.py --until 0.8 [--seeds 1,2,3,4,5] [--only navrl_ppo:own,skrl] ...

The first call makes a virtual environment of its own under outputs/peers, because the other libraries are no
dependencies of navrl; it has the same torch.

Speed: every library runs its own PPO on the same compiled simulator, with networks of the same sizes, as many
frames, epochs and minibatches, fp32, one thread; scripts/peers has an adapter for each. Gradient steps are
counted, and more or fewer are an error. Processor time is measured, so that a busy machine spoils little.
`jax_ppo` is a PPO in JAX and optax on that simulator too, and `jax_alone` the same with the simulator in JAX.
Besides, navrl normalises observations, checks that the rollout is its policy's, and asks the critic about the
true ends of episodes; the others do none of it here. `floor` is the arithmetic alone: the same simulator
steps, forwards, backwards and torch's own fused Adam in eager torch.

Until: processor time and frames until 80 % of the latest 1,000 training episodes against `crank` are won,
with navrl's settings of the speed comparison, or with those that the library's makers recommend (`:own`); of
navrl, with what it ships, whose actions are discrete. The discount is the same for all. An iteration that
compiles counts as the median of the others.
"""

import argparse
import subprocess
import sys
import venv
from pathlib import Path

from timing import parser

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "outputs" / "peers"
PEERS = (
    "rsl-rl-lib==5.5.1",
    "skrl==2.1.1",
    "stable-baselines3==2.9.2",
    "jax==0.10.2",
    "optax==0.2.8",
)
LEARNERS = (
    "navrl_ppo:own",
    "navrl_ppo",
    "jax_ppo",
    "rsl_rl:own",
    "rsl_rl",
    "skrl:own",
    "skrl",
    "stable_baselines3:own",
    "stable_baselines3",
)


def prepared() -> Path:
    """Return the interpreter that has all libraries; install them the first time."""
    python, stamp = FOLDER / "bin" / "python", FOLDER / "installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8").split() == list(PEERS):
        return python
    sys.stdout.write(f"installing {', '.join(PEERS)} in {FOLDER.relative_to(ROOT)}\n")
    venv.create(FOLDER, with_pip=True)
    # Torch first and every time constrained to the same version, so that no peer brings another one.
    for wanted in (["torch"], ["-e", str(ROOT)], list(PEERS)):
        constrained = ["-c", str(ROOT / "constraints.txt"), *wanted]
        command = [python, "-m", "pip", "install", "--quiet", *constrained]
        if subprocess.run(command, check=False).returncode:
            sys.exit(f"{' '.join(wanted)} cannot be installed in {FOLDER}; pip says why above")
    stamp.write_text("\n".join(PEERS), encoding="utf-8")
    return python


def main() -> None:
    """Install if need be, then measure with that interpreter."""
    options = arguments()
    command = [str(prepared()), "-m", "peers.race", str(options.repeats)]
    if options.until is not None:
        command[2:] = ["peers.until", str(options.until), options.seeds, options.only]
    done = subprocess.run([*command, *options.overrides], check=False, cwd=ROOT / "scripts")
    sys.exit(done.returncode)


def arguments() -> argparse.Namespace:
    """Return the options."""
    made = parser(__doc__, overrides=True, repeats=5)
    made.add_argument(
        "--until", type=float, metavar="SHARE", help="of wins, to measure the time to it"
    )
    made.add_argument(
        "--seeds", default="1,2,3,4,5", help="one training of each; default: 1,2,3,4,5"
    )
    all_of_them = ",".join(LEARNERS)
    made.add_argument("--only", default=all_of_them, help=f"who trains; default: {all_of_them}")
    options = made.parse_args()
    for name in options.only.split(","):
        if name not in LEARNERS:
            made.error(f"--only {name}: expected some of {all_of_them}")
    if not all(seed.isdecimal() for seed in options.seeds.split(",")):
        made.error(f"--seeds {options.seeds}: expected whole numbers such as 1,2,3")
    if options.until is not None and not 0.0 < options.until <= 1.0:
        made.error(f"--until {options.until:g}: expected a share above 0, up to 1")
    return options


if __name__ == "__main__":
    main()
