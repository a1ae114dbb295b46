"""Fixtures for every test."""

import copy
import os
from pathlib import Path

import pytest
import torch
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from navrl.config.compose import compose

ROOT = Path(__file__).resolve().parents[1]
# First, so that two processes end at the same time.
_LONGEST = (
    *("test_readme.py", "test_contract.py", "test_train.py", "test_curriculum_runs.py"),
    "test_extending.py",
)


def pytest_collection_modifyitems(items):
    """The longest files go first."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


@pytest.fixture(autouse=True, scope="session")
def _no_composition_twice():
    """Hydra needs 80 ms for a configuration; of the checkout's conf/ each is composed once."""
    load, known = ConfigLoaderImpl.load_configuration, {}
    shipped = {"pkg://hydra.conf", str(ROOT / "conf"), "structured://"}

    def remembered(self, **what):
        places = {
            entry.path.removeprefix("file://") for entry in self.config_search_path.get_path()
        }
        key = str(what)
        if places != shipped or "hydra.searchpath" in key:
            return load(self, **what)
        if key not in known:
            known[key] = load(self, **what)
        found = copy.deepcopy(known[key])
        found.hydra.runtime.cwd = os.getcwd()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigLoaderImpl, "load_configuration", remembered)
        yield


@pytest.fixture(autouse=True)
def _one_thread():
    """Tensors in tests are small: a second thread gains nothing and loses much on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _neutral_environment(monkeypatch):
    """A developer's settings change no test, and nothing leaves the machine."""
    for name in ("NAVRL_CONF", "NAVRL_DEBUG", "HYDRA_FULL_ERROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")


@pytest.fixture
def traced_only(monkeypatch):
    """Trace compiled functions with their guards but run them eager: compiling C++ is slow."""
    compiled = torch.compile

    def traced(function, options, **how):
        guards = {"guard_filter_fn": options["guard_filter_fn"]}
        return compiled(function, backend="eager", options=guards, **how)

    monkeypatch.setattr(torch, "compile", traced)


@pytest.fixture
def root():
    """The top of the checkout."""
    return ROOT


@pytest.fixture
def compose_cfg():
    """compose_cfg("env=combat", "seed=1") -> the configuration of the train command."""

    def composed(*overrides, config_name="train"):
        return compose(config_name, overrides)

    return composed
