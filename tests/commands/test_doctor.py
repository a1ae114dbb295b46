"""The doctor finds what is planted, and says what to do about it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from navrl import ranks
from navrl.commands import doctor
from navrl.run.environment import CORE_PACKAGES, package_version

ROOT = Path(__file__).resolve().parents[2]
GOOD = doctor.Check("conf", "ok", "/somewhere/conf")


def constraints_of(path, **versions):
    """A constraints file with the installed versions, some of them replaced."""
    lines = ["# tested set"]
    for name in CORE_PACKAGES:
        installed = package_version(name).partition("+")[0]
        lines.append(f"{name}=={versions.get(name.replace('-', '_'), installed)}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkout whose conf is found, whatever state the real one is in."""
    monkeypatch.setattr(doctor, "check_conf", lambda: [GOOD])
    monkeypatch.setattr(doctor, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["navrl"])
    return tmp_path


def test_a_good_installation_is_ready(place, capsys):
    constraints_of(place / "constraints.txt")
    assert doctor.main(["--outputs", str(place / "outputs")]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("navrl is ready\n")
    assert "WRONG" not in printed
    assert not (place / "outputs").exists()  # looking creates nothing


def test_a_wrong_version_is_found_and_the_remedy_is_below_it(place, capsys):
    constraints_of(place / "constraints.txt", lz4="99.1", hydra_core="0.9")
    assert doctor.main(["--outputs", str(place)]) == 1
    lines = capsys.readouterr().out.splitlines()
    wrong = [index for index, line in enumerate(lines) if line.startswith("WRONG")]
    assert [lines[index].split()[1] for index in wrong] == ["hydra-core", "lz4"]
    installed = package_version("lz4")
    assert lines[wrong[1]].endswith(f"{installed}, but navrl needs ==99.1")
    assert lines[wrong[1] + 1].strip() == "-> pip install 'lz4==99.1'"
    assert lines[-1].startswith("2 of ")


def test_json_says_the_same(place, capsys):
    constraints_of(place / "constraints.txt", torchrl="0.1")
    assert doctor.main(["--json", "--outputs", str(place)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["usable"] is False
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert states["torchrl"] == "error"
    assert [name for name, state in states.items() if state == "error"] == ["torchrl"]
    assert {"python", "cpu", "gpu", "cpu bf16", "c++ compiler", "disk", "outputs"} < states.keys()


def test_without_constraints_the_ranges_of_the_package_count(tmp_path, monkeypatch):
    ranges = ["torchrl<0.15,>=0.14.1", 'wandb (<0.32,>=0.31) ; python_version >= "3"']
    ranges += ["tensorboard>=2.18; extra == 'tensorboard'", "torch[opt]==2.13.*"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: ranges)
    wanted = doctor.wanted_versions(tmp_path / "constraints.txt")
    assert wanted == {"torchrl": "<0.15,>=0.14.1", "wandb": "<0.32,>=0.31", "torch": "==2.13.*"}


def test_a_package_that_is_absent_is_wrong(monkeypatch):
    monkeypatch.setattr(doctor, "package_version", lambda name: None)
    checks = doctor.check_packages({"lz4": ">=4.4"})
    assert {check.state for check in checks} == {"error"}
    assert checks[-1].remedy == "pip install 'lz4>=4.4'"


@pytest.mark.parametrize(
    ("version", "specifier", "expected"),
    [
        ("2.13.0+cpu", "==2.13.*", True),
        ("2.130.0", "==2.13.*", False),
        ("2.13", "==2.13.0", True),
        ("0.14.3", ">=0.14.3,<0.15", True),
        ("0.15.0", ">=0.14.3,<0.15", False),
        ("0.9", ">=0.10", False),
        ("1.3.8", ">1.3,<=1.3.8", True),
        ("2.9", "~=2.3", True),
        ("2.2", "~=2.3", False),
        ("7", "", True),
        ("7", "whatever", False),
    ],
)
def test_specifiers(version, specifier, expected):
    assert doctor.satisfies(version, specifier) is expected


def test_a_folder_that_cannot_be_written_is_wrong(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    assert doctor.check_writable(tmp_path / "a" / "b").state == "ok"
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    check = doctor.check_writable(tmp_path / "a" / "b")
    assert (check.state, check.found) == ("error", f"{tmp_path}: Permission denied")
    assert "hydra.run.dir=" in check.remedy


@pytest.mark.parametrize(("free_gb", "state"), [(1.9, "warn"), (2.1, "ok")])
def test_a_nearly_full_disk_is_noted(tmp_path, monkeypatch, free_gb, state):
    usage = type("Usage", (), {"free": free_gb * 1e9})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    assert doctor.check_disk(tmp_path / "outputs").state == state


def test_a_missing_compiler_is_noted_with_what_follows(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    check = doctor.check_compiler()
    assert check.state == "warn"
    assert "simulators run eager" in check.found
    assert "g++" in check.remedy


def test_bf16_is_read_from_the_flags():
    assert "in hardware (avx512_bf16)" in doctor.check_bf16({"sse", "avx512_bf16"}).found
    assert "not in hardware" in doctor.check_bf16({"sse", "avx512f"}).found


@pytest.mark.parametrize(
    ("text", "state", "found"),
    [
        ("# a\nmode: offline  # b\n", "ok", "offline: nothing leaves this machine"),
        ("mode: online\n", "ok", "online: metrics are sent to the wandb server"),
        ("", "warn", "no mode found"),
    ],
)
def test_the_mode_of_wandb_is_shown(tmp_path, text, state, found):
    (tmp_path / "wandb.yaml").write_text(text)
    check = doctor.check_wandb(tmp_path / "wandb.yaml")
    assert check.state == state
    assert check.found.startswith(found)


def test_the_shipped_default_is_offline():
    check = doctor.check_wandb(ROOT / "conf" / "logger" / "wandb.yaml")
    assert check.found == "offline: nothing leaves this machine"


def test_a_missing_conf_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setenv("NAVRL_CONF", str(tmp_path))
    (check,) = doctor.check_conf()
    assert check.state == "error"
    assert str(tmp_path) in check.found
    (tmp_path / "train.yaml").write_text("")
    found, wandb = doctor.check_conf()
    assert (found.state, found.found) == ("ok", str(tmp_path))
    assert wandb.state == "warn"


def test_a_torch_that_does_not_import_is_a_line_and_no_traceback(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libc10.so: cannot open')\n")
    done = subprocess.run(
        [sys.executable, "-m", "navrl.commands.doctor"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    # `python -m` puts the working directory first, PYTHONPATH second, site-packages last
    assert done.returncode == 1, done.stderr
    assert "WRONG  torch import" in done.stdout
    assert "libc10.so: cannot open" in done.stdout
    assert done.stderr == ""


def test_missing_packages_for_pictures_are_a_note_and_no_fault(monkeypatch):
    assert doctor.check_viz().name == "viz extra"
    monkeypatch.setattr(doctor, "package_version", lambda name: None)
    found = doctor.check_viz()
    assert (found.state, found.remedy) == ("warn", "pip install 'navrl[viz]'")
    assert "matplotlib, imageio-ffmpeg" in found.found


@pytest.mark.parametrize(
    ("available", "cores", "load", "state", "words"),
    [
        (False, 2, 0.0, "warn", "1: torch lacks torch.distributed"),
        (True, 1, 0.0, "ok", "1, there is one core"),
        (True, 4, 0.2, "ok", "ranks=auto trains by 4, one for each core, through "),
        (True, 4, 2.1, "warn", "others use 2 of 4 cores now"),
    ],
)
def test_the_ranks_that_a_machine_can_train_by(monkeypatch, available, cores, load, state, words):
    monkeypatch.setattr(torch.distributed, "is_available", lambda: available)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    found = doctor.check_ranks(gpus=0)
    assert found.state == state
    assert words in f"{found.found} {found.remedy}"


@pytest.mark.parametrize(
    ("quota", "number"), [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8)]
)
def test_a_container_may_use_as_many_cores_as_its_quota(tmp_path, monkeypatch, quota, number):
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(sys.modules["navrl.ranks.world"], "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert ranks.cores() == number
