"""The device and the memory of a process: errors are one sentence about the option."""

import pytest
import torch

from navrl.config.checks import ConfigError
from navrl.run.device import enough_memory


def test_too_much_memory_names_the_option():
    sentence = "num_envs = 7 needs more memory than there is; expected fewer; change num_envs"
    with pytest.raises(ConfigError, match=sentence), enough_memory("num_envs", 7):
        torch.empty(1 << 60)
    with pytest.raises(ConfigError, match=sentence), enough_memory("num_envs", 7):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_other_errors_of_torch_stay_as_they_are():
    with pytest.raises(RuntimeError, match="size of tensor"), enough_memory("num_envs", 7):
        torch.ones(2) + torch.ones(3)
