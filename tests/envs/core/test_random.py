"""Random numbers against splitmix64 in Python integers."""

import pytest
import torch

from navrl.envs.core import random
from tests.envs.playing import keys

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(state):
    """The output of splitmix64 that follows this state, in integers of any size."""
    z = (state + _GOLDEN) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def signed(word):
    return word - (1 << 64) if word >> 63 else word


def expected_uniform(seed, env_id, episode, stream, index):
    """The number by its definition: fold the words in one by one, keep the 24 highest bits."""
    key = splitmix64(seed & _WORD)
    for word in (env_id, episode, stream, index):
        key = splitmix64(key ^ (word & _WORD))
    return (key >> 40) / (1 << 24)


@pytest.mark.parametrize(
    ("seed", "outputs"),
    [  # the published first outputs of splitmix64
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]),
    ],
)
def test_mix_gives_the_published_splitmix64_sequence(seed, outputs):
    states = torch.tensor([signed((seed + n * _GOLDEN) & _WORD) for n in range(3)])
    assert random.mix(states).tolist() == [signed(word) for word in outputs]


def test_mix_equals_python_integers_for_words_of_every_size_and_sign():
    words = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 40, -(1 << 31), 0x0123456789ABCDEF]
    words += [signed(splitmix64(n)) for n in range(500)]
    assert random.mix(torch.tensor(words)).tolist() == [
        signed(splitmix64(word & _WORD)) for word in words
    ]


@pytest.mark.parametrize(("seed", "episode"), [(0, 0), (7, 3), (-5, 1 << 40)])
def test_uniform_equals_its_definition(seed, episode):
    env_ids = [0, 1, 4095, 1 << 33]
    found = random.uniform(keys(env_ids, seed, episode), random.SCRIPT, 5)
    assert found.shape == (5, 4)
    assert found.dtype == torch.float32
    assert found.tolist() == [
        [expected_uniform(seed, env, episode, random.SCRIPT, i) for env in env_ids]
        for i in range(5)
    ]
