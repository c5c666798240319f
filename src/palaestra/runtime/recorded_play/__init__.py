"""Compares the actions of a recording with a model's actions for the same observations (`palaestra demo --model`).

`played_decisions` holds the recording, `model_odds` runs the model, `play_causes` lists possible differences between a
game and its training, `play_check` tries each of them.
"""
