"""What memory must hold: how engines lay a cache out, how much they take, what would fit."""
