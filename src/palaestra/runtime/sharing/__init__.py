"""Runs on the Hugging Face Hub: `push` uploads a run with a model card, `pull` downloads a run into the results
folder."""
