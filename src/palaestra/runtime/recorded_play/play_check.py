"""Finds out whether recorded actions come from a model, and if not, which change of the recording makes them agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.model import Policy
from palaestra.runtime.recorded_play.model_odds import NOISE, SAME, AskedModel, Odds, inputs_of
from palaestra.runtime.recorded_play.play_causes import Cause, Recorded, possible_causes
from palaestra.runtime.recorded_play.played_decisions import PlayedDecisions

AGREES = 0.98
"""Least share of decisions that must be the model's likeliest actions, if a game plays the likeliest actions."""
SCREENED, AROUND, MOST_CAUSES, KEPT = 192, 8, 3, 6
"""Decisions with which all causes are tried, and those around each of the first begins of episodes; causes together,
and sets of them that are continued with one more."""
LEAST_EXPLAINED, CLEAR, LOOSE = 3, 6.0, 4.0
"""Differing decisions that a cause must explain; standard errors by which it must explain drawn actions better, and by
which these may differ from what is expected."""
SPREAD, MEAN_NOISE, MEAN_CHANCE = (0.95, 1.05), 0.05, 0.01
"""Relative variance, and differences of means in deviations and in nats, that are none whatever their error."""
ROUNDING, FAR = 1e-5, 50.0
"""Difference of clipped numbers that is none; most noise that an action counts as."""
ERF = np.frompyfunc(math.erf, 1, 1)
"""The error function of each number."""

Plan = tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class PlayFit:
    """How well a model explains recorded actions."""

    same: NDArray[np.bool_]  # (N,) the action is the model's likeliest
    score: NDArray[np.float64]  # (N,) how likely it is, with a bound on what a single one can lose
    expected: float  # share of `same` where actions are drawn from the model's distribution; 0 with continuous ones
    drawn: bool  # the actions can have been drawn from it
    informed: bool  # it knows more of the actions than how often each occurs

    @property
    def agreement(self) -> float:
        """Share of decisions with the model's likeliest action."""
        return float(self.same.mean()) if len(self.same) else 0.0


@dataclass(frozen=True, slots=True)
class PlayVerdict:
    """Result of the comparison of a recording with a model."""

    model: Policy
    decisions: PlayedDecisions
    before: PlayFit
    causes: Plan
    after: PlayFit
    tried: int  # sets of causes
    constant: bool  # the model's likeliest actions are the same for all observations
    instead: Policy | None = None  # another of the given models, which the game plays

    @property
    def plays(self) -> bool:
        """Whether the game plays the model as it was trained."""
        return not self.causes and self.instead is None and (self.before.agreement >= AGREES or self.before.drawn)

    @property
    def sampled(self) -> bool:
        """Whether the game draws actions in place of taking the likeliest."""
        return self.after.agreement < AGREES and self.after.drawn


class PlayCheck:
    """Compares one recording with one model. Raises PolicyError if the recording does not fit the model."""

    def __init__(self, policy: Policy, decisions: PlayedDecisions) -> None:
        spec = decisions.spec
        self.model = AskedModel(policy)
        self.decisions = decisions
        self._taken = inputs_of(policy, [obs.name for obs in spec.obs], [obs.shape for obs in spec.obs])
        self._odds: dict[tuple[int, tuple[int, ...]], Odds] = {}
        self.tried = 0

    def verdict(self) -> PlayVerdict:
        """Tries all causes, unless the recorded actions already are the model's actions."""
        before = self.fit((), self.decisions)
        plan: Plan = ()
        after = before
        if before.agreement < 1:
            fits = {found: self.fit(found, self.decisions) for found in self._search(before)}
            for found in sorted(_best(fits), key=len):  # more causes only where they explain more
                if explains(fits[found], after):
                    plan, after = found, fits[found]
            for cause in plan if len(plan) > 1 else ():  # one that changes nothing is no cause
                fewer = tuple(other for other in plan if other is not cause)
                fit = self.fit(fewer, self.decisions)
                if _rank(fit) >= _rank(after) or (fit.drawn and fit.informed and not explains(after, fit)):
                    plan, after = fewer, fit
        odds = self._ask((), self.decisions)
        constant = bool((np.ptp(odds.likeliest, 0) <= SAME).all() and (np.ptp(odds.choices, 0) == 0).all())
        return PlayVerdict(self.model.policy, self.decisions, before, plan, after, self.tried, constant)

    def _search(self, whole: PlayFit) -> list[Plan]:
        """Returns the best plans on some decisions, and all plans that only concern the beginnings of episodes."""
        rows = self._screened()
        some = _rows(self.decisions, rows)
        base = self.fit((), some)
        policy = self.model.policy
        joined = any(len(taken) > 1 for taken in self._taken)
        causes = possible_causes(some, joined, bool(policy.memory_size))
        images = [cause for cause in causes if cause.part.startswith("image")]
        plans: list[Plan] = [(cause,) for cause in causes]
        apart = ((a, b) for a, b in combinations(images, 2) if a.part != b.part)
        plans += [(a, b) for a, b in apart if a.part.rpartition(" ")[0] == b.part.rpartition(" ")[0]]  # of the same
        fits = {plan: self.fit(plan, some) for plan in plans}
        best = _best(fits)
        for _ in range(2, MOST_CAUSES + 1):
            if _convincing(fits[best[0]]):
                break
            starts: dict[tuple[str, ...], Plan] = {}  # several of one part would leave no room for others
            for plan in best:
                starts.setdefault(tuple(cause.part for cause in plan), plan)
            longer = [
                plan
                for start in [*starts.values()][:KEPT]
                for cause in causes
                if cause.part not in {one.part for one in start}
                and (plan := tuple(sorted((*start, cause), key=causes.index))) not in fits
            ]
            fits |= {plan: self.fit(plan, some) for plan in dict.fromkeys(longer)}
            best = _best(fits)
        late = [plan for plan in fits if len(plan) == 1 and plan[0].key in ("stack_filled", "stack_kept")]
        if len(rows) < len(self.decisions) and whole.agreement < AGREES:
            late = [plan for plan in late if _rank(fits[plan]) > _rank(base)]
        return list(dict.fromkeys([*best[:KEPT], *late]))

    def _screened(self) -> NDArray[np.int64]:
        count = len(self.decisions)
        rows = np.arange(min(SCREENED, count))
        if self.model.policy.memory_size:
            return rows
        begins = np.flatnonzero(self.decisions.age == 0)[:AROUND]
        near = (begins[:, None] + np.arange(-AROUND, AROUND)).ravel()
        return np.union1d(rows, near[(near >= 0) & (near < count)])

    def fit(self, plan: Plan, decisions: PlayedDecisions) -> PlayFit:
        """Returns how well the model explains the decisions after the changes of every cause in a plan."""
        self.tried += decisions is not self.decisions
        odds = self._ask(plan, decisions)
        recorded: Recorded = decisions.continuous, decisions.discrete, np.ones(len(decisions), np.bool_)
        for cause in plan:
            if cause.answer is not None:
                odds = replace(odds, numbers=cause.answer(odds.numbers))
            if cause.recorded is not None:
                recorded = cause.recorded(recorded, decisions)
        return measure(odds, recorded)

    def _ask(self, plan: Plan, decisions: PlayedDecisions) -> Odds:
        asked = [cause for cause in plan if cause.answer is None and cause.recorded is None]
        key = len(decisions), tuple(map(id, asked))
        if key not in self._odds:
            if len(asked) > 1 and len(self._odds) > 200:
                self._odds.clear()
            obs = list(decisions.obs)
            mask = decisions.mask
            memory = "carried"
            for cause in asked:
                obs = obs if cause.obs is None else cause.obs(obs, decisions)
                mask = mask if cause.mask is None or mask is None else cause.mask(mask)
                memory = cause.memory or memory
            inputs = [np.concatenate([obs[i] for i in taken], 1) for taken in self._taken]
            contiguous = [np.ascontiguousarray(one, np.float32) for one in inputs]
            self._odds[key] = self.model.odds(contiguous, mask, decisions.age, memory)
        return self._odds[key]


def measure(odds: Odds, recorded: Recorded) -> PlayFit:
    """Compares recorded actions with a model's probabilities."""
    continuous, discrete, valid = recorded
    same = np.ones(len(valid), np.bool_)
    score = np.zeros(len(valid))
    known = np.zeros(len(valid))  # by how much the model finds an action likelier than its frequency says
    expected = np.ones(len(valid))
    drawn = True
    if continuous.shape[1]:
        same &= (np.abs(continuous - odds.likeliest) <= SAME).all(1)
        noise, spread, bounds = _noise(odds.numbers, continuous)
        # Student's t: one outlier hides nothing; the narrower, the more an action near says
        score -= (2.5 * np.log1p(np.square(noise) / 4) + np.log(np.maximum(spread, SAME))).sum(1)
        free = spread > ROUNDING
        within = [bound[valid] for bound in bounds]
        drawn &= odds.noisy and _is_noise(noise[valid], free[valid], within, odds.likeliest[valid])
        usual = (continuous - continuous.mean(0)) / (deviation := continuous.std(0) + ROUNDING)
        gain = (np.square(usual) - np.square(noise)) / 2 + np.log(deviation / np.maximum(spread, ROUNDING))
        known += np.where(free, gain, 0).sum(1)
        expected[:] = 0
    for i, end in enumerate(np.cumsum(odds.branches).tolist()):
        chances = np.exp(odds.log_chances[:, end - odds.branches[i] : end])
        choice = discrete[:, i].clip(0, chances.shape[1] - 1)
        taken = np.take_along_axis(chances, choice[:, None], 1)[:, 0]
        same &= taken >= chances.max(1) - 1e-4
        score += np.log(0.98 * taken + 0.02 / chances.shape[1])
        drawn &= _is_draw(chances[valid], taken[valid])
        known += np.log(np.maximum(taken, 1e-12)) - np.log(np.bincount(choice)[choice] / len(choice))
        expected *= chances.max(1)
    if not valid.any():
        return PlayFit(same[valid], score[valid], 0.0, False, False)
    error = known[valid].std() / np.sqrt(valid.sum()) + 1e-12
    informed = bool(known[valid].mean() > CLEAR * error)
    return PlayFit(same[valid], score[valid], float(expected[valid].mean()), drawn, informed)


def _noise(
    numbers: NDArray[np.float64], action: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Returns the noise that gives each number of an action (N, numbers), the number's deviation (0: any noise gives
    it), and the range of noise in which the number is not clipped.

    Numbers are known at a few amounts of noise and straight in between; where they are clipped, many amounts do.
    """
    at = np.array(NOISE)
    last = len(at) - 2
    slopes = np.diff(numbers, axis=0) / np.diff(at)[:, None, None]
    moves = slopes > ROUNDING
    still = np.pad(~moves, ((1, 1), (0, 0), (0, 0)))
    beside = np.pad(slopes, ((1, 1), (0, 0), (0, 0)))
    begins = still[:-2]  # clipping ends or begins in a part that is as steep as the one beside it
    slopes = np.where(moves, np.maximum(slopes, begins * beside[2:] + still[2:] * beside[:-2]), slopes)

    def noise_at(part: NDArray[np.int64], number: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        place = part + np.take_along_axis(begins, part[None], 0)[0]
        slope = np.take_along_axis(slopes, part[None], 0)[0]
        beyond = number - np.take_along_axis(numbers, place[None], 0)[0]
        return at[place] + beyond / np.maximum(slope, ROUNDING), slope

    noise, slope = noise_at(((numbers <= action).sum(0) - 1).clip(0, last), action)
    first, final = moves.argmax(0), last - moves[::-1].argmax(0)
    low = np.where(first > 0, noise_at(first, numbers[0])[0], -FAR)
    high = np.where(final < last, noise_at(final, numbers[-1])[0], FAR)
    least = np.argsort(np.abs(at))  # from no noise on: where several give the same number, the least counts
    near = np.abs(numbers[least] - action) <= np.where(at[least] == 0, SAME, ROUNDING)[:, None, None]
    known = near.any(0)
    noise = np.where(known, at[least][near.argmax(0)], noise).clip(-FAR, FAR)
    return noise, np.where(known, 0, slope), (low, np.where(moves.any(0), high, low))


def _is_noise(
    noise: NDArray[np.float64],
    free: NDArray[np.bool_],
    bounds: Sequence[NDArray[np.float64]],
    likeliest: NDArray[np.float64],
) -> bool:
    """Whether the unclipped numbers (N, numbers) are standard normal within bounds."""
    (low, some), (high, more) = ((bound, np.exp(-np.square(bound) / 2) / np.sqrt(2 * np.pi)) for bound in bounds)
    share = np.asarray(ERF(high / np.sqrt(2)) - ERF(low / np.sqrt(2)), np.float64) / 2
    expected = (share + low * some - high * more).clip(0)  # of the squares, and some - more of the noise itself
    inside = np.where(free, noise, 0)
    if (total := expected.sum()) < 1:
        return False
    variance = np.square(inside).sum() / total
    spread = SPREAD[0] <= variance <= SPREAD[1] or abs(variance - 1) <= LOOSE * np.sqrt(2 / total)
    usual = (likeliest - likeliest.mean(0)) / (likeliest.std(0) + ROUNDING)
    count = expected.sum(0).clip(1)
    allowed = np.maximum(MEAN_NOISE, LOOSE / np.sqrt(count))
    apart = [np.abs(((inside - some + more) * of).sum(0) / count) <= allowed for of in (np.ones_like(usual), usual)]
    return bool(spread and np.all(apart))


def _is_draw(chances: NDArray[np.float64], taken: NDArray[np.float64]) -> bool:
    """Whether choices, whose own chances were `taken` (N,), were drawn from the chances (N, choices)."""
    if not len(taken):
        return False
    logs = np.log(np.maximum(chances, 1e-12))
    entropy = -(chances * logs).sum(1)
    variance = ((chances * np.square(logs)).sum(1) - np.square(entropy)).clip(0)
    error = np.sqrt(variance.sum()) / len(taken)
    off = np.abs((np.log(np.maximum(taken, 1e-12)) + entropy).mean())
    return bool(off <= max(MEAN_CHANCE, LOOSE * error))


def explains(fit: PlayFit, before: PlayFit) -> bool:
    """Whether a change explains the actions that did not agree without it."""
    missing = len(before.same) - before.same.sum()
    still = len(fit.same) - fit.same.sum()
    if fit.agreement >= AGREES:
        by_chance = before.drawn and missing < (1 - AGREES) * len(fit.same)
        return bool(missing - still >= LEAST_EXPLAINED and still <= missing / 2 and not by_chance)
    if not (_convincing(fit) and len(before.score)):
        return False
    if len(fit.score) == len(before.score):
        error = (fit.score - before.score).std() / np.sqrt(len(fit.score))
    else:  # the first or last action of an episode belongs to no decision
        error = np.hypot(*(each.score.std() / np.sqrt(len(each.score)) for each in (fit, before)))
    return bool(fit.score.mean() - before.score.mean() > CLEAR * (error + 1e-12))


def _rank(fit: PlayFit) -> tuple[float, bool, float]:
    if fit.agreement == 1:
        return 1.0, True, 0.0  # how sure the model is does not matter here
    score = fit.score.mean() if len(fit.score) else -FAR
    return fit.agreement if fit.agreement >= 0.9 else 0.0, _convincing(fit), score


def _convincing(fit: PlayFit) -> bool:
    return bool(fit.same.all()) or (fit.drawn and fit.informed)


def _best(fits: dict[Plan, PlayFit]) -> list[Plan]:
    return sorted(fits, key=lambda plan: _rank(fits[plan]), reverse=True)


def _rows(decisions: PlayedDecisions, rows: NDArray[np.int64]) -> PlayedDecisions:
    mask = None if decisions.mask is None else decisions.mask[rows]
    obs = tuple(one[rows] for one in decisions.obs)
    columns = decisions.continuous[rows], decisions.discrete[rows], decisions.age[rows]
    return PlayedDecisions(decisions.spec, obs, mask, *columns)


def check_play(policies: Sequence[Policy], decisions: PlayedDecisions) -> PlayVerdict:
    """Compares a recording with the first model; if no cause explains it, also with each of the other models."""
    verdict = PlayCheck(policies[0], decisions).verdict()
    if verdict.plays:
        return verdict
    for other in policies[1:]:
        check = PlayCheck(other, decisions)
        fit = check.fit((), decisions)
        if fit.agreement >= AGREES or (fit.drawn and explains(fit, verdict.before) and not verdict.causes):
            return replace(verdict, causes=(), after=fit, instead=other)
    return verdict
