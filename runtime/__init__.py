"""What every long-running process shares: partition ownership, transactions, health, a clean stop.

Knows nothing of routing or of inference: `streams` and `executors` bring those.
"""
