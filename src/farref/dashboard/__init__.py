"""A running system in a browser: `farref dashboard`."""
