"""Pickling with references: by itself, and between real endpoints."""
