"""conf/ is found from a checkout, from anywhere else, and from an installed wheel."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.commands
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, navrl
from navrl.config.compose import compose, conf_dir
print(json.dumps([navrl.__file__, str(conf_dir()), sorted(compose("train"))]))
"""


def run(directory, python_path):
    """Return where a new process in `directory` finds navrl and conf/, and the keys of train.yaml."""
    environment = {**os.environ, "PYTHONPATH": str(python_path)}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    package, conf, keys = json.loads(result.stdout)
    return Path(package).parent, Path(conf), keys


def build(kind, directory):
    """The wheel or sdist of a clean copy of the checkout, built without a network."""
    source = directory / "source"
    source.mkdir()
    for name in ("navrl", "conf", "release", "scripts", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in (
        "pyproject.toml",
        "README.md",
        "SECURITY.md",
        "LICENSE",
        "Makefile",
        "constraints.txt",
    ):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(directory)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = directory.glob("navrl-*.*")
    return built


def tree(folder):
    """The files below a folder, without what running and checking them leaves."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {path for path in found if not {"__pycache__", ".ruff_cache"} & {*path.parts}}


def test_conf_is_found_from_the_checkout_and_from_elsewhere(tmp_path):
    for directory in (ROOT, tmp_path):
        package, conf, keys = run(directory, ROOT)
        assert package == ROOT / "navrl"
        assert conf == ROOT / "conf"
        assert {"env", "agent"} <= set(keys)


def test_an_editable_install_reads_the_checkout(tmp_path):
    try:
        origin = importlib.metadata.distribution("navrl").read_text("direct_url.json") or "{}"
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("navrl is not installed")
    if not json.loads(origin).get("dir_info", {}).get("editable"):
        pytest.skip("navrl is not installed editable")
    package, conf, _ = run(tmp_path, "")
    assert conf == package.parent / "conf"


def test_a_wheel_brings_its_conf(tmp_path):
    wheel = build("wheel", tmp_path)
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(site), str(wheel)], check=True, capture_output=True)
    package, conf, keys = run(tmp_path, site)
    assert package == site / "navrl"
    assert conf == site / "navrl" / "conf"
    assert {"env", "agent"} <= set(keys)
    assert (site / "navrl" / "py.typed").exists()
    pages = {path.name for path in (ROOT / "navrl" / "view" / "page").iterdir()}
    assert {path.name for path in (package / "view" / "page").iterdir()} == pages
    templates = Path("navrl", "commands", "templates")
    assert tree(site / templates) == tree(ROOT / templates)
    assert tree(package / "zoo") == tree(ROOT / "navrl" / "zoo")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"navrl", "navrl-0.2.0.dist-info"}


def test_a_wheel_of_the_same_source_has_the_same_bytes(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = build("wheel", tmp_path / "first"), build("wheel", tmp_path / "second")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_an_sdist_holds_conf_once_and_no_leftovers(tmp_path):
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = archive.getnames()
    assert sum(name.endswith("/train.yaml") and "hydra" not in name for name in names) == 1
    tops = {name.split("/")[1] for name in names}
    assert tops <= {
        *("navrl", "conf", "release", "scripts", "tests", "Makefile", "constraints.txt"),
        "SECURITY.md",
        *("LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"),
    }
