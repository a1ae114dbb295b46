"""`navrl check-env`: what is wrong with a world, found by playing it."""

import pytest

from navrl.commands import check_env
from navrl.run.build import build_env
from tests.envs.core.mistakes import MOVED, OPENED, SEEN, VELOCITY, configuration

pytestmark = pytest.mark.commands

DRAWN = "(draw,) = random.uniform(key, random.SCENARIO, 1)"
DOTS = (
    "    def draw(self, state):\n        from navrl.envs.core.shapes import Circle\n"
    "        return [Circle({}, {})]\n\n    def observe"
)
# name: (what the beginner wrote instead of what, the line).
MISTAKES = {
    "numbers of torch's own generator": (
        {DRAWN: "draw = torch.rand(len(key))"},
        "WRONG  the same seed gives other episodes: observation/place differs after 0 steps; expected all "
        "random numbers from the episode's key; draw with navrl.envs.core.random, not with torch.rand or "
        "numpy",
    ),
    "one episode for every seed": (
        {OPENED: "return State(2.0 * (key * 0 + 1).float() - 1.5, torch.zeros_like(draw))"},
        "note   another seed gives the same episodes; expected others unless nothing is random; draw in "
        "initial(key) with navrl.envs.core.random",
    ),
    "no end": (
        {"< 0.05\n        return there": "> 99.0\n        return there"},
        "WRONG  no episode has ended within 30 steps; expected an end by judge(state) or by env.horizon; "
        "change one of them, or check longer: steps=300",
    ),
    "a mean over all envs": (
        {VELOCITY: VELOCITY + "\n        velocity = velocity - velocity.mean()"},
        "WRONG  envs share a state: another action in env 0 changes other envs: observation/place differs "
        "after 1 steps; expected envs that know nothing of each other; change what adds, averages or indexes "
        "over the last axis",
    ),
    "an action without effect": (
        {"step_m * velocity": "step_m"},
        "note   another action changes nothing: the step ignores it; expected a state that depends on the "
        "action; change advance(state, action)",
    ),
    "the number of an env": (
        {OPENED: "return State(torch.arange(len(key)) / 9.0 + draw, torch.zeros_like(draw))"},
        "WRONG  envs 3 to 9 play other episodes alone than in a batch of 64: observation/place differs after "
        "0 steps; expected episodes that depend on the env's own key only; change what reads the number or "
        "the order of the envs",
    ),
    "a state beside the state": (
        {
            VELOCITY: VELOCITY + "\n        self.winds = 0.1 + 1.5 * getattr(self, 'winds', 0.0)\n"
            "        velocity = velocity + self.winds"
        },
        "WRONG  a saved state goes on otherwise: observation/place differs after 0 steps of the rest; "
        "expected everything that changes to be in the state; move what is kept in self into the NamedTuple",
    ),
    "NaN after a while": (
        {SEEN: SEEN.replace("state.place_m", "(6.0 - state.step).sqrt()")},
        "WRONG  observation/place is NaN or infinite after 7 steps; expected finite numbers; change the hook "
        "that computes it",
    ),
    "a number of a tensor": (
        {VELOCITY: VELOCITY + "\n        velocity = velocity * action.amax().item()"},
        "WRONG  item() reads a tensor on the host in every step, so that the step does not compile and a GPU "
        "waits; expected operations on tensors, such as torch.where; change {lab}.world.Env.advance, line 29",
    ),
    "an error after a while": (
        {VELOCITY: VELOCITY + "\n        assert state.step.max() < 7.0, 'too late'"},
        "WRONG  random actions end in AssertionError: too late; change {lab}.world.Env.advance (world.py, "
        "line 29)",
    ),
    "an error in another batch": (
        {VELOCITY: VELOCITY + "\n        assert len(velocity) != 7, 'too few'"},
        "WRONG  random actions end in AssertionError: too few; change {lab}.world.Env.advance (world.py, "
        "line 29)",
    ),
    "an error in the picture": (
        {
            "    def observe": "    def draw(self, state):\n        return state.plac_m\n\n    def observe"
        },
        "WRONG  draw(state) of Env raises AttributeError: 'State' object has no attribute 'plac_m'; did you "
        "mean 'place_m'?; expected operations on state.place_m (N,), state.step (N,); change "
        "{lab}.world.Env.draw (world.py, line 32)",
    ),
    "a picture that is a word": (
        {
            "    def observe": "    def draw(self, state):\n        return 'a dot'\n\n    def observe"
        },
        "WRONG  draw(state) returned a str; expected a list of shapes; change draw",
    ),
    "a picture of too many places": (
        {"    def observe": DOTS.format("torch.stack([state.place_m] * 3)", "0.1")},
        "WRONG  draw(state) returned a place of shape (3, 64); expected (2, N) or (2, K, N); change draw",
    ),
    "a radius that is no number": (
        {"    def observe": DOTS.format("(0.0, 0.0)", "None")},
        "WRONG  draw(state) returned a Circle that cannot be drawn (Could not infer dtype of NoneType); "
        "expected places (2, N), and numbers or tensors (N,) for the rest; change draw",
    ),
    "a label that is no text": (
        {"    def observe": DOTS.format("(0.0, 0.0)", "0.1, label=state.step")},
        "WRONG  draw(state) returned a Circle whose label is a Tensor; expected text; change draw",
    ),
    "a shape that comes after a while": (
        {
            "    def observe": DOTS.format(
                "(0.0, 0.0)", "0.1)] * int(1 + (state.step.max() > 6.0)) + [Circle((0, 0)"
            )
        },
        "WRONG  draw(state) returned Circle, Circle, Circle at step 7; expected the shapes of the first "
        "step, Circle, Circle; change draw to use visible= for what comes and goes",
    ),
    "what training says": (
        {MOVED: MOVED.removesuffix(", None")},
        "WRONG  advance(state, action) of Env returns only a State; expected two values, the state and "
        "events; change {lab}.world.Env.advance",
    ),
}


@pytest.fixture
def examined(tmp_path, monkeypatch):
    """examined(changes) -> the lines about the world after these changes, and its package."""

    def lines(changes):
        # A judge decides alone when episodes end.
        config, lab = configuration(tmp_path, monkeypatch, changes, {"horizon": None})
        opened, closed = [], []

        def make(**options):
            env = build_env(config, compile_mode="off", from_checkpoint=False, **options)
            opened.append(id(env))
            env.close = lambda: closed.append(id(env))
            return env

        found = [*check_env.examine(make, seed=0, steps=30)]
        assert sorted(opened) == sorted(closed)  # some are processes
        return [f"{line.mark:<6} {line.text}" for line in found], lab

    return lines


def test_a_world_that_passes_is_described(examined):
    lines, _ = examined({})
    assert not [line for line in lines if line.startswith(("WRONG", "note"))]
    assert sum(line.startswith("ok") for line in lines) == 8
    assert [line.split()[:2] for line in lines[-3:]] == [
        ["observation/place", "(1,)"],
        ["action", "(1,)"],
        ["statistics", "return,"],
    ]


def test_a_picture_is_tried(examined):
    lines, _ = examined({"    def observe": DOTS.format("(state.place_m, state.step)", "0.1")})
    assert "ok     draw(state) gives a picture of every state: Circle" in lines
    assert not [line for line in lines if line.startswith(("WRONG", "note"))]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_by_playing(examined, mistake):
    changes, sentence = MISTAKES[mistake]
    lines, lab = examined(changes)
    assert sentence.format(lab=lab) in lines


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["alice_and_bob"], 0, "ok     an action changes its own env and no other"),
        (["gym", "env.id=CartPole-v1", "steps=3"], 1, "WRONG  no episode has ended within 3 steps"),
    ],
)
def test_the_command_ends_with_1_if_something_is_wrong(run, words, code, line):
    found, printed = run(check_env.main, *words)
    assert found == code, printed.err
    assert line in printed.out
