"""The floor: the same simulator steps, forwards, backwards and fused Adam, with no library around them."""

import torch
from omegaconf import DictConfig

from peers.fights import Fights, Work, network


class Contestant:
    """Eager torch that computes what every PPO has to, and nothing that could be learned from."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        self._work, self._fights = work, Fights(cfg)
        features, columns = self._fights.features, self._fights.columns
        self._actor, self._critic = network(features, columns, work), network(features, 1, work)
        parameters = [*self._actor.parameters(), *self._critic.parameters()]
        self._adam = torch.optim.Adam(parameters, lr=1e-6, fused=True)
        self._seen = self._fights.reset()

    def iterate(self) -> None:
        """Collect and step once."""
        frames = []
        with torch.no_grad():
            for _ in range(self._work.steps):
                frames.append(self._seen)
                self._critic(self._seen)
                self._seen = self._fights.step(self._actor(self._seen)).opening
            self._critic(self._seen)
        rows = torch.cat(frames)
        for _ in range(self._work.num_epochs):
            for minibatch in rows.split(self._work.minibatch):
                losses = [net(minibatch).square().mean() for net in (self._actor, self._critic)]
                (losses[0] + losses[1]).backward()
                self._adam.step()
                self._adam.zero_grad(set_to_none=True)
