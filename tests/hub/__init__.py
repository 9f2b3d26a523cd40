"""Repositories of the Hugging Face Hub as inputs, against a Hub on the loopback device."""
