"""Deciding and keeping state: the policy, the router, the control plane."""
