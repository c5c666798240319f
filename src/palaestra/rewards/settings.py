"""Settings of reward signals, and the classes of users' own signals."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from palaestra.core.errors import PluginError
from palaestra.core.plugins import find_class, nearest, registry
from palaestra.core.settings import Settings, field_error
from palaestra.datasets.minari_library import MINARI
from palaestra.models.settings import NetworkSettings
from palaestra.rewards.chosen_numbers import parse_numbers


def must_be_paths(value: Any) -> Any:
    """Returns the value. Raises ValueError with one sentence, instead of one sentence for each accepted type."""
    for path in value if isinstance(value, tuple) else (value,):
        if not isinstance(path, str):
            raise ValueError("expected a demonstration file, a folder of them, minari:ID, or a list of these")
    return value


def must_be_clips(value: Any) -> Any:
    """Returns the value. Raises ValueError with one sentence."""
    for path in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(path, str):
            raise ValueError("expected a file of clips (.demo, .npz, .csv), a folder, minari:ID, or a list of these")
    return value


DemoPath = Annotated[str | tuple[str, ...], BeforeValidator(must_be_paths)]
"""Demonstration files, folders of them, and Minari datasets; a text may hold several, with commas between."""
MaybeDemoPath = Annotated[
    str | tuple[str, ...] | None, BeforeValidator(lambda it: it if it is None else must_be_paths(it))
]
"""A `DemoPath`, or None. In `DemoPath | None` lists would not be read as tuples."""


class SignalFields(BaseModel):
    """Settings that every reward signal has."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    gamma: float = Field(default=0.99, ge=0, le=1)
    """Discount of future rewards."""
    strength: float = 1.0
    """Factor on this signal's reward."""
    normalize: bool = False
    """Divide rewards by a running standard deviation of the discounted return."""


class EncodingSize(BaseModel):
    """The size of a learned signal's network, as in old files."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    encoding_size: int | None = Field(default=None, gt=0)
    """Deprecated: sets `network_settings.hidden_units` if network_settings is absent."""

    @model_validator(mode="before")
    @classmethod
    def _from_encoding_size(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("encoding_size") is not None and data.get("network_settings") is None:
            return {**data, "network_settings": {"hidden_units": data["encoding_size"]}}
        return data


class ExtrinsicSettings(SignalFields, Settings):
    """The environment's own reward."""

    network_settings: NetworkSettings = NetworkSettings()
    """Unused: the environment's reward has no network. ML-Agents writes it into its files."""


class CuriositySettings(EncodingSize, SignalFields, Settings):
    """Reward for observations that the model predicts badly. Pathak et al. 2017, https://arxiv.org/abs/1705.05363."""

    network_settings: NetworkSettings = NetworkSettings()
    """Encoder of the observations."""
    learning_rate: float = Field(default=3e-4, ge=0)
    """Adam's step size."""


class RNDSettings(EncodingSize, SignalFields, Settings):
    """Reward for observations that were rarely made before. Burda et al. 2018, https://arxiv.org/abs/1810.12894."""

    network_settings: NetworkSettings = NetworkSettings()
    """Layers of the random network and of the trained network."""
    learning_rate: float = Field(default=1e-4, ge=0)
    """Adam's step size."""


class GAILSettings(EncodingSize, SignalFields, Settings):
    """Reward for looking like the demonstrations. Ho and Ermon 2016, https://arxiv.org/abs/1606.03476."""

    network_settings: NetworkSettings = NetworkSettings()
    """The discriminator."""
    learning_rate: float = Field(default=3e-4, ge=0)
    """Adam's step size."""
    use_actions: bool = False
    """The discriminator sees actions too, not only observations."""
    use_vail: bool = False
    """A variational bottleneck in the discriminator. Peng et al. 2018, https://arxiv.org/abs/1810.00821."""
    demo_path: DemoPath
    """A demonstration file, a folder of them, `minari:ID`, or several of these: a list, or with commas between."""


class PriorDataSettings(Settings):
    """Experience from elsewhere in each minibatch. Ball et al. 2023, https://arxiv.org/abs/2302.02948."""

    demo_path: MaybeDemoPath = None
    """Demonstration files with rewards, a folder of them, `minari:ID`, or several of these: a list, or with commas
    between."""
    minari: str | None = None
    """A dataset of Minari: the same as `demo_path: minari:ID`."""
    run: str | None = Field(default=None, min_length=1)
    """An earlier run whose checkpoint has its replay (save_replay_buffer): its name or its folder."""
    share: float = Field(default=0.5, gt=0, lt=1)
    """Share of each minibatch."""

    @property
    def sources(self) -> list[str | tuple[str, ...]]:
        """Demonstrations, as `load_demonstrations` takes them."""
        named = None if self.minari is None else f"{MINARI}{self.minari.removeprefix(MINARI)}"
        return [source for source in (self.demo_path, named) if source is not None]

    @model_validator(mode="after")
    def _has_a_source(self) -> PriorDataSettings:
        if not self.sources and self.run is None:
            raise field_error(
                type(self), "demo_path", "expected `demo_path`, `minari` or `run`: where the data come from", None
            )
        return self


class AMPSettings(SignalFields, Settings):
    """Reward for motion like the clips'. Peng et al. 2021, https://arxiv.org/abs/2104.02180."""

    network_settings: NetworkSettings = NetworkSettings(hidden_units=256)
    """The discriminator. Its inputs are scaled by the clips' mean and deviation, never by `normalize`."""
    learning_rate: float = Field(default=1e-4, ge=0)
    """Adam's step size."""
    clips: Annotated[str | tuple[str, ...], BeforeValidator(must_be_clips)]
    """Motions to learn: `.demo`, `.npz` or `.csv` files, folders of them, `minari:ID`; several: a list, or with commas
    between."""
    observations: tuple[str, ...] | None = None
    """Observations that are compared: names of vector sensors (`*` and `?` as in file patterns), each with optional
    ranges of its numbers, such as `Body[63:126]` or `Body[0, 4:7]`; null: all vector sensors except goals."""
    decision_seconds: float | None = Field(default=None, gt=0)
    """Seconds between two decisions, by which clips with a column `time` are read; null: row after row."""
    gradient_penalty: float = Field(default=10.0, ge=0)
    """Weight of the penalty on the discriminator's slope at the clips."""
    kept_pairs: int = Field(default=100_000, ge=0)
    """Pairs of earlier policies from which the discriminator continues to learn; checkpoints keep them."""

    @field_validator("observations", mode="before")
    @classmethod
    def _are_names(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = (value,)
        if value is not None and not (isinstance(value, list | tuple) and value):
            raise ValueError("expected names of sensors, such as [Body, 'Legs[0:12]']")
        for entry in value or ():
            parse_numbers(entry)
        return value


class SignalSettings(SignalFields, Settings):
    """Base class for the settings of your own signals: the settings that every reward signal has."""


class UnreadSignalSettings(SignalFields, Settings):
    """Settings of a user's own signal, unchecked: its keys are known only once its module is imported."""

    model_config = ConfigDict(extra="allow")


RewardSettings = (
    ExtrinsicSettings
    | CuriositySettings
    | GAILSettings
    | RNDSettings
    | AMPSettings
    | SignalSettings
    | UnreadSignalSettings
)

REWARDS: dict[str, type[RewardSettings]] = {
    "extrinsic": ExtrinsicSettings,
    "curiosity": CuriositySettings,
    "gail": GAILSettings,
    "rnd": RNDSettings,
    "amp": AMPSettings,
}
"""Settings class of each signal, by the signal's name in the YAML."""

MEMBERS = ("Settings", "ignores_ends", "reward", "learn", "learn_statistics", "state_dict", "load_state_dict")


def signal_class(name: str) -> type[Any]:
    """Returns the class that a name under `reward_signals` refers to.

    Raises PluginError for an unknown name, and for a class that is no reward signal.
    """
    known = [*REWARDS, *(plugin for plugin in registry("rewards").names() if plugin not in REWARDS)]
    module, colon, attribute = name.partition(":")
    if not (module and attribute) and (colon or name not in known):
        raise PluginError(
            f"no such reward signal{nearest(name, known)} (there are: {', '.join(known)}; your own as "
            "package.module:Class)"
        )
    title = f"reward signal '{name}'"
    base = Settings if name in REWARDS else SignalSettings
    return find_class("rewards", title, name, MEMBERS, "the guide 'Add a reward of your own'", base)
