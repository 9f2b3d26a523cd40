"""What a model card says about a drafter, from its contract and the engines' readings of it."""
