"""Fixtures for every test."""

import functools
import gc
import os
import pickle
from pathlib import Path

import pytest
import torch
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.core.utils import JobRuntime
from hydra.types import RunMode

from navrl.config.compose import compose

ROOT = Path(__file__).resolve().parents[1]
# First, so that two processes end at the same time.
_LONGEST = (
    *("test_readme.py", "test_contract.py", "test_train.py", "test_curriculum_runs.py"),
    *("test_extending.py", "test_resume_rules.py", "test_batch_independence.py"),
)
_SHIPPED = {"pkg://hydra.conf", f"file://{ROOT / 'conf'}", "structured://"}
_ELSEWHERE = ("hydra.searchpath", "hydra.job.name")  # of which nothing is remembered
gc.disable()  # until everything is imported, which no collection could free


def pytest_collection_modifyitems(items):
    """The longest files go first."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish():
    """Modules and tests stay to the end: collecting garbage looks at them no more."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _no_composition_twice():
    """Hydra needs 80 ms for a configuration; of the checkout's conf/ no step is done twice."""
    load = ConfigLoaderImpl.load_configuration
    merge = ConfigLoaderImpl._compose_config_from_defaults_list
    read = ConfigRepository.load_config
    known = {}

    def read_once(self, config_path):
        return _once(known, ("read", config_path), self, lambda: read(self, config_path))

    def merge_once(self, defaults, repo):
        return _once(known, ("merge", str(defaults)), repo, lambda: merge(self, defaults, repo))

    def load_once(self, config_name, overrides, run_mode, **what):
        compute = functools.partial(load, self, config_name, overrides, run_mode, **what)
        if any(each.lstrip("+").startswith(_ELSEWHERE) for each in overrides):
            return compute()
        # What was composed under the checks of a run is the same without them.
        checked = run_mode is RunMode.RUN and what.get("validate_sweep_overrides", True)
        key = ("load", config_name, *overrides)
        config = _once(known, key, self.repository, compute, keep=checked)
        config.hydra.runtime.cwd = os.getcwd()
        config.hydra.job.name = JobRuntime().get("name")
        return config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigLoaderImpl, "load_configuration", load_once)
        patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", merge_once)
        patch.setattr(ConfigRepository, "load_config", read_once)
        yield


def _once(known, key, repository, compute, *, keep=True):
    """Return a copy of the known result, computed the first time; anew for a conf/ of another place."""
    if {f"{each.scheme()}://{each.path}" for each in repository.get_sources()} != _SHIPPED:
        return compute()
    if key not in known:
        result = compute()
        if not keep:
            return result
        known[key] = pickle.dumps(result)
    return pickle.loads(known[key])  # several times as quick as copy.deepcopy


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
