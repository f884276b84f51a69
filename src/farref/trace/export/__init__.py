"""Traces in other forms: for a page, for a viewer, for a document, and as a test."""
