"""A running system at a glance: `farref top`."""
