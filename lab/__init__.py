"""Measuring and simulating what production runs: benchmarks, baselines, made-up traffic."""
