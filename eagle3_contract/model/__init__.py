"""The vocabulary of the domain: states of the target, wiring of the drafter, vocab map, and the contract that states them."""
