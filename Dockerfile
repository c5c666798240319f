# Palaestra in a container, for CPUs:        docker build -t palaestra .
# For NVIDIA GPUs (driver 580 or newer):     docker build -t palaestra:cuda --build-arg TORCH="torch --index-url https://download.pytorch.org/whl/cu130" .
# docs/guides/machines/docker.md shows how to use it.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv git ca-certificates
RUN python3 -m venv /opt/palaestra
ARG TORCH="torch --index-url https://download.pytorch.org/whl/cpu"
RUN /opt/palaestra/bin/pip install --no-cache-dir ${TORCH}
ARG EXTRAS="classic,pettingzoo,view,tune"
COPY . /src
RUN /opt/palaestra/bin/pip install --no-cache-dir "/src[${EXTRAS}]"
RUN find /opt/palaestra -name __pycache__ -prune -exec rm -r {} +

FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends python3 xvfb && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --create-home palaestra && mkdir /work && chown palaestra:palaestra /work
COPY container/with-display /usr/local/bin/with-display
COPY --from=build /opt/palaestra /opt/palaestra
ENV PATH=/opt/palaestra/bin:/usr/local/bin:/usr/bin:/bin HOME=/work/.home
USER palaestra
WORKDIR /work
EXPOSE 8600 6006 5004
ENTRYPOINT ["with-display", "palaestra"]
CMD ["help"]
