import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import load


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "trainer_type: ppo\nhyperparameters: {batch_size: 3}\n",
            2,
            "is a setting of a behavior: .* begin the file with `behaviors:`",
        ),
        ("behaviors:\n  A:\n  hyperparameters: {batch_size: 3}\n", 3, "did you mean 'behaviors.A.hyperparameters'"),
        ("behaviors:\n  A:\n  max_steps: 3\n", 3, "behaviors.max_steps: is a setting of a behavior"),
        ("behaviors:\nA: {trainer_type: ppo, max_steps: 3}\n", 2, "A: looks like a behavior: indent it"),
        ("A: {trainer_type: ppo, hyperparameters: {batch_size: 3}}\n", 1, "A: looks like a behavior: indent it"),
        ("behaviors:\n  A: {max_steps: 3}\nmax_steps: 3\n", 3, "did you mean 'behaviors.A.max_steps'"),
        ("behaviors:\n  A: {max_steps: 3}\n  env_settings: {seed: 3}\n", 3, "is no behavior but a section of its own"),
        (
            "behaviors:\n  A: {max_steps: 3}\n  default_settings: {trainer_type: ppo}\n",
            3,
            "is no behavior but a section of its own",
        ),
        ("behaviors:\n  A:\n    env_settings: {seed: 3}\n", 3, "unknown key; 'env_settings' is a section of its own"),
        (
            "behaviors:\n  A:\n    environment_parameters: {mass: 3}\n",
            3,
            "'environment_parameters' is a section of its own",
        ),
        ("behaviors:\n  A:\n    gail: {demo_path: x}\n", 3, "did you mean 'behaviors.A.reward_signals.gail'"),
        ("behaviors:\n  A:\n    exploiter: {}\n", 3, "did you mean 'behaviors.A.self_play.exploiter'"),
        ("behaviors:\n  A:\n    strength: 0.9\n", 3, "did you mean 'behaviors.A.reward_signals.extrinsic.strength'"),
        (
            "behaviors:\n  A:\n    reward_signals: {gamma: 0.9}\n",
            3,
            "signal; did you mean 'behaviors.A.reward_signals.extrinsic.gamma'",
        ),
        (
            "behaviors:\n  A:\n    reward_signals: {behavioral_cloning: {}}\n",
            3,
            "did you mean 'behaviors.A.behavioral_cloning'",
        ),
    ],
    ids=range(15),
)
def test_a_key_at_the_wrong_depth_is_told_where_it_belongs(tmp_path, text, line, message):
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"x.yaml:{line}: .*{message}"):
        load(tmp_path / "x.yaml")


def test_nothing_is_suggested_that_is_not_near(tmp_path):
    (tmp_path / "x.yaml").write_text("behaviors:\n  A:\n    mass: 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mass: unknown key$"):
        load(tmp_path / "x.yaml")


def test_a_key_given_twice_is_a_warning_that_names_the_line_that_counts(tmp_path):
    (tmp_path / "x.yaml").write_text("behaviors:\n  A:\n    max_steps: 3\n    max_steps: 5\n", encoding="utf-8")
    loaded = load(tmp_path / "x.yaml")
    assert loaded.settings.behaviors["A"].max_steps == 5
    assert loaded.warnings[0].endswith("x.yaml:4: the key 'max_steps' is given twice: this one counts, as in ML-Agents")
