#!/usr/bin/env bash
# An environment with the real SGLang 0.5.23 for a CPU without AMX (about 2.8 GB). Usage: setup_sglang.sh VENV
# sglang pins a CUDA build of torch, so it comes without its dependencies, and those that this path imports are named one by one.
set -euo pipefail
venv=${1:?the folder of the environment}
test -x "$venv/bin/python" || "${PYTHON:-python3}" -m venv "$venv"
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
install torch==2.13.0 numpy
install --no-deps sglang==0.5.23 torchvision==0.28.0 triton==3.9.0 xgrammar==0.2.7 dill soundfile
install transformers==5.19.0 tokenizers==0.23.2 safetensors compressed-tensors==0.18.0 apache-tvm-ffi==0.1.11 blobfile==3.0.0 openai-harmony==0.0.4 \
  aiohttp cffi distro easydict einops fastapi gguf interegular ipython jsonschema llguidance msgspec openai orjson packaging \
  partial-json-parser pillow prometheus-client psutil pybase64 pydantic python-dateutil python-multipart pyzmq regex requests scipy sentencepiece \
  setproctitle tiktoken tqdm uvicorn uvloop watchfiles xxhash zstandard
touch "$venv/.ready"
