# The dashboard of a runs directory, without a training environment:
#
#   docker build -t leadline-ui .
#   docker run --rm -p 8321:8321 -e LEADLINE_TOKEN -v /shared/runs:/runs:ro leadline-ui

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(ls /wheels/leadline-*.whl)[ui]" && useradd --create-home leadline
USER leadline
VOLUME /runs
EXPOSE 8321
ENTRYPOINT ["leadline", "ui", "/runs", "--host", "0.0.0.0", "--port", "8321"]
CMD ["--read-only"]
