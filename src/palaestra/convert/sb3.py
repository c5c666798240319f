"""Policies of Stable-Baselines3: the zip that `model.save` writes.

`policy.pth` is read as tensors only. Reads the plain entries of `data`, a JSON; never its pickles (":serialized:").
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.convert import named_layers as found
from palaestra.convert.convert_options import ConvertOptions, spread_bounds
from palaestra.convert.named_layers import dense, mlp, nature_cnn
from palaestra.convert.saved_spaces import Space, read_space, seen_as
from palaestra.convert.source_network import (
    Activation,
    ConstantStd,
    Continuous,
    Dense,
    Discrete,
    Flatten,
    Layer,
    LearnedStd,
    SourceObs,
    SourcePolicy,
    StateStd,
    activation,
)
from palaestra.convert.state_dicts import bounds_of
from palaestra.convert.vec_normalize import ObsStatistics, read_statistics
from palaestra.core.errors import ExportError
from palaestra.core.files import regular
from palaestra.core.specs import ActionSpec, RawAction
from palaestra.core.torch_files import ZIP_ERRORS, Arrays, arrays_of, check_archive, read_saved

WEIGHTS, DATA = "policy.pth", "data"
MOST_DATA = 1 << 27
SUPPORTED = "PPO, A2C, MaskablePPO, SAC, TD3, DDPG and DQN with hidden layers, NatureCNN or a Dict of both"
LEAST_LOG_STD, MOST_LOG_STD = -20.0, 2.0
"""Bounds of the logarithm of SAC's standard deviations in Stable-Baselines3."""
RELU = Activation("relu")
TANH = Activation("tanh")
EXTRACTORS = ("pi_features_extractor.", "features_extractor.")


def read_sb3(path: Path, options: ConvertOptions) -> SourcePolicy:
    """Reads a policy. Raises ExportError for a damaged file, and for an unsupported architecture."""
    names = check_archive(path, str(path), "a model that model.save of Stable-Baselines3 wrote")
    if WEIGHTS not in names or DATA not in names:
        raise ExportError(
            f"{path} has no '{WEIGHTS}' and '{DATA}'; expected a model of Stable-Baselines3 (it has: "
            f"{', '.join(names[:8])})"
        )
    data = _data(path)
    arrays = arrays_of(read_saved(_member(path, WEIGHTS, 1 << 30), f"{path}/{WEIGHTS}"), f"{path}/{WEIGHTS}")
    return _Reading(path, data, arrays, options).policy()


class _Reading:
    def __init__(self, path: Path, data: Mapping[str, Any], arrays: Arrays, options: ConvertOptions) -> None:
        self.path = path
        self.data = data
        self.arrays = arrays
        self.options = options
        kwargs = data.get("policy_kwargs")
        self.kwargs: Mapping[str, Any] = kwargs if isinstance(kwargs, Mapping) else {}

    def policy(self) -> SourcePolicy:
        arrays = self.arrays
        if any("lstm" in key for key in arrays):
            raise self.unsupported("a recurrent policy (RecurrentPPO, an LSTM)")
        if "action_net.weight" in arrays:
            return self.actor_critic()
        if "actor.mu.weight" in arrays or ("actor.mu.0.weight" in arrays and "actor.log_std" in arrays):
            return self.sac()
        if "actor.mu.0.weight" in arrays:
            return self.td3()
        if "q_net.q_net.0.weight" in arrays:
            return self.dqn()
        raise self.unsupported(f"weights named {', '.join(list(arrays)[:6])}, ...")

    def unsupported(self, what: str) -> ExportError:
        kind = self.data.get("policy_class")
        module = (
            f", policy of {kind['__module__']}"
            if isinstance(kind, Mapping) and isinstance(kind.get("__module__"), str)
            else ""
        )
        return ExportError(f"{self.path} holds {what}{module}; supported of Stable-Baselines3 are {SUPPORTED}")

    def actor_critic(self) -> SourcePolicy:
        """PPO, A2C and MaskablePPO: hidden layers of the policy, then means or logits."""
        arrays = self.arrays
        between = self.activation(TANH)
        seen = self.seen("")
        shared = mlp(arrays, "mlp_extractor.shared_net", between, last=between)
        body = (*shared, *mlp(arrays, "mlp_extractor.policy_net", between, last=between))
        head = dense(arrays, "action_net")
        action = self.action()
        title = "PPO or A2C of Stable-Baselines3"
        if not action.continuous:
            return SourcePolicy(title, seen, body, self.choices(head), action)
        squashed = self.flag("squash_output")
        log_std = arrays.get("log_std")
        if log_std is None:
            raise self.unsupported("continuous actions without log_std")
        if log_std.ndim == 1:
            spread = ConstantStd(np.exp(log_std))
        else:
            spread = self.state_std(log_std, log_std.shape[0])
        return SourcePolicy(title, seen, body, Continuous((head,), spread, squashed, bounds_of(action)), action)

    def sac(self) -> SourcePolicy:
        """SAC: means, then tanh. With generalized state-dependent exploration (gSDE), means are first clipped to ±2."""
        between = self.activation(RELU)
        seen = self.seen("actor.")
        body = mlp(self.arrays, "actor.latent_pi", between, last=between)
        action = self.action()
        if "actor.mu.weight" in self.arrays:
            spread = LearnedStd(dense(self.arrays, "actor.log_std"), LEAST_LOG_STD, MOST_LOG_STD)
            head = Continuous((dense(self.arrays, "actor.mu"),), spread, True)
            return SourcePolicy("SAC of Stable-Baselines3", seen, body, head, action)
        clip = str(self.kwargs.get("clip_mean", 2.0))
        if float(clip) not in (0.0, 2.0):
            raise self.unsupported(f"SAC with clip_mean={clip} (0 and 2 are known)")
        mean: tuple[Layer, ...] = (
            dense(self.arrays, "actor.mu.0"),
            *((Activation("hardtanh2"),) if float(clip) else ()),
        )
        log_std = self.arrays["actor.log_std"]
        spread = self.state_std(log_std, found.outputs(body))
        return SourcePolicy("SAC of Stable-Baselines3", seen, body, Continuous(mean, spread, True), action)

    def td3(self) -> SourcePolicy:
        """TD3 and DDPG: a deterministic action after tanh."""
        seen = self.seen("actor.")
        layers = mlp(self.arrays, "actor.mu", self.activation(RELU), last=None)
        body = layers[:-1]
        head = layers[-1:]
        return SourcePolicy("TD3 or DDPG of Stable-Baselines3", seen, body, Continuous(head, None, True), self.action())

    def dqn(self) -> SourcePolicy:
        """DQN: a value of each choice."""
        layers = mlp(self.arrays, "q_net.q_net", self.activation(RELU), last=None)
        seen = self.seen("q_net.")
        action = self.action()
        if found.outputs(layers) != action.choices:
            raise self.unsupported(
                f"{found.outputs(layers)} values for {action.choices} choices (QR-DQN has several of each)"
            )
        return SourcePolicy("DQN of Stable-Baselines3", seen, layers[:-1], Discrete(layers[-1:], greedy=True), action)

    def choices(self, head: Dense) -> Discrete:
        """Returns logits; each number of a MultiBinary space becomes two choices, the first of which has logit 0."""
        space = None if self.options.branches else self.space("action_space")
        if isinstance(space, Space) and space.kind == "MultiBinary":
            weight, bias = (
                np.stack([np.zeros_like(each), each], 1).reshape(-1, *each.shape[1:])
                for each in (head.weight, head.bias)
            )
            return Discrete((Dense(weight, bias),))
        return Discrete((head,))

    def state_std(self, log_std: np.ndarray, features: int) -> StateStd:
        """Returns the deviations of generalized exploration. Raises ExportError for variants of this exploration."""
        if self.flag("use_expln"):
            raise self.unsupported("generalized exploration with use_expln")
        actions = self.action().continuous
        if log_std.shape == (features, 1):
            log_std = np.repeat(log_std, actions, 1)
        return StateStd(np.exp(log_std) ** 2)

    def activation(self, usual: Activation) -> Activation:
        name = self.options.activation or self.kwargs.get("activation_fn")
        return usual if name is None else activation(str(name))

    def flag(self, name: str) -> bool:
        return str(self.kwargs.get(name, False)) == "True"

    def space(self, which: str) -> Space | dict[str, Space]:
        return read_space(self.data.get(which), which.replace("_", " "))

    def seen(self, prefix: str) -> tuple[SourceObs, ...]:
        """Returns the observations with their encoders, whose weights begin with `prefix`."""
        if self.options.obs is not None:
            spaces = self._named_spaces(self.options.obs)
        else:
            space = self.space("observation_space")
            spaces = space if isinstance(space, dict) else {"": space}
        statistics = None if self.options.normalizer is None else read_statistics(self.options.normalizer)
        taken = next(
            (prefix + each for each in EXTRACTORS if any(key.startswith(prefix + each) for key in self.arrays)), None
        )
        return tuple(self._one(name, space, taken, statistics) for name, space in spaces.items())

    def _named_spaces(self, shapes: tuple[tuple[int, ...], ...]) -> dict[str, Space]:
        boxes = [
            Space("Box", shape, "uint8", low=np.zeros(1), high=np.full(1, 255))
            if len(shape) == 3
            else Space("Box", shape)
            for shape in shapes
        ]
        if len(boxes) == 1:
            return {"": boxes[0]}
        encoded = iter(
            dict.fromkeys(match[1] for key in self.arrays if (match := re.search(r"\.extractors\.(.+?)\.cnn\.", key)))
        )
        return {next(encoded, f"obs_{i}") if len(box.shape) == 3 else f"obs_{i}": box for i, box in enumerate(boxes)}

    def _one(self, name: str, space: Space, extractor: str | None, statistics: ObsStatistics | None) -> SourceObs:
        spec, factor = seen_as(name or "observation", space)
        images_scaled = str(self.kwargs.get("normalize_images", True)) != "False"
        if space.is_image and images_scaled:
            factor = 1.0  # it divides by 255 what lies within 0..255
        normalizer = None if statistics is None else statistics.normalizer(name)
        if normalizer is not None and not spec.is_vector:
            raise ExportError(
                f"{self.options.normalizer} normalizes the image '{spec.name}', which cannot be converted"
            )
        at = f"{extractor}extractors.{name}" if name and extractor else (extractor or "").rstrip(".")
        if extractor and any(key.startswith(f"{at}.cnn.") for key in self.arrays):
            encoder = nature_cnn(self.arrays, [f"{at}.cnn.{i}" for i in (0, 2, 4)], f"{at}.linear.0")
        elif extractor and any(
            key.startswith(f"{at}.") for key in self.arrays if not key.startswith(f"{extractor}extractors.") or name
        ):
            keys = ", ".join([key for key in self.arrays if key.startswith(f"{at}.")][:4])
            raise self.unsupported(f"a features extractor of its own ({keys}, ...)")
        else:
            encoder = () if spec.is_vector else (Flatten(),)
        return SourceObs(spec, factor, normalizer, encoder)

    def action(self) -> ActionSpec:
        """Returns the actions given in the options, else the actions of the file's space."""
        options = self.options
        if options.branches:
            return ActionSpec(0, options.branches)
        if options.continuous:
            low, high = (None, None) if options.bounds is None else spread_bounds(options.bounds, options.continuous)
            return ActionSpec(options.continuous, low=low, high=high)
        space = self.space("action_space")
        if isinstance(space, dict):
            raise self.unsupported("a Dict of actions")
        if space.kind != "Box":
            raw = RawAction(space.shape, space.dtype)
            return ActionSpec(0, space.sizes, starts=space.starts if any(space.starts) else None, raw=raw)
        size = prod(space.shape)
        raw = RawAction(space.shape, space.dtype, continuous=True)
        if options.bounds is not None:
            low, high = spread_bounds(options.bounds, size)
        elif space.low is None or space.high is None:
            raise ExportError(f"{self.path} cuts the bounds of its {size} actions short; name them with --bounds")
        else:
            low, high = (tuple(side.ravel().tolist()) for side in (space.low, space.high))
        if not np.isfinite([low, high]).all():
            raise ExportError(f"{self.path} has actions without bounds; name the range that the game has with --bounds")
        return ActionSpec(size, low=low, high=high, raw=raw)


def _data(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(_member(path, DATA, MOST_DATA))
    except (ValueError, RecursionError) as error:
        raise ExportError(f"{path}: '{DATA}' is no JSON ({error})") from error
    if not isinstance(data, Mapping):
        raise ExportError(f"{path}: '{DATA}' is a {type(data).__name__}; expected an object")
    return data


def _member(path: Path, name: str, most: int) -> bytes:
    try:
        with open(path, "rb", opener=regular) as opened, zipfile.ZipFile(opened) as archive, archive.open(name) as file:
            content = file.read(most + 1)
    except (*ZIP_ERRORS, OSError) as error:
        raise ExportError(f"{path} is damaged: '{name}' in it cannot be read ({error})") from error
    if len(content) > most:
        raise ExportError(f"{path}: '{name}' would unpack to more than {most:,} bytes")
    return content
