"""Adapts Gymnasium's vector environments; each of their environments is an area.

`metadata["autoreset_mode"]` names when they restart an episode: on the tick of its end (SAME_STEP), on the next tick,
whose action is then ignored (NEXT_STEP), or when the caller resets it (DISABLED).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.envs.gymnasium.declared import check_methods, count_of, metadata_of, space_of
from palaestra.envs.gymnasium.returned_values import OLD_STEP, batched_flags, check_reset, rewards
from palaestra.envs.gymnasium.self_resets import FINAL_KEYS
from palaestra.envs.gymnasium.single_envs import SUCCESS, BatchedObs, SingleEnvs, Start, Tick, successes
from palaestra.envs.gymnasium.vector_errors import VectorErrors
from palaestra.envs.gymnasium.vector_parameters import VectorParameters
from palaestra.envs.spaces.action_masks import KEY
from palaestra.envs.spaces.action_spaces import SpaceActions
from palaestra.envs.spaces.conventions import UNSAID, Conventions
from palaestra.envs.spaces.drawn import picture, prepare_drawing
from palaestra.envs.spaces.mask_source import MaskSource
from palaestra.envs.spaces.observation_leaves import WrongObservation, check_form, gathered, pick


class VectorEnvs:
    """Base class of the adapters for the three autoreset modes."""

    steady = True
    """Whether every area acts on every tick."""
    resets = False
    """Whether each episode begins by a call of `reset`."""

    def __init__(self, envs: VectorEnv, name: str, conventions: Conventions = UNSAID) -> None:
        """`name` is for error messages."""
        self._envs = envs
        self._name = name
        check_methods(envs, name)
        self.count = count_of(envs, name)
        """Number of environments."""
        self.metadata = metadata_of(envs, name)
        observation, action = (
            space_of(envs, each, name) for each in ("single_observation_space", "single_action_space")
        )
        self.actions = SpaceActions(action)
        conventions = conventions.completed(self.metadata)
        self.masks = MaskSource(name, observation, action, self.actions.spec, conventions)
        self.leaves = conventions.leaves(observation, self.masks.name)
        self.parameters = VectorParameters(envs, conventions.parameters, name, resets=self.resets)
        self._errors = VectorErrors(envs, name)
        self._mask_method = self._find_mask_method()

    def reset(self, seed: int) -> Start:
        """Resets every environment."""
        options = self.parameters.options()
        keywords = {"options": options} if options else {}
        obs, infos = check_reset(self._called("reset", self._envs.reset, seed=seed, **keywords), self._name)
        return Start(self._split(obs), self._mask(obs, infos, first=True))

    def step(self, actions: Any) -> Tick:
        """Simulates one tick. Raises EnvError if the environment does not follow its autoreset mode."""
        raise NotImplementedError

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one environment. Raises EnvError if it cannot draw."""
        prepare_drawing(self._envs, (VectorEnv,), self._name)
        frames = self._called("render", self._envs.render)
        if not isinstance(frames, tuple | list | np.ndarray) or len(frames) != self.count:
            raise EnvError(
                f"{self._name} cannot be drawn: its `render` returned {frames!r:.60}; expected a picture (height, "
                f"width, 3) of each of its {self.count} environments, in a tuple, where self.render_mode is "
                "'rgb_array'"
            )
        return picture(frames[area], self._name)

    def close(self) -> None:
        """Closes the vector environment."""
        self._envs.close()

    def _step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Returns what the environments return, observations as they are."""
        result = self._called("step", self._envs.step, actions)
        if result is None:
            raise EnvError(
                f"{self._name}: `step` returned None; expected obs, rewards, terminated, truncated, infos: does it end "
                "without `return`?"
            )
        if not isinstance(result, tuple | list) or len(result) != 5:
            what = f"{len(result)} values" if isinstance(result, tuple | list) else f"a {type(result).__name__}"
            raise EnvError(f"{self._name}: {OLD_STEP.format(what)}")
        obs, reward, terminated, truncated, infos = result
        if not isinstance(infos, Mapping):
            raise EnvError(
                f"{self._name}: the infos that `step` returned, its fifth value, are {infos!r:.80}; expected a "
                "dictionary ({} will do)"
            )
        terminated = batched_flags(terminated, self.count, "terminated", self._name)
        truncated = batched_flags(truncated, self.count, "truncated", self._name)
        infos = infos if isinstance(infos, dict) else dict(infos)
        return obs, rewards(reward, self.count, self._name), terminated, truncated, infos

    def _called(self, what: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls a method of the vector environment. Raises EnvError for any exception, with the area if it is known."""
        try:
            return method(*arguments, **options)
        except (PalaestraError, *STOPS):
            raise
        except BaseException as error:  # whatever a user's environment does
            explained = self._errors.explained(error, what)
            raise explained from explained.__cause__

    def _split(self, observation: Any) -> BatchedObs:
        """Returns an array for each leaf, (environments, ...). Raises EnvError for observations that do not fit."""
        count = self.count
        try:
            columns = tuple([leaf.gather(pick(leaf, observation)) for leaf in self.leaves])
            for leaf, column in zip(self.leaves, columns, strict=True):
                if column.shape[:1] != (count,):
                    check_form(leaf, column, count)
        except WrongObservation as error:
            raise error.of(self._name) from None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EnvError(
                f"{self._name}: observations are not batched as their space says: {exception_summary(error)}"
            ) from error
        return columns

    def _area(self, i: int) -> str:
        return f"{self._name}, area {i}"

    def _find_mask_method(self) -> tuple[str, Callable[[], Any]] | None:
        """Returns the name of a method that returns the masks of all environments, and the method, if they have one."""
        base = self._envs.unwrapped
        if (found := self.masks.method(self._envs) or self.masks.method(base)) is not None:
            return found
        if (
            not isinstance(base, SyncVectorEnv | AsyncVectorEnv)
            or not self.masks.choices
            or self.masks.path is not None
        ):
            return None
        # one of this name may need arguments, as Taxi's does
        names = [name for name in self.masks.methods if name != KEY]
        name = next((name for name in names if all(base.call("has_wrapper_attr", name))), None)
        return None if name is None else (name, lambda: base.call(name))

    def _mask(
        self, obs: Any, infos: dict[str, Any], acting: np.ndarray | None = None, *, first: bool = False
    ) -> np.ndarray | None:
        """Returns the masks of the next actions; `acting`: areas that have some, `first`: after `reset` of all."""
        if self.masks.path is not None:
            return self.masks.in_batch(obs, self.count, acting, self._area)
        if self._mask_method is not None:
            name, method = self._mask_method
            return self.masks.of_method(
                name, self._for_all(self._called(name, method), f"{name}()"), acting, self._area
            )

        def column(key: str) -> Any:
            return self._for_all(rows_of(infos, key, self.count), f"info['{key}']")

        return self.masks.in_infos([infos], column, self._area, first=first, acting=acting)

    def _for_all(self, masks: Any, source: str) -> Any:
        """Returns masks as they are. Raises EnvError unless there is one for each area."""
        given = len(masks) if isinstance(masks, Sequence) or (isinstance(masks, np.ndarray) and masks.ndim) else 0
        if given != self.count:
            raise EnvError(
                f"{self._name}: {source} has masks for {given} areas; expected {self.count}, one for each area"
            )
        return masks


class SameStep(VectorEnvs):
    """Adapts environments that restart on the tick of an episode's end, with final observations in the infos."""

    def step(self, actions: Any) -> Tick:
        """Simulates one tick."""
        given, reward, terminated, truncated, infos = self._step(actions)
        obs = self._split(given)
        ended = np.flatnonzero(terminated | truncated)
        last = ()
        success = None
        if len(ended):
            last = self._last(infos, ended)
            success = _success(infos.get("final_info", infos), ended, self.count)
        return Tick(obs, reward, terminated, truncated, ended, last, success=success, mask=self._mask(given, infos))

    def _last(self, infos: dict[str, Any], ended: np.ndarray) -> BatchedObs:
        """Returns the final observations, which infos hold as an array of objects or batched like observations."""
        final = next((infos[key] for key in FINAL_KEYS if key in infos), None)
        if final is None:
            raise EnvError(
                f"{self._name} names SAME_STEP as its autoreset mode, but at an episode's end its infos lack "
                f"'final_obs' (they have: {', '.join(infos) or 'nothing'}): the last observation, which learning "
                "needs, is lost. Give it there, or restart episodes in mode NEXT_STEP or DISABLED"
            )
        if isinstance(final, np.ndarray) and final.dtype == object:
            return gathered(self.leaves, [final[i] for i in ended], self._name, ended.tolist())
        return tuple(column[ended] for column in self._split(final))


class NextStep(VectorEnvs):
    """Adapts environments that restart on the next tick; until then the area does not act."""

    steady = False

    def __init__(self, envs: VectorEnv, name: str, conventions: Conventions = UNSAID) -> None:
        super().__init__(envs, name, conventions)
        self._ended = np.zeros(self.count, np.bool_)

    def reset(self, seed: int) -> Start:
        """Resets every environment."""
        self._ended[:] = False
        return super().reset(seed)

    def step(self, actions: Any) -> Tick:
        """Simulates one tick."""
        given, reward, terminated, truncated, infos = self._step(actions)
        obs = self._split(given)
        now = terminated | truncated
        wrong = np.flatnonzero(now & self._ended)
        if len(wrong):
            raise EnvError(
                f"{self._name} names NEXT_STEP as its autoreset mode, but area {wrong[0]} ended on two ticks in a "
                "row: on the tick after an end it should start the next episode and ignore the action. Name the mode "
                "that it has in metadata['autoreset_mode']"
            )
        if keys := [key for key in FINAL_KEYS if key in infos]:
            raise EnvError(
                f"{self._name} names NEXT_STEP as its autoreset mode, but its infos have '{keys[0]}', as of mode "
                "SAME_STEP. Name the mode that it has in metadata['autoreset_mode']"
            )
        reward[self._ended] = 0  # the reward of a reset belongs to no decision
        self._ended = now
        ended = np.flatnonzero(now)
        mask = self._mask(given, infos, ~now)
        if not len(ended):
            return Tick(obs, reward, terminated, truncated, ended, (), mask=mask)
        last = tuple([column[ended] for column in obs])
        return Tick(obs, reward, terminated, truncated, ended, last, ~now, _success(infos, ended, self.count), mask)


class Disabled(VectorEnvs):
    """Adapts environments that the caller restarts, with `reset(options={"reset_mask": mask})`."""

    resets = True

    def __init__(self, envs: VectorEnv, name: str, conventions: Conventions = UNSAID) -> None:
        super().__init__(envs, name, conventions)
        self._mask_checked = False

    def step(self, actions: Any) -> Tick:
        """Simulates one tick and resets the environments whose episodes ended."""
        given, reward, terminated, truncated, infos = self._step(actions)
        obs = self._split(given)
        mask = terminated | truncated
        ended = np.flatnonzero(mask)
        if not len(ended):
            return Tick(obs, reward, terminated, truncated, ended, (), mask=self._mask(given, infos))
        last = tuple([column[ended] for column in obs])
        success = _success(infos, ended, self.count)
        others = None if self._mask_checked or mask.all() else tuple([column[~mask] for column in obs])
        before = self._mask(given, infos, ~mask)
        options = {"reset_mask": mask.copy(), **self.parameters.options()}
        given, infos = self._called("reset", self._envs.reset, options=options)
        obs = self._split(given)
        allowed = self._mask(given, infos, mask)
        if before is not None and allowed is not None:
            allowed[~mask] = before[~mask]
        if others is not None:
            self._check(others, tuple([column[~mask] for column in obs]))
        return Tick(obs, reward, terminated, truncated, ended, last, success=success, mask=allowed)

    def _check(self, before: BatchedObs, after: BatchedObs) -> None:
        """Checks once that `reset` supports masks: otherwise it would interrupt the episodes of all areas."""
        self._mask_checked = True
        if not all(np.array_equal(one, other) for one, other in zip(before, after, strict=True)):
            raise EnvError(
                f"{self._name} names DISABLED as its autoreset mode, but reset(options={{'reset_mask': mask}}) also "
                "changed environments that the mask leaves out: it should reset only those whose mask is true, and "
                "return the others' observations unchanged"
            )


class CartPoleVectors(VectorEnvs):
    """Adapts Gymnasium's vectorized CartPole: resets its state directly, so that agents act on every tick."""

    _envs: CartPoleVectorEnv

    def step(self, actions: Any) -> Tick:
        """Simulates one tick."""
        envs = self._envs
        obs, reward, terminated, truncated, _ = envs.step(actions)
        ended = np.flatnonzero(envs.prev_done)
        if not len(ended):
            return Tick((obs,), reward, terminated, truncated, ended, ())
        first = envs.np_random.uniform(envs.low, envs.high, (4, len(ended)))
        envs.state[:, ended] = first  # pyright: ignore[reportOptionalSubscript] (an array since reset)
        envs.steps[ended] = 0
        envs.prev_done = np.zeros_like(envs.prev_done)
        last = obs[ended]
        obs[ended] = first.T
        return Tick((obs,), reward, terminated, truncated, ended, (last,))


def adapted(envs: VectorEnv, name: str, conventions: Conventions = UNSAID) -> VectorEnvs | SingleEnvs:
    """Returns the adapter for a vector environment's autoreset mode. Raises EnvError if its metadata names no mode."""
    if type(envs) is SyncVectorEnv:  # stepped one by one: as fast, and environments that reset themselves are detected
        return SingleEnvs(envs.envs, name, conventions)
    if type(envs) is CartPoleVectorEnv:
        return CartPoleVectors(envs, name, conventions)
    adapters = {AutoresetMode.SAME_STEP: SameStep, AutoresetMode.NEXT_STEP: NextStep, AutoresetMode.DISABLED: Disabled}
    given = metadata_of(envs, name).get("autoreset_mode")
    try:
        adapter = adapters[AutoresetMode(given)]
    except ValueError:
        modes = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
        what = "has no metadata['autoreset_mode']" if given is None else f"has metadata['autoreset_mode'] = {given!r}"
        raise EnvError(
            f"{name} {what}, so it is unknown when its episodes restart: set it to the one of {modes} (of "
            "gymnasium.vector) that applies"
        ) from None
    return adapter(envs, name, conventions)


def rows_of(infos: dict[str, Any], key: str, count: int) -> Any:
    """Returns each environment's entry for a key of batched infos, or None; as one array if no entry is missing."""
    values = infos.get(key)
    has = infos.get(f"_{key}")
    if values is None:
        return [None] * count
    present = np.ones(count, np.bool_) if has is None else np.asarray(has, np.bool_)
    if isinstance(values, dict):  # an entry that is a dictionary is batched entry by entry
        keys = [one for one in values if not (isinstance(one, str) and one.startswith("_") and one[1:] in values)]
        rows = {one: rows_of(values, one, count) for one in keys}
        return [{one: column[i] for one, column in rows.items()} if present[i] else None for i in range(count)]
    return values if present.all() else [values[i] if present[i] else None for i in range(count)]


def _success(infos: Any, ended: np.ndarray, count: int) -> np.ndarray | None:
    """Returns `Tick.success` from batched infos, or from an array with a dictionary for each environment."""
    if isinstance(infos, np.ndarray):
        return successes(ended, [infos[i] for i in ended], count)
    values = infos.get(SUCCESS) if isinstance(infos, dict) else None
    if values is None:
        return None
    reported = infos.get(f"_{SUCCESS}", np.ones(count, np.bool_))
    return successes(ended, [{SUCCESS: values[i]} if reported[i] else {} for i in ended], count)
