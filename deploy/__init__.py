"""What puts the parts together: the command line and everything that runs on one machine.

Imports every other package; none of them imports it.
"""
