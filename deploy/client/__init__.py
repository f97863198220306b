"""What a user of the topics does: send requests, read terminal records, judge that none is missing.

Needs nothing but Kafka and `schemas`; knows no role and no command line.
"""
