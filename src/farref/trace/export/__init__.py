"""Traces in other forms: an HTML page, a trace viewer's file, a test."""
