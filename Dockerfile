# minigpt in a container, for CPUs:
#     docker build -t minigpt .
# and for NVIDIA GPUs, with the libraries of CUDA:
#     docker build -t minigpt-gpu --build-arg EXTRAS=gpu,serve .
# Runs are in the volume: docker run --rm -v "$PWD/runs:/home/minigpt/runs" minigpt train
# Any image with Python 3.11 to 3.13 can be the base.
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
ARG EXTRAS=serve
WORKDIR /source
COPY . .
RUN python3 -m venv /opt/minigpt
RUN PIP_CONSTRAINT=constraints.txt /opt/minigpt/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM ${BASE}
COPY --from=build /opt/minigpt /opt/minigpt
RUN useradd --uid 1000 --create-home minigpt && install --directory --owner minigpt /home/minigpt/runs
USER minigpt
WORKDIR /home/minigpt
VOLUME /home/minigpt/runs
ENV PATH=/opt/minigpt/bin:$PATH
EXPOSE 8000
ENTRYPOINT ["minigpt"]
CMD ["--help"]
