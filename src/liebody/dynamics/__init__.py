"""Rigid-body algorithms on flat q, v, without batch axes, over any scalar: written once, traced into everything else."""
