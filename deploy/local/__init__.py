"""Overspill on one machine: the embedded Kafka broker, the stack around it, the tiny model.

Knows nothing of how the command line shows progress: callers pass a function for that.
"""
