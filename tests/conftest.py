"""Fixtures for every test."""

from pathlib import Path

import pytest
import torch

from navrl.config import compose

ROOT = Path(__file__).resolve().parents[1]
_LONGEST = ("test_readme.py", "test_train.py")  # first, so that two processes end at the same time


def pytest_collection_modifyitems(items):
    """The longest files go first."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


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
def root():
    """The top of the checkout."""
    return ROOT


@pytest.fixture
def compose_cfg():
    """compose_cfg("env=combat", "seed=1") -> the configuration of the train command."""

    def composed(*overrides, config_name="train"):
        return compose(config_name, overrides)

    return composed
