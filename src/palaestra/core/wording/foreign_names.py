"""Settings that have a flag of their own, and what other libraries call them, and the others.

One table answers flags, keywords of Python and keys of a file. The names are those of Stable-Baselines3 and its RL Zoo,
CleanRL, RLlib, PufferLib, skrl, rsl_rl, Tianshou and Spinning Up.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from palaestra.core.wording.other_trainers import nearest_trainer

MOST_CHANGED = {
    "trainer": ("trainer_type", "the algorithm: ppo, sac, poca, bc, or your own as package.module:Class"),
    "max_steps": ("max_steps", "decisions until training ends, such as 1e6"),
    "stop_at": ("stop_when.at_least", "mean reward of 100 episodes at which training ends"),
    "stop_without_progress": (
        "stop_when.no_progress",
        "decisions without a better reward after which it ends (exit status 3)",
    ),
    "learning_rate": ("hyperparameters.learning_rate", "step size of the optimizer, such as 3e-4"),
    "batch_size": ("hyperparameters.batch_size", "decisions in one gradient step"),
    "buffer_size": ("hyperparameters.buffer_size", "decisions before each update (ppo, poca), or in the replay (sac)"),
    "hidden_units": ("network_settings.hidden_units", "units of each layer"),
    "num_layers": ("network_settings.num_layers", "layers of the network"),
    "summary_freq": ("summary_freq", "decisions between summaries"),
}
"""Settings of every behavior that have a flag (--max-steps): path in a behavior's block, and help."""

UNEQUAL = ("--view", "--debug", "--force", "--resume", "--env-args", "--torch-device", "--track", "--set")
"""Flags whose value is another one than that of the flag elsewhere."""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Ours for names of other libraries: a flag, a setting of a behavior, or a sentence."""

    flag: str
    """Flag of a command, such as --learning-rate; '' where `path` has none."""
    path: str
    """Path in a behavior's block, such as hyperparameters.learning_rate; '' for what is no setting of a behavior."""
    remark: str = ""
    """What differs, or all there is to say where neither flag nor path is."""
    same_value: bool = True
    """Whether a value that was typed for a name means the same here."""

    def typed(self, value: str | None = None) -> str:
        """Returns what to type on the command line."""
        if self.flag:
            return self.flag if value is None else f"{self.flag}={shlex.quote(value)}"
        return f"--set 'behaviors.*.{self.path}={'VALUE' if value is None else value}'"


SETTINGS = (
    ("trainer_type", "algo algorithm alg agent algo_name rl_alg trainer_name", ""),
    (
        "max_steps",
        "total_timesteps timesteps n_timesteps num_timesteps total_steps total_env_steps num_env_steps max_timesteps "
        "total_frames max_frames num_frames frames stop_timesteps training_steps train_steps max_step max_env_steps",
        "",
    ),
    ("summary_freq", "log_interval log_freq log_every log_frequency print_freq summary_interval", ""),
    ("hyperparameters.learning_rate", "lr pi_lr policy_lr actor_lr lr_actor step_size init_lr", ""),
    ("hyperparameters.batch_size", "minibatch_size mini_batch_size sgd_minibatch_size batchsize", ""),
    (
        "hyperparameters.batch_size",
        "num_minibatches n_minibatches nminibatches num_mini_batches mini_batches",
        "which is the size of a part, not the number of parts",
    ),
    ("hyperparameters.buffer_size", "replay_size replay_buffer_size memory_size replay_capacity buffer_capacity", ""),
    (
        "hyperparameters.buffer_size",
        "n_steps num_steps nsteps rollout_steps rollout_length train_batch_size steps_per_epoch step_per_collect "
        "num_steps_per_env rollouts rollout_size horizon",
        "which counts the decisions of all areas together: the steps of one, times --num-areas",
    ),
    (
        "hyperparameters.num_epoch",
        "n_epochs num_epochs epochs update_epochs ppo_epoch ppo_epochs num_sgd_iter k_epochs repeat_per_collect "
        "num_learning_epochs learning_epochs epoch noptepochs train_iters",
        "",
    ),
    (
        "hyperparameters.epsilon",
        "clip_range clip_coef clip_param clip clip_ratio ratio_clip eps_clip cliprange clip_eps",
        "",
    ),
    (
        "hyperparameters.beta",
        "ent_coef entropy_coef entropy_coeff ent_coeff entropy_loss_scale entropy_cost entropy_weight",
        "",
    ),
    ("hyperparameters.lambd", "gae_lambda lambda lam lambda_ gae_lam gae_tau td_lambda", ""),
    (
        "hyperparameters.value_coef",
        "vf_coef value_loss_coef vf_loss_coeff value_loss_scale critic_coef value_coeff critic_loss_coef",
        "",
    ),
    ("hyperparameters.max_grad_norm", "grad_clip clip_grad_norm grad_norm_clip max_gradient_norm grad_clip_norm", ""),
    ("hyperparameters.clip_value", "clip_vloss clip_range_vf vf_clip_param clip_value_loss", "which is true or false"),
    (
        "hyperparameters.learning_rate_schedule",
        "anneal_lr lr_schedule lr_decay use_linear_lr_decay",
        "which is linear or constant",
    ),
    ("hyperparameters.shared_critic", "share_features_extractor vf_share_layers shared_network", ""),
    ("hyperparameters.initial_deviation", "init_noise_std action_std_init", ""),
    ("hyperparameters.tau", "polyak target_smoothing soft_update_tau target_tau", ""),
    (
        "hyperparameters.buffer_init_steps",
        "learning_starts start_timesteps start_steps random_timesteps warmup_steps update_after",
        "",
    ),
    (
        "hyperparameters.steps_per_update",
        "gradient_steps utd_ratio utd updates_per_step",
        "which is the inverse: decisions for each gradient step",
    ),
    ("hyperparameters.steps_per_update", "train_freq update_every policy_frequency", ""),
    ("hyperparameters.init_entcoef", "init_alpha initial_alpha initial_entropy_value init_temperature", ""),
    ("reward_signals.extrinsic.gamma", "gamma discount discount_factor", ""),
    ("reward_signals.extrinsic.strength", "reward_scale reward_scaling", ""),
    ("reward_signals.extrinsic.normalize", "normalize_reward norm_reward normalize_rewards", ""),
    ("network_settings.hidden_units", "hidden_size hidden_dim layer_size num_units", ""),
    (
        "network_settings.hidden_units",
        "net_arch hidden_sizes hidden_dims fcnet_hiddens policy_kwargs hidden_layers mlp_units",
        "and --num-layers the number of layers",
    ),
    ("network_settings.num_layers", "n_layers num_hidden_layers n_hidden_layers depth", ""),
    (
        "network_settings.normalize",
        "normalize normalize_obs norm_obs normalize_observations obs_norm normalize_input",
        "which is true or false",
    ),
    (
        "network_settings.memory",
        "use_lstm lstm use_rnn rnn recurrent use_recurrent lstm_hidden_size rnn_hidden_size",
        "which is a map, such as {memory_size: 128, sequence_length: 64}",
    ),
    ("network_settings.vis_encode_type", "features_extractor features_extractor_class encoder", "such as nature_cnn"),
    ("time_horizon", "rollout_fragment_length bptt_horizon horizon_length unroll_length", ""),
    (
        "checkpoint_interval",
        "save_interval checkpoint_freq checkpoint_frequency save_every save_frequency checkpoint_every",
        "",
    ),
    ("keep_best", "eval_freq eval_interval eval_every save_best", "which is a map, such as {every: 50000}"),
    ("stop_when.at_least", "stop_reward reward_threshold target_reward solved_reward stop_value", ""),
)
"""Path in a behavior's block, the names it has elsewhere, and what differs."""

FLAGS = (
    ("--env", "env_id env_name task gym_id environment environment_name gym_env", ""),
    (
        "--num-areas",
        "n_envs num_environments nenvs n_env training_num num_parallel_envs parallel_envs num_actors "
        "num_envs_per_env_runner num_envs_per_worker envs_per_worker",
        "and --num-envs the processes that share them",
    ),
    ("--num-envs", "num_workers n_workers num_env_runners workers n_procs vec_env", ""),
    ("--torch-device", "device cuda use_cuda gpu use_gpu gpu_id accelerator", "which is cpu, cuda or cuda:0"),
    ("--torch-threads", "num_threads n_threads threads num_cpu num_cpus", ""),
    ("--gpus", "num_gpus n_gpus num_learners", ""),
    ("--run-id", "exp_name experiment_name experiment run_name tb_log_name exp name exp_id", ""),
    (
        "--results-dir",
        "save_path save_dir log_dir logdir log_folder output_dir out_dir local_dir storage_path tensorboard_log tb_log "
        "tensorboard_dir experiment_dir log_path model_dir checkpoint_dir tensorboard",
        "which has a folder for each run, with its models, checkpoints and TensorBoard files",
    ),
    (
        "--initialize-from",
        "load_path load_model trained_agent pretrained pretrained_model resume_path load_model_path load_run "
        "load_checkpoint checkpoint_path restore warm_start model_path checkpoint load_from",
        "and --resume goes on with a run",
    ),
    ("--resume", "continue continue_training resume_training auto_resume resume_from", ""),
    (
        "--track",
        "wandb use_wandb wandb_project_name wandb_project wandb_entity wandb_group wandb_mode wandb_name",
        "such as --track=wandb:project=walkers,mode=offline",
    ),
    (
        "--view",
        "render render_mode human no_render headless visualize render_training watch",
        "which opens the page beside the run; `palaestra record RUN` makes a GIF of it later",
    ),
    ("--seeds", "num_seeds n_seeds repeats n_runs", ""),
    ("--debug", "verbose verbosity log_level", ""),
    ("--force", "overwrite delete_existing", ""),
    ("--set", "hyperparams hyperparameter overrides params", "such as --set 'behaviors.*.max_steps=1e6'"),
    ("--episodes", "n_eval_episodes num_episodes n_episodes eval_episodes num_eval_episodes", ""),
    ("--trials", "n_trials num_trials", ""),
    ("--jobs", "n_jobs num_jobs", ""),
    ("--seconds", "video_length duration", ""),
    ("--out", "output output_file output_path save_as", ""),
)
"""Flag of a command, the names it has elsewhere, and what differs."""

SENTENCES = (
    (
        "a run draws nothing itself: `palaestra record RUN` makes a GIF or a video of it",
        "capture_video video record_video save_video record_frequency video_freq save_gif",
    ),
    (
        "options of the environment are --set env_settings.env_options.NAME=VALUE",
        "env_kwargs env_config env_options make_kwargs",
    ),
    (
        "a trained run is played with `palaestra evaluate RUN`, `palaestra record RUN` or `palaestra view RUN`",
        "play test enjoy eval evaluate eval_only test_only evaluation render_only",
    ),
    ("the network fits the observations by itself", "policy policy_type policy_class model_type"),
    ("`palaestra tune` searches settings", "optimize optimize_hyperparameters sweep"),
    ("PyTorch is the only framework", "framework torch_deterministic backend"),
    (
        "the settings file is given without a flag: `palaestra learn FILE`",
        "config config_file config_path conf_file conf cfg config_name yaml yaml_file trainer_config_path",
    ),
    (
        "there is no such setting: actions are drawn from the policy's own distribution",
        "exploration_fraction exploration_final_eps start_e end_e eps_start eps_end action_noise use_sde",
    ),
    ("there is no target for the KL divergence", "target_kl desired_kl kl_coeff kl_target kl_threshold"),
    ("advantages are always normalized", "norm_adv normalize_advantage normalize_advantages"),
    ("a progress bar is always shown on a terminal", "progress_bar progress"),
    ("the learning rate is the optimizer's only setting", "optimizer adam_eps optim weight_decay optimizer_class"),
)
"""Sentence, and the names that it answers."""


def plain(name: str) -> str:
    """Returns a name as the tables have it: --train.Learning-Rate is learning_rate."""
    return re.sub(r"[^a-z0-9_]", "", name.strip("-").rpartition(".")[2].lower().replace("-", "_"))


@cache
def _table() -> dict[str, Counterpart]:
    flags = {path: f"--{key.replace('_', '-')}" for key, (path, _) in MOST_CHANGED.items()}
    found = {key: Counterpart(flags[path], path) for key, (path, _) in MOST_CHANGED.items()}
    for path, names, remark in SETTINGS:
        found |= dict.fromkeys(names.split(), Counterpart(flags.get(path, ""), path, remark, not remark))
    for flag, names, remark in FLAGS:
        found |= dict.fromkeys(names.split(), Counterpart(flag, "", remark, flag not in UNEQUAL))
    for sentence, names in SENTENCES:
        found |= dict.fromkeys(names.split(), Counterpart("", "", sentence, False))
    return found


def counterpart(name: str) -> Counterpart | None:
    """Returns ours for a flag, keyword or key of another library; None if the name is none."""
    return _table().get(plain(name))


def answer(name: str, value: str | None = None, known: Collection[str] = ()) -> str:
    """Returns what a flag of another library is here, in the command line's words; '' if it is none.

    `value`: what was typed for it. `known`: flags that the command has; '' for a counterpart that is none of them.
    """
    ours = counterpart(name)
    if ours is None:
        return ""
    if not (ours.flag or ours.path):
        return f"{name}: {ours.remark}"
    if known and (ours.flag or "--set") not in known:
        return ""
    if ours.flag == "--trainer" and value and (other := nearest_trainer(value)):
        return f"{name} is --trainer here, and there is no trainer '{value}': {other}"
    value = value if ours.same_value else None
    given = name if value is None else f"{name}={value}"
    return f"{given} is {ours.typed(value)} here" + (f", {ours.remark}" if ours.remark else "")
