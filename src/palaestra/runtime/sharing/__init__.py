"""Runs on the Hugging Face Hub: `push` uploads one with a model card, `pull` downloads one into the results folder."""
