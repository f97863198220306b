"""Engines that run a payload; a node knows them only by the protocol in `base`."""
