"""Compares the actions of a recording with what a model says to its observations (`palaestra demo --model`).

`played_decisions` holds what was recorded, `model_odds` asks the model, `play_causes` lists what may differ between a
game and its training, `play_check` tries each.
"""
