"""Programs and demos; each runs alone and under `farref demo`."""
