from pathlib import Path

import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import load
from palaestra.runtime.settings.format_versions import format_version
from palaestra.runtime.settings.yaml_file import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("behaviors: {A: {trainer_type: ppo, hyperparameters: {batch_size: 3}}}", "current"),
        ("behaviors: {A: }", "current"),
        ("behaviors: {A: {trainer_type: ppo, batch_size: 3}}", "current"),  # a mistake, which loading explains better
        ("behaviors: {A: {max_steps: 3, network_settings: {}, batch_size: 3}}", "current"),
        ("default_settings: {trainer_type: ppo}", "current"),
        ("behaviours: {}", "current"),
        ("behaviors: {A: {trainer: ppo, batch_size: 3}}", "flat"),
        ("behaviors: {A: {batch_size: 3}}", "flat"),
        ("default: {max_steps: 3}", "flat"),
        ("A: {hidden_units: 3}", "flat"),
        ("behaviors: {A: {trainer_type: ppo}}\ncurriculum: null", "nested"),
        ("behaviors: {A: {trainer_type: ppo}}\nparameter_randomization: {}", "nested"),
        ("resampling-interval: 3", "samplers"),
        ("mass: {sampler-type: uniform}", "samplers"),
        ("mass: {sampler_type: uniform, min_value: 1}", "samplers"),
        ("{measure: reward, thresholds: [1]}", "curricula"),
        ("A: {measure: reward, thresholds: [1], parameters: {}}", "curricula"),
    ],
)
def test_a_file_is_told_by_its_keys(text, expected):
    assert format_version(parse(text).tree) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default: {trainer: ppo, trainer: ppo}", "is a trainer file of ML-Agents before release 3 (mlagents 0.17); "
         "upgrade it with `palaestra upgrade 'my x.yaml' 'my x.new.yaml'`"),
        ("behaviors: {A: }\ncurriculum: {A: }", "has `curriculum` or `parameter_randomization` of ML-Agents before "
                                                "release 6 (mlagents 0.19); "
         "upgrade it with `palaestra upgrade 'my x.yaml' 'my x.new.yaml'`"),
        ("resampling-interval: 3", "holds samplers of ML-Agents before release 3 (mlagents 0.17), which are part of "
                                   "the trainer file now; "
         "upgrade it with `palaestra upgrade TRAINER_FILE NEW_FILE --sampler 'my x.yaml'`"),
        ("thresholds: [1]", "holds curricula of ML-Agents before release 3 (mlagents 0.17), which are part of the "
                             "trainer file now; "
         "upgrade it with `palaestra upgrade TRAINER_FILE NEW_FILE --curriculum 'my x.yaml'`"),
    ],
)  # fmt: skip
def test_an_old_file_is_refused_with_the_command_that_upgrades_it(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my x.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load(Path("my x.yaml"))
    assert str(error.value) == f"my x.yaml: {message}"
