"""What games that break PettingZoo's rules, or barely keep them, lead to."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("pettingzoo", reason="needs pettingzoo: pip install 'palaestra[pettingzoo]'")
from pettingzoo import ParallelEnv
from pettingzoo.utils import aec_to_parallel, parallel_to_aec
from zoo_games import Crowd, Duel, zeros

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.pettingzoo.area import Area
from palaestra.envs.pettingzoo.env import PettingZooEnv
from palaestra.envs.pettingzoo.opening import open_pettingzoo
from palaestra.envs.pettingzoo.roster import Roster
from palaestra.runtime.settings.fitting import fitted
from palaestra.testing import check_env


class Bent(Crowd):
    """A crowd whose step returns something else."""

    def __init__(self, bend: Callable[..., tuple]) -> None:
        super().__init__(2)
        self.bend = bend

    def step(self, actions):
        return self.bend(*super().step(actions))


def stepped(env: PettingZooEnv, ticks: int = 1):
    steps = env.reset(0)
    for _ in range(ticks):
        steps = env.step({name: zeros(step, env.behaviors[name].action) for name, step in steps.items()})
    return steps


@pytest.mark.parametrize(
    ("bend", "message"),
    [
        (
            lambda o, r, t, u, i: (o, dict.fromkeys(r, None), t, u, i),
            "the reward of agent 'cell_0' is None; expected a number",
        ),
        (lambda o, r, t, u, i: (o, list(r.values()), t, u, i), "step returned list as rewards; expected a dict"),
        (lambda o, r, t, u, i: (o, r, t, None, i), "step returned NoneType as truncations; expected a dict"),
        (lambda o, r, t, u, i: ({}, r, t, u, i), "the observations lack agent 'cell_0'"),
        (lambda o, r, t, u, i: (o, r, t, i), "step returned 4 values"),
        (
            lambda o, r, t, u, i: ({**o, "cell_1": {**o["cell_1"], "me": 99}}, r, t, u, i),
            "bent, behavior 'cell': observation 'me' of 'cell_1' of area 0 does not fit its space: it is 99; its "
            "space says 0 to 7",
        ),
        (
            lambda o, r, t, u, i: ({**o, "cell_1": {**o["cell_1"], "clock": np.zeros(3)}}, r, t, u, i),
            "observation 'clock' of 'cell_1' of area 0 does not fit its space: it has shape (3,); its space says (2,)",
        ),
        (
            lambda o, r, t, u, i: ({**o, "cell_1": {**o["cell_1"], "clock": ["a", "b"]}}, r, t, u, i),
            "it is 'a'; expected numbers",
        ),
        (
            lambda o, r, t, u, i: ({**o, "cell_1": None}, r, t, u, i),
            "of 'cell_1' of area 0 does not fit its space: it is missing",
        ),
        (
            lambda o, r, t, u, i: ({**o, "cell_1": {**o["cell_1"], "clock": np.array([1, None])}}, r, t, u, i),
            "observation 'clock' of 'cell_1' of area 0 does not fit its space: it is None; expected numbers",
        ),
        (
            lambda o, r, t, u, i: ({**o, "cell_1": {**o["cell_1"], "clock": np.array([1, np.nan])}}, r, t, u, i),
            "agent 'cell_1' of area 0: observation 'clock'[1] is nan",
        ),
    ],
)
def test_a_step_that_returns_something_else_is_refused_with_agent_and_area(bend: Callable[..., tuple], message: str):
    with pytest.raises(EnvError) as error:
        stepped(PettingZooEnv([Bent(bend)], "bent"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "bend",
    [
        lambda o, r, t, u, i: (o, r, t, u, None),
        lambda o, r, t, u, i: (o, r, t, u, dict.fromkeys(i)),
        lambda o, r, t, u, i: (o, {k: np.array([v], np.float32) for k, v in r.items()}, t, u, {}),
        lambda o, r, t, u, i: (o, r, {k: np.bool_(v) for k, v in t.items()}, {k: np.bool_(v) for k, v in u.items()}, i),
    ],
)
def test_what_is_clearly_meant_is_taken_as_the_same(bend: Callable[..., tuple]):
    step = stepped(PettingZooEnv([Bent(bend)], "bent"), 3)["cell"]
    plain = stepped(PettingZooEnv([Crowd(2)], "plain"), 3)["cell"]
    assert step.reward.tolist() == plain.reward.tolist()
    assert step.terminated.tolist() == plain.terminated.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": {"*": [1]}}, "the group of agent 'cell_0' is [1]; expected a name or number"),
        ({"behaviors": {"*": None}}, "the behavior of agent 'cell_0' is None; expected a name"),
        ({"teams": {"*": "red"}}, "the team of agent 'cell_0' is 'red'; expected a whole number"),
        ({"shared_reward": "yes"}, "env_options.shared_reward is 'yes'; expected true or false"),
    ],
)
def test_options_of_a_wrong_type_are_refused(options: dict, message: str):
    with pytest.raises(EnvError) as error:
        PettingZooEnv([Crowd()], "crowd", options)
    assert message in str(error.value)


def test_an_agent_to_which_nothing_is_shown_as_it_ends_keeps_what_it_saw_last():
    def blind(obs, rewards, terminated, truncated, infos):
        return (
            {a: None if terminated.get(a) or truncated.get(a) else obs[a] for a in obs},
            rewards,
            terminated,
            truncated,
            infos,
        )

    class Blind(Duel):
        def observe(self, agent):
            return None if self.terminations[agent] or self.truncations[agent] else super().observe(agent)

    parallel = PettingZooEnv([Bent(blind)], "blind")
    turns = PettingZooEnv([Blind()], "blind")
    before = stepped(parallel, 1)["cell"]
    after = stepped(parallel, 2)["cell"]
    (slot,) = after.final_obs.slots.tolist()
    assert [one[0].tolist() for one in after.final_obs.obs] == [one[slot].tolist() for one in before.obs]
    check_env(turns, 60)


def test_a_blank_before_an_agents_number_is_no_part_of_its_behaviors_name():
    alike = spaces.Discrete(2), spaces.Discrete(2)
    roster = Roster(["Red scout 1", "Red scout 2", "boss-3"], lambda _: alike, {}, in_turns=False, name="named")
    assert list(roster.kinds) == ["Red scout", "boss"]


@pytest.mark.parametrize(("teams", "said"), [(None, True), ({"*": 1}, True), ({"hunter_*": 0, "runner_*": 1}, False)])
def test_opponents_are_not_told_that_they_may_share_a_behavior(teams: dict[str, int] | None, said: bool):
    alike = spaces.Discrete(2), spaces.Discrete(2)
    roster = Roster(["hunter_0", "runner_0"], lambda _: alike, {"teams": teams}, in_turns=False, name="chase")
    assert any("hunter, runner have equal spaces" in line for line in roster.lines()) == said


def test_an_agents_own_name_goes_before_patterns_and_the_first_pattern_before_later_ones():
    env = PettingZooEnv([Crowd()], "crowd", {"teams": {"cell_*": 1, "*_2": 3, "cell_0": 2}})
    assert env.reset(0)["cell"].team.tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize(
    "wrapped", [lambda: parallel_to_aec(Crowd(2)), lambda: aec_to_parallel(parallel_to_aec(Crowd(2)))]
)
def test_games_that_pettingzoo_turned_into_the_other_kind_keep_the_contract(wrapped: Callable[[], Any]):
    check_env(PettingZooEnv([wrapped(), wrapped()], "wrapped"), 25)


def test_a_group_gets_the_mean_of_its_members_rewards_and_each_member_the_rest():
    area = Area(None, 0, "crowd")
    area.group_of = {"a": 0, "b": 0, "c": 0, "d": 1, "e": -1}.__getitem__
    parts = area.group_parts({"a": -2.5, "b": -2.5, "c": -1.0, "d": 4.0, "e": 7.0})
    assert parts == {"a": -2.0, "b": -2.0, "c": -2.0, "d": 4.0}
    assert area.group_parts({"a": 0.1, "b": 0.1, "c": 0.1}) == {"a": 0.1, "b": 0.1, "c": 0.1}


def test_without_a_file_opponents_learn_by_self_play_and_partners_do_not():
    for name, opposed in (("classic.tictactoe_v3", True), ("mpe2.simple_spread_v3", False)):
        env = open_pettingzoo(name, 1, {})
        assert list(env.traits.opponents) == (list(env.behaviors) if opposed else [])
        assert all(
            ("self_play" in block) == opposed
            for block in fitted(env.behaviors, 16, "ppo", env.traits.opponents)["behaviors"].values()
        )


class Masking(Crowd):
    """A crowd of two whose infos have masks, in `reset` and `step` as they are given."""

    def __init__(self, in_reset: object, in_step: object) -> None:
        super().__init__(2)
        self.in_reset = in_reset
        self.in_step = in_step

    def reset(self, seed=None, options=None):
        return super().reset(seed)[0], dict.fromkeys(self.agents, self.in_reset)

    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, dict.fromkeys(infos, self.in_step)


MASK = {"action_mask": np.array([0, 1, 1], np.int8)}


def test_masks_that_are_missing_at_times_allow_all_with_a_warning_and_late_ones_are_refused():
    with pytest.warns(UserWarning, match="'cell_0' of area 0: an info has no 'action_mask', though others have"):
        mask = stepped(PettingZooEnv([Masking(MASK, {})], "some"))["cell"].action_mask
    assert mask is not None
    assert mask.all()
    with pytest.raises(EnvError, match="behavior 'cell' gives info\\['action_mask'\\] in `step` but not in `reset`"):
        stepped(PettingZooEnv([Masking({}, MASK)], "late"))
    said = PettingZooEnv([Masking({}, MASK)], "said", {"missing_mask_allows_all": True})
    for ticks, row in ((0, [True] * 3), (1, [False, True, True])):
        mask = stepped(said, ticks)["cell"].action_mask
        assert mask is not None
        assert mask.tolist() == [row] * 2
    assert stepped(PettingZooEnv([Masking({}, "fine")], "text"))["cell"].action_mask is None


class Verbose(Crowd):
    """A crowd that also observes a text, as many notes as the clock says, and a mask where it is asked for one."""

    def __init__(self, masked: bool = True) -> None:
        super().__init__(2)
        self.masked = masked

    def observation_space(self, agent):
        notes = spaces.Sequence(spaces.Box(0, 1, (2,)))
        mask = spaces.MultiBinary(3)
        return spaces.Dict(
            {**super().observation_space(agent), "text": spaces.Text(9), "notes": notes, "action_mask": mask}
        )

    def _views(self, agents):
        more = {
            "text": "go",
            "notes": (np.ones(2, np.float32),) * 40,
            **({"action_mask": np.ones(3, np.int8)} if self.masked else {}),
        }
        return {agent: {**view, **more} for agent, view in super()._views(agents).items()}


def test_entries_may_be_left_out_and_sequences_may_be_long_by_option_and_by_metadata(monkeypatch: pytest.MonkeyPatch):
    said = {"leave_out": ["text"], "max_elements": 40}
    by_option = PettingZooEnv([Verbose()], "verbose", said)
    assert {obs.name: obs.shape for obs in by_option.behaviors["cell"].obs} == {
        "clock": (2,),
        "me": (8,),
        "notes": (40, 3),
    }
    stepped(by_option)
    with pytest.raises(EnvError, match="verbose: there is no observation 'txt' to leave out; did you mean 'text'"):
        PettingZooEnv([Verbose()], "verbose", {"leave_out": ["txt"]})
    monkeypatch.setattr(Verbose, "metadata", said)
    assert PettingZooEnv([Verbose()], "verbose").behaviors["cell"] == by_option.behaviors["cell"]
    with pytest.raises(
        EnvError, match="'cell_0' of area 0: the observation has no 'action_mask', although its space has"
    ):
        PettingZooEnv([Verbose(masked=False)], "verbose").reset(0)


def test_a_game_in_turns_that_clears_its_agents_keeps_their_last_rewards_and_ends():
    class Abrupt(Duel):
        def step(self, action):
            super().step(action)
            if self.turn == 3:
                self.terminations = dict.fromkeys(self.agents, True)
                self.agents = []

    env = PettingZooEnv([Abrupt(2)], "abrupt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the game said how the episodes ended
        step = env.reset(0)["player"]
        for turn in range(3):
            step = env.step({"player": played(step, avoiding=turn % 3)})["player"]
    # player 0 acted on turns 1 and 3, player 1 on turn 2: what each earned since its last action
    assert step.reward.tolist() == [3.0, 2.25 + 3.25]
    assert step.terminated.tolist() == [True, True]
    assert step.acting.tolist() == [True, False]


def played(step: TimeStep, avoiding: int) -> Action:
    """An allowed action for every player of a duel."""
    return Action(torch.zeros(len(step.acting), 0), torch.full((len(step.acting), 1), (avoiding + 1) % 3))


def test_a_game_that_keeps_rewards_and_ends_in_its_own_way_may_clear_its_agents():
    class Private(Duel):
        def last(self, observe=True):
            agent = self.agent_selection
            return self.observe(agent), 1.0, False, False, {}

        def step(self, action):
            super().step(action)
            if self.turn == 3:
                self.agents = []
                del self.terminations, self.truncations, self._cumulative_rewards

    env = PettingZooEnv([Private(2)], "private")
    step = env.reset(0)["player"]
    for turn in range(2):
        step = env.step({"player": played(step, avoiding=turn)})["player"]
    with pytest.warns(UserWarning, match="although it neither terminated nor was truncated"):
        step = env.step({"player": played(step, avoiding=2)})["player"]
    assert step.truncated.tolist() == [True, True]


def ends(at: int, name: str | None = None) -> Callable[..., tuple]:
    """Ends the game's episodes on a tick, under the name for all agents, or under one that is nobody's."""
    tick = iter(range(1, 1000))

    def bend(obs, rewards, terminated, truncated, infos):
        over = next(tick) >= at
        flags = {name or "__all__": over}
        return obs, rewards, flags, dict.fromkeys(flags, False), infos

    return bend


@pytest.mark.parametrize(
    ("bend", "message"),
    [
        (ends(2, "cell0"), "the terminations lack agent 'cell_0', which is in `agents` (there are: cell0)"),
        (
            lambda o, r, t, u, i: (o, r, t, {}, i),
            "the truncations lack agent 'cell_0', which is in `agents` (there are: none)",
        ),
        (lambda o, r, t, u, i: (o, r, {"cell_0": False}, u, i), "the terminations lack agent 'cell_1'"),
        (lambda o, r, t, u, i: (o, {"cell0": 1.0}, t, u, i), "the rewards lack agent 'cell_0'"),
        (
            lambda o, r, t, u, i: (o, r, dict.fromkeys(t, "no"), u, i),
            "the terminations have 'no' for 'cell_0'; expected True or False",
        ),
        (
            lambda o, r, t, u, i: (o, r, t, u, {"cell0": {}}),
            "the infos are of cell0, and no agent has such a name (cell_0, cell_1)",
        ),
    ],
)
def test_flags_rewards_and_infos_under_wrong_names_are_refused(bend: Callable[..., tuple], message: str):
    with pytest.raises(EnvError) as error:
        stepped(PettingZooEnv([Bent(bend)], "bent"))
    assert message in str(error.value)


def test_one_flag_for_all_agents_ends_the_episodes_of_all():
    step = stepped(PettingZooEnv([Bent(ends(2))], "bent"), 2)["cell"]
    assert step.terminated.tolist() == [True, True]
    assert not stepped(PettingZooEnv([Bent(ends(2))], "bent"), 1)["cell"].terminated.any()


def test_a_method_masks_the_agents_of_a_game_by_name_or_all_at_once():
    class Asked(Crowd):
        def action_masks(self, agent):
            return np.array([agent == "cell_1", True, False])

    class AskedForAll(Crowd):
        def valid_action_mask(self):
            return {agent: np.array([agent == "cell_1", True, False]) for agent in self.agents}

    for game in (Asked(2), AskedForAll(2)):
        mask = stepped(PettingZooEnv([game], "asked"))["cell"].action_mask
        assert mask is not None
        assert mask.tolist() == [[False, True, False], [True, True, False]]


def wrong_crowd(**methods: Any) -> Crowd:
    env = Crowd(2)
    for name, value in methods.items():
        setattr(env, name, value)
    return env


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (
            {"observation_space": spaces.Discrete(2)},
            "`observation_space` is the space Discrete(2) itself; expected a method",
        ),
        (
            {"action_space": lambda agent: None},
            "`action_space('cell_0')` returned None; expected a space of gymnasium.spaces",
        ),
        ({"reset": lambda seed=None, options=None: None}, "reset returned None (does it end without `return`?)"),
        (
            {"reset": lambda seed=None, options=None: (np.zeros(3), {})},
            "reset returned 2 values of types ndarray, dict; expected obs",
        ),
    ],
)
def test_what_a_parallel_game_declares_in_a_wrong_form_is_named(methods: dict[str, Any], message: str):
    with pytest.raises(EnvError) as error:
        PettingZooEnv([wrong_crowd(**methods)], "crowd").reset(0)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"possible_agents": property(lambda self: 2, lambda self, value: None)}, "`possible_agents` is 2; expected"),
        ({"step": ParallelEnv.step}, "its class defines no `step` (expected a method step(self, actions))"),
        ({"reset": ParallelEnv.reset}, "its class defines no `reset`"),
        ({"observation_space": ParallelEnv.observation_space}, "its class defines no `observation_space`"),
        ({"reset": lambda self: None}, "`reset` takes no seed; expected reset(self, seed=None, options=None)"),
        ({"metadata": property(lambda self: 1 / 0)}, "`metadata` cannot be read: ZeroDivisionError"),
    ],
)
def test_a_class_of_a_game_that_lacks_something_is_told_in_one_line(attributes: dict[str, Any], message: str):
    kind = type("Own", (Crowd,), attributes)
    with pytest.raises(EnvError) as error:
        PettingZooEnv([kind(2)], "crowd").reset(0)
    assert message in str(error.value)


class ClosesBadly(Crowd):
    """A crowd that tells who is closed, and raises then."""

    def __init__(self, area: int, closed: list[int]) -> None:
        super().__init__()
        self.area = area
        self.closed = closed

    def close(self):
        self.closed.append(self.area)
        raise OSError(f"port {self.area} is gone")


def test_all_areas_are_closed_though_they_raise_and_the_first_error_is_told():
    closed = list[int]()
    env = PettingZooEnv([ClosesBadly(i, closed) for i in range(3)], "crowd")
    with pytest.raises(EnvError, match="crowd, area 0: close raised OSError: port 0 is gone"):
        env.close()
    assert closed == [0, 1, 2]
