"""Plays a game through the low-level API with random actions and writes down all it reports: a line of JSON a tick.

    python drive_unity_api.py PACKAGE GAME TICKS FILE [--port N] [--seed N]

PACKAGE is `palaestra.unity` or `mlagents_envs`, whichever is installed for the interpreter that runs this: neither may
be imported here.
"""

import argparse
import hashlib
import importlib
import json

import numpy as np


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("package")
    parser.add_argument("game")
    parser.add_argument("ticks", type=int)
    parser.add_argument("file")
    parser.add_argument("--port", type=int, default=5005)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--obey", action="store_true", help="everybody acts, and nobody does what its mask forbids")
    parser.add_argument("--resets", type=int, default=0, help="a reset every so many ticks")
    return parser.parse_args()


def main():
    args = parse()
    environment = importlib.import_module(args.package + ".environment")
    base_env = importlib.import_module(args.package + ".base_env")
    random = np.random.RandomState(args.seed)
    env = environment.UnityEnvironment(args.game, base_port=args.port, seed=args.seed, timeout_wait=60)
    try:
        with open(args.file, "w") as out:
            env.reset()
            for tick in range(args.ticks):
                out.write(json.dumps({"tick": tick, **report(env)}, sort_keys=True) + "\n")
                (obey if args.obey else act)(env, base_env, random)
                if args.resets and tick % args.resets == args.resets - 1:
                    env.reset()
                else:
                    env.step()
    finally:
        env.close()


def act(env, base_env, random):
    """At random: for all agents, for some of them, or for nobody."""
    for name in sorted(env.behavior_specs):
        decisions, _ = env.get_steps(name)
        spec = env.behavior_specs[name].action_spec
        way = random.rand()
        if way < 0.8:
            env.set_actions(name, draw(base_env, spec, len(decisions), random))
        if way > 0.7:
            for agent in decisions.agent_id.tolist()[::2]:
                env.set_action_for_agent(name, agent, draw(base_env, spec, 1, random))


def obey(env, base_env, random):
    for name in sorted(env.behavior_specs):
        decisions, _ = env.get_steps(name)
        spec = env.behavior_specs[name].action_spec
        action = draw(base_env, spec, len(decisions), random)
        for branch, forbidden in enumerate(decisions.action_mask or ()):
            order = random.rand(*forbidden.shape)
            action.discrete[:, branch] = np.argmax(np.where(forbidden, -1.0, order), axis=1)
        env.set_actions(name, action)


def draw(base_env, spec, agents, random):
    action = base_env.ActionTuple()
    action.add_continuous(random.uniform(-1, 1, (agents, spec.continuous_size)).astype(np.float32))
    if spec.discrete_size:
        columns = [random.randint(0, size, agents) for size in spec.discrete_branches]
        action.add_discrete(np.stack(columns, axis=1).astype(np.int32))
    return action


def report(env):
    return {name: behavior(env, name) for name in env.behavior_specs}


def behavior(env, name):
    spec = env.behavior_specs[name]
    decisions, terminals = env.get_steps(name)
    once = first_rows(terminals.agent_id)
    return {
        "order": list(env.behavior_specs).index(name),
        "spec": [
            [list(o.shape), list(map(int, o.dimension_property)), o.observation_type.value, o.name]
            for o in spec.observation_specs
        ],
        "action": str(spec.action_spec),
        "decisions": {
            **steps(decisions, range(len(decisions))),
            "masks": masks(decisions),
            "by_id": [one(decisions, int(id)) for id in decisions],
        },
        "ends": {**steps(terminals, once), "interrupted": [bool(terminals.interrupted[row]) for row in once]},
        "interrupted_type": str(terminals.interrupted.dtype),
    }


def first_rows(ids):
    """An agent that ended twice in one message counts once: the original keeps both rows under one id."""
    seen = {}
    for row, agent in enumerate(ids.tolist()):
        seen.setdefault(agent, row)
    return list(seen.values())


def steps(some, rows):
    rows = list(rows)
    types = [
        type(some.group_id).__name__ if len(some) else "",
        str(some.reward.dtype),
        str(some.agent_id.dtype),
        str(some.group_reward.dtype),
    ]
    return {
        "agents": [int(some.agent_id[row]) for row in rows],
        "reward": [number(some.reward[row]) for row in rows],
        "group": [int(some.group_id[row]) for row in rows],
        "group_reward": [number(some.group_reward[row]) for row in rows],
        "obs": [
            [list(column[rows].shape), str(column.dtype), hashlib.sha1(column[rows].tobytes()).hexdigest()]
            for column in some.obs
        ],
        "types": types,
    }


def one(some, agent):
    step = some[agent]
    mask = None if step.action_mask is None else [branch.tolist() for branch in step.action_mask]
    return [
        step.agent_id,
        step.group_id,
        number(step.reward),
        [column.astype(float).tolist() for column in step.obs],
        mask,
    ]


def number(reward):
    """Protobuf of old loses the sign of -0.0."""
    return float(reward) + 0.0


def masks(decisions):
    if decisions.action_mask is None:
        return None
    return [[str(branch.dtype), branch.astype(int).tolist()] for branch in decisions.action_mask]


if __name__ == "__main__":
    main()
