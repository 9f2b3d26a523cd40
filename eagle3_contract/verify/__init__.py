"""The dynamic depth: the drafter's forward on the training path and on the inference path, and what tells them apart."""
