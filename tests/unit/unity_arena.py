"""A game for the page's tests: it keeps time, an agent has another id in each episode, and it notes what it was
told.
"""

import time
from typing import Any

import numpy as np
from unity_client import actions, brain, info, pictures, vector
from unity_games import Game
from unity_infos import png

from palaestra.wire.side_channels import IncomingMessage, unpack
from palaestra.wire.unity_channels import ENGINE, PARAMETERS

DRIVERS, FLYER = ("Driver?team=0", "Driver?team=1"), "Flyer?team=0"
HEIGHT, WIDTH = 36, 48
SECONDS = 0.05  # of a tick at normal speed


class Arena(Game):
    """A driver of each team chooses 0, 1 or 2, sees a number and, with `camera`, a picture; the one with more 1s wins.
    One flyer moves.

    Ends and the first decisions of the next episodes, under new ids, are in one message. `taken` holds all actions by
    key.
    """

    def __init__(self, episode: int = 20, camera: bool = False, seed: int | None = None, **talk: Any) -> None:
        super().__init__(**talk)
        self.episode = episode
        self.camera = camera
        self.seed = seed
        self.brains = {key: brain(key, branches=(3,)) for key in DRIVERS} | {FLYER: brain(FLYER, continuous=2)}
        self.age = 0
        self.ids = 0
        self.points = dict.fromkeys(DRIVERS, 0)
        self.taken: dict[str, list[list[float]]] = {key: [] for key in self.brains}
        self.time_scale = 20.0
        self.time_scales: list[float] = []
        self.parameters: dict[str, float] = {}

    def reset(self) -> Any:
        self._listen()
        self._begin()
        return self.say({key: [self._info(key)] for key in self.brains}, self.brains)

    def step(self, reply: Any) -> Any:
        self._listen()
        time.sleep(SECONDS / self.time_scale)
        for key in self.brains:
            self.taken[key] += np.concatenate(actions(reply, key), axis=1).tolist()
        self.age += 1
        rewards = {key: 0.1 * (self.taken[key][-1][0] == 1) for key in DRIVERS}
        rewards[FLYER] = float(self.taken[FLYER][-1][0])
        for key in DRIVERS:
            self.points[key] += self.taken[key][-1][0] == 1
        if self.age < self.episode:
            return self.say({key: [self._info(key, rewards[key])] for key in self.brains}, self.brains)
        lead = self.points[DRIVERS[0]] - self.points[DRIVERS[1]]
        rewards |= {DRIVERS[0]: float(np.sign(lead)), DRIVERS[1]: float(-np.sign(lead))}
        ends = {key: self._info(key, rewards[key], done=True) for key in self.brains}
        self._begin()
        return self.say({key: [ends[key], self._info(key)] for key in self.brains}, self.brains)

    def _begin(self) -> None:
        self.age = 0
        self.ids = self.ids + len(self.brains)
        self.points = dict.fromkeys(DRIVERS, 0)

    def _info(self, key: str, reward: float = 0.0, done: bool = False) -> Any:
        seen = [vector([self.age / self.episode, float(list(self.brains).index(key))])]
        if self.camera and key in DRIVERS:
            pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
            pixels[:, :, 2 * DRIVERS.index(key)] = 90
            pixels[12:24, WIDTH * self.age // (self.episode + 1) :][:, :6] = 255
            seen.append(pictures([png(pixels)], (3, HEIGHT, WIDTH)))
        return info(self.ids + list(self.brains).index(key), seen, reward, done=done)

    def _listen(self) -> None:
        """Follows Unity's time scale, and keeps parameters."""
        told = bytes(self.side_channel)
        for number, (channel, payload) in enumerate(unpack(told)):
            message = IncomingMessage(payload)
            if channel == ENGINE and message.read_int32() == 2 and number >= self._read:
                self.time_scale = message.read_float32()
                self.time_scales.append(self.time_scale)
            elif channel == PARAMETERS:
                name = message.read_string()
                if message.read_int32() == 0:
                    self.parameters[name] = message.read_float32()
            self._heard = number + 1
        self._read = self._heard

    _read = _heard = 0

    def notes(self) -> dict[str, Any]:
        """What a test reads at the end."""
        return {"taken": self.taken, "time_scales": self.time_scales, "parameters": self.parameters}
