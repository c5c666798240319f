from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.envs.traits import EnvTraits
from palaestra.testing import check_env
from palaestra.testing.check_env import hashes_of

NAME, SLOTS = "Walk", 3


class Walk:
    """Every slot draws a number each tick; above 0.8 its episode ends, below 0.1 it is cut."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.num_areas = SLOTS
        spec = BehaviorSpec((ObsSpec("drawn", (2,)),), ActionSpec(1, (2, 3)), steady=True)
        self.behaviors = {NAME: spec}
        self.parameters = {"wind": 1.0}
        self.random = torch.Generator()

    def reset(self, seed):
        self.random.manual_seed(seed)
        return {NAME: self.table(torch.ones(SLOTS) / 2, torch.zeros(SLOTS))}

    def step(self, actions):
        assert actions[NAME].discrete.shape == (SLOTS, 2)
        assert not (actions[NAME].discrete[:, 1] == 0).any(), "choice 0 of branch 1 is masked"
        return {NAME: self.table(torch.rand(SLOTS, generator=self.random), actions[NAME].continuous[:, 0])}

    def table(self, drawn, reward):
        terminated = drawn > 0.8
        truncated = drawn < 0.1
        rows = torch.arange(SLOTS)
        slots = (terminated | truncated).nonzero()[:, 0]
        return TimeStep(
            obs=(torch.stack([drawn, drawn], 1),),
            acting=torch.ones(SLOTS, dtype=torch.bool),
            reward=reward.clone(),
            group_reward=torch.zeros(SLOTS),
            terminated=terminated,
            truncated=truncated,
            final_obs=FinalObs(slots, (torch.zeros(len(slots), 2),)),
            action_mask=torch.tensor([True, True, False, True, True]).expand(SLOTS, 5),
            area=rows,
            team=torch.zeros_like(rows),
            group=torch.full_like(rows, -1),
        )

    def set_parameters(self, values):
        if unknown := values.keys() - self.parameters.keys():
            raise EnvError(f"no parameter {unknown}")

    def render(self, area):
        return np.zeros((4, 5, 3), np.uint8)

    def state_dict(self):
        return {"random": self.random.get_state()}

    def load_state_dict(self, state):
        self.random.set_state(state["random"])

    def close(self):
        pass


def test_an_environment_that_keeps_the_contract_passes():
    check_env(Walk())


class Coming(Walk):
    """A slot more at each tick; half of them wait, and those may choose nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.behaviors = {NAME: replace(self.behaviors[NAME], steady=False)}

    def reset(self, seed):
        self.slots = 1
        return super().reset(seed)

    def step(self, actions):
        self.slots += 1
        return {NAME: self.table(torch.rand(SLOTS, generator=self.random), torch.zeros(SLOTS))}

    def table(self, drawn, reward):
        n = self.slots
        rows = torch.arange(n)
        nobody = torch.zeros(n, dtype=torch.bool)
        acting = rows % 2 == 0
        obs = (torch.full((n, 2), drawn[0].item()),)
        mask = acting[:, None].expand(n, 5)
        area = rows % SLOTS
        ends = FinalObs(rows[:0], (torch.zeros(0, 2),))
        return TimeStep(obs, acting, torch.zeros(n), torch.zeros(n), nobody, nobody, ends, mask, area, rows, rows)

    def state_dict(self):
        return {}


def test_slots_that_come_later_and_wait_pass():
    check_env(Coming(), ticks=20)


class Losing(Coming):
    """A slot whose episode breaks off now and then, and ticks on which nobody acts."""

    ends_too = False

    def table(self, drawn, reward):
        step = super().table(drawn, reward)
        if self.slots == 1:
            return step
        lost = torch.arange(self.slots) == self.slots // 2
        step = replace(step, lost=lost, acting=step.acting & (self.slots % 3 > 0))
        return (
            step
            if not self.ends_too
            else replace(step, terminated=lost, final_obs=FinalObs(lost.nonzero()[:, 0], (torch.zeros(1, 2),)))
        )

    def step(self, actions):
        assert (NAME in actions) == (self.slots % 3 > 0 or self.slots == 1)
        return super().step(actions)


def test_episodes_may_be_lost_where_they_did_not_end():
    check_env(Losing(), ticks=20)
    both = Losing()
    both.ends_too = True
    with pytest.raises(
        EnvError, match="slot 1 is lost and ended; an episode that ended counts, one that is lost does not"
    ):
        check_env(both, ticks=20)


def spoiled(**columns):
    """Tables of `Walk` with some columns replaced by what functions of the table give."""

    class Spoiled(Walk):
        def table(self, drawn, reward):
            step = super().table(drawn, reward)
            return replace(step, **{name: column(step) for name, column in columns.items()})

    return Spoiled()


def cut_short(step: TimeStep) -> FinalObs:
    return FinalObs(step.final_obs.slots[1:], tuple(obs[1:] for obs in step.final_obs.obs))


def with_nan(step: TimeStep) -> tuple[torch.Tensor, ...]:
    obs = step.obs[0].clone()
    obs[1, 0] = float("nan")
    return (obs,)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (spoiled(obs=lambda step: list(step.obs)), "obs is a list; the spec has a tuple of 1"),
        (spoiled(obs=lambda step: step.obs * 2), "obs is 2 of them"),
        (
            spoiled(obs=lambda step: (step.obs[0][:, :1],)),
            r"obs\[0\] 'drawn' is torch.float32 \(3, 1\).*expected torch.float32 \(3, 2\)",
        ),
        (spoiled(obs=lambda step: (step.obs[0].double(),)), r"is torch.float64 \(3, 2\)"),
        (spoiled(obs=lambda step: (step.obs[0].to("meta"),)), "on meta; expected .* on cpu"),
        (spoiled(obs=with_nan), r"obs\[0\] 'drawn'\[1, 0\] is nan; expected finite"),
        (spoiled(reward=lambda step: step.reward[:, None]), r"reward is torch.float32 \(3, 1\)"),
        (spoiled(reward=lambda step: step.reward / 0), r"reward\[0\] is (nan|-?inf)"),
        (spoiled(reward=lambda step: step.reward + 1), "reset gives rewards"),
        (spoiled(terminated=lambda step: step.terminated.float()), "terminated is torch.float32"),
        (spoiled(truncated=lambda step: step.terminated | step.truncated), "is terminated and truncated"),
        (spoiled(acting=lambda step: step.acting & (step.area > 0)), "slot 0 is not acting; every slot of a steady"),
        (spoiled(acting=lambda step: None), "acting is a NoneType"),
        (spoiled(final_obs=cut_short), r"final_obs.slots is \[.*\]; expected"),
        (spoiled(final_obs=lambda step: FinalObs(step.final_obs.slots.flip(0), step.final_obs.obs)), "rising"),
        (
            spoiled(final_obs=lambda step: FinalObs(step.final_obs.slots, (step.final_obs.obs[0][:, :1],))),
            r"final_obs.obs\[0\] 'drawn'",
        ),
        (spoiled(final_obs=lambda step: None), "final_obs is a NoneType"),
        (spoiled(action_mask=lambda step: step.action_mask[:, :4]), r"action_mask is torch.bool \(3, 4\)"),
        (spoiled(action_mask=lambda step: step.action_mask & False), "agent 0 may choose nothing in branch 0"),
        (spoiled(area=lambda step: step.area + 1), "area 3 does not exist; there are 0 to 2"),
        (spoiled(group=lambda step: step.group - 1), "group -2"),
        (spoiled(team=lambda step: step.team - 1), "team -1"),
        (spoiled(lost=lambda step: step.acting), "lost is a column; expected None, as no episode of a steady behavior"),
        (spoiled(lost=lambda step: step.acting[:1]), r"lost is torch.bool \(1,\)"),
        (
            spoiled(
                terminated=lambda step: step.area == 0,
                final_obs=lambda step: FinalObs(step.area[:1], (step.obs[0][:1],)),
            ),
            "reset reports ended episodes",
        ),
    ],
)
def test_a_table_that_breaks_a_rule_is_caught(broken: Walk, message: str):
    with pytest.raises(EnvError, match=message):
        check_env(broken)


class Image(Walk):
    def __init__(self):
        super().__init__()
        self.behaviors = {NAME: BehaviorSpec((ObsSpec("eye", (1, 2, 2)),), ActionSpec(1, (2, 3)))}

    def table(self, drawn, reward):
        step = super().table(drawn, reward)
        last = torch.zeros(len(step.final_obs.slots), 1, 2, 2)
        return replace(
            step, obs=(torch.full((SLOTS, 1, 2, 2), 255.0),), final_obs=FinalObs(step.final_obs.slots, (last,))
        )


class Rewriting(Walk):
    buffer = torch.zeros(SLOTS, 2)

    def table(self, drawn, reward):
        self.buffer[:] = drawn[:, None]
        return replace(super().table(drawn, reward), obs=(self.buffer,))


def changed(**members: object) -> Walk:
    """A walk with these members in place of its own."""
    walk = Walk()
    vars(walk).update(members)
    return walk


def cannot_draw(area: int) -> None:
    raise NotImplementedError


class Unseeded(Walk):
    def reset(self, seed):
        steps = super().reset(seed)
        self.random.seed()
        return steps


class ClosesOnce(Walk):
    def close(self):
        del self.random


class Unknown(Walk):
    def step(self, actions):
        return {"Run": super().step(actions)[NAME]}


class Shrinking(Coming):
    def step(self, actions):
        self.slots = 0
        return {NAME: self.table(torch.rand(SLOTS, generator=self.random), torch.zeros(SLOTS))}


class Idle(Coming):
    def table(self, drawn, reward):
        step = super().table(drawn, reward)
        return replace(step, acting=step.acting & False)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (changed(traits=EnvTraits(staggers_episodes=True)), "traits.staggers_episodes is True, but Walk lacks stagger"),
        (Image(), "'eye' holds 255..255; an image lies within 0..1"),
        (Rewriting(), r"tick 1 wrote to 'Walk' obs\[0\] of the table returned 1 tick"),
        (Unseeded(), r"the same seed \(0\) and actions give the same stream, but 'Walk' obs\[0\] differs at tick 1"),
        (
            changed(load_state_dict=lambda state: None),
            "a state saved at tick 100 continues as it did before, but .* differs at tick 101",
        ),
        (changed(state_dict=lambda: {"random": 3}), "'random' is a int; expected a tensor"),
        (changed(set_parameters=lambda values: None), "set_parameters took 'no such parameter'"),
        (
            changed(set_parameters=lambda values: [{"wind": 1.0}[name] for name in values]),
            "must raise EnvError for an unknown name; it raised KeyError",
        ),
        (changed(render=lambda area: np.zeros((4, 5, 3))), r"render\(0\) gave float64 \(4, 5, 3\)"),
        (changed(render=cannot_draw), "where there is no picture; it raised NotImplementedError"),
        (ClosesOnce(), "the second call raised AttributeError"),
        (Unknown(), "behavior 'Run' appeared, but behaviors names only Walk"),
        (Shrinking(), "0 slots after 1; slots stay"),
        (changed(step=lambda actions: {}), "behavior 'Walk' is steady and has no table"),
        (Idle(), "no agent awaited an action in 200 ticks"),
        (changed(num_areas=0), "num_areas is 0"),
        (changed(device="cpu"), "device is 'cpu'; expected a torch.device"),
        (object(), "object lacks device, num_areas, parameters, behaviors"),
    ],
)
def test_an_environment_that_breaks_a_rule_is_caught(broken: Any, message: str):
    with pytest.raises(EnvError, match=message):
        check_env(broken)


def test_final_observations_of_episodes_that_go_on_may_be_anything_on_an_accelerator():
    """There they have a row for every slot, and those of slots that go on are left from earlier episodes."""
    table = Walk().table(torch.tensor([0.5, 0.9, 0.5]), torch.zeros(SLOTS))
    rows = torch.zeros(3, SLOTS, 2)
    # of a slot that goes on; of one whose episode ended
    rows[1, 0] = 1.0
    rows[2, 1] = 1.0
    usual, left, wrong = (
        hashes_of({NAME: replace(table, final_obs=FinalObs(torch.arange(SLOTS), (one,)))}) for one in rows
    )
    assert usual == left
    assert usual != wrong
