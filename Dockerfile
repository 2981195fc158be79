# Two images: docker build --target cpu .   and   docker build --target gpu .   (docs/install.md)
#
# The build context is what git tracks, less .dockerignore. Nothing secret goes in: no build argument holds a
# credential, and the images run as a user who may write to /data only. The base is named by its digest.

FROM python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/transload
ENV PATH=/opt/transload/bin:$PATH
WORKDIR /src

# pip reads this by itself: PyTorch's index of CPU wheels, whose files constraints.lock names by their hashes.
FROM base AS build-cpu
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
COPY . .
RUN .ci/install-locked python

# No set of this one is known by hashes, only by versions. CUDA and cuDNN come as wheels: the host needs the driver and the NVIDIA container toolkit, the image needs neither.
FROM base AS build-gpu
ARG PIP_EXTRA_INDEX_URL
COPY . .
RUN pip install ".[gpu]" -c constraints.txt

FROM python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS run
RUN useradd --uid 10001 --create-home transload && install -d -o transload -g transload /data
ENV PYTHONUNBUFFERED=1 PATH=/opt/transload/bin:$PATH
WORKDIR /data
VOLUME /data
EXPOSE 8500 8501
# For `serve`: healthy when every model answers (/healthz tells of the process alone), which may take long to load them.
# A container that does a `run` has no server and no use for it: docker run --no-healthcheck.
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/v2/health/ready', timeout=4)"]
ENTRYPOINT ["transload"]
CMD ["--help"]

FROM run AS gpu
COPY --from=build-gpu /opt/transload /opt/transload
USER 10001

FROM run AS cpu
COPY --from=build-cpu /opt/transload /opt/transload
USER 10001
