"""The trainers of the first years that only imitate."""

from __future__ import annotations

from palaestra.runtime.upgrade.block import Block
from palaestra.trainers.settings import BCSettings

CLONING = ("imitation", "online_bc", "offline_bc")


def convert_cloning(block: Block, old: str, place: str) -> str:
    """Writes whom, or which files, to learn from; gives the trainer of today."""
    block.put(("trainer_type",), "bc", place, f"was {old}")
    block.report.became(f"trainer: {old}", "trainer_type: bc")
    if old == "offline_bc":
        block.ask_for(block.section.peek("demo_path"), block.section.place("demo_path"))
        block.move("demo_path", BCSettings, "hyperparameters")
    else:
        _teacher(block)
    return "bc"


def _teacher(block: Block) -> None:
    """The brain to imitate was played by a person, or by the game's own rule, which is as near as can be told from here."""
    place, name = block.section.place("brain_to_imitate"), block.section.take("brain_to_imitate")
    named = isinstance(name, str) and "<" not in name
    whose = f"'{name}'" if named else "the student's agents"
    remark = f"plays {whose}; a person, a model or your code instead: FILE.onnx, model:RUN, module:Class"
    block.put(("hyperparameters", "teacher"), "heuristic", place, remark)
    if named:
        block.put(("hyperparameters", "teacher_behavior"), name, place)
        block.report.became("brain_to_imitate", "hyperparameters.teacher_behavior")
        block.report.warn(place, f"fill in: who plays '{name}'; the environment's own rule is put down (teacher: heuristic)")
    else:
        block.report.warn(place, "no behavior to learn from is named: the environment's own rule plays the student's agents")
