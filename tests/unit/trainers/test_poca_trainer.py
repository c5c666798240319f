"""MA-POCA: who is credited with what, and that it learns what PPO cannot."""

import copy
import dataclasses
from collections.abc import Callable
from itertools import islice

import pytest
import torch
from grouped_stream import Grouped
from rollouts import collected, minibatches, rollout_of, rollouts_of, training_rows
from sacrifice_env import Sacrifice
from tiny_envs import CPU, Stream, behavior_settings, spec_of, table
from torch import Tensor
from torch.testing import assert_close

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.data.group_minibatches import GroupMinibatches
from palaestra.data.group_steps import GroupSteps
from palaestra.data.rollout import Rollout
from palaestra.data.sequences import SequenceTable
from palaestra.models.actor_critic import CRITIC
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.models.groups.group_critic import GroupCritic
from palaestra.testing import check_trainer
from palaestra.trainers.advantages import ValueEstimates, gae
from palaestra.trainers.group_advantages import GroupRows, GroupValues
from palaestra.trainers.poca import POCA
from palaestra.trainers.ppo import PPO

MEMORY = {"sequence_length": 6, "memory_size": 8}
MIXED = spec_of((2,), (1,), continuous=2, branches=(3, 2))


def poca(spec: BehaviorSpec, hyper: dict[str, object] | None = None, gamma: float = 0.9, **network: object) -> POCA:
    settings = behavior_settings(hyper, network, {"gamma": gamma}, trainer_type="poca")
    return POCA(spec, settings, CPU, 0)


def group_critic(trainer: POCA) -> GroupCritic:
    assert isinstance(trainer.network.value_head, GroupCritic)
    return trainer.network.value_head


def critique_of(trainer: POCA, rollout: Rollout) -> GroupValues:
    memory = trainer.settings.network_settings.memory
    return GroupValues(
        trainer.network, rollout, GroupMinibatches(GroupSteps(rollout), memory and memory.sequence_length)
    )


@torch.no_grad()
def played(trainer: POCA, stream: Grouped | Stream, ticks: int = 30) -> list[Rollout]:
    """Two rollouts in a row of the trainer's own decisions: the second begins in the middle of episodes."""
    taken = rollouts_of(stream.next, [ticks] * 2, trainer.policy.act, trainer.needs, steady=trainer.network.spec.steady)
    return list(map(copy.deepcopy, taken))  # the buffer writes over what it gave


def steps_to_rollout(trainer: POCA, steps: list[TimeStep]) -> Rollout:
    """The rollout of agents that do nothing."""

    def nothing(step: TimeStep) -> Decision:
        slots = len(step.reward)
        sample = Action(torch.zeros(slots, 0), torch.zeros(slots, 1, dtype=torch.int64))
        return Decision(sample, sample, torch.zeros(slots, 1), torch.zeros(slots, trainer.network.memory_size))

    return rollout_of(steps, nothing, trainer.needs)


def mates(step: TimeStep, group_reward: list[float] | None = None) -> TimeStep:
    """All of one group."""
    group_reward = group_reward or [0.0] * len(step.reward)
    return dataclasses.replace(
        step, group=torch.zeros(len(step.reward), dtype=torch.int64), group_reward=torch.tensor(group_reward)
    )


VECTOR = dataclasses.replace(spec_of((1,), branches=(2,)), steady=False)
NOTHING = torch.zeros(2, 1)


RETURNS = {
    # who stays: 1 at its end, 0.5 (0.5 * 2 + 0.5 * 1) = 0.75 before, 0.5 (0.5 * 2 + 0.5 * 0.75) = 0.6875 at first; who
    # leaves: 0.5 * 2
    "an agent that leaves its mates gets the value of what it leaves": (
        0.5,
        2.0,
        [
            mates(table(NOTHING, acting=[False, True], terminated=[0])),
            mates(table(NOTHING, acting=[False, True])),
            mates(table(NOTHING, terminated=[1]), [0.0, 1.0]),  # what it earns two decisions later
        ],
        {(2, 1): 1.0, (1, 1): 0.75, (0, 1): 0.6875, (0, 0): 1.0},
    ),
    "the last to end have nothing left to earn and all share what each earns": (
        1.0,
        100.0,
        [
            mates(table(NOTHING, reward=[1.0, 2.0])),
            mates(table(NOTHING, reward=[4.0, 8.0], terminated=[0, 1]), [16.0, 16.0]),
        ],
        {(1, 0): 28.0, (1, 1): 28.0, (0, 0): 17.0, (0, 1): 17.0},
    ),
    "a truncated episode goes on with the value of its final observation": (
        1.0,
        10.0,
        [mates(table(NOTHING, reward=[1.0, 2.0], truncated=[0, 1]))],
        {(0, 0): 8.0, (0, 1): 8.0},
    ),
    "who dies when mates are cut leaves them their future": (
        1.0,
        10.0,
        [mates(table(NOTHING, truncated=[1], terminated=[0]))],
        {(0, 0): 5.0, (0, 1): 5.0},
    ),
    # slot 0 decides once in the time of slot 1's first two decisions: 4 of its own, 1 and 2 of its mate's
    "who decides less often shares what mates earn in between": (
        1.0,
        0.0,
        [
            mates(table(NOTHING, acting=[False, True], reward=[0.0, 1.0])),
            mates(table(NOTHING, reward=[4.0, 2.0])),
            mates(table(NOTHING, terminated=[0, 1])),
        ],
        {(0, 0): 7.0, (1, 0): 0.0, (0, 1): 4.0, (1, 1): 6.0, (2, 1): 0.0},
    ),
}
"""Lambda, the constant value that the critic gives every group, the tables after the first, and the returns by row and
slot; gamma is 0.5.
"""


@pytest.mark.parametrize(("lambd", "value", "steps", "expected"), RETURNS.values(), ids=RETURNS)
def test_returns_worked_by_hand(
    lambd: float, value: float, steps: list[TimeStep], expected: dict[tuple[int, int], float]
):
    trainer = poca(VECTOR, {"lambd": lambd}, gamma=0.5)
    rollout = steps_to_rollout(trainer, [mates(table(NOTHING)), *steps])
    with torch.no_grad():
        group_critic(trainer).own_head.bias.fill_(value)
    assert rollout.lengths is not None
    time, slots = rollout.shape
    places = [(t, s) for t in range(time) for s in range(slots) if t < rollout.lengths[s]]
    found = dict(zip(places, training_rows(trainer, rollout).target[:, 0].tolist(), strict=True))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("memory", [None, MEMORY], ids=("no memory", "memory"))
def test_what_an_agent_leaves_is_worth_as_much_as_if_it_were_still_there(memory: dict[str, int] | None):
    trainer = poca(VECTOR, {"lambd": 1.0}, gamma=0.5, memory=memory)
    with torch.no_grad():
        group_critic(trainer).own_head.weight.normal_(generator=torch.Generator().manual_seed(0))
    obs = [torch.tensor([[t], [2.0], [3.0 - t]]) for t in range(3)]
    final = torch.tensor([[7.0], [-5.0]])
    left = mates(table(obs[1], acting=[False, False, True], terminated=[0, 1], final_obs=(final,)), [0.5] * 3)
    rollout = steps_to_rollout(trainer, [mates(table(obs[0])), left, mates(table(obs[2], terminated=[2]))])
    critique = critique_of(trainer, rollout)
    with torch.no_grad():
        own = group_critic(trainer)(critique._features())[:, 0]
    # observations: three decisions, then the third's second, three that follow the rollout, two final ones
    together = own[[3, 7, 8]].mean()
    target = training_rows(trainer, rollout).target[:, 0]
    assert_close(target[:2], (0.5 + 0.5 * together).expand(2), atol=1e-5, rtol=0)
    # who stays goes on with what follows, which is nothing here
    assert_close(target[2:], torch.tensor([0.5, 0.0]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("memory", [None, MEMORY], ids=("no memory", "memory"))
def test_without_groups_targets_are_those_of_ppo(memory: dict[str, int] | None, steady: bool):
    trainer = poca(dataclasses.replace(MIXED, steady=steady), normalize=True, memory=memory)
    torch.manual_seed(1)
    with torch.no_grad():
        group_critic(trainer).own_head.weight.normal_()
    rollout = played(trainer, Stream(3, slots=5, steady=steady))[1]
    ended = rollout.terminated | rollout.truncated
    time, _ = rollout.shape
    lengths = torch.full((5,), time) if rollout.lengths is None else rollout.lengths
    cut = ended | (torch.arange(time).unsqueeze(1) >= lengths - 1)
    with torch.no_grad():
        critique = ValueEstimates(trainer.network, rollout, SequenceTable(rollout, 6) if memory else None)
        value = critique.values()
        following = critique.next_values(value)[..., 0] * ~rollout.terminated
    reward = rollout.reward + rollout.group_reward
    expected = gae(reward, value[..., 0], following, cut, gamma=0.9, gae_lambda=0.95) + value[..., 0]
    found = training_rows(trainer, rollout)
    assert_close(found.value, rollout.completed(value), rtol=1e-4, atol=1e-5)
    assert_close(found.target[:, 0], rollout.completed(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("memory", [None, MEMORY], ids=("no memory", "memory"))
def test_the_ratio_is_1_before_the_first_step(memory: dict[str, int] | None, steady: bool):
    trainer = poca(dataclasses.replace(MIXED, steady=steady), normalize=True, memory=memory)
    losses = 0.0 if steady else 0.03
    rollout = played(trainer, Grouped(5, Stream(5, slots=6, steady=steady, losses=losses)))[1]
    seen = 0
    rows = training_rows(trainer, rollout)
    for batch in minibatches(trainer, rollout):
        assert isinstance(batch, GroupRows)
        output, _ = trainer.network.output_and_features(batch.inputs, batch.sequences)
        sample = Action(batch.continuous, batch.discrete)
        own = output.index_select(0, batch.deciding)
        log_prob, _ = log_prob_and_entropy(own, trainer.network.log_std, batch.mask, sample, MIXED.action)
        assert_close(log_prob, batch.log_prob)
        seen += len(sample.discrete)
    assert seen == len(rows.advantage) * trainer.hyper.num_epoch


GIVES = torch.tensor([[1.0, -2.0], [4.0, 3.0]])
LIKELY = torch.tensor([0.3, 0.7])


def matrix_game(trainer: POCA) -> tuple[Rollout, Tensor]:
    """Each of two agents makes one of two choices, of these probabilities; both get what stands where they meet.

    A hundred pairs, each outcome as often as is likely, and what they chose, (100, 2).
    """
    outcomes = torch.cartesian_prod(torch.arange(2), torch.arange(2))
    times = torch.tensor([9, 21, 21, 49])
    pairs = outcomes.repeat_interleave(times, 0)
    chosen = pairs.flatten()
    earned = GIVES[pairs[:, 0], pairs[:, 1]].repeat_interleave(2)
    obs = torch.eye(2).repeat(len(pairs), 1)
    group = torch.arange(len(pairs)).repeat_interleave(2)
    step = dataclasses.replace(table(obs), group=group)
    after = dataclasses.replace(table(obs, terminated=list(range(len(chosen)))), group=group, group_reward=earned)
    sample = Action(torch.zeros(len(chosen), 0), chosen.unsqueeze(1))
    decision = Decision(sample, sample, LIKELY[chosen].log().unsqueeze(1), torch.zeros(len(chosen), 0))
    return rollout_of([step, after], lambda _: decision, trainer.needs, steady=True), pairs


def test_value_and_baseline_learn_what_a_matrix_game_says():
    trainer = poca(spec_of((2,), branches=(2,)), {"batch_size": 200, "learning_rate": 3e-3, "num_epoch": 5})
    rollout, pairs = matrix_game(trainer)
    for _ in range(100):
        trainer.update(rollout, 0)
    with torch.no_grad():
        value, baseline, _, _ = critique_of(trainer, rollout).decisions()
    first, second = baseline[:, 0].view(-1, 2).unbind(1)
    assert_close(value[:, 0], (LIKELY @ GIVES @ LIKELY).expand(len(value)), atol=0.02, rtol=0)
    assert_close(first, (LIKELY @ GIVES)[pairs[:, 1]], atol=0.02, rtol=0)
    assert_close(second, (GIVES @ LIKELY)[pairs[:, 0]], atol=0.02, rtol=0)


def test_the_value_of_an_agent_depends_on_what_only_its_mate_sees():
    trainer = poca(spec_of((1,), branches=(2,)), {"batch_size": 200, "learning_rate": 3e-3, "num_epoch": 5})
    # the first of each two agents sees 1 or -1, which both get whatever they do; the second sees nothing
    sees = torch.tensor([1.0, -1.0]).repeat(100)
    obs = torch.stack([sees, torch.zeros(200)], 1).view(-1, 1)
    earned = sees.repeat_interleave(2)
    group = torch.arange(200).repeat_interleave(2)
    step = dataclasses.replace(table(obs), group=group)
    after = dataclasses.replace(table(obs, terminated=list(range(400))), group=group, group_reward=earned)
    rollout = steps_to_rollout(trainer, [step, after])
    for _ in range(40):
        trainer.update(rollout, 0)
    with torch.no_grad():
        value, _, _, _ = critique_of(trainer, rollout).decisions()
    assert_close(value[:, 0], earned, atol=0.1, rtol=0)


def doors(trainer: POCA, pairs: int = 64) -> Rollout:
    """Pairs of agents that cannot see whether their mate is still there; who finishes earns the group 1 and is gone.

    The first finishes at once. The second, now alone, finishes in half of the pairs and waits one decision in the
    others.
    """
    slots = torch.arange(2 * pairs)
    first = slots[::2].tolist()
    alone = slots[1::2].tolist()
    finish = alone[: pairs // 2]
    wait = alone[pairs // 2 :]

    def moment(acting: list[int], left: list[int]) -> TimeStep:
        """Who decides now, and who has just finished."""
        step = table(torch.ones(2 * pairs, 1), acting=[part in acting for part in slots.tolist()], terminated=left)
        paid = torch.zeros(2 * pairs)
        paid[left + (alone if left is first else [])] = 1.0  # a mate that is there gets it too
        return dataclasses.replace(step, group=slots // 2, group_reward=paid)

    steps = [moment(first + alone, []), moment(alone, first), moment(wait, finish), moment([], wait)]
    chosen = [torch.zeros(2 * pairs, 1, dtype=torch.int64) for _ in steps]
    chosen[1][finish] = 1
    chosen[2][wait] = 1
    chosen[0][first] = 1
    choices = iter(chosen)

    def answered(step: TimeStep) -> Decision:
        sample = Action(torch.zeros(2 * pairs, 0), next(choices))
        return Decision(sample, sample, torch.full((2 * pairs, 1), 0.5).log(), torch.zeros(2 * pairs, 0))

    return rollout_of(steps, answered, trainer.needs)


@pytest.mark.few(1)
@pytest.mark.parametrize("individual", [False, True])
def test_the_last_agent_of_a_group_gains_by_finishing(individual: bool):
    hyper = {"batch_size": 64, "learning_rate": 3e-3, "num_epoch": 3, "lambd": 0.5, "individual_values": individual}
    trainer = poca(VECTOR, hyper, gamma=0.9)
    rollout = doors(trainer)
    for _ in range(60):
        trainer.update(rollout, 0)
    with torch.no_grad():
        _, baseline, following, _ = critique_of(trainer, rollout).decisions()
    target = training_rows(trainer, rollout).target[:, 0]
    made = rollout.completed(torch.arange(3).unsqueeze(1).expand(rollout.shape))
    earned = rollout.completed(rollout.group_reward)
    alone = made == 1
    finishing = alone & (earned > 0)
    waiting = alone & (earned == 0)
    assert finishing.sum() == waiting.sum() == 32
    assert following[waiting].max() < 1.1  # no more than is left to earn
    gain = target - baseline[:, 0]
    assert gain[finishing].min() > 0.02
    assert gain[waiting].max() < -0.02


def with_individual_values() -> tuple[POCA, Callable[[Tensor, int], Tensor]]:
    """A trainer with individual values (gamma 0.5, lambda 0), and agents' own values in groups of so many."""
    trainer = poca(VECTOR, {"lambd": 0.0, "individual_values": True}, gamma=0.5)
    critic = group_critic(trainer)
    with torch.no_grad():
        critic.own_head.weight.normal_(generator=torch.Generator().manual_seed(0))
        assert critic.count_head is not None
        critic.count_head.bias.fill_(1.0)

    @torch.no_grad()
    def own(obs: Tensor, agents: int) -> Tensor:
        features = trainer.network.features(CRITIC, trainer.network.prepare((obs,)))
        return critic.own_value(features, torch.full((len(obs),), agents))[:, 0]

    return trainer, own


def test_individual_values_continue_a_return_with_the_agents_own_next_value():
    trainer, own = with_individual_values()
    obs = [torch.tensor([[float(t)], [3.0 * t - 1.0]]) for t in range(4)]
    steps = [
        mates(table(obs[0])),
        mates(table(obs[1])),
        mates(table(obs[2], acting=[False, True], terminated=[0])),
        mates(table(obs[3], acting=[False, True])),
    ]
    target = training_rows(trainer, steps_to_rollout(trainer, steps)).target[:, 0]
    # each goes on with itself; the first leaves the group as if it were still there, the other goes on alone
    expected = [own(obs[1], 2)[0], own(obs[1], 2)[1], own(obs[2], 2).mean(), own(obs[2], 1)[1], own(obs[3], 1)[1]]
    assert_close(target, 0.5 * torch.stack(expected))


def test_individual_values_beyond_a_rollout_are_those_of_the_group():
    trainer, own = with_individual_values()
    obs = [torch.tensor([[float(t)], [3.0 * t - 1.0]]) for t in range(2)]
    target = training_rows(trainer, steps_to_rollout(trainer, [mates(table(obs[0])), mates(table(obs[1]))])).target[
        :, 0
    ]
    assert_close(target, 0.5 * own(obs[1], 2).mean().expand(2))


def test_with_individual_values_a_truncated_agent_goes_on_from_what_its_group_is_worth():
    trainer, own = with_individual_values()
    obs = [torch.tensor([[float(t)], [3.0 * t - 1.0]]) for t in range(2)]
    final = torch.tensor([[7.0]])
    steps = [mates(table(obs[0])), mates(table(obs[1], truncated=[0], final_obs=(final,)))]
    target = training_rows(trainer, steps_to_rollout(trainer, steps)).target[:, 0]
    # the first ends with its final observation beside its mate; the mate is then beside the first's next episode
    assert_close(target, 0.5 * torch.stack([(own(final, 2)[0] + own(obs[1], 2)[1]) / 2, own(obs[1], 2).mean()]))


def learned(kind: type[POCA] | type[PPO], name: str) -> float:
    """What groups earn together at the end of a training."""
    hyper = {"batch_size": 256, "buffer_size": 2048, "learning_rate": 1e-3, "beta": 0.01}
    settings = behavior_settings(hyper, {"hidden_units": 32, "num_layers": 1}, trainer_type=name, max_steps=30_000)
    env = Sacrifice(32)
    trainer = kind(env.behaviors["Sacrifice"], settings, CPU, 0)
    earned = 0.0
    for rollout in islice(collected(env, trainer), 15):
        trainer.update(rollout, 0)
        ended = rollout.terminated | rollout.truncated
        earned = float(rollout.group_reward.sum() / ended.sum())
    return earned


def test_someone_learns_to_die_for_its_mates_and_with_ppo_nobody_does():
    assert learned(POCA, "poca") > 0.5  # at best two of three earn 1
    assert learned(PPO, "ppo") < 0.3


FURTHER = {"max_grad_norm": 0.5, "value_coef": 1.0, "joint_ratio": True}
ONE_BODY = {"shared_critic": True, "individual_values": True}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("hyper", "network"),
    [
        (FURTHER, {"memory": MEMORY}),
        (ONE_BODY, {"memory": MEMORY}),
        (ONE_BODY, {}),
        (FURTHER, {"hidden_units": 13}),
        (FURTHER, {"bfloat16": True}),
        (FURTHER, {"normalize": True, "num_layers": 1}),
    ],
    ids=str,
)
def test_it_keeps_the_contract_of_a_trainer(hyper: dict[str, object], network: dict[str, object]):
    check_trainer(POCA, behavior_settings(hyper, network, {"normalize": True}, trainer_type="poca"))
