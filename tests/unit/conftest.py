"""Its place makes `tiny_envs` importable from every test below."""
