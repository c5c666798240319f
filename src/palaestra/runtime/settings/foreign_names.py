"""Names that other libraries have for what is set here: those of Stable-Baselines3, CleanRL, RLlib, rsl_rl and RL Zoo.

Answers are in the command line's words, as all messages: `voice` turns them into Python's.
"""

from __future__ import annotations

from collections.abc import Iterator

_SET = "--set 'behaviors.*.{}'"
_PPO = "hyperparameters."
_STEPS = "--max-steps (decisions of all areas together)"
_ROLLOUT = "--buffer-size (decisions of all areas together before an update: theirs times the number of areas)"
_COPIES = "--num-areas (copies within a process) or --num-envs (processes)"
_NETWORK = "--hidden-units and --num-layers"
_TRAINER = _SET.format("trainer_type=sac")
_GAMMA = _SET.format("reward_signals.extrinsic.gamma=0.99")

_ANSWERS = {
    "--learning-rate": "lr alpha learning-rate-init step-size actor-lr policy-lr",
    _STEPS: "total-timesteps timesteps n-timesteps total-steps train-steps stop-timesteps num-timesteps steps "
    "max-iterations num-iterations iterations max-timesteps total-frames frames",
    _COPIES: "n-envs num-workers num-env-runners n-environments vec-envs num-environments nenvs",
    _TRAINER: "algo algorithm alg agent trainer trainer-type method",
    _ROLLOUT: "n-steps num-steps rollout-length n-rollout-steps horizon rollout-fragment-length train-batch-size "
    "num-transitions-per-env nsteps",
    "--batch-size": "minibatch-size mini-batch-size sgd-minibatch-size num-minibatches n-minibatches num-mini-batches",
    "--buffer-size": "replay-size replay-buffer-size memory-size",
    "--summary-freq": "log-interval log-freq log-every",
    _SET.format(_PPO + "num_epoch=3"): "epochs n-epochs num-epochs update-epochs noptepochs num-sgd-iter "
    "num-learning-epochs k-epochs",
    _GAMMA: "gamma discount discount-factor",
    _SET.format(_PPO + "lambd=0.95"): "gae-lambda lam lambda lambda-",
    _SET.format(_PPO + "beta=0.01"): "ent-coef entropy-coef entropy-coeff ent-weight entropy-coefficient",
    _SET.format(_PPO + "epsilon=0.2"): "clip-range clip-coef clip-param clip-ratio cliprange",
    _SET.format(_PPO + "value_coef=0.5"): "vf-coef value-loss-coef vf-loss-coeff",
    _SET.format(_PPO + "max_grad_norm=0.5"): "max-grad-norm grad-clip clip-grad-norm",
    _SET.format(_PPO + "learning_rate_schedule=linear"): "anneal-lr lr-schedule schedule",
    _SET.format(_PPO + "tau=0.005"): "tau polyak",
    _SET.format(_PPO + "steps_per_update=1"): "train-freq gradient-steps utd-ratio update-every",
    _SET.format(_PPO + "buffer_init_steps=5000"): "learning-starts start-steps random-steps warmup-steps",
    _SET.format("network_settings.normalize=true"): "normalize norm-obs vec-normalize normalize-obs",
    _SET.format("keep_best={every: 20000}"): "eval-freq eval-every evaluation-interval save-best eval-interval",
    _SET.format("checkpoint_interval=100000"): "save-interval save-every checkpoint-freq checkpoint-frequency",
    "--set env_settings.env_options.render_mode=human": "render render-mode",
    _NETWORK: "net-arch policy-kwargs hidden-size hidden-sizes hidden-dim hidden-dims fcnet-hiddens layers arch",
    "--hidden-units": "num-hidden-units hidden-layer-size units",
    "--env": "env-id env-name environment gym-id task",
    "--run-id": "exp-name run-name experiment experiment-name name wandb-run-name",
    "--results-dir": "log-dir logdir log-folder tensorboard-log output output-dir save-path save-dir folder out-dir",
    "--resume (the same run goes on) or --initialize-from (a new run begins with its networks)": "load load-path "
    "checkpoint load-checkpoint restore load-run pretrained trained-agent reset-num-timesteps",
    "--torch-device": "gpu cuda use-cuda no-cuda accelerator",
    "--track=wandb": "wandb log-wandb use-wandb wandb-project-name wandb-project",
    "--stop-at": "reward-threshold stop-reward target-reward solved-at threshold max-reward",
    "--stop-without-progress": "patience early-stopping",
    "--seed": "random-seed seed-value rng-seed",
}
"""Our flag or setting, and the names that others have for it, as flags without their hyphens."""
_IN_PYTHON = {
    "quiet=True": "verbose progress-bar silent log-level disable-progress",
    "callbacks=[...]": "callback hooks on-step on-summary",
    "env=...": "vec-env train-env training-env",
    "trainer=... (its network is made by hidden_units, num_layers and settings)": "policy policy-type model",
}
"""Arguments of other libraries that are none of the command line."""


def _by_name() -> Iterator[tuple[str, str]]:
    for ours, theirs in {**_ANSWERS, **_IN_PYTHON}.items():
        yield from ((name.replace("-", "_"), ours) for name in theirs.split())


FOREIGN_NAMES = dict(_by_name())
"""Our flag or setting by the name that another library has for it, in snake case, such as `n_envs`."""
PYTHON_ONLY = frozenset(name.replace("-", "_") for theirs in _IN_PYTHON.values() for name in theirs.split())
"""The names that only a program can mean."""


def answer(name: str, *, in_python: bool = False) -> str | None:
    """Returns what is ours for a flag or an argument of another library, in the command line's words; None if the name
    is not known, or if it is ours.
    """
    key = name.lstrip("-").replace("-", "_").lower()
    return None if key in PYTHON_ONLY and not in_python else FOREIGN_NAMES.get(key)
