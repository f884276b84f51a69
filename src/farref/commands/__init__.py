"""The subcommands of `farref`, one module each."""
