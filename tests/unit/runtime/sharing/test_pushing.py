import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from hub_runs import copied, trained
from hub_server import READER, Hub

import palaestra
from palaestra.core.errors import ConfigError, HubError
from palaestra.runtime.sharing.gathering import Gathered
from palaestra.runtime.sharing.pushing import push

REPO = "ann/ppo-3DBall"
LOGS = ("Player-0.log", "wandb.json", "console.log")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("results"))


def checkpoints_in(files: Iterable[str]) -> set[str]:
    return {path.split("/")[1] for path in files if path.startswith("checkpoints/")}


def test_a_pushed_run_is_byte_for_byte_the_one_that_is_pulled(hub: Hub, first: Path, tmp_path: Path):
    done = push(str(first), REPO)
    pulled = palaestra.pull(REPO, results_dir=tmp_path).folder
    made = {"README.md", "config.json"}
    there = {path.relative_to(pulled).as_posix() for path in pulled.rglob("*") if path.is_file()}
    assert there == set(done.files)
    assert {"3DBall.onnx", "configuration.yaml", "metrics.jsonl", "run_logs/training_status.json"} < there
    changed = [path for path in there - made if (pulled / path).read_bytes() != (first / path).read_bytes()]
    assert changed in ([], ["run_logs/timers.json"])


def test_a_pulled_run_resumes_from_its_newest_checkpoint(hub: Hub, first: Path, tmp_path: Path):
    push(str(first), REPO)
    palaestra.pull(REPO, run_id="hers", results_dir=tmp_path)
    result = palaestra.train(run_id="hers", results_dir=str(tmp_path), resume=True, quiet=True, max_steps=400)
    assert result.steps["3DBall"] >= 400


def test_locks_logs_signatures_and_older_checkpoints_stay_here(hub: Hub, first: Path, tmp_path: Path):
    run = copied(first, tmp_path)
    for name in (".lock", ".writer.json", "notes.py", *(f"run_logs/{name}" for name in LOGS)):
        (run / name).write_text("private", encoding="utf-8")
    (run / "secret.gif").symlink_to("/etc/hostname")
    for name in ("recording.gif", "recording-2.gif"):
        (run / name).write_bytes(b"the same")
    done = push(str(run), REPO)
    there = hub.repos[REPO].files
    assert not [path for path, body in there.items() if body == b"private"]
    assert not {"run_logs/signature", "secret.gif", ".lock"} & set(there)
    assert len(checkpoints_in(there)) == 1
    assert {"notes.py", "secret.gif", "run_logs/Player-0.log", "checkpoints/0/", "recording-2.gif"} <= set(
        done.left_out
    )
    tried = palaestra.push(str(run), REPO, checkpoints="all", dry_run=True)
    assert "notes.py" not in tried.files
    assert "recording.gif" in str(tried)
    assert repr(tried).startswith(f"<Pushed would push {len(tried.files)} files (0.")
    assert "nothing was uploaded" in tried._repr_html_()


def test_all_checkpoints_or_none_can_be_pushed(hub: Hub, first: Path):
    every = push(str(first), REPO, checkpoints="all").files
    none = push(str(first), "ann/bare", checkpoints="none").files
    assert checkpoints_in(every) == {path.name for path in (first / "checkpoints").iterdir()}
    assert not checkpoints_in(none)


def test_the_card_has_tags_rewards_curves_and_settings_which_are_there_as_json_too(hub: Hub, first: Path):
    push(str(first), REPO)
    card = hub.repos[REPO].files["README.md"].decode()
    head = yaml.safe_load(card.split("---")[1])
    assert head["library_name"] == "ml-agents"
    learning = {"deep-reinforcement-learning", "reinforcement-learning"}
    assert {"3DBall", *learning, "ML-Agents-3DBall", "unity-ml-agents"} <= set(head["tags"])
    metric = head["model-index"][0]["results"][0]["metrics"][0]
    assert metric["type"] == "mean_reward"
    assert metric["value"] in card.split("| behavior |")[1]
    assert "trainer_type: ppo" in card
    assert 'load_policy("hub:ann/ppo-3DBall")' in card
    there = hub.repos[REPO].files
    assert json.loads(there["config.json"]) == yaml.safe_load(there["configuration.yaml"])


def test_an_evaluation_gives_the_rewards_of_the_card(hub: Hub, first: Path):
    push(str(first), REPO, evaluate=3)
    assert "| 3 | by playing the model |" in hub.repos[REPO].files["README.md"].decode()


def test_recordings_of_the_run_are_shown(hub: Hub, first: Path, tmp_path: Path):
    run = copied(first, tmp_path)
    (run / "recording.mp4").write_bytes(b"film")
    push(str(run), REPO)
    there = hub.repos[REPO].files
    assert there["recording.mp4"] == there["replay.mp4"] == b"film"  # the page of the Hub plays the second
    assert '<video src="./recording.mp4"' in there["README.md"].decode()
    (run / "recording.gif").write_bytes(b"GIF89a")
    push(str(run), REPO)
    assert "![Recording](./recording.gif)" in hub.repos[REPO].files["README.md"].decode()


def test_paths_of_this_machine_and_secrets_are_taken_out(hub: Hub, first: Path, tmp_path: Path):
    run = copied(first, tmp_path)
    file = run / "configuration.yaml"
    tree = yaml.safe_load(file.read_text())
    given = ["--token", "abc123", "--map=/data/maps/x"]
    tree["env_settings"] |= {"env_path": "/data/games/Ball.x86_64", "env_args": given}
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    done = push(str(run), REPO)
    there = hub.repos[REPO].files
    assert not [path for path, body in there.items() if b"/data/" in body or b"abc123" in body]
    pushed = yaml.safe_load(there["configuration.yaml"])["env_settings"]
    assert (pushed["env_path"], pushed["env_args"]) == ("Ball.x86_64", ["--token", "***", "--map=x"])
    assert "env_settings.env_path" in "".join(done.notes)
    assert yaml.safe_load(file.read_text()) == tree  # the run itself stays as it is


def test_a_second_push_is_a_new_commit_that_mirrors_the_run(hub: Hub, first: Path, tmp_path: Path):
    run = copied(first, tmp_path)
    created = push(str(run), REPO, message="one")
    hub.repos[REPO].commit({**hub.repos[REPO].files, "LICENSE": b"MIT"})
    steps = sorted((run / "checkpoints").iterdir(), key=lambda path: int(path.name))
    steps[-1].rename(run / "checkpoints" / "999")
    again = push(str(run), REPO, message="two")
    same = push(str(run), REPO, message="three")
    repo = hub.repos[REPO]
    assert (created.created, again.created) == (True, False)
    assert repo.titles[-1] == "two"
    assert checkpoints_in(repo.files) == {"999"}
    assert all(path.startswith(f"checkpoints/{steps[-1].name}/") for path in again.removed)
    assert repo.files["LICENSE"] == b"MIT"
    assert not same.changed


def test_a_card_that_its_owner_wrote_stays(hub: Hub, first: Path):
    hub.add(REPO, {"README.md": b"---\nlicense: mit\n---\n# Mine\n\nOne.\n\nTwo.\n"})
    done = push(str(first), REPO)
    assert hub.repos[REPO].files["README.md"].startswith(b"---\nlicense: mit")
    assert "README.md there was changed by hand, and stays as it is" in done.notes


def test_a_repository_with_something_else_is_refused_without_force(hub: Hub, first: Path):
    hub.add("ann/bert", {"config.json": b"{}", "model.safetensors": b"x"})
    hub.add("ann/soccer", {"SoccerTwos.onnx": b"x", "configuration.yaml": b""})
    with pytest.raises(HubError, match=r"ann/bert exists already and holds something else \(config.json, model.saf"):
        push(str(first), "ann/bert")
    with pytest.raises(HubError, match=r"holds something else \(SoccerTwos\)"):
        push(str(first), "ann/soccer")
    push(str(first), "ann/bert", force=True)
    assert {"model.safetensors", "3DBall.onnx"} <= set(hub.repos["ann/bert"].files)


def test_a_private_repository_is_made_private(hub: Hub, first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    push(str(first), REPO, private=True)
    assert hub.repos[REPO].private
    palaestra.pull(REPO, results_dir=tmp_path)
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(HubError, match=r"there is no repository ann/ppo-3DBall .*, or it is private: log in"):
        palaestra.pull(REPO, results_dir=tmp_path, run_id="other")


def test_private_does_not_pretend_to_hide_a_public_repository(hub: Hub, first: Path):
    push(str(first), REPO)
    with pytest.raises(HubError, match="exists already and is public"):
        push(str(first), REPO, private=True)


def test_a_branch_is_made_and_leaves_main_as_it_is(hub: Hub, first: Path, tmp_path: Path):
    hub.add(REPO, {})
    before = hub.repos[REPO].branches["main"]
    push(str(first), REPO, revision="v2")
    assert hub.repos[REPO].branches["main"] == before
    assert palaestra.pull(REPO, revision="v2", results_dir=tmp_path).is_run
    with pytest.raises(HubError, match="is no run"):
        palaestra.pull(REPO, results_dir=tmp_path, run_id="main")


@pytest.mark.parametrize(
    ("variable", "value", "secret", "message"),
    [
        ("HF_TOKEN", "hf_wrongwrongwrongwrong", "wrongwrong", "does not accept the token in HF_TOKEN"),
        ("HF_TOKEN", READER, READER, "the token of this machine may not write it"),
        ("HF_ENDPOINT", "http://ann:sesame@127.0.0.1:9", "sesame", "^127.0.0.1:9 cannot be reached"),
    ],
)
def test_a_refusal_is_one_message_without_secrets(hub, first, monkeypatch, variable, value, secret, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(HubError, match=message) as error:
        push(str(first), REPO)
    assert secret not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_commit_of_someone_else_meanwhile_is_not_overwritten(hub: Hub, first: Path):
    push(str(first), REPO)
    with pytest.raises(HubError, match="was changed by someone else meanwhile; nothing was written"):
        push(str(first), REPO, evaluate=1, prepare=lambda _: hub.repos[REPO].commit({"other.onnx": b"x"}))
    assert set(hub.repos[REPO].files) == {"other.onnx"}


def test_an_interrupted_push_leaves_nothing_beside_the_run(hub: Hub, first: Path, tmp_path: Path):
    run = copied(first, tmp_path)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = sorted(os.listdir(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        push(str(run), REPO, prepare=interrupt)
    assert sorted(os.listdir(tmp_path)) == before
    assert REPO not in hub.repos


def test_nothing_is_uploaded_in_a_dry_run(hub: Hub, first: Path):
    done = push(str(first), REPO, dry_run=True)
    assert {"README.md", "3DBall.onnx"} < set(done.files)
    assert hub.requests == []


def test_files_that_are_replaced_while_they_are_gathered_are_gathered_anew(first, tmp_path, monkeypatch):
    run = copied(first, tmp_path)
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name))
    link = os.link
    moved = list[Path]()

    def link_late(source: Path, target: Path) -> None:
        if source.parent == newest and not moved:  # the run trains, and writes another checkpoint in its place
            moved.append(newest.rename(newest.with_name("5000")))
        link(source, target)

    monkeypatch.setattr(os, "link", link_late)
    with Gathered(run, "newest") as gathered:
        assert checkpoints_in(gathered.files) == {"5000"}
        assert len(gathered.files) == len(set(gathered.files))


@pytest.mark.parametrize(
    ("repo", "given", "message"),
    [
        (REPO, {"message": "  "}, "--message is empty"),
        (REPO, {"checkpoints": "some"}, "--checkpoints is 'some'; expected newest, all or none"),
        (REPO, {"evaluate": -1}, "--evaluate is -1"),
        ("ann/ppo/3DBall.onnx", {}, "expected user/repository only"),
    ],
)
def test_unusable_options_are_refused_first(hub: Hub, first: Path, repo: str, given: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        push(str(first), repo, **given)
    assert hub.requests == []
