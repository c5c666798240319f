from pathlib import Path

import pytest
import torch
from tiny_envs import spec_of

from palaestra.core.errors import CheckpointError, ConfigError, RunError
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.runtime.storage.origins import find_origin
from palaestra.runtime.storage.run_folder import RunFolder

THEIRS = Path(__file__).parents[3] / "golden" / "data" / "others" / "mlagents"


def network(**rest: object) -> ActorCritic:
    chosen = NetworkSettings(**{"hidden_units": 16, "num_layers": 3, **rest})
    return ActorCritic(spec_of((4,), (2,), continuous=2), chosen)


def their_run(place: Path, behavior: str = "Walker") -> RunFolder:
    """Lays out a run as ML-Agents does."""
    (place / "old" / behavior).mkdir(parents=True)
    (place / "old" / behavior / "checkpoint.pt").write_bytes((THEIRS / "ppo_goalnone.pt").read_bytes())
    return RunFolder(place, "old")


def test_a_run_of_ml_agents_is_found_by_its_folder_or_its_file(tmp_path):
    folder = their_run(tmp_path)
    file = tmp_path / "old" / "Walker" / "checkpoint.pt"
    assert find_origin("Walker", None, folder).place == file
    for path in (file, file.parent, folder.path):
        assert find_origin("Walker", str(path), None).place == file


def test_its_weights_are_arranged_for_the_network(tmp_path):
    state, whole = find_origin("Walker", None, their_run(tmp_path)).state("Walker", network(), ["extrinsic"])
    assert whole
    network().load_state_dict(state["trainer"]["network"])


def test_values_of_other_reward_signals_begin_anew(tmp_path):
    _, whole = find_origin("Walker", None, their_run(tmp_path)).state("Walker", network(), ["curiosity"])
    assert not whole


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ({"hidden_units": 8}, r"body.weights.0: shape \(6, 16\) in the file, \(6, 8\) in this run"),
        ({"num_layers": 2}, "seq_layers.4.weight' too, which this run's network does not have"),
        ({"num_layers": 4}, "the file has no 'network_body._body_endoder.seq_layers.6.weight'"),
        ({"normalize": True}, "normalizer"),
        ({"memory": {}}, "lstm"),
    ],
)
def test_another_architecture_is_refused_by_name(tmp_path, rest, message):
    with pytest.raises(ConfigError, match=rf"'Walker' cannot start from .*{message}"):
        find_origin("Walker", None, their_run(tmp_path)).state("Walker", network(**rest), ["extrinsic"])


def test_other_observations_are_refused(tmp_path):
    other = ActorCritic(spec_of((4,), continuous=2), NetworkSettings(hidden_units=16, num_layers=3))
    with pytest.raises(ConfigError, match="observations: 6 numbers in the file, 4 in this run"):
        find_origin("Walker", None, their_run(tmp_path)).state("Walker", other, ["extrinsic"])


def test_a_behavior_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RunError, match="a run of ML-Agents: it has 'Walker' only"):
        find_origin("Runner", None, their_run(tmp_path))


@pytest.mark.parametrize("name", ["nowhere", "model.onnx"])
def test_what_is_no_checkpoint_is_named(tmp_path, name):
    (tmp_path / "model.onnx").write_bytes(b"x")
    with pytest.raises(RunError, match=f"init_path .*{name} "):
        find_origin("Walker", str(tmp_path / name), None)


def test_a_file_of_something_else_is_refused(tmp_path):
    torch.save({"model": {"a": torch.ones(1)}}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="no checkpoint of ML-Agents: it has no 'Policy'"):
        find_origin("Walker", str(tmp_path / "a.pt"), None).state("Walker", network(), ["extrinsic"])


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    torch.save({"Policy": {"a": Path("x")}}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="holds more than weights"):
        find_origin("Walker", str(tmp_path / "a.pt"), None).state("Walker", network(), ["extrinsic"])


@pytest.mark.parametrize("purpose", ["resume", "play"])
def test_a_run_of_ml_agents_cannot_go_on(tmp_path, purpose):
    with pytest.raises(RunError, match=f"cannot {purpose}: .* is a run of ML-Agents.*--initialize-from=old"):
        their_run(tmp_path).must_exist(purpose)
    their_run(tmp_path / "b").must_exist("open")


def test_a_folder_without_checkpoints_is_told_what_it_lacks(tmp_path):
    (tmp_path / "Walker").mkdir()
    with pytest.raises(RunError, match=r"neither checkpoints/, as our runs have, nor Walker/checkpoint\.pt"):
        find_origin("Walker", None, RunFolder(tmp_path.parent, tmp_path.name))
