"""Shows the references of a running system: chooses rows, makes the table, watches it change."""
