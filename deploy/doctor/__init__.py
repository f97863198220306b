"""What keeps an installation from working, found before it does harm: findings, each with a cure.

The parts look, `finding` says what they found; none of them changes anything, and none prints.
"""
