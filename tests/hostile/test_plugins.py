"""Code of strangers: nothing has a module imported that the user did not name."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import navrl
import navrl.evaluate
import navrl.train
from navrl.commands import bench_navigation, checkpoint, replay, report, tournament
from navrl.config import plugins
from navrl.config.build import construct
from navrl.config.checks import ConfigError
from navrl.config.compose import group_options
from navrl.storage.checkpoint import load, write_state
from navrl.storage.find import find
from tests.command_line import command

pytestmark = pytest.mark.hostile
ROOT = Path(__file__).resolve().parents[2]
TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "opponent=crank"),
    *("env.sim.tick_s=0.25", "total_frames=128", "hydra.run.dir=outputs/run"),
)
SPY = "open(r'{mark}', 'w').close()\n"  # needs no module, which might be the stranger's too
PART = "class Part:\n    def __init__(self, **_): ...\n\ndef term(transition): ...\n"
REWARD = {"_target_": "evil.parts.term", "_partial_": True}
# Keys of the stored configuration that a stranger changes, all of them besides `plugins: [evil]`.
STORED = {
    "a reward": {"reward.terms.outcome": REWARD},
    "an opponent": {"opponent": {"_target_": "evil.parts.Part"}},
    "an agent": {"agent._target_": "evil.parts.Part"},
    "an env": {"env._target_": "evil.parts.Part"},
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert command(navrl.train.main, *TINY) == 0
    return folder


@pytest.fixture
def mark(tmp_path):
    """The file that a module of the stranger makes when it is imported."""
    return tmp_path / "imported"


@pytest.fixture
def folder(original, tmp_path, monkeypatch, mark):
    """A stranger's folder, in which we are: a run, the package evil, and a `conf` beside them."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True, symlinks=True)
    for name, text in {"__init__": "", "parts": PART}.items():
        for place in (tmp_path, tmp_path / "outputs" / "run"):
            (place / "evil").mkdir(exist_ok=True)
            (place / "evil" / f"{name}.py").write_text(SPY.format(mark=mark) + text)
            (place / "conf" / "opponent").mkdir(parents=True, exist_ok=True)
            (place / "conf" / "opponent" / "evil.yaml").write_text("_target_: evil.parts.Part\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_typed", [])
    plugins._installed.cache_clear()
    yield tmp_path
    plugins._installed.cache_clear()
    assert "evil" not in sys.modules


def store(changes):
    """Write what a stranger wants into the checkpoint of the run."""
    file = find("run", Path("outputs"))
    state = load(file)
    searched = {"searchpath": ["file://conf", "pkg://evil"], "job": {"name": "x"}}
    for key, value in {"plugins": ["evil"], "hydra": searched, **changes}.items():
        *way, last = key.split(".")
        functools.reduce(dict.__getitem__, way, state["config"])[last] = value
    state["choices"] |= {"plugins": "evil"}
    write_state(file, state, frames=state["frames"], score=None)
    overrides = Path("outputs", "run", "overrides.yaml")
    overrides.write_text(overrides.read_text() + '- "plugins=[evil]"\n- "--config-dir=conf"\n')


def in_api(function, *words):
    def call():
        try:
            function(*words)
        except ConfigError as error:
            sys.exit(str(error))

    return call


RUN = "outputs/run"
READERS = {
    "evaluate": (navrl.evaluate.main, f"checkpoint={RUN}", "num_episodes=1"),
    "resume": (navrl.train.main, f"resume={RUN}", "total_frames=256", "console=none"),
    "resume=auto": (navrl.train.main, *TINY, "total_frames=256", "resume=auto"),
    "opponent": (
        *(navrl.evaluate.main, "checkpoint=scripted:crank", "num_episodes=1"),
        f"opponent=checkpoint:{RUN}",
    ),
    "replay": (lambda: sys.exit(replay.main()), RUN),
    "tournament": (
        *(lambda: sys.exit(tournament.main()), f"pilots=crank,{RUN}", "num_episodes=2"),
    ),
    "bench-navigation": (lambda: sys.exit(bench_navigation.main()), RUN, "num_episodes=1"),
    "load": (in_api(navrl.load, RUN),),
    "navrl.evaluate": (in_api(navrl.evaluate, RUN),),
}


ATTACKS = [("evaluate", wanted) for wanted in STORED] + [(reader, "an agent") for reader in READERS]


@pytest.mark.parametrize(("reader", "wanted"), dict.fromkeys(ATTACKS))
def test_a_stored_plugin_is_not_imported(folder, capsys, mark, reader, wanted):
    sys.path.insert(0, str(folder))  # as for `python -m`; or installed, without our entry point
    store(STORED[wanted])
    main, *words = READERS[reader]
    code = command(main, *words)
    err = capsys.readouterr().err + (code if isinstance(code, str) else "")
    assert code
    assert "Traceback" not in err
    assert "evil" not in sys.modules
    assert not mark.exists()
    assert "'evil.parts." in err or reader == "bench-navigation", err  # which has another env
    assert "may not build" in err or reader == "bench-navigation", err


def test_a_stored_factory_is_not_imported(folder, mark):
    sys.path.insert(0, str(folder))
    options = {"num_envs": 1, "device": "cpu", "seed": 0, "name": "combat", "objective": "return"}
    options |= {"headline": {}, "horizon": None, "options": {}, "vectorization": "sync"}
    world = {"_target_": "navrl.envs.TorchRLEnv", "action_bounds": None, **options}
    with pytest.raises(ConfigError, match=r"add plugins=\[evil\]"):
        construct({**world, "factory": "evil.parts.Part"}, "env", from_checkpoint=True)
    assert not mark.exists()


def test_what_only_reads_runs_builds_nothing(folder, capsys, mark):
    store(STORED["an opponent"])
    for main, *words in (
        (report.main, [RUN]),
        (checkpoint.main, ["ls", RUN]),
        (checkpoint.main, ["show", RUN]),
        (checkpoint.main, ["verify", RUN]),
    ):
        assert main(*words) == 0, capsys.readouterr().err
    assert navrl.Run(RUN).config["num_envs"] == 16
    words = [*TINY[:-1], "hydra.run.dir=outputs/other", f"init={RUN}"]
    assert command(navrl.train.main, *words) == 0
    assert "evil" not in group_options("opponent")
    assert not mark.exists()


def test_metadata_in_the_current_folder_installs_nothing(folder, monkeypatch, mark):
    info = folder / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[navrl.plugins]\nevil = evil\n")
    for first in ("", str(folder)):
        monkeypatch.setattr(sys, "path", [first, *sys.path])
        plugins._installed.cache_clear()
        assert "evil" not in plugins.allowed()
        with pytest.raises(ConfigError, match="may not build"):
            construct(REWARD, "reward", from_checkpoint=True)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "os",
            "json",
            "multiprocessing",
            "navrl",
            "my.lab",
            "my/lab",
            "../evil",
            "./evil",
            ".evil",
        ),
        *("evil.parts", "evil:parts", "evil\\x00", "", "evil ", "-", "__main__"),
    ],
)
def test_names_that_no_plugin_has(folder, mark, name):
    with pytest.raises(ConfigError):
        plugins.allow_plugins([f"plugins=['{name}']"])
    assert plugins.allowed() == []
    assert not mark.exists()


@pytest.fixture
def lab(folder):
    """A package of the user beside the stranger's, which is allowed."""
    (folder / "mylab").mkdir()
    (folder / "mylab" / "__init__.py").write_text("import os\nfrom functools import partial\n")
    plugins.allow_plugins(["plugins=[mylab]"])
    yield folder
    sys.modules.pop("mylab", None)


@pytest.mark.parametrize(
    "target",
    [
        *("mylab/../evil.parts.Part", "mylab.../evil.parts.Part", "mylab..evil.parts.Part"),
        *("mylab./evil/parts.Part", "mylab.evil.parts.Part", "mylab .evil.Part", ".mylab.Part"),
        *("mylab\x00.evil.Part", "my\u200blab.Part", "\uff4dylab.Part", "m\u0443lab.Part", "mylab"),
        *("mylab.os.system", "mylab.partial", "mylab.__builtins__", "mylab.__loader__.load_module"),
        *("mylab.__class__", "mylab.", ".", "", "evil.parts.Part", "MYLAB.Part"),
    ],
)
def test_an_allowed_package_opens_no_way_to_another(lab, mark, target):
    with pytest.raises(ConfigError) as caught:
        construct({"_target_": target}, "reward", from_checkpoint=True)
    assert "\n" not in str(caught.value)
    assert not mark.exists()


SHADOWS = ("json", "random", "torch", "yaml", "hydra_plugins", "sitecustomize")


def test_nothing_beside_a_plugin_takes_the_place_of_anything(folder, mark):
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(SPY.format(mark=mark))
    plugins.allow_plugins(["plugins=[evil]"])  # the user's own wish
    assert sys.path[-1] == str(folder)
    plugins._typed.clear()
    sys.path.remove(str(folder))
    for wish in ("torchrl", "absent"):  # found elsewhere, and nowhere
        try:
            plugins.allow_plugins([f"plugins=[{wish}]"])
        except ConfigError:
            assert wish == "absent"
        assert str(folder) not in sys.path
    plugins._typed.clear()


@pytest.mark.parametrize("package", ["torch", "pip", "numpy"])
def test_nobody_is_talked_into_a_package_that_is_not_for_navrl(package):
    with pytest.raises(ConfigError) as caught:
        construct({"_target_": f"{package}.load"}, "reward", from_checkpoint=True)
    assert "may not build" in str(caught.value)
    assert "plugins=[" not in str(caught.value)


CONSOLE_SCRIPT = "import sys\nfrom navrl.cli import main\nsys.exit(main())\n"


def test_a_command_and_its_children_import_nothing_from_the_current_folder(
    folder, mark, tmp_path_factory
):
    script = tmp_path_factory.mktemp("bin") / "navrl"
    script.write_text(CONSOLE_SCRIPT)
    names = {*sys.stdlib_module_names, "navrl", "numpy", "torch", "yaml", "hydra_plugins", "triton"}
    for name in names:
        (folder / f"{name}.py").write_text(SPY.format(mark=mark))
    words = ["evaluate", f"checkpoint={RUN}", "num_episodes=1"]
    done = subprocess.run(
        [sys.executable, str(script), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 episode" in done.stdout
    assert not mark.exists()
