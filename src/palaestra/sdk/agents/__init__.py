"""What a game's author writes, and what is kept of it: agents, sensors, actions, groups."""
