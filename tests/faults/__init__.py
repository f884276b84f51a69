"""Real processes under faults: lost, late, repeated and overtaken packets, cut links, kills."""
