"""Point clouds: fields of every kind, and hostile files refused."""

import re

import numpy as np
import pytest

from navrl.envs.navigation.maps.pcd import decode_pcd
from tests.envs.navigation.maps.map_files import pcd

CLOUD = np.array([[0.1, 0.2, 0.25], [0.2, 0.3, 0.4], [0.7, 0.2, 0.5]])


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
def test_other_fields_of_a_point_cloud_are_skipped(encoding):
    table = np.arange(24.0).reshape(4, 6)
    data = pcd(
        table,
        encoding=encoding,
        fields=("z", "normal", "x", "ring", "y"),
        sizes=["8", "4", "4", "2", "4"],
        types=["F", "F", "F", "U", "I"],
        counts=["1", "2", "1", "1", "1"],
    )
    assert decode_pcd(data, 10).tolist() == table[:, [3, 5, 0]].tolist()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "no DATA line"),
        (b"\x00\xff\n" * 9, "no DATA line"),
        (pcd(CLOUD, encoding="ascii", DATA="binary_compressed"), "binary_compressed"),
        (pcd(CLOUD, encoding="ascii", DATA=""), "header is damaged"),
        (pcd(CLOUD, fields=("x", "y", "i")), "expected x, y and z"),
        (pcd(CLOUD, FIELDS="x x z"), "x is not one number"),
        (pcd(CLOUD, FIELDS=None), "header is damaged"),
        (pcd(CLOUD, SIZE="4 4"), "do not fit together"),
        (pcd(CLOUD, SIZE="4 4 3"), "TYPE F and SIZE 3"),
        (pcd(CLOUD, COUNT="1 1 0"), "do not fit together"),
        (pcd(CLOUD, COUNT="1 1 2"), "z is not one number"),
        (pcd(CLOUD, WIDTH="many"), "header is damaged"),
        (pcd(CLOUD, POINTS="-3", WIDTH="-3"), "are not WIDTH times HEIGHT"),
        (pcd(CLOUD, POINTS="9"), "are not WIDTH times HEIGHT"),
        (pcd(CLOUD, POINTS="9", WIDTH="9"), "9 numbers; expected 9 points of 3"),
        (pcd(CLOUD, POINTS=str(10**15), WIDTH=str(10**15)), "at most 1000000"),
        (pcd(CLOUD, POINTS="9" * 19, WIDTH="9" * 19), "is no whole number of at most 18 digits"),
        (
            pcd(CLOUD, COUNT="1 1 1 9999999", FIELDS="x y z a", SIZE="4 4 4 4", TYPE="F F F F"),
            "at most 8000000",
        ),
        (pcd(CLOUD).replace(b"0.4", b"abc"), "what is no number"),
        (pcd(CLOUD, encoding="binary")[:-1], "cut off: 35 bytes of points; expected 36"),
    ],
)
def test_point_clouds_that_are_refused(data, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        decode_pcd(data, 10**6)
