"""The machinery by which a process owns partitions exactly once.

Router and executor share it: group membership, fetching, fencing, transactions and offsets. It
knows nothing of requests, policies or backends; a role hands in a `Lane` and gets records and a
producer.
"""
