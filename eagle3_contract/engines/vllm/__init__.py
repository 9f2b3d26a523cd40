"""Live capture from vLLM: hooks, worker extension, plugin, and the runner that is started in vLLM's own environment.

What runs inside the engine (everything here but ``plugin``'s gate) imports nothing but vLLM, torch, safetensors and the standard library.
"""
