"""WallJump."""
