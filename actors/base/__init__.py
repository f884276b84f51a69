"""The Thespian system base: the transport beneath the actors."""
