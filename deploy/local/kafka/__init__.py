"""The embedded broker: real Apache Kafka as a child process, with pip as the only prerequisite.

Owns the jars, the data directory, the server settings and the process. Must not know the topics,
the clients or the command line.
"""

from deploy.local.kafka.broker import Broker, start_broker
from deploy.local.kafka.configuration import Security

__all__ = ["Broker", "Security", "start_broker"]
