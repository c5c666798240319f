"""Play: brains assigned to agents, teachers, evaluation, and recorded demonstrations."""
