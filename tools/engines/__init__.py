"""Runs drafter variants through the real SGLang and vLLM on a CPU and records what each engine did with them.

``python -m tools.engines`` drives it (see ``__main__``); ``run_sglang``, ``run_vllm``, ``apart``, ``raw`` and ``sglang_plugin`` run
inside the engine's own environment and import nothing of this project, the others in the project's.
"""
