"""What comes over the wire in OpenTelemetry's form, read by its own definitions."""

from __future__ import annotations


def otlp(body: bytes) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """The gauges of a run, by name and by the label that is not the run; and what sent them."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    request = ExportMetricsServiceRequest()
    request.ParseFromString(body)
    (resource,) = request.resource_metrics
    found: dict[str, dict[str, float]] = {}
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            for point in metric.gauge.data_points:
                labels = {each.key: each.value.string_value for each in point.attributes}
                del labels["run"]
                found.setdefault(metric.name, {})["".join(labels.values())] = point.as_double
    return found, {each.key: each.value.string_value for each in resource.resource.attributes}
