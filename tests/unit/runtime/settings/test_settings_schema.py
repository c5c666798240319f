import json
from typing import Any

import pytest

from palaestra.runtime.settings import json_schema, load

KEYS = {
    "RunSettings": (
        "default_settings behaviors env_settings engine_settings environment_parameters checkpoint_settings "
        "torch_settings debug trackers search"
    ),
    "BehaviorSettings": (
        "trainer_type hyperparameters checkpoint_interval even_checkpoints keep_checkpoints network_settings "
        "reward_signals init_path max_steps time_horizon summary_freq stop_when keep_best threaded self_play "
        "behavioral_cloning mirror"
    ),
    "SearchSettings": (
        "method space trials jobs seeds seed objectives bar metric behavior episodes pruner report_every prune_after "
        "start_values storage"
    ),
    "RangeSettings": "uniform log integer log_integer step choice",
    "PPOSettings": (
        "batch_size buffer_size learning_rate learning_rate_schedule beta beta_schedule epsilon "
        "epsilon_schedule lambd num_epoch shared_critic max_grad_norm value_coef joint_ratio initial_deviation "
        "clip_value"
    ),
    "POCASettings": (
        "batch_size buffer_size learning_rate learning_rate_schedule beta beta_schedule epsilon epsilon_schedule "
        "lambd num_epoch shared_critic max_grad_norm value_coef joint_ratio initial_deviation individual_values"
    ),
    "SACSettings": (
        "batch_size buffer_size learning_rate learning_rate_schedule buffer_init_steps tau steps_per_update "
        "reward_signal_steps_per_update save_replay_buffer init_entcoef critic_bins critic_hidden_units "
        "critic_num_layers policy_delay target_deviation noise_hold n_step backup_entropy prior_data"
    ),
    "PriorDataSettings": "demo_path minari run share",
    "BCSettings": (
        "batch_size buffer_size learning_rate learning_rate_schedule num_epoch demo_path teacher teacher_behavior "
        "teacher_plays"
    ),
    "NetworkSettings": "normalize hidden_units num_layers vis_encode_type center_images body memory "
    "goal_conditioning_type bfloat16 compile deterministic critic_only",
    "MemorySettings": "sequence_length memory_size",
    "ExtrinsicSettings": "gamma strength network_settings normalize",
    "CuriositySettings": "gamma strength network_settings normalize learning_rate encoding_size",
    "RNDSettings": "gamma strength network_settings normalize learning_rate encoding_size",
    "GAILSettings": "gamma strength network_settings normalize learning_rate encoding_size use_actions use_vail "
    "demo_path",
    "AMPSettings": "gamma strength network_settings normalize learning_rate clips observations decision_seconds "
    "gradient_penalty kept_pairs",
    "SelfPlaySettings": (
        "save_steps team_change swap_steps window play_against_latest_model_ratio initial_elo elo_k opponents "
        "play_against_opponents_ratio priority exploiter drop"
    ),
    "ExploiterSettings": "share win_rate max_steps",
    "PrioritySettings": "weights power decay floor prior",
    "BehavioralCloningSettings": "demo_path steps strength samples_per_update num_epoch batch_size",
    "StopSettings": "metric at_least at_most episodes summaries no_progress",
    "KeepBestSettings": "metric every episodes deterministic seed",
    "SamplerSettings": "sampler_type sampler_parameters",
    "ConstantSettings": "value seed",
    "UniformSettings": "min_value max_value seed",
    "GaussianSettings": "mean st_dev seed",
    "MultiRangeUniformSettings": "intervals seed",
    "CurriculumSettings": "curriculum",
    "LessonSettings": "name value completion_criteria",
    "CompletionCriteriaSettings": "behavior measure min_lesson_length signal_smoothing threshold below require_reset",
    "EnvSettings": (
        "env_path env_args base_port editor_port bind num_envs env_runners ray_address runner_cpus ray_working_dir "
        "num_areas first_lesson stagger_episodes timeout_wait max_message_mb seed max_lifetime_restarts "
        "restarts_rate_limit_n restarts_rate_limit_period_s env_options side_channels"
    ),
    "EngineSettings": (
        "width height quality_level time_scale target_frame_rate capture_frame_rate no_graphics no_graphics_monitor"
    ),
    "CheckpointSettings": "run_id initialize_from load_model train_model resume force inference results_dir",
    "MirrorSettings": "observations actions",
    "MirrorActions": "continuous discrete",
    "MirrorRule": "order swap negate size frames flip",
    "TorchSettings": "device threads processes gpus rank_timeout",
}
"""Every key of ML-Agents, and ours."""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


def groups(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"RunSettings": {key: schema[key] for key in ("properties", "additionalProperties")}, **schema["$defs"]}


def test_every_key_is_in_the_schema_and_no_other(schema):
    given = {name: set(group["properties"]) for name, group in groups(schema).items()}
    assert given == {name: set(keys.split()) for name, keys in KEYS.items()}


def test_every_group_is_closed_and_every_key_explained(schema):
    for name, group in groups(schema).items():
        assert group["additionalProperties"] is False, name
        for key, facts in group["properties"].items():
            described = facts if "description" in facts else schema["$defs"][facts["$ref"].rpartition("/")[2]]
            assert described["description"].endswith("."), f"{name}.{key}"


def test_hyperparameters_go_by_the_trainer(schema):
    rules = schema["$defs"]["BehaviorSettings"]["allOf"]
    chosen = {
        rule["if"]["properties"]["trainer_type"]["const"]: rule["then"]["properties"]["hyperparameters"]["$ref"]
        for rule in rules
    }
    assert chosen == {name: f"#/$defs/{name.upper()}Settings" for name in ("ppo", "sac", "poca", "bc")}


def test_reward_signals_go_by_their_names(schema):
    signals = schema["$defs"]["BehaviorSettings"]["properties"]["reward_signals"]
    assert set(signals["properties"]) == {"extrinsic", "curiosity", "gail", "rnd", "amp"}
    assert signals["additionalProperties"] is False


def test_the_schema_is_json_whose_references_resolve(schema):
    text = json.dumps(schema)
    references = {part.partition('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert references <= set(schema["$defs"])


@pytest.mark.parametrize(
    "block",
    [
        {"mirror": "Crawler"},
        {"mirror": {"observations": {"a": "same", "b": [1, "-0"], "c": {"swap": [[0, "1-2"]]}}}},
        {"mirror": {"observations": {"a": "same"}, "actions": {"continuous": ["-0"], "discrete": {"0": [1, 0]}}}},
        {"reward_signals": {"amp": {"clips": "a.demo", "observations": "Body[0:3]"}}},
        {"self_play": {"opponents": "prioritized", "exploiter": {}}},
        {"self_play": {"opponents": ["uniform", "random"], "exploiter": None}},
        {"trainer_type": "sac", "network_settings": {"critic_only": ["truth"], "body": "residual"}},
        {"trainer_type": "sac", "hyperparameters": {"prior_data": {"demo_path": ["a.demo"]}, "critic_bins": None}},
    ],
)
def test_what_a_behavior_takes_fits_the_schema(schema, block):
    load({"behaviors": {"A": block}})
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors({"behaviors": {"A": block}})] == []
