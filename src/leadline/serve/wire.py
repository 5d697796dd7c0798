"""The wire protocols: awsJson1.1 of SageMaker and CloudWatch Logs, and the query protocol of STS, IAM and SNS."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs
from xml.etree import ElementTree

from botocore.model import OperationModel, Shape

from leadline.records.json_object import JsonObject
from leadline.serve.answer import Answer
from leadline.serve.api_error import ApiError
from leadline.serve.service_model import service_model, validate

JSON: Final = "application/x-amz-json-1.1"
_FORM: Final = "application/x-www-form-urlencoded"
_XML: Final = "text/xml"
_NUMBER: Final = re.compile(r"[0-9]{1,20}")
_POSITION: Final = re.compile(r"[0-9]{1,9}")
_TARGETS: Final = {"SageMaker": "sagemaker", "Logs_20140328": "logs"}
_QUERY_SERVICES: Final = ("sts", "iam", "sns")


@dataclass(frozen=True, slots=True)
class Call:
    """A valid request of one operation."""

    service: str
    operation: OperationModel
    request: JsonObject


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is sent back."""

    status: int
    media_type: str
    body: bytes


def decode(headers: Mapping[str, str], body: bytes) -> Call:
    """Return the call that a request makes.

    Args:
        headers: By lower-case name.
    Raises:
        ApiError: It is no valid request of an operation that the services have.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == _FORM:
        return _decode_query(body)
    if media_type != JSON:
        raise ApiError("SerializationException", f"the Content-Type must be {JSON}, not {media_type or 'empty'}")
    prefix, _, name = headers.get("x-amz-target", "").partition(".")
    service = _TARGETS.get(prefix, "")
    if not service or name not in service_model(service).operation_names:
        raise unknown_operation(headers.get("x-amz-target", ""))
    operation = service_model(service).operation_model(name)
    request = _parse_json(body)
    validate(operation, request)
    return Call(service, operation, _without_null(request))


def _without_null(value: Any) -> Any:
    """Return a value without members that are null, which means the same as not given."""
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def unknown_operation(name: str) -> ApiError:
    """The error for an operation that does not exist here."""
    return ApiError("UnknownOperationException", f"leadline serve has no operation {name[:100]!r}")


def _parse_json(body: bytes) -> Any:
    try:
        request = json.loads(body or b"{}", parse_constant=_refuse_constant)
        json.dumps(request, ensure_ascii=False).encode()  # no lone surrogates, which no file and no database stores
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError("SerializationException", f"the body is not valid JSON: {reason[:200]}") from None
    if any("\0" in text for text in _texts(request)):  # neither arguments nor variables of a process contain it
        raise ApiError("SerializationException", "the body contains the character U+0000")
    return request


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (text for item in value for text in _texts(item))
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for item in pair for text in _texts(item))


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")


def _decode_query(body: bytes) -> Call:
    """Decode a request of the query protocol."""
    try:
        fields = {name: values[-1] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
    except ValueError:
        raise ApiError("MalformedQueryString", "the body is not form-encoded") from None
    action, version = fields.pop("Action", ""), fields.pop("Version", "")
    for service in _QUERY_SERVICES:
        model = service_model(service)
        if version == model.api_version and action in model.operation_names:
            operation = model.operation_model(action)
            request = _of_form(fields, operation.input_shape)
            validate(operation, request)
            return Call(service, operation, request)
    raise ApiError("InvalidAction", f"leadline serve has no operation {action[:100]!r} of version {version[:20]!r}")


def _of_form(fields: Mapping[str, str], shape: Shape | None) -> JsonObject:
    """Return the members of a request, whose keys are paths: ``Name.member.N`` in a list, ``Name.entry.N`` in a map."""
    tree: JsonObject = {}
    for path, text in fields.items():
        *above, last = path.split(".")
        place = tree
        for part in above:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ApiError("MalformedQueryString", f"{path[:100]} is given beside {part}")
            place = inner
        place[last] = text
    request = _of_tree(tree, shape) if shape is not None else tree
    return request if isinstance(request, dict) else {}


def _of_tree(value: Any, shape: Shape) -> Any:
    """Return a value of the model; one of another form stays as it is, and is refused by its validation."""
    if isinstance(value, str):
        if shape.type_name in ("integer", "long") and _NUMBER.fullmatch(value):
            return int(value)
        return value == "true" if shape.type_name == "boolean" and value in ("true", "false") else value
    if shape.type_name == "structure":
        return {
            name: _of_tree(part, shape.members[name]) if name in shape.members else part for name, part in value.items()
        }
    wrapper = {"list": "member", "map": "entry"}.get(shape.type_name, "")
    numbered = value.get(wrapper)
    if not isinstance(numbered, dict) or not all(map(_POSITION.fullmatch, numbered)):
        return value
    parts = [numbered[number] for number in sorted(numbered, key=int)]
    if shape.type_name == "list":
        return [_of_tree(part, shape.member) for part in parts]
    key, name = (
        part.serialization.get("name", default) for part, default in ((shape.key, "key"), (shape.value, "value"))
    )
    if not all(isinstance(part, dict) and isinstance(part.get(key), str) and name in part for part in parts):
        return value
    return {part[key]: _of_tree(part[name], shape.value) for part in parts}


def encode(call: Call, result: Answer | None) -> HttpAnswer:
    """Return the answer of an operation."""
    if call.service in _QUERY_SERVICES:
        return HttpAnswer(200, _XML, _encode_query(call.operation, result or {}))
    return HttpAnswer(200, JSON, b"" if result is None else json.dumps(result).encode())


def encode_error(headers: Mapping[str, str], error: ApiError) -> HttpAnswer:
    """Return the answer of a request that is refused, in the protocol of the request."""
    if not headers.get("content-type", "").startswith(_FORM):
        body = json.dumps({"__type": error.code, "message": str(error)}).encode()
        return HttpAnswer(error.status, JSON, body)
    root = ElementTree.Element("ErrorResponse")
    element = ElementTree.SubElement(root, "Error")
    for name, text in (("Type", "Sender"), ("Code", error.code), ("Message", _printable(str(error)))):
        ElementTree.SubElement(element, name).text = text
    ElementTree.SubElement(root, "RequestId").text = new_request_id()
    return HttpAnswer(error.status, _XML, ElementTree.tostring(root))


def _printable(text: str) -> str:
    """Return a text without the characters that XML cannot contain."""
    return "".join(character if character.isprintable() else " " for character in text)


def new_request_id() -> str:
    """Return the id of a request."""
    return secrets.token_hex(16)


def _encode_query(operation: OperationModel, result: Mapping[str, Any]) -> bytes:
    root = ElementTree.Element(f"{operation.name}Response", xmlns=operation.service_model.metadata["xmlNamespace"])
    shape = operation.output_shape
    if shape is not None:
        wrapper = shape.serialization.get("resultWrapper", f"{operation.name}Result")
        _add(ElementTree.SubElement(root, wrapper), shape, result)
    ElementTree.SubElement(ElementTree.SubElement(root, "ResponseMetadata"), "RequestId").text = new_request_id()
    return ElementTree.tostring(root)


def _add(element: ElementTree.Element, shape: Shape, value: Any) -> None:
    if shape.type_name == "structure":
        for name, item in value.items():
            _add(ElementTree.SubElement(element, name), shape.members[name], item)
    elif shape.type_name == "list":
        for item in value:
            _add(ElementTree.SubElement(element, "member"), shape.member, item)
    else:
        element.text = str(value).lower() if isinstance(value, bool) else str(value)
