"""Assigns brains to behaviors and teams, as `--brain` says.

=======================================  ================================================================
`Ball=model:first`                       the newest model of the behavior in the run 'first'
`Ball=model:first@500000`                the model that it saved at that step
`Ball=model:hub:ann/ppo-Ball`            the behavior's model in a repository of the Hugging Face Hub
`Ball=model:hub:ann/ppo-Ball/Ball.onnx`  one file of such a repository
`Ball=model:Ball.onnx`                   a model file
`Ball=model:Ball.onnx,names.yaml`        a model file, and a file with the names of its tensors
`Ball?team=1=random`                     one team; `Ball=...` without a team plays the others
`heuristic`                              the environment's own rule for all other behaviors
`Ball=python:module:function`            your own function or class
=======================================  ================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palaestra.brains.base import Brain, Role
from palaestra.brains.checked import CheckedBrain
from palaestra.brains.custom import user_brain
from palaestra.brains.model import Policy, load_policy
from palaestra.brains.trained import ModelBrain, split_names
from palaestra.core.errors import ConfigError, EnvError, PolicyError, RunError
from palaestra.core.files import MODEL_FILES
from palaestra.core.plugins import import_user_module, lacks, nearest, registry
from palaestra.envs.base import Env
from palaestra.runtime.play.run_models import find_models

PYTHON = "python"
NO_BRAIN = (
    "no brain is named: add one, such as --brain heuristic, --brain random, --brain model:RUN or --brain "
    "BEHAVIOR=model:FILE.onnx"
)
NAMED = re.compile(r"(?P<behavior>.+?)(?:\?team=(?P<team>[^=]*))?=(?P<brain>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BrainSpec:
    """One `--brain` of a command line."""

    kind: str  # 'python', or an entry point of `palaestra.brains`
    argument: str = ""
    behavior: str | None = None  # None: any that no other part names
    team: int | None = None  # None: any that no other part names
    given: object = field(default=None, hash=False, compare=False)  # of a program: a function, an object or a policy

    @property
    def brain(self) -> str:
        """The brain, as typed on the command line."""
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    @property
    def whom(self) -> str:
        """The side that the brain plays, as typed on the command line."""
        return side_name(self.behavior or "", self.team)

    @property
    def typed(self) -> str:
        """The text as it was typed after `--brain`."""
        return f"{self.whom}={self.brain}" if self.behavior is not None else self.brain


def side_name(behavior: str, team: int | None) -> str:
    """Name of a side: `Ball`, or `Ball?team=1`."""
    return behavior if team is None else f"{behavior}?team={team}"


def kinds() -> list[str]:
    """Returns the kinds of brains."""
    return sorted([*registry("brains").names(), PYTHON])


def read_part(text: str) -> BrainSpec:
    """Parses `[BEHAVIOR[?team=N]=]KIND[:ARGUMENT]`. Raises ConfigError, which names the nearest kind."""
    known = kinds()
    kind, _, argument = text.partition(":")
    if kind in known:
        return BrainSpec(kind, argument)
    named = NAMED.fullmatch(text)
    if named is None:
        raise ConfigError(f"--brain {text}: {_no_brain(text, known)}")
    behavior = named["behavior"]
    team = named["team"]
    brain = named["brain"]
    if team is not None and not team.isdecimal():
        raise ConfigError(f"--brain {text}: team '{team}' is no number; expected {behavior}?team=1={brain or 'random'}")
    kind, _, argument = brain.partition(":")
    if kind not in known:
        raise ConfigError(f"--brain {text}: {_no_brain(brain, known)}")
    return BrainSpec(kind, argument, behavior, None if team is None else int(team))


def _no_brain(brain: str, known: Sequence[str]) -> str:
    kind = brain.partition(":")[0]
    hint = (
        f"; did you mean 'model:{brain}'?"
        if kind.endswith(MODEL_FILES) or Path(brain).is_dir()
        else nearest(kind, known)
    )
    return f"there is no brain '{kind}'{hint} (there are: {', '.join(known)})"


def read_parts(texts: Iterable[str]) -> list[BrainSpec]:
    """Parses all `--brain`s of a command line. Raises ConfigError if two of them play the same side."""
    return _one_for_each([read_part(text) for text in texts])


def _one_for_each(parts: list[BrainSpec]) -> list[BrainSpec]:
    seen: dict[tuple[str | None, int | None], BrainSpec] = {}
    for part in parts:
        other = seen.setdefault((part.behavior, part.team), part)
        if other is not part:
            whom = f"'{part.whom}'" if part.behavior else "all other behaviors"
            raise ConfigError(f"--brain gives two brains to {whom}: {other.brain} and {part.brain}")
    return parts


def given_parts(brains: object) -> list[BrainSpec]:
    """Returns the specs of a program's brains, which may be a text as for `--brain`, a function, a class or object with
    `decide`, or a policy; a list of these; or a dictionary of these by behavior or `behavior?team=N`. Raises
    ConfigError."""
    if isinstance(brains, Mapping):
        parts = [_given_part(one, str(side)) for side, one in brains.items()]
    else:
        parts = [_given_part(one) for one in (brains if isinstance(brains, list | tuple) else [brains])]
    return _one_for_each(parts)


def _given_part(brain: object, side: str = "") -> BrainSpec:
    if isinstance(brain, str | Path):
        return read_part(f"{side}={brain}" if side else str(brain))
    behavior, _, team = side.partition("?team=")
    if team and not team.isdecimal():
        raise ConfigError(f"brains: team '{team}' is no number; expected '{behavior}?team=1'")
    name = brain.path.name if isinstance(brain, Policy) else getattr(brain, "__name__", type(brain).__name__)
    return BrainSpec(PYTHON, name, behavior or None, int(team) if team else None, brain)


class BrainAssignment:
    """Makes the brain of each behavior and team when it is first needed."""

    def __init__(
        self,
        parts: Sequence[BrainSpec],
        env: Env,
        *,
        seed: int = 0,
        deterministic: bool = False,
        results: Path = Path("results"),
    ) -> None:
        """`results`: the folder of the runs that `model:RUN` means."""
        self._parts = parts
        self._env = env
        self._results = results
        self._seed = seed
        self._deterministic = deterministic
        self._made: dict[tuple[BrainSpec, str], CheckedBrain] = {}
        self._played: set[tuple[str, int]] = set()

    def part(self, behavior: str, team: int) -> BrainSpec | None:
        """Returns the spec for a side: the spec of its team, else of its behavior, else the one for all others."""
        for whom in ((behavior, team), (behavior, None), (None, None)):
            for part in self._parts:
                if (part.behavior, part.team) == whom:
                    return part
        return None

    def brain(self, behavior: str, team: int) -> CheckedBrain:
        """Returns the brain of a side; all teams of one spec share one brain. Raises PolicyError without a brain."""
        part = self.part(behavior, team)
        if part is None:
            raise PolicyError(self._missing(behavior, team))
        self._played.add((behavior, team))
        made = self._made.get((part, behavior))
        if made is None:
            made = self._made[part, behavior] = self._make(part, behavior)
        return made

    def strangers(self) -> list[BrainSpec]:
        """Returns the specs for behaviors that have not appeared yet."""
        return [part for part in self._parts if part.behavior is not None and part.behavior not in self._env.behaviors]

    def idle(self) -> list[BrainSpec]:
        """Returns the specs that have not been used so far."""
        playing = {part for part, _ in self._made}
        return [part for part in self._parts if part not in playing]

    def teams(self, behavior: str) -> list[int]:
        """Returns the teams of a behavior that have had a brain so far."""
        return sorted(team for name, team in self._played if name == behavior)

    def _make(self, part: BrainSpec, behavior: str) -> CheckedBrain:
        spec = self._env.behaviors[behavior]
        seed = self._seed + len(self._made)
        role = Role(behavior, spec, self._argument(part, behavior), self._env, seed, self._deterministic)
        brain = self._own(part, role) if part.kind == PYTHON else registry("brains").get(part.kind)(role)
        return CheckedBrain(brain, part.brain, behavior, spec)

    def _argument(self, part: BrainSpec, behavior: str) -> str:
        file, names = split_names(part.argument)
        if part.kind != "model" or not file or file.endswith(MODEL_FILES):
            return part.argument
        files = find_models(file, self._results).files
        if behavior not in files:
            hint = nearest(behavior, files)
            raise RunError(f"the run '{file}' has no model of behavior '{behavior}'{hint} (it has: {', '.join(files)})")
        return f"{files[behavior]},{names}" if names else str(files[behavior])

    def _own(self, part: BrainSpec, role: Role) -> Brain:
        if isinstance(part.given, Policy):
            policy = load_policy(part.given.path, seed=role.seed)  # the program's own keeps its random numbers
            return ModelBrain(policy, role.behavior, role.spec, deterministic=role.deterministic)
        if part.given is not None:
            return user_brain(part.given, part.brain, role)
        module_name, _, attribute = part.argument.partition(":")
        if not module_name or not attribute:
            raise PolicyError(
                f"'{part.brain}' is not complete; expected python:module:function, such as python:my_brains:chase"
            )
        try:
            module = import_user_module(module_name, part.brain)
        except EnvError as error:
            raise PolicyError(str(error)) from error
        if not hasattr(module, attribute):
            raise PolicyError(f"{part.brain}: {lacks(module, attribute)}")
        return user_brain(getattr(module, attribute), part.brain, role)

    def _missing(self, behavior: str, team: int) -> str:
        """Returns a message: the side without a brain, a similar name, and the possible choices."""
        typed = [part for part in self.strangers() if nearest(part.behavior or "", [behavior])]
        others = [side_name(behavior, part.team) for part in self._parts if part.behavior == behavior]
        whom = f"team {team} of behavior '{behavior}'" if others else f"behavior '{behavior}'"
        hint = f" (was '{typed[0].whom}' meant for it?)" if typed else ""
        side = side_name(behavior, team if others else None)
        return (
            f"{whom} has no brain{hint}; give it one, such as --brain '{side}=model:FILE.onnx', or all others one: "
            "--brain=random, --brain=heuristic"
        )


def model_parts(files: Mapping[str, Path]) -> list[BrainSpec]:
    """Returns a spec for each behavior, played by its model file."""
    return [BrainSpec("model", str(file), name) for name, file in files.items()]
