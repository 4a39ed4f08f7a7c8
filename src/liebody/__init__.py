"""Explicit, singularity-free equations of motion, compiled."""
