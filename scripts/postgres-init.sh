#!/bin/sh
# Run by the PostgreSQL image on a new volume: the lake's catalog gets a user and a database of its own.
set -eu
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 --set password="$LAKE_PASSWORD" <<'SQL'
CREATE USER lake PASSWORD :'password';
CREATE DATABASE lake OWNER lake;
SQL
