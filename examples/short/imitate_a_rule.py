"""Records demonstrations of a rule, and trains a policy that imitates them, without any reward.

python imitate_a_rule.py
"""

import subprocess
import sys

import palaestra

RULE = "heuristic"  # the environment's own; a function, a model or a person in the browser record as well

if __name__ == "__main__":
    record = [sys.executable, "-m", "palaestra", "record", "--demo", "--env=3DBall", f"--brain={RULE}"]
    subprocess.run([*record, "--episodes=20", "--demo-out=rule.demo", "--force"], check=True)
    demo = palaestra.read_demo("rule.demo")
    print(f"{sum(1 for _ in demo)} records of {demo.behavior}")
    result = palaestra.train(
        env="3DBall",
        trainer="bc",
        settings={"hyperparameters.demo_path": "rule.demo"},
        max_steps=60_000,
        run_id="imitation",
        force=True,
    )
    rule = palaestra.run("3DBall", RULE, episodes=50, quiet=True)
    student = palaestra.evaluate(result, episodes=50, deterministic=True, quiet=True)
    print(f"the rule earns {rule.mean:.1f}, the policy that imitates it {student.mean:.1f}")
    palaestra.record(result, "imitate_a_rule.gif", areas=1, force=True)
