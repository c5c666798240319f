import yaml

from palaestra.hub.hub_names import HubName
from palaestra.runtime.sharing.card import model_card
from palaestra.runtime.sharing.results import Row, last_summaries

NAME = HubName("ann/ppo")


def row(behavior: str = "Ball", **rest: object) -> Row:
    given = {
        "trainer": "ppo",
        "model": f"{behavior}.onnx",
        "step": 5000,
        "mean": 1.5,
        "std": 0.25,
        "episodes": 7,
        "evaluated": False,
        "elo": None,
    }
    return Row(behavior, **{**given, **rest})  # type: ignore[arg-type]


def head(card: str) -> dict:
    return yaml.safe_load(card.split("---\n")[1])


def test_each_behavior_has_a_row_and_a_tag():
    card = model_card(
        NAME,
        [row("Striker", elo=1201.6), row("Goalie", trainer="sac", elo=1199.0)],
        {},
        ["Striker.onnx", "Goalie.onnx"],
    )
    assert "| Striker | ppo | Striker.onnx | 5,000 | 1.50 +/- 0.25 | 7 | at the end of training | 1202 |" in card
    assert "| Goalie | sac | Goalie.onnx |" in card
    assert {"ML-Agents-Striker", "ML-Agents-Goalie"} <= set(head(card)["tags"])
    assert "# Striker, Goalie, trained with PPO and SAC" in card
    assert 'load_policy("hub:ann/ppo/Striker.onnx")' in card


def test_a_run_without_rewards_has_no_model_index():
    card = model_card(NAME, [row(mean=None, std=None, episodes=None)], {}, [])
    assert "model-index" not in head(card)
    assert "Learning curves" not in card


def test_names_from_outside_stay_text():
    name = "a|b<script>`*_\n# x"
    card = model_card(NAME, [row(name)], {"behaviors": {name: {"x": "```\n<b>"}}}, [])
    assert "<script>" not in card.split("## Settings")[0].split("<!--")[1]
    assert "\n# x" not in card.split("## Settings")[0].split("<!--")[1]
    assert "````yaml" in card  # a longer fence than any in the settings
    assert head(card)["library_name"] == "ml-agents"


def test_the_last_summary_with_a_reward_counts(tmp_path):
    tag = "Environment/Cumulative Reward"
    lines = [
        f'{{"behavior": "B", "step": 1, "{tag}": 1.0, "std": 0.5, "episodes": 3}}',
        f'{{"behavior": "B", "step": 2, "{tag}": 2.0}}',
        '{"behavior": "B"}',
        "cut",
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert last_summaries(tmp_path) == {"B": {"mean": 2.0}}
