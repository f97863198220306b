"""The demo: one of every kind of request through the whole local stack, and what became of each.

Owns the traffic and the account of it. Must not know how anything is shown.
"""
