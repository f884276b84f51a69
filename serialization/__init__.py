"""Reference-aware cloudpickle: what a message carries, and the references in it."""
