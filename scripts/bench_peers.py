"""Compare one PPO iteration of air combat by navrl and by four other libraries, in turns, in one process.

    .venv/bin/python scripts/bench_peers.py [agent.network.hidden_sizes=[64,64]] ... [--repeats 5]

The first call makes a virtual environment of its own under outputs/peers, because the other libraries are no
dependencies of navrl; it has the same torch.

Every library runs its own PPO on the same compiled simulator, with networks of the same sizes, as many
frames, epochs and minibatches, fp32, one thread; scripts/peers has an adapter for each. Gradient steps are
counted, and more or fewer are an error. Processor time is measured, so that a busy machine spoils little.
Besides, navrl normalises observations, checks that the rollout is its policy's, and asks the critic about the
true ends of episodes; the others do none of it here. `floor` is the arithmetic alone: the same simulator
steps, forwards, backwards and torch's own fused Adam in eager torch.
"""

import subprocess
import sys
import venv
from pathlib import Path

from timing import parser

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "outputs" / "peers"
PEERS = ("rsl-rl-lib==5.5.1", "skrl==2.1.1", "stable-baselines3==2.9.2")


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
        subprocess.run([python, "-m", "pip", "install", "--quiet", *constrained], check=True)
    stamp.write_text("\n".join(PEERS), encoding="utf-8")
    return python


def main() -> None:
    """Install if need be, then measure with that interpreter."""
    options = parser(__doc__, overrides=True, repeats=5).parse_args()
    command = [prepared(), "-m", "peers.race", str(options.repeats), *options.overrides]
    sys.exit(subprocess.run(command, check=False, cwd=ROOT / "scripts").returncode)


if __name__ == "__main__":
    main()
