"""Which columns the decisions of a behavior have, and the rollout that they make."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.data.rollout import Earned, Moments, Rollout, RolloutNeeds


@dataclass(frozen=True, slots=True)
class OpenDecisions:
    """Decisions that have not settled when a rollout is taken: W of them."""

    slots: Tensor  # (W,) int64
    opened: list[Tensor]  # as `RolloutLayout.opened`, each (W, ...)
    earlier: Earned | None  # of the rollouts before this one, where moments are kept


class RolloutLayout:
    """Which columns a behavior's decisions have: those of no width are left out of every tick."""

    def __init__(self, step: TimeStep, decision: Decision, keeps: RolloutNeeds) -> None:
        self.views = len(step.obs)
        self.widths = (decision.sample.continuous.shape[1], decision.sample.discrete.shape[1], decision.recurrent_state.shape[1])
        self.keeps, self.masked = keeps, step.action_mask is not None

    def opened(self, step: TimeStep, decision: Decision, tick: int) -> list[Tensor]:
        """What is known when a slot acts, on this tick."""
        continuous, discrete, memory = self.widths
        parts = [*step.obs, decision.log_prob]
        if continuous:
            parts.append(decision.sample.continuous)
        if discrete:
            parts.append(decision.sample.discrete)
        if memory:
            parts.append(decision.recurrent_state)
        if step.action_mask is not None:
            parts.append(step.action_mask)
        if self.keeps.moments:
            parts += [torch.full_like(step.group, tick), step.group]
        return parts

    def settled(self, step: TimeStep, tick: int) -> list[Tensor]:
        """What is known once a slot acts again or its episode ends, on this tick."""
        parts = [step.reward, step.group_reward, step.terminated, step.truncated]
        if self.keeps.moments:
            parts.append(torch.full_like(step.group, tick))
        return parts

    def kept(self, settled: list[Tensor]) -> Tensor:
        """Of these columns, the episodes whose last views are kept, (T, S)."""
        return settled[2] | settled[3] if self.keeps.terminal_views else settled[3]

    def rollout(
        self,
        opened: list[Tensor],
        settled: list[Tensor],
        lengths: Tensor | None,
        ends: tuple[Tensor, tuple[Tensor, ...]],
        step: TimeStep,
        now: int,
        waiting: OpenDecisions | None = None,
    ) -> Rollout:
        """The columns, named. `step` came on tick `now`, after the last decision; what waits shows its view when it was made."""
        reward, group_reward, terminated, truncated, *until = settled
        obs, log_prob, sample, memory, mask, _ = self._named(opened)
        last_obs, last_mask = step.obs, step.action_mask
        if waiting is not None:
            views, *_, allowed, _ = self._named(waiting.opened)
            last_obs = tuple(x.index_copy(0, waiting.slots, was) for x, was in zip(last_obs, views, strict=True))
            if last_mask is not None and allowed is not None:
                last_mask = last_mask.index_copy(0, waiting.slots, allowed)
        return Rollout(
            obs=obs,
            sample=sample,
            log_prob=log_prob,
            action_mask=mask,
            memory=memory,
            reward=reward,
            group_reward=group_reward,
            terminated=terminated,
            truncated=truncated,
            lengths=lengths,
            last_obs=last_obs,
            last_mask=last_mask,
            final_rows=ends[0],
            final_obs=ends[1],
            area=step.area,
            team=step.team,
            group=step.group,
            moments=self._moments(opened, until[0], step, now, waiting) if self.keeps.moments else None,
        )

    def _named(self, opened: list[Tensor]) -> tuple[tuple[Tensor, ...], Tensor, Action, Tensor, Tensor | None, list[Tensor]]:
        """Views, log-probabilities, sample, memory, mask, and the rest: tick and group."""
        columns = iter(opened)
        obs = tuple(next(columns) for _ in range(self.views))
        log_prob = next(columns)
        none = log_prob[..., :0]
        continuous, discrete, memory = (next(columns) if width else none for width in self.widths)
        mask = next(columns) if self.masked else None
        return obs, log_prob, Action(continuous, discrete), memory, mask, list(columns)

    def _moments(self, opened: list[Tensor], until: Tensor, step: TimeStep, now: int, waiting: OpenDecisions | None) -> Moments:
        _, _, sample, memory, _, (made, group) = self._named(opened)
        last = [torch.full_like(step.group, now), step.group, step.acting, torch.zeros_like(step.acting)]
        last += [x.new_zeros(x.shape[1:]) for x in (sample.continuous, sample.discrete, memory)]
        if waiting is not None:
            _, _, sample, memory, _, (then, was) = self._named(waiting.opened)
            yes = torch.ones_like(waiting.slots, dtype=torch.bool)
            parts = (then, was, yes, yes, sample.continuous, sample.discrete, memory)
            last = [x.index_copy(0, waiting.slots, value) for x, value in zip(last, parts, strict=True)]
        last_made, last_group, here, decided, continuous, discrete, memory = last
        none = made[:0, 0]
        earlier = None if waiting is None else waiting.earlier
        earlier = earlier or Earned(none, none, step.reward[:0])
        return Moments(made, until, group, last_made, last_group, here, decided, Action(continuous, discrete), memory, earlier)

    def earned(self, opened: list[Tensor], settled: list[Tensor], lengths: Tensor, waiting: OpenDecisions) -> Earned | None:
        """What agents of groups have earned since the first of the decisions that wait was made; None where moments are not kept."""
        if not self.keeps.moments:
            return None
        group, until, reward = opened[-1], settled[-1], settled[0]
        rows = (torch.arange(len(until), device=until.device).unsqueeze(1) < lengths) & (group >= 0)
        rows = rows.flatten()
        whole = Earned(*(column.flatten()[rows] for column in (group, until, reward)))
        if waiting.earlier is not None:
            pairs = ((waiting.earlier.group, whole.group), (waiting.earlier.until, whole.until), (waiting.earlier.reward, whole.reward))
            whole = Earned(*(torch.cat(pair) for pair in pairs))
        made = waiting.opened[-2]
        return whole.after(int(made.min()) if len(made) else 1 << 62)
