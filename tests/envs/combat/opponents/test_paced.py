"""`Paced`: a pilot with the rhythm of its training in an env that steps faster."""

import pytest
import torch
from torch.utils import _pytree as pytree

from navrl.envs.combat.opponents import Paced, Phase2, Straight
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.sim.state import Command
from tests.envs.combat.opponents.pictures import PARAMS, keys, picture, pilot

QUICK = PARAMS._replace(decision_s=0.05, tick_s=0.05)


class Counting(Pilot):
    """Its rudder is a tenth of how often it has decided; it always fires, at its second enemy."""

    def initial(self, key):
        return (torch.zeros_like(key, dtype=torch.float32),)

    def act(self, params, state, me, memory):
        self.seen = params.step_s, params.dt_s, state.decision.tolist()
        times = memory[0] + 1.0
        target = torch.ones_like(times, dtype=torch.int32)
        return Command(times / 10.0, times / 20.0, times > 0.0, target), (times,)


def at(*decisions):
    """The same picture for each of these numbers of decisions."""
    count = len(decisions)
    state = pytree.tree_map(lambda field: field.expand(*field.shape[:-1], count), picture())
    return state._replace(decision=torch.tensor(decisions, dtype=torch.int32))


def test_it_decides_every_second_and_holds_its_controls_between():
    inner = Counting()
    paced = Paced(pilot=inner, decision_s=1.0)
    memory, found = paced.initial(keys(1)), []
    for decision in range(41):
        command, memory = paced.act(QUICK, at(decision), 1, memory)
        found.append([field.item() for field in command])
    # Decisions 0, 20 and 40 are the seconds 0, 1 and 2.
    for decision, (rudder, throttle, fire, target) in enumerate(found):
        second = decision // 20
        assert rudder == pytest.approx((second + 1) / 10)
        assert throttle == pytest.approx((second + 1) / 20)
        assert fire == (decision % 20 == 0)
        assert target == 1
    # It saw an env that steps once a second by ticks of the fast one, and its own second decision.
    assert inner.seen == (pytest.approx(1.0), pytest.approx(0.05), [2])


def test_every_env_has_a_rhythm_of_its_own():
    paced = Paced(pilot=Counting(), decision_s=1.0)
    memory = paced.initial(keys(2))
    command, memory = paced.act(QUICK, at(0, 7), 1, memory)
    assert command.rudder.tolist() == pytest.approx([0.1, 0.0])
    assert command.fire.tolist() == [True, False]
    assert memory[3].tolist() == [1.0, 0.0], "who does not decide remembers nothing new"
    command, _ = paced.act(QUICK, at(13, 20), 1, memory)
    assert command.rudder.tolist() == pytest.approx([0.1, 0.1])


def test_a_script_flies_as_in_an_env_with_its_own_rhythm():
    script = pilot("phase2", support_s=3.0)
    assert isinstance(script, Phase2)
    paced = Paced(pilot=script, decision_s=1.0)
    own, held = script.initial(keys(1)), paced.initial(keys(1))
    for second in range(12):
        expected, own = script.act(PARAMS, at(second), 1, own)
        found, held = paced.act(QUICK, at(20 * second), 1, held)
        assert [field.item() for field in found[:3]] == [field.item() for field in expected[:3]]


def test_a_rhythm_slower_than_nothing_is_refused():
    with pytest.raises(ValueError, match="decision_s"):
        Paced(pilot=Straight(), decision_s=0.0)
