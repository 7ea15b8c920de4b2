# SPDX-License-Identifier: Apache-2.0
# The command `meshlo`, the C library and its headers on Debian 12:
#     docker build -t meshlo . && docker run --rm -v "$PWD:/work" meshlo emulate step.hlo --on v5e-16
FROM debian:12-slim AS build
COPY . /source
WORKDIR /source
RUN apt-get update && ./setup build && rm -rf /var/lib/apt/lists/*
RUN cmake --preset release -DMESHLO_TESTS=OFF -DMESHLO_EXAMPLES=OFF -DMESHLO_BENCHMARKS=OFF && \
    cmake --build --preset release && \
    DESTDIR=/installed cmake --install build/release --prefix /usr/local --strip

FROM debian:12-slim
RUN apt-get update && \
    apt-get install --yes --no-install-recommends libxml2 libhwloc15 liblzma5 zlib1g libzstd1 \
        libopenblas0-pthread libucx0 libnettle8 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /installed/ /
RUN ldconfig
WORKDIR /work
ENTRYPOINT ["meshlo"]
