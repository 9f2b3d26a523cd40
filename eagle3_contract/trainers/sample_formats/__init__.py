"""The containers of training samples, one leaf each, recognised by their keys and shapes."""
