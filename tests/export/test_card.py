"""Cards of exported policies: strict JSON wherever they are, and intervals as navrl evaluate has them."""

import json
import math

import onnxruntime
import pytest
import torch
from safetensors import safe_open

from navrl.envs.navigation.env import NavigationEnv
from navrl.export.formats import FORMATS
from navrl.export.policies import exported as exported_graph
from tests.commands.test_export import Doubled, exported

pytestmark = pytest.mark.commands


def card_in(to, file):
    """The card in a file's own metadata, as text."""
    if to == "onnx":
        return onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map["card"]
    if to == "safetensors":
        with safe_open(file, "pt") as opened:
            return opened.metadata()["card"]
    found = {"card.json": ""}
    torch.export.load(file, extra_files=found)
    return found["card.json"]


@pytest.mark.parametrize("to", FORMATS)
def test_a_card_in_a_file_is_strict_json(to, tmp_path):
    file = tmp_path / f"policy.{to}"
    program = exported_graph(Doubled(), {"view": torch.arange(18.0).reshape(3, 2, 3)})
    file.write_bytes(FORMATS[to].content(program, {"low": -math.inf, "mean": math.nan, "n": 0}))
    found = json.loads(card_in(to, file), parse_constant=pytest.fail)  # of NaN and Infinity
    found.pop("graph", None)
    assert found == {"low": None, "mean": None, "n": 0}


def test_intervals_of_shares_stay_within_zero_and_one(tmp_path):
    _, card = exported("zoo:navigation", tmp_path, "num_episodes=3", to="safetensors")
    found = {name: card["score"]["all"][name] for name in NavigationEnv.share_names}
    assert found["spl"]["n"] == 3  # so few that Student's interval alone is wider than that
    for interval in found.values():
        assert 0.0 <= interval["low"] <= interval["mean"] <= interval["high"] <= 1.0
