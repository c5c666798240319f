"""Settings of networks."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from palaestra.core.settings import Settings


class MemorySettings(Settings):
    """A recurrent network (LSTM). `memory: {}` switches it on with these values."""

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
    hidden_units: int = Field(default=128, gt=0)
    """Width of each hidden layer."""
    num_layers: int = Field(default=2, gt=0)
    """Hidden layers after the observation encoders."""
    vis_encode_type: Literal["fully_connected", "match3", "simple", "nature_cnn", "resnet"] = "simple"
    """Encoder of visual observations."""
    memory: MemorySettings | None = None
    """Recurrent memory; null: none."""
    goal_conditioning_type: Literal["hyper", "none"] = "hyper"
    """What goal signals do: `hyper` generates the layers' weights from them, `none` reads them as any other observation."""
    deterministic: bool = False
    """Act by the most likely action instead of a drawn one, in training too."""
