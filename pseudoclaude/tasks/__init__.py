"""Runs: who launches, wakes and stops them, and the commands that need no model."""
