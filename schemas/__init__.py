"""What travels: messages, topics, wire and metadata formats, errors.

Knows no client library, no clock and no process; every other package imports it, it imports none.
"""
