# syntax=docker/dockerfile:1
# Two images. `static` (check, read, show, guard on files) has no torch; `full` also runs the drafter and a transformers target.
#   docker build --target static -t eagle3-contract:0.1.0-static .
#   docker build --target full   -t eagle3-contract:0.1.0 .
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY contract contract
COPY eagle3_contract eagle3_contract
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim AS base
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN useradd --create-home --uid 10001 contract
WORKDIR /work

FROM base AS full
RUN python -m pip install --no-cache-dir --constraint /tmp/constraints.txt torch \
    && python -m pip install --no-cache-dir --constraint /tmp/constraints.txt "$(ls /wheels/*.whl)[transformers]" \
    && rm -r /wheels /tmp/constraints.txt
USER contract
ENTRYPOINT ["contract"]
CMD ["--help"]

# The last stage is what a plain `docker build .` makes.
FROM base AS static
RUN python -m pip install --no-cache-dir --constraint /tmp/constraints.txt /wheels/*.whl \
    && rm -r /wheels /tmp/constraints.txt
USER contract
ENTRYPOINT ["contract"]
CMD ["--help"]
