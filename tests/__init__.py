"""Tests: claims about sunk-sync, each named by what it shows."""
