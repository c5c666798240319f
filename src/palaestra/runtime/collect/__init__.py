"""Steps environments, fills rollouts and hands them to trainers."""
