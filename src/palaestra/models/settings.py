"""Settings of networks."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator

from palaestra.core.plugins import nearest, registry
from palaestra.core.settings import Settings

RESIDUAL = "residual"
"""The built-in body other than plain layers."""
Encoder = Literal["fully_connected", "match3", "simple", "nature_cnn", "resnet"]
"""Encoders of ML-Agents."""


class MemorySettings(Settings):
    """A recurrent network (LSTM). `memory: {}` adds a memory with these default values."""

    ignores_unknown: ClassVar[bool] = True

    sequence_length: int = Field(default=64, gt=0)
    """Decisions in one training sequence (truncated back-propagation through time)."""
    memory_size: int = Field(default=128, gt=0)
    """Numbers an agent remembers: half of them the hidden state, half the cell state."""

    @field_validator("memory_size")
    @classmethod
    def _is_even(cls, size: int) -> int:
        if size % 2:
            raise ValueError("expected an even number")
        return size


class NetworkSettings(Settings):
    """The shape of a policy, critic or reward network."""

    ignores_unknown: ClassVar[bool] = True

    normalize: bool = False
    """Scale vector observations by their running mean and standard deviation."""
    hidden_units: int = Field(default=128, gt=0, le=65536)
    """Width of each hidden layer."""
    num_layers: int = Field(default=2, gt=0, le=1024)
    """Hidden layers after the observation encoders."""
    vis_encode_type: Encoder | str = "simple"
    """Encoder of visual observations; a class of your own as `package.module:Class`, or the name of a plug-in."""
    center_images: bool = False
    """Subtract each channel's mean from an image. Helps a lot with small objects on a uniform background, such as
    Pong's ball."""
    body: str | None = None
    """`residual`: normalized blocks with shortcuts, num_layers of them (trainer sac); or hidden layers of your own:
    `package.module:Class`, or the name of a plug-in. null: plain layers; only plain layers support
    goal_conditioning_type."""
    memory: MemorySettings | None = None
    """Recurrent memory; null: none."""
    critic_only: tuple[str, ...] | None = None
    """Observations that the critic alone sees, by name or pattern, such as `[Truth, "truth_*"]`: what the game knows
    and the agent does not. Policy, model files, reward signals and cloning never see them; null: no such observations.
    """
    goal_conditioning_type: Literal["hyper", "none"] = "hyper"
    """Use of goal signals: `hyper` makes the layers' weights from them, `none` treats them as other observations."""
    bfloat16: bool | None = None
    """Compute gradients in bfloat16, with weights in float32; null: on processors with bfloat16 units, for nature_cnn
    and resnet, but not with MA-POCA."""
    compile: bool = False
    """Compile the network with torch.compile before it learns, which takes a minute or more. No CPU in our measurements
    was faster with it."""
    deterministic: bool = False
    """Act by the most likely action instead of a drawn one, in training too."""

    @field_validator("critic_only", mode="before")
    @classmethod
    def _names_observations(cls, names: Any) -> Any:
        if names is None or (
            isinstance(names, list | tuple) and names and all(isinstance(n, str) and n for n in names)
        ):
            return names
        raise ValueError(
            f"expected a list of observations' names or patterns, such as [Truth, 'truth_*'], got {names!r}"
        )

    @field_validator("vis_encode_type", mode="before")
    @classmethod
    def _encoder_exists(cls, name: Any) -> str:
        ours = get_args(Encoder)
        if not isinstance(name, str):  # one sentence, not one for each type that it might have had
            raise ValueError(
                f"expected the name of an encoder ({', '.join(ours)}, or your own as package.module:Class)"
            )
        return name if name in ours else _own(name, "encoder", ours)

    @field_validator("body")
    @classmethod
    def _body_exists(cls, name: str | None) -> str | None:
        return name if name in (None, RESIDUAL) else _own(name, "body", (RESIDUAL,))

    @property
    def own_body(self) -> str | None:
        """The name of a user's hidden layers; None: the hidden layers are built in."""
        return None if self.body == RESIDUAL else self.body


def _own(name: str, what: str, ours: tuple[str, ...]) -> str:
    """Names of code are only read here: importing it waits until a network is made."""
    module, colon, attribute = name.partition(":")
    if module and attribute:
        return name
    group = "bodies" if what == "body" else "encoders"
    known = [*ours, *(plugin for plugin in registry(group).names() if plugin not in ours)]
    if colon or name not in known:
        there = f"there are: {', '.join(known)}; your own" if known else "your own"
        raise ValueError(f"no {what} is named '{name}'{nearest(name, known)} ({there} as package.module:Class)")
    return name
