"""Mistakes in Python: each gives one exception of ours with one sentence in Python's words, and a short traceback."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import palaestra
from palaestra.core.errors import PalaestraError

api: Any = palaestra
train: Any = palaestra.train
train_seeds: Any = palaestra.train_seeds
tune: Any = palaestra.tune


class Point(gymnasium.Env):
    """A right environment; those below have a mistake each."""

    observation_space: Any = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)
    obs = np.zeros(2, np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.obs, {}

    def step(self, action: Any) -> Any:
        return self.obs, 0.0, False, False, {}


def answering(*step: Any) -> type[Point]:
    return type("Wrong", (Point,), {"step": lambda self, action: step})


WithoutSeed = type("WithoutSeed", (Point,), {"reset": lambda self: (self.obs, {})})


class WithoutSpaces(gymnasium.Env):
    reset = Point.reset
    step = Point.step


class BareReset(Point):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.obs


class Raising(Point):
    def step(self, action: Any) -> Any:
        raise ValueError("start me with --resume")


class RaisingOurs(Point):
    error = PalaestraError("mine")

    def step(self, action: Any) -> Any:
        raise self.error from self.error


POINT = Point()


class Unmade(Point):
    def __init__(self) -> None:
        raise RuntimeError("no display")


class Sized(Point):
    def __init__(self, size: int) -> None: ...


class Reading(Point):
    observation_space: Any = spaces.Text(5)


class Coroutine:
    async def __call__(self, summary: object) -> None: ...


class Neither:
    pass


def raising(summary: object) -> None:
    raise ValueError("no such luck")


def of_two(summary: object, other: object) -> None: ...


def made(env: Any, **more: Any) -> Callable[[], object]:
    """A training that begins, and is small."""
    return lambda: train(env=env, quiet=True, **{"max_steps": 200, "num_areas": 2, **more})


def basic(**more: Any) -> Callable[[], object]:
    return made("Basic", **more)


WRONG_ARGUMENTS = [
    (basic(max_step=5), "train() has no argument 'max_step': here it is max_steps=5"),
    (basic(lr=3e-4), "train() has no argument 'lr': here it is learning_rate=0.0003"),
    (basic(gamma=0.9), 'here it is settings={"reward_signals.extrinsic.gamma": 0.9}'),
    (basic(n_envs=8), "here it is num_areas=8, and num_envs the processes that share them"),
    (basic(verbose=1), "here it is quiet=True"),
    (basic(time_horizon=64), 'it is a setting, settings={"time_horizon": 64}'),
    (basic(opponents="prioritized"), """it is a setting, settings={"self_play.opponents": 'prioritized'}"""),
    (basic(amp={}), 'it is a setting, settings={"reward_signals.amp": ...}'),
    (basic(learning_rat=1), "did you mean 'learning_rate'?"),
    (basic(banana=1), "settings={...} takes every other setting"),
    (lambda: train("a.yaml", "Basic"), "train() takes config without a name"),
    (lambda: train("gymnasium:CartPole-v1"), 'give the environment as env="gymnasium:CartPole-v1"'),
    (lambda: train(Point), "give an environment as env=..."),
    (lambda: train("no.yaml", env="Basic"), "there is no settings file"),
    (lambda: train({"behaviours": {}}, env="Basic"), "did you mean 'behaviors'?"),
    (basic(max_steps="abc"), "max_steps: expected a whole number, got 'abc'"),
    (basic(max_steps=-1), "max_steps: expected a number greater than 0, got -1"),
    (basic(seed="x"), "seed: expected a whole number, got 'x'"),
    (basic(stop_at="high"), "stop_at: expected a number, got 'high'"),
    (basic(trainer="PPO"), "trainer: no trainer is named 'PPO'; did you mean 'ppo'?"),
    (basic(callbacks=3), "callbacks: 3 cannot be called"),
    (
        basic(callbacks=of_two),
        "of_two(summary: object, other: object) -> None is called with one argument, the Summary",
    ),
    (basic(settings=["max_steps=5"]), "expected a dictionary, such as"),
    (basic(settings={"hyperparameters.bata": 1}), 'settings["hyperparameters.bata"]: unknown key; did you mean'),
    (basic(settings={"hyperparameters": {"beta": "x"}}), 'settings["hyperparameters.beta"]: expected a number'),
    (basic(settings={"max_steps": 5}), "leave out one of the two"),
    (basic(track="wand"), "no tracker is named 'wand'; did you mean 'wandb'?"),
    (basic(device="cuda:7"), "torch device 'cuda:7' is not there"),
    (basic(run_id="../x"), "run_id: '../x' cannot name a folder"),
    (basic(run_id="there"), "continue it with resume=True, start it again with force=True, or choose another run_id"),
    (basic(initialize_from="nothing"), "cannot initialize from it: there is no run 'nothing'"),
    (basic(num_envs=2), "so there are no copies of it (num_envs=2); more areas are num_areas"),
    (lambda: train(run_id="nothing", resume=True), "leave out resume=True to start a new one"),
    (lambda: train(env="CartPole", resume=True), "has no run of CartPole that was named by its time; add run_id=..."),
    (lambda: train_seeds(env=Point(), seeds=2), "give its name, or a function that makes it"),
    (lambda: train_seeds(env="Basic", seeds="some"), "seeds is 'some'; expected a number of seeds"),
    (lambda: train_seeds(env="Basic", seed=3), "seeds names several, such as seeds=[3, 7, 9]"),
    (lambda: train_seeds(env="Basic", lr=3), "train_seeds() has no argument 'lr': here it is learning_rate=3"),
    (basic(resume="no"), "resume: expected True or False, got 'no'"),
    (basic(force=2), "force: expected True or False, got 2"),
    (basic(results_dir="a\0b"), "results_dir: a text with a NUL character"),
    (basic(keep_best="yes"), "keep_best: every: expected a whole number, got 'yes'"),
    (basic(env_options=[1]), "env_options: expected a dictionary, got a list of 1"),
    (basic(max_steps=True), "max_steps: expected a whole number, got True"),
    (basic(track={"wandb": 3}), 'a dictionary such as {"wandb": {"project": "walkers"}}'),
    (basic(trainer=Neither()), 'expected "ppo", "sac", "poca", "bc", or a class of your own'),
    (basic(callbacks=Coroutine()), "is a class, generator or coroutine, which does not run when it is called"),
    (basic(settings={"hyperparameters.beta": 1, "hyperparameters": {"beta": 2}}), "hyperparameters.beta twice"),
    (basic(settings={"hyperparameters.learning_rate_schedule": "cosine"}), "expected one of constant, linear"),
    (basic(buffer_size=10**12), "the memory is used up: fewer areas or a smaller buffer_size need less"),
    (lambda: train(Path("/no.yaml"), env="Basic"), "there is no settings file"),
    (lambda: train_seeds(env="Basic", seeds=1.5), "expected a number of seeds"),
    (lambda: tune(env="Basic", search=5), "search: expected text, a path or a dictionary, got 5"),
    (lambda: tune(env="Basic", trialss=3), "tune() has no argument 'trialss'; did you mean 'trials'?"),
]
WRONG_ENVIRONMENTS = [
    (made(5), "it has neither `reset` nor `step`"),
    (made(Neither), "which has neither `reset` nor `step`"),
    (made(""), "env is ''; name an environment"),
    (made("n" * 300), "File name too long"),
    (made("LunarLander-v2"), "did you mean 'gymnasium:LunarLander-v3'?"),
    (made(int), "no signature found"),
    (made([POINT, POINT], num_areas=None), "holds the same environment twice"),
    (made([Point], num_areas=None), "holds functions or classes: pass one alone"),
    (made(RaisingOurs), "mine"),
    (made("Basik"), "did you mean 'Basic'?"),
    (made("CartPole-v1"), "did you mean 'gymnasium:CartPole-v1'?"),
    (made(lambda: gymnasium.make("CartPol-v1")), "Environment `CartPol` doesn't exist"),
    (made("python:no_such:make"), "there is no module 'no_such'"),
    (made(Point(), num_envs=2), "num_envs=2 needs a function or a class that makes one"),
    (made(Point(), num_areas=4), "pass a function that makes one environment"),
    (made(WithoutSpaces), "has no `observation_space`"),
    (made(WithoutSeed), "`reset` takes no seed"),
    (made(BareReset), "`reset` returned a single value"),
    (made(answering(np.zeros(3, np.float32), 0.0, False, False, {})), "has shape (3,); its space says (2,)"),
    (made(answering(np.zeros(2, np.float32), float("nan"), False, False, {})), "must send finite numbers"),
    (made(answering(np.full(2, np.inf, np.float32), 0.0, False, False, {})), "must send finite numbers"),
    (made(answering(np.zeros(2, np.float32), "much", False, False, {})), "the reward is 'much'; expected a number"),
    (made(answering(np.zeros(2, np.float32), 0.0, False, {})), "`step` returned 4 values; expected five"),
    (made(Raising), "ValueError: start me with --resume ("),
    (made(Unmade), "could not be made: RuntimeError: no display ("),
    (made(Sized), "cannot be called: missing a required argument: 'size'"),
    (made(Reading), "encode the text as numbers"),
    (basic(callbacks=[raising], summary_freq=100), "the callback raising raised ValueError: no such luck ("),
]
WITH_RUNS = [
    (lambda: api.evaluate("nothing"), "there is no run 'nothing' in results (runs there: there)"),
    (lambda: api.evaluate("there", n_eval_episodes=5), "evaluate() has no argument 'n_eval_episodes'"),
    (lambda: api.evaluate("there", episodes="ten"), "episodes: expected a whole number, got 'ten'"),
    (
        lambda: api.evaluate("there", num_areas=10**9),
        "expected at least 1, and 1,000,000 at most",
    ),
    (lambda: api.evaluate("there", seed=-1), "seed is -1; expected at least 0"),
    (lambda: api.evaluate("there", env_options="x=1"), "env_options: expected a dictionary, got 'x=1'"),
    (lambda: api.evaluate("there", results_dir=5), "results_dir: expected a path, got 5"),
    (lambda: api.evaluate({"Basic": 3}, env="Basic"), "expected a policy, as palaestra.load_policy gives"),
    (lambda: api.plot("there", x="Time"), "x: expected one of step, time, got 'Time'; did you mean 'time'?"),
    (lambda: api.plot([]), "no run is given"),
    (lambda: api.record("there", steps=3), "steps: expected a list of whole numbers, got 3"),
    (lambda: api.compare("there", groups=5), "groups: expected text, a list of texts, or a dictionary, got 5"),
    (lambda: api.compare("there", metric=["a"]), "metric: expected text, got ['a']"),
    (lambda: api.load_policy(None), "None is no model"),
    (lambda: api.make(Point), "name: expected text, got <class"),
    (lambda: api.make("CartPole", areas=10**12), "the memory is used up"),
    (lambda: api.stop_at_reward("high"), "reward: expected a number, got 'high'"),
    (lambda: api.stop_at_reward(float("nan")), "reward: expected a finite number, got nan"),
    (lambda: api.read_demo(5), "source: expected a path, got 5"),
    (lambda: api.pull(5), "repo: "),
    (lambda: api.run("Basic", "random", time_scale="x"), "time_scale is 'x'; expected more than 0"),
    (lambda: api.evaluate(), "evaluate() needs runs (it has: runs, env, episodes"),
    (lambda: api.plot("nothing"), "cannot plot: there is no run 'nothing'"),
    (lambda: api.record("nothing"), "there is no run 'nothing'"),
    (lambda: api.export("nothing"), "there is no run 'nothing'"),
    (lambda: api.compare("nothing"), "cannot compare: there is no run 'nothing'"),
    (lambda: api.run("Basic", "rendom"), "there is no brain 'rendom'; did you mean 'random'?"),
    (lambda: api.load_policy("nothing.onnx"), "nothing.onnx does not exist"),
    (lambda: api.load_policy(__file__), "is not an ONNX file: it is a text file"),
    (lambda: api.make("Basik"), "did you mean 'Basic'?"),
    (lambda: api.make("Basic", size=3), "Basic takes no option 'size'"),
    (lambda: api.push("nothing", "ann/nothing"), "there is no run 'nothing'"),
]


@pytest.fixture(autouse=True)
def a_run_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "results" / "there"
    run.mkdir(parents=True)
    (run / "configuration.yaml").write_text("behaviors: {}\n")


@pytest.mark.parametrize(
    ("mistake", "answer"),
    [pytest.param(*case, id=case[1][:60]) for case in [*WRONG_ARGUMENTS, *WRONG_ENVIRONMENTS, *WITH_RUNS]],
)
def test_a_mistake_in_python_gives_one_sentence_and_a_short_traceback(mistake: Callable[[], object], answer: str):
    with pytest.raises(PalaestraError) as caught:
        mistake()
    error = caught.value
    message = str(error)
    assert answer in message
    assert "\n" not in message
    ours = message.replace("start me with --resume", "")
    assert not re.search(r"(?<!\w)--[a-z]|\bpalaestra [a-z]+ |command line", ours)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "/palaestra/" in frame.filename]
    assert len(own) == 1
    cause = error.__cause__
    assert cause is None or {Path(frame.filename).name for frame in traceback.extract_tb(cause.__traceback__)} == {
        Path(__file__).name
    }


def test_numbers_of_numpy_and_other_forms_of_the_same_are_taken():
    seen: list[Any] = []
    numbers = {"max_steps": np.int64(200), "learning_rate": np.float32(1e-3), "seed": np.int64(3)}
    forms = {"run_id": Path("here"), "callbacks": (one for one in [seen.append]), "quiet": np.bool_(True)}
    result = train(env="Basic", num_areas=np.int8(2), summary_freq=100, **numbers, **forms)
    assert len(seen) == 2
    assert api.run("Basic", "random", episodes=np.int64(2), num_areas=np.int64(1), quiet=True).returns.shape == (2,)
    assert api.make("CartPole", areas=np.int64(3)).num_areas == 3
    assert str(api.plot(np.array(["here"]), smooth=np.float32(0.5))).startswith("Figure")
    ended = train(env=Point, quiet=True, max_steps=400, summary_freq=100, callbacks=lambda summary: np.bool_(True))
    assert not ended.finished
    with pytest.raises(PalaestraError, match="exists already"):
        train(env=Point, quiet=True, run_id=result.run_id)


def test_a_run_that_failed_before_its_first_summary_leaves_its_name_free():
    with pytest.raises(PalaestraError, match="start me with"):
        made(Raising, run_id="again")()
    assert train(env=Point, quiet=True, run_id="again", max_steps=100).finished
