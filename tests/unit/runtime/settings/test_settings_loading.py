import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed_plugins import forget_plugins

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import BehaviorSettings, Loaded, RunSettings, behavior_settings, load, to_yaml
from palaestra.runtime.settings.tree import changes
from palaestra.trainers.settings import PPOSettings, SACSettings

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes x.yaml, and gives its path as a user would type it."""
    monkeypatch.chdir(tmp_path)

    def _write(text: str) -> Path:
        Path("x.yaml").write_text(text, encoding="utf-8")
        return Path("x.yaml")

    return _write


def block(text: str = "") -> str:
    """A file with one behavior; `text` is the rest of its block."""
    return "behaviors:\n  Ball:\n    trainer_type: ppo\n" + "".join(f"    {line}\n" for line in text.splitlines())


def refused(config: Path, sets: list[str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(config, sets=sets or [])
    return str(caught.value)


def ball(loaded: Loaded) -> BehaviorSettings:
    return loaded.settings.behaviors["Ball"]


def test_a_behavior_with_nothing_under_it_has_the_defaults(write):
    loaded = load(write("behaviors:\n  Ball:\n"))
    assert ball(loaded) == BehaviorSettings()
    assert loaded.warnings == ()
    assert loaded.text == "behaviors:\n  Ball:\n"


def test_default_then_file_then_flag_then_set(write):
    path = write(block("max_steps: 10") + "env_settings: {seed: 1, base_port: 7}\n")
    assert load(path).settings.env_settings.timeout_wait is None
    assert load(path).settings.env_settings.seed == 1
    flags = {"env_settings": {"seed": 2}}
    assert load(path, flags).settings.env_settings.seed == 2
    settings = load(path, flags, ["env_settings.seed=3"]).settings
    assert (settings.env_settings.seed, settings.env_settings.base_port) == (3, 7)


def test_numbers_of_any_writing_are_read(write):
    text = "max_steps: 5e5\nhyperparameters: {learning_rate: 1e-3, buffer_size: 1.0e+4, batch_size: '64'}"
    settings = ball(load(write(block(text))))
    assert settings.max_steps == 500_000
    assert settings.hyperparameters == PPOSettings(learning_rate=0.001, buffer_size=10_000, batch_size=64)


MIRROR = "expected the file of a mirror, the name of a shipped one (3DBall, Crawler, SoccerTwos, Walker), or its keys"
SIGNALS = "(there are: extrinsic, curiosity, gail, rnd, amp; your own as package.module:Class)"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("max_steps: 3.7", 4, "max_steps: expected a whole number, got 3.7"),
        ("max_steps: -3", 4, "max_steps: expected a number greater than 0, got -3"),
        ("max_steps:", 4, "max_steps: expected a whole number, got null"),
        ("network_settings:\n  normalize: no?", 5, "network_settings.normalize: expected true or false, got 'no?'"),
        ("network_settings: 3", 4, "network_settings: expected a map of keys, got 3"),
        ("hyperparameters:\n  beta: low", 5, "hyperparameters.beta: expected a number, got 'low'"),
        ("hyperparameters: {lambd: 2}", 4, "hyperparameters.lambd: expected a number of at most 1, got 2"),
        ("mirror: Crawlr", 4, f"mirror: there is no file 'Crawlr'; did you mean 'Crawler'?; {MIRROR}"),
        ("mirror: true", 4, f"mirror: {MIRROR}, got True"),
        ("mirror: {observations: {}}", 4, "mirror.observations: expected entries, at least 1, got an empty map"),
        (
            "mirror: {observations: {A: {negate: [1.5]}}}",
            4,
            "mirror.observations.A.negate[0]: expected the place of a number, such as 3, or of several, such as '3-5', "
            "got 1.5",
        ),
        ("reward_signals:\n  amp: {clip: a.csv}", 5, "reward_signals.amp.clip: unknown key; did you mean 'clips'?"),
        (
            "self_play: {opponents: [prioritized, 5]}",
            4,
            "self_play.opponents: expected uniform, prioritized, names of brains, or a list of these, got "
            "['prioritized', 5]",
        ),
        ("hyperparameters:\n  bata: 3", 5, "hyperparameters.bata: unknown key; did you mean 'beta'?"),
        (
            "hyperparameters: {beta_schedule: lineer}",
            4,
            "hyperparameters.beta_schedule: expected one of constant, linear, got 'lineer'; did you mean 'linear'?",
        ),
        ("summary_freqency: 1", 4, "summary_freqency: unknown key; did you mean 'summary_freq'?"),
        ("reward_signals: {}", 4, "reward_signals: expected at least one reward signal, such as extrinsic"),
        (
            "reward_signals:\n  extrinsik: {}",
            5,
            f"reward_signals.extrinsik: no such reward signal; did you mean 'extrinsic'? {SIGNALS}",
        ),
        ("reward_signals:\n  gail: {strength: 1}", 5, "reward_signals.gail.demo_path: is missing, but required"),
        (
            "even_checkpoints: true\nkeep_checkpoints: 0",
            5,
            "keep_checkpoints: expected at least 1 with even_checkpoints, got 0",
        ),
        (
            "network_settings: {memory: {memory_size: 3}}",
            4,
            "network_settings.memory.memory_size: expected an even number",
        ),
        (
            "network_settings: {memory: {}}\nhyperparameters: {batch_size: 8}",
            5,
            "hyperparameters: batch_size (8) must be at least the memory's sequence_length (64)",
        ),
    ],
)
def test_a_wrong_value_is_named_with_line_path_expected_and_got(write, text, line, message):
    assert refused(write(block(text))) == f"x.yaml:{line}: behaviors.Ball.{message}"


@pytest.mark.parametrize("path", ["{a: 3}", "[x, {a: 3}]", "[[x]]", "true"])
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("{reward_signals: {gail: {demo_path: PATH}}}", "reward_signals.gail"),
        ("{behavioral_cloning: {demo_path: PATH}}", "behavioral_cloning"),
        ("{trainer_type: bc, hyperparameters: {demo_path: PATH}}", "hyperparameters"),
    ],
)
def test_demonstrations_that_are_no_paths_are_reported_once(write, text, at, path):
    output = refused(write(f"behaviors: {{Ball: {text.replace('PATH', path)}}}"))
    expected = "expected a demonstration file, a folder of them, minari:ID, or a list of these"
    assert output == f"x.yaml:1: behaviors.Ball.{at}.demo_path: {expected}"


BALL = "behaviors: {Ball: }\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " is empty; expected a map with the key `behaviors`"),
        ("- a", " holds a list; expected a map with the key `behaviors`"),
        ("behaviors: {}", " no behavior has settings; list it under `behaviors`, or add default_settings"),
        ("behaviors: [Ball]", "1: behaviors: expected a map of keys, got a list of 1"),
        ("behaviors: {Ball: 3}", "1: behaviors.Ball: expected a map of keys, got 3"),
        ("behaviours: {}", "1: behaviours: unknown key; did you mean 'behaviors'?"),
        (
            "behaviors: {Ball: {trainer_type: pppo, hyperparameters: {x: 1}}}",
            "1: behaviors.Ball.trainer_type: no trainer is named 'pppo'; did you mean 'ppo'?",
        ),
        (
            "behaviors: {Ball: {hyperparameters: {beta: 1}}}",
            "1: behaviors.Ball.hyperparameters: given without a trainer_type; add one, such as ppo, sac, poca",
        ),
        (
            BALL + "env_settings: {num_areas: 0}",
            "2: env_settings.num_areas: expected a number greater than 0, got 0",
        ),
        (
            BALL + "env_settings: {num_areas: 1000000000}",
            "2: env_settings.num_areas: expected a number of at most 1e+06, got 1000000000",
        ),
        (BALL + "engine_settings: {widht: 3}", "2: engine_settings.widht: unknown key; did you mean 'width'?"),
    ],
)
def test_a_file_that_makes_no_run_is_refused(write, text, message):
    assert refused(write(text)).startswith(f"x.yaml:{message}")


def test_hyperparameters_without_a_trainer_do_not_hide_other_mistakes(write):
    message = refused(write("behaviors:\n  Ball: {max_stepz: 5, summary_freq: no, hyperparameters: {beta: 1}}"))
    assert "3 settings cannot be used" in message
    for part in ("max_stepz: unknown key", "summary_freq: expected", "hyperparameters: given without a trainer_type"):
        assert part in message


def test_a_misspelt_trainer_type_is_the_only_mistake_of_its_block(write):
    message = refused(write("behaviors: {Ball: {trainer_typ: sac, hyperparameters: {tau: 0.01}}}"))
    assert message == "x.yaml:1: behaviors.Ball.trainer_typ: unknown key; did you mean 'trainer_type'?"


UNIFORM = "{sampler_type: uniform, sampler_parameters: %s}"
LATE = "{curriculum: [{name: a, value: 1, completion_criteria: {behavior: B, measure: progress, threshold: 2}}]}"


@pytest.mark.parametrize(
    ("value", "at", "what"),
    [
        ("true", "", "expected a number, a sampler"),
        (".inf", "", "expected a number, a sampler"),
        ("{sampler_type: uniform}", ".sampler_parameters", "is missing, but required"),
        ("{sampler_type: unifrom, sampler_parameters: {}}", ".sampler_type", "did you mean 'uniform'?"),
        (UNIFORM % "{min_valu: 1}", ".sampler_parameters.min_valu", "did you mean 'min_value'?"),
        (UNIFORM % "{min_value: 2}", ".sampler_parameters.min_value", "at most max_value"),
        ("{sampler_type: gaussian, sampler_parameters: {st_dev: -1}}", ".sampler_parameters.st_dev", "at least 0"),
        (
            "{sampler_type: multirangeuniform, sampler_parameters: {intervals: [[2, 1]]}}",
            ".sampler_parameters.intervals",
            "low <= high",
        ),
        ("{curriculum: []}", ".curriculum", "at least one lesson"),
        ("{curriculum: [{name: a, value: 1}, {name: b, value: 2}]}", ".curriculum", "'a' needs completion_criteria"),
        (LATE, ".curriculum[0].completion_criteria.threshold", "within 0..1"),
    ],
)
def test_a_wrong_environment_parameter_is_refused(write, value, at, what):
    message = refused(write(block() + f"environment_parameters:\n  gravity: {value}\n"))
    assert message.startswith(f"x.yaml:5: environment_parameters.gravity{at}: ")
    assert what in message


def test_all_that_is_wrong_is_named_at_once_in_the_files_order(write):
    assert refused(write(block("time_horizon: 0\nmax_steps: many") + "debug: 3\n")) == (
        "3 settings cannot be used:\n  x.yaml:4: behaviors.Ball.time_horizon: expected a number greater than 0, got "
        "0\n  x.yaml:5: behaviors.Ball.max_steps: expected a whole number, got 'many'\n  x.yaml:6: debug: expected "
        "true or false, got 3"
    )


def test_a_constant_parameter_is_taken_in_each_of_its_forms(write):
    text = (
        "environment_parameters:\n  a: 9.81\n  b: {sampler_type: constant, sampler_parameters: {value: 2, seed: 5}}\n"
        "  c: {curriculum: [{name: only, value: 3}]}\n"
    )
    parameters = load(write(block() + text)).settings.environment_parameters
    assert (parameters["a"], parameters["b"]) == (9.81, 2.0)  # plain, which `palaestra config` prints in one line
    assert list(parameters) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (block("network_settings:\n  hidden_unit: 3"), "x.yaml:5: behaviors.Ball.network_settings.hidden_unit"),
        (
            block("reward_signals:\n  extrinsic:\n    network_settings: {hidden_unit: 3}"),
            "x.yaml:6: behaviors.Ball.reward_signals.extrinsic.network_settings.hidden_unit",
        ),
        (block() + "torch_settings:\n  devise: cpu\n", "x.yaml:5: torch_settings.devise"),
        (block("self_play:\n  windows: 3"), "x.yaml:5: behaviors.Ball.self_play.windows"),
        (
            "default_settings:\n  network_settings:\n    hidden_unit: 3\n" + block(),
            "x.yaml:3: default_settings.network_settings.hidden_unit",
        ),
    ],
)
def test_a_key_that_ml_agents_ignores_is_left_out_with_one_warning(write, text, where):
    loaded = load(write(text))
    [warning] = loaded.warnings
    assert warning.startswith(f"{where}: ignored: unknown key; did you mean")


def test_a_key_that_ml_agents_ignores_is_an_error_when_it_is_typed(write):
    message = refused(write(block()), ["behaviors.Ball.network_settings.hidden_unit=3"])
    assert message == (
        "--set behaviors.Ball.network_settings.hidden_unit=3: behaviors.Ball.network_settings.hidden_unit: "
        "unknown key; did you mean 'hidden_units'?"
    )


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (block("framework: pytorch"), "x.yaml:4: behaviors.Ball.framework: ignored: PyTorch is the only framework"),
        (
            block("reward_signals: {extrinsic: {network_settings: {num_layers: 1}}}"),
            "x.yaml:4: behaviors.Ball.reward_signals.extrinsic.network_settings: not used: the environment's reward "
            "has no network",
        ),
        (
            block() + "checkpoint_settings:\n  load_model: true\n",
            "x.yaml:5: checkpoint_settings.load_model: deprecated",
        ),
        (
            block() + "checkpoint_settings:\n  train_model: true\n",
            "x.yaml:5: checkpoint_settings.train_model: deprecated",
        ),
    ],
)
def test_what_has_no_effect_is_warned_of(write, text, warning):
    [found] = load(write(text)).warnings
    assert found.startswith(warning)


def test_schedules_that_are_not_given_follow_the_learning_rates(write):
    def schedules(text: str) -> list[str]:
        settings = ball(load(write(block(f"hyperparameters: {{{text}}}")))).hyperparameters
        assert isinstance(settings, PPOSettings)
        return [settings.learning_rate_schedule, settings.beta_schedule, settings.epsilon_schedule]

    assert schedules("") == ["linear", "linear", "linear"]
    assert schedules("learning_rate_schedule: constant") == ["constant", "constant", "constant"]
    assert schedules("learning_rate_schedule: constant, beta_schedule: linear") == ["constant", "linear", "constant"]
    assert schedules("beta_schedule: constant") == ["linear", "constant", "linear"]


def test_even_checkpoints_set_the_interval(write):
    text = "even_checkpoints: true\nmax_steps: 100\nkeep_checkpoints: 3"
    assert ball(load(write(block(text)))).checkpoint_interval == 33


def test_giving_reward_signals_replaces_the_default(write):
    settings = ball(load(write(block("reward_signals:\n  extrinsic: {gamma: 0.9, normalize: true}"))))
    found = {name: (signal.gamma, signal.normalize) for name, signal in settings.reward_signals.items()}
    assert found == {"extrinsic": (0.9, True)}


DEFAULTS = """\
default_settings:
  trainer_type: ppo
  max_steps: 10
  hyperparameters: {beta: 1, batch_size: 7, learning_rate_schedule: constant}
  network_settings: {normalize: true, num_layers: 5}
"""


def test_a_behavior_lies_over_default_settings(write):
    text = "behaviors: {Ball: {network_settings: {num_layers: 1}, hyperparameters: {beta: 2}}}"
    settings = load(write(DEFAULTS + text)).settings
    ball = settings.behaviors["Ball"]
    assert (ball.max_steps, ball.network_settings.normalize, ball.network_settings.num_layers) == (10, True, 1)
    expected = {"beta": 2, "batch_size": 7, "learning_rate_schedule": "constant"}
    assert ball.hyperparameters == PPOSettings.model_validate(expected)
    assert isinstance(ball.hyperparameters, PPOSettings)
    assert ball.hyperparameters.epsilon_schedule == "constant"


def test_another_trainer_takes_from_default_settings_what_it_knows():
    from palaestra.runtime.settings.sourced_settings import SourcedSettings
    from palaestra.runtime.settings.yaml_file import parse

    text = "behaviors: {Ball: {trainer_type: sac, hyperparameters: {tau: 0.1}}}"
    sourced = SourcedSettings(parse(DEFAULTS + text), None)
    sourced.inherit()
    ball = RunSettings.model_validate(sourced.tree).behaviors["Ball"]
    assert ball.hyperparameters == SACSettings(tau=0.1, batch_size=7, learning_rate_schedule="constant")


def test_a_mistake_in_default_settings_is_named_once_and_there(write):
    message = refused(write("default_settings:\n  max_steps: -1\nbehaviors: {A: , B: , C: {max_steps: 3}}"))
    assert message == "x.yaml:2: default_settings.max_steps: expected a number greater than 0, got -1"


def test_null_switches_off_what_default_settings_give(write):
    text = "default_settings: {init_path: a.pt}\nbehaviors: {Ball: {init_path: null}}"
    assert ball(load(write(text))).init_path is None


def test_without_a_file_every_behavior_has_the_defaults():
    loaded = load(None)
    assert behavior_settings(loaded.settings, "Anything") == BehaviorSettings()
    assert behavior_settings(load(None, sets=["behaviors.*.max_steps=7"]).settings, "Anything").max_steps == 7
    named = load(None, sets=["behaviors.Cart-v1.5.hyperparameters.batch_size=7"]).settings
    assert named.behaviors.keys() == {"Cart-v1.5"}


def test_a_tree_is_taken_as_a_file_is():
    tree = {"behaviors": {"Ball": {"max_steps": 7}}}
    assert ball(load(tree, sets=["behaviors.Ball.time_horizon=3"])).max_steps == 7
    assert tree == {"behaviors": {"Ball": {"max_steps": 7}}}
    with pytest.raises(ConfigError, match=r"^behaviors.Ball.max_stepz: unknown key; did you mean 'max_steps'\?$"):
        load({"behaviors": {"Ball": {"max_stepz": 7}}})


def test_a_behavior_without_settings_is_an_error_that_names_both_lists(write):
    settings = load(write("behaviors: {Ball: , Cube: }")).settings
    assert behavior_settings(settings, "Cube") == BehaviorSettings()
    with pytest.raises(ConfigError) as caught:
        behavior_settings(settings, "Bal", present=["Bal", "Cone"])
    assert "is it 'Ball' in the settings?" in str(caught.value)
    assert "(the settings list 'Cube' too; the environment also has 'Cone')" in str(caught.value)
    assert [str(caught.value).count(f"'{name}'") for name in ("Bal", "Ball", "Cube", "Cone")] == [1, 1, 1, 1]
    with_default = load(write("default_settings: {max_steps: 3}\nbehaviors: {Ball: }")).settings
    assert behavior_settings(with_default, "Other").max_steps == 3


@pytest.mark.parametrize(
    ("text", "flags", "sets", "kept"),
    [
        ("{resume: true, initialize_from: a}", {}, [], (True, None)),
        ("{resume: true}", {"initialize_from": "b"}, [], (False, "b")),
        ("{initialize_from: a}", {"resume": True}, [], (True, None)),
        ("{initialize_from: a}", {"resume": True, "initialize_from": "b"}, [], (True, None)),
        ("{resume: true}", {}, ["checkpoint_settings.initialize_from=b"], (False, "b")),
    ],
)
def test_where_a_run_is_to_resume_and_to_initialize_one_is_followed(write, text, flags, sets, kept):
    loaded = load(write(block() + f"checkpoint_settings: {text}\n"), {"checkpoint_settings": flags}, sets)
    run = loaded.settings.checkpoint_settings
    assert (run.resume, run.initialize_from) == kept
    assert "both resume and initialize_from" in loaded.warnings[0]


@pytest.mark.parametrize(
    ("text", "flags", "warned"),
    [
        ("{resume: true}", {"force": True}, 1),
        ("{force: true}", {"resume": True}, 0),
        ("{}", {"resume": True, "force": True}, 1),
    ],
)
def test_a_run_that_is_to_resume_and_to_start_again_resumes(write, text, flags, warned):
    loaded = load(write(block() + f"checkpoint_settings: {text}\n"), {"checkpoint_settings": flags})
    assert loaded.settings.checkpoint_settings.resume
    assert sum("it is resumed, as in ML-Agents" in one for one in loaded.warnings) == warned


def test_the_resolved_tree_reads_back_equal(write):
    text = (
        DEFAULTS.replace("10", "2e4")
        + "behaviors:\n  A.b-1: {even_checkpoints: true, max_steps: 1e5}\n  '1e3': {hyperparameters: {epsilon: "
        "1e-10}}\n"
    )
    text += (
        "environment_parameters: {a: 1, b: {curriculum: [{name: x, value: {sampler_type: constant, "
        "sampler_parameters: {}}}]}}\n"
    )
    text += (
        "env_settings: {env_args: [--x, 3], env_options: {size: 5, name: [a, null, 1.0]}}\ncheckpoint_settings: "
        "{run_id: '1e3'}\n"
    )
    settings = load(write(text)).settings
    again = load(write(to_yaml(settings)))
    assert again.settings == settings
    assert again.warnings == ()
    assert to_yaml(again.settings) == to_yaml(settings)


def test_the_resolved_tree_stands_in_ml_agents_order():
    lines = to_yaml(load({"behaviors": {"Ball": {}}}).settings).splitlines()
    top = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    order = "default_settings behaviors env_settings engine_settings environment_parameters checkpoint_settings"
    assert top == [*order.split(), "torch_settings", "debug", "trackers"]
    assert "        learning_rate_schedule: linear" not in lines
    assert "      learning_rate_schedule: linear" in lines
    assert "    self_play: null" in lines


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Installs a module `theirs` with an entry point."""

    def install(code: str, entry_point: str) -> None:
        (tmp_path / "theirs.py").write_text(code)
        info = tmp_path / "their_agents-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-agents\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_point)
        monkeypatch.syspath_prepend(tmp_path)
        forget_plugins()

    yield install
    forget_plugins()


def test_a_plug_in_trainer_brings_its_own_hyperparameters(plug_in, write):
    plug_in(
        "from palaestra.core.settings import Settings\n\n\nclass TheirSettings(Settings):\n    depth: int = 3\n\n\n"
        "class Their:\n    Settings = TheirSettings\n    make_network = update = state_dict = load_state_dict = 1\n",
        "[palaestra.trainers]\nours = theirs:Their\n",
    )
    text = "behaviors: {Ball: {trainer_type: ours, hyperparameters: {%s: 1e1}}}"
    settings = load(write(text % "depth")).settings
    assert settings.behaviors["Ball"].hyperparameters.model_dump() == {"depth": 10}
    assert load(write(to_yaml(settings))).settings == settings
    assert "unknown key; did you mean 'depth'?" in refused(write(text % "dept"))


OTHERS = (
    "of the plug-in their-agents is made of ML-Agents' own classes and does not run here; the guide 'Write a trainer'"
)


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ("a2c", f"the trainer 'a2c' {OTHERS}"),
        ("dqn2", r"no trainer is named 'dqn2' .* a trainer of a plug-in for ML-Agents \(their-agents\) is made of "),
    ],
)
def test_a_trainer_of_a_plug_in_for_ml_agents_is_refused_by_name_and_not_imported(trainer, message, plug_in, write):
    plug_in("raise AssertionError('imported')", "[mlagents.trainer_type]\na2c = theirs:types\n")
    text = f"behaviors: {{Ball: {{trainer_type: {trainer}, hyperparameters: {{}}}}}}"
    assert re.search(message, refused(write(text)))


def test_loading_settings_imports_no_torch():
    code = "import sys, palaestra.runtime.settings; sys.exit('torch' in sys.modules or 'warp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_file_of_one_long_text_is_not_printed_whole(write):
    assert len(refused(write("x" * 9000))) < 300


def test_what_has_changed_is_found_in_the_settings_of_all_behaviors_and_of_one():
    before, now = (
        RunSettings.model_validate(
            {
                "default_settings": {"reward_signals": {"extrinsic": {"normalize": scaled}}, "max_steps": 10 + scaled},
                "behaviors": {"max_steps": {"time_horizon": 5 + scaled}},  # a name that is a key as well
            }
        )
        for scaled in (False, True)
    )
    assert changes(before, now) == [
        "behaviors.max_steps.time_horizon is 6, was 5",
        "default_settings.reward_signals.extrinsic.normalize is true, was false",
    ]


def test_what_has_changed_is_told_of_networks_alone():
    block = {"trainer_type": "sac", "hyperparameters": {"critic_bins": 11, "buffer_size": 1000}, "max_steps": 9}
    before, now = (
        RunSettings.model_validate({"default_settings": {**block, **new}, "behaviors": {"Ball": block}})
        for new in ({}, {"hyperparameters": {"critic_bins": 21}, "max_steps": 10})
    )
    bins = "default_settings.hyperparameters.critic_bins is 21, was 11"
    assert changes(before, now) == ["default_settings.hyperparameters.buffer_size is 50000, was 1000", bins]
    assert changes(before, now, of_shape=True) == [bins]


def test_set_takes_a_behaviors_key_for_every_behavior():
    tree = {"default_settings": {"trainer_type": "ppo"}, "behaviors": {"A": {"trainer_type": "sac"}, "B": {}}}
    found = load(tree, sets=["max_steps=7", "network_settings.hidden_units=9"]).settings
    blocks = [*found.behaviors.values(), found.default_settings]
    assert [(block.max_steps, block.network_settings.hidden_units) for block in blocks] == [(7, 9)] * 3
    with pytest.raises(ConfigError, match="--learning-rate already sets learning_rate of every behavior"):
        load(
            tree,
            {"behaviors": {"*": {"hyperparameters": {"learning_rate": 1e-3}}}},
            ["hyperparameters.learning_rate=1e-4"],
        )


def test_away_from_a_clone_a_shipped_file_is_taken_by_its_place_in_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = Path("configs/ppo/CartPole.yaml")
    found = load(place)
    assert found.settings.behaviors["CartPole"].max_steps == 500_000
    assert found.notes == (f"There is no {place} here: taking the one that comes with Palaestra",)
    place.parent.mkdir(parents=True)
    place.write_text("behaviors: {Mine: {}}")
    assert (list(load(place).settings.behaviors), load(place).notes) == (["Mine"], ())
    for missing in ("configs/ppo/CartPoles.yaml", "ppo/Basic.yaml", str(tmp_path / "configs/ppo/Basic.yaml")):
        with pytest.raises(ConfigError, match="there is no settings file"):
            load(Path(missing))


def test_a_missing_settings_file_is_answered_with_files_like_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cartpole.yaml").touch()
    for missing in ("cartpol.yaml", "cartpole", "sub/CartPole.yml"):
        with pytest.raises(ConfigError, match=f"no settings file {missing}; did you mean 'cartpole.yaml'"):
            load(Path(missing))
    with pytest.raises(ConfigError, match=f"no settings file other.yaml in {tmp_path}"):
        load(Path("other.yaml"))
