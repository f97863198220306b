"""The simulator: the policy that routes, in virtual time, on public traces and made-up hardware."""
