"""Values of every kind, sent in every way."""
