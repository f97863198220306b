"""The router: takes `requests` and `retry`, decides, and republishes in one transaction a batch.

Read it in this order: `intake` (what a record is), `batch` (what becomes of it), `lane` (one input
partition), `service` (the process). Nothing here knows a policy's rules.
"""
