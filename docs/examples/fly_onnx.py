"""Fly an episode with a policy that navrl has exported; needs onnxruntime, numpy and Gymnasium, but no torch.

navrl train experiment=classic env=gym env.id=CartPole-v1
navrl export latest
python fly_onnx.py policy.onnx CartPole-v1
"""

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import onnxruntime

file, world = sys.argv[1:]
card = json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))
answers = [port["name"] for port in card["outputs"]]
session = onnxruntime.InferenceSession(file)
env = gymnasium.make(world)
observation, _ = env.reset(seed=0)
memory = {  # zeros where an episode begins; empty for a policy that remembers nothing
    port["name"]: np.zeros([1, *port["shape"][1:]], port["dtype"])
    for port in card["inputs"]
    if port["name"] in card["memory"]
}
total, over = 0.0, False
while not over:
    seen = {"features": np.asarray(observation, np.float32).reshape(1, -1)}
    found = dict(zip(answers, session.run(None, seen | memory), strict=True))
    memory = {name: found[after] for name, after in card["memory"].items()}
    action = found["action"][0]
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        action = int(action[0])
    observation, reward, terminated, truncated, _ = env.step(action)
    total += float(reward)
    over = terminated or truncated
print(f"return {total:g}")
