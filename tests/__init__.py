"""The tests, a package so that they can share helpers by relative imports."""
