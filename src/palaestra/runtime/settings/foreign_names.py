"""Names that other libraries use for Palaestra's settings.

One table serves flags, keywords of Python and keys of a file. The names are those of Stable-Baselines3 and its RL Zoo,
CleanRL, RLlib, PufferLib, skrl, rsl_rl, Tianshou and Spinning Up. Answers are worded for the command line, like all
messages: `voice` rewords them for Python.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from palaestra.core.wording.most_changed import MOST_CHANGED
from palaestra.core.wording.other_trainers import name_table, nearest_trainer

UNEQUAL = ("--debug", "--force", "--resume", "--env-args", "--torch-device", "--track", "--set")
"""Flags that have the name of a flag elsewhere, but a value with another meaning."""
EQUAL = ("--num-areas", "--results-dir")
"""Flags whose value has the same meaning elsewhere, with a remark."""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Palaestra's counterpart of another library's name: a flag, a setting of a behavior, or a sentence."""

    flag: str = ""  # of a command, such as --learning-rate
    path: str = ""  # of a setting in a behavior's block, such as hyperparameters.learning_rate
    example: str = ""  # a value of that setting
    remark: str = ""  # what differs, or all there is to say where neither flag nor path is

    def means_the_same(self, value: str) -> bool:
        """Whether a value for the other library's name also fits Palaestra's setting."""
        if self.remark or self.flag in UNEQUAL:
            return self.flag in EQUAL
        return not self.path or self.flag == "--trainer" or _is_number(value)

    def typed(self, value: str | None = None) -> str:
        """Returns the text to type on the command line."""
        same = value is not None and self.means_the_same(value)
        if self.flag:
            return f"{self.flag}={shlex.quote(value or '')}" if same else self.flag
        return f"--set {shlex.quote(f'{self.path}={value if same else self.example}')}"


SETTINGS = name_table("""
trainer_type=sac: algo algorithm alg agent algo_name rl_alg trainer_name method
max_steps=1e6: total_timesteps timesteps n_timesteps num_timesteps total_steps total_env_steps num_env_steps
    max_timesteps total_frames max_frames num_frames frames stop_timesteps training_steps train_steps max_step
    max_env_steps steps max_iterations num_iterations iterations total_env_frames
summary_freq=1e4: log_interval log_freq log_every log_frequency print_freq summary_interval
hyperparameters.learning_rate=3e-4: lr pi_lr policy_lr actor_lr lr_actor step_size init_lr learning_rate_init alpha
hyperparameters.batch_size=64: minibatch_size mini_batch_size sgd_minibatch_size batchsize
hyperparameters.batch_size=64: num_minibatches n_minibatches nminibatches num_mini_batches mini_batches
    | which is the size of a part, not the number of parts
hyperparameters.buffer_size=2048: replay_size replay_buffer_size memory_size replay_capacity buffer_capacity
hyperparameters.buffer_size=2048: n_steps num_steps nsteps rollout_steps rollout_length train_batch_size steps_per_epoch
    step_per_collect num_steps_per_env rollouts rollout_size horizon n_rollout_steps num_transitions_per_env
    | which counts the decisions of all areas together: the steps of one, times --num-areas
hyperparameters.num_epoch=3: n_epochs num_epochs epochs update_epochs ppo_epoch ppo_epochs num_sgd_iter k_epochs
    repeat_per_collect num_learning_epochs learning_epochs epoch noptepochs train_iters optimize_epochs
hyperparameters.epsilon=0.2: clip_range clip_coef clip_param clip clip_ratio ratio_clip eps_clip cliprange clip_eps
hyperparameters.beta=0.01: ent_coef entropy_coef entropy_coeff ent_coeff entropy_loss_scale entropy_cost entropy_weight
    ent_weight entropy_coefficient
hyperparameters.lambd=0.95: gae_lambda lambda lam lambda_ gae_lam gae_tau td_lambda
hyperparameters.value_coef=0.5: vf_coef value_loss_coef vf_loss_coeff value_loss_scale critic_coef value_coeff
    critic_loss_coef
hyperparameters.max_grad_norm=0.5: grad_clip clip_grad_norm grad_norm_clip max_gradient_norm grad_clip_norm
hyperparameters.clip_value=true: clip_vloss clip_range_vf vf_clip_param clip_value_loss
hyperparameters.learning_rate_schedule=linear: anneal_lr lr_schedule lr_decay use_linear_lr_decay schedule
hyperparameters.shared_critic=true: share_features_extractor vf_share_layers shared_network
hyperparameters.initial_deviation=1.0: init_noise_std action_std_init
hyperparameters.tau=0.005: polyak target_smoothing soft_update_tau target_tau
hyperparameters.buffer_init_steps=5000: learning_starts start_timesteps start_steps random_timesteps warmup_steps
    update_after random_steps
hyperparameters.steps_per_update=1: gradient_steps utd_ratio utd updates_per_step
    | which is the inverse: decisions for each gradient step
hyperparameters.steps_per_update=1: train_freq update_every
hyperparameters.policy_delay=2: policy_frequency policy_freq actor_update_interval actor_update_freq
hyperparameters.critic_bins=101: num_atoms n_atoms num_bins
hyperparameters.init_entcoef=0.2: init_alpha initial_alpha initial_entropy_value init_temperature
reward_signals.extrinsic.gamma=0.99: gamma discount discount_factor
reward_signals.extrinsic.strength=1.0: reward_scale reward_scaling
reward_signals.extrinsic.normalize=true: normalize_reward norm_reward normalize_rewards
network_settings.hidden_units=128: hidden_size hidden_dim layer_size num_units num_hidden_units hidden_layer_size units
network_settings.hidden_units=128: net_arch hidden_sizes hidden_dims fcnet_hiddens policy_kwargs hidden_layers mlp_units
    layers arch | and --num-layers the number of layers
network_settings.num_layers=2: n_layers num_hidden_layers n_hidden_layers depth
network_settings.normalize=true: normalize normalize_obs norm_obs normalize_observations obs_norm normalize_input
    vec_normalize
network_settings.memory={memory_size: 128}: use_lstm lstm use_rnn rnn recurrent use_recurrent lstm_hidden_size
    rnn_hidden_size
network_settings.vis_encode_type=nature_cnn: features_extractor features_extractor_class encoder
time_horizon=64: rollout_fragment_length bptt_horizon horizon_length unroll_length
checkpoint_interval=1e5: save_interval checkpoint_freq checkpoint_frequency save_every save_frequency checkpoint_every
keep_best.every=5e4: eval_freq eval_interval eval_every save_best evaluation_interval
stop_when.at_least=475: stop_reward reward_threshold target_reward solved_reward stop_value solved_at threshold
    max_reward
stop_when.no_progress=1e5: patience early_stopping
""")
"""For paths in a behavior's block, with an example of a value: the names in other libraries, and what differs."""

FLAGS = name_table("""
--env: env_id env_name task gym_id environment environment_name gym_env
--num-areas: n_envs num_environments nenvs n_env training_num num_parallel_envs parallel_envs num_actors
    num_envs_per_env_runner num_envs_per_worker envs_per_worker | and --num-envs the processes that share them
--num-envs: num_workers n_workers num_env_runners workers n_procs vec_env
--torch-device: device cuda use_cuda gpu use_gpu gpu_id accelerator | which is cpu, cuda or cuda:0
--torch-threads: num_threads n_threads threads num_cpu num_cpus
--gpus: num_gpus n_gpus num_learners
--run-id: exp_name experiment_name experiment run_name tb_log_name exp name exp_id
--results-dir: save_path save_dir log_dir logdir log_folder output_dir out_dir local_dir storage_path tensorboard_log
    tb_log tensorboard_dir experiment_dir log_path model_dir checkpoint_dir tensorboard
    | which has a folder for each run, with its models, checkpoints and TensorBoard files
--initialize-from: load_path load_model trained_agent pretrained pretrained_model resume_path load_model_path load_run
    load_checkpoint checkpoint_path restore warm_start model_path checkpoint load_from | and --resume continues a run
--resume: continue continue_training resume_training auto_resume resume_from
--track: wandb use_wandb wandb_project_name wandb_project wandb_entity wandb_group wandb_mode wandb_name
    | such as --track=wandb:project=walkers,mode=offline
--seeds: num_seeds n_seeds repeats n_runs
--debug: verbose verbosity log_level
--force: overwrite delete_existing
--set: hyperparams hyperparameter overrides params | such as --set max_steps=1e6
--episodes: n_eval_episodes num_episodes n_episodes eval_episodes num_eval_episodes
--trials: n_trials num_trials
--jobs: n_jobs num_jobs
--seconds: video_length duration
--out: output output_file output_path save_as
""")
"""For flags of commands: the names in other libraries, and what differs."""

SENTENCES = name_table("""
a run draws nothing itself: `palaestra view` shows it in the browser while it learns, and `palaestra record RUN` makes a
    GIF or a video of it: render render_mode human no_render headless visualize render_training watch capture_video
    video record_video save_video record_frequency video_freq save_gif
options of the environment are --set env_settings.env_options.NAME=VALUE: env_kwargs env_config env_options make_kwargs
a trained run is played with `palaestra evaluate RUN`, `palaestra record RUN` or `palaestra view RUN`: play test enjoy
    eval evaluate eval_only test_only evaluation render_only
the network is chosen to fit the observations: policy policy_type policy_class model_type
`palaestra tune` searches settings: optimize optimize_hyperparameters sweep
PyTorch is the only framework: framework torch_deterministic backend
the settings file is given without a flag: `palaestra learn FILE`: config config_file config_path conf_file conf cfg
    config_name yaml yaml_file trainer_config_path
there is no such setting: actions are drawn from the policy's own distribution: exploration_fraction
    exploration_final_eps start_e end_e eps_start eps_end action_noise use_sde
there is no target for the KL divergence: target_kl desired_kl kl_coeff kl_target kl_threshold
advantages are always normalized: norm_adv normalize_advantage normalize_advantages
a progress bar is always shown on a terminal: progress_bar progress
the learning rate is the optimizer's only setting: optimizer adam_eps optim weight_decay optimizer_class
""")
"""A sentence, and the names that it is the answer to."""


IN_PYTHON = (
    ("quiet=True", "verbose verbosity progress_bar progress silent log_level disable_progress"),
    ("callbacks=[...]", "callback hooks on_step on_summary"),
    ("env=...", "vec_env train_env training_env"),
    ("trainer=... (hidden_units, num_layers and settings make its network)", "policy policy_type model policy_class"),
    ('settings={"env_settings.env_options.render_mode": "human"}', "render render_mode human"),
)
"""Arguments of Palaestra's functions, each with the names in other libraries that it replaces."""
_IN_PYTHON = {name: ours for ours, names in IN_PYTHON for name in names.split()}


def plain(name: str) -> str:
    """Returns a name in the form of the tables: --train.Learning-Rate is learning_rate."""
    return re.sub(r"[^a-z0-9_]", "", name.strip("-").rpartition(".")[2].lower().replace("-", "_"))


@cache
def _table() -> dict[str, Counterpart]:
    flags = {path: f"--{key.replace('_', '-')}" for key, (path, _) in MOST_CHANGED.items()}
    found: dict[str, Counterpart] = {}
    for setting, names, remark in SETTINGS:
        path, _, example = setting.partition("=")
        found |= dict.fromkeys(names.split(), Counterpart(flags.get(path, ""), path, example, remark))
    for flag, names, remark in FLAGS:
        found |= dict.fromkeys(names.split(), Counterpart(flag, remark=remark))
    for sentence, names, _ in SENTENCES:
        found |= dict.fromkeys(names.split(), Counterpart(remark=sentence))
    return found


def counterpart(name: str) -> Counterpart | None:
    """Returns Palaestra's counterpart of another library's flag, keyword or key; None for an unknown name."""
    return _table().get(plain(name))


def answer(name: str, *, in_python: bool = False, value: str | None = None) -> str | None:
    """Returns Palaestra's counterpart of another library's flag or argument, worded for the command line; None if the
    name is unknown, or is Palaestra's own. `value`: the given value."""
    if in_python and (own := _IN_PYTHON.get(plain(name))) is not None:
        return own
    ours = counterpart(name)
    if ours is None:
        return None
    if not (ours.flag or ours.path):
        return ours.remark
    return ours.typed(value) + (f", {ours.remark}" if ours.remark else "")


def answer_flag(name: str, value: str | None = None, known: Collection[str] = ()) -> str:
    """Returns a sentence that names Palaestra's counterpart of another library's flag; '' for an unknown flag.

    `value`: the typed value. `known`: flags of the command; '' if the counterpart is not among them.
    """
    ours = counterpart(name) or _own_in_a_section(name)
    if ours is None:
        return ""
    if not (ours.flag or ours.path):
        return f"{name}: {ours.remark}"
    if known and (ours.flag or "--set") not in known:
        return ""
    if ours.flag == "--trainer" and value and (other := nearest_trainer(value)):
        return f"{name} is --trainer here, and there is no trainer '{value}': {other}"
    given = f"{name}={value}" if value is not None and ours.means_the_same(value) else name
    return f"{given} is {ours.typed(value)} here" + (f", {ours.remark}" if ours.remark else "")


def _own_in_a_section(name: str) -> Counterpart | None:
    """Returns our counterpart of a flag such as --train.learning-rate, in the style of PufferLib and RLlib."""
    own = MOST_CHANGED.get(plain(name)) if "." in name else None
    return None if own is None else Counterpart(f"--{plain(name).replace('_', '-')}", own[0])


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
