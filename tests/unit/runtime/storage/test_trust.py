"""Commands that look at someone else's run folder run none of the code and none of the programs that its settings
name.
"""

import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import contents, settings, write
from tiny_envs import Bandit

import palaestra
from palaestra.cli.commands import COMMANDS as parser_commands
from palaestra.cli.commands import make_parser, subparser
from palaestra.cli.main import main
from palaestra.core.errors import RunError
from palaestra.runtime.settings import load
from palaestra.runtime.storage.outward import calls
from palaestra.runtime.storage.trust import KEY, SIGNATURE, env_code, is_own, learning_code, outward_links, sign
from palaestra.runtime.storage.user_keys import user_key

CODE = """
from pathlib import Path
from tiny_envs import Bandit
from palaestra.wire.side_channels import SideChannel

Path("was_run").touch()

def make():
    return Bandit(4, branches=(2,))
"""


def bandit() -> Bandit:
    return Bandit(4, branches=(2,))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with the run 'first', of an environment that is code."""
    results = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("code"))
        Path("their_code.py").write_text(CODE)
        patch.setattr(sys, "path", [*sys.path])
        patch.delitem(sys.modules, "their_code", raising=False)
        tree = settings("Bandit", 200)
        palaestra.train(tree, env="python:their_code:make", results_dir=str(results), run_id="first", quiet=True)
    return results


@pytest.fixture
def place(tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the code and a copy of the run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "their_code", raising=False)
    Path("their_code.py").write_text(CODE)
    shutil.copytree(written, "results")
    return tmp_path


@pytest.fixture
def foreign(place: Path) -> Path:
    """The run as it comes from someone else, or from a version without signatures."""
    run = place / "results" / "first"
    (run / SIGNATURE).unlink()
    return run


def change(run: Path, **values: Any) -> None:
    """Writes other settings into the run's configuration, by their dotted paths."""
    file = run / "configuration.yaml"
    tree = yaml.safe_load(file.read_text())
    for path, value in values.items():
        *above, last = path.split("__")
        at = tree
        for key in above:
            at = at[key]
        at[last] = value
    file.write_text(yaml.safe_dump(tree, sort_keys=False))


def was_run() -> bool:
    return Path("was_run").exists()


COMMANDS = [
    "evaluate first --episodes 2",
    "evaluate results/first --episodes 2 --env=python:none:none",
    "record first",
    "record first --demo",
    "league first",
    "learn --run-id=first --resume",
    "learn --run-id=first --inference",
    "learn results/first/configuration.yaml --run-id=other",
    "doctor --config=results/first/configuration.yaml --ticks=3",
    "config results/first/configuration.yaml",
    "export first",
    "plot first",
    "run Basic --brain model:first --episodes=1",
    "tune results/first/configuration.yaml --trials=1",
    "tune own.yaml --env=Basic --trials=1 --search=results/first/configuration.yaml",
    "distill first --max-steps=100 --episodes=1",
    "push first ann/first --evaluate=1 --no-video --dry-run",
    "publish first --no-play",
]
TAKES = {
    "learn": "config --run-id",
    "tune": "config --search",
    "evaluate": "runs",
    "record": "runs",
    "league": "run",
    "doctor": "--config",
    "config": "config",
    "export": "run",
    "plot": "runs",
    "run": "--brain",
    "push": "run",
    "publish": "run",
    "distill": "run",
}
"""Arguments of commands that name a run or a settings file; each command has a line in COMMANDS."""
TAKES_NO_SETTINGS = {
    # networks only; files of old releases
    "learn": "--initialize-from --run-path --curriculum --sampler --track --docker-target-name --trainer",
    "tune": "--study",  # `test_a_study_of_someone_else_runs_nothing` in test_tuning.py
    "view": "what",  # opens environments as evaluate does
    "compare": "runs --groups --behavior",  # metrics only
    "record": "--brain --demo-out",
    "convert": "source --obs-shape --actions --activation --normalizer --check",  # data only
    "push": "repo --revision",
    "pull": "repo --run-id --revision",  # data only
    "demo": "files --model",  # data only
    "upgrade": "old --curriculum --sampler",  # settings of old releases, of which nothing is run
    "export": "--behavior",
    "config": "--example",
    "help": "topic error",
    "distill": "--vis-encode-type --run-id",  # of the student
}
TYPED = {"ENV", "BUILD", "PATH=VALUE", "ARG", "DIR", "TAG", "DEVICE", "ADDRESS", "HOST:PORT"}
"""What the user has typed is run; the rest names no settings."""
OUTPUTS = {"--out", "--json", "--plot", "--to-demo", "target", "new"}
NO_ENVIRONMENT = ("config", "export", "plot", "run")
ASKS = [command for command in COMMANDS if command.split()[0] not in NO_ENVIRONMENT and "--env" not in command]


def test_every_argument_that_may_name_a_run_or_its_settings_is_tried():
    """A new argument fails here until it is listed above, with a command line in COMMANDS if it names settings."""
    for name in parser_commands:
        known = {*f"{TAKES.get(name, '')} {TAKES_NO_SETTINGS.get(name, '')}".split()} | OUTPUTS
        for action in subparser(make_parser(name), name)._actions:
            free = not action.choices and action.type not in (int, float)
            takes = action.nargs != 0 and free and action.metavar is not None
            if (
                takes
                and len(action.metavar or "") > 1
                and action.metavar not in {*TYPED, "TEXT", "N,N", "REWARD", "LOW,HIGH"}
            ):
                assert (action.option_strings or [action.dest])[0] in known, (name, action)
    assert set(TAKES) == {command.split()[0] for command in COMMANDS}


@pytest.mark.parametrize("command", ASKS)
def test_an_environment_of_a_foreign_folder_is_not_opened(command, foreign, capsys):
    before = contents(foreign)
    assert main(command.split()) == 1
    message = capsys.readouterr().err
    assert "env_settings.env_path = python:their_code:make" in message
    assert "--trust" in message
    assert not was_run()
    assert contents(foreign) == before


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in ASKS and "--env" not in command])
def test_config_export_plot_and_a_model_alone_run_no_code(command, foreign):
    change(foreign, env_settings__side_channels=["their_code:make"])
    main(command.split())
    assert not was_run()


NETWORKS = ("network_settings__vis_encode_type", "network_settings__body")


@pytest.mark.parametrize(
    ("command", "settings"),
    [(command, ("trainer_type",)) for command in COMMANDS]
    + [
        (command, NETWORKS) for command in COMMANDS if command.split()[0] in ("export", "league") or "resume" in command
    ],
)
def test_no_command_runs_code_of_agents_that_a_foreign_folder_names(command, settings, foreign):
    named = {f"behaviors__Bandit__{name}": "their_code:Thing" for name in settings}
    change(foreign, env_settings__env_path="builtin:Basic", **named)
    main(command.split())
    assert not was_run()


@pytest.mark.slow
def test_a_teacher_and_opponents_of_a_foreign_folder_are_code(foreign):
    tree = settings("Bandit", self_play={"opponents": ["heuristic", "python:their_code:Rule"]})
    tree["default_settings"] = {"trainer_type": "bc", "hyperparameters": {"teacher": "their_code:Rule"}}
    tree["behaviors"]["Bandit"]["hyperparameters"] = {}
    named = learning_code(load(tree).settings)
    assert [".".join(map(str, path)) for path, _ in named] == [
        "behaviors.Bandit.self_play.opponents",
        "default_settings.hyperparameters.teacher",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("env", ["gymnasium:their_code:Thing-v0", "./game.sh", "game.py"])
def test_a_program_and_a_module_of_gymnasium_are_not_started(env, foreign, capsys):
    for name in ("game.sh", "game.py"):
        Path(name).write_text("#!/bin/sh\ntouch was_run\n" if name.endswith("sh") else "open('was_run', 'w')")
        Path(name).chmod(0o755)
    change(foreign, env_settings__env_path=env)
    assert main(["evaluate", "first"]) == 1
    assert env in capsys.readouterr().err
    assert not was_run()


@pytest.mark.slow
def test_side_channels_of_a_foreign_folder_are_not_made_for_a_game_of_ones_own(foreign, capsys):
    Path("game.py").write_text("")
    change(foreign, env_settings__side_channels=["their_code:make"])
    assert main(["evaluate", "first", "--env=game.py"]) == 1
    assert "env_settings.side_channels = their_code:make" in capsys.readouterr().err
    assert not was_run()


@pytest.mark.usefixtures("foreign")
def test_an_environment_named_on_the_command_line_needs_no_trust(capsys):
    assert main(["evaluate", "first", "--episodes=2", "--env=python:their_code:make"]) == 0
    assert was_run()
    assert main(["learn", "--run-id=first", "--resume", "--env=python:their_code:make"]) == 0
    assert "--trust" not in capsys.readouterr().err


def test_trust_is_asked_for_once(foreign):
    assert main(["evaluate", "first", "--episodes=2"]) == 1
    assert main(["evaluate", "first", "--episodes=2", "--trust"]) == 0
    assert was_run()
    assert main(["evaluate", "first", "--episodes=2"]) == 0
    assert (foreign / SIGNATURE).is_file()


@pytest.mark.usefixtures("place")
def test_ones_own_folder_needs_no_trust_wherever_it_is_copied():
    assert main(["evaluate", "first", "--episodes=2"]) == 0
    shutil.copytree("results/first", "elsewhere/copy")
    assert main(["evaluate", "elsewhere/copy", "--episodes=2"]) == 0
    assert main(["learn", "--run-id=first", "--resume"]) == 0


def test_other_settings_that_run_nothing_keep_a_signature(place):
    change(place / "results/first", behaviors__Bandit__max_steps=400)
    assert main(["learn", "--run-id=first", "--resume"]) == 0


@pytest.mark.parametrize("forgery", ["", "00" * 32, "\0", "0" * 5000])
def test_a_forged_signature_does_not_pass(forgery, foreign):
    (foreign / SIGNATURE).write_text(forgery)
    assert main(["evaluate", "first", "--episodes=2"]) == 1
    assert not was_run()


def test_a_signature_is_of_the_code_that_is_named(place):
    run = place / "results/first"
    Path("other_code.py").write_text(CODE)
    change(run, env_settings__env_path="python:other_code:make")
    assert main(["evaluate", "first", "--episodes=2"]) == 1
    change(run, env_settings__env_path="python:their_code:make", env_settings__env_options={"areas": 4})
    assert main(["evaluate", "first", "--episodes=2"]) == 1
    assert not was_run()


def test_a_folder_signed_with_the_key_of_another_user_is_foreign(place, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert main(["evaluate", "first", "--episodes=2"]) == 1
    assert not was_run()


def test_training_from_python_asks_too(foreign):
    with pytest.raises(RunError, match="trust=True"):
        palaestra.train(resume=True, run_id="first", quiet=True)
    assert not was_run()
    palaestra.train(resume=True, run_id="first", quiet=True, env=bandit())
    assert not was_run()
    (foreign / SIGNATURE).unlink()
    palaestra.train(resume=True, run_id="first", quiet=True, trust=True)


def test_resuming_with_settings_of_ones_own_runs_nothing_of_the_folder(foreign, tmp_path):
    own = write(str(tmp_path / "own.yaml"), settings("Bandit", 400))
    change(foreign, behaviors__Bandit__trainer_type="their_code:Thing")
    palaestra.train(own, resume=True, run_id="first", quiet=True, env=bandit())
    assert not was_run()


@pytest.mark.slow
def test_config_shows_a_trainer_of_ones_own_without_importing_it(place, capsys):
    tree = {"behaviors": {"Bandit": {"trainer_type": "their_code:Thing", "hyperparameters": {"gentle": [1, 2]}}}}
    Path("own.yaml").write_text(yaml.safe_dump(tree))
    assert main(["config", "own.yaml"]) == 0
    message = capsys.readouterr()
    assert yaml.safe_load(message.out)["behaviors"]["Bandit"]["hyperparameters"] == {"gentle": [1, 2]}
    assert "are not checked" in message.err
    assert not was_run()
    assert main(["config", "own.yaml", "--trust"]) == 1
    assert was_run()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps both folders to the user")
def test_the_key_is_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    key = user_key(KEY)
    assert user_key(KEY) == key
    file = tmp_path / "palaestra" / KEY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert user_key(KEY) not in (key, None)  # one that others may have read is not used


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps both folders to the user")
def test_without_a_place_for_its_key_a_folder_stays_foreign(place, tmp_path, monkeypatch):
    """The configuration's folder cannot be written, and someone else's lies among temporary files."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"palaestra-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"palaestra-{os.getuid()}").chmod(0o777)
    assert user_key(KEY) is None
    run = place / "results/first"
    found = load(run / "configuration.yaml").settings
    sign(run, found)
    assert not is_own(run, found)
    assert main(["evaluate", "first", "--episodes=2", "--trust"]) == 0
    (tmp_path / f"palaestra-{os.getuid()}").rmdir()
    sign(run, found)
    assert is_own(run, found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "reach", "path"),
    [
        ("env_settings", {"ray_address": "203.0.113.5:6379"}, "env_settings.ray_address"),
        ("env_settings", {"ray_working_dir": "."}, "env_settings.ray_working_dir"),
        ("trackers", {"wandb": {"base_url": "https://203.0.113.5"}}, "trackers.wandb = base_url=https://203.0.113.5"),
        ("trackers", {"own": {"uri": "https://203.0.113.5"}}, "trackers.own"),
        ("default_settings", {"init_path": "hub:someone/run"}, "default_settings.init_path"),
        (
            "default_settings",
            {"behavioral_cloning": {"demo_path": "Own.demo,//203.0.113.5/a"}},
            "default_settings.behavioral_cloning.demo_path",
        ),
    ],
)
def test_what_reaches_beyond_this_machine_is_asked_for(section, reach, path, foreign, capsys):
    more = {section: {}} if section == "default_settings" else {}
    change(foreign, env_settings__env_path="builtin:Basic", **more)
    change(foreign, **{f"{section}__{key}": value for key, value in reach.items()})
    before = contents(foreign)
    assert main(["learn", "--run-id=first", "--resume"]) == 1
    message = capsys.readouterr().err
    assert f"{path}" in message
    assert "--trust" in message
    assert contents(foreign) == before


def test_data_of_another_machine_are_named_however_they_are_given():
    there = "//203.0.113.5/a"
    prior = {"demo_path": f"Own.demo,minari:{there}", "minari": there, "run": "hub:someone/run"}
    block = {"trainer_type": "sac", "hyperparameters": {"prior_data": prior}}
    assert [one for _, one in calls(load({"default_settings": block}).settings)] == [*prior.values()]


@pytest.mark.slow
def test_an_address_for_games_that_others_reach_is_asked_for(foreign, capsys):
    Path("game.py").write_text("")
    change(foreign, env_settings__bind="0.0.0.0")
    assert main(["evaluate", "first", "--env=game.py"]) == 1
    assert "env_settings.bind = 0.0.0.0" in capsys.readouterr().err
    tree = settings("Bandit")
    assert not learning_code(load(tree | {"env_settings": {"bind": "127.0.0.1", "env_path": "game.py"}}).settings)[1:]


def test_a_tracker_that_the_user_types_needs_no_trust(foreign, capsys):
    change(foreign, env_settings__env_path="builtin:Basic", trackers={"wandb": {"base_url": "https://203.0.113.5"}})
    assert main(["learn", "--run-id=first", "--resume", "--track=wandb:project=mine"]) == 1
    assert "base_url" in capsys.readouterr().err  # which is the folder's still
    change(foreign, trackers=["jsonl"])
    main(["learn", "--run-id=first", "--resume", "--track=wandb:mode=offline"])
    assert "--trust" not in capsys.readouterr().err


@pytest.mark.slow
def test_choices_of_a_search_in_a_foreign_folder_are_code(foreign, capsys):
    space = {"env_settings.env_path": {"choice": ["builtin:Basic", "python:their_code:make"]}}
    change(foreign, env_settings__env_path="builtin:Basic", search={"space": space})
    write("own.yaml", settings("Basic"))
    for words in (
        ["results/first/configuration.yaml", "--env=Basic"],
        ["own.yaml", "--env=Basic", f"--search={foreign}/configuration.yaml"],
    ):
        assert main(["tune", *words, "--trials=1"]) == 1
        assert "python:their_code:make" in capsys.readouterr().err
    assert not was_run()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["configuration.yaml", "study/best.yaml", "study/trials/0/settings.yaml"])
def test_files_that_runs_and_searches_write_are_known_wherever_they_lie(name, foreign, tmp_path):
    file = tmp_path / "copied" / name
    file.parent.mkdir(parents=True)
    shutil.copy(foreign / "configuration.yaml", file)
    (tmp_path / "copied" / "study").mkdir(exist_ok=True)
    (tmp_path / "copied" / "study" / "study.yaml").touch()
    assert main(["learn", str(file), "--run-id=other"]) == 1
    assert not was_run()


@pytest.mark.slow
def test_a_signature_is_kept_when_another_is_added(place):
    run = place / "results/first"
    mine = load(run / "configuration.yaml").settings
    other = load(settings("Bandit") | {"env_settings": {"env_path": "python:other:make"}}, own_code=False).settings
    sign(run, other)
    assert is_own(run, mine)
    assert is_own(run, other)


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the user's, beside what a stranger has sent."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "precious").write_text("mine")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
@pytest.mark.parametrize("link", ["run_logs/console.log", "checkpoints/400"])
@pytest.mark.parametrize(
    "command", ["learn --run-id=first --resume --env=Basic", "learn own.yaml --run-id=first --force --env=Basic"]
)
def test_training_writes_through_no_links_that_lead_out_of_a_foreign_folder(link, command, foreign, elsewhere, capsys):
    write("own.yaml", settings("Basic", 200))
    (foreign / link).unlink(missing_ok=True)
    (foreign / link).parent.mkdir(exist_ok=True)
    (foreign / link).symlink_to(elsewhere / "new")
    before = contents(elsewhere), contents(foreign)
    assert main(command.split()) == 1
    message = capsys.readouterr().err
    assert f"{link.replace('/', '.')} = link to {elsewhere / 'new'}" in message
    assert "--trust" in message
    assert (contents(elsewhere), contents(foreign)) == before


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_links_of_ones_own_folder_and_those_that_stay_inside_need_no_trust(place, elsewhere):
    run = place / "results" / "first"
    shutil.move(run / "checkpoints", elsewhere / "checkpoints")
    (run / "checkpoints").symlink_to(elsewhere / "checkpoints")
    assert main(["learn", "--run-id=first", "--resume"]) == 0
    assert [path for path, _ in outward_links(run)] == [("checkpoints",)]
    (run / SIGNATURE).unlink()
    (run / "checkpoints").unlink()
    shutil.move(elsewhere / "checkpoints", run / "kept")
    (run / "checkpoints").symlink_to("kept")
    assert not list(outward_links(run))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
@pytest.mark.parametrize(
    "command", ["record first --env=Basic", "record first --demo --env=Basic", "league first", "export first"]
)
def test_commands_that_play_write_into_no_foreign_folder_with_links_out_of_it(command, foreign, elsewhere, capsys):
    (foreign / "demonstrations").symlink_to(elsewhere)
    before = contents(elsewhere), contents(foreign)
    assert main(command.split()) == 1
    assert f"demonstrations = link to {elsewhere}" in capsys.readouterr().err
    assert (contents(elsewhere), contents(foreign)) == before


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_half_written_model_replaces_a_link(foreign, elsewhere):
    """A stranger's folder has a link for every number that the process may have."""
    (foreign / f".new.onnx.tmp-{os.getpid()}").symlink_to(elsewhere / "precious")
    assert main(["export", "first", f"--out={foreign / 'new.onnx'}"]) == 0
    assert (elsewhere / "precious").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_pictures_replace_a_link_instead_of_the_file_that_it_leads_to(foreign, elsewhere):
    Path("curves.png").symlink_to(elsewhere / "precious")
    assert main(["plot", str(foreign)]) == 0  # beside it
    assert Path("curves.png").is_symlink()
    assert main(["plot", str(foreign), "--out=curves.png", "--force"]) == 0
    assert (elsewhere / "precious").read_text() == "mine"
    assert not Path("curves.png").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"), [("force", True), ("resume", True), ("results_dir", "{elsewhere}"), ("results_dir", "../mine")]
)
def test_settings_of_a_foreign_folder_overwrite_no_other_run(key, value, foreign, elsewhere, capsys):
    shutil.copytree(foreign, "results/mine")
    given = value.format(elsewhere=elsewhere) if isinstance(value, str) else value
    place = {"checkpoint_settings__run_id": "mine", "checkpoint_settings__results_dir": "results"}
    change(foreign, env_settings__env_path="builtin:Basic", **place)
    change(foreign, **{f"checkpoint_settings__{key}": given})
    before = contents(Path("results/mine"))
    assert main(["learn", "results/first/configuration.yaml"]) == 1
    assert f"checkpoint_settings.{key} = {str(given).lower() if given is True else given}" in capsys.readouterr().err
    assert contents(Path("results/mine")) == before
    assert [entry.name for entry in elsewhere.iterdir()] == ["precious"]


def test_options_of_a_foreign_folder_are_looked_through_to_their_depth(foreign):
    tree = yaml.safe_load((foreign / "configuration.yaml").read_text())
    for options in (
        {"make_kwargs": {"env_id": "their_code:Thing-v0"}},
        {"paths": ["../their.xml"]},
        {"a/b": 1},
        {"in": {"c:d": 1}},
    ):
        tree["env_settings"] |= {"env_path": "gymnasium:CartPole-v1", "env_options": options}
        assert [path[-1] for path, _ in env_code(load(tree, own_code=False).settings)] == ["env_options"], options
