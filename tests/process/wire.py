"""Decoding of OpenTelemetry requests with the official definitions."""

from __future__ import annotations


def otlp(body: bytes) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return the gauges of a run by name and by the label other than the run, and the resource attributes."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    request = ExportMetricsServiceRequest()
    request.ParseFromString(body)
    (resource,) = request.resource_metrics
    found: dict[str, dict[str, float]] = {}
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            for point in metric.gauge.data_points:
                labels = {attribute.key: attribute.value.string_value for attribute in point.attributes}
                del labels["run"]
                found.setdefault(metric.name, {})["".join(labels.values())] = point.as_double
    return found, {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
