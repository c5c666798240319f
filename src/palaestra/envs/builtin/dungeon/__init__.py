"""DungeonEscape."""
