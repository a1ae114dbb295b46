"""Options that several commands share: what is wrong with one is a sentence with its name."""

from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from navrl.config.checks import ConfigError
from navrl.run.options import check_flag, check_whole, check_writable, enough_memory


def test_too_much_memory_names_the_option():
    sentence = "num_envs = 7 needs more memory than there is; expected fewer; change num_envs"
    with pytest.raises(ConfigError, match=sentence), enough_memory("num_envs", 7):
        torch.empty(1 << 60)
    with pytest.raises(ConfigError, match=sentence), enough_memory("num_envs", 7):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_other_errors_of_torch_stay_what_they_are():
    with pytest.raises(RuntimeError, match="size of tensor"), enough_memory("num_envs", 7):
        torch.ones(2) + torch.ones(3)


@pytest.mark.parametrize("number", [0, 9, 2.0, "x", True])
def test_a_number_outside_of_its_range_is_told_with_both_ends(number):
    sentence = f"n = {number}; expected a whole number from 1 to 8; change n"
    with pytest.raises(ConfigError, match=sentence):
        check_whole({"n": number}, "n", least=1, most=8)
    check_whole({"n": 1, "m": 8}, "n", "m", least=1, most=8)


def test_a_flag_is_true_or_false():
    for flag in (True, False):
        check_flag(OmegaConf.create({"profile": flag}), "profile")
    for other in ("yes please", 1, None):
        with pytest.raises(ConfigError, match=f"profile = {other}; expected true or false"):
            check_flag(OmegaConf.create({"profile": other}), "profile")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--svg", "--svg no/such/x; .* change --svg"),
        ("output", "output = no/such/x; .* change output"),
    ],
)
def test_a_file_that_cannot_be_is_told_by_the_option_that_was_used(option, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_writable(Path("no/such/x"), option)
