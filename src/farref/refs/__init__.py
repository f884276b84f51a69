"""The references of a running system, shown: which rows, as a table, and while they change."""
