"""What benchmarks measure with: where they run, what they send, what they read back and recount."""
