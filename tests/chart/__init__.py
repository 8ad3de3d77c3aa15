"""Tests of the Helm chart."""
