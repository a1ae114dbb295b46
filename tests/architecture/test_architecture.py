"""Imports point downwards: the contracts of pyproject.toml hold, and they would notice."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lint_imports(directory):
    """The verdict of import-linter on the tree in `directory`."""
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=directory, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy_of_navrl(tmp_path):
    """The package's source and contracts in a directory of their own."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "navrl", tmp_path / "navrl", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_planted_violations_are_reported(copy_of_navrl):
    planted = {
        "envs/combat/sim": "import torchrl",
        "envs/navigation": "import navrl.envs.combat.env",
        "envs/core": "import navrl.envs.coverage.env",
        "envs": "import navrl.agents.planted",
        "agents": "import omegaconf",
        "collectors": "import lz4.frame",
        "storage": "import wandb",
        "view": "import optuna",
        "run": "import starlette",
        "loggers": "import navrl.run.plan",
        "config": "import navrl.contracts",
    }
    for package, line in planted.items():
        folder = copy_of_navrl / "navrl" / package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        (folder / "planted.py").write_text(f"{line}\n")
    result = lint_imports(copy_of_navrl)
    assert result.returncode == 1
    for package, line in planted.items():
        imported = line.removeprefix("import ").removesuffix(".frame")
        module = package.replace("/", ".")
        assert f"navrl.{module}.planted -> {imported}" in result.stdout, result.stdout


def test_what_lists_runs_does_without_torch():
    # It takes seconds and 200 MB; navrl runs ls answers within one.
    program = (
        "import sys; sys.modules['torch'] = None  # importing it fails\n"
        "import navrl.commands.runs, navrl.view.html, navrl.live.server"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
