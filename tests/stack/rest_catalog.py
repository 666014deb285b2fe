"""A REST catalog over HTTP: Iceberg's own handlers on a catalog in SQLite, in a JVM of their own. It gives tokens for a
password, and answers nobody without one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway
from py4j.protocol import Py4JJavaError

from tidemark.lake.spark_conf import spark_home

CLIENT, SECRET = "tidemark", "s3cr3t & more"
_ICEBERG = "org.apache.iceberg"
#: By what Iceberg throws, the answer that its REST specification asks for.
_STATUS = {
    "NoSuchTableException": 404, "NoSuchNamespaceException": 404, "NoSuchViewException": 404, "AlreadyExistsException": 409,
    "NamespaceNotEmptyException": 409, "CommitFailedException": 409, "ValidationException": 400,
    "IllegalArgumentException": 400, "UnsupportedOperationException": 406,
}  # fmt: skip


class Catalog:
    """Iceberg's catalog and its handlers, called by their REST names."""

    def __init__(self, gateway: JavaGateway, folder: Path, warehouse: str) -> None:
        self._gateway, self._jvm = gateway, gateway.jvm
        conf = {"uri": f"jdbc:sqlite:{folder}/rest.db", "warehouse": warehouse, "jdbc.schema-version": "V1"}
        hadoop = self._jvm.org.apache.hadoop.conf.Configuration()
        self._catalog = self._jvm.org.apache.iceberg.CatalogUtil.loadCatalog(
            f"{_ICEBERG}.jdbc.JdbcCatalog", "rest", conf, hadoop
        )
        self._handlers = self._jvm.org.apache.iceberg.rest.CatalogHandlers
        jackson = self._jvm.org.apache.iceberg.shaded.com.fasterxml.jackson
        self._mapper = jackson.databind.ObjectMapper()
        self._mapper.setVisibility(
            jackson.annotation.PropertyAccessor.FIELD,
            getattr(self._jvm, f"{_ICEBERG}.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect$Visibility").ANY,
        )
        naming = f"{_ICEBERG}.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies$KebabCaseStrategy"
        self._mapper.setPropertyNamingStrategy(getattr(self._jvm, naming)())
        self._jvm.org.apache.iceberg.rest.RESTSerializers.registerAll(self._mapper)

    def answer(self, method: str, path: list[str], body: str) -> str:
        """The answer's JSON; empty where there is none."""
        handlers, catalog = self._handlers, self._catalog
        match method, path:
            case "GET", ["namespaces"]:
                found = handlers.listNamespaces(catalog, self._namespace(""))
            case "POST", ["namespaces"]:
                found = handlers.createNamespace(catalog, self._read(body, "CreateNamespaceRequest"))
            case "GET", ["namespaces", namespace]:
                found = handlers.loadNamespace(catalog, self._namespace(namespace))
            case "DELETE", ["namespaces", namespace]:
                found = handlers.dropNamespace(catalog, self._namespace(namespace))
            case "POST", ["namespaces", namespace, "properties"]:
                wanted = self._read(body, "UpdateNamespacePropertiesRequest")
                found = handlers.updateNamespaceProperties(catalog, self._namespace(namespace), wanted)
            case "GET", ["namespaces", namespace, "tables"]:
                found = handlers.listTables(catalog, self._namespace(namespace))
            case "POST", ["namespaces", namespace, "tables"]:
                wanted = self._read(body, "CreateTableRequest")
                create = handlers.stageTableCreate if wanted.stageCreate() else handlers.createTable
                found = create(catalog, self._namespace(namespace), wanted)
            case "GET", ["namespaces", namespace, "tables", table]:
                every = getattr(self._jvm, f"{_ICEBERG}.rest.RESTCatalogProperties$SnapshotMode").ALL
                found = handlers.loadTable(catalog, self._table(namespace, table), every)
            case "POST", ["namespaces", namespace, "tables", table]:
                wanted = self._jvm.org.apache.iceberg.rest.requests.UpdateTableRequestParser.fromJson(body)
                found = handlers.updateTable(catalog, self._table(namespace, table), wanted)
            case "DELETE", ["namespaces", namespace, "tables", table]:
                found = handlers.dropTable(catalog, self._table(namespace, table))
            case _:
                raise LookupError(f"{method} {path}")
        return "" if found is None else str(self._mapper.writeValueAsString(found))

    def _read(self, body: str, request: str) -> JavaObject:
        kind = self._jvm.java.lang.Class.forName(f"{_ICEBERG}.rest.requests.{request}")
        found = self._mapper.readValue(body, kind)
        found.validate()
        return found

    def _namespace(self, name: str) -> JavaObject:
        names = [level for level in name.split("\x1f") if level]
        levels = self._gateway.new_array(self._jvm.String, len(names))
        for number, level in enumerate(names):
            levels[number] = level
        return self._jvm.org.apache.iceberg.catalog.Namespace.of(levels)

    def _table(self, namespace: str, name: str) -> JavaObject:
        return self._jvm.org.apache.iceberg.catalog.TableIdentifier.of(self._namespace(namespace), name)


class _Handler(BaseHTTPRequestHandler):
    catalog: Catalog
    tokens: set[str]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_GET

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        _, version, *path = [unquote(part) for part in urlsplit(self.path).path.split("/")]
        try:
            status, text = 200, self._found(version, path, body)
        except PermissionError:
            status, text = 401, _error(401, "NotAuthorizedException", "no token of ours")
        except LookupError as error:
            status, text = 404, _error(404, "NoSuchEndpoint", str(error))
        except Py4JJavaError as error:
            kind = str(error.java_exception.getClass().getSimpleName())
            status = _STATUS.get(kind, 500)
            text = _error(status, kind, str(error.java_exception.getMessage()))
        self.send_response(status if text else 204)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _found(self, version: str, path: list[str], body: str) -> str:
        if version != "v1":
            raise LookupError(version)
        if path == ["oauth", "tokens"]:
            asked = {name: values[0] for name, values in parse_qs(body).items()}
            if (asked.get("client_id"), asked.get("client_secret")) != (CLIENT, SECRET):
                raise PermissionError
            self.tokens.add(token := secrets.token_hex())
            return json.dumps({"access_token": token, "token_type": "bearer", "expires_in": 3600})
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            raise PermissionError
        if path == ["config"]:
            return json.dumps({"defaults": {}, "overrides": {}})
        return self.catalog.answer(self.command, path, body)

    def log_message(self, format: str, *args: Any) -> None:
        """The tests' output is no place for it."""


def _error(status: int, kind: str, message: str) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "code": status}})


@contextmanager
def serve(folder: Path, warehouse: str, jars: Path) -> Iterator[str]:
    """Its address, while it serves."""
    paths = [*sorted(map(str, jars.glob("*.jar"))), *sorted(map(str, (spark_home() / "jars").glob("*.jar")))]
    port, token = launch_gateway(
        classpath=":".join(paths), die_on_exit=True, enable_auth=True, javaopts=["-Xmx512m", "-XX:+UseSerialGC"]
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    handler = type("Handler", (_Handler,), {"catalog": Catalog(gateway, folder, warehouse), "tokens": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        gateway.shutdown()
