"""Small networks that imitate the models of a run (`palaestra distill`)."""
