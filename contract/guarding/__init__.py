"""The guard before a server: verify what is about to be served, as it is about to be served."""
