"""3DBall, 3DBallHard and Visual3DBall."""
