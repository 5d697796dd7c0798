"""Prints number, total duration in ns and number of stats of the events of an XSpace, as TensorFlow parses it."""

import json
import sys

from tensorflow.tsl.profiler.protobuf import xplane_pb2

space = xplane_pb2.XSpace()
with open(sys.argv[1], "rb") as file:
    space.ParseFromString(file.read())
found: dict[str, list[int]] = {}
for plane in space.planes:
    for line in plane.lines:
        for event in line.events:
            name = f"{plane.name} {line.display_name or line.name} {plane.event_metadata[event.metadata_id].name}"
            entry = found.setdefault(name, [0, 0, 0])
            entry[0] += 1
            entry[1] += event.duration_ps // 1000
            entry[2] += len(event.stats)
print(json.dumps(found))
