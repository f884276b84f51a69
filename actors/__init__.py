"""The Thespian side: the endpoints that speak the protocol, and the system around them."""
