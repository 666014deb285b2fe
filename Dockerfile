# One image for all of Airflow's services and for Spark's master and worker; `docker-compose.yaml` shows how.
# docker build .                    the image
# docker build --target s3 .        the S3 server of docker-compose.yaml, made to run without root

FROM python:3.11-slim-bookworm AS base
# procps: Spark's start scripts ask ps
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --home-dir /var/lib/airflow --create-home --shell /usr/sbin/nologin tidemark
WORKDIR /opt/tidemark
# The same path on every architecture: /usr/lib/jvm/java-17-openjdk-amd64 or -arm64
RUN ln -s /usr/lib/jvm/java-17-openjdk-* /usr/lib/jvm/java
ENV PATH=/opt/tidemark/.venv/bin:$PATH \
    JAVA_HOME=/usr/lib/jvm/java \
    SPARK_HOME=/opt/tidemark/.venv/lib/python3.11/site-packages/pyspark \
    PYTHONUNBUFFERED=1

FROM base AS build
RUN python -m venv .venv && pip install --no-cache-dir uv
# From the lock, and by `uv pip sync`: see CONTRIBUTING.md, "The lock". Compiled here: the user who runs it cannot write
# where the packages are, and each task would compile a thousand modules.
ENV UV_COMPILE_BYTECODE=true
COPY requirements.txt ./
RUN uv pip sync --no-cache --python .venv/bin/python requirements.txt
COPY pyproject.toml README.md ./
COPY include/tidemark include/tidemark
RUN uv pip install --no-cache --no-deps --python .venv/bin/python . \
    && TIDEMARK_JARS=/opt/tidemark/jars python -m tidemark.lake.jars

FROM base AS tidemark
COPY --from=build /opt/tidemark/.venv .venv
COPY --from=build /opt/tidemark/jars jars
COPY dags dags
COPY jobs jobs
COPY plugins plugins
COPY scripts scripts
COPY include/feeds include/feeds
ENV AIRFLOW_HOME=/var/lib/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/tidemark/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/tidemark/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    SPARK_LAUNCHER_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" \
    SPARK_WORKER_DIR=/tmp/spark-work \
    TIDEMARK_HOME=/opt/tidemark \
    TIDEMARK_JARS=/opt/tidemark/jars
USER 10001:10001

# A new volume takes its owner from the folder it is mounted on.
FROM versity/versitygw:v1.7.0 AS s3
RUN mkdir -p /data && chown 10001:10001 /data
USER 10001:10001

# The default target
FROM tidemark
