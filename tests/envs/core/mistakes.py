"""A small world, and mistakes that beginners make in one, each with the sentence that it gives."""

import itertools

from omegaconf import OmegaConf

from navrl.config import plugins

WORLD = '''"""A point on a line moves to zero."""
import math
from typing import NamedTuple
import torch
from torch import Tensor
from navrl.envs.core import random, specs
from navrl.envs.core.env import BatchedEnv

class Params(NamedTuple):
    step_m: float

class State(NamedTuple):
    place_m: Tensor
    step: Tensor

def progress(transition):
    return transition.before.place_m.abs() - transition.after.place_m.abs()

class Env(BatchedEnv):
    action = specs.Bounds(-1.0, 1.0)
    statistic_names, rate_names = ("success", "distance_m"), ("success",)

    def initial(self, key):
        (draw,) = random.uniform(key, random.SCENARIO, 1)
        return State(2.0 * draw - 1.0, torch.zeros_like(draw))

    def advance(self, state, action):
        (velocity,) = action
        return State(state.place_m + self.params.step_m * velocity, state.step + 1.0), None

    def observe(self, state):
        return {"observation/place": state.place_m.unsqueeze(0)}

    def judge(self, state):
        there = state.place_m.abs() < 0.05
        return there, torch.zeros_like(there)

    def statistics(self, state):
        distance_m = state.place_m.abs()
        return [(distance_m < 0.05).float(), distance_m]
'''
MOVED = "return State(state.place_m + self.params.step_m * velocity, state.step + 1.0), None"
OPENED = "return State(2.0 * draw - 1.0, torch.zeros_like(draw))"
SEEN = '{"observation/place": state.place_m.unsqueeze(0)}'
DISTANCE = "return [(distance_m < 0.05).float(), distance_m]"
JUDGED = "return there, torch.zeros_like(there)"
PROGRESS = "return transition.before.place_m.abs() - transition.after.place_m.abs()"
INIT = "    def __init__(self, **options):\n"
VELOCITY = "(velocity,) = action"
FLOATS = "a tensor (..., N) of float32, int32, int64 or bool, made from the key or the state"
NO_WORLD = (
    "env._target_ = {lab}.world.Env is no world; expected a subclass of navrl.envs.core.env.BatchedEnv, or "
    "env=torchrl for an env of TorchRL; change env._target_"
)

# name: (what the beginner wrote instead of what, the sentence); {lab} is the package.
MISTAKES = {
    "no action": (
        {"    action = specs.Bounds(-1.0, 1.0)\n": ""},
        "action of Env = None; expected specs.Bounds(-1.0, 1.0), specs.Choices(3) or the like; change "
        "{lab}.world.Env.action",
    ),
    "an action that is a number": (
        {"specs.Bounds(-1.0, 1.0)": "3"},
        "action of Env = 3; expected specs.Bounds(-1.0, 1.0), specs.Choices(3) or the like; change "
        "{lab}.world.Env.action",
    ),
    "bounds the wrong way round": (
        {"specs.Bounds(-1.0, 1.0)": "specs.Bounds(1.0, -1.0)"},
        "specs.Bounds = (1.0, -1.0); expected a low and a higher finite bound; change specs.Bounds",
    ),
    "bounds without a number": (
        {"specs.Bounds(-1.0, 1.0)": "specs.Bounds(None, 1)"},
        "specs.Bounds = (None, 1); expected a low and a higher finite bound; change specs.Bounds",
    ),
    "choices in a list": (
        {"specs.Bounds(-1.0, 1.0)": "specs.Choices([3])"},
        "specs.Choices = [3]; expected a whole number, 2 or more; change specs.Choices",
    ),
    "no initial": (
        {"def initial": "def initialise"},
        "{lab}.world.Env lacks initial(key) -> state; expected a method of that name; add it to the class",
    ),
    "no advance": (
        {"def advance": "def step_forward"},
        "{lab}.world.Env lacks advance(state, action) -> (state, events); expected a method of that name; "
        "add it to the class",
    ),
    "a hook with other arguments": (
        {"def observe(self, state)": "def observe(self)"},
        "observe(state) of Env is written as observe(); expected a method that takes (state); change "
        "{lab}.world.Env.observe",
    ),
    "a state that is a dict": (
        {OPENED: 'return {"place_m": draw}'},
        "initial(key) of Env returns a dict; expected a NamedTuple of tensors (..., N); change "
        "{lab}.world.Env.initial",
    ),
    "a Python number in the state": (
        {"torch.zeros_like(draw))": "0.0)"},
        "initial(key) of Env returns state.step = 0.0, a float; expected " + FLOATS + "; change "
        "{lab}.world.Env.initial",
    ),
    "float64 in the state": (
        {"2.0 * draw - 1.0": "draw.double()"},
        "initial(key) of Env returns state.place_m of float64; expected " + FLOATS + "; change "
        "{lab}.world.Env.initial",
    ),
    "a state of one env": (
        {"torch.zeros_like(draw))": "torch.zeros(()))"},
        "initial(key) of Env returns state.step of shape (); expected " + FLOATS + "; change "
        "{lab}.world.Env.initial",
    ),
    "the env axis first in the state": (
        {"2.0 * draw - 1.0": "torch.stack([draw, draw], -1)"},
        "initial(key) of Env returns state.place_m of shape (N, 2); expected "
        + FLOATS
        + "; change "
        "{lab}.world.Env.initial",
    ),
    "another device": (
        {"torch.zeros_like(draw))": 'torch.zeros_like(draw, device="meta"))'},
        "initial(key) of Env returns state.step on meta where the env is on cpu; expected "
        + FLOATS
        + "; "
        "change {lab}.world.Env.initial",
    ),
    "an observation that is a tensor": (
        {SEEN: "state.place_m"},
        'observe(state) of Env returns one tensor; expected a dict {{"observation/x": (features, N)}}; '
        "change {lab}.world.Env.observe",
    ),
    "no observation": (
        {SEEN: "{}"},
        'observe(state) of Env returns an empty dict; expected a dict {{"observation/x": (features, N)}}; '
        "change {lab}.world.Env.observe",
    ),
    "a misnamed leaf": (
        {'"observation/place"': '"place"'},
        "observe(state) of Env returns the leaf 'place'; expected names such as observation/x, or one of "
        "action_mask, alive, state, agents/action_mask, agents/alive; did you mean 'observation/place' or "
        "'agents/observation/place'?; change {lab}.world.Env.observe",
    ),
    "nothing but a state for a critic": (
        {'"observation/place"': '"state"'},
        'observe(state) of Env returns the leaves state; expected names that begin with "observation/", or '
        'all with "agents/observation/" for a team; change {lab}.world.Env.observe',
    ),
    "a leaf without an axis of features": (
        {"state.place_m.unsqueeze(0)": "state.place_m"},
        "observe(state) of Env returns 'observation/place' of shape (N,); expected (features, N) with the "
        "env axis last; change {lab}.world.Env.observe",
    ),
    "a leaf with the env axis first": (
        {"state.place_m.unsqueeze(0)": "state.place_m.unsqueeze(1)"},
        "observe(state) of Env returns 'observation/place' of shape (N, 1); expected (features, N) with the "
        "env axis last; change {lab}.world.Env.observe",
    ),
    "a leaf of one env": (
        {"state.place_m.unsqueeze(0)": "torch.zeros(3)"},
        "observe(state) of Env returns 'observation/place' of shape (3,); expected (features, N) with the "
        "env axis last; change {lab}.world.Env.observe",
    ),
    "a flag as an observation": (
        {"state.place_m.unsqueeze(0)": "(state.place_m > 0.0).unsqueeze(0)"},
        "observe(state) of Env returns 'observation/place' of bool; expected float32: write .float(); "
        "change {lab}.world.Env.observe",
    ),
    "NaN in an observation": (
        {"state.place_m.unsqueeze(0)": "(state.place_m - 9.0).sqrt().unsqueeze(0)"},
        "observe(state) of Env returns 'observation/place' with NaN or infinity; expected finite numbers; "
        "change {lab}.world.Env.observe",
    ),
    "a mask of another length": (
        {
            "specs.Bounds(-1.0, 1.0)": "specs.Choices(3)",
            SEEN: SEEN.replace("}", ', "action_mask": state.place_m[None] < 9.0}'),
        },
        "observe(state) of Env returns 'action_mask' of shape (1, N); expected 3 rows, one for each choice "
        "of the action; change {lab}.world.Env.observe",
    ),
    "a field that is not there": (
        {"return {": "place = state.plac_m\n        return {"},
        "observe(state) of Env raises AttributeError: 'State' object has no attribute 'plac_m'; did you mean "
        "'place_m'?; expected operations on state.place_m (N,), state.step (N,); change "
        "{lab}.world.Env.observe (world.py, line 32)",
    ),
    "shapes that do not fit": (
        {"step_m * velocity": "step_m * velocity[:3]"},
        "advance(state, action) of Env raises RuntimeError: The size of tensor a (13) must match the size of "
        "tensor b (3) at non-singleton dimension 0; expected operations on state.place_m (N,), state.step "
        "(N,), action (1, N); change {lab}.world.Env.advance (world.py, line 29)",
    ),
    "an if on a tensor": (
        {VELOCITY: VELOCITY + "\n        if state.place_m > 0.0: velocity = -velocity"},
        "advance(state, action) of Env decides in Python by a tensor, as in `if` or `and`; expected "
        "torch.where, & and |, because every env decides for itself; change {lab}.world.Env.advance "
        "(world.py, line 29)",
    ),
    "a number of a tensor": (
        {VELOCITY: "velocity = math.sin(action)"},
        "advance(state, action) of Env turns a tensor into a Python number; expected tensors (N,), because "
        "every env has its own; change {lab}.world.Env.advance (world.py, line 28)",
    ),
    "only the state": (
        {MOVED: MOVED.removesuffix(", None")},
        "advance(state, action) of Env returns only a State; expected two values, the state and events; "
        "change {lab}.world.Env.advance",
    ),
    "a step in place": (
        {MOVED: "state.place_m.add_(velocity)\n        return state, None"},
        "advance(state, action) of Env changes state.place_m in place; expected new tensors, as in "
        "state._replace(x=state.x + 1.0); change {lab}.world.Env.advance",
    ),
    "a field of another type after a step": (
        {"state.step + 1.0)": "state.step.long() + 1)"},
        "advance(state, action) of Env returns state.step (N,) int64; expected (N,) float32, as "
        "initial returns it; change {lab}.world.Env.advance",
    ),
    "a field of another shape after a step": (
        {VELOCITY: "velocity = action"},
        "advance(state, action) of Env returns state.place_m (1, N) float32; expected (N,) float32, as "
        "initial returns it; change {lab}.world.Env.advance",
    ),
    "one value from judge": (
        {JUDGED: "return there"},
        "judge(state) of Env returns one tensor; expected two values, terminated and truncated, bool (N,) "
        "each; change {lab}.world.Env.judge",
    ),
    "terminated (N, 1)": (
        {JUDGED: "return there.unsqueeze(1), torch.zeros_like(there)"},
        "judge(state) of Env returns terminated of shape (N, 1), bool; expected bool (N,); change "
        "{lab}.world.Env.judge",
    ),
    "truncated that is no flag": (
        {JUDGED: "return there, state.step"},
        "judge(state) of Env returns truncated of shape (N,), float32; expected bool (N,); change "
        "{lab}.world.Env.judge",
    ),
    "a statistic too few": (
        {DISTANCE: "return [distance_m]"},
        "statistics(state) of Env returns 1 rows; expected one (N,) for each of statistic_names (success, "
        "distance_m); change {lab}.world.Env.statistics",
    ),
    "no statistics": (
        {"def statistics": "def figures"},
        "statistics(state) of Env returns 0 rows; expected one (N,) for each of statistic_names (success, "
        "distance_m); change {lab}.world.Env.statistics",
    ),
    "a statistic for all envs": (
        {DISTANCE: "return [distance_m.mean(), distance_m]"},
        "statistics(state) of Env returns 'success' of shape (), float32; expected float32 (N,): write "
        ".float() for flags; change {lab}.world.Env.statistics",
    ),
    "a rate that is no statistic": (
        {'("success",)': '("won",)'},
        "{lab}.world.Env.rate_names = ('won',); expected some of success, distance_m; change "
        "{lab}.world.Env.rate_names",
    ),
    "a reward (N, 1)": (
        {PROGRESS: PROGRESS.replace("return ", "return (") + ").unsqueeze(1)"},
        "reward term 'progress' is of shape (N, 1), float32; expected float32 (N,), one number per env; "
        "change {lab}.world.progress",
    ),
    "a reward that is a number": (
        {PROGRESS: "return 1.0"},
        "reward term 'progress' is of shape (), float32; expected float32 (N,), one number per env; "
        "change {lab}.world.progress",
    ),
    "a reward that is NaN": (
        {PROGRESS: "return transition.after.place_m * float('nan')"},
        "reward term 'progress' is NaN or infinite in the first step; expected finite numbers; change "
        "{lab}.world.progress",
    ),
    "a reward of another state": (
        {PROGRESS: "return transition.after.aircraft.alive"},
        "score(transition) of Env raises AttributeError: 'State' object has no attribute 'aircraft'; change "
        "{lab}.world.progress (world.py, line 17)",
    ),
    "no super().__init__": (
        {"    def initial": f"{INIT}        self.mass_kg = 1.0\n\n    def initial"},
        "{lab}.world.Env.__init__ does not call super().__init__(**options); expected it, with reward, sim "
        "and all other options; change {lab}.world.Env.__init__, or leave it out and read self.params",
    ),
    "an __init__ without options": (
        {
            "    def initial": f"{INIT.replace('**options', '')}        self.mass_kg = 1.0\n\n    def initial"
        },
        "{lab}.world.Env.__init__(self) does not take all options of a world; expected __init__(self, "
        "**options) that calls super().__init__(**options); change {lab}.world.Env.__init__, or leave it out "
        "and read self.params",
    ),
    "an error in __init__": (
        {"    def initial": f"{INIT}        self.x = options['mass']\n\n    def initial"},
        "env cannot be built: KeyError: 'mass'; change {lab}.world.Env.__init__ (world.py, line 24)",
    ),
    "a class that is no world": (
        {
            "class Env(BatchedEnv)": "class Env(Options)",
            "class Params": "class Options:\n    def __init__(self, **options): pass\n\nclass Params",
        },
        NO_WORLD,
    ),
    "no base class": ({"class Env(BatchedEnv)": "class Env"}, NO_WORLD),
    "an __init__ and no base class": (
        {
            "class Env(BatchedEnv)": "class Env",
            "    def initial": "    def __init__(self): pass\n\n    def initial",
        },
        NO_WORLD,
    ),
    "another base class": (
        {
            "class Env(BatchedEnv)": "class Env(EnvBase)",
            "import math": "import math\nfrom torchrl.envs import EnvBase",
        },
        NO_WORLD,
    ),
    "a module that cannot be imported": (
        {"import math": "import math, maths.numbers_of_mine"},
        "'env._target_' names '{lab}.world.Env', but {lab}.world cannot be imported: ModuleNotFoundError: No "
        "module named 'maths'; change that module",
    ),
    "a missing module with the first letters of the own": (
        {"import math": "import math, mistake"},
        "'env._target_' names '{lab}.world.Env', but {lab}.world cannot be imported: ModuleNotFoundError: No "
        "module named 'mistake'; change that module",
    ),
    "Python that cannot be read": (
        {"class Env(BatchedEnv):": "class Env(BatchedEnv)"},
        "'env._target_' names '{lab}.world.Env', but {lab}.world cannot be imported: SyntaxError: expected "
        "':' (world.py, line 19); change that module",
    ),
}

# name: (options of the YAML, the sentence)
WIRING = {
    "an unknown objective": (
        {"objective": "speed"},
        "env.objective = speed; expected one of success, return; change env.objective",
    ),
    "a column of an unknown metric": (
        {"headline": {"won%": "episode/sucess"}},
        "env.headline.won% = episode/sucess; expected one of episode/return, episode/length, "
        "episode/success, episode/distance_m, reward/progress; did you mean 'episode/success'?; change "
        "env.headline.won%",
    ),
    "a misspelt target": (
        {"_target_": "{lab}.world.Enw"},
        "'env._target_' names '{lab}.world.Enw'; expected a class or function that {lab}.world defines; did "
        "you mean 'Env'?",
    ),
    "a misspelt module": (
        {"_target_": "{lab}.wolrd.Env"},
        "'env._target_' names '{lab}.wolrd.Env', but there is no such module",
    ),
    "an unknown option": (
        {"horizn": 20},
        "Unknown key 'env.horizn' for {lab}.world.Env; did you mean 'horizon'?",
    ),
    "constants without a target": (
        {"sim": {"step_m": 0.1}},
        "advance(state, action) of Env raises AttributeError: 'dict' object has no attribute 'step_m'",
    ),
    "constants that lack one": (
        {"sim": {"_target_": "{lab}.world.Params"}},
        "'env.sim' lacks 'step_m', which Params needs; set it",
    ),
    "a weight without its term": (
        {"reward.weights": {"progres": 1.0}},
        "reward.weights = {{'progres': 1.0}}; expected one finite number for each of ['progress']; change "
        "reward.weights",
    ),
    "a reward that is a function": (
        {"reward": {"_target_": "{lab}.world.progress", "_partial_": True}},
        "reward is a partial; expected _target_: navrl.envs.WeightedReward, terms and weights; change the "
        "YAML of the reward",
    ),
    "a horizon of 0": (
        {"horizon": 0},
        "env.horizon = 0; expected a whole number, 1 or more; change env.horizon",
    ),
}
_numbers = itertools.count()


def configuration(folder, monkeypatch, changes, options):
    """Write the world after these changes as a package of its own; return its configuration and its name."""
    lab = f"mistaken{next(_numbers)}"
    text = WORLD
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    (folder / lab).mkdir()
    (folder / lab / "__init__.py").touch()
    (folder / lab / "world.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(plugins, "_typed", [lab])
    yaml = {
        "_target_": "{lab}.world.Env",
        "_partial_": True,
        "name": "reach",
        "objective": "success",
        "horizon": 20,
        "sim": {"_target_": "{lab}.world.Params", "step_m": 0.1},
        "reward": {
            "_target_": "navrl.envs.WeightedReward",
            "terms": {"progress": {"_target_": "{lab}.world.progress", "_partial_": True}},
            "weights": {"progress": 1.0},
        },
        "compile_mode": "off",
    }
    written = OmegaConf.create({"env": yaml, "device": "cpu", "compile": "off"})
    for key, value in options.items():
        OmegaConf.update(written, f"env.{key}", value, merge=False, force_add=True)
    return OmegaConf.create(OmegaConf.to_yaml(written).replace("{lab}", lab)), lab
