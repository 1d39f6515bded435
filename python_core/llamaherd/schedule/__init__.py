"""Which request runs when: decisions only."""
