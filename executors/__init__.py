"""Nodes: take work from pool topics, run it on a backend, write what became of it.

Functional core (work, ledger, heap, slots, retry, outcome), thin shell (lane, dispatcher, node).
"""
